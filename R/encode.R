# Called from C when there is no room for a result of a run, or for a shared object.
abort_memory <- function(requested, available, in_run) {
  signal_error(error_memory(requested, available, in_run))
}

# Called from C when the lock of a run's queue cannot be taken, since it is none any more.
abort_overwritten <- function() {
  signal_error(new_error("regatta_error_damage", paste(
    "what the session and its workers share of this run was overwritten: code that an element has called",
    "writes where it should not. What has not been returned is lost. A checker of memory finds such code."
  )))
}

# Called from C when the descriptor of shared memory is not open any more, or on something else.
abort_descriptor <- function(requested) {
  message <- sprintf(paste(
    "cannot write %s to shared memory: its file descriptor was closed in process %d, and may be",
    "another file's by now. Code that ran there, in this element or an earlier one, has closed",
    "descriptors that are not its own: find it and have it close what it has opened."
  ), format_bytes(requested), Sys.getpid())
  signal_error(new_error("regatta_error_descriptor", message, requested = as.double(requested)))
}
