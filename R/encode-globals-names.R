# Names that a piece of code takes from elsewhere, as package globals finds them, and in strings. globals_scan() adds
# those of names_of() in R/log-names.R, which may be the code's own, where they stand for something.

# The variables that data.table takes from around the code where it says ..name.
undotted <- function(symbols) {
  names <- substring(symbols[startsWith(symbols, "..") & !is_dots(symbols)], 3L)
  names[nzchar(names)]
}

# All ways in which code looks into `...`.
is_dots <- function(names) grepl("^[.][.]([.](elt|length|names)?|[0-9]+)$", names)

# Names that code takes from elsewhere. To find them takes longer than a small map, so they are remembered
# for as long as the analysis would give the same. That depends on the code, which never changes: a
# changed function has another body; and on whether functions of base R, such as quote(), have their
# meaning where the code is. What the names stand for is looked up each time.
globals_names <- function(x, env) {
  if (isS4(x) && is.function(x)) x <- methods::as(x, "function") # a method
  plain <- is.language(x) || (is.function(x) && all(names(attributes(x)) == "srcref"))
  if (!plain || is.primitive(x)) {
    return(globals_analyse(x, env))
  }
  code <- if (is.function(x)) body(x) else x
  arguments <- if (is.function(x)) formals(x)
  key <- paste(rlang::obj_address(code), rlang::obj_address(arguments))
  known <- the$analyses[[key]]
  base <- if (is.null(known)) base_functions(x) else known$base
  masked <- !has_base_functions(base, env)
  if (!is.null(known) && !masked) {
    return(known$used)
  }
  used <- globals_analyse(x, env)
  # With functions of base R masked it is another analysis.
  if (masked) {
    return(used)
  }
  if (length(the$analyses) >= analyses_most) rm(list = names(the$analyses), envir = the$analyses)
  known <- list(code = code, arguments = arguments, base = base, used = used)
  assign(key, known, envir = the$analyses)
  used
}

analyses_most <- 200L

# list(names, strings, values, symbols, looks, dots, captures): what code uses by name; strings in it that may be names,
# and values that hold code; all symbols in it, and in strings that are code, whatever they are there for; whether it
# looks variables up by their names, whether it looks into `...`, and whether it may take arguments as code.
globals_analyse <- function(x, env) {
  if (is.language(x)) x <- bare_code(x)
  # Formulas of R's data sets are of an environment from which not even `function` is found.
  if (!exists("function", envir = env)) env <- baseenv()
  # It warns of `...` in a function that has got it from one around it.
  find <- function(method) {
    suppressWarnings(globals::findGlobals(x, envir = env, substitute = FALSE, method = method))
  }
  # The first goes by the order of the code, and takes a name that is assigned somewhere, or is an argument
  # of a function within, for one of the code's own from there on.
  names <- unique(c(find("ordered"), setdiff(find("conservative"), always_assigned(x))))
  text <- new.env(parent = emptyenv())
  text$names <- text$strings <- text$symbols <- character()
  text$values <- list()
  if (is.function(x)) text_visit(code_parts(formals(x)), text)
  text_visit(list(if (is.function(x)) body(x) else x), text)
  symbols <- setdiff(all.names(as_language(x), unique = TRUE), "")
  names <- unique(c(names, text$names, undotted(symbols)))
  dots <- is_dots(names)
  list(
    names = names[!dots | names %in% c("...elt", "...length", "...names")], strings = unique(text$strings),
    values = text$values, symbols = unique(c(symbols, text$symbols)),
    looks = any(looks_up %in% c(symbols, text$strings)), dots = any(dots), captures = may_capture(as_language(x))
  )
}

# Functions that give environments, or evaluate code in one, the attribute of a formula that is one, and names of
# environments: the workspace, and in rlang what is around code that has columns of data before that.
names_places <- c(
  ".GlobalEnv", ".Environment", ".env", "globalenv", "global_env", "environment", "current_env", "caller_env", "fn_env", "parent.frame",
  "parent.env", "env_parent", "topenv", "sys.function", "sys.frame", "sys.frames", "as.environment", "pos.to.env",
  "eval.parent"
)

# Functions by which code comes at variables that it does not name.
looks_up <- c(
  names_places, "get", "get0", "mget", "exists", "dynGet", "env_get", "env_get_list", "env_has", "eval", "evalq",
  "eval_tidy", "eval_bare"
)

# Functions that take a variable by a string, or code.
takes_name <- c("get", "get0", "mget", "exists", "match.fun", "do.call", "dynGet")
takes_code <- c("parse", "str2lang", "str2expression")

# The strings in code: names of variables and pieces of code where they are given to such a function. And the values
# in it that hold code of their own, as bquote() puts them there.
text_visit <- function(parts, text, head = "") {
  for (part in parts) {
    if (inherits(part, "formula")) text$values <- c(text$values, list(part)) # it may be of another environment
    part <- bare_code(part)
    if (typeof(part) == "character") {
      attributes(part) <- NULL
      text_note(part, text, head)
    } else if (is.call(part)) {
      to <- part[[1L]]
      if (is.call(to) && length(to) == 3L) to <- to[[3L]] # base::get
      to <- if (is.name(to)) as.character(to) else ""
      inner <- if (to == "c" && head != "") head else if (to %in% c(takes_name, takes_code)) to else ""
      text_visit(code_parts(part), text, inner)
    } else if (typeof(part) %in% c("pairlist", "expression")) {
      text_visit(code_parts(part), text)
    } else if (may_hold_code(list(part))) {
      text$values <- c(text$values, list(part))
    }
  }
}

text_note <- function(strings, text, head) {
  strings <- strings[!is.na(strings) & nzchar(strings)]
  if (head %in% takes_name) {
    text$names <- c(text$names, strings)
  } else if (head %in% takes_code) {
    text$names <- c(text$names, parsed_names(strings))
  } else {
    if (length(strings) == 1L && nchar(strings, "bytes") < 100L) text$strings <- c(text$strings, strings)
    if (length(strings) <= 100L) text$symbols <- c(text$symbols, unlist(lapply(strings, parsed_names)))
    text$names <- c(text$names, unlist(lapply(braced(strings), parsed_names)))
  }
}

# What packages glue and cli evaluate of strings such as "{x} of {length(y)}", unless it has braces of its own.
braced <- function(strings) {
  unlist(regmatches(strings, gregexpr("(?<=[{])[^{}]+(?=[}])", strings, perl = TRUE, useBytes = TRUE)))
}

parsed_names <- function(text) {
  code <- tryCatch(parse(text = text, keep.source = FALSE), error = function(e) NULL)
  setdiff(all.names(code, unique = TRUE), "")
}

# Names that the statements of code assign, whatever happens, before they are used: the code's own.
always_assigned <- function(x) {
  code <- if (is.function(x)) body(x) else x
  statements <- if (is.call(code) && identical(code[[1L]], quote(`{`))) as.list(code)[-1L] else list(code)
  used <- if (is.function(x)) all.names(as.call(c(list(quote(list)), as.list(formals(x)))))
  own <- character()
  for (statement in statements) {
    is_assignment <- is.call(statement) && length(statement) == 3L && is.name(statement[[2L]]) &&
      (identical(statement[[1L]], quote(`<-`)) || identical(statement[[1L]], quote(`=`)))
    used <- c(used, all.names(if (is_assignment) statement[[3L]] else statement))
    if (is_assignment && !as.character(statement[[2L]]) %in% used) {
      own <- c(own, as.character(statement[[2L]]))
    }
  }
  # A variable may be removed again. A statement that is left before it has assigned leaves the function.
  if (any(c("rm", "remove") %in% used)) character() else own
}

# Functions of base R of which code has the names, by these.
base_functions <- function(x) {
  names <- setdiff(all.names(as_language(x), unique = TRUE), "")
  is_function <- vapply(names, exists, NA, envir = baseenv(), mode = "function", inherits = FALSE)
  mget(names[is_function], envir = baseenv())
}

as_language <- function(x) {
  if (is.function(x)) as.call(c(list(quote(list)), formals(x), list(body(x)))) else x
}

has_base_functions <- function(functions, env) {
  found <- tryCatch(
    mget(names(functions), envir = env, mode = "function", ifnotfound = list(NULL), inherits = TRUE),
    error = function(e) NULL # an argument of such a name that is missing, or fails
  )
  identical(found, functions)
}
