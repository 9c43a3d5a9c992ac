# Arguments of functions around the code of a map that nobody has used yet, as `x` in
#   means <- function(x) par_sapply(1:4, function(i) mean(x))
# With lapply() the first element that uses one evaluates it, in the session and for all elements. In workers each would
# have a value of its own, with random numbers of its element. They are evaluated in the session, as those are that the
# map itself is given. The code's functions are looked into, but those of packages.

force_around <- function(codes) {
  queue <- closures_of(codes)
  seen <- list()
  while (length(queue) > 0L && length(seen) < around_most) {
    code <- queue[[1L]]
    queue <- queue[-1L]
    if (is_packaged(environment(code)) || any(vapply(seen, identical, NA, code))) next
    seen <- c(seen, list(code))
    names <- all.names(as_language(code), unique = TRUE)
    names <- names[nzchar(names)]
    frame <- environment(code)
    repeat {
      queue <- c(queue, force_in(frame, names))
      if (is_lasting(frame)) break
      frame <- parent.env(frame)
    }
  }
}

closures_of <- function(objects) objects[vapply(objects, is_closure, NA)]

# Functions that are looked into for one map.
around_most <- 100L

# Forces what has these names in a frame, and gives the functions among it.
force_in <- function(frame, names) {
  if (is_lasting(frame)) {
    return(functions_named(frame, names))
  }
  if (any(is_dots(names))) force_dots(frame)
  taken <- .Call(ffi_variables_take, frame, names)
  pending <- which(taken[[1L]] == variable_delayed)
  promises <- lapply(taken[[2L]][pending], as.list)
  .Call(ffi_variables_drop, taken)
  for (k in seq_along(pending)) {
    if (!may_leave(promises[[k]])) or_else(get(names[[pending[[k]]]], envir = frame, inherits = FALSE), NULL)
  }
  functions_named(frame, names)
}

functions_named <- function(frame, names) {
  taken <- .Call(ffi_variables_take, frame, names)
  found <- closures_of(taken[[2L]])
  .Call(ffi_variables_drop, taken)
  found
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
