# What code can see of a session beside variables and packages: options, environment variables, working
# directory, library paths, locale, umask. Workers that do not inherit the session get for a map what is not as
# they have it, and are put back after it. That nothing has changed is seen without looking at each value.

# `whole`: with options too that have functions of the session or environments, which would be held.
settings_take <- function(whole) {
  list(
    options = options_take(whole), environment = .Call(ffi_settings_environment),
    dir = getwd(), lib = .libPaths(), locales = Sys.getlocale(), locale = settings_locale(),
    collation = settings_collation(), umask = Sys.umask(NA)
  )
}

options_take <- function(whole = TRUE) .Call(ffi_settings_options, .Options, whole)

settings_same <- function(before) {
  .Call(ffi_settings_options_same, .Options, before$options) &&
    identical(.Call(ffi_settings_environment), before$environment) && identical(getwd(), before$dir) &&
    identical(.libPaths(), before$lib) && identical(Sys.getlocale(), before$locales) &&
    identical(settings_collation(), before$collation) && identical(Sys.umask(NA), before$umask)
}

# For what is called with nearly all nested calls made that options(expressions = ) allows: `code` has room for those of
# the package, which are up to some hundred, and so have workers that are forked or told of the options meanwhile.
with_calls <- function(code) {
  limit <- getOption("expressions")
  if (limit - Cstack_info()[["eval_depth"]] < own_calls) {
    raised <- as.integer(min(limit + own_calls, 5e5)) # R allows no more
    options(expressions = raised)
    # Unless `code` has set it.
    on.exit(if (getOption("expressions") == raised) options(expressions = limit))
  }
  code
}

own_calls <- 1000

# Those of which what R code computes can depend.
settings_locale <- function() {
  c(
    LC_CTYPE = Sys.getlocale("LC_CTYPE"), LC_COLLATE = Sys.getlocale("LC_COLLATE"),
    LC_MONETARY = Sys.getlocale("LC_MONETARY"), LC_TIME = Sys.getlocale("LC_TIME")
  )
}

# How ICU compares strings, where R has it: by the rules of which locale, "ASCII", or one of without_icu if the C
# library compares them. R begins to use ICU with the first comparison.
settings_collation <- function() {
  if (has_icu) {
    unlike[[1L]] < unlike[[2L]]
    icuGetCollate()
  }
}

# Not as constants in code, which R compares once, when it compiles that.
unlike <- c("a", "B")

without_icu <- c("ICU not in use", "unknown")

has_icu <- capabilities("ICU")[[1L]]

# By the default of the locale if that has the same rules. NULL: R has no ICU there.
set_collation <- function(collation) {
  chosen <- if (any(collation %in% without_icu)) "none" else collation
  for (locale in if (!is.null(collation)) c("default", chosen)) {
    if (identical(settings_collation(), collation)) break
    suppressWarnings(icuSetCollate(locale = locale))
  }
}

# What the settings of the session are compared with, for workers that have had them as the session had when this was
# called. An environment, since what was found is remembered.
settings_base <- function() {
  base <- new.env(parent = emptyenv())
  base$settings <- settings_take(whole = FALSE)
  base$environment <- base$settings$environment
  base$had <- environment_variables(base$environment)
  base$variables <- character()
  base$seen <- base$settings$options
  base$options <- options_sent(base$seen)
  base
}

# For settings_set() and session_options() in a worker: all options that it can have, the names of the others, and of
# the rest what it has to change to be as the session was when `now` was taken. What is not on this machine has
# directories, variables and locales of its own.
settings_since <- function(base, near, now = settings_take(whole = FALSE)) {
  if (!identical(now$options, base$seen)) {
    base$seen <- now$options
    base$options <- options_sent(base$seen)
  }
  changed <- list(options = base$options, unsent = setdiff(names(base$seen), names(base$options)))
  if (!near) {
    return(changed)
  }
  before <- base$settings
  if (!identical(now$dir, before$dir)) changed$dir <- now$dir
  if (!identical(now$lib, before$lib)) changed$lib <- now$lib
  if (!identical(now$locales, before$locales)) changed$locale <- now$locale
  # It goes with the locale, and "ASCII" is what no process begins with.
  if (!identical(now$locales, before$locales) || !identical(now$collation, before$collation) ||
    identical(now$collation, "ASCII")) {
    changed$collation <- now$collation
  }
  if (!identical(now$umask, before$umask)) changed$umask <- now$umask
  if (!identical(now$environment, base$environment)) {
    base$environment <- now$environment
    base$variables <- environment_changes(base$had, environment_variables(now$environment))
  }
  if (length(base$variables) > 0L) changed$variables <- base$variables
  changed
}

# By name, of the bytes that the system keeps, which need not be valid in any encoding: in this one all are.
environment_variables <- function(bytes) {
  entries <- readBin(bytes, "character", n = sum(bytes == 0L))
  Encoding(entries) <- "latin1"
  at <- regexpr("=", entries, fixed = TRUE)
  parts <- c(substring(entries, at + 1L), substring(entries, 1L, at - 1L))
  Encoding(parts) <- "unknown"
  stats::setNames(utils::head(parts, length(entries)), utils::tail(parts, length(entries)))
}

# Settings that are of one call and of none inside of its elements: a number of workers for each worker would be too
# many, the order is that of other elements, these count in the progress of the call, and it holds the files.
settings_of_call <- c("workers", "priority", "progress", "dump_file", "checkpoint")

# The option regatta.control of a session as calls inside of elements find it.
control_within <- function(control) {
  if (inherits(control, "regatta_control")) control[settings_of_call] <- list(NULL)
  control
}

# Options that are about the process that has them.
options_of_process <- c(
  "browser", "continue", "device", "echo", "editor", "error", "mc.cores", "pager", "prompt", "regatta.dump_file",
  "regatta.fork", "regatta.on"
)

# Those that mean the same in another process, as they are sent there. What options_take() has left out is NULL.
options_sent <- function(options) {
  options <- options[!names(options) %in% options_of_process]
  options$regatta.control <- control_within(options$regatta.control)
  sent <- lapply(options, as_sent)
  sent[!vapply(sent, is.null, NA)]
}

# Data, and functions of R's own packages, also within lists; NULL for all else.
as_sent <- function(x) {
  if (is.function(x)) {
    return(function_sent(x))
  }
  if (!is.null(attributes(x)) && !all(vapply(attributes(x), is_plain, NA))) {
    return(NULL)
  }
  if (is.atomic(x)) {
    return(x)
  }
  if (typeof(x) != "list") {
    return(NULL)
  }
  parts <- lapply(unclass(x), as_sent)
  if (any(vapply(parts, is.null, NA) & !vapply(unclass(x), is.null, NA))) {
    return(NULL)
  }
  attributes(parts) <- attributes(x)
  parts
}

# In the namespace itself: of frames around it, as of the call that has made it, it uses nothing. R's option `str` has
# such a function.
function_sent <- function(f) {
  if (is.primitive(f)) {
    return(f)
  }
  used <- setdiff(all.names(as.call(c(body(f), unname(formals(f)))), unique = TRUE), names(formals(f)))
  home <- environment(f)
  while (!is_packaged(home)) {
    if (identical(home, globalenv()) || identical(home, emptyenv()) || any(used %in% names(home))) {
      return(NULL)
    }
    home <- parent.env(home)
  }
  if (environmentName(home) %in% default_packages() && !isS4(f)) {
    f <- utils::removeSource(f)
    environment(f) <- home
    if (is.null(attributes(f)) || all(vapply(attributes(f), is_plain, NA))) f
  }
}

is_plain <- function(x) {
  plain <- is.null(x) || is.atomic(x) || (typeof(x) == "list" && all(vapply(unclass(x), is_plain, NA)))
  plain && (is.null(attributes(x)) || all(vapply(attributes(x), is_plain, NA)))
}

# What makes the named list `to` of `from`; NULL for what is to go.
changes <- function(from, to) {
  names <- unique(c(names(from), names(to)))
  same <- vapply(names, function(name) identical(from[[name]], to[[name]]), NA)
  names <- names[!same]
  stats::setNames(lapply(names, function(name) to[[name]]), names)
}

# For restore_env().
environment_changes <- function(from, to) {
  names <- unique(c(names(from), names(to)))
  names <- names[!grepl("^(REGATTA_|R_SESSION_TMPDIR$)", names)]
  from <- stats::setNames(from[names], names)
  to <- stats::setNames(to[names], names)
  to[!mapply(identical, from, to)]
}

# In a worker: all but the options, which may depend on what is loaded.
settings_set <- function(changed) {
  if (!is.null(changed$variables)) restore_env(changed$variables)
  if (!is.null(changed$lib)) .libPaths(changed$lib, include.site = FALSE)
  if (!is.null(changed$locale)) set_locale(changed$locale)
  if (!is.null(changed$collation)) set_collation(changed$collation)
  if (!is.null(changed$umask)) Sys.umask(changed$umask)
  if (!is.null(changed$dir) && !enter_directory(changed$dir)) {
    stop(sprintf("it cannot go to the working directory of the session, %s", quoted(changed$dir)))
  }
}

enter_directory <- function(dir) {
  tryCatch(
    {
      setwd(dir)
      TRUE
    },
    error = function(e) FALSE
  )
}

set_locale <- function(locale) {
  for (category in names(locale)) {
    if (Sys.getlocale(category) != locale[[category]]) {
      suppressWarnings(Sys.setlocale(category, locale[[category]]))
    }
  }
}

# In a worker: for a call each of the session's options is as there, whoever has set it here, and those that the worker
# was started with are gone if they are there. Others are the worker's own, and so are those that could not be sent.
session_options <- function(settings) {
  theirs <- settings$options
  own <- options_take()
  own <- own[intersect(union(names(theirs), setdiff(the$options_given, settings$unsent)), names(own))]
  holds <- !vapply(own, is.atomic, NA)
  own[holds] <- lapply(own[holds], function(value) {
    sent <- as_sent(value) # to compare it: functions with the same environment
    if (is.null(sent)) value else sent
  })
  if (!identical(own, theirs)) set_options(changes(own, theirs)) # mostly they are the same
}

set_options <- function(values) {
  for (name in names(values)) {
    tryCatch(suppressWarnings(options(values[name])), error = function(e) NULL)
  }
}

# What has come with packages that were `loaded` meanwhile stays: they may need it.
settings_restore <- function(before, loaded) {
  # Not looked for where nothing has changed: it takes long.
  delayedAssign("words", as.character(unique(unlist(lapply(loaded, words_of_loading)))))
  if (!.Call(ffi_settings_options_same, .Options, before$options)) {
    back <- changes(options_take(), before$options)
    set_options(back[names(back) %in% names(before$options) | !names(back) %in% words])
  }
  if (!identical(.Call(ffi_settings_environment), before$environment)) {
    .Call(ffi_settings_environment_reset, before$environment, words)
  }
  if (!identical(.libPaths(), before$lib)) .libPaths(before$lib, include.site = FALSE)
  if (!identical(Sys.getlocale(), before$locales)) set_locale(before$locale)
  set_collation(before$collation)
  Sys.umask(before$umask)
  if (!is.null(before$dir) && !identical(getwd(), before$dir)) enter_directory(before$dir)
}

# Strings and names of arguments in the code that a package has run when it was loaded: what it may have set is
# among them.
words_of_loading <- function(package) {
  space <- asNamespace(package)
  words <- seen <- character()
  to_see <- c(".onLoad", ".onAttach")
  while (length(to_see) > 0L) {
    seen <- c(seen, to_see)
    found <- mget(to_see, envir = space, ifnotfound = list(NULL))
    code <- Filter(is_closure, found)
    words <- c(words, unlist(lapply(code, words_of)), unlist(lapply(found, names)))
    used <- unlist(lapply(code, function(f) all.names(body(f), unique = TRUE)))
    to_see <- intersect(setdiff(used, seen), names(space))
  }
  unique(words)
}

is_closure <- function(x) typeof(x) == "closure"

words_of <- function(code) {
  if (is_closure(code)) code <- list(as.list(formals(code)), body(code)) # whatever class it is of
  if (is.character(code)) {
    code
  } else if (is.call(code) || is.pairlist(code) || is.expression(code) || typeof(code) == "list") {
    parts <- as.list(code)
    parts <- parts[!vapply(parts, is_empty_argument, NA)]
    c(names(parts), unlist(lapply(parts, words_of)))
  }
}

# How the process stands, taken anew if it was changed.
settings_known <- function() {
  if (is.null(the$settings) || !settings_same(the$settings)) the$settings <- settings_take(whole = TRUE)
  the$settings
}

# Environment variables as Sys.getenv(names, NA, names = TRUE) has found them before.
restore_env <- function(old) {
  set <- old[!is.na(old)]
  Sys.unsetenv(names(old)[is.na(old)])
  if (length(set) > 0L) do.call(Sys.setenv, as.list(set))
}
