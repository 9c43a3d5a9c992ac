kendall_matrix <- function(x, threads = NULL, progress = FALSE) {
  x <- as_numeric_matrix(x)
  threads <- check_threads(threads)
  progress <- check_flag(progress, "progress")
  if (nrow(x) < 2L || ncol(x) < 1L) {
    stop("`x` must have at least two rows and one column, not ", nrow(x), " x ", ncol(x), ".",
         call. = FALSE)
  }
  tau <- .Call(ffi_kendall, x, threads, progress)
  if (!is.null(colnames(x))) dimnames(tau) <- list(colnames(x), colnames(x))
  tau
}
