# The record of a run as one table, with a row for each element.

as.data.frame.regatta_run <- function(x, row.names = NULL, optional = FALSE, ..., tries = FALSE) {
  check_flag(tries, "tries")
  check_row_names(row.names)
  rows <- x$elements
  if (tries) {
    rows <- rbind(rows, x$tries)
    rows <- rows[order(rows$index, rows$try), ]
  }
  place <- process_of(rows, x$workers)
  first <- c("index", "worker", "pid", "start", "end", "try", "status", "bytes")
  columns <- c(
    list(
      index = rows$index,
      name = if (is.null(x$names)) rep(NA_character_, nrow(rows)) else as.character(x$names)[rows$index],
      worker = rows$worker, host = x$workers$host[place], pid = rows$pid, try = rows$try,
      start = rows$start, end = rows$end, seconds = rows$end - rows$start, status = rows$status,
      bytes = rows$bytes
    ),
    rows[setdiff(names(rows), first)]
  )
  # As data.frame() makes it, without its checks of each column.
  structure(columns, class = "data.frame", row.names = .set_row_names(nrow(rows)))
}

# Rows are elements: a name of an element may be there twice, and a name of a row may not.
check_row_names <- function(row.names, call = rlang::caller_env()) {
  if (!is.null(row.names)) {
    abort_argument("row.names", row.names, "`NULL`: the names of elements are in `name`", call)
  }
}
