par_vapply <- function(X, FUN, FUN.VALUE, ..., USE.NAMES = TRUE, .on = getOption("regatta.on"),
                       .control = getOption("regatta.control", par_control())) {
  FUN <- check_function(FUN, "FUN")
  FUN.VALUE <- check_template(FUN.VALUE)
  check_flag(USE.NAMES, "USE.NAMES")
  X <- as_elements(X)
  check_code(FUN)
  args <- further_arguments(...)
  check_dots(args, FUN)
  if ((is.null(.on) || is.numeric(.on)) && is_worth_columns(FUN.VALUE, count_elements(X), .control)) {
    names <- if (USE.NAMES) names_of_result(X)
    return(vapply_columns(X, FUN, FUN.VALUE, args, names, USE.NAMES, sys.call(), .on, .control))
  }
  values <- map_list(X, FUN, args, "par_vapply", sys.call(), .on, .control, failed = vapply_failed(FUN.VALUE))
  if (.control$errors == "collect") {
    failed <- vapply(values, inherits, NA, "regatta_error")
    values[failed] <- list(missing_like(FUN.VALUE))
  }
  names(values) <- if (USE.NAMES) names_of_result(X)
  vapply_values(values, FUN.VALUE, USE.NAMES, sys.call())
}

# The result has no place for conditions.
vapply_failed <- function(template) {
  missing <- if (is.list(template)) "NULL" else if (is.raw(template)) "00" else "NA"
  paste0("`", missing, "` is in place of their values. Their conditions are the field `errors` of this warning")
}

# Type, length and shape of every value are checked here, in the words of vapply().
vapply_values <- function(values, template, use_names, call) {
  tryCatch(vapply(values, identity, template, USE.NAMES = use_names), error = function(e) {
    fits <- vapply(values, is_vapply_value, NA, template)
    if (all(fits)) stop(simpleError(conditionMessage(e), call))
    signal_error(error_misfit(which(!fits)[[1L]], conditionMessage(e), template, call))
  })
}

# Values of one type and length can be written by the workers to where they are to stand, so that
# nothing is left to be put together: forked ones, which inherit it. For a short one the system call
# would cost more than that.
is_worth_columns <- function(template, n, control) {
  inherits(control, "regatta_control") && isTRUE(control$shm) && isFALSE(control$copy) &&
    is.null(control$checkpoint) && is.atomic(template) && typeof(template) %in% shm_types &&
    object_bytes(template) >= 4096 && object_bytes(template) * n >= 1e6
}

# Of the elements alone.
object_bytes <- function(x) {
  length(x) * c(double = 8, integer = 4, logical = 4, complex = 16, raw = 1)[[typeof(x)]]
}

vapply_columns <- function(X, FUN, template, args, names, use_names, call, on, control) {
  n <- count_elements(X)
  type <- typeof(template)
  size <- length(template)
  columns <- .Call(ffi_shm_columns_new, type, as.double(size) * n, shm_limit())
  on.exit(.Call(ffi_shm_columns_drop, columns))
  write <- function(i, value) {
    if (is.object(value)) value <- unclass(value) # of a factor the mode cannot be set
    storage.mode(value) <- type
    .Call(ffi_shm_columns_write, columns, (i - 1) * size + 1, value)
  }
  call_user <- vapply_caller(X, FUN)
  one <- function(`*i*`, ...) {
    i <- `*i*`
    value <- call_user(i, ...)
    if (!is_vapply_value(value, template)) {
      list(misfit = value)
    } else if (!write(i, value)) {
      value # the run is over, and this is a replay
    } else if (i == 1L) {
      list(names = names(value), dimnames = dimnames(value))
    }
  }
  told <- map_list(
    seq_len(n), one, args, "par_vapply", call, on, control,
    names = names(X), failed = vapply_failed(template)
  )
  misfits <- which(vapply(told, function(x) "misfit" %in% names(x), NA))
  if (length(misfits) > 0L) {
    values <- rep(list(template), n)
    values[misfits] <- lapply(told[misfits], `[[`, "misfit")
    return(vapply_values(values, template, use_names, call))
  }
  for (i in which(vapply(told, inherits, NA, "regatta_error"))) {
    write(i, missing_like(template))
  }
  shape <- vapply_shape(template, told[[1L]], names, n, use_names)
  .Call(ffi_shm_columns_vector, columns, type, as.double(size) * n, shape)
}

vapply_caller <- function(X, FUN) {
  force(X)
  force(FUN)
  from_base(function(`*i*`, ...) {
    i <- `*i*`
    FUN(X[[i]], ...)
  })
}

# What vapply() takes: a type may become a wider one.
is_vapply_value <- function(value, template) {
  order <- c("logical", "integer", "double", "complex")
  type <- match(typeof(value), order)
  wanted <- match(typeof(template), order)
  (typeof(value) == typeof(template) || (!anyNA(c(type, wanted)) && type <= wanted)) &&
    length(unclass(value)) == length(template)
}

# The attributes of the result: as vapply() gives them to one value like the first, for all of them.
vapply_shape <- function(template, first, names, n, use_names) {
  value <- template
  if (is.array(template)) {
    dimnames(value) <- if (!inherits(first, "regatta_error")) first$dimnames
  } else {
    names(value) <- if (!inherits(first, "regatta_error")) first$names
  }
  one <- vapply(list(value), identity, template, USE.NAMES = use_names)
  dim <- dim(one)
  if (is.null(dim)) {
    return(list(names = names))
  }
  dim[[length(dim)]] <- n
  dimnames <- dimnames(one)
  if (is.null(dimnames) && !is.null(names)) dimnames <- vector("list", length(dim))
  if (!is.null(names)) dimnames[[length(dim)]] <- names
  list(dim = dim, dimnames = dimnames)
}

# What stands for a failed element; the warning of the run has its error.
missing_like <- function(template) {
  template[] <- if (is.raw(template)) as.raw(0L) else if (is.list(template)) list(NULL) else NA
  template
}

# A class has no say in them, as by vapply().
names_of_result <- function(X) {
  X <- bare_elements(X)
  if (is.character(X) && is.null(names(X))) X else names(X)
}

# Its type and shape, and the names of its parts: other attributes have no meaning to vapply(), and the
# methods of a class must not get in the way.
check_template <- function(FUN.VALUE, call = rlang::caller_env()) {
  must <- "an atomic vector, a list or an array such as each value is to be"
  check_given(FUN.VALUE, "FUN.VALUE", must, call)
  if (!typeof(FUN.VALUE) %in% c("logical", "integer", "double", "complex", "character", "raw", "list")) {
    abort_argument("FUN.VALUE", FUN.VALUE, must, call)
  }
  kept <- attributes(FUN.VALUE)
  attributes(FUN.VALUE) <- kept[names(kept) %in% c("names", "dim", "dimnames")]
  FUN.VALUE
}
