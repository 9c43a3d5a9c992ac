# Methods come with the namespace of their package. A worker that does not inherit the session may not have loaded it,
# and then objects of its classes are cut, compared and printed as what they are made of, without a word.

# The libraries, by name, of packages that are loaded here and not in every R process, and that have methods for a
# class whose name is among the strings in `streams`, serialised objects: the class of an object, or a string in code,
# which may make such objects. With "bound", whether there may be a connection or an address of compiled code in them.
packages_of_methods <- function(streams) {
  homes <- method_homes()
  there <- .Call(ffi_encode_names, streams, c(homes$class, tags_of_process))
  is_class <- seq_along(there) <= length(homes$class)
  packages <- unique(homes$package[there & is_class])
  list(packages = package_libraries(packages), bound = any(there[!is_class]))
}

# What R calls the pointers of connections and of addresses of compiled code.
tags_of_process <- c("conn_id", "native symbol", "registered native symbol")

# list(class, package), of all that is loaded now.
method_homes <- function() {
  loaded <- setdiff(loadedNamespaces(), c(default_packages(), "regatta"))
  if (!identical(the$method_homes$loaded, loaded)) {
    the$method_homes <- c(list(loaded = loaded), homes_of_methods(loaded))
  }
  the$method_homes
}

homes_of_methods <- function(packages) {
  classes <- lapply(packages, classes_of_methods)
  list(class = unlist(classes), package = rep(packages, lengths(classes)))
}

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

# In a worker, and in the session for values of one. A node of this machine may have other libraries than the
# session, of which `packages` has the paths by name. What is not installed there is done without, as by code
# that does not use it.
load_for_methods <- function(packages) {
  for (package in setdiff(names(packages), loadedNamespaces())) {
    libraries <- unique(c(.libPaths(), packages[[package]]))
    tryCatch(
      suppressWarnings(suppressMessages(loadNamespace(package, lib.loc = libraries))),
      error = function(e) NULL
    )
  }
}

# In the session: what workers have loaded and it has not, list(class, package, paths).
note_loaded <- function(homes) {
  new <- !homes$package %in% loadedNamespaces()
  the$worker_homes$class <- c(the$worker_homes$class, homes$class[new])
  the$worker_homes$package <- c(the$worker_homes$package, homes$package[new])
  the$worker_homes$paths[names(homes$paths)] <- homes$paths
}

# As lapply() would have loaded them.
load_for_values <- function(values) {
  homes <- the$worker_homes
  wanted <- unique(homes$package[.Call(ffi_encode_classes, values, homes$class)])
  if (length(wanted) > 0L) {
    load_for_methods(homes$paths[wanted])
    kept <- !homes$package %in% wanted
    the$worker_homes$class <- homes$class[kept]
    the$worker_homes$package <- homes$package[kept]
  }
}
