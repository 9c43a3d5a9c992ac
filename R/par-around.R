# Arguments of functions around the code of a map that nobody has used yet, as `x` in
#   means <- function(x) par_sapply(1:4, function(i) mean(x))
# With lapply() the first element that uses one evaluates it, in the session and for all elements. In workers each would
# have a value of its own, with random numbers of its element. They are evaluated in the session, as those are that the
# map itself is given: what the code names, by a string as well, and so on in what that stands for, functions, formulas
# and other code, in lists, attributes and environments too. What belongs to packages is not looked into.

# `FUN` and other values that the map is given, its elements among them.
force_around <- function(FUN, others) {
  look <- list2env(list(seen = numeric(), left = around_most), parent = emptyenv())
  frame <- if (is_closure(FUN)) environment(FUN) else globalenv()
  level <- around_code(look, list(FUN, others), frame, code_words(FUN))
  while (length(level) > 0L) {
    level <- unlist(lapply(level, function(at) around_step(look, at)), recursive = FALSE)
  }
}

# Pieces of code that are looked into for one map.
around_most <- 2000

# What is to be looked into of these values, and has not been yet: list(code, frame, words) for each, where its names
# are looked for if it does not say so itself, and the words of the code that leads there.
around_code <- function(look, values, frame, words) {
  found <- .Call(ffi_encode_code, values, look$left)
  new <- !duplicated(found$address) & !found$address %in% look$seen
  look$seen <- c(look$seen, found$address[new])
  look$left <- look$left - sum(new)
  lapply(found$code[new], function(code) list(code = code, frame = frame, words = words))
}

around_step <- function(look, at) {
  if (is.environment(at$code)) {
    return(if (!is_lasting(at$code)) around_environment(look, at$code, at$words))
  }
  frame <- if (is.function(at$code)) environment(at$code) else attr(at$code, ".Environment", exact = TRUE)
  if (is.null(frame)) frame <- at$frame
  if (is_packaged(frame)) {
    return(NULL)
  }
  words <- code_words(at$code)
  found <- list()
  repeat {
    if (!is_lasting(frame) || identical(frame, globalenv())) {
      found <- c(found, around_in(look, frame, words))
    }
    if (is_lasting(frame)) {
      return(found)
    }
    frame <- parent.env(frame)
  }
}

# An environment that is a value, such as an object of R6: all that it holds may be used.
around_environment <- function(look, env, words) {
  around_in(look, env, frame_names(env), words)
}

code_words <- function(x) unique(.Call(ffi_encode_code_words, as_language(x)))

# Forces which of these variables of a frame are among `used`; what is to be looked into of all. The session can change
# the others in place again when this is over.
around_in <- function(look, frame, names, used = names) {
  if (any(is_dots(used))) force_dots(frame)
  taken <- .Call(ffi_variables_take, frame, names)
  pending <- which(taken[[1L]] == variable_delayed & names %in% used)
  promises <- lapply(taken[[2L]][pending], as.list)
  .Call(ffi_variables_drop, taken)
  for (k in seq_along(pending)) {
    if (!may_leave(promises[[k]])) or_else(get(names[[pending[[k]]]], envir = frame, inherits = FALSE), NULL)
  }
  taken <- .Call(ffi_variables_take, frame, names)
  on.exit(.Call(ffi_variables_drop, taken))
  around_code(look, taken[[2L]], frame, used)
}

force_dots <- function(frame) {
  if (!exists("...", envir = frame, inherits = FALSE)) {
    return(invisible())
  }
  given <- as.list(eval(quote(substitute(list(...))), frame))[-1L]
  for (k in seq_along(given)) {
    if (is.language(given[[k]]) && !may_leave(list(given[[k]], frame))) or_else(eval(call("...elt", k), frame), NULL)
  }
}
