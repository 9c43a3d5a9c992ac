# Hosts prove to each other who they are by libsodium.
skip_without_crypto <- function() {
  if (!.Call(regatta:::ffi_crypto_available)) testthat::skip("built without libsodium")
}

# An sshd of our own on loopback that lets this user in, stopped at the end of the caller: a command for
# cluster_ssh(ssh = ). The nodes find the library that is tested by `remote_env()`. `wrap` is a command to run it
# with.
local_sshd <- function(frame = parent.frame(), wrap = character()) {
  skip_unless_linux()
  if (!is_root()) testthat::skip("an sshd of our own needs root")
  skip_without_crypto()
  sshd <- c(Sys.which("sshd"), "/usr/sbin/sshd")
  sshd <- unname(sshd[nzchar(sshd) & file.exists(sshd)])[1L]
  if (is.na(sshd)) testthat::skip("no sshd")
  skip_unless_command("ssh")
  folder <- withr::local_tempdir("sshd-", .local_envir = frame)
  Sys.chmod(folder, "700", use_umask = FALSE)
  at <- function(name) file.path(folder, name)
  for (key in c("host_key", "user_key")) {
    system2("ssh-keygen", c("-q", "-t", "ed25519", "-N", "''", "-f", at(key)))
  }
  file.copy(at("user_key.pub"), at("authorized_keys"))
  dir.create("/run/sshd", showWarnings = FALSE)
  port <- free_ports()
  writeLines(c(
    paste("Port", port), "ListenAddress 127.0.0.1", paste("HostKey", at("host_key")),
    paste("AuthorizedKeysFile", at("authorized_keys")), "PasswordAuthentication no",
    "KbdInteractiveAuthentication no", "UsePAM no", "StrictModes no", "MaxStartups 100",
    "MaxSessions 100", paste("PidFile", at("pid"))
  ), at("sshd_config"))
  writeLines(c(
    paste("IdentityFile", at("user_key")), paste("Port", port), "StrictHostKeyChecking accept-new",
    paste("UserKnownHostsFile", at("known_hosts")), "LogLevel ERROR"
  ), at("config"))
  command <- c(wrap, sshd, "-D", "-f", at("sshd_config"))
  process <- withr::with_preserve_seed(
    do.call(processx::process$new, list(command[[1L]], command[-1L], stderr = at("log")))
  )
  withr::defer(
    {
      process$kill()
      process$wait(5000)
    },
    envir = frame
  )
  wait_until(tryCatch(
    {
      close(socket_connect(port, timeout = 1))
      TRUE
    },
    regatta_error_socket = function(e) FALSE
  ))
  c("ssh", "-F", at("config"))
}

remote_env <- function(folder = tempdir()) {
  c(R_LIBS = paste(.libPaths(), collapse = ":"), R_TESTS = "", TMPDIR = folder)
}

# With a folder of their own for workers that may be killed.
local_remote_env <- function(frame = parent.frame()) remote_env(local_node_folder(frame))

# This R, whatever the PATH of the other side says.
remote_rscript <- function() c(file.path(R.home("bin"), "Rscript"), "--vanilla")

# Its processes have gone when this returns.
stop_remote <- function(cluster) {
  if (regatta:::remote_is_stopped(pool_of(cluster))) {
    return(invisible())
  }
  pids <- c(cluster_status(cluster)$pid, agent_pids(cluster))
  parallel::stopCluster(cluster)
  wait_until(function() !any(vapply(pids, is_running, NA)), what = "the end of the workers")
}

# Agents on this machine without sshd: "ssh" is a script that runs what it is told in `wrap`. One for each of
# `workers`.
local_shell_cluster <- function(..., frame = parent.frame()) {
  skip_without_crypto()
  skip_unless_linux()
  started <- shell_cluster_start(...)
  withr::defer(started$stop(), envir = frame)
  started$cluster
}

# The same for several tests: a list of `cluster` and of `stop`, a function.
shell_cluster_start <- function(workers = 2, wrap = "", address = "127.0.0.1", deadline = 20, ...) {
  folder <- node_folder()
  cluster <- cluster_ssh(
    paste0("host", seq_along(workers)), workers, rscript = remote_rscript(), env = remote_env(folder),
    ssh = write_shell_script(file.path(folder, "ssh"), wrap), tunnel = FALSE, address = address,
    timeout = 60 * slowness(), deadline = deadline, ...
  )
  list(cluster = cluster, stop = function() {
    stop_remote(cluster)
    node_folder_remove(folder)
  })
}

# A folder to be TMPDIR of agents and workers: what those that are killed leave there goes with it. It is removed
# when the last of them has ended, also those that a test does not know by their pid.
local_node_folder <- function(frame = parent.frame()) {
  folder <- node_folder()
  withr::defer(node_folder_remove(folder), envir = frame)
  folder
}

node_folder <- function() {
  folder <- tempfile("nodes-")
  dir.create(folder)
  folder
}

node_folder_remove <- function(folder) {
  wait_until(function() length(marked_pids(paste0("TMPDIR=", folder))) == 0L, what = paste("those in", folder))
  unlink(folder, recursive = TRUE)
}

# In place of ssh: runs its last argument here. `before` it there are lines of sh, to which $name is the host.
shell_script <- function(wrap = "", before = character(), frame = parent.frame()) {
  write_shell_script(withr::local_tempfile(.local_envir = frame), wrap, before)
}

write_shell_script <- function(path, wrap, before = character()) {
  arguments <- "for last; do name=$before; before=$last; done"
  writeLines(c("#!/bin/sh", arguments, before, sprintf("exec %s sh -c \"$last\"", wrap)), path)
  Sys.chmod(path, "755")
  path
}

agent_pids <- function(cluster) {
  hosts <- unclass(cluster)[[1L]]$pool$hosts
  unlist(lapply(hosts, function(host) if (host$state == "ready") host$facts$pid))
}

status_of <- function(cluster) cluster_status(cluster)$state

# A gate that is listened at, and what its visitors do; closed at the end of the caller.
local_gate <- function(n = 1, frame = parent.frame()) {
  skip_without_crypto()
  pool <- gate_start(n)
  withr::defer(gate_stop(pool), envir = frame)
  pool
}

# The same for several tests.
gate_start <- function(n = 1) {
  pool <- regatta:::remote_pool(
    rep(1L, n), paste("host", seq_len(n)), "127.0.0.1", 20, character(), function(...) list()
  )
  regatta:::remote_launch(pool, seq_len(n))
  pool
}

gate_stop <- function(pool) {
  for (host in pool$hosts) {
    if (!is.null(host$link)) .Call(regatta:::ffi_link_close, host$link, 0)
    host$link <- NULL
  }
  regatta:::remote_close(pool)
}

# The links of those who have been let in.
gate_links <- function(pool) Filter(Negate(is.null), lapply(pool$hosts, `[[`, "link"))

# Goes on with all handshakes until `cond` holds.
gate_until <- function(pool, cond) {
  wait_until(function() {
    regatta:::remote_admit(pool)
    cond()
  }, 30, deparse1(body(cond)))
}

visit <- function(pool, bytes = raw(), frame = parent.frame()) {
  socket <- socket_connect(pool$port, timeout = 20 * slowness())
  withr::defer(close(socket), envir = frame)
  if (length(bytes) > 0L) socket_write(socket, bytes)
  socket
}

# An agent in a forked process that proves `key` and says who it is, and ends when it is told to; tries
# again for `seconds`.
forked_agent <- function(pool, number = 0, key = pool$key, seconds = 0) {
  force(key)
  par_call(tryCatch(
    {
      settings <- regatta:::link_settings(20, TRUE)
      # A pause of the machine may take longer than there is for a handshake.
      repeat {
        connect <- function() regatta:::agent_connect("127.0.0.1", pool$port, key, number, seconds, settings)
        link <- tryCatch(connect(), regatta_error_socket = identity)
        if (!inherits(link, "error") || link$kind != "timeout") break
      }
      if (inherits(link, "error")) stop(link)
      regatta:::link_send(link, list(type = "JOIN", data = regatta:::agent_facts()))
      while (is.null(message <- regatta:::link_take(link)) || message$type != "DONE") {
        .Call(regatta:::ffi_link_wait, NULL, Inf)
      }
      0L
    },
    error = conditionMessage
  ), .control = two_workers())
}

# The thread that moves messages starts with the first link of a session and stays, with two pipes.
remote_warm <- function() {
  if (!.Call(regatta:::ffi_crypto_available)) return(invisible())
  pool <- local_gate()
  agent <- forked_agent(pool, seconds = 30)
  gate_until(pool, function() length(gate_links(pool)) == 1L)
  regatta:::link_send(gate_links(pool)[[1L]], list(type = "DONE"))
  par_value(agent)
}

# A Slurm of our own on this machine, with two "hosts" of two cores each, as in its manual for tests on one
# machine; stopped at the end of the caller. Variables of the environment by which its commands find it.
local_slurm <- function(frame = parent.frame()) {
  skip_unless_linux()
  if (!is_root()) testthat::skip("a Slurm of our own needs root")
  skip_without_crypto()
  for (command in c("slurmctld", "slurmd", "munged", "salloc")) {
    if (Sys.which(command) == "") testthat::skip(paste("no command", command))
  }
  if (!file.exists("/etc/munge/munge.key")) testthat::skip("no key of munge")
  base <- withr::local_tempdir("slurm-", tmpdir = "/tmp", .local_envir = frame)
  Sys.chmod(base, "755", use_umask = FALSE)
  withr::defer(system2("rm", c("-rf", base)), envir = frame) # unlink() leaves the socket of munge
  for (name in c("state", "spool", "log")) dir.create(file.path(base, name))
  system2("install", c("-d", "-o", "munge", "-g", "munge", "-m", "0711", file.path(base, "mg")))
  ports <- free_ports(4L)
  host <- sub("[.].*$", "", Sys.info()[["nodename"]])
  node <- "NodeName=n%d NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=2 RealMemory=500 State=UNKNOWN"
  writeLines(c(
    "ClusterName=loop", sprintf("SlurmctldHost=%s(127.0.0.1)", host), "SlurmUser=root",
    "SlurmdUser=root", "AuthType=auth/munge", sprintf("AuthInfo=socket=%s/mg/munge.socket", base),
    "CredType=cred/munge", sprintf("SlurmctldPort=%d", ports[[1L]]),
    sprintf("SlurmdPort=%d", ports[[2L]]), sprintf("StateSaveLocation=%s/state", base),
    sprintf("SlurmdSpoolDir=%s/spool/%%n", base), sprintf("SlurmctldPidFile=%s/slurmctld.pid", base),
    sprintf("SlurmdPidFile=%s/slurmd.%%n.pid", base),
    sprintf("SlurmctldLogFile=%s/log/slurmctld.log", base),
    sprintf("SlurmdLogFile=%s/log/slurmd.%%n.log", base), "ProctrackType=proctrack/linuxproc",
    "TaskPlugin=task/none", "SelectType=select/cons_tres", "SelectTypeParameters=CR_Core",
    "SwitchType=switch/none", "MpiDefault=none", "ReturnToService=2",
    "JobAcctGatherType=jobacct_gather/none", "AccountingStorageType=accounting_storage/none",
    "SlurmdParameters=config_overrides", "SlurmctldTimeout=30", "SlurmdTimeout=30", "MinJobAge=30", "KillWait=5",
    sprintf(node, 1L, host, ports[[3L]]), sprintf(node, 2L, host, ports[[4L]]),
    "PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP"
  ), file.path(base, "slurm.conf"))
  conf <- file.path(base, "slurm.conf")
  start <- function(...) {
    process <- withr::with_preserve_seed(processx::process$new(
      ..., stdout = file.path(base, "log", "out"), stderr = "2>&1"
    ))
    # One that is still ending would write to the folder that is about to go.
    withr::defer(
      {
        process$kill()
        process$wait(5000)
      },
      envir = frame
    )
  }
  start("setpriv", c(
    "--reuid=munge", "--regid=munge", "--clear-groups", "munged", "-F", "-f", "-S",
    file.path(base, "mg/munge.socket"), paste0("--pid-file=", base, "/mg/munged.pid"),
    paste0("--log-file=", base, "/mg/munged.log"), paste0("--seed-file=", base, "/mg/munge.seed"),
    "--key-file=/etc/munge/munge.key"
  ))
  start("slurmctld", c("-D", "-f", conf))
  for (name in c("n1", "n2")) start("slurmd", c("-D", "-N", name, "-f", conf))
  withr::local_envvar(SLURM_CONF = conf, .local_envir = frame)
  wait_until(function() {
    states <- suppressWarnings(system2("sinfo", c("-h", "-N", "-o", "%t"), stdout = TRUE, stderr = FALSE))
    sum(states == "idle") == 2L
  }, 30, "the hosts of Slurm")
}
