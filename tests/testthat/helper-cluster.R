# Package parallel draws the port of a session when it is loaded, one of a thousand: of sessions that start clusters at
# the same time two would have the same one now and then. Those that run at the same time have other numbers.
if (!nzchar(Sys.getenv("R_PARALLEL_PORT"))) Sys.setenv(R_PARALLEL_PORT = 10000L + Sys.getpid() %% 20000L)

# A cluster of parallel that is stopped at the end of the caller and that has gone when it is.
# `wrap` is a command that is put before Rscript on the nodes.
local_cluster <- function(n = 2L, wrap = NULL, frame = parent.frame()) {
  started <- cluster_start(n, wrap)
  withr::defer(started$stop(), envir = frame)
  started$cluster
}

# The same for several tests: a list of `cluster` and of `stop`, a function.
cluster_start <- function(n = 2L, wrap = NULL) {
  testthat::skip_if_not_installed("parallel")
  # Where a node that was killed leaves its temporary files, they go with the folder.
  folder <- tempfile("cluster-")
  dir.create(folder)
  withr::local_envvar(
    R_LIBS = paste(.libPaths(), collapse = ":"), R_TESTS = "", TMPDIR = folder
  )
  rscript <- file.path(R.home("bin"), "Rscript")
  if (!is.null(wrap)) {
    script <- file.path(folder, "rscript")
    writeLines(c(
      "#!/bin/sh", sprintf("exec %s \"$@\"", paste(shQuote(c(wrap, rscript)), collapse = " "))
    ), script)
    Sys.chmod(script, "755")
    rscript <- script
  }
  # makePSOCKcluster() draws a port from the session's generator.
  cluster <- withr::with_preserve_seed(parallel::makePSOCKcluster(n, rscript = rscript))
  pids <- unlist(parallel::clusterCall(cluster, Sys.getpid))
  stop <- function() {
    for (w in seq_along(cluster)) {
      stopped <- try(parallel::stopCluster(cluster[w]), silent = TRUE)
      if (inherits(stopped, "try-error")) close(cluster[[w]]$con) # it had died
    }
    # The nodes are children of init, which may take seconds to collect one that has ended.
    if (is.null(wrap)) wait_until(function() !any(vapply(pids, is_running, NA)))
    unlink(folder, recursive = TRUE)
  }
  list(cluster = cluster, stop = stop)
}

# Nodes as they are on another machine: they see neither the session's processes nor its memory.
local_far_cluster <- function(n = 1L, frame = parent.frame()) {
  wrap <- c("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
  works <- tryCatch(system2(wrap[[1L]], c(wrap[-1L], "true"), stdout = FALSE, stderr = FALSE) == 0L,
    error = function(e) FALSE, warning = function(w) FALSE
  )
  if (!works) testthat::skip("processes of their own need root and unshare(1)")
  local_cluster(n, wrap, frame)
}

# Another function in the place of one of the package, to the end of the caller.
local_function <- function(name, fun, frame = parent.frame()) {
  space <- asNamespace("regatta")
  old <- get(name, envir = space)
  replace <- function(with) {
    rlang::env_binding_unlock(space, name)
    assign(name, with, envir = space)
    rlang::env_binding_lock(space, name)
  }
  replace(fun)
  withr::defer(replace(old), envir = frame)
}

# The same for a constant.
local_constant <- function(name, value, frame = parent.frame()) local_function(name, value, frame)

on_cluster <- function(...) {
  par_control(progress = FALSE, dump = "no", seed = 1L, ...)
}

# An element reaches a limit no sooner than `begun(index)` is TRUE, to the end of the caller: what it is to have started
# by then takes as long as the machine needs.
limits_from <- function(begun, frame = parent.frame()) {
  used <- regatta:::limits_used
  local_function("limits_used", function(run, w, now) {
    if (begun(now$element[[w]])) used(run, w, now) else c(timeout = 0, cpu_timeout = 0, memory = 0)
  }, frame)
}

# Whether the files are there and have been written to.
all_written <- function(...) all(file.size(file.path(...)) > 0) %in% TRUE

# A node of a busy machine may need more time to end an element that is interrupted than it is given.
patient_limits <- function(frame = parent.frame()) {
  space <- asNamespace("regatta")
  set_grace <- function(seconds) {
    unlockBinding("limit_grace", space)
    assign("limit_grace", seconds, envir = space)
    lockBinding("limit_grace", space)
  }
  before <- get("limit_grace", envir = space)
  set_grace(60)
  withr::defer(set_grace(before), envir = frame)
}
