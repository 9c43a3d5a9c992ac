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
  found <- new.env(parent = emptyenv())
  found$variables <- list()
  found$homes <- character()
  found$seen <- character()
  for (x in code) {
    envir <- if (is.function(x)) code_environment(x) else if (is.null(env)) globalenv() else env
    # It warns of `...` in a function that has got it from one around it.
    suppressWarnings(globals_scan(found, x, envir))
  }
  list(variables = found$variables, packages = setdiff(found$homes, c("", "workspace", default_packages())))
}

has_globals <- function() requireNamespace("globals", quietly = TRUE)

code_environment <- function(fun) {
  if (is.null(environment(fun))) baseenv() else environment(fun)
}

# Functions of packages are not looked into: what they need comes with the package.
globals_scan <- function(found, x, env) {
  address <- rlang::obj_address(x)
  if (address %in% found$seen) {
    return(invisible())
  }
  found$seen <- c(found$seen, address)
  for (name in globals_names(x, env)) {
    where <- find_home(name, env)
    home <- if (is.null(where)) "" else home_of(where)
    if (!home %in% found$homes) found$homes <- c(found$homes, home)
    if (home == "workspace" || (home == "" && !is.null(where) && !is_packaged(where))) {
      # What cannot be had is an error where it is used, if it is.
      value <- tryCatch(get(name, envir = where, inherits = FALSE), error = function(e) where)
      if (identical(value, where)) {
        next
      }
      if (home == "workspace" && !name %in% names(found$variables)) {
        found$variables[name] <- list(value)
      }
      if (typeof(value) == "closure") globals_scan(found, value, environment(value))
    }
  }
}

# The environment in which a name is found from `env` on; NULL if there is none.
find_home <- function(name, env) {
  while (!identical(env, emptyenv())) {
    if (exists(name, envir = env, inherits = FALSE)) {
      return(env)
    }
    env <- parent.env(env)
  }
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

is_packaged <- function(env) {
  name <- attr(env, "name", exact = TRUE)
  identical(env, baseenv()) || isNamespace(env) || (is.character(name) && startsWith(name[[1L]], "imports:"))
}

# Names that code takes from elsewhere. To find them takes longer than a small map, so they are remembered
# for as long as the analysis would give the same. That depends on the code, which never changes: a
# changed function has another body; and on whether functions of base R, such as quote(), have their
# meaning where the code is. What the names stand for is looked up each time.
globals_names <- function(x, env) {
  plain <- is.language(x) || (is.function(x) && all(names(attributes(x)) == "srcref"))
  if (!plain || is.primitive(x)) {
    return(globals_analyse(x, env))
  }
  code <- if (is.function(x)) body(x) else x
  arguments <- if (is.function(x)) formals(x)
  key <- paste(rlang::obj_address(code), rlang::obj_address(arguments))
  known <- the$analyses[[key]]
  base <- if (is.null(known)) base_functions(x) else known$base
  masked <- !has_base_functions(base, env)
  if (!is.null(known) && !masked) {
    return(known$names)
  }
  names <- globals_analyse(x, env)
  # With functions of base R masked it is another analysis.
  if (masked) {
    return(names)
  }
  if (length(the$analyses) >= analyses_most) rm(list = names(the$analyses), envir = the$analyses)
  known <- list(code = code, arguments = arguments, base = base, names = names)
  assign(key, known, envir = the$analyses)
  names
}

analyses_most <- 200L

globals_analyse <- function(x, env) {
  find <- function(method) globals::findGlobals(x, envir = env, substitute = FALSE, method = method)
  # The first goes by the order of the code, and takes a name that is assigned somewhere, or is an argument
  # of a function within, for one of the code's own from there on.
  names <- unique(c(find("ordered"), setdiff(find("conservative"), always_assigned(x))))
  names[!grepl("^[.][.]([.]|[0-9]+)$", names)]
}

# Names that the statements of code assign, whatever happens, before they are used: the code's own.
always_assigned <- function(x) {
  code <- if (is.function(x)) body(x) else x
  statements <- if (is.call(code) && identical(code[[1L]], quote(`{`))) as.list(code)[-1L] else list(code)
  used <- if (is.function(x)) all.names(as.call(c(list(quote(list)), as.list(formals(x)))))
  own <- character()
  for (statement in statements) {
    is_assignment <- is.call(statement) && length(statement) == 3L && is.name(statement[[2L]]) &&
      (identical(statement[[1L]], quote(`<-`)) || identical(statement[[1L]], quote(`=`)))
    used <- c(used, all.names(if (is_assignment) statement[[3L]] else statement))
    if (is_assignment && !as.character(statement[[2L]]) %in% used) {
      own <- c(own, as.character(statement[[2L]]))
    }
  }
  # A variable may be removed again. A statement that is left before it has assigned leaves the function.
  if (any(c("rm", "remove") %in% used)) character() else own
}

# Functions of base R of which code has the names, by these.
base_functions <- function(x) {
  if (is.function(x)) x <- as.call(c(list(quote(list)), as.list(formals(x)), list(body(x))))
  names <- setdiff(all.names(x, unique = TRUE), "")
  is_function <- vapply(names, exists, NA, envir = baseenv(), mode = "function", inherits = FALSE)
  mget(names[is_function], envir = baseenv())
}

has_base_functions <- function(functions, env) {
  found <- tryCatch(
    mget(names(functions), envir = env, mode = "function", ifnotfound = list(NULL), inherits = TRUE),
    error = function(e) NULL # an argument of such a name that is missing, or fails
  )
  identical(found, functions)
}

# In a worker: the workspace gets these variables. Returns how it was, for reset_globals().
set_globals <- function(variables) {
  if (length(variables) == 0L) {
    return(NULL)
  }
  names <- names(variables)
  there <- vapply(names, exists, NA, envir = globalenv(), inherits = FALSE)
  before <- list(variables = mget(names[there], envir = globalenv()), new = names[!there])
  list2env(variables, envir = globalenv())
  before
}

reset_globals <- function(before) {
  for (name in before$new) {
    if (exists(name, envir = globalenv(), inherits = FALSE)) rm(list = name, envir = globalenv())
  }
  if (length(before$variables) > 0L) list2env(before$variables, envir = globalenv())
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
