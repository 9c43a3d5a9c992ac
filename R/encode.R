# Called from C when there is no room for a result of a run, or for a shared object.
abort_memory <- function(requested, available, in_run) {
  signal_error(error_memory(requested, available, in_run))
}
