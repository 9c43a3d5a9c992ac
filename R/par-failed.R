# Which values of a call with errors = "collect" are missing.

is_par_error <- function(x) {
  check_given(x, "x", "one of the values that a call has returned")
  is_failed(x)
}

par_failed <- function(values) {
  must <- "the list of values that a call has returned"
  check_given(values, "values", must)
  if (is_failed(values)) {
    abort_argument(
      "values", values, must,
      advice = "`is_par_error()` is for one of them."
    )
  }
  vapply(values, is_failed, NA)
}
