# What the values of a map depend on, as keys: the function and what it uses, its arguments, its elements,
# methods of the workspace and settings of the session; and in words what of that has changed.

# Of an element or an argument, of which code is evaluated, and strings may be the names of functions, where the
# function of the map is. `context`: see key_context().
key_given <- function(x, context) {
  if (is.atomic(x) && !is.character(x)) {
    return(key_of(x, context$words))
  }
  parts <- if (is.list(x) && !is.object(x) && length(x) <= 100L) x else list(x)
  names <- do.call(c, lapply(unname(parts), function(part) {
    if (is.character(part)) {
      strings <- if (length(part) <= 10L) key_existing(part[!is.na(part)], context$env)
      if (length(strings) > 0L) list(strings = strings)
    } else if (is.language(part) && is_bare_code(part) && !is_empty_argument(part)) {
      names_of(part)
    }
  }))
  if (is.null(names)) {
    return(key_of(x, context$words))
  }
  kind_of <- function(kind) unlist(names[names(names) == kind])
  kinds <- sapply(c("values", "functions", "strings", "words"), kind_of, simplify = FALSE)
  used <- key_values(kinds[names(kinds) != "words"], context$env)
  key_of(if (length(used) > 0L) list(x, used) else x, c(context$words, kinds$words))
}

# Where code that is given to the function of a map finds variables, and the names for which it looks in environments;
# with the names in the function, unless a package has it.
key_context <- function(fun) {
  if (is.primitive(fun) || is_packaged(environment(fun))) {
    return(list(env = globalenv()))
  }
  names <- names_of(fun)
  list(env = environment(fun), words = names$words, names = names)
}

# What the values of a map depend on but their elements, each as a key: `code` of the function, its further
# `arguments`, and by their names the `variables` that it uses; `methods` and classes of the workspace, which are
# found by the classes of objects and not by names in code; `settings` that say what comes of a value.
key_parts <- function(fun, args) {
  fun <- key_unwrapped(fun)
  context <- key_context(fun)
  own <- !is.null(context$names)
  place <- if (!own && !is.primitive(fun)) environmentName(environment(fun))
  code <- function(seen) list(key_code(fun, seen), key_marks(fun), place)
  variables <- if (own) key_values(context$names, environment(fun)) else list()
  list(
    code = key_through(code, context$words),
    arguments = key_of(list(names(args), vapply(args, key_given, "", context, USE.NAMES = FALSE))),
    variables = vapply(variables, key_of, "", context$words), methods = vapply(key_methods(), key_of, ""),
    settings = vapply(key_settings(), key_of, "")
  )
}

# Methods and classes that belong to no package.
key_methods <- function() {
  names <- sort(workspace_methods(ls(globalenv(), all.names = TRUE, sorted = FALSE)), method = "radix")
  methods <- stats::setNames(lapply(names, get, envir = globalenv(), inherits = FALSE), names)
  tables <- startsWith(names, ".__T__") & vapply(methods, is.environment, NA)
  methods[tables] <- lapply(methods[tables], key_variables)
  c(methods, lapply(registered_methods(), `[[`, "method"))
}

# What numbers, dates and strings become as text, how text is compared, what models take for granted, and the kind
# of generator, which set.seed() in an element does not say.
key_settings <- function() {
  names <- c(
    "OutDec", "contrasts", "digits", "digits.secs", "encoding", "na.action", "scipen", "stringsAsFactors", "ts.eps",
    "useFancyQuotes"
  )
  zone <- format(.POSIXct(seq(0, 2e9, length.out = 50L)), "%z %Z")
  c(stats::setNames(lapply(names, getOption), names), as.list(settings_locale()), list(TZ = zone, RNGkind = rng_kind()))
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
    named("methods", "the method or class of the workspace", "the methods or classes of the workspace"),
    named("settings", "the setting", "the settings")
  )
}
