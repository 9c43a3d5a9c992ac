par_mapply <- function(FUN, ..., MoreArgs = NULL, SIMPLIFY = TRUE, USE.NAMES = TRUE, .on = getOption("regatta.on"),
                       .control = getOption("regatta.control", par_control())) {
  FUN <- match.fun(FUN)
  check_flag(USE.NAMES, "USE.NAMES")
  check_more_args(MoreArgs)
  dots <- list(...)
  check_dots(dots, FUN)
  dots <- lapply(dots, as_mappable)
  n <- mapply_length(lengths(dots))
  names <- if (USE.NAMES) names_of_first(dots)
  one <- mapply_element(FUN, dots, MoreArgs)
  values <- map_list(
    seq_len(n), one, list(), "par_mapply", sys.call(), .on, .control, names = names
  )
  failed <- .control$errors == "collect" && any(vapply(values, inherits, NA, "regatta_error"))
  if (!isFALSE(SIMPLIFY) && length(values) > 0L && !failed) {
    simplify2array(values, higher = identical(SIMPLIFY, "array"))
  } else {
    values
  }
}

# A function of the number of an element.
mapply_element <- function(FUN, dots, more) {
  force(FUN)
  force(dots)
  force(more)
  function(i) {
    args <- lapply(dots, function(d) d[[(i - 1L) %% length(d) + 1L]])
    do.call(FUN, c(args, more), quote = TRUE)
  }
}

as_mappable <- function(x) {
  if (!is.vector(x) || is.object(x)) as.list(x) else x
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

names_of_first <- function(dots) {
  if (length(dots) == 0L) NULL else names_of_result(dots[[1L]])
}

check_more_args <- function(x, call = rlang::caller_env()) {
  if (!is.null(x) && !is.list(x)) {
    abort_argument("MoreArgs", x, "a list or NULL", call = call)
  }
}
