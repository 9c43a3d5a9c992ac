# Keys: short names of values and of code that are equal in all sessions when content is. R's serialisation
# holds what differs without meaning anything: where a function was written, whether it was compiled, how a sequence
# is stored, in which order an environment has its variables. A function is its arguments, its body
# and the values of what these name, see log-names.R.

# 32 hexadecimal digits. `words` are names for which code looks in environments that `x` leads to, see key_around().
key_of <- function(x, words = character()) {
  # Most elements are of these kinds. `[[` makes a vector that R holds as no other.
  if (is.atomic(x) && is.null(attributes(x))) {
    if (length(x) == 1L) {
      return(rlang::hash(x[[1L]]))
    }
    if (length(x) <= key_stretch) {
      return(rlang::hash(key_serialise(x)))
    }
  }
  if (is_plain_list(x)) {
    return(rlang::hash(key_serialise(x)))
  }
  key_through(function(seen) x, words)
}

# The key of what make() returns and all that it leads to.
key_through <- function(make, words) {
  seen <- new.env(parent = emptyenv())
  seen$numbers <- new.env(parent = emptyenv()) # of environments and functions, by what tells them apart
  seen$queue <- list() # list(kind, object): what is looked into later, for its number stands in its place
  seen$depth <- 0L
  seen$words <- words
  seen$around <- list() # the names that were looked up in an environment that is around others, by its address
  parts <- list(key_bytes(make(seen), seen))
  done <- 0L
  repeat {
    # What one of them holds may lead to others.
    while (done < length(seen$queue)) {
      done <- done + 1L
      parts[[done + 1L]] <- key_bytes(key_entry(seen$queue[[done]], seen), seen)
    }
    if (!key_around(seen)) break
  }
  rlang::hash(if (done == 0L) parts[[1L]] else parts)
}

# A list of vectors, with names at most: key_plain() would leave it as it is.
is_plain_list <- function(x) {
  is.list(x) && all(names(attributes(x)) == "names") && length(x) <= 100L &&
    all(vapply(x, function(part) is.atomic(part) && length(part) <= key_stretch && is.null(attributes(part)), NA))
}

key_bytes <- function(x, seen) key_plain_bytes(key_plain(x, seen), seen)

key_plain_bytes <- function(x, seen) key_serialise(x, function(x) key_reference(x, seen))

# Version 2 of the format knows no compact forms of vectors. Its header names the version of R, which is left out.
key_serialise <- function(x, hook = NULL) {
  bytes <- serialize(x, NULL, xdr = FALSE, version = 2L, refhook = hook)
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
  paste("environment", key_later(seen, "environment", x, rlang::obj_address(x)))
}

# The number of an object that is looked into later, at the depth of none, so that neither cycles nor depth matter.
# `id` tells whether it was met before. Objects are held, so that no address is used again.
key_later <- function(seen, kind, x, id = NULL) {
  number <- if (!is.null(id)) seen$numbers[[id]]
  if (is.null(number)) {
    number <- length(seen$queue) + 1L
    seen$queue[[number]] <- list(kind = kind, object = x)
    if (!is.null(id)) assign(id, number, envir = seen$numbers)
  }
  number
}

# As a list to be serialised.
key_entry <- function(entry, seen) {
  x <- entry$object
  switch(entry$kind,
    environment = key_variables(x),
    around = key_named(x$env, x$names),
    code = key_sourceless(x, seen),
    `code in` = key_look(x, seen),
    deep = x
  )
}

# What is not evaluated yet is not evaluated for this, and active bindings are their functions. An object of a reference
# class holds those of its methods that were called: they are of its class. The class that one of R6 inherits from is
# code in it.
key_variables <- function(env) {
  names <- ls(env, all.names = TRUE)
  if (".refClassDef" %in% names) names <- intersect(names, names(env[[".refClassDef"]]@fieldClasses))
  values <- key_named(env, names)
  if (inherits(env, "R6ClassGenerator") && is.environment(env$parent_env) && is.language(env$inherit)) {
    values <- c(values, inherited = list(tryCatch(eval(env$inherit, env$parent_env), error = function(e) NULL)))
  }
  values
}

key_named <- function(env, names) {
  found <- variables_of(env, sort(names, method = "radix"))
  found$values[found$active] <- lapply(found$values[found$active], function(f) list("active", f))
  found$values
}

# Code that evaluates code finds the variables of environments and of those around them. An environment that was made in
# a function has all of the variables of that around it: those count whose names are somewhere in the code. Whether
# there were any that had not been looked at.
key_around <- function(seen) {
  if (length(seen$words) == 0L) {
    return(FALSE)
  }
  before <- length(seen$queue)
  environments <- Filter(function(entry) entry$kind == "environment", seen$queue)
  for (entry in environments) {
    env <- parent.env(entry$object)
    while (is_own_environment(env)) {
      address <- rlang::obj_address(env)
      names <- intersect(ls(env, all.names = TRUE), setdiff(seen$words, seen$around[[address]]))
      if (is.null(seen$numbers[[address]]) && length(names) > 0L) {
        seen$around[[address]] <- c(seen$around[[address]], names)
        key_later(seen, "around", list(env = env, names = names))
      }
      env <- parent.env(env)
    }
  }
  length(seen$queue) > before
}

# How deep lists and code are followed before the rest is looked into later.
key_depth <- 50L

# The object with functions and language in it as plain lists, wherever they stand: also in attributes, which slots
# are, and in classes. A function that package methods has made of another is one with attributes.
key_plain <- function(x, seen) {
  if (seen$depth >= key_depth) {
    return(list("deep", key_later(seen, "deep", x)))
  }
  seen$depth <- seen$depth + 1L
  on.exit(seen$depth <- seen$depth - 1L)
  if (isS4(x) && methods::is(x, "classRepresentation")) {
    return(key_class(x, seen))
  }
  switch(typeof(x),
    closure = key_function(x, seen),
    language = , expression = key_language(x, seen),
    pairlist = key_plain(as.list(x), seen),
    list = key_list(x, seen),
    S4 = list("S4", key_list(attributes(x), seen)),
    environment = key_environment(x),
    NULL = , symbol = , builtin = , special = , externalptr = , weakref = , promise = , bytecode = x,
    key_vector(x, seen)
  )
}

# serialize() warns of one of an attached package.
key_environment <- function(env) {
  name <- attr(env, "name", exact = TRUE)
  if (is.character(name) && startsWith(name[[1L]], "package:")) list("package", name[[1L]]) else env
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

# Which elements of a list key_plain() would change. Attributes of attributes of attributes may be deep: they are left
# to key_plain().
is_deep <- function(x, depth = 0L) {
  vapply(unclass(x), function(part) {
    !typeof(part) %in% key_shallow || length(part) > key_stretch ||
      (length(marks <- attributes(part)) > 0L && (depth >= 3L || any(is_deep(marks, depth + 1L))))
  }, NA)
}

key_shallow <- c(
  "NULL", "symbol", "builtin", "special", "externalptr", "weakref", "logical", "integer", "double", "complex",
  "character", "raw"
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
  if (!is.environment(env)) {
    return(key_sourceless(x, seen))
  }
  attr(x, ".Environment") <- NULL
  key_code_in(x, key_sourceless(x, seen), env, seen)
}

key_function <- function(fun, seen) {
  fun <- key_unwrapped(fun)
  key_code_in(fun, list(key_code(fun, seen), key_plain(key_marks(fun), seen)), environment(fun), seen)
}

# A function that memoise() has made is the one that it calls, and not the values that it knows by now.
key_unwrapped <- function(fun) {
  while (inherits(fun, "memoised") && is.function(environment(fun)$`_f`)) fun <- environment(fun)$`_f`
  fun
}

# For `x`, a function or a formula, which finds variables from `env` on. The same code in one environment is one thing,
# be it held once or twice.
key_code_in <- function(x, code, env, seen) {
  code <- rlang::hash(key_plain_bytes(code, seen))
  id <- paste(code, rlang::obj_address(env))
  list("code", key_later(seen, "code in", list(x = x, code = code, env = env), id))
}

key_look <- function(entry, seen) {
  if (is_packaged(entry$env)) {
    return(list(entry$code, environmentName(entry$env)))
  }
  names <- names_of(entry$x)
  seen$words <- union(seen$words, names$words)
  c(entry$code, key_values(names, entry$env))
}

key_marks <- function(fun) {
  marks <- as.list(attributes(fun))
  marks <- marks[names(marks) != "srcref"]
  if (length(marks) > 0L) marks
}

# Arguments and body, without the marks that tell where they were written.
key_code <- function(fun, seen) {
  if (is.primitive(fun)) {
    return(fun)
  }
  list(lapply(as.list(formals(fun)), key_sourceless, seen), key_sourceless(body(fun), seen))
}

# Code without the marks of where it was written, which the functions in it have too.
key_sourceless <- function(x, seen, depth = 0L) {
  code <- is.call(x) || is.expression(x) || is.pairlist(x)
  if (!code) {
    # A value that was put into the code.
    return(if (typeof(x) %in% key_shallow && is.null(attributes(x))) x else key_plain(x, seen))
  }
  if (is.environment(attr(x, ".Environment", exact = TRUE))) {
    return(key_plain(x, seen))
  }
  if (depth >= key_depth) {
    return(list("deep", key_later(seen, "code", x)))
  }
  if (is.expression(x) || is.pairlist(x)) {
    attributes(x) <- attributes(x)["names"]
    return(lapply(as.list(x), key_sourceless, seen, depth + 1L))
  }
  for (mark in c("srcref", "srcfile", "wholeSrcref")) attr(x, mark) <- NULL
  if (identical(x[[1L]], quote(`function`))) x <- x[1:3]
  marks <- attributes(x)
  if (is.object(x)) class(x) <- NULL # methods of `[` and as.list() have other ideas of it
  plain <- lapply(as.list(x), key_sourceless, seen, depth + 1L)
  if (length(marks) > 0L) list(plain, key_list(marks, seen)) else plain
}

# The values of names, as of names_of(), from `env` on, those that packages have left out. What is code among them
# finds its own there.
key_values <- function(names, env) {
  values <- list()
  pending <- names
  while (length(unlist(pending)) > 0L) {
    found <- key_find(pending, env)
    found <- found[!names(found) %in% names(values)]
    values <- c(values, found)
    codes <- lapply(Filter(is_bare_code, found), names_of)
    pending <- list(
      values = unlist(lapply(codes, `[[`, "values")), functions = unlist(lapply(codes, `[[`, "functions")),
      strings = unlist(lapply(codes, `[[`, "strings"))
    )
  }
  values[order(as.character(names(values)), method = "radix")]
}

is_bare_code <- function(x) is.language(x) && !inherits(x, "formula")

key_find <- function(names, env) {
  calls <- c(names$functions, names$strings)
  values <- list()
  for (name in key_existing(unique(c(names$values, calls)), env)) {
    homes <- unique(c(
      if (name %in% names$values) find_home(name, env),
      if (name %in% calls) tryCatch(find_home(name, env, "function"), error = function(e) NULL)
    ))
    homes <- Filter(function(home) !is_packaged(home) && home_of(home) %in% c("", "workspace"), homes)
    found <- lapply(homes, key_value, name)
    if (length(found) > 0L) values[name] <- if (length(found) == 1L) found else list(found)
  }
  values
}

# Which of these are names of anything.
key_existing <- function(names, env) {
  names <- names[nzchar(names) & nchar(names, "bytes") < 1000L]
  if (length(names) > 0L) names[vapply(names, exists, NA, envir = env, USE.NAMES = FALSE)] else names
}

# Arguments that nobody has looked at yet are evaluated, as an element would do.
key_value <- function(env, name) {
  code <- if (name == "...") quote(list(...)) else as.name(name)
  tryCatch(eval(code, env), error = function(e) "fails")
}
