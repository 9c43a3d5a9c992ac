# Crash dumps for debugger(): the frames of an error as an object of class "dump.frames".

# Bytes above which "partial" keeps a line of text in place of an object, and how much it keeps of
# one error in all.
dump_object_limit <- 1e6
dump_total_limit <- 2e7

dump_frames <- function(frames, calls, cnd, dump) {
  if (dump == "no" || length(frames) == 0L) {
    return(NULL)
  }
  labels <- frame_labels(calls)
  value <- if (dump == "frames") {
    structure(frames, names = labels)
  } else if (dump == "full") {
    session <- as.environment(as.list(globalenv(), all.names = TRUE))
    structure(c(list(session), frames), names = c(".GlobalEnv", labels))
  } else {
    structure(copy_frames(frames), names = labels)
  }
  attr(value, "error.message") <- paste0(message_of(cnd), "\n")
  class(value) <- "dump.frames"
  value
}

frame_labels <- function(calls) {
  vapply(calls, function(call) {
    place <- attr(call, "srcref", exact = TRUE)
    paste0(if (!is.null(place)) paste0(place, ": "), format_call(call, 75L))
  }, "")
}

# Frames that are one environment (local() has several) stay one environment.
copy_frames <- function(frames) {
  own <- list()
  for (frame in frames) {
    if (!is_known_env(frame) && is.na(which_env(own, frame))) {
      own[[length(own) + 1L]] <- frame
    }
  }
  budget <- new.env(parent = emptyenv())
  budget$bytes <- dump_total_limit
  # The innermost frames are given what there is first.
  values <- rev(lapply(rev(own), frame_values, budget = budget))
  copies <- lapply(own, function(frame) new.env(parent = globalenv()))
  values <- detach_values(values, own, copies)
  for (i in seq_along(own)) {
    list2env(values[[i]], envir = copies[[i]])
  }
  lapply(frames, function(frame) {
    at <- which_env(own, frame)
    if (is.na(at)) frame else copies[[at]]
  })
}

frame_values <- function(frame, budget) {
  kinds <- binding_kinds(frame)
  values <- lapply(names(kinds), function(name) {
    or_else(
      dump_value(frame, name, kinds[[name]], budget),
      "<cannot be kept>"
    )
  })
  # `...` is no name that a variable can have.
  names(values) <- ifelse(kinds == "dots", "..dots..", names(kinds))
  values
}

dump_value <- function(frame, name, kind, budget) {
  if (kind == "missing") {
    return(quote(expr = ))
  }
  if (!kind %in% c("value", "constant")) {
    return(binding_text(frame, name, kind))
  }
  value <- if (kind == "value") frame[[name]] else promise_code(frame, name)
  size <- as.double(utils::object.size(value))
  if (size <= min(dump_object_limit, budget$bytes)) {
    budget$bytes <- budget$bytes - size
    return(value)
  }
  why <- if (size > dump_object_limit) "it is large" else "the other variables are large"
  sprintf(
    "<%s of %s, not kept by dump = \"partial\": %s>",
    value_kind(value), format_bytes(size), why
  )
}

# Functions, formulas and model terms, however deep inside a value, hold environments, and those
# hold whole sessions. A trip through serialize() finds every one of them: a frame of the dump
# becomes its copy, any other an environment that says what was left out.
detach_values <- function(values, frames, copies) {
  dropped <- new.env(parent = emptyenv())
  dropped$from <- list()
  dropped$to <- list()
  leave <- function(x) leave_env(x, frames, dropped)
  enter <- function(name) {
    i <- as.integer(name[[2L]])
    if (name[[1L]] == "frame") copies[[i]] else dropped$to[[i]]
  }
  trip <- function(x) unserialize(to_bytes(x, refhook = leave), refhook = enter)
  or_else(trip(values), lapply(values, function(frame) {
    lapply(frame, function(x) or_else(trip(x), "<cannot be kept>"))
  }))
}

# For serialize(): NULL lets it write the object itself.
leave_env <- function(x, frames, dropped) {
  if (!is.environment(x)) {
    return(NULL)
  }
  at <- which_env(frames, x)
  if (!is.na(at)) {
    return(c("frame", at))
  }
  at <- which_env(dropped$from, x)
  if (is.na(at)) {
    at <- length(dropped$from) + 1L
    dropped$from[[at]] <- x
    dropped$to[[at]] <- if (inherits(x, "srcfile")) light_srcfile(x) else stand_in(x)
  }
  c("dropped", at)
}

stand_in <- function(env) {
  names <- ls(envir = env, all.names = TRUE)
  env <- new.env(parent = globalenv())
  env$.left_out <- sprintf(
    "an environment of %d variables, not kept by dump = \"partial\": %s",
    length(names), paste(utils::head(names, 20L), collapse = ", ")
  )
  env
}

# The text of a function's file stays, unless it is long; the parse data are many times larger.
light_srcfile <- function(file) {
  light <- new.env(parent = emptyenv())
  keep <- c("filename", "wd", "Enc", "encoding", "timestamp", "isFile")
  if (inherits(file, "srcfilecopy") && utils::object.size(file$lines) < 2e5) {
    keep <- c(keep, "lines", "fixedNewlines")
    class(light) <- class(file)
  } else {
    class(light) <- "srcfile"
  }
  for (name in intersect(keep, ls(envir = file, all.names = TRUE))) {
    assign(name, get(name, envir = file), envir = light)
  }
  light
}

# For other sessions: `file` holds the frames of the first error that has any, and all the errors as the
# attribute "errors". Returns the file's whole path, NULL if nothing was written.
write_dump <- function(errors, file) {
  first <- first_dump(errors)
  if (is.null(first)) {
    return(NULL)
  }
  attr(first, "errors") <- errors
  tryCatch(
    {
      save_whole(first, file)
      normalizePath(file)
    },
    error = function(e) dump_not_written(file, conditionMessage(e)),
    warning = function(w) dump_not_written(file, conditionMessage(w))
  )
}

# Another process may read the file: it is complete under its name or not there.
save_whole <- function(value, path) {
  partial <- sprintf("%s.%d.part", path, Sys.getpid())
  on.exit(unlink(partial))
  # A file that cannot be opened, or be closed, is a warning.
  file <- gzfile(partial, "wb")
  tryCatch(unwarned(saveRDS(value, file)), finally = close(file))
  if (!file.rename(partial, path)) {
    stop("it cannot be renamed to its final name")
  }
}

# Of the first error that has one: of many errors of a worker only some have.
first_dump <- function(errors) {
  for (cnd in errors) {
    if (inherits(cnd[["dump"]], "dump.frames")) {
      return(cnd[["dump"]])
    }
  }
}

dump_not_written <- function(file, reason) {
  rlang::warn(
    sprintf(
      "cannot write the crash dump %s: %s. Give `par_control(dump_file = )` a path that can be written.",
      encodeString(file, quote = "\""), reason
    ),
    class = c("regatta_warning_dump", "regatta_warning")
  )
  NULL
}
