# Called from C when a result finds no room.
abort_memory <- function(requested, available) {
  signal_error(error_memory(requested, available))
}
