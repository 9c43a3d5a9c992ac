# The log of a checkpoint, read without taking it: a call may go on writing to it.

par_log <- function(dir) {
  dir <- check_string(dir, "dir")
  if (!is_log(dir)) {
    abort_argument("dir", dir, "the folder of a checkpoint, as of `par_control(checkpoint = )`")
  }
  log <- checkpoint_log(dir, FALSE, sys.call())
  on.exit(log_close(log))
  records <- log$records
  # A value that was written twice, since Ctrl-C came while it was, is one.
  rows <- which(records$type != log_types[["call"]] & !duplicated(records$key, fromLast = TRUE))
  facts <- lapply(log_read(log, rows, values = FALSE), `[[`, "facts")
  rows <- rows[lengths(facts) > 0L]
  facts <- facts[lengths(facts) > 0L]
  number <- function(name) vapply(facts, function(x) x$numbers[[match(name, checkpoint_numbers)]], 0)
  size <- function(x, i) if (is.null(x$file)) records$size[rows[[i]]] else x$file$size
  table <- data.frame(
    index = records$index[rows], name = vapply(facts, log_name, ""),
    when = as.POSIXct(number("when"), origin = "1970-01-01"),
    seconds = number("seconds"), bytes = as.double(mapply(size, facts, seq_along(facts))), try = number("try"),
    pid = number("pid"), warnings = vapply(facts, log_warnings, 0)
  )
  attr(table, "damaged") <- log$damaged
  table
}

log_name <- function(facts) if (length(facts$name) == 1L && !facts$name %in% "") facts$name else NA_character_

# Of one element: those that were kept, and those of which only the number is known.
log_warnings <- function(facts) {
  sum(vapply(facts$told, function(event) if (event$type == "suppressed") as.double(event$count) else 1, 0))
}
