par_call <- function(expr, .on = getOption("regatta.on"),
                     .control = getOption("regatta.control", par_control())) {
  check_given(expr, "expr", "the code to evaluate")
  call_begin(substitute(expr), parent.frame(), .on, .control, sys.call())
}

# `...`: what a task may have beside, see run_new(). `around`: whether arguments that the code names are evaluated here.
call_begin <- function(expr, env, on, control, call, ..., verb = "par_call", around = TRUE) {
  control <- check_control(control, 1, call = call)
  if (around) force_around(call("{", expr), list(), env)
  evaluate <- evaluator_in(env)
  X <- list(expr)
  tries <- if (control$retries > 0) evaluator_again(env) else evaluate
  task <- list(
    verb = verb, call = call, n = 1L, names = NULL, is_call = TRUE,
    loop = map_loop(X, tries, list()),
    replay = list(X = X, FUN = evaluate, args = list(), env = env), ...
  )
  run <- with_calls({
    run <- run_new(task, on, control)
    run_guard(run, run_start(run))
    run
  })
  structure(list(run = run), class = "regatta_call")
}

evaluator_in <- function(env) {
  force(env)
  function(code) eval(code, env)
}

# As above, for a worker. What a try has assigned there is not seen by the next.
evaluator_again <- function(env) {
  force(env)
  before <- NULL
  function(code) {
    if (is.null(before)) {
      before <<- frames_take(frames_of(list(), env))
    } else {
      frames_put(before)
    }
    eval(code, env)
  }
}

par_value <- function(handle, timeout = Inf) {
  with_calls(call_value(
    check_handle(handle, sys.call()), check_seconds(timeout, "timeout", zero = TRUE), sys.call()
  ))
}

call_value <- function(run, timeout, call) {
  force(timeout)
  check_not_driven(run, "par_value", call)
  if (!isTRUE(run$closed)) {
    settled <- run_wait(run, run_guard(run, run_drive(run, .Call(ffi_clock) + timeout)))
    if (!settled) {
      signal_error(error_pending(run$workers$rows[[1L]]$pid, timeout, call))
    }
  }
  if (run$done < 1) {
    run_lost(run, call)
  }
  run_close(run)
  record_later(run$facts) # asked for again, it is the last one again
  run_result(run)[[1L]]
}

par_done <- function(handle) with_calls(call_done(check_handle(handle, sys.call())))

call_done <- function(run) {
  if (isTRUE(run$closed) || run$done > 0) {
    return(TRUE)
  }
  if (isTRUE(run$driven)) {
    return(FALSE) # asked by a handler of what comes before the value
  }
  # Whatever has come is taken; nothing is waited for. What ends the run is told with the value.
  tryCatch(run_wait(run, run_guard(run, run_drive(run, .Call(ffi_clock)))), regatta_error = function(e) TRUE)
}

# Returns its run.
check_handle <- function(handle, call, from = rlang::caller_env()) {
  if (missing(handle) || !inherits(handle, "regatta_call")) {
    abort_argument("handle", handle, "made by `par_call()`", from)
  }
  check_run_owner(handle$run, "handle", call)
  handle$run
}

# Seconds until the next look at something that has been waited for so long: what took long may be noticed a
# twentieth of that later, and nothing later than 0.1.
poll_pause <- function(waited) {
  min(0.1, max(0.002, waited / 20))
}

format.regatta_call <- function(x, ...) {
  run <- x$run
  owner <- run_owner(run)
  state <- if (!is.null(owner)) {
    paste("belongs to", owner)
  } else if (!isTRUE(run$closed)) {
    "running, or done and not yet asked for"
  } else if (run$done < 1) {
    "cancelled"
  } else if (run$failed > 0) {
    "failed"
  } else {
    "done"
  }
  code <- gsub(" +", " ", paste(deparse(run$task$replay$X[[1L]]), collapse = " "))
  code <- shorten(code, 60L)
  sprintf("<par_call> %s (worker %s): %s", code, format_pid(run$workers$rows[[1L]]$pid), state)
}

print.regatta_call <- function(x, ...) {
  writeLines(format(x, ...))
  invisible(x)
}
