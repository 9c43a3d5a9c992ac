# One factor stretches every deadline: sanitizers, valgrind and gctorture slow R down 10 to 100
# times, and no test may fail for being slow.
slowness <- function() {
  text <- Sys.getenv("REGATTA_SLOWNESS", "1")
  value <- suppressWarnings(as.numeric(text))
  if (is.na(value) || value <= 0) {
    stop(sprintf("REGATTA_SLOWNESS must be a positive number, not \"%s\"", text), call. = FALSE)
  }
  value
}

# Wait until `cond`, evaluated again and again where the call stands, is TRUE; a function is called
# again and again. Returns TRUE; after `timeout` seconds times slowness() it is an error that says
# what was waited for.
wait_until <- function(cond, timeout = 60, what = NULL) {
  expr <- substitute(cond)
  env <- parent.frame()
  if (is.null(what)) what <- paste(deparse(expr, width.cutoff = 80L), collapse = " ")
  limit <- timeout * slowness()
  start <- proc.time()[["elapsed"]]
  pause <- 0.001
  repeat {
    value <- eval(expr, env)
    if (is.function(value)) value <- value()
    if (isTRUE(value)) return(invisible(TRUE))
    waited <- proc.time()[["elapsed"]] - start
    if (waited > limit) {
      stop(sprintf("waited %.1f s in vain for: %s", waited, what), call. = FALSE)
    }
    Sys.sleep(pause)
    pause <- min(pause * 2, 0.05)
  }
}
