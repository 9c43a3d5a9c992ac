# A host with an address of its own: a network namespace that a pair of virtual devices connects to this one,
# gone at the end of the caller. list(name, near: the device here, address: that of this end, wrap: the command
# that runs something there).
local_far_host <- function(number = 1L, frame = parent.frame()) {
  skip_unless_linux()
  if (!is_root()) testthat::skip("network namespaces need root")
  skip_unless_command("ip")
  name <- sprintf("rg%d%s", Sys.getpid() %% 100000L, letters[[number]])
  if (ip_command("netns", "add", name) != 0L) testthat::skip("no network namespaces here")
  withr::defer(ip_command("netns", "del", name), envir = frame)
  near <- paste0(name, "v")
  made <- ip_command("link", "add", near, "type", "veth", "peer", "name", "eth0", "netns", name)
  if (made != 0L) testthat::skip("no virtual network devices here")
  withr::defer(ip_command("link", "del", near), envir = frame, priority = "first")
  # of addresses that are for tests; processes beside this one have others
  net <- sprintf("198.18.%d.%d", Sys.getpid() %% 256L, 4L * (number - 1L) + 64L * (Sys.getpid() %/% 256L %% 4L))
  ends <- vapply(1:2, function(i) sub("[0-9]+$", as.integer(sub("^.*[.]", "", net)) + i, net), "")
  ip_command("addr", "add", paste0(ends[[1L]], "/30"), "dev", near)
  ip_command("link", "set", near, "up")
  ip_command("-n", name, "addr", "add", paste0(ends[[2L]], "/30"), "dev", "eth0")
  ip_command("-n", name, "link", "set", "eth0", "up")
  ip_command("-n", name, "link", "set", "lo", "up")
  list(name = name, near = near, address = ends[[1L]], wrap = paste("ip netns exec", name))
}

ip_command <- function(...) system2("ip", c(...), stdout = FALSE, stderr = FALSE)

# Cuts the host off: "down", the link; "drop", nothing gets through and nobody is told; "reset", who writes
# from there to here is told that the connection is no more.
cut_off <- function(host, how, undo = FALSE) {
  if (how == "down") {
    ip_command("link", "set", host$near, if (undo) "up" else "down")
    return(invisible())
  }
  skip_unless_command("iptables")
  rule <- c(
    "netns", "exec", host$name, "iptables", if (undo) "-D" else "-I", "OUTPUT", "-o", "eth0", "-p", "tcp", "-j",
    if (how == "drop") "DROP" else c("REJECT", "--reject-with", "tcp-reset")
  )
  if (ip_command(rule) != 0L) testthat::skip("no iptables in a network namespace here")
  if (how == "drop") {
    rule[match("OUTPUT", rule) + 0:1] <- c("INPUT", "-i")
    ip_command(rule)
  }
}

# "ssh" that runs what is for the host "far" there, and the rest here.
far_script <- function(host, frame = parent.frame()) {
  script <- withr::local_tempfile(.local_envir = frame, lines = c(
    "#!/bin/sh", "for last; do name=$before; before=$last; done",
    sprintf("if [ \"$name\" = far ]; then exec %s sh -c \"$last\"; fi", host$wrap), "exec sh -c \"$last\""
  ))
  Sys.chmod(script, "755")
  script
}

# Workers here and there.
local_far_pair <- function(host, workers = c(1, 1), deadline = 3, frame = parent.frame()) {
  env <- remote_env()
  env[["TMPDIR"]] <- withr::local_tempdir("nodes-", .local_envir = frame)
  cluster <- cluster_ssh(
    c("near", "far"), workers, remote_rscript(), env, far_script(host, frame),
    tunnel = FALSE, address = host$address, timeout = 60 * slowness(), deadline = deadline
  )
  withr::defer(stop_remote(cluster), envir = frame)
  cluster
}

pool_of <- function(cluster) unclass(cluster)[[1L]]$pool
