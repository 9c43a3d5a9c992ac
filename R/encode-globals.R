# What the code of a task finds in the workspace and in what is attached. Workers that were not forked have neither.

# list(variables, active, attached, packages, unsent, registered): the variables of the workspace that the functions and
# expressions in the list `code`, and in what its other objects hold, use, those that they use included, and its methods
# and classes, of which code shows no name; which of them are active bindings, and stand there as their functions; the
# variables of lists and environments that attach() was given; the packages to attach, as they are on the search path;
# the names of all other variables of the workspace; what registered_methods() gives. `env` is where expressions are
# evaluated, NULL the workspace.
#
# The last answer is kept with all that it depends on. That is told by values: whatever code can reach is written down
# again, and compared.
globals_of <- function(code, env = NULL) {
  if (!has_globals()) {
    warning(warning_globals())
    return(list(variables = list(), packages = character()))
  }
  asked <- globals_asked(code, env)
  known <- the$globals
  if (!is.null(asked) && identical(asked, known$asked)) {
    values <- mget(as.character(names(known$found$variables)), envir = globalenv())
    if (identical(bounded_bytes(unname(values)), known$values)) {
      known$found$variables <- values
      return(known$found)
    }
  }
  found <- globals_find(code, env)
  the$globals <- globals_kept(asked, found)
  found
}

# What tells whether globals_find() would find the same, beside the values of what it has found: NULL where there is too
# much of it, or variables are attached. Of other variables of the workspace it asks no more than whether they are
# functions. Functions of a package stay as they are.
globals_asked <- function(code, env) {
  attached <- unlist(lapply(attached_lists(), ls, all.names = TRUE))
  if (length(setdiff(attached, ".Autoloaded")) > 0L) { # autoload()'s own
    return(NULL)
  }
  bytes <- bounded_bytes(list(code, env))
  if (!is.null(bytes)) {
    names <- ls(globalenv(), all.names = TRUE, sorted = FALSE)
    workspace <- variables_of(globalenv(), names)
    list(
      bytes = bytes, path = search_envs(), methods = methods_now(), types = vapply(workspace$values, typeof, ""),
      lazy = workspace$lazy, active = workspace$active, found_by_class = workspace_methods(names),
      named = options_naming()
    )
  }
}

globals_kept <- function(asked, found) {
  bytes <- if (!is.null(asked) && length(found$active) == 0L) bounded_bytes(unname(found$variables))
  if (!is.null(bytes)) {
    found$variables <- lapply(found$variables, function(x) NULL) # their names: the session's values may go
    list(asked = asked, values = bytes, found = found)
  }
}

# `x` as bytes, NULL if they are more than small_code, or cannot be had.
bounded_bytes <- function(x) {
  tryCatch(
    send_handles(FALSE, unwarned(.Call(ffi_encode_bounded, x, small_code))),
    regatta_unbounded = function(cnd) NULL, error = function(e) NULL
  )
}

# Called from C when there are more. Not by an error alone, which would be the session's last.
leave_bounded <- function() {
  signalCondition(structure(class = c("regatta_unbounded", "condition"), list(message = "")))
  stop("more bytes than are kept")
}

globals_find <- function(code, env) {
  found <- new.env(parent = emptyenv())
  found$variables <- found$attached <- list()
  found$active <- found$homes <- found$strings <- found$symbols <- character()
  found$looks <- FALSE
  found$places <- c(list(globalenv()), attached_lists())
  found$names <- lapply(found$places, ls, all.names = TRUE, sorted = FALSE)
  found$seen <- new.env(parent = emptyenv())
  found$queue <- list()
  found$left <- globals_work
  workspace <- found$names[[1L]]
  is_code <- vapply(code, function(x) is.function(x) || is.language(x), NA)
  for (x in code[is_code]) {
    envir <- if (is.function(x)) code_environment(x) else if (is.null(env)) globalenv() else env
    globals_scan(found, x, envir)
    if (is.function(x)) globals_push(found, globals_marks(x))
  }
  globals_push(found, code[!is_code])
  for (name in workspace_methods(workspace)) globals_add(found, name, globalenv())
  globals_push(found, options_naming())
  registered <- registered_methods()
  for (method in registered) globals_scan(found, method$method, environment(method$method))
  globals_drain(found)
  # What has not been looked into may need any of them.
  partly <- found$left <= 0
  found$left <- globals_work
  for (k in seq_along(found$places)) {
    place <- found$places[[k]]
    for (name in masks_in(place, found$names[[k]], partly)) globals_add(found, name, place)
  }
  globals_drain(found)
  globals_look_up(found)
  list(
    variables = found$variables, active = found$active, attached = found$attached,
    packages = in_search_order(setdiff(found$homes, c("", "workspace"))),
    unsent = setdiff(workspace, names(found$variables)), registered = registered
  )
}

# What to look for code in objects may cost: a unit is an element that is found to hold none, about a microsecond.
# Beyond that a variable that a worker has not been given is not found there, which is an error, unless R itself or a
# package has something of that name: masks_in().
globals_work <- 2e4
globals_cost <- c(closure = 50, environment = 20, other = 5)

# Names of the workspace, or of a list that is attached, that stand for something else where that is not: a worker would
# go on with it. Where all code has been looked at they are needed for names that it puts together, so that functions
# and data are told apart. Nothing is evaluated for it: an active binding, and what is not evaluated yet, count as data.
masks_in <- function(place, names, all) {
  beyond <- parent.env(place)
  names <- setdiff(names, ".Random.seed")
  names <- names[vapply(names, exists, NA, envir = beyond)]
  Filter(function(name) all || has_function(place, name) != is.null(find_home(name, beyond, "function")), names)
}

has_function <- function(place, name) {
  exists(name, envir = place, inherits = FALSE) && !bindingIsActive(name, place) &&
    !rlang::env_binding_are_lazy(place, name) &&
    exists(name, envir = place, mode = "function", inherits = FALSE)
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
  if (globals_seen(found, x)) {
    return(invisible())
  }
  used <- globals_names(x, env)
  for (name in used$names) globals_add(found, name, env)
  # What is not certainly the code's own, and stands for something of the session.
  known <- names_of(x)
  for (name in setdiff(known$values, used$names)) if (is_of_session(name, env)) globals_add(found, name, env)
  for (name in setdiff(known$functions, c(used$names, known$values))) {
    if (is_of_session(name, env, "function")) globals_add(found, name, env)
  }
  globals_words(found, used$strings)
  found$symbols <- c(found$symbols, used$symbols)
  found$looks <- found$looks || used$looks
  if (used$dots) globals_dots(found, env)
}

# Options that name functions, which models call.
options_naming <- function() list(getOption("contrasts"), getOption("na.action"))

# Strings: sapply(x, "name") calls the function of that name.
globals_words <- function(found, strings) {
  new <- setdiff(strings, found$strings)
  found$strings <- c(found$strings, new)
  for (k in seq_along(found$places)) {
    place <- found$places[[k]]
    for (name in intersect(new, found$names[[k]])) if (has_function(place, name)) globals_add(found, name, place)
  }
}

# Where code looks variables up by their names every word of it may be one, and so on in what they hold.
globals_look_up <- function(found) {
  seen <- ".Random.seed"
  while (found$looks && length(new <- setdiff(c(found$strings, found$symbols), seen)) > 0L) {
    seen <- c(seen, new)
    for (k in seq_along(found$places)) {
      for (name in intersect(new, found$names[[k]])) globals_add(found, name, found$places[[k]])
    }
    globals_drain(found)
  }
}

# Whether this object was met before; it is marked.
globals_seen <- function(found, x) {
  address <- rlang::obj_address(x)
  known <- !is.null(found$seen[[address]])
  if (!known) assign(address, TRUE, envir = found$seen)
  known
}

# `...` of a function around the code. What nobody has looked at yet is evaluated, as other arguments are that
# the code names; one that fails does so where it is used, if it is.
globals_dots <- function(found, env) {
  where <- find_home("...", env)
  if (is.null(where) || home_of(where) == "workspace") {
    return(invisible())
  }
  for (k in seq_len(eval(quote(...length()), where))) {
    value <- tryCatch(eval(call("...elt", k), where), error = function(e) NULL)
    globals_take(found, value)
  }
}

# The variables that data.table takes from around the code where it says ..name.
undotted <- function(symbols) {
  names <- substring(symbols[startsWith(symbols, "..") & !is_dots(symbols)], 3L)
  names[nzchar(names)]
}

# All ways in which code looks into `...`.
is_dots <- function(names) grepl("^[.][.]([.](elt|length|names)?|[0-9]+)$", names)

# What a name stands for from `env` on, and what that needs.
globals_add <- function(found, name, env) {
  where <- find_home(name, env)
  home <- if (is.null(where)) "" else home_of(where)
  if (!home %in% found$homes) found$homes <- c(found$homes, home)
  if (home == "workspace" || (home == "" && !is.null(where) && !is_packaged(where))) {
    if (bindingIsActive(name, where)) {
      value <- activeBindingFunction(name, where)
      if (identical(where, globalenv())) found$active <- union(found$active, name)
    } else {
      promise <- if (home == "") promise_of(name, where)
      if (may_leave(promise)) {
        return(globals_scan(found, promise[[1L]], promise[[2L]]))
      }
      # What cannot be had is an error where it is used, if it is.
      value <- tryCatch(get(name, envir = where, inherits = FALSE), error = function(e) where)
      if (identical(value, where)) {
        return(invisible())
      }
    }
    if (identical(where, globalenv())) {
      if (!name %in% names(found$variables)) found$variables[name] <- list(value)
    } else if (home == "workspace" && is_first_attached(name, where)) {
      found$attached[name] <- list(value)
    }
    globals_take(found, value)
  }
}

# list(code, environment) of a variable that is a promise which nobody has evaluated yet; else NULL.
promise_of <- function(name, env) {
  taken <- .Call(ffi_variables_take, env, name)
  promise <- if (taken[[1L]] == variable_delayed) as.list(taken[[2L]][[1L]])
  .Call(ffi_variables_drop, taken)
  promise
}

variable_delayed <- 2L # in fork-variables.c

# Whether to evaluate a promise may end functions around it, or the call: then that is left to whoever uses it. One that
# only names a variable may be that of another promise.
may_leave <- function(promise) {
  code <- promise[[1L]]
  if (!is.symbol(code) || is_empty_argument(code)) {
    return(any(leaving %in% all.names(code)))
  }
  where <- find_home(as.character(code), promise[[2L]])
  !is.null(where) && may_leave(promise_of(as.character(code), where))
}

leaving <- c(
  "return", "break", "next", "stop", "abort", "cli_abort", "signalCondition", "invokeRestart", "q", "quit", "browser"
)

# What a name stands for. Code in variables and in plain lists is evaluated as often as not; the call that a fitted
# model holds is only told.
globals_take <- function(found, value) {
  if (is.language(value) && !inherits(value, "formula")) globals_scan(found, value, globalenv())
  globals_push(found, list(value))
}

is_of_session <- function(name, env, mode = "any") {
  where <- find_home(name, env, mode)
  !is.null(where) && !is_packaged(where) && home_of(where) %in% c("", "workspace")
}

# Objects to look into later, those that others hold after these, so that what is near is looked at first.
globals_push <- function(found, objects) {
  words <- are_words(objects)
  if (any(words)) globals_words(found, unlist(objects[words], use.names = FALSE))
  objects <- objects[may_hold_code(objects)]
  if (length(objects) > 0L) found$queue <- c(found$queue, list(objects))
}

globals_drain <- function(found) {
  while (length(found$queue) > 0L && found$left > 0) {
    level <- unlist(found$queue, recursive = FALSE)
    found$queue <- list()
    for (k in seq_along(level)) {
      if (found$left <= 0) break
      globals_look(found, level[[k]])
    }
  }
}

globals_look <- function(found, x) {
  type <- typeof(x)
  found$left <- found$left - globals_cost[[if (type %in% names(globals_cost)) type else "other"]]
  if (type == "closure") {
    if (!is_packaged(environment(x))) globals_scan(found, x, environment(x))
  } else if (inherits(x, "formula")) {
    env <- attr(x, ".Environment", exact = TRUE)
    globals_scan(found, x, if (is.environment(env)) env else globalenv())
  } else if (type == "environment" && globals_seen(found, x)) {
    return(invisible())
  }
  # The class that another one of R6 inherits from is code there.
  if (type == "environment" && inherits(x, "R6ClassGenerator") && is.language(x$inherit)) {
    globals_scan(found, call("(", x$inherit), x$parent_env)
  }
  globals_push(found, globals_marks(x))
  parts <- globals_parts(x)
  if (length(parts) > found$left) parts <- parts[seq_len(max(0, found$left))]
  found$left <- found$left - length(parts)
  if (type == "list" && !is.object(x)) {
    code <- parts[vapply(parts, is.language, NA)]
    for (part in code[!vapply(code, is_empty_argument, NA)]) globals_take(found, part)
  }
  globals_push(found, parts)
}

globals_parts <- function(x) {
  switch(typeof(x),
    list = unclass(x),
    pairlist = as.list(x),
    environment = if (is_own_environment(x)) globals_variables(x),
    S4 = if (inherits(x, "classRepresentation")) class_functions(x)
  )
}

# Slots are attributes. What a class says of itself is plain data and package code but for its functions.
globals_marks <- function(x) {
  marks <- attributes(x)
  if (inherits(x, "classRepresentation")) NULL else unname(marks[!names(marks) %in% marks_of_data])
}

marks_of_data <- c(
  "names", "dim", "dimnames", "class", "levels", "row.names", "tsp", "comment", "srcref", "srcfile", "wholeSrcref",
  ".Environment"
)

globals_variables <- function(env) {
  found <- variables_of(env, ls(envir = env, all.names = TRUE, sorted = FALSE))
  found$values[found$lazy] <- lapply(found$values[found$lazy], function(code) {
    structure(call("~", code), class = "formula", .Environment = env)
  })
  unname(found$values)
}

# What these variables of an environment hold, with nothing evaluated for it: list(values, lazy, active), a list by
# their names, and which of it is the code of something that is not evaluated yet, or the function of an active binding.
variables_of <- function(env, names) {
  if (length(names) == 0L) {
    return(list(values = list(), lazy = logical(), active = logical()))
  }
  lazy <- rlang::env_binding_are_lazy(env, names)
  active <- rlang::env_binding_are_active(env, names)
  values <- stats::setNames(vector("list", length(names)), names)
  plain <- !lazy & !active
  values[plain] <- mget(names[plain], envir = env)
  values[lazy] <- lapply(names[lazy], function(name) eval(call("substitute", as.name(name), env)))
  values[active] <- lapply(names[active], activeBindingFunction, env)
  list(values = values, lazy = lazy, active = active)
}

is_own_environment <- function(env) {
  !identical(env, emptyenv()) && !is_packaged(env) && home_of(env) == "" && !inherits(env, "srcfile")
}

# Which of these objects are strings that may be names of functions, or of variables that code looks up. Long vectors
# are data.
are_words <- function(objects) {
  words <- vapply(objects, typeof, "") == "character"
  words[words] <- vapply(objects[words], function(x) length(unclass(x)) <= words_most, NA)
  words
}

words_most <- 10000L

# In which of these objects there can be code, or in their attributes.
may_hold_code <- function(objects) {
  types <- vapply(objects, typeof, "")
  holds <- types %in% c("closure", "list", "environment", "S4", "language", "expression", "pairlist")
  data <- which(!holds & !types %in% c("NULL", "symbol", "builtin", "special"))
  data <- data[!vapply(objects[data], function(x) is.null(attributes(x)), NA)]
  holds[data] <- vapply(objects[data], function(x) !all(names(attributes(x)) %in% marks_of_data), NA)
  holds
}

# The environment in which a name is found from `env` on, that of something of this mode; NULL if there is none.
find_home <- function(name, env, mode = "any") {
  while (!identical(env, emptyenv())) {
    # What is not evaluated yet may be an error.
    if (tryCatch(exists(name, envir = env, mode = mode, inherits = FALSE), error = function(e) FALSE)) {
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
  if (identical(env, globalenv())) {
    return(FALSE)
  }
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

# list(names, strings, symbols, looks, dots): what code uses by name; strings in it that may be names; all symbols in
# it, whatever they are there for; whether it looks variables up by their names, and whether it looks into `...`.
globals_analyse <- function(x, env) {
  # It warns of `...` in a function that has got it from one around it.
  find <- function(method) {
    suppressWarnings(globals::findGlobals(x, envir = env, substitute = FALSE, method = method))
  }
  # The first goes by the order of the code, and takes a name that is assigned somewhere, or is an argument
  # of a function within, for one of the code's own from there on.
  names <- unique(c(find("ordered"), setdiff(find("conservative"), always_assigned(x))))
  text <- new.env(parent = emptyenv())
  text$names <- text$strings <- character()
  if (is.function(x)) text_visit(as.list(formals(x)), text)
  text_visit(list(if (is.function(x)) body(x) else x), text)
  symbols <- setdiff(all.names(as_language(x), unique = TRUE), "")
  names <- unique(c(names, text$names, undotted(symbols)))
  dots <- is_dots(names)
  list(
    names = names[!dots | names %in% c("...elt", "...length", "...names")], strings = unique(text$strings),
    symbols = symbols, looks = any(looks_up %in% c(symbols, text$strings)), dots = any(dots)
  )
}

# Functions that give environments, or evaluate code in one, and the variable that is the workspace itself.
names_places <- c(
  ".GlobalEnv", "globalenv", "global_env", "environment", "current_env", "caller_env", "fn_env", "parent.frame",
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

# Names of methods and classes among those of the workspace, or of another environment. R finds them by the class of an
# object, wherever that comes from.
workspace_methods <- function(names, env = globalenv()) {
  dotted <- names[grepl(".[.].", names) & !startsWith(names, ".")]
  classes <- names[has_class_name(names)]
  if (length(dotted) + length(classes) == 0L) {
    return(character())
  }
  methods <- Filter(function(name) {
    exists(name, envir = env, mode = "function", inherits = FALSE) && is_method(name, env)
  }, dotted)
  tables <- sub("^[.]__T__(.*):[^:]*$", "\\1", classes[startsWith(classes, ".__T__")])
  c(methods, classes, intersect(tables, names))
}

# Functions of no package that registerS3method() has made methods of generics of packages, by their names: each with
# the namespace that has the generic.
registered_methods <- function() methods_now()$foreign

# list(held, foreign): the S3 methods of the generics of each namespace that is loaded, as methods_in() gives them, and
# what registered_methods() gives. It is the very same as long as nothing has changed, and a table that is as it was is
# not looked through again.
methods_now <- function() {
  tables <- methods_tables()
  known <- the$methods
  if (!identical(names(tables), names(known$held)) || !.Call(ffi_encode_hold, tables, known$held)) {
    known <- methods_look(tables, known)
    the$methods <- known
  }
  known
}

methods_look <- function(tables, known) {
  names <- names(tables)
  same <- vapply(names, function(name) {
    name %in% names(known$held) && .Call(ffi_encode_hold, tables[name], known$held[name])
  }, NA)
  held <- lapply(tables[!same], methods_in)
  of_each <- Map(foreign_methods, held, names[!same])
  held <- c(held, known$held[names[same]])[names]
  of_each <- c(of_each, known$of_each[names[same]])[names]
  foreign <- do.call(c, unname(of_each))
  list(held = held, of_each = of_each, foreign = if (length(foreign) > 0L) foreign[in_order(names(foreign))])
}

foreign_methods <- function(methods, home) {
  methods <- as.list(methods)
  its_own <- vapply(methods, function(f) identical(environment(f), .getNamespace(home)), NA)
  lapply(Filter(is_unpackaged, methods[!its_own]), function(method) list(home = home, method = method))
}

# The same in all locales, by the bytes of UTF-8.
in_order <- function(strings) {
  strings <- enc2utf8(strings)
  Encoding(strings) <- "bytes"
  order(strings, method = "radix")
}

sorted <- function(strings) strings[in_order(strings)]

# Those of all namespaces that are loaded, by their names.
methods_tables <- function() {
  loaded <- loadedNamespaces()
  tables <- lapply(loaded, methods_table)
  names(tables) <- loaded
  tables[vapply(tables, is.environment, NA)]
}

# asNamespace() would load it.
methods_table <- function(namespace) .getNamespace(namespace)[[".__S3MethodsTable__."]]

# The methods of a table, as a pairlist. Packages register promises, and one may load a package that registers its own:
# they are evaluated by name first, since the table must not grow while R makes a list of it. An interrupt waits: R
# warns of a promise whose evaluation was left, when it is next asked for.
methods_in <- function(table) {
  repeat {
    size <- length(table)
    suspendInterrupts(mget(ls(table, all.names = TRUE, sorted = FALSE), envir = table))
    if (length(table) == size) break
  }
  as.pairlist(as.list.environment(table, all.names = TRUE))
}

is_unpackaged <- function(x) is_closure(x) && !is_packaged(topenv(environment(x)))

# Whether one of the parts of the name before a dot is a generic function.
is_method <- function(name, env) {
  at <- gregexpr(".", name, fixed = TRUE)[[1L]]
  at <- at[at > 1L & at < nchar(name)]
  any(vapply(substring(name, 1L, at - 1L), is_generic, NA, env = env))
}

# Closures of base R whose methods compiled code looks for, and groups of generics.
generics_inside <- c(
  "as.environment", "as.vector", "cbind", "is.unsorted", "lengths", "nchar", "rbind", "rep.int", "rep_len",
  "unlist", "Ops", "Math", "Summary", "Complex", "matrixOps"
)

# One of a package that is not attached is called with its name, or by the package.
is_generic <- function(name, env) {
  if (name %in% generics_inside) {
    return(TRUE)
  }
  f <- tryCatch(get0(name, envir = env, mode = "function"), error = function(e) NULL)
  if (is.null(f)) {
    spaces <- Filter(function(space) exists(name, asNamespace(space), inherits = FALSE), loadedNamespaces())
    if (length(spaces) > 0L) f <- get(name, envir = asNamespace(spaces[[1L]]), inherits = FALSE)
  }
  is.primitive(f) || inherits(f, "standardGeneric") ||
    (is.function(f) && "UseMethod" %in% all.names(body(f)))
}

# What package methods calls a class, and the methods of a generic.
has_class_name <- function(names) startsWith(names, ".__C__") | startsWith(names, ".__T__")

has_classes <- function(names) any(has_class_name(as.character(names)))

class_functions <- function(class) {
  objects <- c(list(class@validity), attributes(class@prototype))
  if (inherits(class, "refClassRepresentation")) {
    objects <- c(objects, as.list(class@refMethods, all.names = TRUE), as.list(class@fieldPrototypes, all.names = TRUE))
  }
  unname(objects)
}

# What every R process attaches, in the order of its search path but for base, which is its end.
default_packages <- function() {
  c("base", "stats", "graphics", "grDevices", "utils", "datasets", "methods")
}

# What a task has of code: its own, and what is among its arguments and elements.
code_of <- function(replay) {
  X <- replay$X
  elements <- if (is.list(X) || is.expression(X)) {
    unname(as.list(X))
  } else if (is.object(X)) {
    list(X)
  } else if (is.character(X)) {
    list(unique(X))
  }
  given <- c(unname(replay$args), elements)
  given <- given[!vapply(given, is_empty_argument, NA)]
  symbols <- vapply(given, is.symbol, NA)
  c(list(replay$FUN), given[symbols | may_hold_code(given) | are_words(given)])
}
