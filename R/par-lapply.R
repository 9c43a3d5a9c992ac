par_lapply <- function(X, FUN, ..., .on = getOption("regatta.on"),
                       .control = getOption("regatta.control", par_control())) {
  FUN <- check_function(FUN, "FUN")
  X <- as_elements(X)
  check_code(FUN)
  args <- further_arguments(...)
  if (length(args) > 0L) check_dots(args, FUN)
  map_list(X, FUN, args, "par_lapply", sys.call(), .on, .control)
}

# As lapply() does: what is not a plain vector is made a list. With `use_names` the elements are named as
# by sapply(): after `X`, whatever its class and attributes, if it is character.
as_elements <- function(X, use_names = FALSE, call = rlang::caller_env()) {
  check_given(X, "X", "a vector or list, to whose elements the function is applied", call)
  elements <- if (!is.vector(X) || is.object(X)) as.list(X) else X
  if (use_names && is.character(X) && is.null(names(elements))) {
    names(elements) <- X
  }
  elements
}

# So many as lapply() sees: a class has a say in what `X[[i]]` gives, but not in how many there are.
count_elements <- function(X) length(bare_elements(X))

bare_elements <- function(X) if (is.object(X)) unclass(X) else X

# list(...) in which an argument may be empty, as in par_lapply(matrices, "[", , 1).
further_arguments <- function(...) {
  if (...length() == 0L) {
    return(list())
  }
  given <- as.list(substitute(list(...)))[-1L]
  empty <- vapply(given, is_empty_argument, NA)
  if (!any(empty)) {
    return(list(...))
  }
  for (i in which(!empty)) given[i] <- list(...elt(i))
  given
}

# Elements of the list or vector `X`. `args` are forced here, once, and not in every worker. `keyed`: see
# driver-checkpoint.R; `series`: see driver-series.R; `failed` and `near`: see driver.R.
map_list <- function(X, FUN, args, verb, call, on, control, names = base::names(bare_elements(X)), near = NULL,
                     keyed = keyed_by(X, FUN, args), series = NULL, failed = NULL) {
  n <- count_elements(X)
  control <- check_control(control, n, call = call)
  if (n == 0L) {
    return(structure(list(), names = names))
  }
  force_around(if (is.null(keyed)) FUN else keyed$fun, list(FUN, args, keyed$args, X))
  task <- list(
    verb = verb, call = call, n = n, names = names,
    loop = map_loop(X, FUN, args),
    replay = list(X = X, FUN = FUN, args = args), near = near, keyed = keyed, series = series,
    failed = failed
  )
  with_calls(run_map(task, on, control))
}

keyed_by <- function(X, fun, args) {
  list(fun = fun, args = args, content = function(i) X[[i]], shape = "FUN(X[[i]], ...)")
}

# A loop over the elements in a worker, for run_map(). Language among the arguments is an argument, not
# code to run. Functions that are sent to workers hold what they need and nothing else: they are made by
# functions of their own, which force it.
map_loop <- function(X, FUN, args) {
  force(X)
  force(FUN)
  protected <- protect_language(args)
  # By its name, which the calls of warnings show.
  function() do.call("evaluate_lapply", c(list(quote(X), quote(FUN)), protected))
}

# Arguments for do.call(), which would evaluate what is language. An empty one stays what it is.
protect_language <- function(args) {
  if (length(args) == 0L) {
    return(args)
  }
  language <- vapply(seq_along(args), function(i) is.language(args[[i]]) && !is_empty_argument(args[[i]]), NA)
  args[language] <- lapply(args[language], function(arg) call("quote", arg))
  args
}
