# What a worker keeps of an error: the user's condition, the calls that led to it, the local
# variables of each, and a dump for debugger(). This runs inside a calling handler, where a failure
# of ours would take the place of the user's error: every step falls back to less, never to an
# error.

capture_error <- function(cnd, calls, frames, detail = TRUE, dump = "partial") {
  shown <- or_else(bound_frames(calls, frames), bound_frames(list(), list()))
  trace <- list(
    calls = or_else(lapply(shown$calls, light_call), list()),
    locals = list(), omitted = shown$omitted
  )
  if (detail) {
    trace$locals <- or_else(frame_locals(shown$frames), list())
  }
  frames <- or_else(dump_frames(shown$frames, trace$calls, cnd, dump), NULL)
  trace$calls <- c(trace$calls, or_else(frameless_call(cnd, trace$calls, shown$frames), NULL))
  if (detail) {
    trace$locals[seq_along(trace$calls) > length(trace$locals)] <- list(character())
  }
  list(
    cnd = or_else(light_condition(cnd), cnd), trace = structure(trace, class = "regatta_trace"),
    dump = frames
  )
}

# The call of a primitive, as of log("x"), or of a function that does not exist: it has no frame and
# is in no list of calls, but it is what has failed.
frameless_call <- function(cnd, calls, frames) {
  call <- if (is.list(cnd)) cnd[["call"]]
  if (!is.call(call) || length(frames) == 0L || !nzchar(call_name(call))) {
    return(NULL)
  }
  call <- light_call(call)
  attributes(call) <- NULL
  if (!has_frame(call, calls) && is_frameless(call, frames[[length(frames)]])) list(call)
}

# Whether a call is one of those, wherever it stands in a file.
has_frame <- function(call, calls) {
  any(vapply(calls, function(other) identical(`attributes<-`(other, NULL), call), NA))
}

# Whether what a call in `frame` calls has no frame.
is_frameless <- function(call, frame) {
  name <- if (is.call(call)) call_name(call) else ""
  if (!nzchar(name)) {
    return(FALSE)
  }
  fun <- get0(name, envir = frame, mode = "function")
  is.null(fun) || is.primitive(fun)
}

or_else <- function(value, other) {
  tryCatch(value, error = function(e) other)
}

# `first` is the frame of the user's function, `last` the one below the error handler's own. What
# goes: the functions that signalled the condition, the inner frames of tryCatch() and its
# kind, what a verb puts around the user's function, and the inside of a nested parallel call.
user_frames <- function(calls, frames, first = 1L, last = length(calls)) {
  pick <- seq_len(last)
  pick <- pick[pick >= first]
  calls <- as.list(calls)[pick]
  frames <- as.list(frames)[pick]
  home <- frame_homes(frames)
  n <- handler_start(calls, home) - 1L
  while (n > 0L && is_signaller(calls[[n]], home[[n]])) {
    n <- n - 1L
  }
  pick <- seq_len(n)
  keep <- pick[!is_inner_frame(calls[pick], frames[pick], home[pick]) & !is_around(frames[pick])]
  list(calls = calls[keep], frames = frames[keep])
}

# Whether the function of each frame is one by from_base().
is_around <- function(frames) {
  vapply(frames, function(frame) exists("*around*", envir = parent.env(frame), inherits = FALSE), NA)
}

# The package of each frame's function, "" for the user's own. Code of the user's may be enclosed by
# our namespace, as that of a test is: ours are only the functions of the package and those that an
# active one of them has made.
frame_homes <- function(frames) {
  calls_user <- vapply(frames, function(frame) identical(parent.env(frame), caller_home), NA)
  home <- vapply(frames, function(frame) {
    top <- topenv(frame)
    if (identical(top, baseenv())) {
      "base"
    } else if (isNamespace(top)) {
      getNamespaceName(top)[[1L]]
    } else {
      ""
    }
  }, "")
  home[calls_user] <- "regatta"
  for (i in which(home == "regatta" & !calls_user)) {
    maker <- parent.env(frames[[i]])
    at <- which_env(frames[seq_len(i - 1L)], maker)
    if (!isNamespace(maker) && (is.na(at) || home[[at]] != "regatta")) {
      home[[i]] <- ""
    }
  }
  home
}

# The frame of our own error handler, from which this was called: R calls a handler by
# h(simpleError(msg, call)), or as a function without a name.
handler_start <- function(calls, home) {
  ours <- which(home == "regatta")
  is_handler <- vapply(calls[ours], function(call) {
    is.function(call[[1L]]) || identical(call, quote(h(simpleError(msg, call))))
  }, NA)
  if (any(is_handler)) max(ours[is_handler]) else length(calls) + 1L
}

call_name <- function(call) {
  head <- if (is.call(call)) call[[1L]] else call
  if (is.call(head) && length(head) == 3L && as.character(head[[1L]])[[1L]] %in% c("::", ":::")) {
    head <- head[[3L]]
  }
  if (is.symbol(head) || is.character(head)) as.character(head)[[1L]] else ""
}

# With options(warn = 2) the frames of warning() lie below those of the error.
is_signaller <- function(call, home) {
  names <- c(
    "stop", "warning", ".handleSimpleError", ".signalSimpleWarning", "signalCondition",
    "withRestarts", "withOneRestart", "doWithOneRestart",
    "abort", "signal_abort", "cnd_signal", "cli_abort", "signal_error", "abort_argument",
    "abort_memory", "abort_file_size", "abort_files", "abort_maps", "abort_descriptor", "abort_overwritten",
    "no_console"
  )
  home %in% c("base", "rlang", "cli", "regatta") && call_name(call) %in% names
}

is_inner_frame <- function(calls, frames, home) {
  inner <- c(
    "tryCatchList", "tryCatchOne", "doTryCatch", "withOneRestart", "doWithOneRestart", "eval.parent"
  )
  glue <- c("withCallingHandlers", "tryCatch", "try", "lapply", "do.call", "eval", "evalq")
  name <- vapply(calls, call_name, "")
  drop <- home == "base" & name %in% inner
  inside <- FALSE
  for (i in seq_along(calls)) {
    base <- home[[i]] == "base"
    ours <- home[[i]] == "regatta"
    drop[[i]] <- drop[[i]] || (inside && (ours || (base && name[[i]] %in% glue)))
    inside <- ours || (inside && drop[[i]])
  }
  drop | is_eval_twice(calls, frames, name)
}

# eval() has two frames for one call: its own, and that of the evaluated code, which is a frame
# listed already when the code runs in a function that is still active.
is_eval_twice <- function(calls, frames, name) {
  twice <- logical(length(calls))
  for (i in which(name == "eval")) {
    own <- i < length(calls) && identical(calls[[i]], calls[[i + 1L]])
    twice[[i]] <- own || !is.na(which_env(frames[seq_len(i - 1L)], frames[[i]]))
  }
  twice
}

# An infinite recursion has thousands of frames.
bound_frames <- function(calls, frames, outer = 25L, inner = 75L) {
  n <- length(calls)
  if (n <= outer + inner) {
    return(list(calls = calls, frames = frames, omitted = c(after = 0L, frames = 0L)))
  }
  keep <- c(seq_len(outer), seq.int(n - inner + 1L, n))
  list(
    calls = calls[keep], frames = frames[keep],
    omitted = c(after = outer, frames = n - outer - inner)
  )
}

# A call made by do.call() holds its arguments themselves: data of any size, and functions and
# formulas with all that their environments hold. Only small constants stay, the rest is named.
light_call <- function(call) {
  left <- new.env(parent = emptyenv())
  left$nodes <- 400L
  light <- lighten(call, left, 15L)
  place <- call_srcref(call)
  if (!is.null(place) && is.call(light)) {
    attr(light, "srcref") <- place
  }
  light
}

lighten <- function(x, left, depth) {
  left$nodes <- left$nodes - 1L
  if (is.symbol(x)) {
    return(x)
  }
  if (left$nodes < 0L || depth == 0L) {
    return(quote(...))
  }
  if (is.call(x)) {
    parts <- as.list(unclass(x)) # a quosure has a method for `[[`
    # The fourth part of a function literal is its srcref, which holds the whole file.
    if (identical(parts[[1L]], quote(`function`))) {
      parts <- parts[1:3]
    }
    if (length(parts) > max(1L, left$nodes)) parts <- c(parts[seq_len(max(1L, left$nodes))], quote(...))
    return(as.call(lighten_each(parts, left, depth - 1L)))
  }
  if (is.pairlist(x) && !is.null(x)) {
    return(as.pairlist(lighten_each(as.list(x), left, depth - 1L)))
  }
  if (is_small_constant(x)) x else as.name(sprintf("<%s>", value_kind(x)))
}

lighten_each <- function(parts, left, depth) {
  for (i in seq_along(parts)) {
    # An empty argument, as in x[, 1], cannot be passed on.
    if (!identical(parts[[i]], quote(expr = ))) {
      parts[i] <- list(lighten(parts[[i]], left, depth))
    }
  }
  parts
}

# Whether a call, or a part of one, holds no data.
is_light <- function(x) {
  if (is.call(x) || (is.pairlist(x) && !is.null(x))) {
    parts <- as.list(unclass(x))
    for (i in seq_along(parts)) {
      if (!identical(parts[[i]], quote(expr = )) && !is_light(parts[[i]])) {
        return(FALSE)
      }
    }
    # A formula has the environment in which it was made.
    return(all(names(attributes(x)) %in% c("srcref", "srcfile", "wholeSrcref", "names")))
  }
  is.symbol(x) || inherits(x, "srcref") || is_small_constant(x)
}

is_small_constant <- function(x) {
  is.null(x) || (is.atomic(x) && length(x) <= 4L && is.null(attributes(x)) &&
    (!is.character(x) || sum(nchar(x, "bytes")) <= 200L))
}

call_srcref <- function(call) {
  srcref <- attr(call, "srcref", exact = TRUE)
  file <- attr(srcref, "srcfile", exact = TRUE)
  if (is.null(file) || !is.character(file$filename) || !nzchar(file$filename)) {
    return(NULL)
  }
  sprintf("%s#%d", basename(file$filename), srcref[[1L]])
}

# The call of a simple condition is as heavy as that of a frame. A light one is left untouched.
light_condition <- function(cnd) {
  if (!is.list(cnd) || !is.call(cnd[["call"]])) {
    return(cnd)
  }
  light <- light_call_again(cnd[["call"]])
  if (identical(light, cnd[["call"]])) cnd else with_call(cnd, light)
}

# No method of the user's class is called.
with_call <- function(cnd, call) {
  class <- attr(cnd, "class")
  cnd <- unclass(cnd)
  cnd["call"] <- list(call)
  class(cnd) <- class
  cnd
}

# What a loop signals comes from the same call each time. Kept is the last one, if all of it is light.
lightened <- new.env(parent = emptyenv())
lightened$call <- NULL
lightened$light <- NULL

light_call_again <- function(call) {
  if (identical(call, lightened$call)) {
    return(lightened$light)
  }
  light <- light_call(call)
  attributes(light) <- NULL
  if (identical(light, `attributes<-`(call, NULL))) {
    lightened$call <- call
    lightened$light <- light
  }
  light
}

# A condition that consists of a text and of a call that was light before: it can be sent as it is.
is_plain_condition <- function(cnd) {
  is.list(cnd) && !isS4(cnd) && length(cnd) == 2L && length(attributes(cnd)) == 2L &&
    is.character(cnd[["message"]]) && is.null(attributes(cnd[["message"]])) &&
    !is.null(cnd[["call"]]) && identical(cnd[["call"]], lightened$call)
}

format.regatta_trace <- function(x, ..., n = Inf, locals = TRUE, width = 80L) {
  total <- length(x$calls)
  shown <- seq_len(total)
  shown <- shown[shown > total - n]
  after <- x$omitted[["after"]]
  number <- shown + ifelse(shown > after, x$omitted[["frames"]], 0L)
  digits <- max(2L, nchar(as.character(number)))
  lines <- lapply(seq_along(shown), function(k) {
    i <- shown[[k]]
    call <- paste0(format_call(x$calls[[i]], width - digits - 2L), call_place(x$calls[[i]]))
    variables <- if (locals && length(x$locals) >= i) x$locals[[i]]
    c(
      sprintf("%*d. %s", digits, number[[k]], call),
      if (length(variables) > 0L) paste0(strrep(" ", digits + 4L), variables),
      if (i == after && x$omitted[["frames"]] > 0L) {
        sprintf("%s (%d calls not kept)", strrep(" ", digits + 1L), x$omitted[["frames"]])
      }
    )
  })
  as.character(unlist(lines))
}

print.regatta_trace <- function(x, ...) {
  lines <- format(x, ...)
  writeLines(if (length(lines) == 0L) "<regatta_trace> no calls" else lines)
  invisible(x)
}
