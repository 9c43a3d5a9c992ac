# Arguments that code takes as code, by tidy evaluation: `{{ x }}`, enquo(x), enquos(...), and `...` that is handed on to
# a function of a package that evaluates its arguments in data. Whoever takes them evaluates them, each time anew, and
# would take what has been evaluated for a value.

# Their names, of those that are not the function's own; `x` is a function or other code, from `env`. Code of any depth
# needs no stack.
captured_names <- function(x, env) {
  names <- character()
  level <- captured_calls(as_language(x), if (is.function(x)) names(formals(x)))
  while (length(level) > 0L) {
    names <- c(names, unlist(lapply(level, function(at) setdiff(captured_by(at$code, env), at$own))))
    level <- do.call(c, lapply(level, captured_within))
  }
  unique(names)
}

# The arguments that this call takes, not those within it.
captured_by <- function(code, env) {
  if (is_call_of(code, "function")) {
    return(character())
  }
  names <- vapply(Filter(is.symbol, code_parts(code)[-1L]), as.character, "")
  if (is_embraced(code)) {
    as.character(code[[2L]][[2L]])
  } else if (takes_code_of(code) && is_masking(code[[1L]], env)) {
    names
  } else if ("..." %in% names && is_masking(code[[1L]], env)) {
    "..."
  }
}

# The calls in a call, with the arguments of the functions that each stands in.
captured_within <- function(at) {
  if (is_call_of(at$code, "function")) {
    return(captured_calls(at$code[[3L]], c(at$own, names(at$code[[2L]]))))
  }
  do.call(c, lapply(code_parts(at$code), captured_calls, at$own))
}

captured_calls <- function(code, own) if (is.call(code)) list(list(code = bare_code(code), own = own))

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
  level <- list(code)
  while (length(level) > 0L) {
    calls <- lapply(Filter(is.call, level), bare_code)
    takes <- vapply(calls, function(code) is_embraced(code) || takes_code_of(code), NA)
    if (any(takes) || any(vapply(level, identical, NA, quote(...)))) {
      return(TRUE)
    }
    level <- do.call(c, lapply(calls, code_parts))
  }
  FALSE
}
