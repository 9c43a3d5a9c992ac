# The evaluator's channel where the way to the session is R's, and what goes through it as events of R/executor.R.

# The channel of the evaluator as R functions (see src/evaluator-channel.c):
#   take()   the next element and which try of it that is, c(element, try); NULL: there is none now
#   tell(type, index, try, kind, times, payload)   a record: `type` and `kind` are numbers, see
#            evaluate_event(); `times` start and end of an element that has ended
#   cancelled(element)   whether the driver has asked for an interrupt of it; NA: of an element before; NULL: it
#            never has
# Payloads are encoded values (raw) or, with `settle`, the R objects themselves: c(copy, region), whether all shared
# arrays in them become ordinary vectors, and the number of the last region of which they do not.
evaluate_through <- function(take, tell, cancelled = NULL, settle = NULL) {
  .Call(ffi_evaluator_channel, list(take, tell, cancelled, settle, numeric(2L)))
}

# A record as an event of R/executor.R. `value(payload)` makes an R object of a payload. Ends are of
# one element.
evaluate_event <- function(worker, type, index, try, kind, times, payload, value = identity) {
  kinds <- c("message", "warning", "condition")
  ended <- function(...) {
    list(
      type = "ended", worker = worker, index = index, try = try, start = times[[1L]],
      end = times[[2L]], bytes = if (is.raw(payload)) as.double(length(payload)) else 0, ...
    )
  }
  switch(c("value", "error", "condition", "suppressed", "output")[[type]],
    value = ended(values = list(value(payload))),
    error = {
      told <- value(payload)
      if (is.character(told)) ended(alike = list(told)) else ended(error = told)
    },
    condition = list(type = "condition", index = index, kind = kinds[[kind + 1L]], cnd = list(value(payload))),
    suppressed = list(type = "suppressed", index = index, kind = kinds[[kind + 1L]], count = payload),
    output = event_output(index, c("stdout", "stderr")[[kind + 1L]], payload)
  )
}

# What one element has written; `text` is raw.
event_output <- function(index, stream, text) {
  list(type = "output", index = index, stream = stream, size = length(text), text = text)
}

# Ends of single elements among events as one event, which comes last.
join_ends <- function(events) {
  is_value <- vapply(events, function(event) !is.null(event[["values"]]), NA)
  # What a worker has told must not come after its end.
  left <- vapply(events, function(event) event$type == "left", NA)
  if (sum(is_value) < 2L || any(left)) {
    return(events)
  }
  ends <- events[is_value]
  columns <- c("worker", "index", "try", "start", "end", "bytes", "values")
  joined <- lapply(columns, function(column) unlist(lapply(ends, `[[`, column), recursive = FALSE))
  names(joined) <- columns
  c(events[!is_value], list(c(list(type = "ended"), joined)))
}
