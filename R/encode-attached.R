# What the session has attached and a worker may not find where it looks for it: packages, and lists and environments
# that attach() was given.

search_envs <- function() lapply(seq_along(search()), as.environment)

# The environments of the search path that are no packages, first to last.
attached_lists <- function() {
  at <- which(!startsWith(search(), "package:"))
  lapply(at[-1L], as.environment)
}

# Whether what is found by this name behind the workspace is what this environment of the search path has.
is_first_attached <- function(name, env) identical(find_home(name, parent.env(globalenv())), env)

# list(name, of, is_package): which package, or list, has what a worker has `missing`; NULL if none that was attached here
# alone.
attached_home <- function(missing) {
  where <- if (!is.null(missing)) find_home(missing, parent.env(globalenv()))
  of <- if (!is.null(where)) home_of(where)
  if (!is.null(of) && !of %in% default_packages()) {
    is_package <- of != "workspace"
    list(name = missing, of = if (is_package) of else attr(where, "name"), is_package = is_package)
  }
}

# list(envs, name, package, mask, partial): the names that are found in packages which not every R process attaches, the
# package of each, and whether there is something else of that name in R; the packages of which library() was to attach
# some names only. Packages do not change while they are attached.
attached_names <- function() {
  packages <- grep("^package:", search(), value = TRUE)
  envs <- lapply(packages, as.environment)
  if (!identical(the$attached_names$envs, envs)) {
    default <- packages %in% paste0("package:", default_packages())
    names <- lapply(envs, ls, all.names = TRUE, sorted = FALSE)
    every <- unlist(names)
    of_others <- !duplicated(every) & rep(!default, lengths(names))
    bare <- sub("^package:", "", packages)
    is_whole <- vapply(seq_along(bare), function(k) {
      default[[k]] || all(getNamespaceExports(bare[[k]]) %in% names[[k]])
    }, NA)
    the$attached_names <- list(
      envs = envs, name = every[of_others],
      package = rep(bare, lengths(names))[of_others], mask = every[of_others] %in% unlist(names[default]),
      partial = bare[!is_whole]
    )
  }
  the$attached_names
}

# The names, by packages, that a worker is to find in packages of which it attaches only `attached`, the others being
# loaded when something of them is asked for: those that stand for something else without the package, since code may
# put them together, and those that are among the strings in `streams`, serialised objects, as code or as data.
packages_of_names <- function(streams, attached) {
  known <- attached_names()
  wanted <- !known$package %in% attached
  if (!any(wanted)) {
    return(list())
  }
  wanted[wanted] <- known$mask[wanted] | .Call(ffi_encode_names, streams, known$name[wanted], FALSE)
  # What a list has that is attached in front goes with that.
  doubtful <- which(wanted & known$name %in% unlist(lapply(attached_lists(), ls, all.names = TRUE)))
  wanted[doubtful] <- vapply(doubtful, function(k) {
    is_first_attached(known$name[[k]], as.environment(paste0("package:", known$package[[k]])))
  }, NA)
  split(known$name[wanted], known$package[wanted])
}

# With what they have attached themselves, without what every R process attaches. Of a package that is attached with
# some of its names, by `include.only` or `exclude` of library(), a worker is given these: see packages_of_names().
in_search_order <- function(packages) {
  packages <- setdiff(packages, default_packages())
  if (length(packages) == 0L) {
    return(packages)
  }
  depends <- lapply(packages, function(package) {
    get0(".Depends", as.environment(paste0("package:", package)), inherits = FALSE)
  })
  packages <- setdiff(unique(c(packages, unlist(depends))), c(default_packages(), attached_names()$partial))
  at <- match(paste0("package:", packages), search())
  packages[order(at)][seq_len(sum(!is.na(at)))]
}

# What every R process attaches, in the order of its search path but for base, which is its end.
default_packages <- function() {
  c("base", "stats", "graphics", "grDevices", "utils", "datasets", "methods")
}
