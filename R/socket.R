# Sockets as R objects: external pointers to what src/socket-entry.c keeps. They are no connections of R, of
# which there are 128, and can be waited for by thousands.

socket_server <- function(port = 0, host = "127.0.0.1", backlog = Inf, path = NULL, timeout = 60) {
  port <- check_port(port, 0)
  check_string(host, "host")
  check_socket_path(path, if (port > 0) port)
  backlog <- check_backlog(backlog)
  timeout <- check_seconds(timeout, "timeout", zero = TRUE)
  socket <- .Call(ffi_socket_listen, host, port, backlog, path, timeout)
  where <- if (is.null(path)) sprintf("port %d of %s", port, quoted(host)) else quoted(path)
  socket_done(socket, paste("listen at", where), sys.call())
  structure(socket, class = c("socket_server", "regatta_socket"))
}

socket_accept <- function(server, timeout = NULL, blocking = TRUE) {
  if (missing(server) || !inherits(server, "socket_server")) {
    abort_argument("server", server, "made by `socket_server()`")
  }
  if (is.null(timeout)) timeout <- .Call(ffi_socket_timeout, server, NULL)
  timeout <- check_seconds(timeout, "timeout", zero = TRUE)
  check_flag(blocking, "blocking")
  socket <- .Call(ffi_socket_accept, server, timeout, blocking)
  socket_done(socket, "accept a connection", sys.call())
  structure(socket, class = c("socket_connection", "regatta_socket"))
}

socket_connect <- function(port = NULL, host = "127.0.0.1", path = NULL, timeout = 60,
                           blocking = TRUE) {
  if (is.null(path)) {
    port <- check_port(port, 1, "The path of a Unix socket can be given instead: `socket_connect(path = )`.")
  }
  check_string(host, "host")
  check_socket_path(path, port)
  timeout <- check_seconds(timeout, "timeout", zero = TRUE)
  check_flag(blocking, "blocking")
  socket <- .Call(ffi_socket_connect, host, port, path, timeout, blocking)
  where <- if (is.null(path)) sprintf("port %d of %s", port, quoted(host)) else quoted(path)
  socket_done(socket, paste("connect to", where), sys.call())
  structure(socket, class = c("socket_connection", "regatta_socket"))
}

socket_select <- function(sockets, write = FALSE, timeout = Inf) {
  if (!missing(sockets) && inherits(sockets, "regatta_socket")) {
    sockets <- list(sockets)
  }
  if (missing(sockets) || !is.list(sockets) || !all(vapply(sockets, inherits, NA, "regatta_socket"))) {
    abort_argument("sockets", sockets, "a list of sockets")
  }
  check_flag(write, "write")
  timeout <- check_seconds(timeout, "timeout", zero = TRUE)
  if (length(sockets) == 0L && is.infinite(timeout)) {
    abort_argument("timeout", timeout, "finite where there is no socket to wait for")
  }
  ready <- .Call(ffi_socket_select, sockets, write, timeout)
  socket_done(ready, "wait for sockets", sys.call())
  names(ready) <- names(sockets)
  ready
}

socket_timeout <- function(socket, timeout = NULL) {
  check_socket(socket)
  if (is.null(timeout)) {
    return(.Call(ffi_socket_timeout, socket, NULL))
  }
  invisible(.Call(ffi_socket_timeout, socket, check_seconds(timeout, "timeout", zero = TRUE)))
}

socket_port <- function(server) {
  check_socket(server, "server")
  about <- socket_about(server)
  if (!about$open) stop("this socket has been closed")
  about$port
}

socket_read <- function(socket, n) {
  check_connected(socket)
  n <- check_bytes(n, "n", zero = TRUE)
  if (n > 2^52) {
    abort_argument("n", n, "at most 2^52")
  }
  socket_done(.Call(ffi_socket_read, socket, n), sprintf("read %s", format_bytes(n)), sys.call())
}

socket_write <- function(socket, bytes) {
  check_connected(socket)
  check_raw(bytes)
  what <- sprintf("write %s", format_bytes(length(bytes)))
  invisible(socket_done(.Call(ffi_socket_write, socket, bytes), what, sys.call()))
}

socket_send <- function(socket, bytes) {
  check_connected(socket)
  check_raw(bytes)
  what <- sprintf("send a message of %s", format_bytes(length(bytes)))
  socket_done(.Call(ffi_socket_send, socket, bytes), what, sys.call())
  invisible(NULL)
}

socket_receive <- function(socket, max = "1GiB") {
  check_connected(socket)
  max <- min(check_bytes(max, "max", zero = TRUE), 2^52)
  socket_done(.Call(ffi_socket_receive, socket, max), "receive a message", sys.call())
}

close.regatta_socket <- function(con, ...) {
  if (socket_about(con)$open) .Call(ffi_socket_close, con)
  invisible(NULL)
}

format.regatta_socket <- function(x, ...) {
  about <- socket_about(x)
  if (!about$open) {
    return("<socket, closed>")
  }
  waits <- if (is.infinite(about$timeout)) "without end" else format_seconds(about$timeout)
  if (about$server) {
    return(sprintf("<socket that listens at %s, waits %s>", about$address, waits))
  }
  peer <- if (is.null(about$peer)) "nobody any more" else about$peer
  mode <- if (about$blocking) sprintf("waits %s", waits) else "does not block"
  broken <- if (about$broken) ", broken" else ""
  sprintf("<socket from %s to %s, %s%s>", about$address, peer, mode, broken)
}

print.regatta_socket <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}

# list(open, server, blocking, broken, timeout, address, port, peer)
socket_about <- function(socket) {
  .Call(ffi_socket_about, socket)
}

# Failures are lists; nothing else that C code returns here is.
socket_done <- function(result, what, call) {
  if (is.list(result)) {
    signal_error(error_socket(what, result, call))
  }
  result
}

check_socket <- function(x, argument = "socket", call = rlang::caller_env()) {
  if (missing(x) || !inherits(x, "regatta_socket")) {
    abort_argument(argument, x, "a socket", call = call)
  }
}

check_connected <- function(x, call = rlang::caller_env()) {
  if (missing(x) || !inherits(x, "socket_connection")) {
    abort_argument("socket", x, "made by `socket_accept()` or `socket_connect()`", call = call)
  }
}

check_port <- function(x, least, advice = NULL, call = rlang::caller_env()) {
  if (!is_whole(x) || x < least || x > 65535) {
    abort_argument("port", x, sprintf("a whole number from %d to 65535", least), call, advice)
  }
  as.integer(x)
}

check_backlog <- function(x, call = rlang::caller_env()) {
  if (!is_number(x) || x < 1) {
    abort_argument("backlog", x, "a positive whole number or `Inf`", call = call)
  }
  as.double(x)
}

# `port`: that which was given, or NULL.
check_socket_path <- function(x, port, call = rlang::caller_env()) {
  if (is.null(check_string(x, "path", null = TRUE, call = call))) {
    return(invisible())
  }
  if (!nzchar(x)) abort_argument("path", x, "the path of a file", call = call)
  if (!is.null(port)) {
    abort_argument("port", port, "left out where `path` is given: a Unix socket has no port", call = call)
  }
}

check_raw <- function(x, call = rlang::caller_env()) {
  if (missing(x) || !is.raw(x)) {
    abort_argument("bytes", x, "a raw vector", call = call)
  }
}
