# Methods and classes, which R finds by the class of an object, so that code shows no name of them.
#
# Methods come with the namespace of their package. A worker that does not inherit the session may not have loaded it,
# and then objects of its classes are cut, compared and printed as what they are made of, without a word.

# Packages that are loaded here and not in every R process, and that have methods for a class whose name is among the
# strings in `streams`, serialised objects: the class of an object, or a string in code, which may make such objects.
# With "bound", whether there may be a connection or an address of compiled code in them.
packages_of_methods <- function(streams) {
  homes <- method_homes()
  there <- .Call(ffi_encode_names, streams, c(homes$class, tags_of_process), FALSE)
  is_class <- seq_along(there) <= length(homes$class)
  packages <- unique(homes$package[there & is_class])
  list(packages = packages, bound = any(there[!is_class]))
}

# What R calls the pointers of connections and of addresses of compiled code.
tags_of_process <- c("conn_id", "native symbol", "registered native symbol")

# list(spaces, class, package), of all that is loaded now.
method_homes <- function(loaded = loaded_packages()) {
  if (!identical(the$method_homes$spaces, loaded$spaces)) {
    the$method_homes <- c(loaded["spaces"], homes_of_methods(loaded$name))
  }
  the$method_homes
}

homes_of_methods <- function(packages) {
  classes <- lapply(packages, classes_of_methods)
  list(class = unlist(classes), package = rep(packages, lengths(classes)))
}

# Classes that have methods by packages alone that not every R process has loaded: without these an object of such a
# class is what it is made of.
classes_of_packages <- function() {
  homes <- method_homes()
  if (!identical(the$package_classes$of, homes)) {
    the$package_classes <- list(of = homes, class = setdiff(homes$class, classes_of_r()))
  }
  the$package_classes$class
}

classes_of_r <- function() {
  methods <- lapply(setdiff(default_packages(), "base"), function(package) getNamespaceInfo(package, "S3methods")[, 2L])
  unique(c(baseenv()[[".S3_methods_table"]][, 2L], unlist(methods)))
}

# Those of `classes` that the value has, or an element of it.
classes_in <- function(value, classes) sorted(classes[.Call(ffi_encode_classes, value, classes)])

package_libraries <- function(packages) {
  vapply(packages, function(package) dirname(getNamespaceInfo(package, "path")), "")
}

# Methods of a generic of the package itself are found by whoever calls that. An S4 object has the name of the package
# of its class as an attribute.
classes_of_methods <- function(package) {
  space <- asNamespace(package)
  methods <- getNamespaceInfo(space, "S3methods")
  found <- if (is.matrix(methods)) {
    own <- vapply(methods[, 1L], exists, NA, envir = space, inherits = FALSE)
    unique(methods[!own, 2L])
  }
  c(found, if (has_classes(names(space))) package)
}

# In the session for values of a worker. A node of this machine may have other libraries than the session: `packages`
# has their paths by name. What is not installed here is done without, as by code that does not use it.
load_for_methods <- function(packages) {
  for (package in setdiff(names(packages), loadedNamespaces())) {
    or_else(load_silently(package, c(.libPaths(), packages[[package]])), NULL)
  }
}

# In the session: what workers have loaded and it has not, list(class, package, paths).
note_loaded <- function(homes) {
  new <- !homes$package %in% loadedNamespaces()
  the$worker_homes$class <- c(the$worker_homes$class, homes$class[new])
  the$worker_homes$package <- c(the$worker_homes$package, homes$package[new])
  the$worker_homes$paths[names(homes$paths)] <- homes$paths
}

# `values`, with their packages loaded as lapply() would have loaded them.
load_for_values <- function(values) {
  homes <- the$worker_homes
  wanted <- unique(homes$package[.Call(ffi_encode_classes, values, homes$class)])
  if (length(wanted) > 0L) {
    load_for_methods(homes$paths[wanted])
    kept <- !homes$package %in% wanted
    the$worker_homes$class <- homes$class[kept]
    the$worker_homes$package <- homes$package[kept]
    values <- .Call(ffi_encode_own_tables, values)
  }
  values
}

# Names of methods and classes among those of the workspace, or of another environment. R finds them by the class of an
# object, wherever that comes from.
workspace_methods <- function(names, env = globalenv()) {
  dotted <- names[grepl(".[.].", names) & !startsWith(names, ".")]
  classes <- names[has_class_name(names)]
  if (length(dotted) + length(classes) == 0L) {
    return(character())
  }
  methods <- Filter(function(name) {
    exists(name, envir = env, mode = "function", inherits = FALSE) && is_method(name, env)
  }, dotted)
  tables <- sub("^[.]__T__(.*):[^:]*$", "\\1", classes[startsWith(classes, ".__T__")])
  c(methods, classes, intersect(tables, names))
}

# Functions of no package that registerS3method() has made methods of generics of packages, by their names: each with
# the namespace that has the generic.
registered_methods <- function() methods_now()$foreign

# list(held, foreign): the S3 methods of the generics of each namespace that is loaded, as methods_held() gives them,
# and what registered_methods() gives. It is the very same as long as nothing has changed, and a table that is as it was
# is not looked through again.
methods_now <- function() {
  tables <- methods_tables()
  known <- the$methods
  if (!identical(names(tables), names(known$held)) || !.Call(ffi_methods_hold, tables, known$held)) {
    known <- methods_look(tables, known)
    the$methods <- known
  }
  known
}

methods_look <- function(tables, known) {
  names <- names(tables)
  same <- vapply(names, function(name) {
    name %in% names(known$held) && .Call(ffi_methods_hold, tables[name], known$held[name])
  }, NA)
  held <- lapply(tables[!same], methods_held)
  of_each <- Map(foreign_methods, held, names[!same])
  held <- c(held, known$held[names[same]])[names]
  of_each <- c(of_each, known$of_each[names[same]])[names]
  foreign <- do.call(c, unname(of_each))
  list(held = held, of_each = of_each, foreign = if (length(foreign) > 0L) foreign[in_order(names(foreign))])
}

foreign_methods <- function(methods, home) {
  methods <- as.list(methods)
  its_own <- vapply(methods, function(f) identical(environment(f), .getNamespace(home)), NA)
  lapply(Filter(is_unpackaged, methods[!its_own]), function(method) list(home = home, method = method))
}

# The tables of methods of all namespaces that are loaded, by their names.
methods_tables <- function() {
  loaded <- loadedNamespaces()
  tables <- lapply(loaded, methods_table)
  names(tables) <- loaded
  tables[vapply(tables, is.environment, NA)]
}

# asNamespace() would load it.
methods_table <- function(namespace) .getNamespace(namespace)[[".__S3MethodsTable__."]]

# A table of methods as it is, see ffi_methods_take(). Packages register promises, of which there are more than a worker
# ever needs: only those that may be somebody else's are evaluated. One may load a package that registers its own.
methods_held <- function(table) {
  repeat {
    held <- .Call(ffi_methods_take, table, ls(table, all.names = TRUE, sorted = FALSE))
    delayed <- as.list(held)
    delayed <- delayed[vapply(delayed, typeof, "") == "pairlist"]
    others <- names(delayed)[!vapply(delayed, is_promised_by_package, NA)]
    if (length(others) == 0L) {
      return(held)
    }
    # An interrupt waits: R warns of a promise whose evaluation was left, when it is next asked for.
    suspendInterrupts(mget(others, envir = table))
  }
}

# By R itself: from the code of a package as it is stored, or registerS3methods(), which has the namespace as `home`.
is_promised_by_package <- function(delayed) {
  code <- delayed[[1L]]
  env <- delayed[[2L]]
  is.call(code) && (is_call_of(code, "lazyLoadDBfetch") || is.environment(env) && isNamespace(env[["home"]]))
}

is_unpackaged <- function(x) is_closure(x) && !is_packaged(topenv(environment(x)))

# Whether one of the parts of the name before a dot is a generic function.
is_method <- function(name, env) {
  at <- gregexpr(".", name, fixed = TRUE)[[1L]]
  at <- at[at > 1L & at < nchar(name)]
  any(vapply(substring(name, 1L, at - 1L), is_generic, NA, env = env))
}

# Closures of base R whose methods compiled code looks for, and groups of generics.
generics_inside <- c(
  "as.environment", "as.vector", "cbind", "is.unsorted", "lengths", "nchar", "rbind", "rep.int", "rep_len",
  "unlist", "Ops", "Math", "Summary", "Complex", "matrixOps"
)

# One of a package that is not attached is called with its name, or by the package.
is_generic <- function(name, env) {
  if (name %in% generics_inside) {
    return(TRUE)
  }
  f <- tryCatch(get0(name, envir = env, mode = "function"), error = function(e) NULL)
  if (is.null(f)) {
    spaces <- Filter(function(space) exists(name, asNamespace(space), inherits = FALSE), loadedNamespaces())
    if (length(spaces) > 0L) f <- get(name, envir = asNamespace(spaces[[1L]]), inherits = FALSE)
  }
  is.primitive(f) || inherits(f, "standardGeneric") ||
    (is.function(f) && "UseMethod" %in% all.names(body(f)))
}

# What package methods calls a class, and the methods of a generic.
has_class_name <- function(names) startsWith(names, ".__C__") | startsWith(names, ".__T__")

has_classes <- function(names) any(has_class_name(as.character(names)))
