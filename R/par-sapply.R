par_sapply <- function(X, FUN, ..., simplify = TRUE, USE.NAMES = TRUE,
                       .on = getOption("regatta.on"),
                       .control = getOption("regatta.control", par_control())) {
  FUN <- check_function(FUN, "FUN")
  check_flag(USE.NAMES, "USE.NAMES")
  check_code(FUN)
  args <- further_arguments(...)
  check_dots(args, FUN)
  X <- as_elements(X, USE.NAMES)
  values <- map_list(X, FUN, args, "par_sapply", sys.call(), .on, .control)
  if (isFALSE(simplify) || length(values) == 0L || any(par_failed(values))) {
    values
  } else {
    simplify2array(values, higher = identical(simplify, "array"))
  }
}
