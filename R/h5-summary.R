# What there is in a matrix in a file, by one pass over it.

summary.h5_matrix <- function(object, threads = NULL, memory = "64MiB", ...) {
  stats <- c("sum", "min", "max", "nnz", "count")
  found <- h5_stats(object, 1:2, stats, na.rm = TRUE, threads = threads, memory = memory)
  lines <- if (ncol(object) > 0) found$columns else found$rows
  elements <- prod(dim(object))
  present <- sum(lines$count)
  structure(
    list(
      dim = dim(object), type = h5_fields(object)$type, elements = elements, missing = elements - present,
      nonzero = sum(lines$nnz), sum = sum(lines$sum), mean = sum(lines$sum) / present,
      min = if (present > 0) min(lines$min) else NA_real_, max = if (present > 0) max(lines$max) else NA_real_,
      row_sums = h5_quartiles(found$rows$sum), column_sums = h5_quartiles(found$columns$sum),
      row_nonzero = h5_quartiles(found$rows$nnz), column_nonzero = h5_quartiles(found$columns$nnz)
    ),
    class = "summary.h5_matrix"
  )
}

summary.h5_sparse <- summary.h5_matrix

h5_quartiles <- function(x) {
  if (length(x) == 0L) x <- NA_real_
  stats::setNames(stats::quantile(x, names = FALSE, na.rm = TRUE), c("min", "25%", "median", "75%", "max"))
}

format.summary.h5_matrix <- function(x, ...) {
  share <- if (x$elements > 0) sprintf(" (%s%%)", format_number(100 * x$nonzero / x$elements, 3L)) else ""
  table <- rbind(x$row_sums, x$row_nonzero, x$column_sums, x$column_nonzero)
  rownames(table) <- c("  sums of rows", "  not zero in a row", "  sums of columns", "  not zero in a column")
  cells <- apply(table, 2L, h5_format_figure)
  columns <- lapply(colnames(table), function(name) formatC(c(name, cells[, name]), width = 0L))
  columns <- lapply(columns, format, justify = "right")
  range <- h5_format_figure(c(x$min, x$max), digits = 7L)
  c(
    sprintf("%s rows, %s columns of %s", format_count(x$dim[[1L]]), format_count(x$dim[[2L]]), x$type),
    sprintf("  not zero  %s of %s%s", format_count(x$nonzero), format_count(x$elements), share),
    sprintf("  missing   %s", format_count(x$missing)),
    sprintf("  range     %s to %s, mean %s", range[[1L]], range[[2L]], h5_format_figure(x$mean)),
    do.call(paste, c(list(format(c("", rownames(table)))), columns, list(sep = "  ")))
  )
}

# Counts, and sums of them, with all their digits; a double has some fifteen.
h5_format_figure <- function(x, digits = 4L) {
  whole <- is.finite(x) & x == round(x) & abs(x) <= 1e15
  text <- vapply(x, format_number, "", digits = digits, big.mark = ",", USE.NAMES = FALSE)
  text[whole] <- format_count(x[whole])
  text
}

print.summary.h5_matrix <- function(x, ...) {
  writeLines(format(x, ...))
  invisible(x)
}
