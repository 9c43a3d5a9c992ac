# Names that code may take from outside of itself: what a key has to look up. Where it cannot be told whether a name is
# the code's own, it is taken for one from outside: a value that is looked up for nothing costs a call that would have
# gone on, one that is not costs wrong values.
#
# A name is the code's own from where it has certainly been assigned, in the order in which R evaluates: an assignment
# in a branch, in a loop, or in an argument, which may never be evaluated, is none. A name that is called is that of a
# function: R passes over variables that are none.

# list(values, functions, leaves, fields, around, captures): names of variables of any kind, and of functions; the values
# in the code, such as strings, in which there are words, see log-search.R; names of what it takes from objects, as
# x$name; if the code evaluates code, all symbols in it, which may be variables around the environment where it does; and
# whether it may take arguments as code. `x` is a function, or code that is none.
names_of <- function(x) {
  known <- code_known(x)
  if (is.null(known$names)) {
    found <- new.env(parent = emptyenv())
    found$values <- found$functions <- found$leaves <- found$fields <- list()
    all <- unlist(lapply(known$code, code_symbols))
    found$removes <- any(c("rm", "remove") %in% all)
    names_function(known$code[[1L]], known$code[[2L]], names_none, found)
    known$names <- c(names_collect(found, all), captures = may_capture(as_language(x)))
  }
  known$names
}

# What is known of code by now: an environment with `code`, list(arguments, body), and what has been found of it, such
# as `names`. Functions that one place of code has made, as elements of a map may be, share it.
code_known <- function(x) {
  code <- if (is.function(x)) list(formals(x), body(x)) else list(NULL, x)
  address <- paste(vapply(code, rlang::obj_address, ""), collapse = " ")
  known <- the$key_code[[address]]
  if (is.null(known)) {
    if (length(the$key_code) >= analyses_most) rm(list = names(the$key_code), envir = the$key_code)
    known <- new.env(parent = emptyenv())
    known$code <- code # held, so that no other has its address
    assign(address, known, envir = the$key_code)
  }
  known
}

# Functions that evaluate code which is an object.
names_evaluators <- c("eval", "evalq", "eval_tidy", "eval_bare", "with", "within", "local")

names_collect <- function(found, all) {
  unique_of <- function(kind) unique(unlist(found[[kind]]))
  # A string may be the name of a function: sapply(x, "name").
  strings <- unlist(Filter(function(leaf) is.character(leaf) && length(leaf) <= 100L, found$leaves))
  places <- any(names_places %in% c(all, strings))
  symbols <- unique(c(all, unique_of("fields")))
  list(
    values = unique(c(unique_of("values"), if (places) symbols)),
    functions = unique(c(unique_of("functions"), as.character(strings[!is.na(strings)]))),
    leaves = found$leaves,
    fields = unique_of("fields"),
    around = if (places || any(names_evaluators %in% all)) symbols
  )
}

# Names that are the code's own at a place of it: `vars`, and those of them that are functions. Code that is never
# reached has NULL.
names_none <- list(vars = character(), functions = character())

names_own <- function(own, name, is_function, found) {
  if (found$removes) {
    return(own)
  }
  own$vars <- union(own$vars, name)
  own$functions <- if (is_function) union(own$functions, name) else setdiff(own$functions, name)
  own
}

names_both <- function(a, b) {
  if (is.null(a)) {
    return(b)
  }
  if (is.null(b)) {
    return(a)
  }
  Map(intersect, a, b)
}

names_note <- function(found, kind, name) found[[kind]][[length(found[[kind]]) + 1L]] <- name

# How many calls within each other are looked at one by one. Of deeper ones each name is one from outside.
names_depth <- 100L

# The names that are the code's own after `x`, which begins with `own`.
names_walk <- function(x, own, found, depth = 0L) {
  if (is.symbol(x)) {
    name <- as.character(x)
    if (grepl("^[.][.]([.]|[0-9]+)$", name)) name <- "..."
    for (one in c(name, undotted(name))) {
      if (nzchar(one) && !one %in% own$vars) names_note(found, "values", one)
    }
  } else if (is.expression(x) || is.pairlist(x)) {
    for (part in code_parts(x)) names_walk(part, own, found, depth + 1L)
  } else if (is.call(x) && depth >= names_depth) {
    names_all(x, found)
  } else if (is.call(x)) {
    return(names_call(x, own, found, depth + 1L))
  } else {
    names_leaf(x, found)
  }
  own
}

# A function that was put into the code is looked into where it is met as a value.
names_leaf <- function(x, found) {
  holds <- is.character(x) || is.list(x) || !is.null(attributes(x))
  if (holds && !inherits(x, "srcref")) names_note(found, "leaves", x)
}

names_all <- function(x, found) {
  symbols <- code_symbols(x)
  for (kind in c("values", "functions", "fields")) names_note(found, kind, symbols)
  for (part in code_leaves(x)) if (!is.symbol(part)) names_leaf(part, found)
}

names_call <- function(x, own, found, depth) {
  if (is.object(x)) attributes(x) <- NULL # methods of `[` have other ideas of a formula
  head <- x[[1L]]
  name <- if (is.symbol(head) || is.character(head)) as.character(head)[[1L]] else ""
  if (name == "") {
    names_walk(head, own, found, depth)
  } else if (!name %in% own$functions) {
    names_note(found, "functions", name)
    if (name %in% c("...elt", "...length", "...names") && !"..." %in% own$vars) names_note(found, "values", "...")
  }
  known <- names_forms[[name]]
  if (!is.null(known)) {
    return(known(x, own, found, depth))
  }
  strict <- !name %in% own$functions && is_strict(name)
  for (part in code_parts(x[-1L])) {
    after <- names_walk(part, own, found, depth)
    if (strict && !is.null(after)) own <- after
  }
  if (name %in% c("return", "stop", "break", "next")) NULL else own
}

# Functions of R that evaluate all of their arguments.
is_strict <- function(name) nzchar(name) && typeof(get0(name, baseenv(), inherits = FALSE)) == "builtin"

# What is evaluated one after another.
names_sequence <- function(x, own, found, depth) {
  reached <- TRUE
  for (part in code_parts(x[-1L])) {
    after <- names_walk(part, own, found, depth)
    if (is.null(after)) reached <- FALSE else own <- after
  }
  if (reached) own
}

# The first argument is evaluated, and others may be.
names_first <- function(x, own, found, depth) {
  parts <- code_parts(x[-1L])
  for (k in seq_along(parts)) {
    after <- names_walk(parts[[k]], own, found, depth)
    if (k == 1L && !is.null(after)) own <- after
  }
  own
}

names_if <- function(x, own, found, depth) {
  after <- names_walk(x[[2L]], own, found, depth)
  if (!is.null(after)) own <- after
  yes <- names_walk(x[[3L]], own, found, depth)
  no <- if (length(x) > 3L) names_walk(x[[4L]], own, found, depth) else own
  names_both(yes, no)
}

names_for <- function(x, own, found, depth) {
  after <- names_walk(x[[3L]], own, found, depth)
  if (!is.null(after)) own <- after
  names_walk(x[[4L]], names_own(own, as.character(x[[2L]]), FALSE, found), found, depth)
  own
}

names_assign <- function(x, own, found, depth) {
  if (length(x) != 3L) {
    return(own)
  }
  outside <- identical(x[[1L]], quote(`<<-`))
  to <- x[[2L]]
  value <- x[[3L]]
  is_lambda <- is.call(value) && identical(value[[1L]], quote(`function`))
  if (is_lambda && !outside && !is.call(to)) {
    # It may call itself.
    own <- names_own(own, as.character(to), TRUE, found)
    names_walk(value, own, found, depth)
    return(own)
  }
  after <- names_walk(value, own, found, depth)
  if (!is.null(after)) own <- after
  if (is.call(to)) {
    # f(x, i) <- value is a call of `f<-` with what x is, and of f if x is such a call itself.
    names_walk(to, own, found, depth)
    while (is.call(to) && length(to) > 1L) {
      if (is.symbol(to[[1L]])) names_note(found, "functions", paste0(to[[1L]], "<-"))
      to <- to[[2L]]
    }
    if (outside && is.symbol(to)) names_note(found, "values", as.character(to))
  }
  if (outside || is.call(to)) {
    return(own)
  }
  is_function <- is.symbol(value) && as.character(value) %in% own$functions
  names_own(own, as.character(to), is_function, found)
}

names_field <- function(x, own, found, depth) {
  names_walk(x[[2L]], own, found, depth)
  if (is.symbol(x[[3L]]) || is.character(x[[3L]])) {
    names_note(found, "fields", as.character(x[[3L]]))
  } else {
    names_walk(x[[3L]], own, found, depth)
  }
  own
}

names_lambda <- function(x, own, found, depth) {
  names_function(x[[2L]], x[[3L]], own, found, depth)
  own
}

# A function within has what the code around it has at that place. Its arguments need not be functions.
names_function <- function(formals, body, own, found, depth = 0L) {
  for (name in names(formals)) own <- names_own(own, name, FALSE, found)
  for (default in code_parts(formals)) names_walk(default, own, found, depth)
  names_walk(body, own, found, depth)
}

names_forms <- list(
  `{` = names_sequence, `(` = names_sequence, `if` = names_if, `for` = names_for, `while` = names_first,
  `&&` = names_first, `||` = names_first, switch = names_first, `<-` = names_assign, `=` = names_assign,
  `<<-` = names_assign, `$` = names_field, `@` = names_field, `function` = names_lambda,
  `::` = function(x, own, found, depth) own, `:::` = function(x, own, found, depth) own
)

# The parts of a call, of arguments or of an expression, without those that are empty.
code_parts <- function(x) {
  parts <- unname(as.list(bare_code(x)))
  parts[!vapply(parts, is_empty_argument, NA)]
}

# Code of a class, such as a formula, may have methods of `[`, `[[`, as.list() and more with ideas of their own. What is
# no code may be an object that has its attributes in place, as environments have.
bare_code <- function(x) {
  if (is.object(x) && typeof(x) %in% c("language", "pairlist", "expression")) attributes(x) <- NULL
  x
}

# Whether a call, of no class, is one of a function that it has by one of these names.
is_call_of <- function(code, names) is.symbol(code[[1L]]) && as.character(code[[1L]]) %in% names

# All symbols in code, and what they are without two dots. all.names() does not look into the arguments of functions in
# code.
code_symbols <- function(x) {
  leaves <- code_leaves(x)
  symbols <- as.character(unique(leaves[vapply(leaves, is.symbol, NA)]))
  unique(c(symbols, undotted(symbols)))
}

# The parts of code that are no calls, however deep they are.
code_leaves <- function(x) .Call(ffi_code_leaves, x)
