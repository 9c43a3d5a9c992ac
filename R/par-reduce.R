# A fold: each worker folds whole stretches of the elements, and the parent combines what they found
# in the order of the elements, so that `combine` need be associative but not commutative.

par_reduce <- function(X, f, combine, init, ..., .on = getOption("regatta.on"),
                       .control = getOption("regatta.control", par_control())) {
  f <- check_function(f, "f")
  check_beginnings(names(sys.call()), c("combine", "init"), f, "f")
  combine <- check_function(combine, "combine")
  check_combine(combine)
  check_code(f)
  args <- further_arguments(...)
  check_dots(args, f, "f")
  X <- as_elements(X)
  n <- count_elements(X)
  .control <- check_control(.control, n, call = sys.call())
  if (.control$errors == "collect") {
    abort_argument("errors", "collect", "\"stop\" or \"finish\": a fold needs every value")
  }
  size <- part_size(n)
  starts <- if (n > 0) seq(1, n, by = size) else numeric()
  if (!missing(init) && n == 0) {
    return(init)
  }
  .control$priority <- NULL
  force_around(f, list(combine, args, X))
  folded <- map_list(
    starts, fold_part(X, f, combine, size, missing(init)), args, "par_reduce", sys.call(), .on, .control,
    names = range_names(starts, pmin(n, starts + size - 1)), keyed = NULL
  )
  combine_tree(if (missing(init)) unname(folded) else c(list(init), unname(folded)), combine)
}

check_combine <- function(combine, call = rlang::caller_env()) {
  shown <- args(combine)
  if (is.null(shown)) {
    return(invisible()) # it is of the language, such as `[`, and tells nothing
  }
  taken <- names(formals(shown))
  if (!"..." %in% taken && length(taken) < 2L) {
    stated <- sprintf("`combine` must take two values, and has %s.",
      if (length(taken) == 0L) "no argument" else sprintf("one argument, `%s`", taken))
    signal_error(new_error("regatta_error_argument", stated,
      argument = "combine", value = combine, call = rlang::error_call(call)))
  }
}

# A function of the first position of a part. rbind() and its kind name what they are given as a variable by the
# name of that: the first value of all is `init`, as Reduce() has it, and no other has a name. `first`: whether
# it is among those of the elements. Arguments are forced, as lapply() and Reduce() do, for the functions that f
# and combine may return.
fold_part <- function(X, f, combine, size, first) {
  force(f)
  force(combine)
  force(first)
  n <- count_elements(X)
  from_base(function(`*start*`, ...) {
    start <- `*start*`
    init <- forceAndCall(1, f, X[[start]], ...)
    named <- first && start == 1
    for (i in seq_len(min(n, start + size - 1) - start)) {
      value <- forceAndCall(1, f, X[[start + i]], ...)
      init <- if (named) forceAndCall(2, combine, init, (value)) else forceAndCall(2, combine, (init), (value))
    }
    init
  })
}

# Neighbours first, then neighbours of those: as many roundings for each element.
combine_tree <- function(values, combine) {
  while (length(values) > 1L) {
    init <- values[[1L]]
    pairs <- seq(3, by = 2, length.out = (length(values) - 1L) %/% 2L)
    values <- c(list(forceAndCall(2, combine, init, values[[2L]])), lapply(pairs, function(i) {
      if (i == length(values)) values[[i]] else forceAndCall(2, combine, values[[i]], values[[i + 1L]])
    }))
  }
  if (length(values) == 1L) values[[1L]]
}
