# What the values of a map depend on, as keys: the function and what it uses, its arguments, its elements,
# methods of the workspace and settings of the session; and in words what of that has changed.

# Of an element, with the variables that are named in it. `search`: see key_context().
key_given <- function(x, search) {
  if (is.atomic(x) && !is.character(x) && is.null(attributes(x))) {
    return(key_of(x))
  }
  search_element(search, x)
}

# What the keys of a map's elements are made with.
key_context <- function(fun) new_search(if (is_looked_into(fun)) environment(fun) else globalenv())

is_looked_into <- function(fun) !is.primitive(fun) && !is_packaged(environment(fun))

# What the values of a map depend on but their elements, each as a key: `code` of the function, its further
# `arguments`, and by their names the `variables` that it uses, or that words name; the `packages` that have the others;
# `methods` and classes of the workspace, which are found by the classes of objects and not by names in code; `settings`
# that say what comes of a value.
key_parts <- function(fun, args) {
  fun <- key_unwrapped(fun)
  search <- key_context(fun)
  search$of_call <- TRUE
  found <- list()
  names <- if (is_looked_into(fun)) names_of(fun)
  place <- if (is.null(names) && !is.primitive(fun)) environmentName(environment(fun))
  parts <- search_through(search, function() {
    if (!is.null(names)) found <<- key_values(names, environment(fun))
    code <- function(seen) {
      if (!is.null(names)) key_words(names, environment(fun), seen)
      list(key_hidden(key_code(fun, seen), seen), key_marks(fun), rlang::hash(place))
    }
    search$scan <- FALSE # a method that is not called names nothing
    methods <- vapply(key_methods(), key_of, "", search)
    search$scan <- TRUE
    list(
      code = key_through(code, search),
      arguments = key_of(args, search),
      variables = vapply(found$values, key_of, "", search), packages = found$packages, methods = methods,
      settings = c(vapply(key_options(), key_of, "", search), vapply(key_settings(), key_of, ""))
    )
  })
  keys <- parts$keys
  keys$variables <- key_merged(c(keys$variables, parts$variables))
  keys
}

# One key for each name.
key_merged <- function(keys) {
  names <- as.character(names(keys))
  vapply(split(keys, names), function(some) if (length(some) == 1L) some[[1L]] else rlang::hash(unname(some)), "")
}

# Methods and classes that belong to no package.
key_methods <- function() {
  names <- sorted(workspace_methods(ls(globalenv(), all.names = TRUE, sorted = FALSE)))
  methods <- stats::setNames(lapply(names, get, envir = globalenv(), inherits = FALSE), names)
  tables <- startsWith(names, ".__T__") & vapply(methods, is.environment, NA)
  methods[tables] <- lapply(methods[tables], key_variables)
  given <- globalenv()[[search_table]] # for generics of the workspace
  c(methods, if (is.environment(given)) key_variables(given), lapply(registered_methods(), `[[`, "method"))
}

# What numbers, dates and strings become as text, and what models take for granted, which may be functions by their
# names.
key_options <- function() {
  names <- c(
    "OutDec", "contrasts", "digits", "digits.secs", "encoding", "na.action", "scipen", "stringsAsFactors", "ts.eps",
    "useFancyQuotes"
  )
  stats::setNames(lapply(names, getOption), names)
}

# How text is compared, what times are as text, and the kind of generator, which set.seed() in an element does not say.
key_settings <- function() {
  zone <- format(.POSIXct(seq(0, 2e9, length.out = 50L)), "%z %Z")
  c(as.list(settings_locale()), list(TZ = zone, RNGkind = rng_kind()))
}

# Which of them differ, in words; nothing if they are equal.
key_changes <- function(before, now) {
  named <- function(part, one, many) {
    names <- union(names(before[[part]]), names(now[[part]]))
    differs <- Filter(function(name) !identical(before[[part]][name], now[[part]][name]), names)
    if (part == "methods") differs <- unique(sub("^[.]__[CT]__([^:]*).*$", "\\1", differs))
    if (length(differs) > 0L) {
      paste(if (length(differs) == 1L) one else many, paste0("`", differs, "`", collapse = ", "))
    }
  }
  c(
    if (!identical(before$code, now$code)) "the code of the function",
    if (!identical(before$arguments, now$arguments)) "its further arguments",
    named("variables", "the variable", "the variables"),
    if (identical(before$code, now$code)) named("packages", "the package that has", "the packages that have"),
    named("methods", "the method or class of the workspace", "the methods or classes of the workspace"),
    named("settings", "the setting", "the settings")
  )
}
