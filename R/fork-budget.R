# The cores that runs of all sessions of a user on this machine share, if their settings say so (src/budget.h): each
# worker has one while it runs elements.

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
  file <- .Call(ffi_fork_pool_budget)
  if (file[[2L]] != 0L) {
    reason <- sprintf(
      "the file by which sessions share cores, %s, cannot be used (%s)",
      file[[1L]], .Call(ffi_system_message, file[[2L]])
    )
    advice <- "It must be yours, with the rights 0600: remove it, or call without `core_budget`."
    signal_error(error_start(plan$workers, reason, advice))
  }
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
  while (!.Call(ffi_fork_worker_take)) NULL
  on.exit()
}
