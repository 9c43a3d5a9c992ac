# Statistics of rows and columns of a matrix in a file, in one pass over it; medians by panels.

h5_stat_names <- c("sum", "mean", "var", "sd", "min", "max", "nnz", "median", "count")

h5_stats <- function(m, margin, stats = c("sum", "mean"), na.rm = FALSE, groups = NULL, rows = NULL,
                     columns = NULL, threads = NULL, memory = "64MiB", progress = FALSE) {
  h5_reduce(rlang::current_env(), m, margin, stats, na.rm, groups, rows, columns, threads, memory, progress)
}

# `call`: the frame of the function that the user has called.
h5_reduce <- function(call, m, margin, stats, na.rm = FALSE, groups = NULL, rows = NULL, columns = NULL,
                      threads = NULL, memory = "64MiB", progress = FALSE) {
  h5_needed(call)
  check_h5_object(m, call)
  stats <- check_subset(stats, "stats", h5_stat_names, call = call)
  margin <- h5_check_margin(margin, call)
  if (!is.null(groups) && length(margin) != 1L) {
    abort_argument("groups", groups, "`NULL` where statistics of rows and columns are asked for", call = call)
  }
  what <- list(
    margin = margin, stats = stats, na_rm = check_flag(na.rm, "na.rm", call = call),
    threads = h5_threads(threads, call), memory = check_bytes(memory, "memory", call = call),
    progress = check_flag(progress, "progress", call = call)
  )
  chosen <- Map(function(at, k) if (!is.null(at)) h5_positions(at, m, k, call), list(rows, columns), 1:2)
  axes <- h5_axes(m, chosen, groups, margin, call)
  found <- h5_totals(m, axes, what, call)
  results <- lapply(margin, function(k) h5_table(found[[k]], axes, k, what, m))
  if (any(vapply(found[margin], function(f) f$rounded, NA))) warning(warning_rounded(h5_place(m)))
  if (length(margin) == 1L) results[[1L]] else stats::setNames(results, c("rows", "columns"))
}

h5_check_margin <- function(margin, call = rlang::caller_env()) {
  if (missing(margin) || !is.numeric(margin) || !(identical(as.double(margin), 1) || identical(as.double(margin), 2) ||
    setequal(margin, 1:2))) {
    abort_argument("margin", margin, "1 (rows), 2 (columns) or `c(1, 2)`", call = call)
  }
  sort(as.integer(margin))
}

# For each of the two dimensions: `chosen`, positions or NULL for all; `group`, NULL or the group of each index from 0,
# -1 for none; `count` of groups, and their `levels`. Where positions are to be added up more than once, those that come
# equally often are a group, and `times` is how often.
h5_axes <- function(m, chosen, groups, margin, call) {
  lapply(1:2, function(k) {
    name <- c("rows", "columns")[[k]]
    positions <- chosen[[k]]
    reduced <- !setequal(margin, k)
    axis <- list(chosen = positions, group = NULL, count = 1L, levels = NULL, times = NULL)
    if (reduced && anyDuplicated(positions) > 0L) {
      return(h5_repeated(axis, dim(m)[[k]], groups, call))
    }
    if (!is.null(groups) && reduced) {
      size <- if (is.null(positions)) dim(m)[[k]] else length(positions)
      groups <- h5_check_groups(groups, size, name, call)
      axis$levels <- levels(groups)
      axis$count <- length(axis$levels)
      axis$group <- as.integer(groups) - 1L
      axis$group[is.na(axis$group)] <- -1L
    }
    if (!is.null(positions)) {
      codes <- if (is.null(axis$group)) 0L else axis$group
      axis$group <- rep(-1L, dim(m)[[k]])
      axis$group[positions] <- codes
    }
    axis
  })
}

h5_repeated <- function(axis, extent, groups, call) {
  if (!is.null(groups)) {
    must <- "`NULL` where a row or column is to be added up more than once"
    abort_argument("groups", groups, must, call = call)
  }
  times <- tabulate(axis$chosen, extent)
  axis$times <- unique(times[times > 0L])
  axis$count <- length(axis$times)
  axis$group <- match(times, axis$times, 0L) - 1L
  axis
}

# As the C++ side has them.
h5_groups <- function(axes) {
  lapply(axes, function(axis) axis[c("group", "count", "times")])
}

h5_check_groups <- function(groups, size, name, call) {
  if (!is.atomic(groups) || length(groups) != size) {
    abort_argument("groups", groups, sprintf("a factor of length %.0f, one for each of the %s", size, name),
      call = call
    )
  }
  groups <- as.factor(groups)
  if (nlevels(groups) == 0L) {
    abort_argument("groups", groups, "a factor with at least one level", call = call)
  }
  groups
}

# A list of two: what the C++ side has found for rows and for columns.
h5_totals <- function(m, axes, what, call) {
  if (inherits(m, "h5_sparse")) {
    return(h5_sparse_totals(m, axes, what, call))
  }
  fields <- h5_fields(m)
  # Rows run along the fast index of the file, unless the matrix was turned round.
  order <- if (fields$transposed) c(2L, 1L) else c(1L, 2L)
  found <- with_cores(what$threads, call, function(threads) {
    h5_call_cached(
      m, "ffi_h5_stats", h5_source(m), h5_groups(axes[rev(order)]),
      c(h5_wanted(what$stats), order %in% what$margin, what$progress), threads, what$memory,
      call = call
    )
  })
  found[order]
}

h5_wanted <- function(stats) {
  c(
    any(c("sum", "mean") %in% stats), any(c("var", "sd") %in% stats),
    any(c("min", "max") %in% stats), "nnz" %in% stats, "median" %in% stats
  )
}

# Statistics of margin `k`: a data frame, or with groups a list of matrices, one for each statistic.
h5_table <- function(found, axes, k, what, m) {
  axis <- axes[[k]]
  other <- axes[[3L - k]]
  unknown <- !what$na_rm & found$missing > 0
  column <- function(stat) {
    values <- if (stat == "sd") sqrt(found$var) else found[[stat]]
    if (stat != "count") values[unknown] <- NA_real_
    if (stat %in% c("var", "sd")) values[found$count < 2] <- NA_real_
    if (stat == "median") values[found$count < 1] <- NA_real_
    if (!is.null(other$levels)) {
      values <- matrix(values, ncol = other$count, dimnames = list(NULL, other$levels))
      return(if (is.null(axis$chosen)) values else values[axis$chosen, , drop = FALSE])
    }
    if (is.null(axis$chosen)) values else values[axis$chosen]
  }
  results <- stats::setNames(lapply(what$stats, column), what$stats)
  names <- dimnames(m)[[k]]
  if (!is.null(names) && !is.null(axis$chosen)) names <- names[axis$chosen]
  if (!is.null(other$levels)) {
    return(lapply(results, function(values) {
      rownames(values) <- names
      values
    }))
  }
  # Names of a data frame are unique, those of a matrix need not be.
  table <- as.data.frame(results)
  if (!is.null(names)) attr(table, "row.names") <- make.unique(names)
  table
}

# One statistic as a vector, or as a matrix with a column for each group.
h5_one <- function(m, margin, stat, ..., rows = NULL, columns = NULL, call = rlang::caller_env()) {
  found <- h5_reduce(call, m, margin, stat, ..., rows = rows, columns = columns)
  values <- found[[1L]]
  names <- dimnames(m)[[margin]]
  if (is.data.frame(found) && !is.null(names)) {
    chosen <- if (margin == 1L) rows else columns
    names(values) <- if (is.null(chosen)) names else names[h5_positions(chosen, m, margin)]
  }
  values
}

h5_col_sums <- function(m, ...) h5_one(m, margin = 2L, stat = "sum", ...)
h5_col_means <- function(m, ...) h5_one(m, margin = 2L, stat = "mean", ...)
h5_col_vars <- function(m, ...) h5_one(m, margin = 2L, stat = "var", ...)
h5_col_sds <- function(m, ...) h5_one(m, margin = 2L, stat = "sd", ...)
h5_col_mins <- function(m, ...) h5_one(m, margin = 2L, stat = "min", ...)
h5_col_maxs <- function(m, ...) h5_one(m, margin = 2L, stat = "max", ...)
h5_col_nnz <- function(m, ...) h5_one(m, margin = 2L, stat = "nnz", ...)
h5_col_medians <- function(m, ...) h5_one(m, margin = 2L, stat = "median", ...)
h5_row_sums <- function(m, ...) h5_one(m, margin = 1L, stat = "sum", ...)
h5_row_means <- function(m, ...) h5_one(m, margin = 1L, stat = "mean", ...)
h5_row_vars <- function(m, ...) h5_one(m, margin = 1L, stat = "var", ...)
h5_row_sds <- function(m, ...) h5_one(m, margin = 1L, stat = "sd", ...)
h5_row_mins <- function(m, ...) h5_one(m, margin = 1L, stat = "min", ...)
h5_row_maxs <- function(m, ...) h5_one(m, margin = 1L, stat = "max", ...)
h5_row_nnz <- function(m, ...) h5_one(m, margin = 1L, stat = "nnz", ...)
h5_row_medians <- function(m, ...) h5_one(m, margin = 1L, stat = "median", ...)
