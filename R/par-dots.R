# Settings of the call that would go to the user's function, since their names have no dot before them
# or are those of another package.

# `args` are those after FUN, as a list; `name` is what the verb calls the function.
check_dots <- function(args, FUN, name = "FUN", call = rlang::caller_call()) {
  given <- names(args)
  if (is.null(given)) {
    return(invisible())
  }
  # NULL for `[` and its kind, which tell nobody what they take.
  shown <- base::args(FUN)
  taken <- if (is.function(shown)) names(formals(shown))
  open <- is.null(taken) || "..." %in% taken
  before <- if (open) taken[seq_len(match("...", taken, 1L) - 1L)] else taken
  for (i in which(is_setting(given) & !given %in% taken & is.na(pmatch(given, before)))) {
    if (!open) {
      abort_setting(given[[i]], args[[i]], name, call)
    } else if (is_surely_setting(given[[i]], args[[i]])) {
      warning(warning_setting(given[[i]], args[[i]], name))
    }
  }
}

# Functions of base R that look their further arguments up in the data, as code. What is evaluated before has the
# values of the caller's variables there, without an error if there are some of the names of columns.
check_code <- function(FUN, call = rlang::caller_call()) {
  if (!identical(environment(FUN), .BaseNamespaceEnv)) {
    return(invisible())
  }
  takers <- c("subset", "transform", "with", "within")
  taker <- takers[vapply(takers, function(name) identical(FUN, baseenv()[[name]]), NA)]
  if (length(taker) == 0L) {
    return(invisible())
  }
  given <- as.list(substitute(list(...), parent.frame()))[-1L]
  code <- Filter(function(code) length(all.vars(code)) > 0L, given)
  if (length(code) > 0L) {
    shown <- shorten(deparse1(code[[1L]]), 60L)
    signal_error(new_error(
      "regatta_error_argument",
      sprintf(
        "`%s()` looks up `%s` in each element, but further arguments are evaluated once, before the workers start.",
        taker, shown
      ),
      argument = "...", value = code[[1L]], call = call, body = sprintf(
        "Write it within a function: `function(x) %s(x, %s)`.", taker,
        if (nzchar(rlang::names2(code)[[1L]])) paste(names(code)[[1L]], "=", shown) else shown
      )
    ))
  }
}

is_setting <- function(name) {
  control <- setdiff(names(formals(par_control)), "...")
  name %in% c(control, setting_workers, setting_places, "control") |
    grepl("^([.]|mc[.]|future[.])", name)
}

# A function that hands its `...` on may know some of these names.
is_surely_setting <- function(name, value) {
  name %in% setting_workers || grepl("^(mc|future)[.]", name) ||
    inherits(value, "regatta_control") || is_place(value)
}

setting_advice <- function(name, value) {
  shown <- if (is.atomic(value) && length(value) == 1L) deparse1(value) else "..."
  plain <- sub("^[.]", "", name)
  if (name %in% setting_workers) {
    sprintf("`.control = par_control(workers = %s)`", shown)
  } else if (plain %in% names(formals(par_control))) {
    sprintf("`.control = par_control(%s = %s)`", plain, shown)
  } else if (name == "control") {
    "`.control = par_control(...)`"
  } else if (name %in% setting_places) {
    sprintf("`.on = %s`", if (shown == "...") shown_place else shown)
  } else {
    "`.on` or in `.control = par_control(...)`, see `?par_control`"
  }
}

# R takes the beginning of the name of an argument for that argument, if it stands before `...`: what the function of the
# user calls `i` would be `init`. `given` are the names in the call, `before` such arguments.
check_beginnings <- function(given, before, FUN, name, call = rlang::caller_call()) {
  for (short in setdiff(intersect(given, names(formals(args(FUN)))), c("", before))) {
    whole <- before[startsWith(before, short)]
    if (length(whole) == 1L) {
      signal_error(new_error(
        "regatta_error_argument",
        sprintf("`%s` is an argument of `%s`, and the beginning of the name `%s`: R takes it for that.", short, name, whole),
        argument = short, value = NULL, call = call,
        body = sprintf("Give it in a function of your own: `function(x) %s(x, %s = ...)`.", name, short)
      ))
    }
  }
}

abort_setting <- function(name, value, fun, call) {
  signal_error(new_error(
    "regatta_error_argument",
    sprintf("`%s` has no argument `%s`. As a setting of the call it is %s.", fun, name,
      setting_advice(name, value)),
    argument = name, value = value, call = call
  ))
}

warning_setting <- function(name, value, fun) {
  new_warning("regatta_warning_argument", sprintf(
    "`%s` goes to `%s`, through its `...`. As a setting of the call it is %s.", name, fun,
    setting_advice(name, value)
  ), argument = name)
}
