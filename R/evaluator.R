# The R half of the evaluator: the loop over elements in a worker and the handlers that see to it
# that whatever an element signals arrives in the parent. It does not know which executor runs it.

# What the current worker is doing: `depth`, the number of the loop's frame; `step`, the frame that an element
# leaves when it fails; `detailed`, how many errors it has described in full; `like`, the trace that the last
# error had, and what it was made of (see error_key()); `told`, how many such it has sent; `control`, the
# settings of the run; `muffle`, whether messages and warnings end once they are noted; `messages_to`, the
# connection that messages went to when the elements began; `session`, whether the worker is the session itself,
# so that an interrupt is the user's; `record`, an error that has been described and not yet sent; `unsent`,
# names of variables that the session has and the worker was not given; `outer`, see outer_calls(); `said`, R's last
# error when a forked worker began; `loaded`, the packages of which tell_loaded() has nothing to tell; `warn`, the
# option of that name as the session has it; `warned`, how many warnings were described that may become errors.
evaluator <- new.env(parent = emptyenv())

# Every one of the first errors of a worker brings locals and a dump, later ones the traceback only:
# a run in which everything fails must not take longer than one in which nothing does.
detailed_errors_max <- 10L

# Called as in lapply(): what sys.call() and substitute() show to FUN is the same here, and what it finds from where it
# is called. The names before `...` are such that no argument of the user's can be taken for one of them.
evaluate_lapply <- function(`*X*`, `*FUN*`, ...) {
  X <- `*X*`
  FUN <- `*FUN*`
  .rg_run(quote(forceAndCall(1, FUN, X[[i]], ...)), environment())
}
environment(evaluate_lapply) <- caller_home

evaluate_run <- function(call, env) {
  evaluator$depth <- sys.nframe()
  .Call(ffi_evaluator_run, call, env)
}
assign(".rg_run", evaluate_run, envir = caller_home)

# Environment variables as Sys.getenv(names, NA, names = TRUE) has found them before.
restore_env <- function(old) {
  set <- old[!is.na(old)]
  Sys.unsetenv(names(old)[is.na(old)])
  if (length(set) > 0L) do.call(Sys.setenv, as.list(set))
}

# Once in a worker, before the first element of a run and with the session's options.
evaluate_begin <- function(control, seed, muffle = c(message = TRUE, warning = TRUE)) {
  evaluator$control <- control
  evaluator$detailed <- 0L
  evaluator$record <- evaluator$like <- evaluator$outer <- NULL
  evaluator$told <- 0L
  evaluator$muffle <- muffle
  evaluator$session <- FALSE
  evaluator$expressions <- getOption("expressions")
  evaluator$warn <- getOption("warn")
  evaluator$warned <- 0L
  .Call(ffi_evaluator_begin, list(
    seed, control$retries > 0, control$retry_seed == "new", control$max_conditions
  ))
}

# Called from C before a value of a class is sent that no value before was of: the session is told of the methods in
# namespaces that were loaded meanwhile, once, and loads these where a value needs them.
tell_loaded <- function() {
  new <- setdiff(loadedNamespaces(), c(default_packages(), "regatta", evaluator$loaded))
  evaluator$loaded <- c(evaluator$loaded, new)
  homes <- homes_of_methods(new)
  if (length(homes$class) > 0L) {
    homes$paths <- package_libraries(unique(homes$package))
    .Call(ffi_evaluator_note, structure(
      list(message = "", call = NULL, homes = homes), class = c("regatta_loaded", "condition")
    ))
  }
}

# The channel of the evaluator as R functions (see src/evaluator-channel.c):
#   take()   the next element and which try of it that is, c(element, try); NULL: there is none now
#   tell(type, index, try, kind, times, payload)   a record: `type` and `kind` are numbers, see
#            evaluate_event(); `times` start and end of an element that has ended
#   cancelled(element)   whether the driver has asked for an interrupt of it; NA: of an element before; NULL: it
#            never has
# Payloads are encoded values (raw) or, with `settle`, the R objects themselves: c(copy, region), whether all shared
# arrays in them become ordinary vectors, and the number of the last region of which they do not.
evaluate_through <- function(take, tell, cancelled = NULL, settle = NULL) {
  .Call(ffi_evaluator_channel, list(take, tell, cancelled, settle, numeric(2L)))
}

# A record as an event of R/executor.R. `value(payload)` makes an R object of a payload. Ends are of
# one element.
evaluate_event <- function(worker, type, index, try, kind, times, payload, value = identity) {
  kinds <- c("message", "warning", "condition")
  ended <- function(...) {
    list(
      type = "ended", worker = worker, index = index, try = try, start = times[[1L]],
      end = times[[2L]], bytes = if (is.raw(payload)) as.double(length(payload)) else 0, ...
    )
  }
  switch(c("value", "error", "condition", "suppressed", "output")[[type]],
    value = ended(values = list(value(payload))),
    error = {
      told <- value(payload)
      if (is.character(told)) ended(alike = list(told)) else ended(error = told)
    },
    condition = list(type = "condition", index = index, kind = kinds[[kind + 1L]], cnd = list(value(payload))),
    suppressed = list(type = "suppressed", index = index, kind = kinds[[kind + 1L]], count = payload),
    output = event_output(index, c("stdout", "stderr")[[kind + 1L]], payload)
  )
}

# What one element has written; `text` is raw.
event_output <- function(index, stream, text) {
  list(type = "output", index = index, stream = stream, size = length(text), text = text)
}

# Ends of single elements among events as one event, which comes last.
join_ends <- function(events) {
  is_value <- vapply(events, function(event) !is.null(event[["values"]]), NA)
  # What a worker has told must not come after its end.
  left <- vapply(events, function(event) event$type == "left", NA)
  if (sum(is_value) < 2L || any(left)) {
    return(events)
  }
  ends <- events[is_value]
  columns <- c("worker", "index", "try", "start", "end", "bytes", "values")
  joined <- lapply(columns, function(column) unlist(lapply(ends, `[[`, column), recursive = FALSE))
  names(joined) <- columns
  c(events[!is_value], list(c(list(type = "ended"), joined)))
}

# For a process that runs elements while it may be at an element already: the evaluator is as it was
# when `code` has been evaluated.
evaluate_nested <- function(code) {
  before <- as.list(evaluator, all.names = TRUE)
  .Call(ffi_evaluator_push)
  on.exit({
    .Call(ffi_evaluator_pop)
    rm(list = ls(evaluator, all.names = TRUE), envir = evaluator)
    list2env(before, envir = evaluator)
  })
  code
}

# Whether the element has sink() or capture.output() take its messages, which are then not for the session: R writes
# them there, and warnings if it writes these at once.
takes_messages <- function() sink.number(type = "message") != evaluator$messages_to

takes_warnings <- function() getOption("warn") == 1 && takes_messages()

# `loop` runs elements until there are no more. After an element's error it is entered again, unless that leads nowhere:
# the error is then not the element's but that of what sees to it, and the next would be the same.
evaluate_all <- function(loop, messages_to = sink.number(type = "message")) {
  evaluator$messages_to <- messages_to
  done <- FALSE
  while (!done) {
    done <- tryCatch(
      withCallingHandlers(evaluate_on(loop), condition = handle_condition),
      error = handle_overflow
    )
    if (.Call(ffi_evaluator_is_stuck)) stop_stuck()
  }
}

stop_stuck <- function() {
  last <- evaluator$record
  why <- if (is.list(last)) message_of(last$cnd) else geterrmessage()
  stop("the worker cannot report how an element has ended: ", why, call. = FALSE)
}

# The handlers stay where they are when an element fails: they cost more than most elements.
evaluate_on <- function(loop) {
  step <- function() {
    evaluator$step <- environment()
    if (.Call(ffi_evaluator_is_stuck)) {
      return(TRUE)
    }
    send_kept()
    loop()
    TRUE
  }
  steps <- function() {
    while (!step()) next
    TRUE
  }
  if (evaluator$session) {
    return(steps())
  }
  # What R has of that name leaves the worker's loop as well.
  jumped <- function(...) {
    keep_jump()
    FALSE
  }
  while (!withRestarts(steps(), abort = jumped)) next
  TRUE
}

# From a handler of an error, which has been described: its element is left, and the next one begins. A restart would
# do the same for several times the price.
leave_element <- function() do.call("return", list(FALSE), envir = evaluator$step)

handle_condition <- function(cnd) {
  if (.Call(ffi_evaluator_is_copy)) {
    return(invisible()) # as in any process that package parallel has forked
  }
  signaller <- sys.nframe() - 1L
  if (inherits(cnd, "error")) {
    if (is_only_signalled(signaller)) {
      send_condition(cnd, evaluator$control$conditions, 2L)
      leave_signal(sys.frame(signaller))
    }
    handle_error(cnd)
  } else if (is_stopped(signaller)) {
    handle_error(as_error(cnd))
  } else if (inherits(cnd, "regatta_no_console")) {
    handle_error(cnd$error)
  } else if (inherits(cnd, "interrupt")) {
    handle_interrupt(cnd, signaller)
  } else if (.Call(ffi_encode_is_writing)) {
    muffle_warning(cnd)
  } else {
    switch(signalled_as(cnd, signaller),
      warning = if (!takes_warnings()) handle_warning(cnd),
      message = if (!takes_messages()) {
        send_condition(cnd, evaluator$control$messages, 0L)
        if (evaluator$muffle[["message"]]) tryInvokeRestart("muffleMessage")
      },
      condition = send_condition(cnd, evaluator$control$conditions, 2L)
    )
  }
}

# "warning", "message" or "condition": its class says so, unless it is signalled by signalCondition(). Then it is what
# the restart for it says that somebody offers: message() may be given a warning, and without one nothing would be shown.
# `frame` is the one that called the handler.
signalled_as <- function(cnd, frame) {
  kind <- if (inherits(cnd, "warning")) "warning" else if (inherits(cnd, "message")) "message" else "condition"
  if (kind == "condition" || frame < 1L || !identical(sys.function(frame), signalCondition)) {
    return(kind)
  }
  if (kind == "message" && identical(sys.function(sys.parents()[[frame]]), message)) {
    return(kind)
  }
  offered <- vapply(computeRestarts(), `[[`, "", 1L)
  c(names(muffled_by)[muffled_by %in% offered], "condition")[[1L]]
}

muffled_by <- c(message = "muffleMessage", warning = "muffleWarning")

# signalCondition() of an error ends nothing by itself: if no handler takes it the code goes on. Those outside the
# call are asked as for any other condition.
# `frame` is the one that called the handler. rlang signals so what it is about to stop() with.
is_only_signalled <- function(frame) {
  frame > 1L && identical(sys.function(frame), signalCondition) &&
    !identical(topenv(environment(sys.function(frame - 1L))), asNamespace("rlang"))
}

# stop() of what is no error, such as a warning that a handler was given: after the handlers, which have all been
# asked now, R would leave for the top level.
is_stopped <- function(frame) frame > 0L && identical(sys.function(frame), stop)

# Without the classes of what code goes on after, so that no handler outside the call takes it for such.
as_error <- function(cnd) {
  passing <- c("simpleWarning", "warning", "simpleMessage", "message", "interrupt", "simpleCondition", "condition")
  simple <- simpleError(message_of(cnd), or_else(conditionCall(cnd), NULL))
  class(simple) <- unique(c(setdiff(class(cnd), passing), class(simple)))
  simple
}

# Lets that signalCondition() return: the exiting handler of evaluate_all() would take the signal
# for an error.
leave_signal <- function(frame) {
  do.call("return", list(NULL), envir = frame)
}

# Handlers come before options(warn = ), and those outside the call are in the session: what becomes of a warning
# is decided there. It goes with the element's own option, if the element has set one. Only where the element itself
# asks for errors R makes one here, which it does after its handlers.
handle_warning <- function(cnd) {
  warn <- getOption("warn")
  muffle <- evaluator$muffle[["warning"]]
  own <- !identical(as.numeric(warn), as.numeric(evaluator$warn))
  if (warn >= 2 && (own || !muffle)) {
    return(invisible())
  }
  mode <- evaluator$control$warnings
  fate <- if (own) {
    list(warn = warn)
  } else if (warn >= 2 && mode == "relay" && evaluator$warned < described_warnings_max) {
    shown <- handler_frames()
    list(record = warning_record(cnd, shown))
  }
  send_condition(cnd, mode, 1L, fate)
  if (muffle) tryInvokeRestart("muffleWarning")
}

# A warning with options(warn = 2) may turn out to be the error of its element. A worker describes so many, since most
# elements may warn, and be in suppressWarnings().
described_warnings_max <- 1000L

warning_record <- function(cnd, shown) {
  evaluator$warned <- evaluator$warned + 1L
  detail <- evaluator$warned <= detailed_errors_max
  dump <- if (detail) evaluator$control$dump else "no"
  record <- capture_error(warning_as_error(without_outer_call(cnd)), shown$calls, shown$frames, detail, dump)
  or_else(portable_record(c(record, interrupted = FALSE)), NULL)
}

# What R makes of it.
warning_as_error <- function(cnd) {
  text <- sprintf(gettext("(converted from warning) %s", domain = "R"), message_of(cnd))
  simpleError(text, if (is.list(cnd)) unclass(cnd)[["call"]])
}

# `fate`, of a warning: list(warn, record), of which either may be missing: see handle_warning().
send_condition <- function(cnd, mode, kind, fate = NULL) {
  if (mode == "drop") {
    return(invisible())
  }
  send <- function(cnd, fate) {
    if (!is.null(fate)) cnd <- structure(list(cnd = cnd, fate = fate), class = "regatta_fate")
    .Call(ffi_evaluator_condition, cnd, kind)
  }
  if (is_plain_condition(cnd) && is.null(fate)) {
    .Call(ffi_evaluator_condition, light_condition(cnd), kind)
  } else {
    # No condition makes an element fail that has not failed.
    tryCatch(
      unwarned(send(portable_condition(light_condition(without_outer_call(cnd))), fate)),
      error = function(e) send(plain_condition(cnd), fate["warn"])
    )
  }
}

# Without the fields that cannot leave the process, unless it does not leave it.
portable_condition <- function(cnd) {
  if (evaluator$session) cnd else .Call(ffi_encode_without_foreign, cnd)
}

# What is left of a condition that cannot be encoded: handlers find it by its classes.
plain_condition <- function(cnd) {
  structure(list(message = message_of(cnd), call = NULL), class = as.character(class(cnd)))
}

# What an element makes of the interrupt of its limit, an error here, is the end of that limit. It is looked at now,
# since a limit may be reached while an error is described, which takes time.
handle_error <- function(cnd) {
  allow_expressions()
  interrupted <- is_cancelled()
  if (!interrupted && is_like_last(cnd)) {
    keep_like(cnd)
  } else {
    # With the stack nearly full no more than this may succeed: see handle_overflow().
    evaluator$calls <- sys.calls()
    evaluator$frames <- sys.frames()
    evaluator$error <- cnd
    key <- error_key(cnd, evaluator$calls, evaluator$frames)
    shown <- handler_frames()
    keep_error(cnd, shown, interrupted)
    evaluator$like <- if (!interrupted) or_else(like_error(key, shown), NULL)
    if (!is.null(evaluator$like)) evaluator$record$number <- evaluator$like$number
    evaluator$calls <- evaluator$frames <- evaluator$error <- NULL
  }
  leave_element()
}

# An element may have allowed fewer nested calls than it takes to describe its error and to go on: R lets some
# hundred more be made while it signals that there are too many, and not a single one afterwards.
allow_expressions <- function() {
  if (!evaluator$session && getOption("expressions") < evaluator$expressions) {
    options(expressions = evaluator$expressions)
  }
}

# Many errors are those of the same line: what led to them is described once. This is all that the trace and the
# call of the condition are made of, but for is_like_last(): calls, in which package the function of each is, and the
# call of the condition. NULL while errors are described in full, and where there is more to it.
error_key <- function(cnd, calls, frames) {
  if (evaluator$detailed < detailed_errors_max || !is.list(cnd) || !is.null(evaluator$record)) {
    return(NULL)
  }
  # Those of handle_condition() and handle_error() are the last ones.
  last <- length(calls) - 2L
  if (last <= evaluator$depth || last > evaluator$depth + 100L) {
    return(NULL)
  }
  own <- seq.int(evaluator$depth + 1L, last)
  homes <- lapply(frames[own], topenv, getOption("topLevelEnvironment"))
  calls <- as.list(calls)[own]
  n <- length(own)
  calls[[n]] <- innermost_call(calls[[n]], homes[[n]])
  list(calls = calls, homes = homes, call = unclass(cnd)[["call"]])
}

# What calls a handler of R's own errors has the message among its arguments.
innermost_call <- function(call, home) {
  handles <- identical(call[[1L]], quote(.handleSimpleError)) && isBaseNamespace(home)
  if (handles) quote(.handleSimpleError()) else call
}

# Whether the error has the key of the last one that was described. Nearly all errors are such where there are many,
# and no more frames are looked at than those of the element: there are as many again below it.
is_like_last <- function(cnd) {
  like <- evaluator$like
  if (is.null(like) || !is.list(cnd) || !is.null(evaluator$record)) {
    return(FALSE)
  }
  key <- like$key
  # Those of handle_condition(), handle_error() and this function are the last ones.
  frames <- evaluator$depth + seq_along(key$calls)
  if (length(frames) != sys.nframe() - 3L - evaluator$depth || !identical(unclass(cnd)[["call"]], key$call)) {
    return(FALSE)
  }
  top <- getOption("topLevelEnvironment")
  for (k in seq_along(frames)) {
    home <- topenv(sys.frame(frames[[k]]), top)
    call <- sys.call(frames[[k]])
    if (k == length(frames)) call <- innermost_call(call, home)
    if (!identical(home, key$homes[[k]]) || !identical(call, key$calls[[k]])) {
      return(FALSE)
    }
  }
  # The key does not say which function the call of the condition would find where that is not among the calls.
  is.null(like$at) || identical(or_else(is_frameless(key$call, sys.frame(like$at)), NULL), like$frameless)
}

# NULL where it matters which of the frames are the same, or who has made a function: see user_frames(); and
# where calls have arguments of any size, which would be held.
like_error <- function(key, shown) {
  record <- evaluator$record
  if (is.null(key) || is.null(record) || !is.null(record$lost) || length(shown$frames) == 0L) {
    return(NULL)
  }
  simple <- !any(vapply(key$calls, call_name, "") %in% c("eval", "evalq")) &&
    !any(frame_homes(shown$frames) == "regatta")
  if (!simple || !all(vapply(key$calls, is_light, NA)) || !is_light(key$call)) {
    return(NULL)
  }
  evaluator$told <- evaluator$told + 1L
  like <- list(
    key = key, call = unclass(record$cnd)[["call"]], trace = record$trace, number = as.character(evaluator$told)
  )
  # A function is looked up where frameless_call() does, since that may evaluate an argument.
  if (is.call(like$call) && !has_frame(like$call, lapply(shown$calls, light_call))) {
    like$at <- which_env(evaluator$frames, shown$frames[[length(shown$frames)]])
    like$frameless <- is_frameless(key$call, evaluator$frames[[like$at]])
  }
  like
}

# Of an error that differs in no more than its message from the last one that was described, which the session has by
# its number, that message is all that is sent.
keep_like <- function(cnd) {
  like <- evaluator$like
  if (is_message_alone(cnd)) {
    evaluator$record <- c(like$number, .subset2(cnd, "message"))
    return(invisible())
  }
  if (!identical(unclass(cnd)[["call"]], like$call)) {
    cnd <- with_call(cnd, like$call)
  }
  record <- list(cnd = cnd, trace = like$trace, dump = NULL, interrupted = FALSE)
  evaluator$record <- or_else(portable_record(record), record)
}

# Conditions that stop() and R itself make, which have no fields of their own.
is_message_alone <- function(cnd) {
  identical(attributes(cnd), plain_error) && is_plain_text(.subset2(cnd, "message"))
}

plain_error <- attributes(simpleError(""))

# A text that neither encoding nor formatting can fail on.
is_plain_text <- function(x) {
  is.character(x) && length(x) == 1L && is.null(attributes(x)) && !is.na(x) && validEnc(x) &&
    Encoding(x) != "bytes" && nchar(x, "bytes") <= 8192L
}

# After an infinite recursion R calls no handler on top of the full C stack, and a handler above
# too many nested calls fails: the error is described when the stack is unwound.
handle_overflow <- function(cnd) {
  if (.Call(ffi_evaluator_is_sending) && is.null(evaluator$calls)) {
    cnd <- with_message(cnd, paste(
      "what the element has returned is nested too deeply to be sent to the session:", message_of(cnd)
    ))
  }
  # An error while another one was being described is not the element's.
  keep_unwound(if (is.null(evaluator$error)) cnd else evaluator$error)
  FALSE
}

# Code of the element has left it, and the worker's loop, for the top level of R; R itself does when the
# description of an error fails.
keep_jump <- function() {
  if (!is.null(evaluator$error)) {
    return(keep_unwound(evaluator$error))
  }
  keep_unwound(simpleError(
    "it has jumped to the top level of R, as `invokeRestart(\"abort\")` and C code can"
  ))
}

# The frames of the element are gone.
keep_unwound <- function(cnd) {
  allow_expressions()
  interrupted <- is_cancelled()
  last <- max(length(evaluator$calls) - 2L, 0L)
  shown <- user_frames(evaluator$calls, evaluator$frames, evaluator$depth + 1L, last)
  evaluator$calls <- evaluator$frames <- evaluator$error <- NULL
  keep_error(cnd, shown, interrupted)
}

# The parent interrupts an element that is over its limit. An interrupt that comes when the element
# has ended by itself must not hit the next one. One that the parent has not sent ends the element, as it ends
# lapply(). One that is nothing but a condition, which code has signalled, has nothing that would go on: it is sent as
# others are, and what waits for interrupts around the loop is not for it.
handle_interrupt <- function(cnd, signaller) {
  if (evaluator$session) {
    return(invisible())
  }
  if (!"resume" %in% vapply(computeRestarts(), `[[`, "", 1L)) {
    send_condition(cnd, evaluator$control$conditions, 2L)
    return(if (is_only_signalled(signaller)) leave_signal(sys.frame(signaller)))
  }
  cancelled <- .Call(ffi_evaluator_cancelled, TRUE)
  if (is.na(cancelled)) {
    return(tryInvokeRestart("resume"))
  }
  if (!cancelled) {
    cnd <- with_message(cnd, "it was interrupted, by its own code or by SIGINT from elsewhere, and not for a limit")
  }
  shown <- handler_frames()
  keep_error(cnd, shown, interrupted = cancelled)
  leave_element()
}

# Whether the driver has asked for the end of this try: its interrupt may have come already, and been taken by handlers
# of the element's own.
is_cancelled <- function() isTRUE(.Call(ffi_evaluator_cancelled, FALSE))

# A condition of R's, of the same class.
with_message <- function(cnd, message) {
  structure(class = class(cnd), list(message = message, call = NULL))
}

# The frames of the user's code at the time of the condition. Called by a function that
# handle_condition() calls: its own three frames are the last ones.
handler_frames <- function() {
  user_frames(sys.calls(), sys.frames(), evaluator$depth + 1L, sys.nframe() - 3L)
}

# The error is described while its frames are there and sent when they are gone: the parent may end
# this worker as soon as it is told, and on.exit() code of the element must have run by then. What
# that code signals while the frames go is not the element's error, the first one is.
keep_error <- function(cnd, shown, interrupted) {
  if (!is.null(evaluator$record)) {
    return(invisible())
  }
  detail <- evaluator$detailed < detailed_errors_max && !interrupted
  evaluator$detailed <- evaluator$detailed + 1L
  dump <- if (detail) evaluator$control$dump else "no"
  cnd <- without_outer_call(cnd)
  record <- capture_error(cnd, shown$calls, shown$frames, detail = detail, dump = dump)
  record$interrupted <- interrupted
  record$unsent <- unsent_name(cnd)
  evaluator$record <- or_else(portable_record(record), record)
}

# A condition may name a call that is none of the element's: exceptions of Rcpp take one from those that are active, and
# below the element these are what runs it, and the session's that was forked. In lapply() they have none then.
without_outer_call <- function(cnd) {
  call <- if (is.list(cnd)) unclass(cnd)[["call"]]
  if (!is.call(call)) {
    return(cnd)
  }
  attributes(call) <- NULL
  for (outer in outer_calls()) {
    if (identical(outer, call)) {
      own <- user_frames(sys.calls(), sys.frames(), evaluator$depth + 1L)$calls
      return(if (has_frame(call, own)) cnd else with_call(cnd, NULL))
    }
  }
  cnd
}

# They are the same for all elements of a run. Before the first one begins nothing is known of them.
outer_calls <- function() {
  if (is.null(evaluator$outer) && !is.null(evaluator$depth)) {
    evaluator$outer <- lapply(utils::head(as.list(sys.calls()), evaluator$depth), `attributes<-`, NULL)
  }
  evaluator$outer
}

# The variable for want of which code has failed, if the session has it and the worker was not sent it. The
# messages are R's, in the language of the worker.
unsent_name <- function(cnd) {
  names <- evaluator$unsent
  if (length(names) > 0L && length(cnd$message) == 1L) {
    told <- function(template, ..., domain = "R") sprintf(gettext(template, domain = domain), ...)
    messages <- list(
      told("object '%s' not found", names), told("could not find function \"%s\"", names),
      told("object '%s' of mode '%s' was not found", names, "function"), # get() with a mode, match.fun()
      told("value for '%s' not found", names), # mget()
      told("%s not found", sQuote(names), domain = "R-base") # dynGet()
    )
    for (each in messages) {
      at <- match(cnd$message, each)
      if (!is.na(at)) return(names[[at]])
    }
  }
}

send_kept <- function() {
  record <- evaluator$record
  if (is.character(record)) {
    .Call(ffi_evaluator_error, record)
  } else if (!is.null(record)) {
    tryCatch(
      .Call(ffi_evaluator_error, record),
      error = function(e) .Call(ffi_evaluator_error, plain_record(record))
    )
  }
  evaluator$record <- NULL
}

# With a note of what the condition has lost on the way.
portable_record <- function(record) {
  cnd <- portable_condition(record$cnd)
  if (!identical(cnd, record$cnd)) {
    record$lost <- or_else(foreign_paths(record$cnd, "cnd"), character())
    record$cnd <- cnd
  }
  record
}

# For a condition or a dump that cannot be encoded.
plain_record <- function(record) {
  evaluator$like <- record$number <- NULL
  record$cnd <- plain_condition(record$cnd)
  record["dump"] <- list(NULL)
  record
}

# Called from C when a worker crashes: the user's calls, innermost last.
crash_calls <- function() {
  calls <- as.list(sys.calls())
  last <- length(calls) - 1L
  first <- min(evaluator$depth + 1L, last + 1L)
  shown <- utils::tail(calls[seq_len(last) >= first], 20L)
  vapply(shown, function(call) deparse(call, nlines = 1L)[[1L]], "")
}
