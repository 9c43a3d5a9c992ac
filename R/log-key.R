# Keys: short names of values and of code that are equal in all sessions when content is. R's serialisation
# holds what differs without meaning anything: where a function was written, whether it was compiled, how a sequence
# is stored, in which order an environment has its variables. A function is its arguments, its body
# and the values of what these name, see log-names.R.

# 32 hexadecimal digits. With `search` the words in it are noted there, see log-search.R. Of what is added here, no part
# is a word or a value: kinds of parts are symbols, and names of attributes, slots and variables are hashed.
key_of <- function(x, search = NULL) {
  # Most elements are of these kinds. Values are hashed as bytes: for rlang::hash() of a number 0 and -0 are the same.
  if (is.atomic(x) && is.null(attributes(x)) && !isS4(x) && length(x) <= key_stretch) {
    return(rlang::hash(key_serialise(x, search = if (is.character(x)) search)))
  }
  if (is_plain_list(x)) {
    return(rlang::hash(key_serialise(x, search = search)))
  }
  key_through(function(seen) x, search)
}

# The key of what make() returns and all that it leads to. What functions do depends on which of them share an
# environment, too, and on what is around it: of a part of a call that is for `search`, see search_graph().
key_through <- function(make, search) {
  seen <- new.env(parent = emptyenv())
  seen$numbers <- new.env(parent = emptyenv()) # of environments and functions, by what tells them apart
  seen$places <- new.env(parent = emptyenv()) # numbers of environments and what is around them, see key_place()
  seen$met <- list() # these, by what tells them apart
  seen$around <- character()
  seen$queue <- list() # list(kind, object): what is looked into later, for its number stands in its place
  seen$depth <- 0L
  seen$search <- search
  parts <- list(key_bytes(make(seen), seen))
  done <- 0L
  # What one of them holds may lead to others.
  while (done < length(seen$queue)) {
    done <- done + 1L
    parts[[done + 1L]] <- key_bytes(key_entry(seen$queue[[done]], seen), seen)
  }
  if (length(seen$met) == 0L) {
    return(rlang::hash(if (done == 0L) parts[[1L]] else parts))
  }
  if (is.null(search)) {
    return(rlang::hash(list(parts, seen$around)))
  }
  search_met(search, seen$met, seen$around)
  rlang::hash(parts)
}

# The number of an environment, in the order in which they are met: so the same objects, related in the same ways, are
# described alike in all sessions. `around` has the number of the next environment of each, or the name of one that all
# sessions have. Chains of any length need no stack.
key_place <- function(env, seen) {
  at <- env
  repeat {
    id <- key_identity(at)
    if (!is.null(seen$places[[id]])) break
    number <- length(seen$met) + 1L
    assign(id, number, envir = seen$places)
    seen$met[[id]] <- at # held, so that no other has its address
    if (!is_own_environment(at)) {
      seen$around[[number]] <- id
      break
    }
    at <- parent.env(at)
    known <- seen$places[[key_identity(at)]]
    seen$around[[number]] <- as.character(if (is.null(known)) number + 1L else known)
  }
  seen$places[[key_identity(env)]]
}

key_identity <- function(env) if (is_own_environment(env)) rlang::obj_address(env) else key_home(env)

# The name of an environment that all sessions have, or may have by this name.
key_home <- function(env) {
  if (inherits(env, "srcfile")) {
    return("source")
  }
  paste(if (isNamespace(env)) "namespace", environmentName(env))
}

# A list of vectors, with names at most: key_plain() would leave it as it is.
is_plain_list <- function(x) {
  is.list(x) && all(names(attributes(x)) == "names") && length(x) <= 100L &&
    all(vapply(x, function(part) is.atomic(part) && length(part) <= key_stretch && is.null(attributes(part)), NA))
}

key_bytes <- function(x, seen) key_plain_bytes(key_plain(x, seen), seen, seen$search)

key_plain_bytes <- function(x, seen, search = NULL) {
  key_serialise(x, function(x) key_reference(x, seen), search)
}

# Version 2 of the format knows no compact forms of vectors. Its header names the version of R, which is left out.
key_serialise <- function(x, hook = NULL, search = NULL) {
  bytes <- serialize(x, NULL, xdr = FALSE, version = 2L, refhook = hook)
  bytes[7:10] <- as.raw(0L)
  if (!is.null(search) && search$scan) search_bytes(search, bytes)
  bytes
}

# For what serialize() would write by its address or as R happens to hold it.
key_reference <- function(x, seen) {
  if (!is.environment(x)) {
    return("0pointer")
  }
  if (inherits(x, "srcfile")) {
    return("0source")
  }
  search_around(seen$search, x)
  paste0("0environment", key_later(seen, "environment", x, rlang::obj_address(x)))
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
    environment = key_whole(x, seen),
    code = key_sourceless(x, seen),
    `code in` = key_look(x, seen),
    deep = x
  )
}

# An environment that is a value: its variables and its attributes, which objects of R6 have their class in. Code that
# an element is given to may take any variable around it: but for those around the function of the map, of which it is
# known which count, they are the element's, too.
key_whole <- function(env, seen) {
  search <- seen$search
  around <- parent.env(env)
  is_new <- isFALSE(search$of_call) && is_own_environment(around) &&
    !rlang::obj_address(around) %in% search$start$addresses
  marks <- attributes(env)
  list(
    key_variables(env), if (length(marks) > 0L) key_marked(marks, seen), if (is_new) around, key_place(env, seen),
    if (isS4(env)) quote(`0isS4`)
  )
}

# What is not evaluated yet is not evaluated for this, and active bindings are their functions. An object of a reference
# class holds those of its methods that were called: they are of its class.
key_variables <- function(env) {
  names <- ls(envir = env, all.names = TRUE)
  if (".refClassDef" %in% names) names <- intersect(names, names(env[[".refClassDef"]]@fieldClasses))
  key_named(env, names)
}

key_named <- function(env, names) {
  found <- variables_of(env, sorted(names))
  found$values[found$active] <- lapply(found$values[found$active], function(f) list(quote(`0active`), f))
  found$values
}

# How deep lists and code are followed before the rest is looked into later.
key_depth <- 50L

# The object with functions and language in it as plain lists, wherever they stand: also in attributes, which slots
# are, and in classes. Each begins with a symbol that says what it was, as no list of a user does in what is made here:
# a symbol of theirs is a list, too. A function that package methods has made of another is one with attributes.
key_plain <- function(x, seen) {
  if (seen$depth >= key_depth) {
    return(list(quote(`0deep`), key_later(seen, "deep", x)))
  }
  seen$depth <- seen$depth + 1L
  on.exit(seen$depth <- seen$depth - 1L)
  if (isS4(x) && methods::is(x, "classRepresentation")) {
    return(key_class(x, seen))
  }
  plain <- switch(typeof(x),
    closure = key_function(x, seen),
    language = , expression = key_language(x, seen),
    pairlist = list(quote(`0pairlist`), key_list(as.list(x), seen)),
    list = key_list(x, seen),
    S4 = list(quote(`0S4`), key_marked(attributes(x), seen)),
    symbol = key_symbol(x),
    environment = key_environment(x, seen),
    NULL = , builtin = , special = , externalptr = , weakref = , promise = , bytecode = x,
    key_vector(x, seen)
  )
  if (isS4(x) && !typeof(x) %in% c("S4", "environment")) list(quote(`0isS4`), plain) else plain
}

# serialize() warns of one of an attached package. Of the workspace as an object, code takes variables as x$name.
key_environment <- function(env, seen) {
  if (identical(env, globalenv()) && !is.null(seen$search)) seen$search$workspace <- TRUE
  name <- attr(env, "name", exact = TRUE)
  if (is.character(name) && startsWith(name[[1L]], "package:")) {
    return(list(quote(`0package`), rlang::hash(name[[1L]])))
  }
  env
}

# As a string, in which a name is a word. Symbols in what is serialised are names of attributes.
key_symbol <- function(x) list(quote(`0symbol`), as.character(x))

# Attributes, slots, or other parts that have names.
key_marked <- function(marks, seen) list(rlang::hash(names(marks)), key_list(unname(marks), seen))

# Of a long vector this many elements are looked at at once, so that one that R computes (1:1e9), or that is a file,
# is never in memory as a whole.
key_stretch <- 2^20

key_vector <- function(x, seen) {
  marks <- attributes(x)
  deep <- !is.null(marks) && any(is_deep(marks))
  if (length(x) <= key_stretch && !deep) {
    return(x)
  }
  if (!is.null(marks)) marks <- key_marked(marks, seen)
  if (length(x) <= key_stretch) {
    return(list(quote(`0vector`), as.vector(unclass(x)), marks))
  }
  starts <- seq(0, length(x) - 1, by = key_stretch)
  parts <- vapply(starts, function(start) {
    part <- .subset(x, start + seq_len(min(key_stretch, length(x) - start)))
    attributes(part) <- NULL
    key_of(part, seen$search)
  }, "")
  list(quote(`0long`), rlang::hash(list(typeof(x), length(x), parts)), marks)
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
  "NULL", "builtin", "special", "externalptr", "weakref", "logical", "integer", "double", "complex",
  "character", "raw"
)

# The class of environments that are facts of this session, such as where it has a cache: a list that holds one is what
# it is without.
key_session_class <- "regatta_of_session"

key_list <- function(x, seen) {
  deep <- which(is_deep(x))
  of_session <- deep[vapply(unclass(x)[deep], inherits, NA, key_session_class)]
  if (length(of_session) > 0L) {
    return(key_list(x[-of_session], seen))
  }
  marks <- attributes(x)
  deep_marks <- any(is_deep(marks))
  if (length(deep) == 0L && !deep_marks) {
    return(x)
  }
  x <- unclass(x)
  attributes(x) <- NULL
  x[deep] <- lapply(x[deep], key_plain, seen = seen)
  if (deep_marks) {
    return(list(quote(`0list`), x, key_marked(marks, seen)))
  }
  attributes(x) <- marks
  x
}

# What instances of a class depend on. The object that package methods keeps has facts of this session, too.
key_class <- function(class, seen) {
  reference <- methods::is(class, "refClassRepresentation")
  facts <- list(
    class@className, class@virtual, as.list(class@slots), names(class@contains), if (reference) class@fieldClasses,
    sorted(as.character(names(Filter(is_direct, class@subclasses))))
  )
  parts <- if (reference) {
    c(key_variables(class@fieldPrototypes), Filter(is.function, key_variables(class@refMethods)))
  } else {
    list(class@prototype)
  }
  relations <- c(key_relations(class@contains), key_relations(class@subclasses))
  list(quote(`0class`), rlang::hash(facts), key_marked(c(class@validity, parts, relations), seen))
}

# How a class becomes another, where that is not what setClass() makes of it by itself.
key_relations <- function(relations) {
  own <- Filter(function(relation) is_direct(relation) && !relation@simple && !relation@dataPart, relations)
  lapply(own[sorted(as.character(names(own)))], function(relation) {
    list(relation@coerce, relation@replace, relation@test)
  })
}

# Others follow from these. R adds them to classes as it meets them: to a union of "numeric" also what packages that are
# loaded later make of it.
is_direct <- function(relation) relation@distance == 1

# A formula is what it names, too.
key_language <- function(x, seen) {
  env <- attr(x, ".Environment", exact = TRUE)
  if (!is.environment(env)) {
    return(key_sourceless(x, seen))
  }
  search_from(seen$search, env)
  attr(x, ".Environment") <- NULL
  list(quote(`0formula`), key_sourceless(x, seen), key_place(env, seen))
}

# The same code in one environment is one thing, be it held once or twice.
key_function <- function(fun, seen) {
  fun <- key_unwrapped(fun)
  code <- rlang::hash(list(key_of_code(fun, seen), key_bytes(key_marks(fun), seen)))
  id <- paste(code, rlang::obj_address(environment(fun)))
  list(quote(`0code`), key_later(seen, "code in", list(x = fun, code = code, env = environment(fun)), id))
}

# Of arguments and body. Code that leads to nothing else has one key for all functions that have it; what stands deep in
# lists has the key that it has there.
key_of_code <- function(fun, seen) {
  depth <- seen$depth
  if (is.primitive(fun) || depth > key_depth / 2) {
    return(key_hidden(key_code(fun, seen), seen))
  }
  known <- code_known(fun)
  if (!is.null(known$key)) {
    return(known$key)
  }
  on.exit(seen$depth <- depth)
  seen$depth <- 0L
  before <- c(length(seen$queue), length(seen$met))
  key <- key_hidden(key_code(fun, seen), seen)
  if (identical(c(length(seen$queue), length(seen$met)), before)) known$key <- key
  key
}

# Of code, whose words are those that names_of() tells.
key_hidden <- function(x, seen) rlang::hash(key_plain_bytes(key_plain(x, seen), seen))

# A function that memoise() has made is the one that it calls, and not the values that it knows by now.
key_unwrapped <- function(fun) {
  while (inherits(fun, "memoised") && is.function(environment(fun)$`_f`)) fun <- environment(fun)$`_f`
  fun
}

key_look <- function(entry, seen) {
  place <- key_place(entry$env, seen)
  if (is_packaged(entry$env)) {
    return(list(entry$code, place))
  }
  names <- names_of(entry$x)
  key_words(names, entry$env, seen)
  found <- key_values(names, entry$env, entry$x)
  list(entry$code, rlang::hash(list(names(found$values), found$packages)), unname(found$values), place)
}

# Notes what else than the names of its variables may be one in code. It does so for code that is not searched itself.
key_words <- function(names, env, seen) {
  search <- seen$search
  if (is.null(search)) {
    return(invisible())
  }
  search_from(search, env)
  search$symbols <- union(search$symbols, names$around)
  search$fields <- union(search$fields, names$fields)
  scan <- search$scan
  search$scan <- TRUE
  for (leaf in names$leaves) key_bytes(leaf, seen)
  search$scan <- scan
}

key_marks <- function(fun) {
  marks <- as.list(attributes(fun))
  marks <- marks[names(marks) != "srcref"]
  if (length(marks) > 0L) list(rlang::hash(names(marks)), unname(marks))
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
  code <- is.call(x) || is.expression(x) || (is.pairlist(x) && !is.null(x))
  if (is.symbol(x)) {
    return(key_symbol(x))
  }
  if (!code) {
    # A value that was put into the code.
    return(if (typeof(x) %in% key_shallow && is.null(attributes(x))) x else key_plain(x, seen))
  }
  if (is.environment(attr(x, ".Environment", exact = TRUE))) {
    return(key_plain(x, seen))
  }
  if (depth >= key_depth) {
    return(list(quote(`0deep`), key_later(seen, "code", x)))
  }
  if (is.call(x) && identical(x[[1L]], quote(`function`))) x <- x[1:3]
  for (mark in c("srcref", "srcfile", "wholeSrcref")) attr(x, mark) <- NULL
  marks <- attributes(x)
  if (is.object(x)) class(x) <- NULL # methods of `[` and as.list() have other ideas of it
  plain <- lapply(as.list(x), key_sourceless, seen, depth + 1L)
  kind <- switch(typeof(x), expression = quote(`0expression`), pairlist = quote(`0pairlist`), quote(`0call`))
  list(kind, plain, if (length(marks) > 0L) key_marked(marks, seen))
}

# list(values, packages): what names, as names_of() tells them of `x`, stand for from `env` on; for those that packages
# have, which.
key_values <- function(names, env, x) {
  values <- list()
  packages <- character()
  captured <- if (names$captures) captured_names(x, env)
  for (name in key_existing(sorted(unique(c(names$values, names$functions))), env)) {
    homes <- unique(c(
      if (name %in% names$values) find_home(name, env),
      if (name %in% names$functions) tryCatch(find_home(name, env, "function"), error = function(e) NULL)
    ))
    own <- vapply(homes, function(home) !is_packaged(home) && home_of(home) %in% c("", "workspace"), NA)
    found <- lapply(homes[own], key_value, name, name %in% captured)
    if (length(found) > 0L) values[name] <- if (length(found) == 1L) found else list(found)
    if (!all(own)) packages[[name]] <- paste(vapply(homes[!own], environmentName, ""), collapse = " ")
  }
  list(values = values, packages = packages)
}

# Which of these are names of anything.
key_existing <- function(names, env) {
  names <- names[nzchar(names) & nchar(names, "bytes") < 1000L]
  if (length(names) > 0L) names[vapply(names, exists, NA, envir = env, USE.NAMES = FALSE)] else names
}

# `captured`: an element takes the code of the argument, not its value, see R/encode-captured.R.
key_value <- function(env, name, captured) {
  if (name == "...") {
    return(key_dots(env, captured))
  }
  key_argument(promise_of(name, env), captured, get(name, envir = env, inherits = FALSE))
}

# What an element hands on to a function of the user may be taken as code there.
key_dots <- function(env, captured) {
  delayed <- dots_delayed(env)
  values <- lapply(seq_along(delayed), function(k) {
    promise <- delayed[[k]]
    stays <- !is.null(promise) && (captured || is_pure(promise[[1L]], promise[[2L]]))
    key_argument(promise, stays, eval(call("...elt", k), env))
  })
  stats::setNames(values, names(delayed))
}

# An argument that nobody has looked at yet is evaluated, as an element would do, if it can be. If it stays code it is
# a function: that is its code and what this names.
key_argument <- function(promise, stays, value) {
  code <- if (is.null(promise)) quote(`0fails`) else rlang::new_function(NULL, promise[[1L]], promise[[2L]])
  if (!is.null(promise) && (stays || may_leave(promise))) code else promise_value(value, code)
}
