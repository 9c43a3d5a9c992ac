# Limits of an element: `timeout`, `cpu_timeout` (seconds) and `memory` (bytes above what its worker
# started with). An element over one is interrupted as by Ctrl-C, so that its on.exit() code runs
# and its worker goes on; if it does not answer, its worker is asked to end, then killed.

# Seconds between these steps, of which each look counts for a half at most: a session that was stopped, or with
# all of its machine, has given nobody time meanwhile.
limit_grace <- 1

limits_any <- function(run) {
  control <- run$control
  is.finite(control$timeout) || is.finite(control$cpu_timeout) || is.finite(control$memory)
}

# How long the driver may sleep without missing the end of a limit.
limits_wait <- function(run) {
  if (!limits_any(run)) {
    return(1)
  }
  if (is.finite(run$control$memory)) {
    return(0.02)
  }
  now <- workers_running(run)
  busy <- now$element > 0
  left <- c(
    run$control$timeout - now$seconds[busy], run$control$cpu_timeout - now$cpu_seconds[busy],
    run$control$timeout, run$control$cpu_timeout, if (length(run$ending) > 0L) limit_grace / 4, 1
  )
  max(0.001, min(left))
}

limits_enforce <- function(run) {
  if (!limits_any(run)) {
    return(invisible())
  }
  now <- workers_running(run)
  for (w in which(now$element > 0)) { # positions of workers, not their numbers
    used <- limits_used(run, w, now)
    over <- names(used)[which(used > unlist(run$control[names(limit_kinds)]))]
    if (length(over) > 0L) {
      kind <- over[[1L]]
      end_element(run, now$worker[[w]], now$element[[w]], now$try[[w]], limit_kinds[[kind]], used[[kind]])
    }
  }
}

limit_kinds <- c(timeout = "elapsed", cpu_timeout = "cpu", memory = "memory")

# The memory of a worker that is gone, whose death has not been told yet, is NA.
limits_used <- function(run, w, now) {
  memory <- if (is.finite(run$control$memory)) {
    run$executor$measure(now$worker[[w]], "memory") - run$workers$rows[[now$worker[[w]]]]$base
  } else {
    0
  }
  c(timeout = now$seconds[[w]], cpu_timeout = now$cpu_seconds[[w]], memory = memory)
}

# What is noted of it, run$ending, is of this try in this worker: that of another says nothing of it.
end_element <- function(run, worker, index, try, kind, used) {
  key <- ending_key(worker, index, try)
  ending <- run$ending[[key]]
  now <- .Call(ffi_clock)
  if (is.null(ending)) {
    ending <- list(kind = kind, used = used, step = 0L, left = 0, looked = now)
  }
  ending$left <- ending$left - min(now - ending$looked, limit_grace / 2)
  ending$looked <- now
  steps <- limit_steps(run$task$limit_signal)
  if (ending$left <= 0 && ending$step < length(steps)) {
    ending$step <- ending$step + 1L
    ending$left <- limit_grace
    if (steps[[ending$step]] == limit_interrupt) {
      run$executor$interrupt(worker, index)
    } else {
      run$executor$signal(worker, steps[[ending$step]])
    }
  }
  run$ending[[key]] <- ending
}

ending_key <- function(worker, index, try) paste(worker, index, try)

# Of a try that is over; NULL if it has been within its limits.
ending_take <- function(run, worker, index, try) {
  key <- ending_key(worker, index, try)
  ending <- run$ending[[key]]
  run$ending[[key]] <- NULL
  ending
}

# An element is interrupted, a worker is sent signals: what is done, one after the other. `signal` is what
# the verb wants first.
limit_steps <- function(signal) {
  last <- signals_of(c("SIGTERM", "SIGKILL"))
  if (is.null(signal) || signal == signals_of("SIGINT")) {
    c(limit_interrupt, last)
  } else if (signal %in% last) {
    last[last == signal | last == last[[2L]]]
  } else {
    c(as.integer(signal), last[[2L]])
  }
}

limit_interrupt <- 0L

limit_error <- function(run, index, pid, try, ending) {
  argument <- names(limit_kinds)[limit_kinds == ending$kind]
  error_timeout(
    index, element_name(run, index), pid, try,
    kind = ending$kind, limit = run$control[[argument]], used = ending$used, call = run$task$call
  )
}
