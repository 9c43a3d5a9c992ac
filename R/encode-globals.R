# What the code of a task finds in the workspace and in what is attached. Workers that were not forked have neither.

# list(variables, active, attached, packages, unsent, large, registered): the variables of the workspace that the
# functions and expressions in the list `code`, and in what its other objects hold, use, those that they use included,
# and its methods and classes, of which code shows no name; which of them are active bindings, and stand there as their
# functions; the variables of lists and environments that attach() was given; the packages to attach, as they are on the
# search path; the names of all other variables of the workspace, and which of them globals_decide() has left for their
# size; what registered_methods() gives. `env` is where expressions are evaluated, NULL the workspace.
#
# The last answer is kept with all that it depends on. That is told by values: whatever code can reach is written down
# again, and compared. It is no answer for code around which arguments have been evaluated meanwhile: those of the next
# call want to be evaluated, too.
globals_of <- function(code, env = NULL) {
  if (!has_globals()) {
    warning(warning_globals())
    return(list(variables = list(), packages = character()))
  }
  asked <- globals_asked(code, env)
  known <- the$globals
  if (!is.null(asked) && identical(asked, known$asked)) {
    values <- mget(as.character(names(known$found$variables)), envir = globalenv())
    larger <- !any(vapply(known$found$large, is_small, NA, place = globalenv()))
    if (larger && identical(bounded_bytes(unname(values)), known$values)) {
      known$found$variables <- values
      return(known$found)
    }
  }
  found <- globals_find(code, env)
  is_same <- !is.null(asked) && identical(asked$bytes, bounded_bytes(list(code, env)))
  the$globals <- if (is_same) globals_kept(asked, found)
  found
}

# What tells whether globals_find() would find the same, beside the values of what it has found: NULL where there is too
# much of it, or variables are attached. Of other variables of the workspace it asks no more than of what type they are.
# Functions of a package stay as they are.
globals_asked <- function(code, env) {
  attached <- unlist(lapply(attached_lists(), ls, all.names = TRUE))
  if (length(setdiff(attached, ".Autoloaded")) > 0L) { # autoload()'s own
    return(NULL)
  }
  bytes <- bounded_bytes(list(code, env))
  if (!is.null(bytes)) {
    names <- ls(globalenv(), all.names = TRUE, sorted = FALSE)
    workspace <- variables_of(globalenv(), names)
    list(
      bytes = bytes, path = search_envs(), methods = methods_now(), types = vapply(workspace$values, typeof, ""),
      lazy = workspace$lazy, active = workspace$active, found_by_class = workspace_methods(names),
      named = options_naming()
    )
  }
}

globals_kept <- function(asked, found) {
  bytes <- if (length(found$active) == 0L) bounded_bytes(unname(found$variables))
  if (!is.null(bytes)) {
    found$variables <- lapply(found$variables, function(x) NULL) # their names: the session's values may go
    list(asked = asked, values = bytes, found = found)
  }
}

# `x` as bytes, NULL if they are more than small_code, or cannot be had.
bounded_bytes <- function(x) {
  tryCatch(
    send_handles(FALSE, unwarned(.Call(ffi_encode_bounded, x, small_code))),
    regatta_unbounded = function(cnd) NULL, error = function(e) NULL
  )
}

# Called from C when there are more. Not by an error alone, which would be the session's last.
leave_bounded <- function() {
  signalCondition(structure(class = c("regatta_unbounded", "condition"), list(message = "")))
  stop("more bytes than are kept")
}

globals_find <- function(code, env) {
  found <- new.env(parent = emptyenv())
  found$variables <- found$attached <- list()
  found$active <- found$homes <- found$strings <- found$symbols <- character()
  found$looks <- FALSE
  found$places <- c(list(globalenv()), attached_lists())
  found$names <- lapply(found$places, function(place) {
    setdiff(ls(place, all.names = TRUE, sorted = FALSE), ".Random.seed")
  })
  globals_doubt(found)
  found$seen <- new.env(parent = emptyenv())
  found$queue <- list()
  found$left <- globals_work
  workspace <- found$names[[1L]]
  is_code <- vapply(code, function(x) is.function(x) || (is.language(x) && !inherits(x, "formula")), NA)
  for (x in code[is_code]) {
    envir <- if (is.function(x)) code_environment(x) else if (is.null(env)) globalenv() else env
    globals_scan(found, x, envir)
    if (is.function(x)) globals_push(found, globals_marks(x))
  }
  globals_push(found, code[!is_code])
  for (name in workspace_methods(workspace)) globals_add(found, name, globalenv())
  globals_push(found, options_naming())
  registered <- registered_methods()
  for (method in registered) globals_scan(found, method$method, environment(method$method))
  globals_drain(found)
  globals_decide(found)
  list(
    variables = found$variables, active = found$active, attached = found$attached,
    packages = in_search_order(setdiff(found$homes, c("", "workspace"))),
    unsent = setdiff(workspace, names(found$variables)), large = globals_large(found), registered = registered
  )
}

# What to look for code in objects may cost: a unit is an element that is found to hold none, about a microsecond.
# Beyond that a variable that a worker has not been given is not found there, which is an error, unless R itself or a
# package has something of that name: see globals_decide().
globals_work <- 2e4

has_globals <- function() requireNamespace("globals", quietly = TRUE)

# Options that name functions, which models call.
options_naming <- function() list(getOption("contrasts"), getOption("na.action"))

# What a task has of code: its own, and what is among its arguments and elements.
code_of <- function(replay) {
  X <- replay$X
  elements <- if (is.list(X) || is.expression(X)) {
    unname(as.list(X))
  } else if (is.object(X)) {
    list(X)
  } else if (is.character(X)) {
    list(unique(X))
  }
  given <- c(unname(replay$args), elements)
  given <- given[!vapply(given, is_empty_argument, NA)]
  symbols <- vapply(given, is.symbol, NA)
  c(list(replay$FUN), given[symbols | may_hold_code(given) | are_words(given)])
}
