# What has a meaning in one process only, external pointers, weak references and connections, arrives in another
# one as a null pointer. Where it is the value, or stands in its lists, it is an error (src/encode-share.c), but
# in a condition, which must arrive whatever it holds, the field is NULL; elsewhere in a value, as in the
# environment of a function, it may not matter to whoever uses the value, so it is a warning that says where it
# stands.

# Called from C for a value in which serialisation has met some. What is out of reach, in a promise that
# nobody has forced for example, is not told: nothing that the value does would find it.
warn_foreign <- function(value) {
  paths <- foreign_paths(value)
  if (length(paths) > 0L) {
    warning(new_warning("regatta_warning_foreign", sprintf(paste(
      "the value holds what has no meaning outside the process that made it and arrives as a null",
      "pointer: %s. Return what it refers to instead, or make it anew where it is used."
    ), paste(paths, collapse = ", ")), paths = paths))
  }
}

# Most paths that are told, and the nesting to which they are looked for.
foreign_most <- 3L
foreign_deepest <- 30L

# Where they stand, as R code that reaches them from `value`.
foreign_paths <- function(value, root = "value") {
  look <- new.env(parent = emptyenv())
  look$paths <- character()
  look$seen <- list()
  foreign_visit(value, root, look, 0L)
  look$paths
}

foreign_visit <- function(x, path, look, depth) {
  if (length(look$paths) >= foreign_most || depth > foreign_deepest) {
    return(invisible())
  }
  if (inherits(x, "connection")) {
    look$paths <- c(look$paths, paste(path, "(a connection)"))
    return(invisible())
  }
  # A reference object brings the definition of its class, which has a key of that kind.
  if (inherits(x, "classRepresentation")) {
    return(invisible())
  }
  switch(typeof(x),
    externalptr = if (.Call(ffi_encode_is_foreign, x)) {
      look$paths <- c(look$paths, paste(path, "(an external pointer)"))
    },
    weakref = if (.Call(ffi_encode_is_foreign, x)) {
      look$paths <- c(look$paths, paste(path, "(a weak reference)"))
    },
    list = foreign_list(x, path, look, depth),
    environment = foreign_environment(x, path, look, depth),
    closure = foreign_visit(environment(x), sprintf("environment(%s)", path), look, depth + 1L)
  )
  if (!is.environment(x) || isS4(x)) foreign_attributes(x, path, look, depth)
}

foreign_list <- function(x, path, look, depth) {
  x <- unclass(x)
  names <- names(x)
  for (i in seq_along(x)) {
    named <- !is.null(names) && !is.na(names[[i]]) && nzchar(names[[i]])
    step <- if (named) paste0("$", format_name(names[[i]])) else sprintf("[[%d]]", i)
    foreign_visit(x[[i]], paste0(path, step), look, depth + 1L)
  }
}

foreign_attributes <- function(x, path, look, depth) {
  attributes <- attributes(x)
  for (name in names(attributes)) {
    inner <- if (isS4(x)) {
      paste0(path, "@", format_name(name))
    } else if (name == ".Environment") {
      sprintf("environment(%s)", path)
    } else {
      sprintf("attr(%s, \"%s\")", path, name)
    }
    foreign_visit(attributes[[name]], inner, look, depth + 1L)
  }
}

# Environments that serialisation writes by name are not looked into; promises are not forced, and
# active bindings not called.
foreign_environment <- function(x, path, look, depth) {
  known <- any(vapply(look$seen, identical, NA, x))
  named <- identical(x, globalenv()) || identical(x, baseenv()) || identical(x, emptyenv()) ||
    isNamespace(x) || startsWith(environmentName(x), "package:")
  if (known || named) {
    return(invisible())
  }
  look$seen <- c(look$seen, list(x))
  names <- ls(envir = x, all.names = TRUE, sorted = TRUE)
  quiet <- names[!rlang::env_binding_are_active(x, names) & !rlang::env_binding_are_lazy(x, names)]
  for (name in quiet) {
    if (identical(name, "...")) next
    # A binding may be an argument that is missing.
    item <- tryCatch(get(name, envir = x, inherits = FALSE), error = function(e) NULL)
    foreign_visit(item, paste0(path, "$", format_name(name)), look, depth + 1L)
  }
  foreign_visit(parent.env(x), sprintf("parent.env(%s)", path), look, depth + 1L)
}

format_name <- function(name) {
  name <- convertible(name)
  if (make.names(name) == name) name else sprintf("`%s`", name)
}
