# Arguments of functions around the code of a map that nobody has used yet, as `x` in
#   means <- function(x) par_sapply(1:4, function(i) mean(x))
# With lapply() the first element that uses one evaluates it, in the session and for all elements. In workers each would
# have a value of its own, with random numbers of its element. They are evaluated in the session, as those are that the
# map itself is given: what is named by anything that the map may come to, by the text of a string as well. That is what
# its code names, and so on in what that stands for, functions, formulas and other code, in lists, attributes and
# environments too; and all that stands beside such an argument, since methods, replacement functions and strings are
# found by no name in code. What belongs to packages is not looked into. Code
# that gives the same wherever it is evaluated stays code, for functions that take it as such: see R/encode-pure.R.

# `FUN` and other values that the map is given, its elements among them. `frame`: where code finds variables that has no
# environment of its own.
force_around <- function(FUN, others, frame = if (is_closure(FUN)) environment(FUN) else globalenv()) {
  look <- list2env(list(
    given = list(FUN, others), seen = numeric(), left = around_most, codes = list(), words = character(),
    sources = list(), frames = list(), addresses = numeric(), objects = logical(), tried = list()
  ), parent = emptyenv())
  with_calls({
    around_place(look, globalenv())
    around_follow(look, around_code(look, look$given, frame))
    repeat {
      around_follow(look, around_spoken(look))
      pending <- around_pending(look)
      if (length(pending) == 0L) break
      around_follow(look, unlist(lapply(pending, function(at) around_force(look, at)), recursive = FALSE))
    }
  })
}

# Pieces of code that are looked into for one map.
around_most <- 2000

# What is to be looked into of these values, or of those that stand in a call as they are, and has not been yet:
# list(code, frame) for each, where its names are looked for if it does not say so itself.
around_code <- function(look, values, frame) {
  found <- .Call(ffi_encode_code, values, look$left)
  new <- !duplicated(found$address) & !found$address %in% look$seen
  look$seen <- c(look$seen, found$address[new])
  look$left <- look$left - sum(new)
  lapply(found$code[new], function(code) list(code = code, frame = frame))
}

around_follow <- function(look, level) {
  while (length(level) > 0L) {
    level <- unlist(lapply(level, function(at) around_step(look, at)), recursive = FALSE)
  }
}

around_step <- function(look, at) {
  if (is.environment(at$code)) {
    return(around_object(look, at$code))
  }
  frame <- if (is.function(at$code)) environment(at$code) else attr(at$code, ".Environment", exact = TRUE)
  if (is.null(frame)) frame <- at$frame
  if (is_packaged(frame)) {
    return(NULL)
  }
  code <- as_language(at$code)
  look$codes <- c(look$codes, list(code))
  look$sources <- c(look$sources, list(list(x = at$code, env = frame)))
  c(around_code(look, code, frame), around_frames(look, frame, code_words(code)))
}

# A string that the encoding of the session has no characters for is no name in it.
code_words <- function(x) {
  words <- unique(.Call(ffi_encode_code_words, x))
  if (all(Encoding(words) == "unknown") || l10n_info()[["UTF-8"]]) {
    return(words)
  }
  words[!is.na(iconv(enc2utf8(words), "UTF-8", ""))]
}

# An environment that is a value, such as an object of R6: all that it holds may be used.
around_object <- function(look, env) {
  if (is_lasting(env)) {
    return(NULL)
  }
  place <- around_place(look, env)
  look$objects[[place]] <- TRUE
  c(around_frame(look, env, frame_names(env)), around_frames(look, parent.env(env), character()))
}

# What code finds that names `words`.
around_frames <- function(look, frame, words) {
  found <- list()
  while (!is_lasting(frame)) {
    found <- c(found, around_frame(look, frame, words))
    frame <- parent.env(frame)
  }
  if (!identical(frame, globalenv())) {
    return(found)
  }
  look$words <- union(look$words, words)
  c(found, around_frame(look, frame, words))
}

around_frame <- function(look, frame, words) {
  around_place(look, frame)
  names <- if (identical(frame, globalenv())) words else frame_names(frame)
  kinds <- variable_kinds(frame, names)
  delayed <- kinds == variable_delayed
  wanted <- !delayed & (any(delayed) | names %in% words)
  c(
    around_values(look, frame, names[wanted]),
    around_code(look, active_functions(frame, names[wanted & kinds == 0L]), frame)
  )
}

# What is to be looked into of these variables. No list that R keeps holds a value: the session would copy it at its
# next change.
around_values <- function(look, frame, names) {
  taken <- .Call(ffi_variables_take, frame, names)
  on.exit(.Call(ffi_variables_drop, taken))
  around_code(look, taken[[2L]], frame)
}

active_functions <- function(frame, names) {
  active <- vapply(names, function(name) exists(name, frame, inherits = FALSE) && bindingIsActive(name, frame), NA)
  lapply(names[active], activeBindingFunction, env = frame)
}

# What is to be looked into of functions that no code names but a text may, as in do.call("f", ...), or that are methods:
# those of the workspace, of frames around code, also in lists, and among the options, around which there are arguments
# that nobody has used.
around_spoken <- function(look) {
  options <- options()
  options <- options[.Call(ffi_encode_framed, options)]
  found <- around_code(look, unname(options[vapply(options, delays, NA)]), globalenv())
  for (frame in look$frames) {
    names <- frame_names(frame)
    delaying <- names[around_delays(frame, names)]
    if (length(delaying) > 0L) {
      spoken <- union(around_named(look, delaying), workspace_methods(delaying, frame))
      found <- c(found, around_values(look, frame, spoken))
    }
    # Methods of S4 are in an environment for each generic.
    for (table in names[startsWith(names, ".__T__")]) found <- c(found, around_methods(look, frame[[table]]))
  }
  found
}

around_methods <- function(look, table) {
  if (is.environment(table)) {
    names <- frame_names(table)
    around_values(look, table, names[around_delays(table, names)])
  }
}

# Which of these variables hold functions around which there is a promise.
around_delays <- function(frame, names) {
  taken <- .Call(ffi_variables_take, frame, names)
  on.exit(.Call(ffi_variables_drop, taken))
  framed <- taken[[1L]] != variable_delayed & .Call(ffi_encode_framed, taken[[2L]])
  framed[framed] <- vapply(which(framed), function(k) delays(taken[[2L]][[k]]), NA)
  framed
}

delays <- function(x) {
  any(vapply(c(functions_in(x)), function(f) is_closure(f) && has_delayed(environment(f)), NA))
}

has_delayed <- function(frame) {
  while (!is_lasting(frame)) {
    if (length(delayed_names(frame)) > 0L) {
      return(TRUE)
    }
    frame <- parent.env(frame)
  }
  FALSE
}

around_place <- function(look, frame) {
  address <- address_of(frame)
  place <- match(address, look$addresses)
  if (is.na(place)) {
    place <- length(look$frames) + 1L
    look$frames[[place]] <- frame
    look$addresses[[place]] <- address
    look$objects[[place]] <- FALSE
    look$tried[[place]] <- character()
  }
  place
}

address_of <- function(frame) .Call(ffi_encode_code, list(frame), 1)$address

# What is still to be evaluated: list(place, names) for frames, "..." for what stands there. Of a frame that is a value
# all is, if its function has ended or code takes all of an environment: there is no name that it must be found by.
around_pending <- function(look) {
  pending <- lapply(seq_along(look$frames), function(place) {
    list(place = place, names = setdiff(delayed_names(look$frames[[place]]), look$tried[[place]]))
  })
  pending <- Filter(function(at) length(at$names) > 0L, pending)
  if (length(pending) == 0L) {
    return(pending)
  }
  around_captured(look)
  named <- around_named(look, unique(unlist(lapply(pending, `[[`, "names"))))
  takes_all <- any(look$objects) && length(around_named(look, taking_all)) > 0L
  pending <- lapply(pending, function(at) {
    all <- look$objects[[at$place]] && (takes_all || is.na(which_env(sys.frames(), look$frames[[at$place]])))
    if (!all) at$names <- intersect(at$names, named)
    at$names <- setdiff(at$names, look$tried[[at$place]])
    at
  })
  Filter(function(at) length(at$names) > 0L, pending)
}

# What the code that was found since the last time takes as code counts as looked into.
around_captured <- function(look) {
  if (!isNamespaceLoaded("rlang")) {
    return(invisible())
  }
  for (source in look$sources) {
    for (name in captured_names(source$x, source$env)) {
      # None for the name of a column.
      for (place in which(look$addresses %in% address_of(find_home(name, source$env)))) {
        look$tried[[place]] <- union(look$tried[[place]], name)
      }
    }
  }
  look$sources <- list()
}

# Which of these names code names, or text, in all that has been found.
around_named <- function(look, names) {
  words <- c(names, if ("..." %in% names) dots_words)
  options <- Filter(function(x) is_closure(x) && !is_packaged(environment(x)), options())
  named <- .Call(ffi_encode_mentions, list(look$given, look$codes, lapply(unname(options), as_language)), words, TRUE)
  for (frame in look$frames) {
    held <- if (identical(frame, globalenv())) look$words else frame_names(frame)
    held <- held[variable_kinds(frame, held) != variable_delayed]
    taken <- .Call(ffi_variables_take, frame, held)
    named <- named | .Call(ffi_encode_mentions, taken[[2L]], words, TRUE)
    .Call(ffi_variables_drop, taken)
  }
  c(words[named], if (any(named[words %in% dots_words])) "...")
}

# Functions that take all variables of an environment.
taking_all <- c("as.list", "mget", "eapply", "ls", "env_get_list")

dots_words <- c("...elt", "...length", "...names", paste0("..", 1:9))

# What is to be looked into of what the variables have become, or will be in each worker.
around_force <- function(look, at) {
  frame <- look$frames[[at$place]]
  look$tried[[at$place]] <- c(look$tried[[at$place]], at$names)
  found <- if ("..." %in% at$names) around_dots(frame)
  names <- setdiff(at$names, "...")
  taken <- .Call(ffi_variables_take, frame, names)
  promises <- lapply(taken[[2L]], as.list)
  delayed <- taken[[1L]] == variable_delayed # still: one may use another
  .Call(ffi_variables_drop, taken)
  used <- .Call(ffi_encode_mentions, look$codes, names, FALSE)
  for (k in which(delayed)) {
    found <- c(found, around_promise(promises[[k]], around_value(frame, names[[k]], promises[[k]]), used[[k]]))
  }
  c(found, around_values(look, frame, names[variable_kinds(frame, names) != variable_delayed]))
}

# What is to be looked into of a promise that stays code; else it is evaluated, by `value`, if it may be. `used`: whether
# code has its name, and would evaluate it here, once.
around_promise <- function(promise, value, used = FALSE) {
  is_pure <- is_pure(promise[[1L]], promise[[2L]])
  if ((used || !is_pure) && !may_leave(promise)) promise_value(value, NULL)
  if (is_pure) around_pure(promise[[1L]], promise[[2L]])
}

# Of a promise. One that fails does so anew where it is used, without R's warning that it is begun again. A default is
# left as it is: missing() would not know it any more.
around_value <- function(frame, name, promise) {
  is_had <- FALSE
  on.exit(if (!is_had && !bindingIsLocked(name, frame) && !or_else(eval(call("missing", as.name(name)), frame), TRUE)) {
    do.call(delayedAssign, list(name, promise[[1L]], promise[[2L]], frame))
  })
  get(name, envir = frame, inherits = FALSE)
  is_had <- TRUE
}

around_pure <- function(code, env) list(list(code = call("(", code), frame = env))

around_dots <- function(frame) {
  found <- list()
  given <- dots_delayed(frame)
  for (k in which(lengths(given) > 0L)) {
    found <- c(found, around_promise(given[[k]], eval(call("...elt", k), frame)))
  }
  found
}
