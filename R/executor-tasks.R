# The table of elements of an executor that keeps it in the session: worker, tries, start and end
# (monotonic seconds) and bytes of the last try of each.

task_table <- function(n) {
  table <- new.env(parent = emptyenv())
  table$worker <- rep(NA_integer_, n)
  table$tries <- integer(n)
  table$start <- rep(NA_real_, n)
  table$end <- rep(NA_real_, n)
  table$bytes <- numeric(n)
  table
}

# The vector is taken out of the environment while it changes: R would copy all of it otherwise.
task_set <- function(table, column, index, value) {
  x <- table[[column]]
  table[[column]] <- NULL
  x[index] <- value
  table[[column]] <- x
}

task_rows <- function(table, index = seq_along(table$tries)) {
  columns <- mget(c("worker", "tries", "start", "end", "bytes"), envir = table)
  lapply(columns, `[`, index)
}
