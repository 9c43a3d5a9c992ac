# The nodes of a cluster on other hosts as package parallel knows nodes: its functions send each a call
# and receive what it replies, by these methods.

remote_of <- function(node) {
  pool <- node$pool
  if (remote_is_stopped(pool)) signal_error(error_stopped())
  check_owner(pool$pid, remote_pointer(pool))
  pool
}

# A worker that has elements of a run is waited for. One that has a call whose value nobody has fetched is
# replaced: what comes from it would be taken for something else.
sendData.regatta_remote_node <- function(node, data) {
  if (identical(data$type, "DONE")) {
    return(invisible())
  }
  pool <- remote_of(node)
  seat <- pool$seats[[node$rank]]
  remote_step(pool)
  watch <- forgotten_watch()
  while (seat$open > 0) {
    left <- watch()
    if (left > 0) remote_pump(pool, min(1, left))
  }
  fresh <- seat$calls > 0 || !is.null(seat$value)
  seat$asked <- seat_pid(seat)
  if (!seat_is_ready(seat)) abort_remote(node, NA, seat$host$reason)
  lost <- seat_has_lost(seat)
  if (fresh) {
    seat$called <- NULL
    warning(warning_replaced(node$rank))
  } else if (lost) {
    warning(warning_replaced(node$rank, at_call = FALSE))
  }
  seat$value <- NULL
  seat$holder <- NULL
  bytes <- to_bytes(data)
  seat$since <- .Call(ffi_clock)
  seat$calls <- 1
  seat$number <- seat$number + 1
  seat$verb <- "parallel"
  sent <- remote_send(
    pool, seat$host, "CALL", seat = seat$at, number = seat$number, bytes = bytes, fresh = fresh
  )
  if (!sent) abort_remote(node, NA, seat$host$reason)
  invisible()
}

recvData.regatta_remote_node <- function(node) {
  pool <- remote_of(node)
  while (is.null(value <- remote_value(pool, node, NA))) remote_pump(pool, Inf)
  value$value
}

# Any node that has something: in turns, so that none is forgotten.
recvOneData.regatta_remote <- function(cl) {
  nodes <- unclass(cl)
  pool <- remote_of(nodes[[1L]])
  repeat {
    turn <- if (is.null(pool$turn)) 0L else pool$turn
    for (i in (turn + seq_along(nodes) - 1L) %% length(nodes) + 1L) {
      value <- remote_value(pool, nodes[[i]], i)
      if (!is.null(value)) {
        pool$turn <- i
        return(list(node = i, value = value$value))
      }
    }
    waiting <- vapply(nodes, function(node) pool$seats[[node$rank]]$calls > 0, NA)
    if (!any(waiting)) abort_remote(nodes[[1L]], 1L, pool$seats[[nodes[[1L]]$rank]]$host$reason)
    remote_pump(pool, Inf)
  }
}

# list(value) if it has come; an error, once, if it never will. `place` among several that are looked at in turns, NA:
# there is no other. A look at one of several must not bring the value of another, which has been looked at.
remote_value <- function(pool, node, place) {
  seat <- pool$seats[[node$rank]]
  got <- seat$value
  if (is.null(got)) {
    if (is.na(place) && seat$calls == 0) {
      remote_step(pool)
      if (is.null(seat$value)) abort_remote(node, place, "it has no call to answer")
    }
    return(NULL)
  }
  seat$value <- NULL
  if (is.null(got$bytes)) abort_remote(node, place, got$reason)
  if (seat_has_lost(seat)) warning(warning_replaced(node$rank, at_call = FALSE))
  list(value = unserialize(got$bytes))
}

# When it is told another process may have taken the place of the one that was asked.
abort_remote <- function(node, place, reason) {
  seat <- node$pool$seats[[node$rank]]
  pid <- if (is.null(seat$asked)) seat_pid(seat) else seat$asked
  if (is.na(place)) place <- node$rank
  signal_error(error_node_lost(node$rank, pid, remote_name(seat$host), place, reason, call_of_parallel()))
}

remote_name <- function(host) if (is.null(host$facts)) host$name else host$facts$host

closeNode.regatta_remote_node <- function(node) invisible()

stopCluster.regatta_remote <- function(cl = NULL) {
  if (length(cl) > 0L) {
    pool <- unclass(cl)[[1L]]$pool
    check_owner(pool$pid, remote_pointer(pool))
    if (!remote_is_stopped(pool)) remote_stop(pool)
  }
  invisible()
}

format.regatta_remote <- function(x, ...) {
  if (length(x) == 0L) {
    return("<cluster of 0 nodes>")
  }
  pool <- unclass(x)[[1L]]$pool
  hosts <- vapply(unclass(x), function(node) remote_name(pool$seats[[node$rank]]$host), "")
  counts <- table(factor(hosts, unique(hosts)))
  size <- sprintf("%d node%s", length(hosts), if (length(hosts) == 1L) "" else "s")
  where <- paste(counts, "on", names(counts), collapse = ", ")
  state <- if (remote_is_stopped(pool)) {
    ", stopped"
  } else if (!is_owner(pool$pid, remote_pointer(pool))) ", of another process"
  sprintf("<cluster of %s: %s%s>", size, where, if (is.null(state)) "" else state)
}

print.regatta_remote <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}

print.regatta_remote_node <- function(x, ...) {
  seat <- x$pool$seats[[x$rank]]
  cat(sprintf("<node %d: process %s on %s>\n", x$rank, format_pid(seat_pid(seat)), remote_name(seat$host)))
  invisible(x)
}

# A host that has said nothing for this many seconds is called silent: its agent was stopped, or cannot be
# reached.
remote_silent_seconds <- 4

remote_status <- function(cl) {
  pool <- remote_of(unclass(cl)[[1L]])
  remote_step(pool)
  heard <- vapply(pool$hosts, remote_heard, 0)
  talks <- heard < remote_silent_seconds & vapply(pool$hosts, function(host) host$state == "ready", NA)
  looks <- vector("list", length(pool$hosts))
  looks[talks] <- remote_ask(pool, pool$hosts[talks], 5)
  seats <- pool$seats[remote_ranks(cl)]
  rows <- lapply(seats, function(seat) {
    remote_status_of(seat, looks[[seat$host$number]], heard[[seat$host$number]])
  })
  table <- do.call(rbind, rows)
  list(table = table, active = any(table$state == "starting" | !is.na(table$busy_for)))
}

remote_heard <- function(host) {
  if (is.null(host$link)) NA_real_ else .Call(ffi_link_look, host$link)$silent
}

remote_status_of <- function(seat, look, heard) {
  busy <- seat$open > 0 || seat$calls > 0
  host <- seat$host
  at <- seat$at
  of <- function(what) if (is.null(look)) NA_real_ else look[[what]][[at]]
  stopped <- !is.null(look) && look$state[[at]] %in% c("T", "t")
  state <- if (host$state %in% c("launched", "coming")) {
    "starting"
  } else if (host$state == "gone" || is.na(seat_pid(seat))) {
    "gone"
  } else if (stopped || is.null(look)) {
    "silent"
  } else if (busy) "busy" else "idle"
  data.frame(
    host = remote_name(host), pid = if (state == "starting") NA_integer_ else seat_pid(seat), state = state,
    call = if (busy) seat$verb else NA_character_, element = of("element"), element_for = of("seconds"),
    busy_for = if (busy) .Call(ffi_clock) - seat$since else NA_real_,
    cpu = of("cpu"), memory = of("memory"), heard = heard,
    reason = if (host$state == "gone") host$reason else if (state == "gone") reason_replaced else NA_character_
  )
}
