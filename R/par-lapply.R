par_lapply <- function(X, FUN, ..., .on = getOption("regatta.on"),
                       .control = getOption("regatta.control", par_control())) {
  FUN <- match.fun(FUN)
  X <- as_elements(X)
  args <- list(...)
  check_dots(args, FUN)
  map_list(X, FUN, args, "par_lapply", sys.call(), .on, .control)
}

# As lapply() does: what is not a plain vector is made a list. With `use_names` the elements are named as
# by sapply(): after `X`, whatever its class and attributes, if it is character.
as_elements <- function(X, use_names = FALSE) {
  elements <- if (!is.vector(X) || is.object(X)) as.list(X) else X
  if (use_names && is.character(X) && is.null(names(elements))) {
    names(elements) <- X
  }
  elements
}

# Elements of the list or vector `X`. `args` are forced here, once, and not in every worker.
map_list <- function(X, FUN, args, verb, call, on, control, names = base::names(X), near = NULL) {
  control <- check_control(control, length(X), call = call)
  if (length(X) == 0L) {
    return(structure(list(), names = names))
  }
  task <- list(
    verb = verb, call = call, n = length(X), names = names,
    loop = map_loop(X, FUN, args),
    replay = list(X = X, FUN = FUN, args = args), near = near
  )
  run_map(task, on, control)
}

# A loop over the elements in a worker, for run_map(). Language among the arguments is an argument, not
# code to run. Functions that are sent to workers hold what they need and nothing else: they are made by
# functions of their own, which force it.
map_loop <- function(X, FUN, args) {
  force(X)
  force(FUN)
  protected <- protect_language(args)
  function() do.call(evaluate_lapply, c(list(quote(X), quote(FUN)), protected))
}

# Arguments for do.call(), which would evaluate what is language.
protect_language <- function(args) {
  lapply(args, function(arg) if (is.language(arg)) call("quote", arg) else arg)
}
