# Environments: where a name is found, whose that is, and what variables hold, with nothing evaluated for it.

has_function <- function(place, name) {
  exists(name, envir = place, inherits = FALSE) && !bindingIsActive(name, place) &&
    !rlang::env_binding_are_lazy(place, name) &&
    exists(name, envir = place, mode = "function", inherits = FALSE)
}

# What these variables of an environment hold, with nothing evaluated for it: list(values, lazy, active), a list by
# their names, and which of it is the code of something that is not evaluated yet, or the function of an active binding.
variables_of <- function(env, names) {
  if (length(names) == 0L) {
    return(list(values = list(), lazy = logical(), active = logical()))
  }
  lazy <- rlang::env_binding_are_lazy(env, names)
  active <- rlang::env_binding_are_active(env, names)
  values <- stats::setNames(vector("list", length(names)), names)
  plain <- !lazy & !active
  values[plain] <- mget(names[plain], envir = env)
  values[lazy] <- lapply(names[lazy], function(name) eval(call("substitute", as.name(name), env)))
  values[active] <- lapply(names[active], activeBindingFunction, env)
  list(values = values, lazy = lazy, active = active)
}

# `other` if `value`, of what may be a promise, fails. R warns of one that has failed before and is begun again.
promise_value <- function(value, other) {
  again <- gettext("restarting interrupted promise evaluation", domain = "R")
  withCallingHandlers(tryCatch(value, error = function(e) other), warning = function(w) {
    if (identical(conditionMessage(w), again)) invokeRestart("muffleWarning")
  })
}

is_own_environment <- function(env) {
  !identical(env, emptyenv()) && !is_packaged(env) && home_of(env) == "" && !inherits(env, "srcfile")
}

# The environment in which a name is found from `env` on, that of something of this mode; NULL if there is none.
find_home <- function(name, env, mode = "any") {
  while (!identical(env, emptyenv())) {
    # What is not evaluated yet may be an error.
    if (tryCatch(exists(name, envir = env, mode = mode, inherits = FALSE), error = function(e) FALSE)) {
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
  if (identical(env, globalenv())) {
    return(FALSE)
  }
  name <- attr(env, "name", exact = TRUE)
  identical(env, baseenv()) || isNamespace(env) || (is.character(name) && startsWith(name[[1L]], "imports:"))
}
