# Keys: short names of values and of code that are equal in all sessions when content is. R's serialisation
# holds what differs without meaning anything: where a function was written, whether it was compiled, how a sequence
# is stored, in which order an environment has its variables. A function is its arguments, its body
# and the values of what these name.

# 32 hexadecimal digits.
key_of <- function(x) {
  # Most elements are of this kind.
  if (is.atomic(x) && length(x) <= key_stretch && is.null(attributes(x))) {
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
  key_header(to_bytes(key_plain(x, seen), version = 2L, refhook = hook))
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

# What is not evaluated yet is not evaluated for this, and active bindings are their functions. An object of a reference
# class holds those of its methods that were called: they are of its class.
key_variables <- function(env) {
  names <- sort(ls(env, all.names = TRUE), method = "radix")
  if (".refClassDef" %in% names) names <- intersect(names, names(env[[".refClassDef"]]@fieldClasses))
  found <- variables_of(env, names)
  found$values[found$active] <- lapply(found$values[found$active], function(f) list("active", f))
  found$values
}

# The object with functions and language in it as plain lists, wherever they stand: also in attributes, which slots
# are, and in classes. A function that package methods has made of another is one with attributes.
key_plain <- function(x, seen) {
  if (methods::is(x, "classRepresentation")) {
    return(key_class(x, seen))
  }
  switch(typeof(x),
    closure = key_function(x, seen),
    language = , expression = key_language(x, seen),
    pairlist = key_plain(as.list(x), seen),
    list = key_list(x, seen),
    S4 = list("S4", key_list(attributes(x), seen)),
    NULL = , symbol = , builtin = , special = , environment = , externalptr = , weakref = , promise = ,
    bytecode = x,
    key_vector(x, seen)
  )
}

# Of a long vector this many elements are looked at at once, so that one that R computes (1:1e9), or that is a file,
# is never in memory as a whole.
key_stretch <- 2^20

key_vector <- function(x, seen) {
  marks <- attributes(x)
  deep <- !is.null(marks) && any(is_deep(marks))
  if (length(x) <= key_stretch && !deep) {
    return(x)
  }
  if (!is.null(marks)) marks <- key_list(marks, seen)
  if (length(x) <= key_stretch) {
    return(list("vector", as.vector(unclass(x)), marks))
  }
  starts <- seq(0, length(x) - 1, by = key_stretch)
  parts <- vapply(starts, function(start) {
    part <- .subset(x, start + seq_len(min(key_stretch, length(x) - start)))
    attributes(part) <- NULL
    key_of(part)
  }, "")
  list("long", typeof(x), length(x), rlang::hash(parts), marks)
}

# Which elements of a list key_plain() would change.
is_deep <- function(x) {
  vapply(unclass(x), function(part) {
    !typeof(part) %in% key_shallow || length(part) > key_stretch ||
      (!is.environment(part) && length(marks <- attributes(part)) > 0L && any(is_deep(marks)))
  }, NA)
}

key_shallow <- c(
  "NULL", "symbol", "builtin", "special", "environment", "externalptr", "weakref", "logical", "integer", "double",
  "complex", "character", "raw"
)

key_list <- function(x, seen) {
  deep <- which(is_deep(x))
  marks <- attributes(x)
  deep_marks <- any(is_deep(marks))
  if (length(deep) == 0L && !deep_marks) {
    return(x)
  }
  x <- unclass(x)
  attributes(x) <- NULL
  x[deep] <- lapply(x[deep], key_plain, seen = seen)
  if (deep_marks) {
    return(list("list", x, key_list(marks, seen)))
  }
  attributes(x) <- marks
  x
}

# What instances of a class depend on. The object that package methods keeps has facts of this session, too.
key_class <- function(class, seen) {
  parts <- list("class", class@className, class@virtual, as.list(class@slots), names(class@contains), class@validity)
  parts <- c(parts, if (methods::is(class, "refClassRepresentation")) {
    own <- Filter(is.function, key_variables(class@refMethods))
    list(class@fieldClasses, key_variables(class@fieldPrototypes), own)
  } else {
    list(class@prototype)
  })
  key_list(parts, seen)
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
# `arguments`, and by their names the `variables` that it uses; `methods` and classes of the workspace, which are
# found by the classes of objects and not by names in code; `settings` that say what comes of a value.
key_parts <- function(fun, args) {
  variables <- if (is.primitive(fun) || is_packaged(environment(fun))) {
    list()
  } else {
    key_values(key_names(fun), environment(fun))
  }
  place <- if (!is.primitive(fun) && is_packaged(environment(fun))) environmentName(environment(fun))
  list(
    code = key_of(list(key_code(fun), key_marks(fun), place)), arguments = key_of(args),
    variables = vapply(variables, key_of, ""), methods = vapply(key_methods(), key_of, ""),
    settings = vapply(key_settings(), key_of, "")
  )
}

# Methods and classes that belong to no package.
key_methods <- function() {
  names <- sort(workspace_methods(ls(globalenv(), all.names = TRUE, sorted = FALSE)), method = "radix")
  methods <- stats::setNames(lapply(names, get, envir = globalenv(), inherits = FALSE), names)
  tables <- startsWith(names, ".__T__") & vapply(methods, is.environment, NA)
  methods[tables] <- lapply(methods[tables], key_variables)
  c(methods, lapply(registered_methods(), `[[`, "method"))
}

# What numbers, dates and strings become as text, how text is compared, what models take for granted, and the kind
# of generator, which set.seed() in an element does not say.
key_settings <- function() {
  names <- c(
    "OutDec", "contrasts", "digits", "digits.secs", "encoding", "na.action", "scipen", "stringsAsFactors", "ts.eps",
    "useFancyQuotes"
  )
  zone <- format(.POSIXct(seq(0, 2e9, length.out = 50L)), "%z %Z")
  c(stats::setNames(lapply(names, getOption), names), as.list(settings_locale()), list(TZ = zone, RNGkind = rng_kind()))
}

# Which of them differ, in words; nothing if they are equal.
key_changes <- function(before, now) {
  named <- function(part, one, many) {
    names <- union(names(before[[part]]), names(now[[part]]))
    differs <- Filter(function(name) !identical(before[[part]][name], now[[part]][name]), names)
    if (part == "methods") differs <- unique(sub("^[.]__[CT]__([^:]*).*$", "\\1", differs))
    if (length(differs) > 0L) {
      paste(if (length(differs) == 1L) one else many, paste0("`", differs, "`", collapse = ", "))
    }
  }
  c(
    if (!identical(before$code, now$code)) "the code of the function",
    if (!identical(before$arguments, now$arguments)) "its further arguments",
    named("variables", "the variable", "the variables"),
    named("methods", "the method or class of the workspace", "the methods or classes of the workspace"),
    named("settings", "the setting", "the settings")
  )
}
