# What the code of a task finds in the workspace and in attached packages. Workers that were not
# forked have neither.

# list(variables, packages): the variables of the workspace that the functions and expressions in
# `code` use, those that they use included, and the packages to attach. `env` is where expressions
# are evaluated, NULL the workspace.
globals_of <- function(code, env = NULL) {
  if (!has_globals()) {
    warning(warning_globals())
    return(list(variables = list(), packages = character()))
  }
  found <- lapply(code, function(x) {
    envir <- if (is.function(x)) code_environment(x) else if (is.null(env)) globalenv() else env
    # It warns of `...` in a function that has got it from one around it.
    suppressWarnings(globals::globalsOf(x, envir, substitute = FALSE, mustExist = FALSE))
  })
  homes <- unlist(lapply(found, function(x) vapply(attr(x, "where")[names(x)], home_of, "")))
  values <- unlist(lapply(found, function(x) unclass(x)[names(x)]), recursive = FALSE)
  mine <- !duplicated(names(values)) & homes == "workspace"
  packages <- setdiff(unique(homes), c("", "workspace", default_packages()))
  list(variables = as.list(values[mine]), packages = packages)
}

has_globals <- function() requireNamespace("globals", quietly = TRUE)

code_environment <- function(fun) {
  if (is.null(environment(fun))) baseenv() else environment(fun)
}

# "workspace"; the name of an attached package; "" for what travels with the function.
home_of <- function(env) {
  if (identical(env, globalenv())) {
    return("workspace")
  }
  name <- attr(env, "name", exact = TRUE)
  package <- is.character(name) && startsWith(name, "package:")
  attached <- is.character(name) && name %in% search()
  if (package) sub("^package:", "", name) else if (attached) "workspace" else ""
}

# What every R process attaches.
default_packages <- function() {
  c("base", "stats", "graphics", "grDevices", "utils", "datasets", "methods")
}

# The functions and expressions of a task: its own, and those among its arguments and elements.
code_of <- function(replay) {
  elements <- if (is.list(replay$X)) replay$X
  given <- c(unname(replay$args), unname(elements))
  c(list(replay$FUN), Filter(function(x) is.function(x) || is.language(x), given))
}
