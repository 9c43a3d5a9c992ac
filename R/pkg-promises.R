# Packages promises and later: a call in the background is a promise wherever one is expected, as in an app of
# shiny. Its methods are registered when promises is loaded.

is.promising.regatta_call <- function(x) TRUE

as.promise.regatta_call <- function(x) {
  promises::promise(function(resolve, reject) promise_watch(x, resolve, reject))
}

# What is waited for is looked at in turns of later's loop. Nothing else refers to the call: with the loop it
# goes, and its worker with it.
promise_watch <- function(handle, resolve, reject) {
  begun <- .Call(ffi_clock)
  look <- function() {
    left <- TRUE
    # An interrupt passes through here, and no other turn would follow.
    on.exit(if (left) promise_leave(handle, reject))
    outcome <- tryCatch(
      if (par_done(handle)) list(value = par_value(handle)),
      error = function(e) list(error = e)
    )
    left <- FALSE
    if (is.null(outcome)) {
      later::later(look, poll_pause(.Call(ffi_clock) - begun))
    } else if (is.null(outcome$error)) {
      resolve(outcome$value)
    } else {
      reject(outcome$error)
    }
  }
  look()
}

promise_leave <- function(handle, reject) {
  run_close(handle$run)
  reject(error_lost(handle$run$workers$rows[[1L]]$pid))
}
