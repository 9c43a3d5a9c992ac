# A node of a cluster of ours, which runs in a process of its own: finds its session, proves itself and
# does what it is sent, in the words of package parallel, until the session says that it is done or is
# gone.

# What a launcher starts. What the node is to know comes in one variable of the environment or as the
# first line of stdin, never as an argument, which every user of the machine can read:
# hosts separated by commas, port, number, secret as hexadecimal digits, seconds to try, deadline of
# link_settings().
node_main <- function(line = node_line()) {
  words <- strsplit(line, " ", fixed = TRUE)[[1L]]
  key <- as.raw(strtoi(substring(words[[4L]], seq(1L, 63L, 2L), seq(2L, 64L, 2L)), 16L))
  number <- node_number(words[[3L]])
  link <- node_connect(
    strsplit(words[[1L]], ",", fixed = TRUE)[[1L]], as.integer(words[[2L]]), key, number,
    as.double(words[[5L]]), link_settings(as.double(words[[6L]]), is_node = TRUE)
  )
  status <- tryCatch(
    {
      .Call(ffi_link_end_with_session, tempdir())
      link_send(link, list(type = "JOIN", data = node_facts()))
      node_serve(link)
    },
    interrupt = function(e) 1L,
    error = function(e) 1L
  )
  .Call(ffi_link_close, link, 1)
  quit("no", status, FALSE)
}

node_line <- function() {
  line <- Sys.getenv("REGATTA_NODE")
  Sys.unsetenv("REGATTA_NODE") # not for programs that the node starts
  if (!nzchar(line)) {
    input <- file("stdin", "r")
    on.exit(close(input))
    line <- readLines(input, 1L)
  }
  line
}

# With one launch for many nodes each has its number from the system that has launched it.
node_number <- function(word) {
  if (!startsWith(word, "$")) {
    return(as.double(word))
  }
  parts <- strsplit(substring(word, 2L), "+", fixed = TRUE)[[1L]]
  as.double(Sys.getenv(parts[[1L]])) + as.double(parts[[2L]])
}

node_facts <- function() {
  list(
    pid = Sys.getpid(), host = unname(Sys.info()[["nodename"]]), version = regatta_version(),
    r = paste0(R.version$major, ".", R.version$minor), cores = as.integer(workers_available())
  )
}

# Tries again until `seconds` are over: the session may not be listening yet, its queue may be full, and
# a connection may be one that only this end believes in, whose challenge never comes. As package parallel
# does, each try may take a little longer than the one before, and so may the pause after it.
node_connect <- function(hosts, port, key, number, seconds, settings) {
  until <- .Call(ffi_clock) + seconds
  limit <- 1
  pause <- 0.1
  repeat {
    for (host in hosts) {
      link <- tryCatch(
        node_try(host, port, key, number, limit, settings),
        regatta_error_socket = function(e) e
      )
      if (!inherits(link, "error")) {
        return(link)
      }
    }
    if (.Call(ffi_clock) + pause > until) {
      stop(link)
    }
    Sys.sleep(pause)
    limit <- limit + 0.2
    pause <- min(pause * 1.5, 10)
  }
}

# The session may be busy with other nodes: for its handshake there is more time.
node_try <- function(host, port, key, number, limit, settings) {
  socket <- socket_connect(port, host, timeout = limit)
  on.exit(close(socket))
  link_done(
    .Call(ffi_link_join, socket, key, number, limit + 4, settings),
    "prove to the session who this is"
  )
}

node_serve <- function(master) {
  repeat {
    message <- link_take(master)
    if (is.null(message)) {
      .Call(ffi_link_wait, NULL, Inf)
    } else if (message$type == "DONE") {
      return(0L)
    } else {
      # between two messages there is nothing to interrupt
      tryCatch(node_work(master, message), interrupt = function(e) NULL)
    }
  }
}

# Does what a node of package parallel does with the same message.
node_work <- function(master, message) {
  data <- message$data
  node_state$count <- node_state$count + 1
  .Call(ffi_link_note_work, node_state$count)
  on.exit(.Call(ffi_link_note_work, 0))
  success <- TRUE
  time <- system.time(value <- tryCatch(
    do.call(data$fun, data$args, quote = TRUE),
    error = function(e) {
      success <<- FALSE
      structure(conditionMessage(e), class = c("snow-try-error", "try-error"))
    },
    interrupt = function(e) {
      success <<- FALSE
      structure("interrupted", class = c("snow-try-error", "try-error"))
    }
  ), gcFirst = FALSE)
  if (!isTRUE(data$return)) value <- NULL
  link_send(master, list(
    type = "VALUE", value = value, success = success, time = time, tag = data$tag
  ))
}

node_state <- new.env(parent = emptyenv())
node_state$count <- 0
