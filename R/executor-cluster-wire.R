# The way to the nodes of a cluster, whoever uses them: for each connection of parallel a wire, an
# environment that lives as long as the connection and that all runs on the cluster share. It says who
# the node is, what it is at, and what has come from it and for which run.
#
# The invariant: R's own connection leads to the node only while that waits for a message. From the
# first message of a run to the last reply it is parked (src/cluster-wire.h). So no call of parallel
# ever reads a reply that is not its own, however a run was left: it waits until the node is in step
# again, or fails.
#
#   pointer  the socket (C); NULL where the cluster has none
#   node     parallel's, where there is no socket: one would keep its connection from being closed
#   host     where the node is, as text
#   number   the place of the node in the cluster that it was first seen in
#   facts    who the node is; NULL before it has said so
#   asked    list(token, at, shared) from when it was asked until its answer was taken
#   busy     token of the run whose batch the node has, NULL: it waits for a message
#   job      token of the run whose code it has
#   slots    of that run: its finalizer finds them here, those of the pool may have been collected
#   news     by token, what has come for a run and was not yet taken
#   told     when it was last heard of
#   out      why it is out of service, NULL: it is not

# How long a node may take to come back when its run has ended, seconds. What a node of this machine
# is at can be interrupted.
cluster_patience <- c(near = 2, far = 10)

# For how many seconds a host that does not answer any more is taken to be there: longer than a break that a
# connection survives.
wire_deadline <- 60

# The wires of `nodes`, those of sockets from one run to the next.
cluster_wires <- function(nodes) {
  connections <- lapply(nodes, node_connection)
  sockets <- !vapply(connections, is.null, NA)
  if (!all(sockets)) {
    return(lapply(seq_along(nodes), function(w) wire_new(nodes[[w]], w)))
  }
  check_connections(connections)
  known <- lapply(connections, wire_known)
  new <- which(vapply(known, is.null, NA))
  if (length(new) > 0L) {
    found <- find_sockets(connections[new])
    check_inherited(found)
    known[new] <- lapply(seq_along(new), function(i) {
      wire <- wire_new(nodes[[new[[i]]]], new[[i]])
      wire_keep(wire, connections[[new[[i]]]], found[[i]])
      wire
    })
  }
  known
}

# A node answers the process that has made its connection. R's number of a connection means another one
# elsewhere, on a node the one to its master; and a reply that a forked copy has taken from the socket is
# missing in the process that waits for it: both would wait for ever.
check_connections <- function(connections) {
  ids <- lapply(connections, attr, "conn_id")
  if (!all(vapply(ids, function(id) .Call(ffi_encode_is_foreign, id), NA))) {
    signal_error(error_owner())
  }
  open <- vapply(connections, function(connection) {
    now <- tryCatch(getConnection(as.integer(connection)), error = function(e) NULL)
    identical(attr(now, "conn_id"), attr(connection, "conn_id"))
  }, NA)
  if (!any(open)) signal_error(error_stopped())
  for (connection in connections) {
    wire <- the$wires[[wire_key(connection)]]
    if (!is.null(wire) && wire$pid != Sys.getpid()) signal_error(error_owner(wire$pid))
  }
}

# The same for the clusters of this package: `pid` is the process that has made one. A fork inherits its
# external pointer, elsewhere it is a null pointer.
check_owner <- function(pid, pointer) {
  if (!is_owner(pid, pointer)) {
    signal_error(error_owner(if (is_stored_pointer(pointer) || is.null(pointer)) NA else pid))
  }
}

is_owner <- function(pid, pointer) pid == Sys.getpid() && !is_stored_pointer(pointer)

is_stored_pointer <- function(pointer) typeof(pointer) == "externalptr" && !.Call(ffi_encode_is_foreign, pointer)

# Nobody may have used the cluster before the session was forked. What has been inherited the process
# before has open, too; where there is no /proc that is not seen.
check_inherited <- function(sockets) {
  if (identical(the$pid, Sys.getpid())) {
    return(invisible())
  }
  files <- Sys.readlink(file.path("/proc/self/fd", sockets[sockets >= 0L]))
  files <- files[startsWith(files, "socket:")]
  for (pid in unique(c(the$pid, parent_pid()))) {
    theirs <- Sys.readlink(list.files(file.path("/proc", pid, "fd"), full.names = TRUE))
    if (any(files %in% theirs)) signal_error(error_owner(pid))
  }
}

# NULL where there is no /proc.
parent_pid <- function() {
  tryCatch(
    as.integer(sub("^.*[)] [A-Z] ([0-9]+) .*$", "\\1", readLines("/proc/self/stat", n = 1L))),
    error = function(e) NULL, warning = function(w) NULL
  )
}

# NULL for what is no socket connection of R's.
node_connection <- function(node) {
  if (inherits(node, c("SOCKnode", "SOCK0node")) && inherits(node[["con"]], "sockconn")) node[["con"]]
}

# Of those that nobody has engaged a run takes first whom it knows; one that is busy is waited for, one out of service
# never comes.
wire_rank <- function(wire) {
  if (!is.null(wire$out)) {
    3L
  } else if (!is.null(wire$busy)) {
    2L
  } else {
    as.integer(is.null(wire$facts))
  }
}

wire_new <- function(node, number) {
  wire <- new.env(parent = emptyenv())
  wire$node <- if (is.null(node_connection(node))) node
  wire$host <- if (is.list(node) && is.character(node$host)) node$host else class(node)[[1L]]
  wire$number <- number
  wire$pid <- Sys.getpid()
  wire$news <- list()
  wire$told <- 0
  wire
}

# R gives the number of a closed connection to the next one that is opened: a connection is known by
# its identity.
wire_key <- function(connection) {
  rlang::obj_address(attr(connection, "conn_id"))
}

wire_known <- function(connection) {
  wire <- the$wires[[wire_key(connection)]]
  if (!is.null(wire) && wire$pid == Sys.getpid()) wire
}

wire_keep <- function(wire, connection, socket) {
  if (socket < 0L) {
    wire$out <- "its connection is closed, or holds what nobody has read of an earlier call"
  } else {
    wire$pointer <- .Call(ffi_cluster_wire_new, socket, wire_deadline)
  }
  key <- wire_key(connection)
  assign(key, wire, envir = the$wires)
  reg.finalizer(attr(connection, "conn_id"), wire_forget(key, wire))
}

# A function that does not hold the connection.
wire_forget <- function(key, wire) {
  force(key)
  force(wire)
  function(id) {
    if (identical(the$wires[[key]], wire)) rm(list = key, envir = the$wires)
  }
}

find_sockets <- function(connections) {
  found <- rep(-1L, length(connections))
  ports <- vapply(connections, function(connection) {
    tryCatch(sub("^.*:", "", summary(connection)$description), error = function(e) "")
  }, "")
  usable <- grep("^[0-9]+$", ports)
  ask <- quote(socketSelect(asked, FALSE, 0))
  for (port in unique(ports[usable])) {
    of_port <- usable[ports[usable] == port]
    asked <- connections[of_port]
    descriptors <- .Call(ffi_cluster_wire_find, as.integer(port), ask, environment())
    if (!is.null(descriptors)) found[of_port] <- descriptors
  }
  found
}

# The session's end of a connection for a node itself, -1 if it cannot be told.
find_socket <- function(connection) {
  if (inherits(connection, "sockconn")) find_sockets(list(connection)) else -1L
}

# Nothing of a message is lost by an interrupt in here: C code takes it whole, and it is noted before
# the next interrupt is looked at.
wire_read <- function(wire) {
  suspendInterrupts({
    the$reading <- TRUE
    on.exit(the$reading <- FALSE)
    got <- .Call(ffi_cluster_wire_read, wire$pointer)
    the$reading <- FALSE
    for (message in got$messages) {
      wire$told <- .Call(ffi_clock)
      token <- message$tag
      # What nobody waits for any more: the reply to a call of parallel that was interrupted.
      if (is.null(wire$busy) || !identical(token, wire$busy)) {
        next
      }
      wire$news[[token]] <- c(wire$news[[token]], list(message))
      if (is_last(message)) wire$busy <- NULL
    }
    if (got$ended) {
      wire_retire(wire, "its process has ended, or its connection has")
    }
    stop_abandoned()
  })
}

# A finalizer may be called whenever memory is allocated, also while a message is read.
pool_abandoned <- function(pool) {
  the$abandoned <- c(the$abandoned, list(pool))
  if (!the$reading) stop_abandoned()
}

stop_abandoned <- function() {
  while (length(the$abandoned) > 0L) {
    pool <- the$abandoned[[1L]]
    the$abandoned <- the$abandoned[-1L]
    cluster_stop(pool)
  }
}

# A frame has a payload and more of them follow; what parallel's loop has written ends a batch.
is_last <- function(message) {
  is.null(message$payload)
}

# Waits for something to be read from any of `wires`, and reads it.
wires_wait <- function(wires, timeout) {
  ready <- .Call(ffi_cluster_wire_poll, lapply(wires, `[[`, "pointer"), max(0, timeout))
  for (wire in wires[ready]) wire_read(wire)
}

wire_send <- function(wire, token, message) {
  bytes <- send_handles(isTRUE(wire$facts$local), serialize(message, NULL, xdr = FALSE))
  suspendInterrupts({
    parked <- .Call(ffi_cluster_wire_park, wire$pointer)
    if (parked && .Call(ffi_cluster_wire_send, wire$pointer, bytes)) {
      wire$busy <- token
      TRUE
    } else {
      wire_retire(wire, "its process has ended, or its connection has")
      FALSE
    }
  })
}

# The node waits for a message and belongs to nobody: parallel may use it. A message of a type that
# parallel does not know gets no reply; where the node looks at the type it ends the run.
wire_release <- function(wire) {
  if (!is.null(wire$job) && is.null(wire$out)) {
    job <- wire$job
    wire$job <- wire$slots <- NULL
    wire_send(wire, NULL, structure(list(type = job), class = "regatta_end"))
  }
  if (is.null(wire$out) && !.Call(ffi_cluster_wire_unpark, wire$pointer)) {
    wire_retire(wire, "its connection was closed")
  }
}

# Out of service for good: what comes from a node that is not in step would be taken for something
# else. One of this machine is ended, nobody else could do so.
wire_retire <- function(wire, reason) {
  if (is.null(wire$out)) {
    mark <- if (isTRUE(wire$facts$local) && !is.null(wire$job)) wire_mark(wire, wire$job)
    wire$out <- reason
    wire$busy <- wire$job <- wire$slots <- wire$asked <- NULL
    if (!is.null(wire$pointer)) .Call(ffi_cluster_wire_close, wire$pointer, TRUE)
    if (!is.null(mark)) .Call(ffi_cluster_kill_marked, mark)
  }
}

# By which the programs are known that elements of a run have started in a node: a part of their environment
# variable REGATTA_RUN. Those of a node that has died are not ended by itself.
wire_mark <- function(wire, token) paste(token, wire$facts$pid)

# The element that a node of this machine is at; -1: all that it has been given.
wire_interrupt <- function(wire, element) {
  .Call(ffi_cluster_slots_interrupt, wire$slots, wire$worker, element, wire$facts$pid)
}

# Ends what elements of the run have started in a node of this machine: in system() R hears no interrupt before.
wire_free <- function(wire) {
  .Call(ffi_cluster_kill_marked, wire_mark(wire, wire$job))
  wires_wait(list(), 0.02) # until R hears again; Sys.sleep() takes interrupts that are suspended
}

# Brings nodes back from the run `token`, which is over and has interrupted them; those that do not come are retired.
wires_recall <- function(wires, token) {
  engaged <- function() Filter(function(wire) identical(wire$busy, token), wires)
  near <- function(wire) isTRUE(wire$facts$local)
  waited <- 0
  # How long a look is, and the most that it counts for: a session that was stopped, or with all of its machine, has
  # given nobody time meanwhile.
  look <- until_freed <- cluster_patience[["near"]] / 4
  while (length(left <- engaged()) > 0L) {
    late <- waited >= cluster_patience[ifelse(vapply(left, near, NA), "near", "far")]
    for (wire in left[late]) {
      wire_retire(wire, sprintf(
        "it did not come back within %g seconds of the end of its run",
        cluster_patience[[if (near(wire)) "near" else "far"]]
      ))
    }
    if (waited >= until_freed) {
      for (wire in Filter(function(wire) near(wire) && !is.null(wire$slots), left[!late])) {
        wire_free(wire)
        wire_interrupt(wire, -1)
      }
      until_freed <- Inf
    }
    looked <- .Call(ffi_clock)
    if (any(!late)) wires_wait(left[!late], look)
    waited <- waited + min(.Call(ffi_clock) - looked, look)
  }
  for (wire in wires) {
    wire$news[[token]] <- NULL
    if (identical(wire$job, token) && is.null(wire$busy)) wire_release(wire)
  }
}

# How a message names a node.
format_wire <- function(wire) {
  pid <- if (is.null(wire$facts)) "" else sprintf(", pid %s", format_pid(wire$facts$pid))
  sprintf("%d (%s%s)", wire$number, wire$host, pid)
}

error_node <- function(wire, call = NULL) {
  message <- sprintf(
    paste(
      "node %s of the cluster is out of service: %s.",
      "Stop the cluster by `parallel::stopCluster()` and make another one."
    ),
    format_wire(wire), wire$out
  )
  new_error("regatta_error_node", message,
    node = wire$number, pid = if (is.null(wire$facts)) NA_integer_ else wire$facts$pid,
    reason = wire$out, call = call
  )
}

# parallel's sendData() calls serialize(), and that asks for the summary of the connection: before
# anything is sent to a node that a run of ours has, it is waited for. One that is out of service takes
# nothing but the message that ends it, so that stopCluster() ends the others too.
summary.sockconn <- function(object, ...) {
  wire <- the$wires[[wire_key(object)]]
  caller <- sys.parent()
  if (!is.null(wire) && caller > 0L && identical(sys.function(caller), base::serialize)) {
    sending <- sys.frame(caller)
    wire_yield(wire, is_farewell(sending$object))
    do.call(on.exit, list(as.call(list(wire_sent, wire)), TRUE), envir = sending)
  }
  NextMethod()
}

# At the end of serialize(), which has sent a message of parallel's. An interrupt or an error within it leaves half a
# message, of which the node would take whatever comes next for the other half.
wire_sent <- function(wire) {
  if (isFALSE(returnValue(FALSE))) {
    wire_retire(wire, "a function of package parallel was interrupted, or has failed, in the middle of what it sent it")
  }
}

is_farewell <- function(data) {
  is.list(data) && identical(unclass(data)$type, "DONE")
}

wire_yield <- function(wire, farewell) {
  if (is.null(wire$out) && wire$pid != Sys.getpid()) {
    return(invisible())
  }
  watch <- forgotten_watch()
  while (!farewell && is.null(wire$out) && !is.null(wire$busy)) {
    left <- watch()
    if (left > 0) wires_wait(list(wire), left)
  }
  if (is.null(wire$out) && is.null(wire$busy)) {
    suspendInterrupts(wire_release(wire))
  }
  if (farewell) {
    # Whatever it is at: the cluster is being stopped.
    if (!is.null(wire$busy)) wire_retire(wire, "its cluster was stopped")
    if (!is.null(wire$pointer)) .Call(ffi_cluster_wire_part, wire$pointer)
  } else if (!is.null(wire$out)) {
    stop(error_node(wire, call_of_parallel()))
  }
}
