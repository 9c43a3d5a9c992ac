# What the values of a map depend on, as keys: the function and what it uses, its arguments, its elements,
# methods of the workspace and settings of the session; and in words what of that has changed.

# Of an element, with the variables that are named in it. `search`: see key_context().
key_given <- function(x, search) {
  if (is.atomic(x) && !is.character(x) && is.null(attributes(x))) {
    return(key_of(x))
  }
  search_element(search, x)
}

# What the keys of a map's elements are made with. `shared`: the environments of the call, which key_parts() has met;
# `taken`: the `fields` of all code that it has.
key_context <- function(fun, shared = list(), taken = character()) {
  new_search(if (is_looked_into(fun)) environment(fun) else globalenv(), shared, taken)
}

is_looked_into <- function(fun) !is.primitive(fun) && !is_packaged(environment(fun))

# What the values of a map depend on but their elements, each as a key: `code` of the function, its further
# `arguments`, and by their names the `variables` that it uses, or that words name, `words` alone some of them; the
# `packages` that have the others; `methods` and classes of the workspace, which are found by the classes of objects and
# not by names in code; the `classes` of which packages that are loaded have methods; `settings` that say what comes of
# a value; `environments` of all these, and which of them are the same; and the `shape` of the calls in which elements
# are given to the function. `search$met` has the environments then.
key_parts <- function(fun, args, search = key_context(key_unwrapped(fun)), shape = "FUN(X[[i]], ...)") {
  fun <- key_unwrapped(fun)
  search$of_call <- TRUE
  found <- list()
  names <- if (is_looked_into(fun)) names_of(fun)
  parts <- search_through(search, function() {
    if (!is.null(names)) found <<- key_values(names, environment(fun), fun)
    code <- function(seen) {
      if (!is.null(names)) key_words(names, environment(fun), seen)
      if (!is.primitive(fun)) key_place(environment(fun), seen)
      # Code of a package is that of its name.
      list(key_hidden(key_code(fun, seen), seen), key_marks(fun), if (is.null(names)) key_package(fun))
    }
    search$scan <- FALSE # a method that is not called names nothing
    methods <- search_keys(search, key_methods())
    search$scan <- TRUE
    search$part <- "0code"
    code <- key_through(code, search)
    search$part <- "0arguments"
    list(
      code = code, arguments = key_of(args, search), variables = search_keys(search, found$values),
      packages = found$packages, methods = methods,
      settings = c(search_keys(search, key_options()), vapply(key_settings(), key_of, "")), shape = shape
    )
  })
  keys <- parts$keys
  keys$words <- setdiff(names(parts$variables), names(keys$variables))
  keys$variables <- key_merged(c(keys$variables, parts$variables))
  keys$environments <- search_graph(search)
  classes <- classes_in(list(args, found$values), search$classes)
  if (length(classes) > 0L) keys$classes <- stats::setNames(classes, classes)
  keys
}

key_package <- function(fun) if (!is.primitive(fun)) rlang::hash(environmentName(environment(fun)))

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
  c(as.list(settings_locale()), list(collation = settings_collation(), TZ = zone, RNGkind = rng_kind()))
}

# Of a variable, in words.
key_by_word <- "(as a word in strings or names that are used)"

# Which of them differ, in words; nothing if they are equal.
key_changes <- function(before, now) {
  named <- function(part, one, many) {
    names <- union(names(before[[part]]), names(now[[part]]))
    differs <- Filter(function(name) !identical(before[[part]][name], now[[part]][name]), names)
    if (part == "methods") differs <- unique(sub("^[.]__[CT]__([^:]*).*$", "\\1", differs))
    if (length(differs) > 0L) {
      quoted <- paste0("`", differs, "`")
      by_word <- part == "variables" & differs %in% now$words
      quoted[by_word] <- paste(quoted[by_word], key_by_word)
      quoted[differs == "0code"] <- "the function"
      quoted[differs == "0arguments"] <- "its arguments"
      paste(if (length(differs) == 1L) one else many, paste(quoted, collapse = ", "))
    }
  }
  changes <- c(
    if (!identical(before$shape, now$shape)) "how the function is called with its elements",
    if (!identical(before$code, now$code)) "the code of the function",
    if (!identical(before$arguments, now$arguments)) "its further arguments",
    named("variables", "the variable", "the variables"),
    if (identical(before$code, now$code)) named("packages", "the package that has", "the packages that have"),
    named("methods", "the method or class of the workspace", "the methods or classes of the workspace"),
    named("classes", "the methods that packages have for the class", "the methods that packages have for the classes"),
    named("settings", "the setting", "the settings")
  )
  # What has changed otherwise has other environments, too.
  if (length(changes) > 0L) {
    return(changes)
  }
  around <- "the environments, what is around them or which of them are the same, of"
  named("environments", around, around)
}
