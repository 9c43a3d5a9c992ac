# The table of a run's tasks, a row for each element: the latest try that was handed out, and of that
# the number of its worker, start and end (seconds of the monotonic clock) and the size of its result.

# What is told of the end of a try; processor time (seconds) and the largest resident set (bytes) where they are known.
ended_columns <- c("worker", "index", "try", "start", "end", "bytes", "cpu", "peak")

ended_only <- function(event) event[intersect(ended_columns, names(event))]

tasks_new <- function(n) {
  table <- new.env(parent = emptyenv())
  table$worker <- rep(NA_integer_, n)
  table$tries <- integer(n)
  table$start <- rep(NA_real_, n)
  table$end <- rep(NA_real_, n)
  table$bytes <- numeric(n)
  table$later <- list()
  table
}

# Of a table, or of a run. The vector is taken out of the environment while it changes: R would copy all of it
# otherwise.
tasks_set <- function(table, column, index, value) {
  x <- table[[column]]
  table[[column]] <- NULL
  x[index] <- value
  table[[column]] <- x
}

# Whether these are the tries that were handed out last, and no end of them has been told.
tries_open <- function(run, index, try) {
  run$status[index] == element_states[["pending"]] & run$tasks$tries[index] == try
}

# Another try of each begins.
tasks_submit <- function(table, index) {
  tries <- table$tries[index] + 1L
  tasks_set(table, "tries", index, tries)
  if (any(tries > 1L)) {
    tasks_set(table, "start", index, NA_real_)
    tasks_set(table, "end", index, NA_real_)
    tasks_set(table, "bytes", index, 0)
    for (column in intersect(measured_columns, names(table))) tasks_set(table, column, index, NA_real_)
  }
}

# The same for ends that nobody asks for before the record of the run is looked at: kept as they came, and
# entered some hundred events at a time.
tasks_note_later <- function(table, event) {
  columns <- c("index", "worker", "start", "end", "bytes")
  if (!is.null(event$peak) && !all(is.na(event$peak))) columns <- c(columns, measured_columns)
  table$later[[length(table$later) + 1L]] <- event[columns]
  if (length(table$later) > 500L) tasks_settle(table)
}

tasks_settle <- function(table) {
  later <- table$later
  table$later <- list()
  for (event in later) {
    tasks_note(table, event)
  }
}

# What an event tells of elements that have begun or ended.
tasks_note <- function(table, event) {
  for (column in c("worker", "start", "end", "bytes")) {
    if (!is.null(event[[column]])) tasks_set(table, column, event$index, event[[column]])
  }
  if (!is.null(event$peak)) tasks_measured(table, event)
}

# Most elements of a run of many are too short to be measured: the columns are made for the first that was.
measured_columns <- c("cpu", "peak")

tasks_measured <- function(table, event) {
  for (column in measured_columns) {
    value <- event[[column]]
    if (is.null(value) || all(is.na(value))) next
    if (is.null(table[[column]])) table[[column]] <- rep(NA_real_, length(table$start))
    tasks_set(table, column, event$index, value)
  }
}

# NA: not known.
tasks_use <- function(table, column, index = seq_along(table$start)) {
  if (is.null(table[[column]])) rep(NA_real_, length(index)) else table[[column]][index]
}
