# The cores that runs of all sessions of a user on this machine share, if their settings say so (src/budget.h): each
# worker has one while it runs elements, and a session one for each thread of its own.

# c(cores, low) for the workers of a run; 0 cores: there is no budget. The run of an element is part of the budget that
# its worker's run has.
budget_of <- function(plan) {
  above <- .Call(ffi_fork_worker_budget)
  asked <- plan$control$core_budget
  cores <- if (is.null(asked) || (isTRUE(asked) && above[[1L]] > 0L)) {
    above[[1L]]
  } else if (isTRUE(asked)) {
    cores_known()
  } else {
    asked
  }
  if (cores > 0L) budget_check(plan)
  c(as.integer(cores), as.integer(above[[2L]] > 0L || identical(plan$control$core_priority, "low")))
}

# Workers that cannot open the file would all end for it.
budget_check <- function(plan) {
  failed <- .Call(ffi_fork_pool_budget)[[2L]]
  if (failed != 0L) budget_refused(failed, plan$workers)
}

budget_refused <- function(errno, n, unit = "workers", call = NULL) {
  reason <- sprintf(
    "the file by which sessions share cores, %s, cannot be used (%s)",
    .Call(ffi_fork_pool_budget)[[1L]], .Call(ffi_system_message, errno)
  )
  advice <- "It must be yours, with the rights 0600: remove it, or call without `core_budget`."
  signal_error(error_start(n, reason, advice, call = call, unit = unit))
}

# How many threads a worker may have. A core of a budget is for one, whatever the worker's share is.
worker_threads <- function(plan) {
  if (!is.null(plan$control$threads)) {
    plan$control$threads
  } else if (.Call(ffi_fork_worker_budget)[[1L]] > 0L) {
    1L
  } else {
    plan$share
  }
}

# Evaluates `code(n)`, which uses n threads of this process: `threads`, or where the session shares cores, as its option
# says, as many of these as are free, for the first of which it waits. A worker of a budget has its core already, and so
# has a call within another one's.
with_cores <- function(threads, call, code) {
  asked <- check_core_budget(getOption("regatta.core_budget"), "regatta.core_budget", call)
  if (is.null(asked) || the$has_cores || .Call(ffi_fork_worker_budget)[[1L]] > 0L) {
    return(code(threads))
  }
  the$has_cores <- TRUE
  on.exit({
    .Call(ffi_budget_leave)
    the$has_cores <- FALSE
  })
  budget <- if (isTRUE(asked)) cores_known() else asked
  watch <- forgotten_watch(after = 1)
  while ((cores <- .Call(ffi_budget_take, budget, threads, watch())) == 0L) NULL
  if (cores < 0L) budget_refused(-cores, threads, "threads", call)
  code(cores)
}

# Evaluates `code`, which waits for a run of an element: its worker's core is for the workers of that run, and for
# others. They have ended, or are about to go on without this process, when it takes one again. Who asks in vain, and
# may ask again and again, leaves it for long enough that they find it.
with_core_lent <- function(code) {
  if (!.Call(ffi_fork_worker_lend)) {
    return(code)
  }
  on.exit(budget_take())
  if (isFALSE(code)) .Call(ffi_fork_worker_yield)
  code
}

budget_take <- function() {
  on.exit(.Call(ffi_fork_worker_give))
  watch <- forgotten_watch(after = 1)
  while (!.Call(ffi_fork_worker_take)) watch()
  on.exit()
}
