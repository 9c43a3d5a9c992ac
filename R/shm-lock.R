# What keeps the writers of shared memory apart: a lock that one process has at a time, and a number
# that is changed as a whole. Both travel to other processes as shared arrays do.

shm_lock <- function() {
  .Call(ffi_shm_lock_new, shm_limit())
}

with_shm_lock <- function(lock, expr, timeout = Inf) {
  check_shm(lock, "lock", "shm_lock")
  check_given(expr, "expr", "the code to evaluate with the lock")
  timeout <- check_seconds(timeout, "timeout", zero = TRUE)
  .Call(ffi_shm_lock_with, lock, timeout, quote(expr), quote(warn_dead_holder()), environment())
}

warn_dead_holder <- function() {
  warning("the process that had the lock has died: what it was changing may be half done",
    call. = FALSE
  )
}

shm_counter <- function(start = 0) {
  .Call(ffi_shm_counter_new, check_whole(start, "start"), shm_limit())
}

shm_add <- function(counter, by = 1) {
  check_shm(counter, "counter", "shm_counter")
  .Call(ffi_shm_counter_add, counter, check_whole(by, "by"))
}

shm_value <- function(counter) {
  check_shm(counter, "counter", "shm_counter")
  .Call(ffi_shm_counter_value, counter)
}

check_shm <- function(x, argument, class, call = rlang::caller_env()) {
  if (missing(x) || !inherits(x, class)) {
    abort_argument(argument, x, sprintf("made by `%s()`", class), call)
  }
  if (!.Call(ffi_shm_array_is, x)) {
    must <- sprintf("the object in shared memory that `%s()` has made", class)
    advice <- sprintf(
      "It was copied or stored, as by `saveRDS()`, and is no %s any more.", sub("^shm_", "", class)
    )
    abort_argument(argument, x, must, call, advice)
  }
}

check_whole <- function(x, argument, call = rlang::caller_env()) {
  if (!is_whole(x) || abs(x) > 2^53) {
    abort_argument(argument, x, "a whole number up to 2^53", call)
  }
  as.double(x)
}

format.shm_counter <- function(x, ...) sprintf("<shm_counter> %.0f", shm_value(x))

print.shm_counter <- function(x, ...) {
  writeLines(format(x))
  invisible(x)
}

format.shm_lock <- function(x, ...) "<shm_lock>"

print.shm_lock <- function(x, ...) {
  writeLines(format(x))
  invisible(x)
}

# A counter is where a number is kept: R would compute with the bytes there.
refuse_counter <- function(name, call) {
  signal_error(new_error(
    "regatta_error_argument", sprintf("`%s` does not compute with a `shm_counter`.", name),
    body = "`shm_value(counter)` is its number, `shm_add(counter, n)` changes it.", argument = "counter", call = call
  ))
}

Ops.shm_counter <- function(e1, e2) refuse_counter(.Generic, sys.call(-1L))
Math.shm_counter <- function(x, ...) refuse_counter(.Generic, sys.call(-1L))
Summary.shm_counter <- function(..., na.rm = FALSE) refuse_counter(.Generic, sys.call(-1L))
as.double.shm_counter <- function(x, ...) shm_value(x)
as.integer.shm_counter <- function(x, ...) as.integer(shm_value(x))
as.character.shm_counter <- function(x, ...) as.character(shm_value(x))
