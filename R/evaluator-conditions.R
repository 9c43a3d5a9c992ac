# What an element signals: messages, warnings, other conditions and interrupts. It arrives in the session, and the
# element goes on where it would in lapply().

# Whether the element has sink() or capture.output() take its messages, which are then not for the session: R writes
# them there, and warnings if it writes these at once.
takes_messages <- function() sink.number(type = "message") != evaluator$messages_to

takes_warnings <- function() getOption("warn") == 1 && takes_messages()

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

# With its fields, and without the classes of what code goes on after, so that no handler outside the call takes it for
# such.
as_error <- function(cnd) {
  passing <- c("simpleWarning", "warning", "simpleMessage", "message", "interrupt", "simpleCondition", "condition")
  error <- if (is.list(cnd) && !isS4(cnd)) cnd else simpleError(message_of(cnd), or_else(conditionCall(cnd), NULL))
  attr(error, "class") <- unique(c(setdiff(class(cnd), passing), plain_error$class))
  error
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
