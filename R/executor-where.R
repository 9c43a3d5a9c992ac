# Where a run is to be and with which settings: `.on` and `.control` as they were given, or as the
# options regatta.on and regatta.control say for the session.

# list(on, control): `on` NULL for forked workers, or a cluster; a number of workers is in `control`. A call
# whose workers are to `inherit` the session forks it, if no place is given. `name` is that of the argument.
where_to_run <- function(on, control, call, inherit = FALSE, name = argument_or_option(on, ".on", "regatta.on")) {
  if (is.null(on)) {
    return(list(on = if (!inherit) default_place(control$workers, call), control = control))
  }
  force(name)
  if (is_place(on)) {
    if (inherits(on, "cluster")) check_nodes(on, name, call)
    return(list(on = on, control = control))
  }
  if (!is.numeric(on) || is.object(on)) {
    must <- paste(
      "a number of workers on this machine, a cluster as `parallel::makeCluster()` makes it, or `NULL`",
      "(a worker for each core)"
    )
    abort_argument(name, on, must, call = call, advice = advise_on(on))
  }
  workers <- check_count(on, name, call = call)
  asked <- control$workers
  if (!is.null(asked) && asked != workers) {
    # What is given in the call goes before what is set for the session.
    if (!name %in% c(".on", "workers")) {
      workers <- asked
    } else if (!identical(control, getOption("regatta.control"))) {
      must <- sprintf("%d, as in `par_control(workers = %d)`", asked, asked)
      abort_argument(name, on, must, call = call, advice = "Give only one of them.")
    }
  }
  control$workers <- workers
  list(on = if (!inherit) default_place(workers, call), control = control)
}

# The same for those who name a number of workers beside the place: so many of it.
where_with_workers <- function(workers, on, control, call) {
  if (is.null(on)) {
    return(where_to_run(workers, control, call, name = "workers"))
  }
  if (!is.null(workers)) control$workers <- check_count(workers, "workers", call = call)
  where_to_run(on, control, call)
}

# How many workers it has, with what where_to_run() has found.
where_workers <- function(where) {
  offered <- workers_offered(where$on)
  asked <- where$control$workers
  as.integer(if (is.null(asked)) offered$usual else min(asked, offered$most))
}

# Whether there is an executor for objects of its class. Methods may be registered at any time, none goes.
is_place <- function(on) {
  if (!is.object(on)) {
    return(FALSE)
  }
  if (any(class(on) %in% the$places)) {
    return(TRUE)
  }
  for (class in class(on)) {
    if (!is.null(utils::getS3method("new_executor", class, optional = TRUE, envir = topenv()))) {
      the$places <- c(the$places, class)
      return(TRUE)
    }
  }
  FALSE
}

# A part of a cluster, as `cl[2:3]`, is one too; not every subscript gives one. Two workers cannot talk with one node.
check_nodes <- function(on, name, call) {
  nodes <- unclass(on)
  again <- anyDuplicated(nodes)
  advice <- "A part of a cluster, as in `cl[1:2]`, must be of nodes that it has, each of them once."
  wrong <- if (length(nodes) == 0L) {
    "it has no node"
  } else if (any(vapply(nodes, is.null, NA))) {
    "it has nodes that are `NULL`"
  } else if (again > 0L) {
    sprintf("its nodes %d and %d are the same", match(nodes[again], nodes), again)
  } else if (is_patched(on, nodes)) {
    advice <- paste(
      "Give each cluster a call of its own, or make one of all workers, as by `cluster_local(4)` or",
      "`cluster_ssh(hosts)`."
    )
    "it is put together of nodes that belong to clusters of this package"
  }
  if (!is.null(wrong)) {
    message <- sprintf("the cluster in `%s` cannot be used: %s.", name, wrong)
    signal_error(new_error(
      "regatta_error_argument", message, argument = name, value = on, call = call, body = advice
    ))
  }
}

# Nodes of this package work for the cluster that they were made with, and its class says how.
is_patched <- function(on, nodes) {
  ours <- vapply(nodes, inherits, NA, c("regatta_node", "regatta_remote_node"))
  home <- function(node) if (inherits(node, "regatta_node")) node$state else node$pool
  any(ours) && !(all(ours) && inherits(on, "regatta_cluster") && length(unique(lapply(nodes, home))) == 1L)
}

# Names under which other packages have the place.
setting_places <- c("on", "cl", "cluster")

# What a message shows of a place that is not one word.
shown_place <- "<cluster>"

advise_on <- function(on) {
  if (inherits(on, c("future", "FutureStrategy"))) {
    "A plan of package future is no cluster: give `.on = 2`, or `.on = parallelly::makeClusterPSOCK(2)`."
  } else if (is.character(on) && length(on) > 0L && !anyNA(on) && !anyNA(as_numbers(on))) {
    sprintf("Give the number without quotes: `.on = %s`.", on[[1L]])
  } else if (is.character(on)) {
    hosts <- quoted(on)
    if (length(on) > 1L) hosts <- sprintf("c(%s)", hosts)
    sprintf("For workers on other hosts: `.on = cluster_ssh(%s)`.", hosts)
  } else if (inherits(on, "regatta_control")) {
    "Settings are given as `.control`."
  }
}

as_numbers <- function(x) {
  suppressWarnings(as.numeric(x))
}

# What a message calls a value that the user has not given in the call.
argument_or_option <- function(value, argument, option) {
  set <- getOption(option)
  if (!is.null(set) && identical(value, set)) sprintf("options(%s = )", option) else argument
}
