# The search path of a worker that does not inherit the session's: what a run needs attached, and how it is put back.

# Attaches these packages, named from the first on the search path on, in front of all that is attached, and in front of
# them what `names` tells of by packages that are not attached here. All that stays for the next run that needs the
# same. Without arguments: the search path is as it was before.
attach_for <- function(packages = character(), names = list()) {
  if (is.null(the$attached)) {
    if (length(packages) + length(names) == 0L) {
      return(invisible())
    }
    the$attached <- list(search = search())
  }
  before <- the$attached$search
  ours <- paste0("package:", packages)[seq_along(packages)]
  wanted <- c(before[[1L]], ours, setdiff(before[-1L], ours))
  front <- if (length(names) > 0L) attached_packages
  if (!identical(names, the$attached$names) || !identical(search(), append(wanted, front, 1L))) {
    if (attached_packages %in% search()) detach(attached_packages, character.only = TRUE)
    search_set(wanted)
    if (length(names) > 0L) attach_names(names)
    the$attached$names <- names
  }
  if (length(packages) + length(names) == 0L) the$attached <- NULL
}

# Such a package is loaded when something of it is looked up. As with packages that are attached nothing is assigned.
attach_names <- function(names) {
  env <- attach_list(NULL, attached_packages)
  for (package in names(names)) {
    for (name in names[[package]]) {
      value <- call("suppressPackageStartupMessages", call("getExportedValue", package, name))
      eval(call("delayedAssign", name, value, baseenv(), env))
    }
  }
  lockEnvironment(env, bindings = TRUE)
}

attach_list <- function(values, name) {
  do.call(base::attach, list(values, name = name, warn.conflicts = FALSE), quote = TRUE)
}

# What stands on the search path of a worker for packages that the session has attached, and for lists.
attached_packages <- "regatta:packages"
attached_values <- "regatta:attached"

# How the search path stands: its names and environments, and what those hold that are no packages. What stands for
# packages is locked.
search_take <- function() {
  names <- search()
  envs <- search_envs()
  lists <- which(!startsWith(names, "package:") & names != attached_packages)[-1L]
  held <- lapply(envs[lists], function(env) {
    list(env = env, variables = workspace_take(env), locked = workspace_locked(env = env))
  })
  list(names = names, envs = envs, held = held)
}

search_restore <- function(before) {
  envs <- search_envs()
  if (!identical(envs, before$envs)) {
    # Two may have one name.
    new <- !vapply(envs, function(env) any(vapply(before$envs, identical, NA, env)), NA)
    for (at in rev(which(new))) suppressWarnings(detach(pos = at))
    search_set(before$names)
  }
  for (list in before$held) workspace_reset(list$variables, list$locked, list$env)
}

# Only packages can be attached again.
search_set <- function(wanted) {
  now <- search()
  if (identical(now, wanted)) {
    return(invisible())
  }
  for (name in setdiff(now, wanted)) leave_package(name)
  wanted <- wanted[wanted %in% search() | startsWith(wanted, "package:")]
  # From the end of the path on nothing is touched as long as it is in place.
  now <- search()
  same <- 0L
  while (same < min(length(now), length(wanted)) &&
    now[[length(now) - same]] == wanted[[length(wanted) - same]]) {
    same <- same + 1L
  }
  for (name in rev(wanted[seq_len(length(wanted) - same)])) {
    if (name %in% search() && !startsWith(name, "package:")) next
    if (name %in% search()) leave_package(name)
    package <- sub("^package:", "", name)
    suppressPackageStartupMessages(attachNamespace(loadNamespace(package)))
  }
}

# Those that need it may be among the next to go.
leave_package <- function(name) suppressWarnings(detach(name, character.only = TRUE))
