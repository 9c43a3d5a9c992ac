# The contract of R/executor.R for R/executor-cluster.R, which hands out elements by itself.

task_table <- function(n) {
  table <- new.env(parent = emptyenv())
  table$worker <- rep(NA_integer_, n)
  table$tries <- integer(n)
  table$start <- rep(NA_real_, n)
  table$end <- rep(NA_real_, n)
  table$bytes <- numeric(n)
  table
}

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

cluster_executor <- function(inner, pool) {
  events <- list()
  list(
    kind = "cluster",
    start = function(workers, places) {
      if (workers[[1L]] != 1L) {
        events <<- c(events, lapply(workers, event_not_started, NULL))
        return(NULL)
      }
      pids <- inner$start()
      events <<- c(events, lapply(workers, function(w) {
        if (is.na(pids[[w]])) event_not_started(w, NULL) else event_joined(w, as.integer(pids[[w]]))
      }))
    },
    poll = function(timeout) {
      got <- c(events, lapply(if (length(events) == 0L) inner$poll(timeout), cluster_new_event, pool))
      events <<- list()
      got
    },
    submit = function(elements, tries) inner$submit(elements),
    withdraw = inner$withdraw, limit = inner$limit,
    running = function() c(list(worker = seq_along(pool$alive)), inner$running()),
    interrupt = function(worker, element) {
      pool$seen[[worker]] <- element
      inner$signal(worker, 1L)
    },
    signal = function(worker, number) {
      inner$signal(worker, if (number == 9L) 3L else -number)
    },
    measure = function(worker, what) measure_here(pool$pid[[worker]], what),
    guard = inner$guard,
    stop = function() {
      inner$stop()
      tasks <- inner$tasks()
      begun <- which(!is.na(tasks$start))
      list(worker = integer(), peak = numeric(), begun = c(list(index = begun), lapply(tasks, `[`, begun)))
    }
  )
}

cluster_new_event <- function(event, pool) {
  if (event$type == "death") {
    lost <- if (is.na(event$index)) numeric() else event$index
    row <- task_rows(pool$tasks, lost)
    return(c(list(type = "left", index = lost, start = row$start, end = row$end),
      event[c("worker", "signal", "status", "peak", "oom", "backtrace")]))
  }
  if (!event$type %in% c("values", "error")) {
    return(event)
  }
  row <- task_rows(pool$tasks, event$index)
  ended <- list(
    type = "ended", worker = row$worker, index = event$index, try = row$tries, start = row$start,
    end = row$end, bytes = row$bytes
  )
  if (event$type == "error") c(ended, list(error = event$record)) else c(ended, list(values = event$values))
}
