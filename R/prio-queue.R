# A queue for CPUs that is shared by all descendants of the session, however deeply nested: a set of
# System V semaphores. The first counts the CPUs that are free, each further one the processes
# that wait with one priority. Claim and wait are undone by the system when a process dies.

prio_queue_create <- function(ncpu = workers_available(), nprio = 1L, seconds2block = 0L) {
  ncpu <- check_count(as.vector(unclass(ncpu)), "ncpu")
  nprio <- check_count(nprio, "nprio")
  # One call of the system takes a limited number of operations, 500 on Linux.
  if (nprio > 400L) {
    abort_argument("nprio", nprio, "at most 400")
  }
  if (ncpu > semv_most) {
    abort_argument("ncpu", ncpu, sprintf("at most %d", semv_most))
  }
  check_seconds(seconds2block, "seconds2block", zero = TRUE)
  id <- .Call(ffi_semv_create, c(ncpu, integer(nprio)))
  if (is.list(id)) {
    signal_error(error_posix("create a priority queue", id, call = sys.call()))
  }
  structure(
    list(sid = id, nprio = nprio, open_at = .Call(ffi_clock) + seconds2block),
    class = "prio_queue"
  )
}

prio_queue_insert <- function(pq, prio) {
  check_prio_queue(pq)
  prio <- check_count(prio, "prio")
  if (prio > pq$nprio) {
    abort_argument("prio", prio, sprintf("at most %d, the priorities of the queue", pq$nprio))
  }
  call <- sys.call()
  check <- function(failure) sem_done(failure, sprintf("wait in the priority queue %d", pq$sid), call)
  # What the semaphores know is noted by the assignment that follows: there is no place for an interrupt between them.
  joined <- claimed <- FALSE # or how that has failed, NULL: it has not
  on.exit(if (is.null(joined) && !is.null(claimed)) .Call(ffi_semv_operate, pq$sid, prio, -1L, TRUE))
  joined <- .Call(ffi_semv_operate, pq$sid, prio, 1L, TRUE)
  check(joined)
  .Call(ffi_sleep, pq$open_at - .Call(ffi_clock))
  # At once: a CPU is free, nobody waits with a higher priority, and this process no longer waits.
  higher <- seq_len(prio - 1L)
  claimed <- .Call(
    ffi_semv_operate, pq$sid, c(0L, higher, prio), c(-1L, integer(length(higher)), -1L),
    c(TRUE, logical(length(higher)), TRUE)
  )
  check(claimed)
  invisible(NULL)
}

prio_queue_release <- function(pq) {
  check_prio_queue(pq)
  failure <- .Call(ffi_semv_operate, pq$sid, 0L, 1L, TRUE)
  sem_done(failure, sprintf("release a CPU of the priority queue %d", pq$sid), sys.call())
}

prio_queue_destroy <- function(pq) {
  check_prio_queue(pq)
  failure <- .Call(ffi_semv_remove, pq$sid)
  sem_done(failure, sprintf("remove the priority queue %d", pq$sid), sys.call())
}

check_prio_queue <- function(x, call = rlang::caller_env()) {
  if (missing(x) || !inherits(x, "prio_queue")) {
    abort_argument("pq", x, "made by `prio_queue_create()`", call = call)
  }
}
