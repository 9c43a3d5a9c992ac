# The error of an element. It is ours, with what we know of the element, and the user's own at the
# same time: the classes and fields of what the element has signalled are there as well, so that a
# handler for them fires. What the user's code has signalled, as it was, is the `parent`.

# `record` is what capture_error() made in the worker: condition, traceback and dump. A `class` in it says
# that the machinery has failed and not the user's code.
error_element <- function(record, index, name = NULL, pid = NA_integer_, try = 1L, call = NULL) {
  cnd <- new_error(
    c(record$class, "regatta_error_element"),
    failure_text(index, name, pid, try, failing_call(record$cnd), element_reason(record$cnd)),
    index = as.integer(index), name = name, pid = as.integer(pid), try = as.integer(try),
    body = c(
      format_innermost(record$trace, 10L), nested_calls(record$cnd), lost_fields(record$lost),
      unsent_variable(record$unsent, "the session's workspace"), unsent_attached(record$attached)
    ),
    trace = record$trace, parent = record$cnd, call = call
  )
  cnd["dump"] <- list(record$dump)
  with_users_own(cnd, record$cnd)
}

name_or_null <- function(name) {
  if (length(name) == 1L && !is.na(name) && nzchar(name)) name
}

failure_text <- function(index, name, pid, try, where, reason) {
  sprintf(
    "%s failed in worker %s%s%s: %s", format_element(index, name), format_pid(pid), format_try(try), where, reason
  )
}

# Of an error of a parallel call inside the element the one line that says what has failed; its calls
# come after those of the element, and what it advises is for the worker.
element_reason <- function(cnd) {
  if (inherits(cnd, "regatta_error_element")) cnd[["message"]] else message_of(cnd)
}

nested_calls <- function(cnd) {
  if (inherits(cnd, "regatta_error_element")) {
    sub("^Calls(?=[ ,])", sprintf("Calls in worker %s", format_pid(cnd$pid)), cnd$body, perl = TRUE)
  }
}

# `paths` say where in the condition, `cnd`, they stood.
lost_fields <- function(paths) {
  if (length(paths) > 0L) {
    sprintf(
      "NULL here, since it has no meaning outside the process of the worker: %s.",
      paste(paths, collapse = ", ")
    )
  }
}

# `of`: what of the session has the variable, in words.
unsent_variable <- function(name, of) {
  if (!is.null(name)) {
    sprintf(paste(
      "`%s` is a variable of %s that was not sent to the worker: code that is looked at",
      "before it runs does not show that it needs it. Name it in the code of the function, as by `force(%s)`,",
      "or give it to the function as a further argument, alone or in a list. `parallel::clusterExport()` does not",
      "help: what workers have under the name of a variable of the session does not count in a call."
    ), name, of, name)
  }
}

# `home` as attached_home() gives it.
unsent_attached <- function(home) {
  if (is.null(home) || !home$is_package) {
    return(if (!is.null(home)) unsent_variable(home$name, sprintf("\"%s\", which the session has attached,", home$of)))
  }
  sprintf(paste(
    "`%s` is of package %s, which the session has attached and the worker has not: code that is looked at before it",
    "runs does not show that it needs the package. Name it in the code of the function as `%s::%s`, or begin the",
    "function by `library(%s)`."
  ), home$name, home$of, home$of, home$name, home$of)
}

# As R puts it, but not where all that it says is that the element's function was called.
failing_call <- function(cnd) {
  call <- tryCatch(conditionCall(cnd), error = function(e) NULL)
  if (inherits(cnd, "regatta_error") || !is.call(call) || is_call_of_ours(call)) {
    return("")
  }
  sprintf(", in `%s`", format_call(call, 70L))
}

# The verbs call the user's function by these, and par_mapply() by the function itself.
is_call_of_ours <- function(call) {
  attributes(call) <- NULL
  own <- list(
    quote(FUN(X[[i]], ...)), quote(f(X[[start]], ...)), quote(f(X[[start + i]], ...)),
    quote(f(range, ...)), quote(f(shm_plain(x)[range], ...)),
    quote(f(shm_plain(x)[range], y, ...)), quote(f(shm_plain(x)[range], shm_plain(y)[range], ...)),
    quote(eval(code, env))
  )
  # A function in the place of its name is a symbol by now: see light_call().
  head <- call[[1L]]
  is_function <- is.function(head) || startsWith(as.character(head)[[1L]], "<function")
  is_function || any(vapply(own, identical, NA, call))
}

# Fields that ours and rlang's conditions have with a meaning of their own: the user's are at `parent`.
reserved_fields <- c(
  "message", "call", "parent", "trace", "body", "header", "footer", "rlang", "use_cli_format",
  "advice", "dump", "index", "name", "pid", "try"
)

# Our classes come first, so that our methods are called. Classes of ours among the user's are those
# of an error of a call inside the element; they would say that this one is a death, say.
with_users_own <- function(cnd, user) {
  if (isS4(user) || !is.list(user) && !is.environment(user)) {
    return(cnd)
  }
  theirs <- grep("^regatta_", class(user), value = TRUE, invert = TRUE)
  base <- c("rlang_error", "error", "condition")
  class <- c(setdiff(class(cnd), base), setdiff(theirs, base), base)
  # A field of an environment may be a promise, or be made by a function, and fail.
  user <- if (is.list(user)) unclass(user) else tryCatch(as.list.environment(user), error = function(e) list())
  fields <- setdiff(names(user), c("", reserved_fields))
  cnd <- unclass(cnd)
  cnd[fields] <- user[fields]
  structure(cnd, class = class)
}

# The error of a call that a neighbour has made for its user, who knows it as `unit` and not as an element. Which run
# par_last() has when the user reads this is not known.
with_unit <- function(cnd, unit) {
  cnd$message <- sub(format_element(1L), unit, cnd$message, fixed = TRUE)
  cnd["index"] <- cnd["advice"] <- list(NULL)
  cnd
}

# What to do next, in words that can be pasted; for the error that ends a call, when par_last() is the
# record of that call. `file` is where the dump was written, if anywhere.
with_advice <- function(cnd, file = NULL) {
  about <- if (inherits(cnd, "regatta_error_elements")) cnd$errors[[1L]] else cnd
  cnd$advice <- c(advise_replay(about), advise_debugger(about, file))
  cnd
}

# Not after a death, which would be the session's.
advise_replay <- function(cnd) {
  what <- if (inherits(cnd, "regatta_error_element")) {
    "Run it again here: "
  } else if (inherits(cnd, "regatta_error_timeout") && cnd$kind != "memory") {
    "Run it again here, without a limit: "
  }
  if (!is.null(what)) {
    sprintf("%s%s(%s, %.0f)", what, ours("par_replay"), ours("par_last()"), cnd$index)
  }
}

advise_debugger <- function(cnd, file = NULL) {
  debugger <- if ("package:utils" %in% search()) "debugger" else "utils::debugger"
  if (!is.null(file)) {
    return(sprintf("Look at its variables: %s(readRDS(%s))", debugger, quoted(file)))
  }
  if (is.null(cnd[["dump"]])) {
    return(NULL)
  }
  c(
    sprintf("Look at its variables: %s(%s$dump)", debugger, ours("par_last()")),
    if (!interactive()) {
      "(It needs a prompt: `par_control(dump_file = \"last.dump.rds\")` keeps them for a later session.)"
    }
  )
}

# The name of an export as it can be typed now.
ours <- function(name) {
  if ("package:regatta" %in% search()) name else paste0("regatta::", name)
}
