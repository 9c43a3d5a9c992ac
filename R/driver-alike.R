# Errors that differ in their message alone from one that their worker has sent before, which has a number. A run in
# which every element fails by the same line must not take much longer than one in which none does.

# The record of an error that others may be like: the last one of each worker is kept.
alike_note <- function(run, event) {
  if (!is.null(event$error$number)) run$told[[event$worker]] <- event$error
}

# Elements that have failed so: event$alike has c(number, message) of each.
take_alike <- function(run, event) {
  told <- matrix(unlist(event$alike), nrow = 2L)
  for (worker in unique(event$worker)) {
    for (number in unique(told[1L, event$worker == worker])) {
      at <- which(event$worker == worker & told[1L, ] == number)
      take_alike_of(run, lapply(ended_only(event), `[`, at), worker, number, told[2L, at])
    }
  }
}

take_alike_of <- function(run, event, worker, number, messages) {
  record <- if (worker <= length(run$told)) run$told[[worker]]
  if (!identical(record$number, number)) {
    record <- overwritten_record()
  } else if (!asked_one_by_one(run)) {
    load_error_code()
    tasks_note_later(run$tasks, event)
    if (is.null(record$one)) {
      run$told[[worker]] <- record <- record_with_one(record, run$workers$rows[[worker]]$pid, run$task$call)
    }
    errors <- errors_alike(record, messages, event$index, run$task$names[event$index], event$try)
    return(fail_for_good(run, event$index, "error", errors))
  }
  for (k in seq_along(messages)) {
    one <- lapply(event, `[[`, k)
    one$error <- if (is.null(record$number)) record else record_alike(record, messages[[k]])
    tasks_note(run$tasks, one)
    take_error(run, one)
  }
}

# Whether an error may be tried again, or is not what its element has failed by.
asked_one_by_one <- function(run) {
  retried <- run$control$retries > 0 && "error" %in% run$control$retry_on
  retried || length(run$ending) > 0L || length(run$turned) > 0L
}

# What the worker would have sent of another such error.
record_alike <- function(record, message) {
  record$cnd <- simpleError(message, unclass(record$cnd)[["call"]])
  record$unsent <- record$missing <- NULL
  record
}

# With one such error of an element, of which the others are made.
record_with_one <- function(record, pid, call) {
  record <- record_alike(record, "")
  record$where <- failing_call(record$cnd)
  record$one <- error_element(record, 0L, NULL, pid, 1L, call)
  record
}

errors_alike <- function(record, messages, index, names, try) {
  distinct <- unique(messages)
  parents <- .Call(ffi_conditions_vary, record$cnd, list(message = distinct))
  text <- failure_text(index, names, record$one$pid, try, record$where, trim_end(messages))
  fields <- list(
    message = text, index = as.integer(index), try = as.integer(try), parent = parents[match(messages, distinct)]
  )
  if (!is.null(names)) fields$name <- lapply(names, name_or_null)
  .Call(ffi_conditions_vary, record$one, fields)
}
