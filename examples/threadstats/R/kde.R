kde <- function(x, bandwidth = NULL, points = 500L, threads = NULL, progress = FALSE) {
  x <- as_numeric_matrix(x)
  points <- check_count(points, "points")
  threads <- check_threads(threads)
  progress <- check_flag(progress, "progress")
  check_kde_sample(x)
  bandwidth <- kde_bandwidth(x, bandwidth)

  grid <- kde_grid(x, bandwidth, points)
  density <- .Call(ffi_kde, x, bandwidth, grid, threads, progress)
  dimnames(grid) <- dimnames(density) <- if (!is.null(colnames(x))) list(NULL, colnames(x))
  names(bandwidth) <- colnames(x)
  list(x = grid, density = density, bandwidth = bandwidth)
}

check_kde_sample <- function(x) {
  if (nrow(x) < 2L || ncol(x) < 1L) {
    stop("`x` must have at least two rows and one column, not ", nrow(x), " x ", ncol(x), ".",
         call. = FALSE)
  }
  bad <- sum(!is.finite(x))
  if (bad > 0L) {
    stop("`x` must be finite: ", bad, " of its ", length(x),
         " values are missing or infinite. Remove these rows first.", call. = FALSE)
  }
}

kde_bandwidth <- function(x, bandwidth) {
  if (is.null(bandwidth)) return(vapply(seq_len(ncol(x)), function(j) bw.nrd0(x[, j]), 0))
  right <- is.numeric(bandwidth) && length(bandwidth) %in% c(1L, ncol(x)) &&
    all(is.finite(bandwidth)) && all(bandwidth > 0)
  if (!right) {
    stop("`bandwidth` must be one positive number or one for each of the ", ncol(x),
         " columns of `x`.", call. = FALSE)
  }
  rep_len(as.double(bandwidth), ncol(x))
}

# Three bandwidths past the extremes the density is near zero, as in stats::density().
kde_grid <- function(x, bandwidth, points) {
  grid <- vapply(seq_len(ncol(x)), function(j) {
    ends <- range(x[, j]) + c(-3, 3) * bandwidth[[j]]
    seq(ends[[1L]], ends[[2L]], length.out = points)
  }, numeric(points))
  matrix(grid, points, ncol(x))
}
