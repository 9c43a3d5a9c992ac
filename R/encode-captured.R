# Arguments that code takes as code, by tidy evaluation: `{{ x }}`, enquo(x), enquos(...), and `...` that is handed on to
# a function of a package that evaluates its arguments in data. Whoever takes them evaluates them, each time anew, and
# would take what has been evaluated for a value.

# Their names, of those that are not the function's own; `x` is a function or other code, from `env`.
captured_names <- function(x, env) {
  captured_in(as_language(x), env, if (is.function(x)) names(formals(x)))
}

# `own`: arguments of the functions that `code` stands in.
captured_in <- function(code, env, own) {
  if (!is.call(code)) {
    return(character())
  }
  code <- bare_code(code)
  if (is_call_of(code, "function")) {
    return(captured_in(code[[3L]], env, c(own, names(code[[2L]]))))
  }
  parts <- code_parts(code)
  names <- vapply(Filter(is.symbol, parts[-1L]), as.character, "")
  taken <- if (is_embraced(code)) {
    as.character(code[[2L]][[2L]])
  } else if (takes_code_of(code) && is_masking(code[[1L]], env)) {
    names
  } else if ("..." %in% names && is_masking(code[[1L]], env)) {
    "..."
  }
  unique(c(setdiff(taken, own), unlist(lapply(parts, captured_in, env, own))))
}

# {{ name }}
is_embraced <- function(code) {
  is_braces <- function(x) is.call(x) && length(x) == 2L && is_call_of(x, "{")
  is_braces(code) && is_braces(code[[2L]]) && is.symbol(code[[2L]][[2L]])
}

# By name or as package::name. Others have functions of such names, too.
takes_code_of <- function(code) {
  if (is_qualified(code[[1L]])) as.character(code[[1L]][[3L]]) %in% code_takers else is_call_of(code, code_takers)
}

code_takers <- c(
  "enquo", "enquos", "enquo0", "enquos0", "enexpr", "enexprs", "ensym", "ensyms", "quos", "exprs", "inject"
)

# Whether this is a function, by its name or as package::name, of one of these packages.
is_masking <- function(head, env) {
  if (is_qualified(head)) {
    return(as.character(head[[2L]]) %in% masking)
  }
  home <- if (is.symbol(head)) find_home(as.character(head), env, "function")
  fun <- if (!is.null(home)) get(as.character(head), envir = home, mode = "function", inherits = FALSE)
  is_closure(fun) && environmentName(topenv(environment(fun))) %in% masking
}

masking <- c("dplyr", "tidyr", "tidyselect", "tibble", "ggplot2", "dbplyr", "dtplyr", "rlang")

# Whether captured_names() of code may be any, wherever it is.
may_capture <- function(code) {
  if (!is.call(code)) {
    return(identical(code, quote(...)))
  }
  code <- bare_code(code)
  is_embraced(code) || takes_code_of(code) || any(vapply(code_parts(code), may_capture, NA))
}
