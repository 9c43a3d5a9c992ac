# The walk of globals_find() in R/encode-globals.R: from code to its names, to what they stand for, and to the code in
# that. `found` is an environment with all that was found by now.

globals_cost <- c(closure = 50, environment = 20, language = 20, other = 5)

code_environment <- function(fun) {
  if (is.null(environment(fun))) baseenv() else environment(fun)
}

# Functions of packages are not looked into: what they need comes with the package.
globals_scan <- function(found, x, env) {
  if (globals_seen(found, x)) {
    return(invisible())
  }
  used <- globals_names(x, env)
  captured <- if (used$captures) captured_names(x, env)
  for (name in used$names) globals_add(found, name, env, name %in% captured)
  # What is not certainly the code's own, and stands for something of the session.
  known <- names_of(x)
  for (name in setdiff(known$values, used$names)) if (is_of_session(name, env)) globals_add(found, name, env)
  for (name in setdiff(known$functions, c(used$names, known$values))) {
    if (is_of_session(name, env, "function")) globals_add(found, name, env)
  }
  globals_push(found, used$values)
  found$strings <- c(found$strings, used$strings)
  found$symbols <- c(found$symbols, used$symbols)
  found$looks <- found$looks || used$looks
  if (used$dots) globals_dots(found, env, "..." %in% captured)
  globals_frames(found, env)
}

# What goes with the frames around code though the code does not name it: methods, and arguments that nobody has used yet
# and that stay code, see R/par-around.R: a string may name them, or code that is data.
globals_frames <- function(found, env) {
  while (!is_lasting(env) && !globals_seen(found, env, as = "frame")) {
    for (name in workspace_methods(frame_names(env), env)) globals_add(found, name, env)
    delayed <- delayed_names(env)
    promises <- lapply(setdiff(delayed, "..."), promise_of, env)
    if ("..." %in% delayed) promises <- c(promises, Filter(Negate(is.null), dots_delayed(env)))
    for (promise in promises) {
      if (is_pure(promise[[1L]], promise[[2L]])) globals_scan(found, call("(", promise[[1L]]), promise[[2L]])
    }
    env <- parent.env(env)
  }
}

# Whether this object was met before, `as` what it is now; it is marked.
globals_seen <- function(found, x, as = "") {
  address <- paste0(as, rlang::obj_address(x))
  known <- !is.null(found$seen[[address]])
  if (!known) assign(address, TRUE, envir = found$seen)
  known
}

# `...` of a function around the code. Whoever it is handed on to may take it as code, also what has been evaluated:
# what that names in the workspace is found there. What nobody has looked at yet is evaluated, as other arguments are
# that the code names, unless they are `captured`, or need nothing else than the workspace; one that fails does so where
# it is used, if it is.
globals_dots <- function(found, env, captured) {
  where <- find_home("...", env)
  if (is.null(where) || home_of(where) == "workspace") {
    return(invisible())
  }
  codes <- as.list(eval(quote(substitute(list(...))), where))[-1L]
  delayed <- dots_delayed(where)
  for (k in seq_along(codes)) {
    promise <- delayed[[k]]
    from <- if (is.null(promise)) globalenv() else promise[[2L]]
    is_code <- is.language(codes[[k]]) && !is_empty_argument(codes[[k]])
    pure <- is_code && is_pure(codes[[k]], from)
    if (pure || captured && !is.null(promise)) globals_scan(found, call("(", codes[[k]]), from)
    stays <- !is.null(promise) && (captured || pure && identical(from, globalenv()))
    if (!stays) globals_take(found, promise_value(eval(call("...elt", k), where), NULL))
  }
}

# What a name stands for from `env` on, and what that needs. `captured`: the code of an argument, not its value.
globals_add <- function(found, name, env, captured = FALSE) {
  where <- find_home(name, env)
  home <- if (is.null(where)) "" else home_of(where)
  if (!home %in% found$homes) found$homes <- c(found$homes, home)
  if (home == "workspace" || (home == "" && !is.null(where) && !is_packaged(where))) {
    if (bindingIsActive(name, where)) {
      value <- activeBindingFunction(name, where)
      if (identical(where, globalenv())) found$active <- union(found$active, name)
    } else {
      promise <- if (home == "") promise_of(name, where)
      if (!is.null(promise) && (captured || may_leave(promise))) {
        return(globals_scan(found, promise[[1L]], promise[[2L]]))
      }
      # What cannot be had is an error where it is used, if it is.
      value <- promise_value(get(name, envir = where, inherits = FALSE), where)
      if (identical(value, where) && !identical(where, globalenv())) {
        return(invisible())
      }
    }
    if (identical(where, globalenv())) {
      if (!name %in% names(found$variables)) found$variables[name] <- list(value)
    } else if (home == "workspace" && is_first_attached(name, where)) {
      found$attached[name] <- list(value)
    }
    globals_take(found, value)
  }
}

# Whether to evaluate a promise may end functions around it, or the call: then that is left to whoever uses it. One that
# only names a variable may be that of another promise.
may_leave <- function(promise) {
  code <- promise[[1L]]
  if (!is.symbol(code) || is_empty_argument(code)) {
    return(any(leaving %in% names_called(code)))
  }
  where <- find_home(as.character(code), promise[[2L]])
  !is.null(where) && may_leave(promise_of(as.character(code), where))
}

# Names of the functions that code calls itself, not in the body of a function that it makes, nor what ends only a loop of
# its own.
names_called <- function(code) {
  code <- bare_code(code)
  if (!is.call(code) || is_call_of(code, c("function", "quote"))) {
    return(character())
  }
  head <- code[[1L]]
  parts <- code_parts(code)
  names <- c(
    if (is.symbol(head)) as.character(head), if (is_qualified(head)) as.character(head[[3L]]),
    unlist(lapply(parts, names_called))
  )
  if (is_call_of(code, c("for", "while", "repeat"))) setdiff(names, c("break", "next")) else names
}

is_qualified <- function(x) is.call(x) && length(x) == 3L && is_call_of(x, c("::", ":::"))

leaving <- c("return", "break", "next", "signalCondition", "invokeRestart", "q", "quit", "browser")

# What a name stands for. Code in variables and in plain lists is evaluated as often as not, where it stands; of the
# call that a fitted model holds each symbol may be a variable.
globals_take <- function(found, value) {
  if (is.language(value) && !inherits(value, "formula")) globals_scan(found, value, globalenv())
  globals_push(found, list(value))
}

is_of_session <- function(name, env, mode = "any") {
  where <- find_home(name, env, mode)
  !is.null(where) && !is_packaged(where) && home_of(where) %in% c("", "workspace")
}

# Objects to look into later, those that others hold after these, so that what is near is looked at first.
globals_push <- function(found, objects) {
  if (length(objects) == 0L) {
    return(invisible())
  }
  # Most of code is symbols.
  is_symbol <- vapply(objects, is.symbol, NA)
  symbols <- objects[is_symbol]
  objects <- objects[!is_symbol]
  words <- are_words(objects)
  if (any(words)) globals_words(found, objects[words])
  if (length(symbols) > 0L) {
    names <- unique(vapply(symbols, as.character, ""))
    globals_named(found, c(names, undotted(names)))
  }
  objects <- objects[may_hold_code(objects)]
  if (length(objects) > 0L) found$queue <- c(found$queue, list(objects))
}

globals_drain <- function(found) {
  while (length(found$queue) > 0L && found$left > 0) {
    level <- unlist(found$queue, recursive = FALSE)
    found$queue <- list()
    for (k in seq_along(level)) {
      if (found$left <= 0) break
      globals_look(found, level[[k]])
    }
  }
}

globals_look <- function(found, x) {
  type <- typeof(x)
  found$left <- found$left - globals_cost[[if (type %in% names(globals_cost)) type else "other"]]
  if (type == "closure") {
    if (!is_packaged(environment(x))) globals_scan(found, x, environment(x))
  } else if (inherits(x, "formula")) {
    env <- attr(x, ".Environment", exact = TRUE)
    globals_scan(found, x, if (is.environment(env)) env else globalenv())
  } else if (is.language(x)) {
    globals_push(found, code_leaves(x))
  } else if (type == "environment" && globals_seen(found, x)) {
    return(invisible())
  }
  if (identical(x, globalenv())) found$looks <- TRUE # as an object, of which code may take any variable
  # The class that another one of R6 inherits from is code there.
  if (type == "environment" && inherits(x, "R6ClassGenerator") && is.language(x$inherit)) {
    globals_scan(found, call("(", x$inherit), x$parent_env)
  }
  globals_push(found, globals_marks(x))
  parts <- globals_parts(x)
  if (length(parts) > found$left) parts <- parts[seq_len(max(0, found$left))]
  found$left <- found$left - length(parts)
  if (type == "list") globals_words(found, list(attr(x, "names")))
  if (type == "list" && !is.object(x)) {
    code <- parts[vapply(parts, is.language, NA)]
    for (part in code[!vapply(code, is_empty_argument, NA)]) globals_take(found, part)
  }
  globals_push(found, parts)
}

globals_parts <- function(x) {
  switch(typeof(x),
    list = unclass(x),
    pairlist = as.list(x),
    environment = if (is_own_environment(x)) globals_variables(x),
    S4 = if (inherits(x, "classRepresentation")) class_functions(x)
  )
}

# Slots are attributes. What a class says of itself is plain data and package code but for its functions.
globals_marks <- function(x) {
  marks <- attributes(x)
  if (inherits(x, "classRepresentation")) NULL else unname(marks[!names(marks) %in% marks_of_data])
}

marks_of_data <- c(
  "names", "dim", "dimnames", "class", "levels", "row.names", "tsp", "comment", "srcref", "srcfile", "wholeSrcref",
  ".Environment"
)

globals_variables <- function(env) {
  found <- variables_of(env, ls(envir = env, all.names = TRUE, sorted = FALSE))
  found$values[found$lazy] <- lapply(found$values[found$lazy], function(code) {
    structure(call("~", code), class = "formula", .Environment = env)
  })
  unname(found$values)
}

# In which of these objects there can be code, or in their attributes.
may_hold_code <- function(objects) {
  types <- vapply(objects, typeof, "")
  holds <- types %in% c("closure", "list", "environment", "S4", "language", "expression", "pairlist")
  data <- which(!holds & !types %in% c("NULL", "symbol", "builtin", "special"))
  data <- data[!vapply(objects[data], function(x) is.null(attributes(x)), NA)]
  holds[data] <- vapply(objects[data], function(x) !all(names(attributes(x)) %in% marks_of_data), NA)
  holds
}

class_functions <- function(class) {
  objects <- c(list(class@validity), attributes(class@prototype))
  if (inherits(class, "refClassRepresentation")) {
    objects <- c(objects, as.list(class@refMethods, all.names = TRUE), as.list(class@fieldPrototypes, all.names = TRUE))
  }
  unname(objects)
}
