# Frames of functions, and the arguments in them that nobody has used yet.

# Where frames end: the workspace, and what code sees behind it.
is_lasting <- function(frame) {
  identical(frame, globalenv()) || identical(frame, emptyenv()) || is_packaged(frame) ||
    any(attr(frame, "name", exact = TRUE) %in% search()) || inherits(frame, "UserDefinedDatabase")
}

# Not the state of the generator of random numbers, which the run sets, and `...`, which is never assigned.
frame_names <- function(frame) {
  # An object may have a method for names().
  names <- if (is.object(frame)) ls(envir = frame, all.names = TRUE, sorted = FALSE) else names(frame)
  names[!names %in% c(".Random.seed", "...")]
}

# Of each: 0 if there is no value to take, as of an active binding, variable_delayed of a promise that nobody has forced.
variable_kinds <- function(frame, names) {
  taken <- .Call(ffi_variables_take, frame, names)
  .Call(ffi_variables_drop, taken)
  taken[[1L]]
}

# The variables of a frame that nobody has used, "..." for what stands there.
delayed_names <- function(frame) {
  names <- frame_names(frame)
  dots <- if (!identical(frame, globalenv()) && has_delayed_dots(frame)) "..."
  c(names[variable_kinds(frame, names) == variable_delayed], dots)
}

# Without rlang, which most sessions have not loaded by their first map.
has_delayed_dots <- function(frame) {
  exists("...", envir = frame, inherits = FALSE) &&
    any(vapply(as.list(eval(quote(substitute(list(...))), frame))[-1L], is.language, NA))
}

# list(code, environment) of a variable that is a promise which nobody has evaluated yet; else NULL.
promise_of <- function(name, env) {
  taken <- .Call(ffi_variables_take, env, name)
  promise <- if (taken[[1L]] == variable_delayed) as.list(taken[[2L]][[1L]])
  .Call(ffi_variables_drop, taken)
  promise
}

variable_delayed <- 2L # RG_VARIABLE_DELAYED in src/variables.h

# list(code, environment) of each argument in `...` that nobody has used yet; NULL for one that somebody has.
dots_delayed <- function(frame) {
  lapply(eval(as.call(list(rlang::enquos0, quote(...))), frame), function(quo) {
    if (!rlang::quo_is_missing(quo) && is.language(rlang::quo_get_expr(quo))) {
      list(rlang::quo_get_expr(quo), rlang::quo_get_env(quo))
    }
  })
}
