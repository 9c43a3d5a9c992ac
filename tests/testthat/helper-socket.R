# Ports of this machine that nobody listens at.
free_ports <- function(n = 1L) {
  servers <- lapply(seq_len(n), function(i) socket_server())
  on.exit(for (server in servers) close(server))
  vapply(servers, socket_port, 0L)
}

# A server and both ends of a connection to it, closed at the end of the caller.
local_sockets <- function(timeout = 20, blocking = TRUE, frame = parent.frame(), ...) {
  server <- socket_server(timeout = timeout * slowness(), ...)
  near <- socket_connect(socket_port(server), timeout = timeout * slowness())
  far <- socket_accept(server, blocking = blocking)
  sockets <- list(server = server, near = near, far = far)
  withr::defer(for (socket in sockets) close(socket), envir = frame)
  sockets
}

expect_socket_error <- function(code, kind) {
  error <- expect_error(code, class = "regatta_error_socket")
  expect_identical(error$kind, kind)
  invisible(error)
}

# The bytes of a message's header, as src/frame.h has it.
frame_header <- function(length, type = 1L, magic = "rgf1") {
  digits <- length %/% 256^(0:7) %% 256
  c(charToRaw(magic), as.raw(c(type, 0, 0, 0, digits)))
}
