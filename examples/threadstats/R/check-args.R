as_numeric_matrix <- function(x) {
  if (is.data.frame(x)) x <- as.matrix(x)
  if (!is.numeric(x)) {
    stop("`x` must be a numeric matrix or data frame, not ", class(x)[[1L]],
         ". Leave out the columns that hold no numbers.", call. = FALSE)
  }
  if (!is.matrix(x)) x <- as.matrix(x)
  storage.mode(x) <- "double"
  x
}

check_count <- function(value, name) {
  whole <- is.numeric(value) && length(value) == 1L && is.finite(value) &&
    value >= 1 && value <= .Machine$integer.max && value == trunc(value)
  if (!whole) {
    stop("`", name, "` must be a positive whole number, not ",
         deparse(value, nlines = 1L), ".", call. = FALSE)
  }
  as.integer(value)
}

# The C++ side takes 0 for "as many threads as the pool of the process has".
check_threads <- function(threads) {
  if (is.null(threads)) 0L else check_count(threads, "threads")
}

check_flag <- function(value, name) {
  if (!isTRUE(value) && !isFALSE(value)) {
    stop("`", name, "` must be TRUE or FALSE, not ", deparse(value, nlines = 1L), ".",
         call. = FALSE)
  }
  value
}
