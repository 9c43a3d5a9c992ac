# Limits of an element: `timeout`, `cpu_timeout` (seconds) and `memory` (bytes above what its worker
# started with). An element over one is interrupted as by Ctrl-C, so that its on.exit() code runs
# and its worker goes on; if it does not answer, its worker is asked to end, then killed.

# Seconds between these steps.
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
  now <- run$executor$running()
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
  now <- run$executor$running()
  for (w in which(now$element > 0)) {
    used <- limits_used(run, w, now)
    over <- names(used)[used > unlist(run$control[names(limit_kinds)])]
    if (length(over) > 0L) {
      end_element(run, w, now$element[[w]], limit_kinds[[over[[1L]]]], used[[over[[1L]]]])
    }
  }
}

limit_kinds <- c(timeout = "elapsed", cpu_timeout = "cpu", memory = "memory")

limits_used <- function(run, w, now) {
  memory <- if (is.finite(run$control$memory)) {
    .Call(ffi_memory_anon, now$pid[[w]]) - run$people$base[[w]]
  } else {
    0
  }
  c(timeout = now$seconds[[w]], cpu_timeout = now$cpu_seconds[[w]], memory = memory)
}

end_element <- function(run, worker, index, kind, used) {
  key <- as.character(index)
  ending <- run$ending[[key]]
  now <- .Call(ffi_clock)
  if (is.null(ending)) {
    ending <- list(kind = kind, used = used, step = 0L, due = now)
  }
  steps <- limit_steps(run$task$limit_signal)
  if (now >= ending$due && ending$step < length(steps)) {
    ending$step <- ending$step + 1L
    ending$due <- now + limit_grace
    run$executor$signal(worker, steps[[ending$step]])
  }
  run$ending[[key]] <- ending
}

# What the executor is asked to do, one after another; see its signal().
limit_steps <- function(signal) {
  if (is.null(signal) || signal == signals_of("SIGINT")) {
    1:3
  } else if (signal == signals_of("SIGTERM")) {
    2:3
  } else if (signal == signals_of("SIGKILL")) {
    3L
  } else {
    c(-as.integer(signal), 3L)
  }
}

limit_error <- function(run, index, pid, try, ending) {
  argument <- names(limit_kinds)[limit_kinds == ending$kind]
  error_timeout(
    index, element_name(run, index), pid, try,
    kind = ending$kind, limit = run$control[[argument]], used = ending$used, call = run$task$call
  )
}
