# The variables of a frame as one line of text each. No method of the user's is called and no
# promise forced: either could fail, take for ever or change what is being looked at.

# CPU seconds that the variables of one error may take in all, and how many of a frame are shown.
locals_time <- 0.5
locals_count <- 40L

frame_locals <- function(frames, width = 76L) {
  # What is read from disk for the first error of a process takes longer than the variables of most.
  or_else(loadNamespace("rlang"), NULL)
  deadline <- .Call(ffi_clock_cpu) + locals_time
  locals <- vector("list", length(frames))
  # The innermost frames matter most, so that they come first while there is time.
  for (i in rev(seq_along(frames))) {
    env <- frames[[i]]
    locals[[i]] <- if (is_known_env(env) || which_env(frames, env) < i) {
      character()
    } else if (.Call(ffi_clock_cpu) > deadline) {
      "(not shown: the variables of the other frames took too long)"
    } else {
      or_else(env_lines(env, width), "(cannot be shown)")
    }
  }
  locals
}

which_env <- function(envs, env) {
  for (i in seq_along(envs)) {
    if (identical(envs[[i]], env)) {
      return(i)
    }
  }
  NA_integer_
}

# Environments that every session has: a frame of evalq(code, globalenv()) is one.
is_known_env <- function(env) {
  identical(env, globalenv()) || identical(env, baseenv()) || identical(env, emptyenv()) ||
    isNamespace(env) || !is.null(attr(env, "name", exact = TRUE))
}

env_lines <- function(env, width) {
  kinds <- binding_kinds(env)
  more <- length(kinds) - locals_count
  kinds <- utils::head(kinds, locals_count)
  lines <- vapply(names(kinds), function(name) {
    text <- or_else(binding_text(env, name, kinds[[name]]), "<cannot be shown>")
    or_else(shorten(sprintf("%s: %s", name, text), width), paste0(name, ": <cannot be shown>"))
  }, "")
  unname(c(lines, if (more > 0L) sprintf("(and %d more variables)", more)))
}

# "value", "constant" (a promise that is a constant), "promise" (any other that is not evaluated
# yet), "active", "missing" (an argument not given) or "dots".
binding_kinds <- function(env) {
  names <- ls(envir = env, all.names = TRUE)
  plain <- names[names != "..."]
  kinds <- rep("value", length(plain))
  if (length(plain) > 0L) {
    active <- rlang::env_binding_are_active(env, plain)
    promise <- rlang::env_binding_are_lazy(env, plain)
    kinds[active] <- "active"
    kinds[promise] <- "promise"
    kinds[promise] <- vapply(plain[promise], function(name) {
      if (is.language(promise_code(env, name))) "promise" else "constant"
    }, "")
    for (i in which(!active & !promise)) {
      if (identical(.subset2(env, plain[[i]]), quote(expr = ))) {
        kinds[[i]] <- "missing"
      }
    }
  }
  names(kinds) <- plain
  if ("..." %in% names) c(kinds, "..." = "dots") else kinds
}

binding_text <- function(env, name, kind) {
  switch(kind,
    value = value_text(.subset2(env, name)),
    constant = value_text(promise_code(env, name)),
    promise = sprintf("<not evaluated: %s>", promise_text(env, name)),
    active = "<active binding>",
    missing = "<missing>",
    dots = dots_text(env)
  )
}

promise_code <- function(env, name) {
  do.call(substitute, list(as.name(name), env))
}

promise_text <- function(env, name) {
  format_call(light_call(promise_code(env, name)), 60L)
}

dots_text <- function(env) {
  dots <- as.list(do.call(substitute, list(quote(list(...)), env)))[-1L]
  if (length(dots) == 0L) {
    return("<none>")
  }
  more <- max(0L, length(dots) - dots_shown)
  text <- vapply(utils::head(dots, dots_shown), function(x) format_call(light_call(x), 30L), "")
  given <- names(text)
  if (!is.null(given)) {
    text <- ifelse(nzchar(given), paste(given, "=", text), text)
  }
  paste(c(text, if (more > 0L) sprintf("and %d more", more)), collapse = ", ")
}

# Arguments of a frame. Its text is cut where a line ends; do.call() may have been given 1e5.
dots_shown <- 50L

value_text <- function(x) {
  sample <- value_sample(x)
  if (length(sample) == 0L) value_kind(x) else paste(value_kind(x), paste(sample, collapse = ", "))
}

# What it is and how large, in few words: "num [10]", "data.frame [5 x 2]", "function (x, y)".
value_kind <- function(x) {
  if (is.function(x)) {
    return(sprintf("function (%s)", paste(names(formals(x)), collapse = ", ")))
  }
  if (is.null(x)) {
    return("NULL")
  }
  short <- c(
    double = "num", integer = "int", logical = "logi", character = "chr", complex = "cplx",
    raw = "raw", language = "call", pairlist = "list"
  )
  type <- typeof(x)
  class <- attr(x, "class", exact = TRUE)
  kind <- if (is.character(class) && length(class) > 0L) {
    class[[1L]]
  } else if (type %in% names(short)) {
    short[[type]]
  } else {
    type
  }
  paste0(kind, value_shape(x, type))
}

value_shape <- function(x, type) {
  if (!type %in% c("double", "integer", "logical", "character", "complex", "raw", "list")) {
    return("")
  }
  if (inherits(x, "data.frame") && type == "list") {
    return(sprintf(" [%d x %d]", .row_names_info(x, 2L), length(attr(x, "names"))))
  }
  dim <- attr(x, "dim", exact = TRUE)
  if (!is.null(dim)) {
    return(sprintf(" [%s]", format_extents(dim)))
  }
  # unclass() copies no data; length() of the object itself would call its method.
  n <- length(unclass(x))
  if (n == 1 && type != "list") "" else sprintf(" [%.0f]", n)
}

value_sample <- function(x, most = 5L) {
  switch(typeof(x),
    symbol = as.character(x),
    language = format_call(light_call(x), 50L),
    list = list_sample(attr(x, "names", exact = TRUE), most),
    double = , integer = , logical = , character = , complex = ,
    raw = atomic_sample(x, most),
    character()
  )
}

list_sample <- function(names, most) {
  shown <- vapply(utils::head(names, most), shorten, "", width = 20L, USE.NAMES = FALSE)
  c(shown, if (length(names) > most) "...")
}

atomic_sample <- function(x, most) {
  class <- attr(x, "class", exact = TRUE)
  bare <- unclass(x)
  n <- length(bare)
  first <- as.vector(bare[seq_len(min(n, most))])
  text <- if (is.character(first)) {
    vapply(first, function(s) {
      if (is.na(s)) "NA" else encodeString(shorten(s, 30L), quote = "\"")
    }, "", USE.NAMES = FALSE)
  } else if (identical(class, "factor")) {
    levels <- attr(x, "levels", exact = TRUE)
    vapply(as.character(levels[first]), shorten, "", width = 20L, USE.NAMES = FALSE)
  } else if (identical(class, "Date")) {
    format.Date(structure(as.double(first), class = "Date"))
  } else if (identical(class, c("POSIXct", "POSIXt"))) {
    format.POSIXct(structure(as.double(first), class = class), tz = "UTC", usetz = TRUE)
  } else {
    format_number(first, 4L)
  }
  c(text, if (n > most) "...")
}
