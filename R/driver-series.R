# Maps that are parts of one whole, such as those of a long loop of foreach. Elements are counted through, have the
# streams of random numbers that they would have in one map, and one checkpoint is held open for all of them.

series_new <- function() {
  series <- new.env(parent = emptyenv())
  series$before <- 0 # elements of the parts that are over
  series$base <- NULL # of random numbers, of the whole: list(base), when it has been drawn
  series$checkpoint <- NULL # that of the part before
  series
}

# The part whose elements these are is over.
series_next <- function(series, n) series$before <- series$before + n

series_close <- function(series) {
  if (!is.null(series$checkpoint)) log_close(series$checkpoint$log)
}

# How many elements of the whole come before this task.
task_before <- function(task) if (is.null(task$series)) 0 else task$series$before

# The base of random numbers of all that the task is a part of.
task_base <- function(task, control) {
  if (is.null(task$series)) {
    return(rng_base(control$seed))
  }
  if (is.null(task$series$base)) task$series$base <- list(rng_base(control$seed))
  task$series$base[[1L]]
}
