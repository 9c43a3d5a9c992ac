# Methods that generics have in a worker that does not inherit the session: those of a run, and as they were after it.

# Registers methods as registered_methods() has them. A namespace that cannot be loaded here has no generic that
# anything could call.
methods_set <- function(methods) {
  for (k in seq_along(methods)) {
    home <- methods[[k]]$home
    or_else(loadNamespace(home), NULL)
    table <- methods_table(home)
    if (!is.null(table)) assign(names(methods)[[k]], methods[[k]]$method, envir = table)
  }
}

# The S3 methods that are registered, by the namespaces of their generics.
tables_take <- function() methods_now()$held

# What packages have registered that were loaded meanwhile stays.
tables_restore <- function(before) {
  now <- tables_take()
  if (identical(now, before)) {
    return(invisible())
  }
  for (home in names(now)[!vapply(names(now), function(home) identical(now[[home]], before[[home]]), NA)]) {
    table <- methods_table(home)
    set <- as.list(now[[home]])
    had <- as.list(before[[home]])
    lost <- setdiff(names(had), names(set))
    changed <- names(set)[!vapply(names(set), function(name) identical(set[[name]], had[[name]]), NA)]
    changed <- changed[vapply(set[changed], is_unpackaged, NA)]
    rm(list = changed, envir = table)
    .Call(ffi_methods_put, table, before[[home]], intersect(c(lost, changed), names(had)))
  }
}

# The generics of S4 that package methods knows, each once: it has some in several places.
generics_known <- function() {
  space <- asNamespace("methods")
  known <- c(as.list.environment(space[[".genericTable"]], all.names = TRUE), space[[".BasicFunsList"]])
  known <- unlist(known, use.names = FALSE)
  generics_once(known[vapply(known, function(x) is.environment(environment(x)[[".MTable"]]), NA)])
}

generics_once <- function(generics) generics[!duplicated(lapply(generics, environment))]

# list(generics, tables, held): the methods that each has been given, without those found by inheritance, and before
# these the table of generics itself. It is the very same as long as nothing has changed.
generics_take <- function() {
  known <- the$generics
  if (is.null(known) || !.Call(ffi_methods_hold, known$tables, known$held)) {
    generics <- generics_known()
    tables <- lapply(generics, function(generic) environment(generic)[[".MTable"]])
    tables <- c(asNamespace("methods")[[".genericTable"]], tables)
    the$generics <- list(generics = generics, tables = tables, held = lapply(tables, methods_held))
  }
  the$generics
}

# A generic has one method for a signature: one that code sets takes the place of a package's, and no method is there
# when that goes. What packages that are not among `loaded` have set is put back as well, and stays.
generics_restore <- function(before, loaded) {
  new <- setdiff(loadedNamespaces(), loaded)
  if (length(new) == 0L && identical(generics_take(), before)) {
    return(invisible())
  }
  sets <- do.call(c, lapply(new, methods_set_by))
  homes <- lapply(sets, function(set) environment(set$generic))
  known <- generics_known()
  generics <- generics_once(c(before$generics, known, lapply(sets, `[[`, "generic")))
  for (k in seq_along(generics)) {
    of_new <- sets[vapply(homes, identical, NA, environment(generics[[k]]))]
    is_old <- k <= length(before$generics)
    if (is_old && length(of_new) == 0L && .Call(ffi_methods_hold, before$tables[k + 1L], before$held[k + 1L])) next
    had <- c(rev(lapply(of_new, `[[`, "methods")), if (is_old) list(as.list(before$held[[k + 1L]])))
    generic_restore(generics[[k]], do.call(c, had))
  }
  generics_keep(generics_once(c(known, generics))[-seq_along(known)], known)
}

# list(generic, methods) of each generic that a package has set methods of.
methods_set_by <- function(package) {
  space <- asNamespace(package)
  pattern <- "^[.]__T__(.*):([^:]*)$"
  sets <- lapply(grep(pattern, names(space), value = TRUE), function(name) {
    generic <- methods::getGeneric(sub(pattern, "\\1", name), where = space, package = sub(pattern, "\\2", name))
    list(generic = generic, methods = as.list.environment(space[[name]], all.names = TRUE))
  })
  Filter(function(set) is.environment(environment(set$generic)[[".MTable"]]), sets)
}

# `had`: its methods by their signatures, the first of which counts. Methods of packages that it has now stay.
generic_restore <- function(generic, had) {
  inside <- environment(generic)
  has <- as.list.environment(inside[[".MTable"]], all.names = TRUE)
  labels <- names(has)
  names(has) <- signature_short(labels)
  had <- as.list(had)
  names(had) <- signature_short(names(had))
  had <- had[!duplicated(names(had))]
  is_wrong <- vapply(names(has), function(name) {
    (is_unpackaged(has[[name]]) || is.environment(has[[name]])) && !identical(has[[name]], had[[name]])
  }, NA)
  back <- union(names(has)[is_wrong], setdiff(names(Filter(is_method_of_package, had)), names(has)))
  if (length(back) == 0L) {
    return(invisible())
  }
  for (table in list(inside[[".MTable"]], inside[[".AllMTable"]])) {
    rm(list = intersect(labels[is_wrong], names(table)), envir = table)
    for (name in intersect(back, names(had))) {
      assign(signature_long(name, inside[[".SigLength"]]), had[[name]], envir = table)
    }
  }
  methods::resetGeneric(generic@generic, generic) # what it has found by inheritance
}

# The number of arguments in the labels of a table grows with the longest signature that anybody sets.
signature_short <- function(labels) sub("(#ANY)+$", "", as.character(labels))

signature_long <- function(label, n) paste(c(label, rep("ANY", n - lengths(strsplit(label, "#")))), collapse = "#")

# Of one that is loaded, and for its own classes: as() keeps what it has found for those of the workspace as if it
# were a method, see forget_coerce().
is_method_of_package <- function(method) {
  home <- if (is_closure(method)) topenv(environment(method))
  isNamespace(home) && identical(.getNamespace(getNamespaceName(home)), home) && !is_of_workspace(method)
}

is_of_workspace <- function(method) ".GlobalEnv" %in% attr(attr(method, "target"), "package")

# Package methods forgets a generic of a package with the methods that the workspace has of it, and finds it again only
# where somebody asks for it in the right place. Not where another has come in its place.
generics_keep <- function(lost, known) {
  label <- function(generics) vapply(generics, function(generic) paste(generic@generic, generic@package), "")
  for (generic in lost[!label(lost) %in% label(known)]) {
    if (isNamespaceLoaded(generic@package)) asNamespace("methods")[[".cacheGeneric"]](generic@generic, generic)
  }
}

# What generics have found for classes on calls before, by inheritance: cacheMetaData() leaves it where a method, or
# another class of that name, has come meanwhile.
forget_inherited <- function() {
  for (generic in generics_known()) {
    tables <- environment(generic)
    if (length(tables$.AllMTable) > length(tables$.MTable)) methods::resetGeneric(generic@generic, generic)
  }
}

# What as() has found for classes of the workspace: it keeps that as if it were a method that somebody has set.
forget_coerce <- function() {
  for (name in c("coerce", "coerce<-")) {
    tables <- environment(methods::getGeneric(name))
    of_workspace <- vapply(as.list.environment(tables$.MTable, all.names = TRUE), is_of_workspace, NA)
    found <- names(which(of_workspace))
    rm(list = found, envir = tables$.MTable)
    rm(list = intersect(found, names(tables$.AllMTable)), envir = tables$.AllMTable)
  }
}
