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
  data$data$args <- node_give(state, node$rank, data$data$args)
  bytes <- send_handles(TRUE, to_bytes(data))
  send <- function() {
    stand_send(state, node$rank, bytes, lost = function() warning(warning_replaced(node$rank, at_call = FALSE)))
  }
  failed <- send()
  if (failed == device_busy) {
    forgotten_end()
    failed <- send()
  }
  if (failed == device_busy) {
    runs <- pool_busy(state, node$rank)
    abort_node(node$rank, paste("it is at", busy_words(runs, "one")), busy_words(runs, "advice"))
  } else if (failed != 0L) {
    abort_node(node$rank, paste0(stand_reason(failed), if (failed == worker_ended) then_replaced))
  }
  invisible()
}

# Arguments of a call, with large vectors among them in shared memory, as long as the worker has not replied, and once
# for all that are given the same. `state$given`: what each has been given; `state$last_given`, the last, serves others
# until the first reply, since some packages change vectors in place.
node_give <- function(state, rank, args) {
  one <- if (is.null(state$given[[rank]])) state$last_given
  state$given[rank] <- list(NULL)
  if (is.null(one) || !identical(addresses_of(args), one$addresses)) {
    if (utils::object.size(args) < node_shares) {
      return(args)
    }
    # Where there is no room for them the vectors are sent.
    shared <- or_else(.Call(ffi_shm_share, args, node_shares, shm_limit()), args)
    if (rlang::is_reference(shared, args)) {
      return(args)
    }
    one <- list(args = args, addresses = addresses_of(args), shared = shared)
  }
  state$given[[rank]] <- state$last_given <- one
  one$shared
}

addresses_of <- function(objects) vapply(objects, rlang::obj_address, "")

# Bytes.
node_shares <- 2^20

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
  got <- node_kept(state, numbers)
  if (is.null(got)) got <- .Call(ffi_fork_stand_receive, state$stand, numbers, Inf)
  if (is.null(got)) {
    abort_node(numbers[[1L]], "it has no call to answer")
  }
  state$given[got[[1L]]] <- list(NULL)
  state$last_given <- NULL
  got
}

node_kept <- function(state, numbers) {
  for (rank in numbers[numbers <= length(state$kept)]) {
    got <- state$kept[[rank]]
    if (!is.null(got)) {
      state$kept[rank] <- list(NULL)
      return(got)
    }
  }
}

node_value <- function(got) {
  if (is.null(got[[2L]])) {
    abort_node(got[[1L]], paste0("it has ended", then_replaced))
  }
  unserialize(got[[2L]])
}

abort_node <- function(rank, reason, advice = NULL) {
  message <- paste(c(sprintf("worker %d of this cluster cannot be used: %s.", rank, reason), advice), collapse = " ")
  signal_error(new_error("regatta_error_node", message, worker = rank, reason = reason, call = call_of_parallel()))
}

closeNode.regatta_node <- function(node) invisible()
