# Code of arguments that gives the same wherever it is evaluated, at no cost to speak of: it is left as it is. A
# function of the user may take it as code, as filter(data, ...) of dplyr does, to which what has been evaluated is a
# value. Nothing is evaluated to find that out. Names that stand for nothing may be columns.

# Names, and calls of R's own simple functions with operands that have no methods or active fields.
is_pure <- function(code, env) {
  if (is.symbol(code)) {
    return(!is_active(as.character(code), env))
  }
  if (!is.call(code)) {
    return(TRUE)
  }
  code <- bare_code(code)
  if (!is_call_of(code, pure_functions)) {
    return(FALSE)
  }
  base <- mget(as.character(code[[1L]]), envir = baseenv(), mode = "function")
  has_base_functions(base, env) && if (is_call_of(code, picking)) {
    is_pure_pick(code, env)
  } else {
    all(vapply(code_parts(code)[-1L], is_plain_operand, NA, env = env))
  }
}

is_active <- function(name, env) {
  home <- find_home(name, env)
  !is.null(home) && bindingIsActive(name, home)
}

pure_functions <- c(
  "(", "{", "!", "+", "-", "*", "/", "^", "%%", "%/%", "==", "!=", "<", ">", "<=", ">=", "&", "|", "&&", "||", ":",
  "%in%", "[", "[[", "$", "@", "c", "list", "sum", "mean", "min", "max", "range", "length", "abs", "sqrt", "exp", "log",
  "log2", "log10", "floor", "ceiling", "round", "is.na", "nchar", "paste", "paste0", "rep", "seq_len", "seq_along",
  "names", "nrow", "ncol", "dim", "rev", "unique", "as.numeric", "as.character", "as.integer", "as.logical", "factor",
  "any", "all"
)

picking <- c("$", "[[", "@")

# Whether code gives a value that R's functions take as it is.
is_plain_operand <- function(code, env) {
  if (is.symbol(code)) {
    return(is_plain_variable(as.character(code), env))
  }
  if (!is.call(code)) {
    return(is_plain_data(code))
  }
  if (!is_pure(code, env)) {
    return(FALSE)
  }
  if (!is_call_of(code, c(picking, "["))) {
    return(TRUE)
  }
  # What a list holds may be anything.
  from <- value_known(code[[2L]], env)
  at <- value_known(code, env)
  if (!is.null(at)) is_plain_data(at[[1L]]) else is.null(from) || is.atomic(from[[1L]]) || is.data.frame(from[[1L]])
}

is_plain_variable <- function(name, env) {
  home <- find_home(name, env)
  if (is.null(home)) {
    return(TRUE)
  }
  if (bindingIsActive(name, home)) {
    return(FALSE)
  }
  promise <- promise_of(name, home)
  if (!is.null(promise)) {
    return(is_plain_operand(promise[[1L]], promise[[2L]]))
  }
  value <- variable_known(name, home)
  is.null(value) || is_plain_data(value[[1L]])
}

is_plain_data <- function(x) {
  !is.environment(x) && !isS4(x) && (!is.object(x) || all(class(x) %in% plain_classes))
}

# Of R, and those of data frames, whose methods give the same for the same.
plain_classes <- c(
  "factor", "ordered", "data.frame", "tbl_df", "tbl", "data.table", "grouped_df", "rowwise_df", "Date", "POSIXct",
  "POSIXt", "difftime", "noquote", "table", "numeric_version", "package_version"
)

# Of `$`, `[[` and `@`: from what is plain, or by its name from an environment that has no methods, as an R6 object has
# none.
is_pure_pick <- function(code, env) {
  if (is_call_of(code, "[[") && !all(vapply(code_parts(code)[-(1:2)], is_plain_operand, NA, env = env))) {
    return(FALSE)
  }
  from <- value_known(code[[2L]], env)
  is_data <- is.null(from) || is_plain_data(from[[1L]])
  if (is_data) is_plain_operand(code[[2L]], env) else !is.null(value_known(code, env))
}

# list(value) of a variable, or of what is picked by name from one; NULL if it is not known before something is
# evaluated.
value_known <- function(code, env) {
  if (is.symbol(code)) {
    home <- find_home(as.character(code), env)
    return(if (!is.null(home)) variable_known(as.character(code), home))
  }
  if (!is.call(code) || length(code) != 3L) {
    return(NULL)
  }
  index <- code[[3L]]
  named <- if (is.character(index)) index else if (is.symbol(index) && is_call_of(code, "$")) as.character(index)
  from <- if (is_call_of(code, c("$", "[[")) && length(named) == 1L) value_known(code[[2L]], env)
  if (is.null(from) || has_pick_method(from[[1L]], env)) {
    return(NULL)
  }
  x <- from[[1L]]
  if (is.environment(x)) variable_known(named, x) else if (is.list(x) && named %in% names(x)) list(.subset2(x, named))
}

# Of an environment.
variable_known <- function(name, env) {
  is_known <- exists(name, envir = env, inherits = FALSE) && !bindingIsActive(name, env) &&
    is.null(promise_of(name, env))
  if (is_known) or_else(list(get(name, envir = env, inherits = FALSE)), NULL)
}

has_pick_method <- function(x, env) {
  classes <- if (is.object(x)) setdiff(class(x), plain_classes)
  has <- function(generic) {
    vapply(classes, function(class) !is.null(utils::getS3method(generic, class, TRUE, env)), NA)
  }
  isS4(x) || any(has("$"), has("[["))
}
