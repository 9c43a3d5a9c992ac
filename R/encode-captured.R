# Arguments that code takes as code, by tidy evaluation: `{{ x }}`, enquo(x), enquos(...), and `...` that is handed on to
# a function of a package that evaluates its arguments in data. Whoever takes them evaluates them, each time anew, and
# would take what has been evaluated for a value.

# Their names, of those that are no arguments of functions within; `code` is that of a function as as_language() gives
# it, or other code, from `env`.
captured_names <- function(code, env, own = character()) {
  if (!is.call(code)) {
    return(character())
  }
  code <- bare_code(code)
  if (identical(code[[1L]], quote(`function`))) {
    return(captured_names(code[[3L]], env, c(own, names(code[[2L]]))))
  }
  parts <- call_operands(code)
  names <- vapply(parts[vapply(parts, is.symbol, NA)], as.character, "")
  taken <- if (is_embraced(code)) {
    as.character(code[[2L]][[2L]])
  } else if (takes_code_of(code)) {
    names
  } else if ("..." %in% names && is_masking(code[[1L]], env)) {
    "..."
  }
  unique(c(setdiff(taken, own), unlist(lapply(code_parts(code), captured_names, env, own))))
}

# {{ name }}
is_embraced <- function(code) {
  is_braces <- function(x) is.call(x) && length(x) == 2L && identical(x[[1L]], quote(`{`))
  is_braces(code) && is_braces(code[[2L]]) && is.symbol(code[[2L]][[2L]])
}

takes_code_of <- function(code) {
  head <- if (is_qualified(code[[1L]])) code[[1L]][[3L]] else code[[1L]]
  is.symbol(head) && as.character(head) %in% code_takers
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
    return(FALSE)
  }
  code <- bare_code(code)
  parts <- code_parts(code)
  is_embraced(code) || takes_code_of(code) || any(vapply(parts, is_dots_symbol, NA)) ||
    any(vapply(parts, may_capture, NA))
}

is_dots_symbol <- function(x) identical(x, quote(...))

call_operands <- function(code) code_parts(code)[-1L]
