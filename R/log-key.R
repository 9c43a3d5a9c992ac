# Keys: short names of values and of code that are equal in all sessions when content is. R's serialisation
# holds what differs without meaning anything: where a function was written, whether it was compiled, how a sequence
# is stored, in which order an environment has its variables. A function is its arguments, its body
# and the values of what these name.

# 32 hexadecimal digits.
key_of <- function(x) {
  # Most elements are of this kind.
  if (is.atomic(x) && is.null(attributes(x))) {
    return(rlang::hash(key_header(serialize(x, NULL, xdr = FALSE, version = 2L))))
  }
  seen <- new.env(parent = emptyenv())
  seen$functions <- seen$environments <- list()
  seen$numbers <- new.env(parent = emptyenv())
  parts <- list(key_bytes(x, seen))
  # What an environment holds may lead to others.
  done <- 0L
  while (done < length(seen$environments)) {
    done <- done + 1L
    parts[[done + 1L]] <- key_bytes(key_variables(seen$environments[[done]]), seen)
  }
  rlang::hash(if (done == 0L) parts[[1L]] else parts)
}

# Version 2 of the format knows no compact forms of vectors. Its header names the version of R, which is left out.
key_bytes <- function(x, seen) {
  hook <- function(x) key_reference(x, seen)
  key_header(serialize(key_plain(x, seen), NULL, xdr = FALSE, version = 2L, refhook = hook))
}

key_header <- function(bytes) {
  bytes[7:10] <- as.raw(0L)
  bytes
}

# For what serialize() would write by its address or as R happens to hold it.
key_reference <- function(x, seen) {
  if (!is.environment(x)) {
    return("pointer")
  }
  if (inherits(x, "srcfile")) {
    return("source")
  }
  number <- key_number(seen, "environments", x)
  paste("environment", number)
}

# The number of `x` among those that were seen. They are held, so that no address is used again.
key_number <- function(seen, kind, x) {
  address <- rlang::obj_address(x)
  number <- seen$numbers[[address]]
  if (is.null(number)) {
    number <- length(seen[[kind]]) + 1L
    seen[[kind]][[number]] <- x
    assign(address, number, envir = seen$numbers)
  }
  number
}

# What is not evaluated yet is not evaluated for this.
key_variables <- function(env) {
  names <- sort(ls(env, all.names = TRUE), method = "radix")
  if (length(names) == 0L) {
    return(list())
  }
  lazy <- rlang::env_binding_are_lazy(env, names)
  active <- rlang::env_binding_are_active(env, names)
  values <- lapply(seq_along(names), function(i) {
    if (active[[i]]) {
      "active"
    } else if (lazy[[i]]) {
      eval(call("substitute", as.name(names[[i]]), env))
    } else {
      get(names[[i]], envir = env, inherits = FALSE)
    }
  })
  stats::setNames(values, names)
}

# The object with functions and language in it as plain lists.
key_plain <- function(x, seen) {
  switch(typeof(x),
    closure = key_function(x, seen),
    language = , expression = key_language(x, seen),
    list = key_list(x, seen),
    S4 = list("S4", key_list(attributes(x), seen)),
    x
  )
}

key_list <- function(x, seen) {
  deep <- which(vapply(unclass(x), typeof, "") %in% c("closure", "language", "expression", "list", "S4"))
  if (length(deep) == 0L) {
    return(x)
  }
  marks <- attributes(x)
  x <- unclass(x)
  x[deep] <- lapply(x[deep], key_plain, seen = seen)
  attributes(x) <- marks
  x
}

# A formula is what it names, too.
key_language <- function(x, seen) {
  env <- attr(x, ".Environment", exact = TRUE)
  attr(x, ".Environment") <- NULL
  plain <- key_sourceless(x)
  if (is.environment(env)) list(plain, key_uses(all.vars(x), env, seen)) else plain
}

key_function <- function(fun, seen) {
  before <- length(seen$functions)
  number <- key_number(seen, "functions", fun)
  if (number <= before) {
    return(list("function", number))
  }
  env <- environment(fun)
  c(
    list("function", key_code(fun), key_plain(key_marks(fun), seen)),
    if (is_packaged(env)) environmentName(env) else key_uses(key_names(fun), env, seen)
  )
}

key_marks <- function(fun) {
  marks <- as.list(attributes(fun))
  marks <- marks[names(marks) != "srcref"]
  if (length(marks) > 0L) marks
}

# Arguments and body, without the marks that tell where they were written.
key_code <- function(fun) {
  if (is.primitive(fun)) {
    return(fun)
  }
  list(lapply(as.list(formals(fun)), key_sourceless), key_sourceless(body(fun)))
}

# Code without the marks of where it was written, which the functions in it have too.
key_sourceless <- function(x) {
  if (is.expression(x) || is.pairlist(x)) {
    attributes(x) <- attributes(x)["names"]
    return(lapply(as.list(x), key_sourceless))
  }
  if (!is.call(x)) {
    return(x)
  }
  for (mark in c("srcref", "srcfile", "wholeSrcref")) attr(x, mark) <- NULL
  if (identical(x[[1L]], quote(`function`))) x <- x[1:3]
  marks <- attributes(x)
  plain <- lapply(as.list(x), key_sourceless)
  if (length(marks) > 0L) list(plain, marks) else plain
}

# Names that a function takes from elsewhere: without package globals all that are in it.
key_names <- function(fun) {
  all <- unique(c(all.names(body(fun)), unlist(lapply(as.list(formals(fun)), all.names))))
  dots <- if (any(is_dots(all)) && !"..." %in% names(formals(fun))) "..."
  if (!has_globals()) {
    return(c(dots, all))
  }
  used <- suppressWarnings(globals_names(fun, environment(fun)))
  c(dots, used$names, Filter(is_workspace_function, used$strings))
}

key_uses <- function(names, env, seen) {
  lapply(key_values(names, env), key_plain, seen = seen)
}

# The values of these names from `env` on, those that packages have left out. Arguments that nobody has
# looked at yet are evaluated, as an element would do.
key_values <- function(names, env) {
  names <- sort(setdiff(unique(names), ""), method = "radix")
  values <- list()
  for (name in names) {
    where <- find_home(name, env)
    if (is.null(where) || is_packaged(where) || !home_of(where) %in% c("", "workspace")) {
      next
    }
    code <- if (name == "...") quote(list(...)) else as.name(name)
    values[name] <- tryCatch(list(eval(code, where)), error = function(e) list("fails"))
  }
  values
}

# What the values of a map depend on but their elements, each as a key: `code` of the function, its further
# `arguments`, and by their names the `variables` that it uses.
key_parts <- function(fun, args) {
  variables <- if (is.primitive(fun) || is_packaged(environment(fun))) {
    list()
  } else {
    key_values(key_names(fun), environment(fun))
  }
  place <- if (!is.primitive(fun) && is_packaged(environment(fun))) environmentName(environment(fun))
  list(
    code = key_of(list(key_code(fun), key_marks(fun), place)), arguments = key_of(args),
    variables = vapply(variables, key_of, "")
  )
}

# Which of them differ, in words; nothing if they are equal.
key_changes <- function(before, now) {
  names <- union(names(before$variables), names(now$variables))
  differs <- Filter(function(name) !identical(before$variables[name], now$variables[name]), names)
  c(
    if (!identical(before$code, now$code)) "the code of the function",
    if (!identical(before$arguments, now$arguments)) "its further arguments",
    if (length(differs) > 0L) {
      paste(if (length(differs) == 1L) "the variable" else "the variables", paste0("`", differs, "`", collapse = ", "))
    }
  )
}
