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
# what was waited for. A look and the pause after it count as a second at most: if they took longer, the machine
# may have stood still, and what is waited for with it.
wait_until <- function(cond, timeout = 60, what = NULL) {
  expr <- substitute(cond)
  env <- parent.frame()
  if (is.null(what)) what <- paste(deparse(expr, width.cutoff = 80L), collapse = " ")
  limit <- timeout * slowness()
  now <- function() proc.time()[["elapsed"]]
  start <- now()
  waited <- 0
  pause <- 0.001
  repeat {
    looked <- now()
    value <- eval(expr, env)
    if (is.function(value)) value <- value()
    if (isTRUE(value)) return(invisible(TRUE))
    if (waited > limit) {
      stop(sprintf("waited %.1f s in vain for: %s", now() - start, what), call. = FALSE)
    }
    Sys.sleep(pause)
    waited <- waited + min(now() - looked, 1)
    pause <- min(pause * 2, 0.05)
  }
}
