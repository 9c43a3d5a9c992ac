# try() that keeps what is needed to find the error: its calls, their variables and a dump. The
# object is the one that code written for bettermc knows; what is in it is found by trace-*.R.

etry <- function(expr, silent = FALSE,
                 outFile = getOption("try.outFile", default = stderr()),
                 max.lines = 100L,
                 dump.frames = c("partial", "full", "full_global", "no")) {
  silent <- check_flag(silent, "silent")
  max.lines <- check_count(max.lines, "max.lines")
  dump.frames <- check_choice(
    dump.frames, "dump.frames", c("partial", "full", "full_global", "no")
  )
  place <- list(call = sys.call(), own = environment(), from = parent.frame())
  depth <- 0L
  error <- NULL
  tryCatch(
    withCallingHandlers(
      {
        depth <- frame_count()
        expr
      },
      error = function(e) error <<- etry_capture(e, depth, place, max.lines, dump.frames)
    ),
    error = function(e) {
      # The handler above is not called after an infinite recursion.
      if (!identical(attr(error, "condition"), e)) {
        error <- etry_error(e, list(), list(), no_dump(e), max.lines)
      }
      if (!silent && isTRUE(getOption("show.error.messages"))) {
        cat(utils::capture.output(print(error)), file = outFile, sep = "\n")
      }
      invisible(error)
    }
  )
}

# The number of active frames where it is called, those of the code that it stands in included:
# sys.nframe() there would not count the frames between a promise and the code that forces it.
frame_count <- function() {
  sys.nframe() - 1L
}

# Called by the handler of the error: its own frame and that of the handler are the last ones.
# `depth` is the number of the last frame before those of the user's code.
etry_capture <- function(e, depth, place, max.lines, dump) {
  calls <- sys.calls()
  frames <- sys.frames()
  last <- sys.nframe() - 2L
  shown <- or_else(user_frames(calls, frames, 1L, last), list(calls = list(), frames = list()))
  bound <- bound_frames(shown$calls, shown$frames)
  inner <- or_else(user_frames(calls, frames, depth + 1L, last), shown)
  kept <- switch(dump,
    no = list(calls = list(), frames = list()),
    # The code may have no call of its own: where it stands is always there to be looked at.
    partial = list(
      calls = c(list(place$call), inner$calls), frames = c(list(place$from), inner$frames)
    ),
    shown
  )
  mode <- if (dump == "full_global") "full" else if (dump == "no") "no" else "frames"
  light <- or_else(lapply(kept$calls, light_call), rep(list(quote(...)), length(kept$calls)))
  frames <- or_else(dump_frames(kept$frames, light, e, mode), NULL)
  locals <- or_else(frame_locals(bound$frames), list())
  ours <- which_env(bound$frames, place$own)
  if (!is.na(ours) && ours <= length(locals)) locals[[ours]] <- character()
  etry_error(
    e, or_else(lapply(bound$calls, light_call), list()), locals,
    if (is.null(frames)) no_dump(e) else frames, max.lines
  )
}

# `calls` and `locals` have the innermost frame last, the object has it first, as traceback() has.
etry_error <- function(cnd, calls, locals, dump, max.lines = 100L) {
  structure(
    paste0("Error: ", message_of(cnd)),
    class = c("etry-error", "try-error"),
    condition = cnd,
    traceback = rev(lapply(calls, call_lines, max.lines = max.lines)),
    locals = rev(locals),
    dump.frames = dump
  )
}

# The object for debugger() when there is nothing to look at.
no_dump <- function(cnd) {
  structure(list(), error.message = paste0(message_of(cnd), "\n"), class = "dump.frames")
}

call_lines <- function(call, max.lines) {
  lines <- or_else(
    deparse(call, width.cutoff = 80L, nlines = max.lines + 1L), "<call that cannot be shown>"
  )
  if (length(lines) > max.lines) {
    lines <- c(lines[seq_len(max.lines)], "...")
  }
  place <- call_place(call)
  lines[length(lines)] <- paste0(lines[[length(lines)]], place)
  lines
}

`print.etry-error` <- function(x, max.lines = getOption(
                                 "traceback.max.lines", getOption("deparse.max.lines", -1L)
                               ), ...) {
  writeLines(format_etry(x, max.lines))
  invisible(x)
}

format_etry <- function(x, max.lines = -1L) {
  trace <- attr(x, "traceback")
  locals <- attr(x, "locals")
  n <- length(trace)
  lines <- lapply(seq_len(n), function(i) {
    label <- sprintf("%3d: ", n - i + 1L)
    text <- trace[[i]]
    if (is.numeric(max.lines) && isTRUE(max.lines > 0) && length(text) > max.lines) {
      text <- c(text[seq_len(max.lines)], "...")
    }
    shown <- if (length(locals) >= i) locals[[i]]
    c(
      paste0(c(label, rep(strrep(" ", nchar(label)), length(text) - 1L)), text),
      if (length(shown) > 0L) paste0(strrep(" ", nchar(label) + 4L), shown)
    )
  })
  c(
    as.character(unclass(x)),
    if (n == 0L) "No traceback." else c("", "Calls and their variables, innermost first:"),
    unlist(lines),
    if (length(attr(x, "dump.frames")) > 0L) {
      c("", "Its frames are kept: debugger(attr(<this object>, \"dump.frames\")) opens them.")
    }
  )
}
