# What workers that do not inherit the session need to know of a run, and how a worker is with it and after it.

job_of <- function(plan) {
  globals <- globals_of(code_of(plan$replay), plan$replay$env)
  list(
    loop = plan$loop, control = plan$control, seed = plan$seed, share = plan$share,
    variables = globals$variables, packages = globals$packages, unsent = globals$unsent,
    registered = globals$registered, locked = workspace_locked(names(globals$variables)),
    rng_kind = rng_element_kind()
  )
}

# For workers that read the memory of this process: what closure_pack() returns, to be kept as long as they
# may, and its bytes as one `stream`.
job_pack <- function(job) {
  packed <- closure_pack(job, share_from(job$control), near = TRUE)
  packed$stream <- send_handles(TRUE, serialize(packed$bytes, NULL, xdr = FALSE))
  packed
}

# `methods`: packages that are to be loaded for their methods. Those of a session on another host are in the job, too.
job_unpack <- function(bytes) {
  job <- closure_unpack(bytes)
  job$methods <- c(job$methods, bytes$packages)
  job
}

# Bytes from which on a vector is shared with workers that can read it.
share_from <- function(control) if (control$shm) control$share_min else Inf

# In a worker: settings, packages and variables of the session, the share of the cores. Returns how it
# was, for job_reset().
job_set <- function(job) {
  undo <- list(
    settings = settings_known(), loaded = loadedNamespaces(), variables = workspace_take(),
    locked = workspace_locked(),
    rng = rng_save(), cores = getOption("mc.cores"),
    env = Sys.getenv(c("REGATTA_SHARE", "REGATTA_TRY", "REGATTA_RUN"), NA, names = TRUE)
  )
  is_set <- FALSE
  on.exit(if (!is_set) {
    job_reset(undo)
    attach_for(character())
  })
  settings_set(job$settings)
  load_for_methods(job$methods)
  attach_for(job$packages)
  undo$search <- search()
  workspace_set(job$variables, job$locked)
  undo$registered <- methods_set(job$registered)
  set_options(job$settings$options)
  evaluator$unsent <- job$unsent
  rng_use(NULL, job$rng_kind)
  fork_worker_share(job)
  is_set <- TRUE
  undo
}

job_reset <- function(undo) {
  evaluator$unsent <- NULL
  methods_set(undo$registered)
  workspace_reset(undo$variables, undo$locked)
  rng_restore(undo$rng)
  restore_env(undo$env)
  options(mc.cores = undo$cores)
  if (!is.null(undo$search)) search_set(undo$search)
  settings_restore(undo$settings, setdiff(loadedNamespaces(), undo$loaded))
}

# Registers methods as registered_methods() has them, NULL for one that is to go; returns what was there before. A
# namespace that cannot be loaded here has no generic that anything could call.
methods_set <- function(methods) {
  for (k in seq_along(methods)) {
    name <- names(methods)[[k]]
    table <- tryCatch(asNamespace(methods[[k]]$home)[[".__S3MethodsTable__."]], error = function(e) NULL)
    if (is.null(table)) next
    method <- methods[[k]]$method
    methods[[k]]["method"] <- list(table[[name]])
    if (!is.null(method)) {
      assign(name, method, envir = table)
    } else if (!is.null(table[[name]])) {
      rm(list = name, envir = table)
    }
  }
  methods
}

# The variables of the workspace. Its seed is kept elsewhere.
workspace_take <- function() {
  variables <- as.list.environment(globalenv(), all.names = TRUE)
  variables[names(variables) != ".Random.seed"]
}

# Which of the variables of the workspace are locked.
workspace_locked <- function(names = ls(globalenv(), all.names = TRUE, sorted = FALSE)) {
  names <- names[vapply(names, exists, NA, envir = globalenv(), inherits = FALSE)]
  names[vapply(names, bindingIsLocked, NA, env = globalenv())]
}

workspace_set <- function(variables, locked) {
  if (length(variables) > 0L) workspace_put(variables, locked, has_classes(names(variables)))
}

# Those that were locked, by the session or by code before, are locked again if they are among `locked`. With `classes`
# among them package methods is told: before a function takes the name of a primitive, which it would take for that.
workspace_put <- function(variables, locked, classes) {
  names <- names(variables)
  closed <- workspace_locked(names)
  if (length(closed) > 0L) rlang::env_binding_unlock(globalenv(), closed)
  late <- names %in% names_of_primitives(names)
  list2env(variables[!late], envir = globalenv())
  if (classes) methods::cacheMetaData(1L, TRUE)
  list2env(variables[late], envir = globalenv())
  for (name in intersect(locked, names)) lockBinding(name, globalenv())
}

names_of_primitives <- function(names) {
  names[vapply(names, function(name) is.primitive(get0(name, baseenv(), inherits = FALSE)), NA)]
}

# What the run has sent and what its elements have left there goes; what was there before is as it was. An active
# binding would be called with its own value.
workspace_reset <- function(before, locked) {
  names <- ls(globalenv(), all.names = TRUE, sorted = FALSE)
  names <- names[names != ".Random.seed"]
  if (length(names) + length(before) == 0L) {
    return(invisible())
  }
  new <- names[!names %in% names(before)]
  classes <- has_classes(new)
  if (classes) {
    early <- names_of_primitives(new)
    rm(list = early, envir = globalenv())
    new <- setdiff(new, early)
    methods::cacheMetaData(1L, FALSE)
  }
  rm(list = new, envir = globalenv())
  there <- intersect(names, names(before))
  active <- there[vapply(there, bindingIsActive, NA, env = globalenv())]
  workspace_put(before[!names(before) %in% active], locked, classes && has_classes(names(before)))
}

# Attaches these packages, named from the first on the search path on, in front of all that is attached. They
# stay for the next run that needs the same. `character()`: the search path is as it was before.
attach_for <- function(packages) {
  if (is.null(the$attached)) {
    if (length(packages) == 0L) {
      return(invisible())
    }
    the$attached <- search()
  }
  ours <- paste0("package:", packages)[seq_along(packages)]
  search_set(c(the$attached[[1L]], ours, setdiff(the$attached[-1L], ours)))
  if (length(packages) == 0L) the$attached <- NULL
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
