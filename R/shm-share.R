# Objects of the session in shared memory.

shm_share <- function(x, min = "64KB") {
  .Call(ffi_shm_share, x, check_bytes(min, "min", zero = TRUE), shm_limit())
}

shm_copy <- function(x) {
  .Call(ffi_shm_copy, shm_plain(x))
}

is_shm <- function(x) {
  if (is.list(x)) any(vapply(x, is_shm, NA)) else .Call(ffi_shm_is, x)
}
