# Objects of the session in shared memory.

shm_share <- function(x, min = "64KB") {
  check_given(x, "x", "an object, of which large vectors are put into shared memory")
  .Call(ffi_shm_share, x, check_bytes(min, "min", zero = TRUE), shm_limit())
}

shm_copy <- function(x) {
  check_given(x, "x", "an object that is to be in ordinary memory")
  .Call(ffi_shm_copy, shm_plain(x))
}

# Called from C for a lock or counter.
abort_copy <- function(x) {
  class <- intersect(c("shm_lock", "shm_counter"), class(x))
  advice <- if ("shm_counter" %in% class) "`shm_value()` gives the value that a counter has now."
  must <- "what can be copied: a copy of a lock or counter would be the same lock or counter"
  abort_argument("x", x, must, quote(shm_copy()), advice)
}

is_shm <- function(x) {
  check_given(x, "x", "an object")
  .Call(ffi_shm_is, x)
}
