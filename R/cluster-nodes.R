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
  state$kept[node$rank] <- list(NULL)
  bytes <- send_handles(TRUE, to_bytes(data))
  send <- function() {
    stand_send(state, node$rank, bytes, lost = function() warning(warning_replaced(node$rank, at_call = FALSE)))
  }
  failed <- send()
  if (failed == device_busy) {
    gc() # as in pool_settle()
    failed <- send()
  }
  if (failed == device_busy) {
    runs <- pool_busy(state, node$rank)
    abort_node(node$rank, paste("it is at", busy_words(runs, "one")), busy_words(runs, "advice"))
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
  node_value(node_reply(node$state, node$rank))
}

recvOneData.regatta_cluster <- function(cl) {
  numbers <- stand_numbers(cl)
  got <- node_reply(stand_state(cl), numbers)
  list(node = match(got[[1L]], numbers), value = node_value(got))
}

# The first of these that there is, be it one that a run has put aside.
node_reply <- function(state, numbers) {
  for (rank in numbers[numbers <= length(state$kept)]) {
    got <- state$kept[[rank]]
    if (!is.null(got)) {
      state$kept[rank] <- list(NULL)
      return(got)
    }
  }
  got <- .Call(ffi_fork_stand_receive, state$stand, numbers, Inf)
  if (is.null(got)) {
    abort_node(numbers[[1L]], "it has no call to answer")
  }
  got
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
