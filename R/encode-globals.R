# What the code of a task finds in the workspace and in attached packages. Workers that were not
# forked have neither.

# list(variables, packages, unsent): the variables of the workspace that the functions and expressions in
# the list `code`, and in short lists there, use, those that they use included, and its methods and classes, of which code shows no name; the
# packages to attach, as they are on the search path; the names of all other variables. `env` is where
# expressions are evaluated, NULL the workspace.
globals_of <- function(code, env = NULL) {
  if (!has_globals()) {
    warning(warning_globals())
    return(list(variables = list(), packages = character()))
  }
  found <- new.env(parent = emptyenv())
  found$variables <- list()
  found$homes <- character()
  found$seen <- character()
  workspace <- ls(globalenv(), all.names = TRUE, sorted = FALSE)
  # It warns of `...` in a function that has got it from one around it.
  suppressWarnings({
    for (x in code) {
      if (is.function(x) || is.language(x)) {
        envir <- if (is.function(x)) code_environment(x) else if (is.null(env)) globalenv() else env
        globals_scan(found, x, envir)
      } else {
        globals_within(found, x, 0L)
      }
    }
    for (name in workspace_methods(workspace)) globals_add(found, name, globalenv())
  })
  list(
    variables = found$variables, packages = in_search_order(setdiff(found$homes, c("", "workspace"))),
    unsent = setdiff(workspace, names(found$variables))
  )
}

# With what they have attached themselves, without what every R process attaches.
in_search_order <- function(packages) {
  packages <- setdiff(packages, default_packages())
  if (length(packages) == 0L) {
    return(packages)
  }
  depends <- lapply(packages, function(package) {
    get0(".Depends", as.environment(paste0("package:", package)), inherits = FALSE)
  })
  packages <- setdiff(unique(c(packages, unlist(depends))), default_packages())
  at <- match(paste0("package:", packages), search())
  packages[order(at)][seq_len(sum(!is.na(at)))]
}

has_globals <- function() requireNamespace("globals", quietly = TRUE)

code_environment <- function(fun) {
  if (is.null(environment(fun))) baseenv() else environment(fun)
}

# Functions of packages are not looked into: what they need comes with the package.
globals_scan <- function(found, x, env) {
  address <- rlang::obj_address(x)
  if (address %in% found$seen) {
    return(invisible())
  }
  found$seen <- c(found$seen, address)
  used <- globals_names(x, env)
  for (name in used$names) globals_add(found, name, env)
  # sapply(x, "name") calls the function of that name.
  for (name in Filter(is_workspace_function, used$strings)) globals_add(found, name, globalenv())
  if (used$dots) globals_dots(found, env)
}

is_workspace_function <- function(name) exists(name, envir = globalenv(), mode = "function", inherits = FALSE)

# `...` of a function around the code. What nobody has looked at yet is evaluated, as other arguments are that
# the code names; one that fails does so where it is used, if it is.
globals_dots <- function(found, env) {
  where <- find_home("...", env)
  if (is.null(where) || home_of(where) == "workspace") {
    return(invisible())
  }
  for (k in seq_len(eval(quote(...length()), where))) {
    value <- tryCatch(eval(call("...elt", k), where), error = function(e) NULL)
    globals_within(found, value, 0L)
  }
}

# All ways in which code looks into `...`.
is_dots <- function(names) grepl("^[.][.]([.](elt|length|names)?|[0-9]+)$", names)

# What a name stands for from `env` on, and what that needs.
globals_add <- function(found, name, env) {
  where <- find_home(name, env)
  home <- if (is.null(where)) "" else home_of(where)
  if (!home %in% found$homes) found$homes <- c(found$homes, home)
  if (home == "workspace" || (home == "" && !is.null(where) && !is_packaged(where))) {
    # What cannot be had is an error where it is used, if it is.
    value <- tryCatch(get(name, envir = where, inherits = FALSE), error = function(e) where)
    if (identical(value, where)) {
      return(invisible())
    }
    if (home == "workspace" && !name %in% names(found$variables)) {
      found$variables[name] <- list(value)
    }
    is_table <- startsWith(name, ".__T__") && is.environment(value)
    globals_within(found, if (is_table) as.list.environment(value) else value, 0L)
  }
}

# Code in a value: functions and formulas, also in short lists of them, in methods and in generators of
# classes. The call that a fitted model has in its list is only told.
globals_within <- function(found, value, depth) {
  if (typeof(value) == "closure") {
    if (!is_packaged(environment(value))) globals_scan(found, value, environment(value))
  } else if (inherits(value, "formula") || (depth == 0L && (is.call(value) || is.expression(value)))) {
    env <- attr(value, ".Environment", exact = TRUE)
    globals_scan(found, value, if (is.environment(env)) env else globalenv())
  } else if (depth < 3L) {
    parts <- if (inherits(value, "classRepresentation")) {
      class_functions(value)
    } else if (is.environment(value) && inherits(value, "R6ClassGenerator")) {
      as.list.environment(value, all.names = TRUE)
    } else if (typeof(value) == "list" && length(value) <= 100L) {
      unclass(value)
    }
    for (k in seq_along(parts)) {
      if (!is_empty_argument(parts[[k]])) globals_within(found, parts[[k]], depth + 1L) # as in alist(a = )
    }
  }
}

# The environment in which a name is found from `env` on; NULL if there is none.
find_home <- function(name, env) {
  while (!identical(env, emptyenv())) {
    if (exists(name, envir = env, inherits = FALSE)) {
      return(env)
    }
    env <- parent.env(env)
  }
}

# "workspace"; the name of an attached package; "" for what travels with the function.
home_of <- function(env) {
  if (identical(env, globalenv())) {
    return("workspace")
  }
  name <- attr(env, "name", exact = TRUE)
  package <- is.character(name) && startsWith(name, "package:")
  attached <- is.character(name) && name %in% search()
  if (package) sub("^package:", "", name) else if (attached) "workspace" else ""
}

is_packaged <- function(env) {
  name <- attr(env, "name", exact = TRUE)
  identical(env, baseenv()) || isNamespace(env) || (is.character(name) && startsWith(name[[1L]], "imports:"))
}

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

# list(names, strings, dots): what code uses by name, strings in it that may be the names of functions, and
# whether it looks into `...`.
globals_analyse <- function(x, env) {
  find <- function(method) globals::findGlobals(x, envir = env, substitute = FALSE, method = method)
  # The first goes by the order of the code, and takes a name that is assigned somewhere, or is an argument
  # of a function within, for one of the code's own from there on.
  names <- unique(c(find("ordered"), setdiff(find("conservative"), always_assigned(x))))
  text <- new.env(parent = emptyenv())
  text$names <- text$strings <- character()
  if (is.function(x)) text_visit(as.list(formals(x)), text)
  text_visit(list(if (is.function(x)) body(x) else x), text)
  names <- unique(c(names, text$names))
  dots <- is_dots(names)
  list(
    names = names[!dots | names %in% c("...elt", "...length", "...names")], strings = unique(text$strings),
    dots = any(dots)
  )
}

# Functions that take a variable by a string, or code.
takes_name <- c("get", "get0", "mget", "exists", "match.fun", "do.call", "dynGet")
takes_code <- c("parse", "str2lang", "str2expression")

# The strings in code: names of variables and pieces of code where they are given to such a function.
text_visit <- function(parts, text, head = "") {
  for (i in seq_along(parts)) {
    if (typeof(parts[[i]]) == "character") {
      text_note(parts[[i]], text, head)
    } else if (is.call(parts[[i]]) && length(parts[[i]]) > 1L) {
      to <- parts[[i]][[1L]]
      if (is.call(to) && length(to) == 3L) to <- to[[3L]] # base::get
      to <- if (is.name(to)) as.character(to) else ""
      inner <- if (to == "c" && head != "") head else if (to %in% c(takes_name, takes_code)) to else ""
      text_visit(as.list(parts[[i]]), text, inner)
    } else if (typeof(parts[[i]]) %in% c("pairlist", "expression")) {
      text_visit(as.list(parts[[i]]), text)
    }
  }
}

text_note <- function(strings, text, head) {
  strings <- strings[!is.na(strings) & nzchar(strings)]
  if (head %in% takes_name) {
    text$names <- c(text$names, strings)
  } else if (head %in% takes_code) {
    code <- tryCatch(parse(text = strings, keep.source = FALSE), error = function(e) NULL)
    text$names <- c(text$names, setdiff(all.names(code, unique = TRUE), ""))
  } else if (length(strings) == 1L && nchar(strings, "bytes") < 100L) {
    text$strings <- c(text$strings, strings)
  }
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
  if (is.function(x)) x <- as.call(c(list(quote(list)), as.list(formals(x)), list(body(x))))
  names <- setdiff(all.names(x, unique = TRUE), "")
  is_function <- vapply(names, exists, NA, envir = baseenv(), mode = "function", inherits = FALSE)
  mget(names[is_function], envir = baseenv())
}

has_base_functions <- function(functions, env) {
  found <- tryCatch(
    mget(names(functions), envir = env, mode = "function", ifnotfound = list(NULL), inherits = TRUE),
    error = function(e) NULL # an argument of such a name that is missing, or fails
  )
  identical(found, functions)
}

# Names of methods and classes among those of the workspace. R finds them by the class of an object, wherever
# that comes from.
workspace_methods <- function(names) {
  dotted <- names[grepl(".[.].", names) & !startsWith(names, ".")]
  classes <- names[has_class_name(names)]
  if (length(dotted) + length(classes) == 0L) {
    return(character())
  }
  methods <- Filter(function(name) {
    exists(name, envir = globalenv(), mode = "function", inherits = FALSE) && is_method(name)
  }, dotted)
  tables <- sub("^[.]__T__(.*):[^:]*$", "\\1", classes[startsWith(classes, ".__T__")])
  c(methods, classes, intersect(tables, names))
}

# Functions of no package that registerS3method() has made methods of generics of packages, by their names there.
registered_methods <- function() {
  homes <- c(list(.BaseNamespaceEnv), lapply(setdiff(loadedNamespaces(), "base"), asNamespace))
  found <- lapply(homes, function(home) {
    table <- home[[".__S3MethodsTable__."]]
    if (!is.environment(table)) {
      return(NULL)
    }
    methods <- as.list.environment(table, all.names = TRUE)
    its_own <- vapply(methods, function(f) identical(environment(f), home), NA)
    Filter(is_unpackaged, methods[!its_own])
  })
  found <- do.call(c, found)
  found[order(as.character(names(found)), method = "radix")]
}

is_unpackaged <- function(x) is_closure(x) && !is_packaged(topenv(environment(x)))

# Whether one of the parts of the name before a dot is a generic function.
is_method <- function(name) {
  at <- gregexpr(".", name, fixed = TRUE)[[1L]]
  at <- at[at > 1L & at < nchar(name)]
  any(vapply(substring(name, 1L, at - 1L), is_generic, NA))
}

# Closures of base R whose methods compiled code looks for, and groups of generics.
generics_inside <- c(
  "as.environment", "as.vector", "cbind", "is.unsorted", "lengths", "nchar", "rbind", "rep.int", "rep_len",
  "unlist", "Ops", "Math", "Summary", "Complex", "matrixOps"
)

# One of a package that is not attached is called with its name, or by the package.
is_generic <- function(name) {
  if (name %in% generics_inside) {
    return(TRUE)
  }
  f <- get0(name, envir = globalenv(), mode = "function")
  if (is.null(f)) {
    spaces <- Filter(function(space) exists(name, asNamespace(space), inherits = FALSE), loadedNamespaces())
    if (length(spaces) > 0L) f <- get(name, envir = asNamespace(spaces[[1L]]), inherits = FALSE)
  }
  is.primitive(f) || inherits(f, "standardGeneric") ||
    (is.function(f) && "UseMethod" %in% all.names(body(f)))
}

# What package methods calls a class, and the methods of a generic.
has_class_name <- function(names) startsWith(names, ".__C__") | startsWith(names, ".__T__")

has_classes <- function(names) any(has_class_name(names))

class_functions <- function(class) {
  validity <- class@validity
  methods <- if (inherits(class, "refClassRepresentation")) as.list.environment(class@refMethods, all.names = TRUE)
  c(list(validity), methods)
}

# What every R process attaches.
default_packages <- function() {
  c("base", "stats", "graphics", "grDevices", "utils", "datasets", "methods")
}

# What a task has of code: its own, and what is among its arguments and elements, in short lists of them too.
code_of <- function(replay) {
  elements <- if (is.list(replay$X)) replay$X
  may_hold <- function(x) is.function(x) || is.language(x) || typeof(x) == "list"
  c(list(replay$FUN), Filter(may_hold, unname(replay$args)), Filter(may_hold, utils::head(unname(elements), 100L)),
    Filter(function(x) is.function(x) || is.language(x), utils::tail(unname(elements), -100L)))
}
