# R functions over blocks of a matrix in a file, each chunk of which is decoded once.

h5_apply <- function(m, margin, FUN, ..., memory = "64MiB", .on = getOption("regatta.on"),
                     .control = getOption("regatta.control", par_control())) {
  blocks <- h5_blocks(m, margin, memory)
  FUN <- check_function(FUN, "FUN")
  args <- list(...)
  check_dots(args, FUN)
  ranges <- Map(c, blocks$from, blocks$to)
  names(ranges) <- sprintf("%.0f-%.0f", blocks$from, blocks$to)
  map_list(ranges, h5_block_function(m, margin, FUN), args, "h5_apply", sys.call(), .on, .control, keyed = NULL)
}

# By a function of its own, so that workers are sent nothing but this.
h5_block_function <- function(m, margin, FUN) {
  force(m)
  force(margin)
  force(FUN)
  h5_block <- h5_block
  # A worker that attaches a package for a block says nothing of it: all the others would, too.
  from_base(function(`*range*`, ...) {
    range <- `*range*`
    suppressPackageStartupMessages(FUN(h5_block(m, margin, range), ...))
  })
}

h5_chunks <- function(m, margin, memory = "64MiB") {
  h5_blocks(m, margin, memory)
}

h5_blocks <- function(m, margin, memory, call = rlang::caller_env()) {
  h5_needed(call)
  check_h5_object(m, call)
  if (!is_number(margin) || !margin %in% 1:2) {
    abort_argument("margin", margin, "1 (blocks of rows) or 2 (blocks of columns)", call = call)
  }
  memory <- check_bytes(memory, "memory", call = call)
  extent <- dim(m)[[margin]]
  if (extent == 0) {
    return(data.frame(from = numeric(), to = numeric()))
  }
  width <- min(extent, h5_block_width(m, margin, memory))
  if (extent / width > .Machine$integer.max) {
    what <- sprintf("memory for blocks larger than %s of %s rows or columns", format(width), format(extent))
    abort_argument("memory", memory, what, call = call)
  }
  from <- seq(1, extent, by = width)
  data.frame(from = from, to = pmin(from + width - 1, extent))
}

# Rows or columns in a block: as many as fit into the memory, whole chunks if one fits.
h5_block_width <- function(m, margin, memory) {
  each <- 8 * dim(m)[[3L - margin]]
  fields <- h5_fields(m)
  if (inherits(m, "h5_sparse")) each <- 12 * fields$entries / dim(m)[[margin]]
  most <- max(1, memory %/% max(each, 1))
  chunk <- fields$chunk
  if (length(chunk) < 2L) {
    return(most)
  }
  chunk <- if (fields$transposed) rev(chunk)[[margin]] else chunk[[margin]]
  if (most < chunk) most else most %/% chunk * chunk
}

# An ordinary matrix, or a sparse one of the package Matrix: rows or columns `range[1]` to `range[2]`.
h5_block <- function(m, margin, range) {
  at <- seq(range[[1L]], range[[2L]])
  rows <- if (margin == 1L) at
  columns <- if (margin == 2L) at
  if (inherits(m, "h5_sparse")) h5_sparse_part(m, rows, columns) else h5_part(m, rows, columns, drop = FALSE)
}

check_h5_object <- function(m, call = rlang::caller_env()) {
  if (missing(m) || !inherits(m, "h5_sparse")) check_h5_matrix(m, call = call)
  m
}

# Products with a thin matrix in memory: in blocks of columns, so that each chunk is decoded once.

h5_product <- function(m, y, memory = "64MiB") {
  blocks <- h5_blocks(m, 2L, memory)
  y <- h5_factor(y, ncol(m), "columns")
  total <- matrix(0, nrow(m), ncol(y), dimnames = h5_product_names(rownames(m), colnames(y)))
  for (k in seq_along(blocks$from)) {
    range <- c(blocks$from[[k]], blocks$to[[k]])
    total <- total + h5_times(h5_block(m, 2L, range), y[seq(range[[1L]], range[[2L]]), , drop = FALSE])
  }
  total
}

h5_crossprod <- function(m, y = NULL, memory = "64MiB") {
  if (is.null(y)) {
    return(h5_gram(m, memory))
  }
  blocks <- h5_blocks(m, 2L, memory)
  y <- h5_factor(y, nrow(m), "rows")
  total <- matrix(0, ncol(m), ncol(y), dimnames = h5_product_names(colnames(m), colnames(y)))
  for (k in seq_along(blocks$from)) {
    range <- c(blocks$from[[k]], blocks$to[[k]])
    total[seq(range[[1L]], range[[2L]]), ] <- h5_times(h5_transpose(h5_block(m, 2L, range)), y)
  }
  total
}

h5_times <- function(block, y) {
  if (is.matrix(block)) block %*% y else h5_zeros_met(as.matrix(block %*% y), block, y)
}

# A block with itself: what is not finite in either of two columns meets the zeros of the other.
h5_square <- function(block) {
  if (is.matrix(block)) {
    return(crossprod(block))
  }
  turned <- Matrix::t(block)
  t(h5_zeros_met(t(h5_zeros_met(as.matrix(Matrix::crossprod(block)), turned, block)), turned, block))
}

# `total`, the sparse `a` times `y`, as R has it for dense ones: zeros that are not stored count, too; 0 * Inf is NaN,
# 0 * NA is NA. A value of `y` meets such a zero where fewer elements that are stored meet one than `y` has of them.
h5_zeros_met <- function(total, a, y) {
  values <- if (is.matrix(y)) y else y@x
  if (all(is.finite(values))) {
    return(total)
  }
  a@x[] <- 1
  zeros <- function(lost) {
    if (is.matrix(y)) y[] <- lost + 0 else y@x <- lost + 0
    met <- as.matrix(a %*% y)
    met < rep(Matrix::colSums(y), each = nrow(met))
  }
  missing <- is.na(values) & !is.nan(values)
  total[zeros(!is.finite(values) & !missing) & !is.na(total)] <- NaN
  total[zeros(missing)] <- NA
  total
}

# The method of the package Matrix, which need not be attached.
h5_transpose <- function(block) {
  if (is.matrix(block)) t(block) else Matrix::t(block)
}

h5_gram <- function(m, memory, call = rlang::caller_env()) {
  h5_needed(call)
  check_h5_object(m, call)
  # Each block of rows has a part of every sum. A sparse matrix has one direction to be read in.
  fields <- h5_fields(m)
  if (inherits(m, "h5_sparse") && (fields$major == 2L) != fields$transposed) {
    return(h5_crossprod(m, as.matrix(h5_sparse_part(m, NULL, NULL)), memory))
  }
  blocks <- h5_blocks(m, 1L, memory, call)
  total <- matrix(0, ncol(m), ncol(m), dimnames = h5_product_names(colnames(m), colnames(m)))
  for (k in seq_along(blocks$from)) {
    total <- total + h5_square(h5_block(m, 1L, c(blocks$from[[k]], blocks$to[[k]])))
  }
  total
}

h5_factor <- function(y, size, what, call = rlang::caller_env()) {
  must <- sprintf("a matrix of numbers with %.0f rows, as many as `m` has %s", size, what)
  check_given(y, "y", must, call)
  check_bits(y, "y", "a matrix of numbers", call)
  if (is.null(dim(y)) && is.numeric(y)) y <- matrix(y, ncol = 1L)
  if (!is.matrix(y) || !(is.numeric(y) || is.logical(y)) || nrow(y) != size) {
    abort_argument("y", y, must, call = call)
  }
  y
}

h5_product_names <- function(rows, columns) {
  if (is.null(rows) && is.null(columns)) NULL else list(rows, columns)
}

# Where R looks for methods of S3 (from 4.3 on).
`%*%.h5_matrix` <- function(x, y) {
  if (inherits(x, c("h5_matrix", "h5_sparse"))) {
    return(h5_product(x, if (inherits(y, c("h5_matrix", "h5_sparse"))) as.matrix(y) else y))
  }
  if (is.null(dim(x))) x <- matrix(x, nrow = 1L)
  t(h5_crossprod(y, t(x)))
}

`%*%.h5_sparse` <- `%*%.h5_matrix`
