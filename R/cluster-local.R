# Clusters of workers on this machine that do not inherit the session and stand ready between calls. The
# object is a list of nodes, as package parallel wants it; what they share is an environment.

cluster_local <- function(n = workers_available(), packages = NULL,
                          start = c("forkserver", "parallel", "sequential"), timeout = 60) {
  n <- check_count(n, "n", max = cores_most) # more would only bring the machine down
  packages <- check_packages(packages)
  start <- check_choice(start, "start", c("forkserver", "parallel", "sequential"))
  timeout <- check_seconds(timeout, "timeout")
  with_calls(stand_cluster(n, packages, sys.call(), start, timeout))
}

check_packages <- function(packages) {
  if (is.null(packages)) {
    return(character())
  }
  if (!is.character(packages) || anyNA(packages) || !all(nzchar(packages))) {
    abort_argument("packages", packages, "a character vector of names of packages, or `NULL`",
      call = rlang::caller_env()
    )
  }
  unique(packages)
}

print.regatta_cluster <- function(x, ...) {
  if (length(x) == 0L) {
    cat("cluster of 0 workers\n")
    return(invisible(x))
  }
  state <- stand_state(x)
  numbers <- stand_numbers(x)
  size <- sprintf("cluster of %d worker%s", length(numbers), if (length(numbers) == 1L) "" else "s")
  if (is.null(state$stand)) {
    cat(size, "of this machine, stopped\n")
    return(invisible(x))
  }
  if (!is_owner(state$pid, state$stand)) {
    cat(size, "of another process\n")
    return(invisible(x))
  }
  members <- .Call(ffi_fork_stand_members, state$stand)
  ready <- sum(members$pid[numbers] > 0L)
  born <- if (state$start == "forkserver") "forked by a server" else "each started by a server"
  cat(sprintf(
    "%s of this machine, %s (process %d)\n", size, born,
    .Call(ffi_fork_server_state, state$server)$pid
  ))
  starting <- sum(members$starting[numbers] & members$pid[numbers] > 0L)
  cat(sprintf("%d ready, %d busy", ready - starting, sum(members$busy[numbers])))
  if (starting > 0L) cat(sprintf(", %d starting", starting))
  if (ready < length(numbers)) cat(sprintf(", %d to be started by the next call", length(numbers) - ready))
  if (length(state$packages) > 0L) cat("; packages:", paste(state$packages, collapse = ", "))
  cat("\n")
  invisible(x)
}

# Package parallel has such a method for all clusters, but need not be loaded. Its functions send a node that a part
# has twice a second call before they ask for the value of the first, and a worker has one call at a time.
`[.regatta_cluster` <- function(x, ...) {
  part <- unclass(x)[...]
  ranks <- vapply(part, function(node) if (is.null(node)) NA_integer_ else node$rank, 1L)
  if (anyNA(ranks) || anyDuplicated(ranks) > 0L) {
    given <- if (anyNA(ranks)) ..1 else ranks
    abort_argument("i", given, sprintf("workers of this cluster of %d, each once", length(x)), call = sys.call())
  }
  structure(part, class = class(x))
}

# By parallel::stopCluster(). The workers of all who share the object.
stopCluster.regatta_cluster <- function(cl = NULL) {
  state <- stand_state(cl)
  if (!is.null(state$stand)) .Call(ffi_fork_stand_stop, state$stand)
  state$stand <- NULL
  invisible(NULL)
}
