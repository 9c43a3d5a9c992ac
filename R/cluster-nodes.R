# Nodes of cluster_local() as package parallel knows nodes: its functions send each a call and receive
# what it replies, by these methods.

sendData.regatta_node <- function(node, data) {
  if (identical(data$type, "DONE")) {
    return(invisible())
  }
  state <- node$state
  stand_ready(state)
  if (node_is_behind(node)) {
    .Call(ffi_fork_stand_replace, state$stand, node$rank)
    warning(warning_replaced(node$rank))
  }
  bytes <- send_handles(TRUE, to_bytes(data))
  failed <- .Call(ffi_fork_stand_send, state$stand, node$rank, bytes)
  if (failed == device_busy) {
    abort_node(node$rank, "it is at a call, map or stream that is under way", advice_busy)
  } else if (failed != 0L) {
    abort_node(node$rank, .Call(ffi_system_message, failed))
  }
  invisible()
}

# It has been sent a call whose value nobody has fetched.
node_is_behind <- function(node) {
  .Call(ffi_fork_stand_members, node$state$stand)$calls[[node$rank]] > 0
}

recvData.regatta_node <- function(node) {
  node_value(.Call(ffi_fork_stand_receive, node$state$stand, node$rank, Inf))
}

recvOneData.regatta_cluster <- function(cl) {
  numbers <- stand_numbers(cl)
  got <- .Call(ffi_fork_stand_receive, stand_state(cl)$stand, numbers, Inf)
  list(node = match(got[[1L]], numbers), value = node_value(got))
}

node_value <- function(got) {
  if (is.null(got[[2L]])) {
    abort_node(got[[1L]], "it has ended; another takes its place with the next call")
  }
  unserialize(got[[2L]])
}

abort_node <- function(rank, reason, advice = NULL) {
  message <- paste(c(sprintf("worker %d of this cluster cannot be used: %s.", rank, reason), advice), collapse = " ")
  signal_error(new_error("regatta_error_node", message, worker = rank, reason = reason, call = call_of_parallel()))
}

closeNode.regatta_node <- function(node) invisible()
