par_vapply <- function(X, FUN, FUN.VALUE, ..., USE.NAMES = TRUE, .on = NULL,
                       .control = par_control()) {
  FUN <- match.fun(FUN)
  check_template(FUN.VALUE)
  check_flag(USE.NAMES, "USE.NAMES")
  if (!is.vector(X) || is.object(X)) {
    X <- as.list(X)
  }
  values <- map_list(X, FUN, list(...), "par_vapply", sys.call(), .on, .control)
  if (.control$errors == "collect") {
    failed <- vapply(values, inherits, NA, "regatta_error")
    values[failed] <- list(missing_like(FUN.VALUE))
  }
  names(values) <- if (USE.NAMES) names_of_result(X)
  # Type, length and shape of every value are checked here, in the words of vapply().
  vapply(values, identity, FUN.VALUE, USE.NAMES = USE.NAMES)
}

# What stands for a failed element; the warning of the run has its error.
missing_like <- function(template) {
  template[] <- if (is.raw(template)) as.raw(0L) else if (is.list(template)) list(NULL) else NA
  template
}

names_of_result <- function(X) {
  if (is.character(X) && is.null(names(X))) X else names(X)
}

check_template <- function(FUN.VALUE, call = rlang::caller_env()) {
  if (!is.vector(FUN.VALUE) && !is.array(FUN.VALUE)) {
    abort_argument("FUN.VALUE", FUN.VALUE, "a vector or an array such as each value is to be", call)
  }
}
