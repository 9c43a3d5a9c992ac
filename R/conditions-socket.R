# `failure` is list(operation, errno) as C code returns it: the call of the system that has failed, or
# what has come over the socket in place of what was waited for. `what` says what was tried.
error_socket <- function(what, failure, call = NULL) {
  kind <- if (failure$operation %in% names(socket_faults)) failure$operation else "system"
  reason <- switch(kind,
    system = sprintf("%s (%s)", .Call(ffi_system_message, failure$errno), failure$operation),
    resolve = attr(failure, "reason"),
    long = sprintf(socket_faults[["long"]], format_bytes(attr(failure, "length"))),
    socket_faults[[kind]]
  )
  new_error(
    "regatta_error_socket", sprintf("cannot %s: %s.", what, reason),
    kind = kind, errno = if (kind == "system") failure$errno else NA_integer_, reason = reason,
    body = socket_advice(failure), call = call
  )
}

socket_faults <- c(
  timeout = "the time for it is over", resolve = "", memory = "there is no memory for it",
  folder = "the folder of `path` must be this user's and closed to all others (mode 0700)",
  end = "the peer has closed the connection",
  torn = "the peer has closed the connection within a message",
  bad = "what has come is no message", long = "a message of %s was announced, more than `max`",
  broken = "a message was left unfinished on this socket, or what came was none: it can only be closed",
  foreign = "the peer speaks something else", wrong = "the peer does not know the secret",
  crypto = "regatta was built without libsodium",
  within = "part of a message has been received: go on with `socket_receive()`",
  pending = "part of a read has come: go on with `socket_read()`"
)

socket_advice <- function(failure) {
  if (failure$errno %in% too_many_open) {
    return("Close some, or raise the limit (`ulimit -n`) before R is started; `regatta_info()` shows it.")
  }
  switch(failure$operation,
    timeout = "`socket_timeout()` changes how long a socket waits.",
    bind = if (is.null(attr(failure, "path"))) {
      "`port = 0` lets the system choose a port that is free."
    } else {
      "Remove that file if nobody listens at it, or give another path."
    },
    character()
  )
}

# ENFILE and EMFILE, on all systems.
too_many_open <- c(23L, 24L)

error_crypto <- function(call = NULL) {
  new_error(
    "regatta_error_socket", "regatta was built without libsodium, by which nodes prove who they are.",
    kind = "crypto", errno = NA_integer_, reason = "no libsodium",
    body = paste(
      "Install it (Debian, Ubuntu: libsodium-dev; Fedora: libsodium-devel; Homebrew: libsodium),",
      "then install regatta again."
    ),
    call = call
  )
}

# `place` of the node in its cluster.
error_node_lost <- function(number, pid, host, place, reason, call = NULL) {
  who <- sprintf("node %d (process %s on %s)", number, format_pid(pid), host)
  new_error(
    "regatta_error_socket", sprintf("%s is lost: %s", who, reason),
    kind = "lost", errno = NA_integer_, reason = reason, node = place, pid = pid,
    call = call
  )
}
