# What stands in the place of a value that is missing, with errors = "collect": the error of the element
# and one class more, "regatta_failed". Code that takes it for a value is told which element has failed,
# and why; printing, str() and taking its fields work.

as_failed <- function(cnd) {
  class(cnd) <- c("regatta_failed", class(cnd))
  cnd
}

all_as_failed <- function(errors) {
  of <- classes_of(errors)
  marked <- lapply(of$classes, function(class) c("regatta_failed", class))
  .Call(ffi_conditions_reclass, errors, marked[of$at])
}

is_failed <- function(x) {
  inherits(x, "regatta_failed")
}

# `dots` may hold it among other values.
abort_failed <- function(doing, dots, call = NULL) {
  failed <- Find(is_failed, dots)
  signal_error(new_error(
    "regatta_error_missing",
    sprintf("%s: there is no value, since %s", doing, message_of_one(failed)),
    index = failed[["index"]], name = failed[["name"]], parent = failed, call = call,
    body = paste0(
      "With `result` for what the call has returned: `", ours("par_failed"), "(result)` tells the elements that ",
      "have failed, `result[!", ours("par_failed"), "(result)]` are the others."
    )
  ))
}

Ops.regatta_failed <- function(e1, e2) {
  abort_failed(sprintf("cannot compute `%s`", .Generic), list(e1, if (!missing(e2)) e2), sys.call())
}

Math.regatta_failed <- function(x, ...) {
  abort_failed(sprintf("cannot compute `%s()`", .Generic), list(x), sys.call())
}

Summary.regatta_failed <- function(..., na.rm = FALSE) {
  abort_failed(sprintf("cannot compute `%s()`", .Generic), list(...), sys.call())
}

mean.regatta_failed <- function(x, ...) {
  abort_failed("cannot compute `mean()`", list(x), sys.call())
}

c.regatta_failed <- function(...) {
  abort_failed("cannot combine values by `c()`", list(...), NULL)
}

rbind.regatta_failed <- function(..., deparse.level = 1) {
  abort_failed("cannot combine values by `rbind()`", list(...), NULL)
}

cbind.regatta_failed <- function(..., deparse.level = 1) {
  abort_failed("cannot combine values by `cbind()`", list(...), NULL)
}

# rbind() of data frames asks for these of what is none.
lengths.regatta_failed <- function(x, use.names = TRUE) {
  abort_failed("cannot combine values", list(x), NULL)
}

as.data.frame.regatta_failed <- function(x, ...) {
  abort_failed("cannot make a data frame of it", list(x), NULL)
}

as.double.regatta_failed <- function(x, ...) {
  abort_failed("cannot make a number of it", list(x), sys.call())
}

as.integer.regatta_failed <- function(x, ...) {
  abort_failed("cannot make a number of it", list(x), sys.call())
}

# What tools that show conditions ask for, whether it is there or not.
condition_fields <- c(
  "message", "call", "trace", "parent", "body", "header", "footer", "rlang", "use_cli_format",
  "advice", "dump", "name", "srcref", "backtrace", "traceback", "appender", "info"
)

`$.regatta_failed` <- function(x, name) {
  fields <- unclass(x)
  if (!name %in% c(names(fields), condition_fields)) {
    abort_failed(sprintf("cannot take `$%s`", name), list(x), sys.call())
  }
  fields[[name]]
}

`[[.regatta_failed` <- function(x, i, ...) {
  fields <- unclass(x)
  known <- ...length() == 0L && length(i) == 1L && if (is.character(i)) {
    i %in% c(names(fields), condition_fields)
  } else {
    isTRUE(i >= 1 && i <= length(fields))
  }
  if (!known) {
    abort_failed(sprintf("cannot take `[[%s]]`", deparse1(i)), list(x), sys.call())
  }
  fields[[i]]
}

`[.regatta_failed` <- function(x, ...) {
  if (nargs() > 2L) {
    abort_failed("cannot take rows or columns", list(x), sys.call())
  }
  unclass(x)[...]
}
