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
  table$waiting <- 0L
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

# The same for ends that nobody asks for before the record of the run is looked at: kept as they came, and entered
# when they are many, all at once. What is kept longer is garbage that R looks at again and again.
tasks_note_later <- function(table, event) {
  tasks_note_measured(table, event)
  table$later[[length(table$later) + 1L]] <- event[later_columns]
  table$waiting <- table$waiting + length(event$index)
  if (table$waiting > 65536L || length(table$later) > 500L) tasks_settle(table)
}

later_columns <- c("index", "worker", "start", "end", "bytes")

tasks_settle <- function(table) {
  later <- table$later
  table$later <- list()
  table$waiting <- 0L
  all_of <- function(column) unlist(lapply(later, `[[`, column))
  tasks_enter(table, sapply(later_columns, all_of, simplify = FALSE))
}

# What an event tells of elements that have begun or ended.
tasks_note <- function(table, event) {
  tasks_enter(table, event)
  tasks_note_measured(table, event)
}

tasks_enter <- function(table, event) {
  for (column in c("worker", "start", "end", "bytes")) {
    if (!is.null(event[[column]])) tasks_set(table, column, event$index, event[[column]])
  }
}

# Most elements of a run of many are too short to be measured: the columns are made for the first that was.
measured_columns <- c("cpu", "peak")

tasks_note_measured <- function(table, event) {
  for (column in measured_columns) {
    known <- which(!is.na(event[[column]]))
    if (length(known) == 0L) next
    if (is.null(table[[column]])) table[[column]] <- rep(NA_real_, length(table$start))
    tasks_set(table, column, event$index[known], event[[column]][known])
  }
}

# NA: not known.
tasks_use <- function(table, column, index = seq_along(table$start)) {
  if (is.null(table[[column]])) rep(NA_real_, length(index)) else table[[column]][index]
}
