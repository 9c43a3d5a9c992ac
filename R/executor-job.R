# What workers that do not inherit the session need to know of a run, and how a worker is with it and after it.

job_of <- function(plan) {
  globals <- globals_of(code_of(plan$replay), plan$replay$env)
  list(
    loop = plan$loop, control = plan$control, seed = plan$seed, share = plan$share,
    variables = globals$variables, active = globals$active, attached = globals$attached,
    packages = globals$packages, unsent = globals$unsent, registered = globals$registered,
    locked = workspace_locked(names(globals$variables)),
    rng_kind = rng_element_kind()
  )
}

# What has a meaning in one process only, and code is seen to use, is an error before anything is sent: connections, of
# which another process has none of that number, or another one, such as that to the session (the three of each process
# are as good there), and functions that call compiled code by its address, as those of Rcpp::sourceCpp() do.
refuse_bound <- function(replay, variables) {
  connections <- places_used(replay, variables, is_own_connection)
  if (length(connections) > 0L) signal_error(error_connection(connections))
  addresses <- places_used(replay, variables, function(x) is_closure(x) && calls_address(body(x)))
  if (length(addresses) > 0L) signal_error(error_address(addresses))
}

is_own_connection <- function(x) inherits(x, "connection") && typeof(x) == "integer" && isTRUE(unclass(x)[[1L]] > 2L)

calls_address <- function(x) {
  parts <- if (is.call(x)) as.list(x)
  any(vapply(parts, function(part) typeof(part) == "externalptr" || calls_address(part), NA))
}

# What the code calls those that it uses, or where they stand in what it is given.
places_used <- function(replay, variables, is_bound) {
  given <- c(list(replay$FUN), replay$args, if (is.list(replay$X)) replay$X)
  functions <- Filter(is_closure, c(given, variables))
  code <- c(lapply(functions, body), Filter(is.language, given))
  used <- unique(unlist(lapply(code, all.names)))
  places <- intersect(names(Filter(is_bound, variables)), used)
  for (env in c(lapply(functions, environment), replay$env)) {
    while (!identical(env, topenv(env)) && !identical(env, emptyenv())) {
      names <- intersect(plain_bindings(env), used)
      places <- c(places, names[vapply(names, function(name) is_bound(get(name, envir = env, inherits = FALSE)), NA)])
      env <- parent.env(env)
    }
  }
  unique(c(places, if (any(vapply(given, is_bound, NA))) "a function, an argument or an element"))
}

# What closure_pack() returns. Code that uses what has a meaning in the session only is refused; on another host, where `replay`
# is NULL, the session has looked for them. Random numbers, which begin elsewhere in each run, are beside the bytes of
# what is the same in all runs of a function.
job_closure <- function(job, replay, min = Inf, near = is.finite(min)) {
  packed <- closure_pack(job[names(job) != "seed"], min, near, attached = job$packages)
  packed$bytes["seed"] <- list(job$seed)
  if (packed$bound && !is.null(replay)) refuse_bound(replay, job$variables)
  packed
}

# For workers that read the memory of this process: what closure_pack() returns, to be kept as long as they
# may, and its bytes as one `stream`.
job_pack <- function(job, replay) {
  packed <- job_closure(job, replay, share_from(job$control), near = TRUE)
  packed$stream <- send_handles(TRUE, serialize(packed$bytes, NULL, xdr = FALSE))
  packed
}

# `names`: what is found in packages that are not attached; `notes`: what packages_ready() returns. Those of a session
# on another host are in the job, too.
job_unpack <- function(bytes) {
  notes <- packages_ready(bytes$packages$needed)
  job <- closure_unpack(bytes)
  job$notes <- unique(c(notes, packages_ready(job$needed)))
  job$needed <- bytes$packages$needed
  job$names <- c(job$names, bytes$packages$names)
  job["seed"] <- list(bytes$seed)
  job
}

# Bytes from which on a vector is shared with workers that can read it.
share_from <- function(control) if (control$shm) control$share_min else Inf

# How a worker is, for job_reset().
job_before <- function() {
  list(
    settings = settings_known(), loaded = loadedNamespaces(), variables = workspace_take(),
    locked = workspace_locked(), tables = tables_take(), generics = generics_take(), hooks = hooks_take(),
    rng = rng_save(), cores = getOption("mc.cores"),
    env = Sys.getenv(c("REGATTA_SHARE", "REGATTA_TRY", "REGATTA_RUN"), NA, names = TRUE)
  )
}

# In a worker: settings, packages and variables of the session, the share of the cores. `undo` is how it was before;
# returned with what job_reset() needs to know beside that.
job_set <- function(job, undo = job_before()) {
  force(undo)
  undo$search <- undo$hidden <- NULL
  is_set <- FALSE
  on.exit(if (!is_set) {
    job_reset(undo)
    attach_for()
  })
  settings_set(job$settings)
  attach_for(job$packages, job$names)
  undo$search <- search_take()
  if (length(job$attached) > 0L) attach_list(job$attached, attached_values)
  workspace_set(job$variables, job$locked, job$active)
  undo$hidden <- workspace_hide(job$unsent, undo$variables$lazy)
  methods_set(job$registered)
  session_options(job$settings)
  forget_session_defaults() # its own, which its profile may have set
  evaluator$unsent <- job$unsent
  rng_use(NULL, job$rng_kind)
  fork_worker_share(job)
  is_set <- TRUE
  undo
}

job_reset <- function(undo) {
  evaluator$unsent <- NULL
  # A limit that an element has set would end what the worker does next. That of the session is in the other.
  setSessionTimeLimit()
  setTimeLimit()
  each_of(
    tables_restore(undo$tables),
    hooks_restore(undo$hooks),
    workspace_reset(undo$variables, undo$locked),
    workspace_show(undo$hidden, undo$locked),
    generics_restore(undo$generics, undo$loaded), # with the workspace its methods have gone, which stood over others
    rng_restore(undo$rng),
    restore_env(undo$env),
    options(mc.cores = undo$cores),
    if (!is.null(undo$search)) search_restore(undo$search),
    settings_restore(undo$settings, setdiff(loadedNamespaces(), undo$loaded))
  )
}

# Evaluates all of its arguments, one after the other. The first error among them is one when that is done.
each_of <- function(...) {
  failures <- list()
  for (k in seq_len(...length())) {
    tryCatch(...elt(k), error = function(e) failures <<- c(failures, list(e)))
  }
  if (length(failures) > 0L) stop(failures[[1L]])
}

# What setHook() was given. Base R has no other way to all of it.
hooks_take <- function() as.list.environment(baseenv()[[".userHooksEnv"]], all.names = TRUE)

hooks_restore <- function(before) {
  now <- hooks_take()
  if (identical(now, before)) {
    return(invisible())
  }
  for (name in union(names(now), names(before))) {
    had <- before[[name]]
    new <- Filter(function(hook) !is_unpackaged(hook) && !any(vapply(had, identical, NA, hook)), now[[name]])
    setHook(name, c(had, new), "replace")
  }
}

# list(values, active, lazy), of all variables of the workspace: what they hold, and which are active bindings, of which
# that is the function. Those that are not evaluated yet are only named. Its seed is kept elsewhere.
workspace_take <- function(env = globalenv()) {
  names <- workspace_names(env)
  found <- variables_of(env, names)
  list(values = found$values[!found$lazy], active = names[found$active], lazy = names[found$lazy])
}

# Without what R itself keeps there, and in "Autoloads".
workspace_names <- function(env) setdiff(ls(env, all.names = TRUE, sorted = FALSE), c(".Random.seed", ".Autoloaded"))

# Which of the variables of the workspace are locked.
workspace_locked <- function(names = ls(env, all.names = TRUE, sorted = FALSE), env = globalenv()) {
  names <- names[vapply(names, exists, NA, envir = env, inherits = FALSE)]
  names[vapply(names, bindingIsLocked, NA, env = env)]
}

workspace_set <- function(variables, locked, active = character()) {
  if (length(variables) > 0L) workspace_put(variables, active, locked, has_classes(names(variables)))
}

# Those that were locked, by the session or by code before, are locked again if they are among `locked`. With `classes`
# among them package methods is told: before a function takes the name of a primitive, which it would take for that. A
# function of the name of a generic that has methods in the workspace it would put the generic in place of.
workspace_put <- function(values, active, locked, classes, env = globalenv()) {
  names <- as.character(names(values))
  there <- names[vapply(names, exists, NA, envir = env, inherits = FALSE)]
  closed <- there[vapply(there, bindingIsLocked, NA, env = env)]
  if (length(closed) > 0L) rlang::env_binding_unlock(env, closed)
  # What is assigned to an active binding is an argument of its function.
  in_place <- vapply(there, bindingIsActive, NA, env = env)
  rm(list = there[in_place | there %in% active], envir = env)
  late <- names %in% names_of_primitives(names)
  list2env(values[!late & !names %in% active], envir = env)
  if (classes) {
    forget_inherited()
    methods::cacheMetaData(1L, TRUE)
    late <- late | vapply(values, is.function, NA)
  }
  list2env(values[late & !names %in% active], envir = env)
  for (name in active) makeActiveBinding(name, values[[name]], env)
  for (name in intersect(locked, names)) lockBinding(name, env)
}

# Takes away what the worker has under names of the session's variables that were `unsent`: code that was not seen to
# need one would go on with another value. workspace_reset() puts it back, but for what is not evaluated yet, `lazy`:
# that is returned, for workspace_show().
workspace_hide <- function(unsent, lazy, env = globalenv()) {
  there <- ls(env, all.names = TRUE, sorted = FALSE)
  hidden <- setdiff(there[there %in% unsent], ".Random.seed") # rng_use() sees to that
  if (length(hidden) > 0L) {
    late <- intersect(hidden, lazy)
    taken <- .Call(ffi_variables_take, env, late)
    rm(list = hidden, envir = env)
    if (length(late) > 0L) list(names = late, taken = taken)
  }
}

workspace_show <- function(hidden, locked, env = globalenv()) {
  if (!is.null(hidden)) {
    .Call(ffi_variables_put, env, hidden$names, hidden$taken)
    for (name in intersect(locked, hidden$names)) lockBinding(name, env)
    .Call(ffi_variables_drop, hidden$taken)
  }
}

# The value of `code`, which may assign to any of `names` in the workspace: neighbours bring variables by their values.
# To one that is locked it could not, and to an active binding it would give an argument for its function. They are
# again what they were after it.
with_assignable <- function(names, code, env = globalenv()) {
  there <- names[vapply(names, exists, NA, envir = env, inherits = FALSE)]
  locked <- workspace_locked(there, env)
  active <- there[vapply(there, bindingIsActive, NA, env = env)]
  functions <- lapply(active, activeBindingFunction, env = env)
  on.exit({
    rm(list = active[vapply(active, exists, NA, envir = env, inherits = FALSE)], envir = env)
    for (k in seq_along(active)) makeActiveBinding(active[[k]], functions[[k]], env)
    for (name in intersect(locked, ls(env, all.names = TRUE))) lockBinding(name, env)
  })
  if (length(locked) > 0L) rlang::env_binding_unlock(env, locked)
  rm(list = active, envir = env)
  code
}

# The value of `code` with these variables in the workspace.
with_variables <- function(variables, code) {
  with_assignable(names(variables), among_variables(as.list(variables), code))
}

among_variables <- function(variables, code) {
  list2env(variables, envir = globalenv())
  on.exit(rm(list = names(variables), envir = globalenv()))
  code
}

names_of_primitives <- function(names) {
  names[vapply(names, function(name) is.primitive(get0(name, baseenv(), inherits = FALSE)), NA)]
}

# What the run has sent and what its elements have left there goes; what was there before is as it was.
workspace_reset <- function(before, locked, env = globalenv()) {
  names <- workspace_names(env)
  if (length(names) + length(before$values) == 0L) {
    return(invisible())
  }
  new <- names[!names %in% c(names(before$values), before$lazy)]
  classes <- identical(env, globalenv()) && has_classes(new)
  if (classes) {
    early <- names_of_primitives(new)
    rm(list = early, envir = globalenv())
    new <- setdiff(new, early)
    methods::cacheMetaData(1L, FALSE)
    forget_coerce()
  }
  rm(list = new, envir = env)
  workspace_put(before$values, before$active, locked, classes && has_classes(names(before$values)), env)
}
