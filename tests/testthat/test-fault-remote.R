# Faults between the session, the hosts and what has brought the agents there.
withr::with_preserve_seed(remote_warm())
detritus <- detritus_snapshot()
on_remote <- function(...) par_control(progress = FALSE, dump = "no", seed = 1L, ...)

# A map in which the element that the worker `victim` takes first waits for ever, after `flag` is there. The
# session does `fault` then; the element is tried again elsewhere.
map_with_fault <- function(cluster, victim, fault, n = 12L) {
  flag <- withr::local_tempfile()
  done <- FALSE
  withCallingHandlers(
    par_lapply(seq_len(n), function(i) {
      if (Sys.getpid() %in% victim && !file.exists(flag)) {
        file.create(flag)
        message("fault")
        Sys.sleep(600)
      }
      Sys.sleep(0.02)
      runif(1)
    }, .on = cluster, .control = on_remote(batch = 1L, retries = 2)),
    message = function(m) {
      if (!done) fault()
      done <<- TRUE
      invokeRestart("muffleMessage")
    }
  )
}
undisturbed <- function(n = 12L) {
  control <- two_workers()
  par_lapply(seq_len(n), function(i) runif(1), .control = control)
}

test_that("a map goes on without a host that is cut off, and with it when it is back", {
  host <- local_far_host()
  cluster <- local_far_pair(host)
  for (how in c("down", "drop", "reset")) {
    pids <- c(cluster_status(cluster)$pid[[2L]], agent_pids(cluster)[[2L]])
    got <- map_with_fault(cluster, pids[[1L]], function() cut_off(host, how))
    expect_gt(length(par_last()$tries$index), 0L, label = how)
    expect_identical(got, undisturbed(), label = how)
    # its agent and worker notice it, too
    wait_until(!any(vapply(pids, is_running, NA)), 30)
    cut_off(host, how, undo = TRUE)
    wait_until(identical(status_of(cluster), c("idle", "idle")), 60)
    expect_identical(map_with_fault(cluster, integer(), identity), undisturbed())
  }
})

test_that("a short break of a link costs nothing", {
  host <- local_far_host()
  cluster <- local_far_pair(host, deadline = 20)
  flags <- withr::local_tempdir()
  broken <- FALSE
  got <- withCallingHandlers(
    par_lapply(1:4, function(i) {
      message("begun")
      while (!file.exists(file.path(flags, "mended"))) Sys.sleep(0.01)
      runif(1)
    }, .on = cluster, .control = on_remote(batch = 1L)),
    message = function(m) {
      if (!broken) {
        broken <<- TRUE
        cut_off(host, "down")
        file.create(file.path(flags, "mended"))
        Sys.sleep(1) # the values are sent meanwhile
        cut_off(host, "down", undo = TRUE)
      }
      invokeRestart("muffleMessage")
    }
  )
  expect_length(par_last()$tries$index, 0L)
  expect_identical(got, undisturbed(4L))
  expect_identical(pool_of(cluster)$hosts[[2L]]$life, 1)
})

test_that("a slow link or agent does what it can, and is not taken for one that is lost", {
  skip_unless_command("tc")
  host <- local_far_host()
  cluster <- local_far_pair(host, deadline = 2)
  agent <- agent_pids(cluster)[[2L]]
  slow <- c("qdisc", "add", "dev", host$near, "root", "tbf", "rate", "1mbit", "burst", "32kbit", "latency", "400ms")
  if (system2("tc", slow, stdout = FALSE, stderr = FALSE) != 0L) skip("no tbf here")
  # It crosses the link in more than the deadline, while the agent is stopped now and then.
  bytes <- withr::with_seed(1, as.raw(sample.int(256L, 5e5, TRUE) - 1L))
  use <- function(i) {
    while (i == 1L && !file.exists(done)) Sys.sleep(0.01)
    if (Sys.getpid() == far) file.create(done)
    list(Sys.getpid(), sum(as.integer(bytes)), runif(1))
  }
  done <- withr::local_tempfile()
  environment(use) <- list2env(
    list(bytes = bytes, done = done, far = cluster_status(cluster)$pid[[2L]]), parent = globalenv()
  )
  system(sprintf(
    "(while [ ! -e %s ] && kill -STOP %d; do sleep 0.4; kill -CONT %d; sleep 0.4; done) 2>/dev/null &",
    shQuote(done), agent, agent
  ))
  got <- par_lapply(1:12, use, .on = cluster, .control = on_remote(batch = 1L))
  expect_identical(vapply(got, `[[`, 0, 3L), unlist(undisturbed()))
  expect_identical(vapply(got, `[[`, 0L, 2L), rep(sum(as.integer(bytes)), 12L))
  expect_setequal(vapply(got, `[[`, 0L, 1L), cluster_status(cluster)$pid)
  expect_length(par_last()$tries$index, 0L)
  expect_identical(pool_of(cluster)$hosts[[2L]]$life, 1)
  tools::pskill(agent, tools::SIGCONT)
})

test_that("an agent that is stopped is given up, and ends when it goes on, if its cluster is there or not", {
  cluster <- local_shell_cluster(c(1, 1), deadline = 3)
  agent <- agent_pids(cluster)[[2L]]
  worker <- cluster_status(cluster)$pid[[2L]]
  withr::defer(if (is_running(agent)) tools::pskill(agent, tools::SIGCONT))
  got <- map_with_fault(cluster, worker, function() tools::pskill(agent, tools::SIGSTOP))
  expect_identical(got, undisturbed())
  tools::pskill(agent, tools::SIGCONT)
  wait_until(!is_running(agent) && !is_running(worker), 30)

  # one that comes when the cluster was stopped
  wait_until(identical(status_of(cluster), c("idle", "idle")), 60)
  pool <- pool_of(cluster)
  agent <- agent_pids(cluster)[[2L]]
  tools::pskill(agent, tools::SIGSTOP)
  wait_until({
    regatta:::remote_pump(pool, 0.05)
    pool$hosts[[2L]]$state == "launched"
  }, 60)
  tools::pskill(agent, tools::SIGCONT)
  stop_remote(cluster)
  expect_true(pool$stopped)
  # That nothing is left is seen from outside, when all tests of this file have ended.
})

test_that("an agent that is asked to end takes its folder with it, and the signal is told", {
  local_constant("remote_last_words", 60)
  cluster <- local_shell_cluster(c(1, 1))
  agent <- agent_pids(cluster)[[2L]]
  worker <- cluster_status(cluster)$pid[[2L]]
  folder <- sub("^TMPDIR=", "", grep("^TMPDIR=", environ_of(agent), value = TRUE))
  before <- list.files(folder, "^Rtmp")
  got <- map_with_fault(cluster, worker, function() tools::pskill(agent, tools::SIGTERM))
  expect_identical(got, undisturbed())
  wait_until(!is_running(agent) && !is_running(worker), 30)
  # That of the agent that has taken its place may have come.
  expect_length(intersect(list.files(folder, "^Rtmp"), before), length(before) - 1L)
  expect_match(pool_of(cluster)$hosts[[2L]]$reason, "ended by signal 15")
})

test_that("an agent that is asked to end before it has found its session takes its folder with it", {
  skip_without_crypto()
  skip_unless_linux()
  folder <- local_node_folder()
  rscript <- remote_rscript()
  for (signal in c(tools::SIGTERM, tools::SIGHUP)) {
    # Nobody speaks there. Each agent has one of its own: it tries more than once.
    server <- socket_server()
    withr::defer(close(server))
    line <- paste("127.0.0.1", socket_port(server), 0, strrep("0", 64L), 600, 20)
    agent <- withr::with_preserve_seed(processx::process$new(
      rscript[[1L]], c(rscript[-1L], "-e", "regatta:::agent_main()"),
      env = c("current", remote_env(folder), REGATTA_NODE = line)
    ))
    withr::defer(agent$kill())
    wait_until(socket_select(server, timeout = 0), 60)
    close(socket_accept(server))
    expect_length(list.files(folder), 1L)
    agent$signal(signal)
    agent$wait(30000 * slowness())
    expect_identical(agent$get_exit_status(), 128L + signal)
    expect_identical(list.files(folder), character())
  }
})

test_that("the signal is told where R has learnt first that its link is closed, too", {
  skip_without_crypto()
  skip_unless_linux()
  pool <- local_gate()
  rscript <- remote_rscript()
  line <- paste("127.0.0.1", pool$port, 0, paste(pool$key, collapse = ""), 600, 20)
  serve <- "function(link) {
    tryCatch(repeat Sys.sleep(1), interrupt = function(e) NULL)
    repeat regatta:::link_take(link)
  }"
  code <- sprintf("utils::assignInNamespace('agent_serve', %s, 'regatta'); regatta:::agent_main()", serve)
  folder <- local_node_folder()
  agent <- withr::with_preserve_seed(processx::process$new(
    rscript[[1L]], c(rscript[-1L], "-e", code), env = c("current", remote_env(folder), REGATTA_NODE = line)
  ))
  withr::defer(agent$kill())
  gate_until(pool, function() length(gate_links(pool)) == 1L)
  agent$signal(tools::SIGTERM)
  agent$wait(30000 * slowness())
  expect_identical(agent$get_exit_status(), 128L + tools::SIGTERM)
  expect_identical(list.files(folder), character())
})

test_that("a value for which a host has no memory costs its worker, not the host", {
  skip_without_crypto()
  skip_unless_linux()
  env <- local_remote_env()
  cluster <- cluster_ssh(
    "host", 2, remote_rscript(), env, shell_script(before = "ulimit -v 1200000"),
    tunnel = FALSE, address = "127.0.0.1", timeout = 60 * slowness()
  )
  withr::defer(stop_remote(cluster))
  agent <- agent_pids(cluster)
  got <- suppressWarnings(par_lapply(
    1:6, function(i) if (i == 3) numeric(5e7) else i, .on = cluster,
    .control = on_remote(errors = "collect", batch = 1L)
  ))
  expect_match(conditionMessage(got[[3L]]), "element 3; .*passed on by its host: cannot allocate vector")
  expect_identical(got[-3L], as.list((1:6)[-3L]))
  expect_identical(par_lapply(1:4, identity, .on = cluster, .control = on_remote()), as.list(1:4))
  expect_identical(agent_pids(cluster), agent)
})

test_that("the end of ssh costs what its host was at, and the host is started again", {
  ssh <- local_sshd()
  cluster <- cluster_ssh(
    c("127.0.0.1", "localhost"), 1, remote_rscript(), remote_env(), ssh, timeout = 60 * slowness(), deadline = 4
  )
  withr::defer(stop_remote(cluster))
  pids <- c(cluster_status(cluster)$pid[[2L]], agent_pids(cluster)[[2L]])
  client <- regatta:::launch_pid(pool_of(cluster)$hosts[[2L]]$launches[[1L]])
  got <- map_with_fault(cluster, pids[[1L]], function() tools::pskill(client, tools::SIGKILL))
  expect_identical(got, undisturbed())
  wait_until(!any(vapply(pids, is_running, NA)), 30)
  wait_until(identical(status_of(cluster), c("idle", "idle")), 60)
})

test_that("a host that comes late takes part in the map that is under way, and one that fails stops none", {
  skip_without_crypto()
  flags <- withr::local_tempdir()
  script <- shell_script(before = c(
    "if [ $name = broken ]; then echo no such host >&2; exit 255; fi",
    sprintf("if [ $name = late ] && ! [ -e %s/go ]; then echo not yet >&2; exit 255; fi", flags)
  ))
  env <- local_remote_env()
  warned <- expect_warning(
    cluster <- cluster_ssh(
      c("early", "late", "broken"), 1, remote_rscript(), env, script, tunnel = FALSE, address = "127.0.0.1",
      timeout = 60 * slowness()
    ),
    class = "regatta_warning_workers"
  )
  withr::defer(stop_remote(cluster))
  expect_match(conditionMessage(warned), "broken: no such host")
  expect_length(cluster, 1L)
  got <- par_lapply(1:2, function(i) {
    file.create(file.path(flags, "go"))
    file.create(file.path(flags, i))
    # each waits for the other: there must be two workers
    while (!all(file.exists(file.path(flags, 1:2)))) Sys.sleep(0.01)
    Sys.getpid()
  }, .on = cluster, .control = on_remote(batch = 1L))
  expect_false(got[[1L]] == got[[2L]])
  expect_setequal(unlist(got), cluster_status(cluster)$pid[1:2])
})

test_that("a cluster of which nobody has come yet is waited for", {
  skip_without_crypto()
  go <- withr::local_tempfile()
  script <- shell_script(before = sprintf("[ -e %s ] || exit 255", go))
  env <- local_remote_env()
  expect_warning(
    cluster <- cluster_ssh(
      "late", 2, remote_rscript(), env, script, tunnel = FALSE, address = "127.0.0.1",
      timeout = 60 * slowness(), min_workers = 0
    ),
    class = "regatta_warning_workers"
  )
  withr::defer(stop_remote(cluster))
  expect_length(cluster, 2L)
  file.create(go)
  expect_identical(par_lapply(1:4, function(i) i, .on = cluster, .control = on_remote()), as.list(1:4))
  expect_identical(status_of(cluster), c("idle", "idle"))

  # one of its hosts cannot have what a call needs
  lost <- structure(function(i) i, class = "function")
  environment(lost) <- list2env(list(x = 1), parent = asNamespace("stats"))
  expect_identical(par_lapply(1:2, lost, .on = cluster, .control = on_remote()), list(1L, 2L))
  bad <- eval(quote(function(i) nosuchpackage0::f(i)))
  error <- expect_error(par_lapply(1:2, bad, .on = cluster, .control = on_remote()), class = "regatta_error")
  expect_match(conditionMessage(error), "nosuchpackage0")
  expect_identical(par_lapply(1:2, identity, .on = cluster, .control = on_remote()), list(1L, 2L))
})

test_that("a host that is lost again and again is started as long as it does something between", {
  cluster <- local_shell_cluster(1)
  pool <- pool_of(cluster)
  local_constant("remote_pauses", c(0, 0))
  for (round in 1:6) {
    if (round <= 3) {
      expect_identical(par_lapply(1:2, identity, .on = cluster, .control = on_remote()), list(1L, 2L))
    } else {
      expect_identical(parallel::clusterCall(cluster, identity, round), list(round))
    }
    tools::pskill(agent_pids(cluster), tools::SIGKILL)
    wait_until({
      regatta:::remote_pump(pool, 0.05)
      pool$hosts[[1L]]$life == round + 1
    }, 60)
  }
  # one that does not
  for (round in 1:3) {
    life <- pool$hosts[[1L]]$life
    tools::pskill(agent_pids(cluster), tools::SIGKILL)
    wait_until({
      regatta:::remote_pump(pool, 0.05)
      pool$hosts[[1L]]$life > life || regatta:::remote_is_final(pool, pool$hosts[[1L]])
    }, 60)
  }
  expect_true(regatta:::remote_is_final(pool, pool$hosts[[1L]]))
})

test_that("agents that are killed while they start are started again, and hold up no other", {
  skip_without_crypto()
  skip_unless_command("timeout")
  begun <- withr::local_tempdir()
  # Each host's first agent is killed after another time: before R runs, while it loads the package, at the handshake.
  hosts <- sprintf("0.%02d", c(2, 25, 50, 80))
  script <- shell_script(before = sprintf(
    "if mkdir %s/$name 2>/dev/null; then exec timeout -s KILL $name sh -c \"$last\"; fi", begun
  ))
  env <- local_remote_env()
  cluster <- suppressWarnings(cluster_ssh(
    c(hosts, "600"), 1, remote_rscript(), env, script, tunnel = FALSE, address = "127.0.0.1",
    timeout = 60 * slowness(), min_workers = 1
  ))
  withr::defer(stop_remote(cluster))
  control <- on_remote(batch = 1L, retries = 4) # on a quick machine the last may be at elements already
  wait_until({
    expect_identical(par_lapply(1:8, identity, .on = cluster, .control = control), as.list(1:8))
    all(status_of(cluster) == "idle")
  }, 60)
  expect_length(status_of(cluster), 5L)
  expect_setequal(list.files(begun), c(hosts, "600"))
})

test_that("what a call needs crosses the link to a host once, compressed where that helps, and is shared there", {
  host <- local_far_host()
  cluster <- local_far_pair(host, c(1, 3), deadline = 20)
  sent <- function() as.double(readLines(file.path("/sys/class/net", host$near, "statistics/tx_bytes")))
  bytes <- withr::with_seed(1, as.raw(sample.int(256L, 5e6, TRUE) - 1L))
  near <- cluster_status(cluster)$pid[[1L]]
  came <- withr::local_tempdir()
  use <- function(bytes, near, came) {
    list(bytes, near, came)
    function(i) {
      # All wait for two of those there, however long what they need is on its way.
      file.create(file.path(came, Sys.getpid()))
      while (length(setdiff(list.files(came), near)) < 2L) Sys.sleep(0.01)
      list(is_shm(bytes), length(bytes), as.integer(bytes[[i * 1000]]), Sys.getpid())
    }
  }
  environment(use) <- asNamespace("regatta") # which is there
  before <- sent()
  got <- par_lapply(1:40, use(bytes, near, came), .on = cluster, .control = on_remote(batch = 1L))
  crossed <- sent() - before
  expect_true(all(vapply(got, `[[`, NA, 1L)))
  expect_identical(vapply(got, `[[`, 0L, 3L), as.integer(bytes[1:40 * 1000]))
  expect_gt(length(intersect(cluster_status(cluster)$pid[2:4], vapply(got, `[[`, 0L, 4L))), 1L)
  expect_gt(crossed, 5e6)
  expect_lt(crossed, 7e6)
  before <- sent()
  got <- par_lapply(1:4, use(raw(5e6), near, came), .on = cluster, .control = on_remote(batch = 1L))
  expect_identical(got[[4L]][2:3], list(5000000L, 0L))
  expect_lt(sent() - before, 5e5)
})

# A step daemon that is killed leaves its workers alone.
job_whose_daemon_dies <- function(rscript, env) {
  cluster <- cluster_slurm(rscript = rscript, env = env, address = "127.0.0.1", timeout = 60, deadline = 4)
  pool <- unclass(cluster)[[1L]]$pool
  agents <- vapply(pool$hosts, function(host) host$facts$pid, 0L)
  parent <- function(pid) as.integer(strsplit(sub("^.*[)] ", "", readLines(file.path("/proc", pid, "stat"))), " ")[[1L]][[2L]])
  comm <- function(pid) readLines(file.path("/proc", pid, "comm"))
  daemon <- agents[[1L]]
  while (daemon > 1L && comm(daemon) != "slurmstepd") daemon <- parent(daemon)
  pids <- c(agents, cluster_status(cluster)$pid)
  control <- par_control(seed = 1L, progress = FALSE, dump = "no", retries = 3)
  values <- par_lapply(1:12, function(i) {
    if (i == 3L) {
      tools::pskill(daemon, tools::SIGKILL)
      Sys.sleep(0.5)
    }
    runif(1)
  }, .on = cluster, .control = control)
  parallel::stopCluster(cluster)
  list(daemon = daemon, pids = pids, values = values)
}

job_whose_steps_end <- function(rscript, env) {
  cluster <- cluster_slurm(rscript = rscript, env = env, address = "127.0.0.1", timeout = 60, deadline = 4)
  on.exit(parallel::stopCluster(cluster))
  pool <- unclass(cluster)[[1L]]$pool
  # by their own word: a step has the number that Slurm gave to the processes of its tasks
  steps <- function() unlist(parallel::clusterCall(cluster, Sys.getenv, "SLURM_STEP_ID"))
  lives <- function() vapply(pool$hosts, `[[`, 0, "life")
  map <- function(step) {
    cancel <- sprintf("%s.%s", Sys.getenv("SLURM_JOB_ID"), step)
    done <- FALSE
    withCallingHandlers(
      par_lapply(1:12, function(i) {
        if (i == 3L) message("cancel")
        Sys.sleep(0.1)
        runif(1)
      }, .on = cluster, .control = par_control(seed = 1L, progress = FALSE, dump = "no", retries = 5, batch = 1L)),
      message = function(m) {
        if (!done && grepl("cancel", conditionMessage(m))) system2("scancel", cancel)
        done <<- TRUE
        invokeRestart("muffleMessage")
      }
    )
  }
  ready <- function() {
    while (!all(cluster_status(cluster)$state == "idle")) Sys.sleep(0.1)
  }
  first <- steps()
  both <- map(first[[1L]])
  ready()
  before <- list(steps = steps(), lives = lives())
  one <- map(before$steps[[2L]])
  ready()
  list(first = first, values = list(both, one), before = before, lives = lives())
}

test_that("a cancelled step of Slurm is started again, and workers without their step daemon end with their cluster", {
  local_slurm()
  env <- local_remote_env()
  run <- function(job) {
    fault_run(
      job, list(rscript = remote_rscript(), env = env), wrap = c("salloc", "-Q", "-N2", "-n2"), timeout = 180
    )$value
  }
  got <- run(job_whose_steps_end)
  expect_identical(got$values, list(undisturbed(), undisturbed()))
  # One step had brought both; each was started again by one of its own.
  expect_identical(got$first[[1L]], got$first[[2L]])
  expect_identical(got$before$lives, c(2, 2))
  expect_false(got$before$steps[[1L]] == got$before$steps[[2L]])
  expect_identical(got$lives, c(2, 3))

  got <- run(job_whose_daemon_dies)
  expect_gt(got$daemon, 1L)
  expect_identical(got$values, undisturbed())
  wait_until(!any(vapply(got$pids, is_running, NA)), 30)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
