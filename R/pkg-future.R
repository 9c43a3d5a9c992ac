# Package future: plan(regatta). A future is a call in the background, see R/par-call.R; what future does around
# the user's code, which captures output and conditions and sets seeds, runs in the worker. From 1.40 on future
# asks a backend for methods (`FutureBackend`), before it did a strategy for an object that runs itself.
# Nothing of it is imported, and what it does not export is found by name.

regatta <- function(..., workers = NULL, .on = getOption("regatta.on"),
                    .control = getOption("regatta.control", par_control()), envir = parent.frame()) {
  rlang::check_installed("future", "for `plan(regatta)`.")
  if (future_has_backends()) {
    signal_error(new_error(
      "regatta_error_argument", "`regatta()` is not called: it is for `plan()`, as in `plan(regatta, workers = 2)`.",
      argument = "plan", value = NULL, call = sys.call()
    ))
  }
  future <- future::MultiprocessFuture(..., envir = envir)
  future$place <- future_place(workers, .on, .control)
  class(future) <- c("RegattaFuture", class(future))
  if (isTRUE(future$lazy)) future else future::run(future)
}

# Called by future when the plan is made, with the arguments of plan().
RegattaFutureBackend <- function(workers = NULL, .on = NULL, .control = par_control(), envir = NULL, ...) {
  core <- future_fun("FutureBackend")(..., reg = future_registry())
  core$place <- future_place(workers, .on, .control)
  core$workers <- where_workers(core$place)
  core$futureClasses <- c("RegattaFuture", core$futureClasses)
  structure(core, class = c("RegattaFutureBackend", "MultiprocessFutureBackend", class(core)))
}

class(regatta) <- c("regatta", "multiprocess", "future", "function")
attr(regatta, "init") <- TRUE
attr(regatta, "tweakable") <- c("workers", ".on", ".control")
attr(regatta, "factory") <- RegattaFutureBackend

future_has_backends <- function() "FutureBackend" %in% getNamespaceExports("future")

future_fun <- function(name) {
  get(name, envir = asNamespace("future"), mode = "function")
}

future_hook <- function() {
  if (isNamespaceLoaded("future")) future_register()
  setHook(packageEvent("future", "onLoad"), function(...) future_register())
}

future_register <- function() {
  method <- function(generic, class, fun) registerS3method(generic, class, fun, envir = asNamespace("future"))
  method("resolved", "RegattaFuture", future_resolved)
  method("result", "RegattaFuture", future_result)
  if (future_has_backends()) {
    method("launchFuture", "RegattaFutureBackend", function(backend, future, ...) future_launch(future, backend$place))
    method("interruptFuture", "RegattaFutureBackend", future_interrupt)
    method("stopWorkers", "RegattaFutureBackend", future_stop_all)
    method("nbrOfWorkers", "RegattaFutureBackend", function(evaluator) evaluator$workers)
    method("nbrOfFreeWorkers", "RegattaFutureBackend", function(evaluator, background = FALSE, ...) {
      evaluator$workers - length(future_running())
    })
    method("getFutureBackendConfigs", "RegattaFuture", future_configs)
  } else {
    method("run", "RegattaFuture", function(future, ...) future_launch(future, future$place))
    method("nbrOfWorkers", "regatta", function(evaluator) where_workers(future_place_of(evaluator)))
    method("nbrOfFreeWorkers", "regatta", function(evaluator, background = FALSE, ...) {
      where_workers(future_place_of(evaluator)) - length(future_running())
    })
  }
}

# `workers` may also be what future's own plans take for it: a function, or a cluster.
future_place <- function(workers, on, control) {
  call <- quote(plan(regatta))
  control <- check_control(control, 1, call = call)
  if (is.function(workers)) workers <- workers()
  # future has I(1) for one worker that is to be one.
  if (inherits(workers, "AsIs")) workers <- unclass(workers)
  where_with_workers(workers, on, control, call)
}

# Of a strategy that plan() has given arguments, which are its formals.
future_place_of <- function(strategy) {
  given <- formals(strategy)[c("workers", ".on", ".control")]
  given <- lapply(given, eval, envir = topenv())
  control <- if (is.null(given$.control)) getOption("regatta.control", par_control()) else given$.control
  on <- if (is.null(given$.on)) getOption("regatta.on") else given$.on
  future_place(given$workers, on, control)
}

# Futures that run or are not collected, of this process: one that is forked has none.
future_registry <- function() sprintf("workers-regatta-%d", Sys.getpid())

future_running <- function(action = "list", ...) {
  future_fun("FutureRegistry")(future_registry(), action = action, ..., earlySignal = FALSE)
}

future_launch <- function(future, place) {
  future_fun("assertOwner")(future)
  if (future$state != "created") {
    stop(future::FutureError("a future can only be launched once", future = future))
  }
  workers <- where_workers(place)
  future_wait(workers)
  control <- place$control
  # What is told is told by future; a time that is over is over for its own code, too.
  control[c("errors", "messages", "warnings", "conditions")] <- c("stop", "drop", "drop", "drop")
  control[c("seed", "progress")] <- FALSE
  # future has looked for what the code needs; among what is around it may be the value of this very future.
  future$handle <- call_begin(
    future_code(), future_frame(future, is.null(place$on)), place$on, control, quote(future()),
    prefix = function(...) "", on_note = function(index, note) future_heard(future, note$condition), beside = workers,
    verb = "future", awaited = future_awaited, around = FALSE
  )
  future_running("add", future = future)
  future$state <- "running"
  future
}

# Of a worker that is at one, to others that want the worker: see busy_words().
future_awaited <- list(
  one = "a future that is under way, or whose value nobody has asked for",
  many = "futures that are under way, or whose values nobody has asked for",
  advice = "A worker that is at a future is free when `value()` has its value, or `resolved()` has found that it is there."
)

# Until fewer than `workers` run. Those that are done are collected, which gives back their workers.
future_wait <- function(workers) {
  begun <- .Call(ffi_clock)
  while (length(future_running()) >= workers) {
    future_running("collect-first")
    if (length(future_running()) >= workers) Sys.sleep(poll_pause(.Call(ffi_clock) - begun))
  }
}

# Where the code of future_code() gives what future calls a FutureResult. It is sent to workers that do not
# `inherit` the session.
future_frame <- function(future, inherit) {
  frame <- new.env(parent = baseenv())
  if (future_has_backends()) {
    frame$data <- future_fun("getFutureData")(future, mc.cores = 1L)
    frame$data$core$expr <- future_wrap(frame$data$core$expr)
    frame$evaluate <- future_evaluate
  } else {
    frame$code <- future_expression(future)
    frame$globals <- future$globals
    assign("here", if (inherit) future$envir, envir = frame)
    frame$evaluate <- future_evaluate_expression
  }
  frame
}

future_code <- function() if (future_has_backends()) quote(evaluate(data)) else quote(evaluate(code, globals, here))

# What of the workspace is in the way of variables that it brings evalFuture() takes away by itself. It warns of
# connections that the code leaves open: the one that stdin() opens in a worker, whoever asks for it, is there before.
future_evaluate <- function(data) {
  stdin()
  data$core$expr <- body(data$core$expr)
  get("evalFuture", envir = asNamespace("future"))(data)
}

# Before `FutureBackend`. `code` has the user's inside of what future does around it. A worker that has the session has
# the variables around that, too: `here`.
future_evaluate_expression <- function(code, globals, here) {
  code <- body(code)
  if (is.null(here)) {
    return(with_variables(globals, eval(code, globalenv())))
  }
  frame <- new.env(parent = here)
  get("assign_globals", envir = asNamespace("future"))(frame, globals = globals)
  eval(code, frame)
}

# Code as a function of future: what it needs of the session future has found, or has been told, and nothing else is
# looked for. What future puts around the user's code has a thousand lines, in which that takes longer than most
# futures.
future_wrap <- function(code) rlang::new_function(list(), code, asNamespace("future"))

future_expression <- function(future) {
  expr <- future$expr
  if (length(future$conditions) > 0L) {
    class <- getOption("future.relay.immediate", "immediateCondition")
    handlers <- stats::setNames(rep(list(future_tell), length(class)), class)
    expr <- as.call(c(list(quote(withCallingHandlers), expr), handlers))
  }
  future_wrap(future::getExpression(future, expr = expr, mc.cores = 1L))
}

# Conditions that are not to wait for the end of a future.
future_configs <- function(future, ...) {
  if (is.null(future$conditions)) list() else {
    list(capture = list(immediateConditionHandlers = list(immediateCondition = future_tell)))
  }
}

# In the worker.
future_tell <- function(condition) {
  note <- list(message = "", call = NULL, condition = condition)
  .Call(ffi_evaluator_note, structure(note, class = c("regatta_note", "condition")))
  for (restart in computeRestarts(condition)) {
    if (startsWith(restart$name, "muffle")) invokeRestart(restart)
  }
}

# In the session.
future_heard <- function(future, condition) {
  future$.signaledConditions <- c(future$.signaledConditions, list(list(condition = condition, signaled = 1L)))
  if (inherits(condition, "message")) {
    message(condition)
  } else if (inherits(condition, "warning")) {
    warning(condition)
  } else {
    withRestarts(signalCondition(condition), muffleProgression = function(...) NULL)
  }
}

# Does not wait, but if future's `earlySignal` asks for the conditions of one that is done.
future_resolved <- function(x, .signalEarly = TRUE, ...) {
  if (x$state == "created") {
    if (isFALSE(list(...)$run)) return(FALSE)
    future::run(x)
  }
  over <- !is.null(x$result) || x$state %in% c("finished", "failed", "canceled", "interrupted")
  if (!over) {
    future_fun("assertOwner")(x)
    # Why it cannot be asked is told when the result is.
    over <- tryCatch(par_done(x$handle), regatta_error = function(e) TRUE)
    if (over) tryCatch(future_collect(x), FutureError = function(e) NULL)
  }
  if (over && .signalEarly) future_fun("signalEarly")(x)
  over
}

future_result <- function(future, ...) {
  if (is.null(future$result)) {
    if (future$state == "created") future::run(future)
    future_fun("assertOwner")(future)
    future_collect(future)
  }
  if (inherits(future$result, "FutureError")) stop(future$result)
  future$result
}

# Leaves a result, a FutureResult or a FutureError, however it ends. An interrupt ends the future.
future_collect <- function(future) {
  on.exit(future_settle(future, future_lost(future, "it was interrupted"), "interrupted"))
  result <- tryCatch(par_value(future$handle), regatta_error = identity)
  on.exit()
  if (inherits(result, "FutureResult")) {
    result$conditions <- c(result$conditions, future$.signaledConditions)
    future_settle(future, result, "finished")
  } else if (inherits(result, "FutureError")) {
    future_settle(future, result, "failed")
  } else if (inherits(result, c("regatta_error_death", "regatta_error_timeout", "regatta_error_lost"))) {
    result <- with_unit(result, "this future")
    lost <- future_lost(future, conditionMessage(result), parent = result)
    future_settle(future, lost, if (future$state == "canceled") "canceled" else "interrupted")
  } else {
    reason <- if (inherits(result, "error")) conditionMessage(with_unit(result, "it")) else "it is not what future expects"
    failed <- future::FutureError(paste("a future has no result:", reason), future = future)
    future_settle(future, failed, "failed")
  }
}

future_settle <- function(future, result, state) {
  run_close(future$handle$run)
  future$handle <- NULL
  future$result <- result
  future$state <- state
  is_this <- vapply(future_running(), identical, NA, future)
  if (any(is_this)) future_running("remove", future = future)
}

# The error for a future whose worker has gone.
future_lost <- function(future, reason, parent = NULL) {
  kind <- if (future$state == "canceled") "FutureCanceledError" else "FutureInterruptError"
  make <- if (kind %in% getNamespaceExports("future")) future_fun(kind) else future::FutureError
  label <- if (is.null(future$label) || is.na(future$label)) "without a label" else sQuote(future$label, FALSE)
  cnd <- make(sprintf("a future (%s) was lost: %s", label, reason), future = future)
  cnd$parent <- parent
  cnd
}

# cancel(): the worker is gone when this returns.
future_interrupt <- function(backend, future, ...) {
  if (isTRUE(backend$interrupts) && !is.null(future$handle)) {
    run_close(future$handle$run)
    future$state <- "interrupted"
  }
  future
}

# Another plan is made.
future_stop_all <- function(backend, interrupt = TRUE, ...) {
  for (future in future_running()) {
    if (interrupt) run_close(future$handle$run)
    future$state <- "canceled"
  }
  future_running("reset")
  TRUE
}
