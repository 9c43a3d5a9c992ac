# Errors by the hundred thousand from one line: what led to them is described once, and told by a number after that.
# What the session does with it is in R/driver-alike.R.

# Many errors are those of the same line: what led to them is described once. This is all that the trace and the
# call of the condition are made of, but for is_like_last(): calls, in which package the function of each is, and the
# call of the condition. NULL while errors are described in full, and where there is more to it.
error_key <- function(cnd, calls, frames) {
  if (evaluator$detailed < detailed_errors_max || !is.list(cnd) || !is.null(evaluator$record)) {
    return(NULL)
  }
  # Those of handle_condition() and handle_error() are the last ones.
  last <- length(calls) - 2L
  if (last <= evaluator$depth || last > evaluator$depth + 100L) {
    return(NULL)
  }
  own <- seq.int(evaluator$depth + 1L, last)
  homes <- lapply(frames[own], topenv, getOption("topLevelEnvironment"))
  calls <- as.list(calls)[own]
  n <- length(own)
  calls[[n]] <- innermost_call(calls[[n]], homes[[n]])
  list(calls = calls, homes = homes, call = unclass(cnd)[["call"]])
}

# What calls a handler of R's own errors has the message among its arguments.
innermost_call <- function(call, home) {
  handles <- identical(call[[1L]], quote(.handleSimpleError)) && isBaseNamespace(home)
  if (handles) quote(.handleSimpleError()) else call
}

# Whether the error has the key of the last one that was described. Nearly all errors are such where there are many,
# and no more frames are looked at than those of the element: there are as many again below it.
is_like_last <- function(cnd) {
  like <- evaluator$like
  if (is.null(like) || !is.list(cnd) || !is.null(evaluator$record)) {
    return(FALSE)
  }
  key <- like$key
  # Those of handle_condition(), handle_error() and this function are the last ones.
  frames <- evaluator$depth + seq_along(key$calls)
  if (length(frames) != sys.nframe() - 3L - evaluator$depth || !identical(unclass(cnd)[["call"]], key$call)) {
    return(FALSE)
  }
  top <- getOption("topLevelEnvironment")
  for (k in seq_along(frames)) {
    home <- topenv(sys.frame(frames[[k]]), top)
    call <- sys.call(frames[[k]])
    if (k == length(frames)) call <- innermost_call(call, home)
    if (!identical(home, key$homes[[k]]) || !identical(call, key$calls[[k]])) {
      return(FALSE)
    }
  }
  # The key does not say which function the call of the condition would find where that is not among the calls.
  is.null(like$at) || identical(or_else(is_frameless(key$call, sys.frame(like$at)), NULL), like$frameless)
}

# NULL where it matters which of the frames are the same, or who has made a function: see user_frames(); and
# where calls have arguments of any size, which would be held.
like_error <- function(key, shown) {
  record <- evaluator$record
  if (is.null(key) || is.null(record) || !is.null(record$lost) || length(shown$frames) == 0L) {
    return(NULL)
  }
  simple <- !any(vapply(key$calls, call_name, "") %in% c("eval", "evalq")) &&
    !any(frame_homes(shown$frames) == "regatta")
  if (!simple || !all(vapply(key$calls, is_light, NA)) || !is_light(key$call)) {
    return(NULL)
  }
  evaluator$told <- evaluator$told + 1L
  like <- list(
    key = key, call = unclass(record$cnd)[["call"]], trace = record$trace, number = as.character(evaluator$told)
  )
  # A function is looked up where frameless_call() does, since that may evaluate an argument.
  if (is.call(like$call) && !has_frame(like$call, lapply(shown$calls, light_call))) {
    like$at <- which_env(evaluator$frames, shown$frames[[length(shown$frames)]])
    like$frameless <- is_frameless(key$call, evaluator$frames[[like$at]])
  }
  like
}

# Of an error that differs in no more than its message from the last one that was described, which the session has by
# its number, that message is all that is sent.
keep_like <- function(cnd) {
  like <- evaluator$like
  if (is_message_alone(cnd)) {
    evaluator$record <- c(like$number, .subset2(cnd, "message"))
    return(invisible())
  }
  if (!identical(unclass(cnd)[["call"]], like$call)) {
    cnd <- with_call(cnd, like$call)
  }
  record <- list(cnd = cnd, trace = like$trace, dump = NULL, interrupted = FALSE)
  evaluator$record <- or_else(portable_record(record), record)
}

# Conditions that stop() and R itself make, which have no fields of their own.
is_message_alone <- function(cnd) {
  identical(attributes(cnd), plain_error) && is_plain_text(.subset2(cnd, "message"))
}

plain_error <- attributes(simpleError(""))

# A text that neither encoding nor formatting can fail on.
is_plain_text <- function(x) {
  is.character(x) && length(x) == 1L && is.null(attributes(x)) && !is.na(x) && validEnc(x) &&
    Encoding(x) != "bytes" && nchar(x, "bytes") <= 8192L
}
