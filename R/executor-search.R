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
  lists <- which(!is_package_entry(names) & names != attached_packages)[-1L]
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
    for (at in rev(which(new))) suppressWarnings(detach(pos = at, force = TRUE))
    search_set(before$names)
  }
  for (list in before$held) workspace_reset(list$variables, list$locked, list$env)
}

# From the end of the path on, where nothing is touched that is in place. Only packages can be attached again.
search_set <- function(wanted) {
  for (name in setdiff(search(), wanted)) leave_package(name)
  wanted <- wanted[wanted %in% search() | is_package_entry(wanted)]
  for (behind in seq_along(wanted) - 1L) search_place(wanted[[length(wanted) - behind]], behind)
}

# `name` is to have `behind` entries behind it, which are in place.
search_place <- function(name, behind) {
  if (is_package_entry(name)) {
    if (identical(entry_before(behind), name)) return(invisible())
    if (name %in% search()) leave_package(name)
    space <- loadNamespace(sub("^package:", "", name))
    suppressPackageStartupMessages(attachNamespace(space, length(search()) - behind + 1L, the$depends[[name]]))
  } else {
    # What stands between a list and its place is attached again in front of it.
    while (entry_before(behind) != name && is_package_entry(entry_before(behind))) leave_package(entry_before(behind))
  }
}

# What stands in front of the last `behind` entries.
entry_before <- function(behind) search()[[length(search()) - behind]]

is_package_entry <- function(names) startsWith(names, "package:")

# Others may depend on it that stay, or are among the next to go.
leave_package <- function(name) {
  the$depends[[name]] <- get0(".Depends", as.environment(name), inherits = FALSE)
  suppressWarnings(detach(name, character.only = TRUE, force = TRUE))
}
