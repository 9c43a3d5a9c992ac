# Which values of a call with errors = "collect" are missing.

is_par_error <- function(x) {
  is_failed(x)
}

par_failed <- function(values) {
  if (is_failed(values)) {
    abort_argument(
      "values", values, "the list of values that a call has returned",
      advice = "`is_par_error()` is for one of them."
    )
  }
  vapply(values, is_failed, NA)
}
