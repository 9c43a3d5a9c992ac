# Functions and what they need as bytes, for workers that do not inherit it. R's serialisation
# writes the variables of a function's environment with it; large ones among them are put into shared
# memory first, once for all workers, and stand in the bytes as handles. The user's environments stay
# as they are: one that holds something large is written as a copy of itself.

# For workers that are `near`, and can read the memory of this process, or for others: list(bytes, held,
# bound). `bytes`: list(body, environments, packages), those of `x` and of each environment that was
# copied, and list(needed, names), what packages_ready() is to see to, and names in packages other
# than `attached` that they may need. `held` must not go before the last worker has read them: all for which there is
# a handle, which may be the user's, or an earlier run's, to drop. Vectors of at least `min` bytes are shared.
closure_pack <- function(x, min = Inf, near = is.finite(min), attached = character()) {
  held <- new.env(parent = emptyenv())
  whole <- function() list(body = to_bytes(x), environments = list())
  bytes <- send_handles(near, if (is.finite(min)) pack_sharing(x, min) else whole(), held)
  found <- packages_found(c(list(bytes$body), bytes$environments), attached)
  bytes$packages <- found$packages
  list(bytes = bytes, held = held, bound = found$bound)
}

# list(packages, bound): what of packages the strings in `streams` may need, as closure_pack() has it, and
# whether there may be what has a meaning in this process only in them. The last answer is kept with all that it depends on.
packages_found <- function(streams, attached) {
  loaded <- loaded_packages()
  asked <- list(
    streams = if (sum(lengths(streams)) <= small_code) streams, attached = attached, homes = method_homes(loaded),
    names = attached_names(), loaded = loaded, path = search_envs(),
    lists = lapply(attached_lists(), ls, all.names = TRUE)
  )
  known <- the$packages
  if (is.null(asked$streams) || !identical(asked, known$asked)) {
    found <- packages_of_methods(streams)
    names <- packages_of_names(streams, attached)
    known <- list(asked = asked, answer = list(
      packages = list(needed = packages_needed(streams, attached, names(names), found$packages), names = names),
      bound = found$bound
    ))
    the$packages <- if (!is.null(asked$streams)) known
  }
  known$answer
}

# Bytes up to which code and what it needs is kept, to see whether it is the same the next time: with more of it that
# is not what a map costs.
small_code <- 65536

pack_sharing <- function(x, min) {
  pack <- new.env(parent = emptyenv())
  pack$numbers <- new.env(parent = emptyenv()) # address: which copy stands for it; 0: none
  pack$copies <- list()
  hook <- function(env) pack_environment(pack, env, min)
  x <- shm_share(x, min)
  body <- to_bytes(x, refhook = hook)
  environments <- list()
  # A copy may hold functions with environments of their own.
  while (length(environments) < length(pack$copies)) {
    at <- length(environments) + 1L
    pack$written <- pack$copies[[at]]
    environments[[at]] <- to_bytes(pack$written, refhook = hook)
  }
  shm_share(list(body = body, environments = environments), min)
}

# What serialize() writes in place of an environment: its number, or NULL for what R writes itself.
pack_environment <- function(pack, env, min) {
  if (!is.environment(env) || identical(env, pack$written)) {
    return(NULL)
  }
  key <- rlang::obj_address(env)
  number <- pack$numbers[[key]]
  if (is.null(number)) {
    copy <- copy_sharing(env, min)
    number <- if (is.null(copy)) 0L else length(pack$copies) + 1L
    if (number > 0L) pack$copies[[number]] <- copy
    assign(key, number, envir = pack$numbers)
  }
  if (number > 0L) as.character(number)
}

# A copy of the environment in which what is large is shared; NULL if nothing is. Promises that have
# not been forced, and active bindings, are not touched.
copy_sharing <- function(env, min) {
  copy <- NULL
  limit <- shm_limit()
  for (name in plain_bindings(env)) {
    value <- get(name, envir = env, inherits = FALSE)
    shared <- .Call(ffi_shm_share, value, min, limit)
    if (!rlang::is_reference(shared, value)) {
      if (is.null(copy)) copy <- rlang::env_clone(env)
      assign(name, shared, envir = copy)
    }
  }
  if (!is.null(copy)) copy_state(env, copy)
  copy
}

plain_bindings <- function(env) {
  names <- ls(envir = env, all.names = TRUE, sorted = FALSE)
  names <- names[names != "..." & !grepl("^\\.\\.[0-9]+$", names)]
  lazy <- rlang::env_binding_are_lazy(env, names) | rlang::env_binding_are_active(env, names)
  names <- names[!lazy]
  missing <- vapply(names, function(name) identical(.subset2(env, name), quote(expr = )), NA)
  names[!missing]
}

# What a copy of the variables leaves out: class and other attributes, and what is locked.
copy_state <- function(from, to) {
  attributes(to) <- attributes(from)
  for (name in ls(envir = from, all.names = TRUE, sorted = FALSE)) {
    if (bindingIsLocked(name, from)) lockBinding(name, to)
  }
  if (environmentIsLocked(from)) lockEnvironment(to)
}

closure_unpack <- function(bytes) {
  environments <- lapply(bytes$environments, function(x) new.env(parent = emptyenv()))
  hook <- function(number) environments[[as.integer(number)]]
  for (i in seq_along(environments)) {
    from <- unserialize(bytes$environments[[i]], refhook = hook)
    rlang::env_coalesce(environments[[i]], from)
    parent.env(environments[[i]]) <- parent.env(from)
    copy_state(from, environments[[i]])
  }
  unserialize(bytes$body, refhook = hook)
}
