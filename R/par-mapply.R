par_mapply <- function(FUN, ..., MoreArgs = NULL, SIMPLIFY = TRUE, USE.NAMES = TRUE, .on = getOption("regatta.on"),
                       .control = getOption("regatta.control", par_control())) {
  FUN <- check_function(FUN, "FUN")
  check_flag(USE.NAMES, "USE.NAMES")
  check_more_args(MoreArgs)
  dots <- list(...)
  check_dots(dots, FUN)
  lengths <- mapply_lengths(dots)
  n <- mapply_length(lengths)
  names <- if (USE.NAMES) mapply_names(dots, n)
  dots <- Map(as_mappable, dots, lengths)
  one <- mapply_element(FUN, dots, MoreArgs)
  force_around(FUN, list(dots, MoreArgs))
  values <- map_list(
    seq_len(n), one, list(), "par_mapply", sys.call(), .on, .control, names = names,
    keyed = list(
      fun = FUN, args = as.list(MoreArgs), content = function(i) mapply_arguments(dots, i),
      shape = "FUN(dots[[1]][[i]], dots[[2]][[i]], ..., MoreArgs)"
    )
  )
  failed <- .control$errors == "collect" && any(vapply(values, inherits, NA, "regatta_error"))
  if (!isFALSE(SIMPLIFY) && length(values) > 0L && !failed) {
    simplify2array(values, higher = identical(SIMPLIFY, "array"))
  } else {
    values
  }
}

# A function of the number of an element. FUN sees a call as in mapply(), with names in place of the data, and its
# arguments are evaluated before it begins: what it keeps of them would hold all the elements otherwise. As there, code
# in MoreArgs is code of the call. The call is that of a promise, since do.call() and eval() have frames.
mapply_element <- function(FUN, dots, more) {
  force(list(FUN, more))
  pick <- mapply_picker(lengths(dots))
  from_base(function(i) {
    picked <- pick(i)
    value <- NULL
    do.call(delayedAssign, list("value", as.call(c(forceAndCall, length(picked), FUN, picked, more))))
    value
  })
}

# A function of the number of an element, which gives the arguments of its call, unevaluated: dots[[1L]][[i]] and so on.
# It holds no data.
mapply_picker <- function(lengths) {
  vectors <- element_calls(lengths, quote(dots))
  function(i) {
    picked <- vectors
    for (k in seq_along(vectors)) picked[[k]] <- call("[[", vectors[[k]], (i - 1L) %% lengths[[k]] + 1L)
    picked
  }
}

# list(x[[1L]], name = x[[2L]]), unevaluated, for the elements of a list.
element_calls <- function(x, name) {
  stats::setNames(lapply(seq_along(x), function(k) call("[[", name, k)), names(x))
}

mapply_arguments <- function(dots, i) lapply(dots, function(d) d[[(i - 1L) %% length(d) + 1L]])

# The elements of an object are those that its own length() and `[[` give, which need not be those of
# as.list(). They are taken here, since a worker of a cluster may not know these methods.
as_mappable <- function(x, length) {
  if (!is.object(x) && (is.vector(x) || is.atomic(x))) {
    return(x)
  }
  lapply(seq_len(length), function(i) x[[i]])
}

mapply_lengths <- function(dots, call = rlang::caller_env()) {
  vapply(seq_along(dots), function(k) check_length(dots[[k]], mapply_shown(dots)[[k]], call), 0)
}

# How the further arguments are called in messages.
mapply_shown <- function(dots) {
  names <- rlang::names2(dots)
  ifelse(nzchar(names), names, paste0("..", seq_along(dots)))
}

# The longest argument counts and shorter ones are recycled; with an empty one there is nothing to
# do. So it is in mapply().
mapply_length <- function(lengths) {
  if (length(lengths) == 0L || any(lengths == 0L)) {
    return(0L)
  }
  if (any(max(lengths) %% lengths != 0L)) {
    warning("longer argument not a multiple of length of shorter", call. = FALSE)
  }
  max(lengths)
}

# Of `n` values: those of the first argument as it was given, or that itself if it is character.
mapply_names <- function(dots, n, call = rlang::caller_env()) {
  if (length(dots) == 0L) {
    return(NULL)
  }
  given <- names(dots[[1L]])
  if (is.null(given) && is.character(dots[[1L]])) {
    given <- if (n > 0L) bare_elements(dots[[1L]]) else character()
  }
  if (length(given) > n && n > 0L) {
    must <- sprintf("something with at most %.0f names, one for each value", n)
    abort_argument(mapply_shown(dots)[[1L]], dots[[1L]], must, call, sprintf("It has %d.", length(given)))
  }
  if (!is.null(given)) names(stats::setNames(vector("list", n), given))
}

check_more_args <- function(x, call = rlang::caller_env()) {
  if (!is.null(x) && !is.list(x)) {
    abort_argument("MoreArgs", x, "a list or NULL", call = call)
  }
}
