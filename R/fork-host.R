# Sessions that must not be forked. The host of such a session has threads that may hold locks at that
# moment and windows that a copy would draw into: the copy hangs, or disturbs the original. Their workers
# come from a fork server, which is a process that has nothing of the host.

# The name of the host, NULL if the session may be forked. What the user says of it, to this package or to
# package parallelly, comes first.
fork_host <- function(call = NULL) {
  may <- check_flag(getOption("regatta.fork"), "options(regatta.fork = )", null = TRUE, call = call)
  if (is.null(may)) may <- fork_host_parallelly()
  if (!is.null(may)) {
    return(if (!may) "a session with `options(regatta.fork = FALSE)`")
  }
  # A worker has nothing of its session's host but the environment.
  if (nzchar(Sys.getenv("REGATTA_WORKER"))) {
    return(NULL)
  }
  if (Sys.getenv("RSTUDIO") == "1" && !nzchar(Sys.getenv("RSTUDIO_TERM"))) {
    "RStudio"
  } else if (Sys.getenv("POSITRON") == "1" && !nzchar(Sys.getenv("POSITRON_TERM"))) {
    "Positron"
  } else if (.Platform$GUI %in% c("AQUA", "RStudio")) {
    "a session with windows"
  }
}

# As supportsMulticore() reads it.
fork_host_parallelly <- function() {
  may <- getOption("parallelly.fork.enable")
  if (is.null(may)) may <- Sys.getenv("R_PARALLELLY_FORK_ENABLE")
  if (identical(may, "")) {
    return(NULL)
  }
  may <- suppressWarnings(as.logical(may))
  if (length(may) == 1L && !is.na(may)) may
}

# Where a run is to be for which no place was given: NULL for workers that are forked from the session.
default_place <- function(workers, call = NULL) {
  host <- fork_host(call)
  if (is.null(host)) {
    return(NULL)
  }
  if (is.null(workers)) workers <- as.integer(workers_available())
  if (!pool_serves(the$pool, workers)) {
    the$pool <- stand_cluster(workers, character(), call)
    tell_pool(host)
  }
  structure(unclass(the$pool)[seq_len(workers)], class = class(the$pool))
}

# A pool that is too small, or all of whose workers have something to do, is left to its runs.
pool_serves <- function(pool, workers) {
  if (length(pool) < workers) {
    return(FALSE)
  }
  state <- stand_state(pool)
  state$pid == Sys.getpid() && !is.null(state$stand) && !all(.Call(ffi_fork_stand_members, state$stand)$busy)
}

# Once in a session.
tell_pool <- function(host) {
  if (!the$pool_told) {
    the$pool_told <- TRUE
    message(message_pool(host))
  }
}
