# A cluster of parallel that is stopped at the end of the caller and that has gone when it is.
# `wrap` is a command that is put before Rscript on the nodes.
local_cluster <- function(n = 2L, wrap = NULL, frame = parent.frame()) {
  testthat::skip_if_not_installed("parallel")
  # Where a node that was killed leaves its temporary files, they go with the folder.
  folder <- withr::local_tempdir(.local_envir = frame)
  withr::local_envvar(
    R_LIBS = paste(.libPaths(), collapse = ":"), R_TESTS = "", TMPDIR = folder
  )
  rscript <- file.path(R.home("bin"), "Rscript")
  if (!is.null(wrap)) {
    script <- withr::local_tempfile(lines = c(
      "#!/bin/sh", sprintf("exec %s \"$@\"", paste(shQuote(c(wrap, rscript)), collapse = " "))
    ), .local_envir = frame)
    Sys.chmod(script, "755")
    rscript <- script
  }
  # makePSOCKcluster() draws a port from the session's generator.
  cluster <- withr::with_preserve_seed(parallel::makePSOCKcluster(n, rscript = rscript))
  pids <- unlist(parallel::clusterCall(cluster, Sys.getpid))
  withr::defer(
    {
      for (w in seq_along(cluster)) {
        stopped <- try(parallel::stopCluster(cluster[w]), silent = TRUE)
        if (inherits(stopped, "try-error")) close(cluster[[w]]$con) # it had died
      }
      # The nodes are children of init, which may take seconds to collect one that has ended.
      if (is.null(wrap)) wait_until(function() !any(vapply(pids, is_running, NA)))
    },
    envir = frame
  )
  cluster
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

on_cluster <- function(...) {
  par_control(progress = FALSE, dump = "no", seed = 1L, ...)
}
