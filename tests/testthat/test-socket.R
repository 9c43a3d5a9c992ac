detritus <- detritus_snapshot()

test_that("bytes go both ways, and the end of the peer is told", {
  s <- local_sockets()
  expect_identical(socket_write(s$near, charToRaw("hello")), 5)
  expect_identical(rawToChar(socket_read(s$far, 2)), "he")
  expect_identical(rawToChar(socket_read(s$far, 3)), "llo")
  bytes <- as.raw(rep_len(0:255, 3e5))
  socket_timeout(s$far, 0.1) # nobody reads meanwhile: what the system does not take is left
  expect_socket_error(repeat socket_write(s$far, bytes), "timeout")
  expect_socket_error(socket_write(s$far, bytes), "broken")
  expect_identical(socket_read(s$near, length(bytes)), bytes)
  close(s$far)
  rest <- socket_read(s$near, 1e9)
  expect_identical(rest, rep_len(bytes, length(rest)))
  expect_identical(socket_read(s$near, 1), raw())
  expect_error(socket_read(s$far, 1), "has been closed")
})

test_that("IPv6 and names of hosts are understood", {
  server <- tryCatch(socket_server(host = "::1"), regatta_error_socket = function(e) NULL)
  if (is.null(server)) skip("no IPv6 here")
  withr::defer(close(server))
  near <- socket_connect(socket_port(server), "::1")
  far <- socket_accept(server)
  socket_write(near, as.raw(1:3))
  expect_identical(socket_read(far, 3), as.raw(1:3))
  expect_match(format(near), "to [::1]:", fixed = TRUE)
  close(near)
  close(far)
  expect_socket_error(socket_connect(1, "no.such.host.invalid"), "resolve")
})

test_that("a server listens on this machine only, and a taken port is an error", {
  s <- local_sockets()
  expect_match(format(s$server), sprintf("listens at 127.0.0.1:%d", socket_port(s$server)))
  error <- expect_socket_error(socket_server(socket_port(s$server)), "system")
  expect_match(conditionMessage(error), "`port = 0`", fixed = TRUE)
  error <- expect_socket_error(socket_server(port = 0, host = "192.0.2.1"), "system")
  expect_no_match(conditionMessage(error), "port = 0", fixed = TRUE)
  port <- socket_port(s$server)
  close(s$server)
  error <- expect_socket_error(socket_connect(port), "system")
  expect_match(error$reason, "refused")
  expect_error(socket_connect(), "`port` must be .*\n.*socket_connect\\(path = \\)", class = "regatta_error_argument")
})

test_that("sockets are waited for, servers too", {
  s <- local_sockets()
  ready <- function(...) socket_select(s, ...)
  expect_identical(ready(timeout = 0), c(server = FALSE, near = FALSE, far = FALSE))
  expect_identical(ready(write = TRUE)[-1L], c(near = TRUE, far = TRUE))
  socket_write(s$near, as.raw(1:2))
  expect_identical(ready(), c(server = FALSE, near = FALSE, far = TRUE))
  more <- socket_connect(socket_port(s$server))
  expect_true(socket_select(s$server))
  expect_true(ready()[["server"]])
  close(socket_accept(s$server))
  expect_true(socket_select(more)) # its peer has gone
  close(more)
  # what a read has left is there
  socket_timeout(s$far, 0)
  expect_socket_error(socket_read(s$far, 3), "timeout")
  expect_true(socket_select(s$far, timeout = 0))
  expect_identical(socket_read(s$far, 2), as.raw(1:2))
  expect_error(socket_select(list(), timeout = Inf), class = "regatta_error_argument")
  expect_identical(socket_select(list(), timeout = 0), logical())
})

test_that("the limit of time is kept and can be changed", {
  s <- local_sockets()
  expect_identical(socket_timeout(s$far), 20 * slowness())
  expect_identical(socket_timeout(s$far, 0.05), 20 * slowness())
  expect_identical(socket_timeout(s$far), 0.05)
  expect_socket_error(socket_read(s$far, 1), "timeout")
  expect_socket_error(socket_receive(s$far), "timeout")
  expect_socket_error(socket_accept(s$server, timeout = 0.05), "timeout")
  # nothing was spoiled by that
  socket_send(s$near, as.raw(7))
  expect_identical(socket_receive(s$far), as.raw(7))
  # nobody answers: the queue of a server that accepts nobody is full
  full <- socket_server(backlog = 1)
  waiting <- list()
  error <- tryCatch(
    for (i in 1:10) {
      waiting[[i]] <- socket_connect(socket_port(full), timeout = 0.3)
    },
    regatta_error_socket = identity
  )
  for (socket in waiting) close(socket)
  close(full)
  expect_identical(error$kind, "timeout")
})

test_that("without blocking nothing is waited for", {
  s <- local_sockets(timeout = 300, blocking = FALSE)
  expect_identical(socket_read(s$far, 10), raw())
  expect_null(socket_receive(s$far))
  socket_write(s$near, as.raw(1:4))
  expect_true(socket_select(s$far))
  expect_identical(socket_read(s$far, 10), as.raw(1:4))
  wrote <- socket_write(s$far, raw(5e7))
  expect_lt(wrote, 5e7)
  expect_gt(wrote, 0)
  expect_identical(length(socket_read(s$near, wrote)), as.integer(wrote))
  # half a message is kept until the rest is there
  message <- c(frame_header(3), as.raw(1:3))
  socket_write(s$near, message[1:17])
  expect_true(socket_select(s$far))
  expect_null(socket_receive(s$far))
  expect_socket_error(socket_read(s$far, 1), "within")
  socket_write(s$near, message[18:19])
  expect_true(socket_select(s$far))
  expect_identical(socket_receive(s$far), as.raw(1:3))
})

test_that("messages arrive whole and in order, whatever their size", {
  s <- local_sockets()
  sizes <- c(0, 1, 1008, 1009, 65536, 65537, 100000, 5)
  for (size in sizes) {
    bytes <- as.raw(rep_len(1:251, size))
    socket_send(s$near, bytes)
    expect_identical(socket_receive(s$far, max = size), bytes)
  }
  # a large one, to a process that reads while this one writes
  reader <- par_call({
    x <- socket_receive(s$far)
    c(length(x), sum(as.integer(x[seq(1, length(x), 997)])))
  }, .control = two_workers())
  bytes <- as.raw(rep_len(0:255, 2e7))
  socket_send(s$near, bytes)
  expect_equal(par_value(reader), c(2e7, sum(as.integer(bytes[seq(1, 2e7, 997)]))))
})

test_that("a message that is too long, torn, late or none ends the use of the socket", {
  faults <- list(
    long = frame_header(2^40), long = frame_header(101), bad = charToRaw("GET / HTTP/1.1\r\n\r\n"),
    bad = frame_header(3, magic = "rgf0"), bad = as.raw(c(0x58, 0x0a, 0, 0, 0, 3))
  )
  for (i in seq_along(faults)) {
    s <- local_sockets()
    socket_write(s$near, faults[[i]])
    expect_socket_error(socket_receive(s$far, max = 100), names(faults)[[i]])
    expect_socket_error(socket_receive(s$far, max = 100), "broken")
    expect_socket_error(socket_send(s$far, raw(1)), "broken")
    expect_match(format(s$far), "broken")
  }
  s <- local_sockets()
  socket_write(s$near, c(frame_header(50), raw(10)))
  close(s$near)
  expect_socket_error(socket_receive(s$far), "torn")
  s <- local_sockets()
  socket_timeout(s$far, 0.1)
  socket_write(s$near, frame_header(50)[1:9])
  expect_socket_error(socket_receive(s$far), "timeout")
  socket_write(s$near, c(frame_header(50)[10:16], raw(50)))
  expect_socket_error(socket_receive(s$far), "broken")
  close(s$near)
  s <- local_sockets()
  close(s$near)
  expect_socket_error(socket_receive(s$far), "end")
})

test_that("a peer that sends a byte now and then gets no more time than others", {
  s <- local_sockets()
  socket_timeout(s$far, 1)
  slow <- par_call({
    close(s$far) # the copy of this process
    for (byte in as.list(c(frame_header(1e6), raw(1e6)))) {
      gone <- inherits(try(socket_write(s$near, byte), silent = TRUE), "try-error")
      if (gone) break
      Sys.sleep(0.05)
    }
    gone
  }, .control = two_workers())
  expect_socket_error(socket_receive(s$far), "timeout")
  close(s$far)
  expect_true(par_value(slow))
})

test_that("the socket of a path is for this user alone", {
  folder <- withr::local_tempdir("socket-")
  path <- file.path(folder, "s")
  Sys.chmod(folder, "755", use_umask = FALSE)
  expect_socket_error(socket_server(path = path), "folder")
  Sys.chmod(folder, "700", use_umask = FALSE)
  server <- socket_server(path = path)
  near <- socket_connect(path = path)
  far <- socket_accept(server)
  socket_send(near, as.raw(5))
  expect_identical(socket_receive(far), as.raw(5))
  expect_match(format(server), path, fixed = TRUE)
  taken <- expect_socket_error(socket_server(path = path), "system")
  expect_match(conditionMessage(taken), "Remove that file", fixed = TRUE)
  for (socket in list(near, far, server)) close(socket)
  expect_false(file.exists(path))
  expect_socket_error(socket_connect(path = path), "system")
  expect_socket_error(socket_connect(path = strrep("x", 200)), "system")
})

test_that("another user who gets at the path is turned away", {
  skip_unless_other_user()
  skip_unless_command("python3")
  folder <- withr::local_tempdir("socket-", tmpdir = "/tmp")
  Sys.chmod(folder, "700", use_umask = FALSE)
  server <- socket_server(path = file.path(folder, "s"))
  withr::defer(close(server))
  # The folder is opened by mistake: the kernel still says who connects.
  Sys.chmod(folder, "755", use_umask = FALSE)
  Sys.chmod(file.path(folder, "s"), "777", use_umask = FALSE)
  dial <- sprintf(
    "import socket; s = socket.socket(socket.AF_UNIX); s.connect('%s/s'); s.sendall(b'x')", folder
  )
  expect_identical(as_other_user(paste("python3 -c", shQuote(dial))), 0L)
  expect_socket_error(socket_accept(server, timeout = 0.2), "timeout")
})

test_that("Ctrl-C ends every wait at once, and nothing that has come is lost", {
  skip_unless_linux()
  session <- local_session(function() {
    server <- socket_server(timeout = Inf)
    near <- socket_connect(socket_port(server), timeout = Inf)
    far <- socket_accept(server)
    socket_write(near, as.raw(1:3))
    waits <- list(
      accept = function() socket_accept(server), select = function() socket_select(server),
      read = function() socket_read(far, 5), receive = function() socket_receive(near),
      write = function() repeat socket_write(far, raw(1e6))
    )
    suspendInterrupts(for (name in names(waits)) {
      if (name == "write") {
        socket_write(near, as.raw(4:5))
        read <- socket_read(far, 5)
      }
      tryCatch(allowInterrupts({
        cat("in", name, "\n")
        waits[[name]]()
      }), interrupt = function(e) cat("out of", name, "\n"))
    })
    list(read, tryCatch(socket_write(far, raw(1)), error = function(e) e$kind))
  })
  for (wait in c("accept", "select", "read", "receive", "write")) {
    fault_wait_line(session, paste("^in", wait))
    wait_until(is_resting(session$process$get_pid()))
    session$process$interrupt()
    fault_wait_line(session, paste("^out of", wait))
  }
  expect_identical(fault_value(session)$value, list(as.raw(1:5), "broken"))
})

test_that("thousands of sockets are open and waited for", {
  skip_unless_linux()
  skip_unless_command("prlimit")
  wrap <- c("prlimit", "--nofile=4000:4000")
  if (system2(wrap[[1L]], c(wrap[[2L]], "true"), stderr = FALSE) != 0L) skip("no limit of 4000 files")
  got <- fault_run(function() {
    n <- 1500L
    server <- socket_server()
    near <- lapply(seq_len(n), function(i) socket_connect(socket_port(server)))
    far <- lapply(seq_len(n), function(i) socket_accept(server))
    last <- c(7L, 1200L, n)
    for (i in last) socket_send(near[[i]], as.raw(1))
    ready <- which(socket_select(far))
    # one more than there may be
    full <- tryCatch(repeat near[[length(near) + 1L]] <- socket_server(), error = conditionMessage)
    for (socket in near[-seq_len(n)]) close(socket)
    list(ready = ready, all = sum(socket_select(near[seq_len(n)], write = TRUE)), full = full)
  }, wrap = wrap)$value
  expect_identical(got$ready, c(7L, 1200L, 1500L))
  expect_identical(got$all, 1500L)
  expect_match(got$full, "Too many open files.*ulimit -n")
})

test_that("bad arguments are named", {
  s <- local_sockets()
  bad <- function(code, argument) {
    expect_identical(expect_error(code, class = "regatta_error_argument")$argument, argument)
  }
  bad(socket_server(-1), "port")
  bad(socket_server(65536), "port")
  bad(socket_server(host = 1), "host")
  bad(socket_server(backlog = 0), "backlog")
  bad(socket_server(timeout = -1), "timeout")
  bad(socket_server(path = ""), "path")
  bad(socket_server(80, path = "s"), "port")
  bad(socket_connect(80, path = "s"), "port")
  bad(socket_connect(), "port")
  bad(socket_connect(0), "port")
  bad(socket_accept(s$near), "server")
  bad(socket_select(list(1)), "sockets")
  bad(socket_read(s$server, 1), "socket")
  bad(socket_read(s$near, -1), "n")
  bad(socket_write(s$near, "x"), "bytes")
  bad(socket_timeout(1, 1), "socket")
  expect_silent(close(s$near))
  expect_silent(close(s$near))
  expect_output(print(s$near), "<socket, closed>")
  expect_error(socket_port(s$near), "closed")
})

test_that("sockets that nobody has any more are closed", {
  before <- length(detritus_fds())
  for (i in 1:20) socket_server()
  gc()
  gc()
  expect_lte(length(detritus_fds()), before)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
