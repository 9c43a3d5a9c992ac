# How an element fails: its error is described while its frames are there, and sent when they are gone.

# Every one of the first errors of a worker brings locals and a dump, later ones the traceback only:
# a run in which everything fails must not take longer than one in which nothing does.
detailed_errors_max <- 10L

# From a handler of an error, which has been described: its element is left, and the next one begins. A restart would
# do the same for several times the price.
leave_element <- function() do.call("return", list(FALSE), envir = evaluator$step)

# What an element makes of the interrupt of its limit, an error here, is the end of that limit. It is looked at now,
# since a limit may be reached while an error is described, which takes time.
handle_error <- function(cnd) {
  allow_expressions()
  interrupted <- is_cancelled()
  if (!interrupted && is_like_last(cnd)) {
    keep_like(cnd)
  } else {
    # With the stack nearly full no more than this may succeed: see handle_overflow().
    evaluator$calls <- sys.calls()
    evaluator$frames <- sys.frames()
    evaluator$error <- cnd
    key <- error_key(cnd, evaluator$calls, evaluator$frames)
    shown <- handler_frames()
    keep_error(cnd, shown, interrupted)
    evaluator$like <- if (!interrupted) or_else(like_error(key, shown), NULL)
    if (!is.null(evaluator$like)) evaluator$record$number <- evaluator$like$number
    evaluator$calls <- evaluator$frames <- evaluator$error <- NULL
  }
  leave_element()
}

# An element may have allowed fewer nested calls than it takes to describe its error and to go on: R lets some
# hundred more be made while it signals that there are too many, and not a single one afterwards.
allow_expressions <- function() {
  if (!evaluator$session && getOption("expressions") < evaluator$expressions) {
    options(expressions = evaluator$expressions)
  }
}

# After an infinite recursion R calls no handler on top of the full C stack, and a handler above
# too many nested calls fails: the error is described when the stack is unwound.
handle_overflow <- function(cnd) {
  if (.Call(ffi_evaluator_is_sending) && is.null(evaluator$calls)) {
    cnd <- with_message(cnd, paste(
      "what the element has returned is nested too deeply to be sent to the session:", message_of(cnd)
    ))
  }
  # An error while another one was being described is not the element's.
  keep_unwound(if (is.null(evaluator$error)) cnd else evaluator$error)
  FALSE
}

# Code of the element has left it, and the worker's loop, for the top level of R; R itself does when the
# description of an error fails.
keep_jump <- function() {
  if (!is.null(evaluator$error)) {
    return(keep_unwound(evaluator$error))
  }
  keep_unwound(simpleError(
    "it has jumped to the top level of R, as `invokeRestart(\"abort\")` and C code can"
  ))
}

# The frames of the element are gone.
keep_unwound <- function(cnd) {
  allow_expressions()
  interrupted <- is_cancelled()
  last <- max(length(evaluator$calls) - 2L, 0L)
  shown <- user_frames(evaluator$calls, evaluator$frames, evaluator$depth + 1L, last)
  evaluator$calls <- evaluator$frames <- evaluator$error <- NULL
  keep_error(cnd, shown, interrupted)
}

# The frames of the user's code at the time of the condition. Called by a function that
# handle_condition() calls: its own three frames are the last ones.
handler_frames <- function() {
  user_frames(sys.calls(), sys.frames(), evaluator$depth + 1L, sys.nframe() - 3L)
}

# The error is described while its frames are there and sent when they are gone: the parent may end
# this worker as soon as it is told, and on.exit() code of the element must have run by then. What
# that code signals while the frames go is not the element's error, the first one is.
keep_error <- function(cnd, shown, interrupted) {
  if (!is.null(evaluator$record)) {
    return(invisible())
  }
  detail <- evaluator$detailed < detailed_errors_max && !interrupted
  evaluator$detailed <- evaluator$detailed + 1L
  dump <- if (detail) evaluator$control$dump else "no"
  cnd <- without_outer_call(cnd)
  record <- capture_error(cnd, shown$calls, shown$frames, detail = detail, dump = dump)
  record$interrupted <- interrupted
  record <- c(record, missing_name(cnd))
  evaluator$record <- or_else(portable_record(record), record)
}

# A condition may name a call that is none of the element's: exceptions of Rcpp take one from those that are active, and
# below the element these are what runs it, and the session's that was forked. In lapply() they have none then.
without_outer_call <- function(cnd) {
  call <- if (is.list(cnd)) unclass(cnd)[["call"]]
  if (!is.call(call)) {
    return(cnd)
  }
  attributes(call) <- NULL
  for (outer in outer_calls()) {
    if (identical(outer, call)) {
      own <- user_frames(sys.calls(), sys.frames(), evaluator$depth + 1L)$calls
      return(if (has_frame(call, own)) cnd else with_call(cnd, NULL))
    }
  }
  if (is_call_around(call)) with_call(cnd, NULL) else cnd
}

# A builtin that warns names the innermost frame, which is none of the user's if it is itself what a verb was given.
is_call_around <- function(call) {
  at <- evaluator$depth + 1L
  length(at) == 1L && at < sys.nframe() && identical(`attributes<-`(sys.call(at), NULL), call) &&
    is_around(list(sys.frame(at))) &&
    length(user_frames(sys.calls(), sys.frames(), at)$calls) == 0L
}

# They are the same for all elements of a run. Before the first one begins nothing is known of them.
outer_calls <- function() {
  if (is.null(evaluator$outer) && !is.null(evaluator$depth)) {
    evaluator$outer <- lapply(utils::head(as.list(sys.calls()), evaluator$depth), `attributes<-`, NULL)
  }
  evaluator$outer
}

# The variable or function for want of which code has failed: list(unsent, missing), the one if it is a variable of the
# session that the worker was not sent, else the other. Of a worker that has all that the session has neither. The
# messages are R's, in the language of the worker.
missing_name <- function(cnd) {
  if (is.null(evaluator$unsent) || !is.character(cnd$message) || length(cnd$message) != 1L) {
    return(NULL)
  }
  any <- "\\E(.*)\\Q"
  told <- function(template, ..., domain = "R") sprintf(gettext(template, domain = domain), ...)
  messages <- c(
    told("object '%s' not found", any), told("could not find function \"%s\"", any),
    told("object '%s' of mode '%s' was not found", any, "function"), # get() with a mode, match.fun()
    told("value for '%s' not found", any), # mget()
    told("%s not found", sQuote(any), domain = "R-base") # dynGet()
  )
  for (pattern in sprintf("^\\Q%s\\E$", messages)) {
    found <- or_else(regmatches(cnd$message, regexec(pattern, cnd$message, perl = TRUE))[[1L]], NULL)
    if (length(found) == 2L) {
      name <- found[[2L]]
      return(if (name %in% evaluator$unsent) list(unsent = name) else list(missing = name))
    }
  }
}

send_kept <- function() {
  record <- evaluator$record
  if (is.character(record)) {
    .Call(ffi_evaluator_error, record)
  } else if (!is.null(record)) {
    tryCatch(
      .Call(ffi_evaluator_error, record),
      error = function(e) .Call(ffi_evaluator_error, plain_record(record))
    )
  }
  evaluator$record <- NULL
}

# With a note of what the condition has lost on the way.
portable_record <- function(record) {
  cnd <- portable_condition(record$cnd)
  if (!identical(cnd, record$cnd)) {
    record$lost <- or_else(foreign_paths(record$cnd, "cnd"), character())
    record$cnd <- cnd
  }
  record
}

# For a condition or a dump that cannot be encoded.
plain_record <- function(record) {
  evaluator$like <- record$number <- NULL
  record$cnd <- plain_condition(record$cnd)
  record["dump"] <- list(NULL)
  record
}
