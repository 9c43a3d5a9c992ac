# Workers that stand ready: the nodes of an object of cluster_local() share an environment, with the
# server, the stand (src/fork-server.h) and what another server would have to load.

# `start` and `timeout` as of cluster_local().
stand_cluster <- function(n, packages, call = NULL, start = "forkserver", timeout = Inf) {
  state <- stand_new(n, packages, call, start, timeout)
  nodes <- lapply(seq_len(n), function(rank) {
    structure(
      list(state = state, rank = rank, host = "localhost"),
      class = c("regatta_node", "SOCKnode")
    )
  })
  structure(nodes, class = c("regatta_cluster", "SOCKcluster", "cluster"))
}

stand_new <- function(n, packages, call = NULL, start = "forkserver", timeout = Inf, options = NULL) {
  state <- new.env(parent = emptyenv())
  state$n <- n
  state$pid <- Sys.getpid()
  state$packages <- packages
  state$start <- start
  state$timeout <- timeout
  state$options <- options
  # Replies of workers that nobody has asked for. All have their places from the beginning: others know a cluster by
  # what it holds, and it is to be the same after a call.
  state$kept <- state$given <- vector("list", n)
  state$last_given <- NULL # see node_give()
  state$awaited <- list() # by verb, what its runs are called that have workers: see busy_words()
  stand_serve(state, call)
  state$stand <- .Call(ffi_fork_stand_new, state$server, n)
  if (start == "forkserver") stand_fill(state, call) else stand_start(state, timeout, call)
  state
}

stand_serve <- function(state, call = NULL) {
  known <- fork_server(state$packages, call, state$start == "forkserver", state$options)
  state$known <- known
  state$server <- known$server
  state$base <- known$base
  fork_server_note(known)
}

stand_state <- function(cl) unclass(cl)[[1L]]$state

stand_numbers <- function(cl) vapply(unclass(cl), function(node) node$rank, 1L)

# Workers that are programs of their own, until all are ready or `timeout` seconds are over. Those that are not
# take part when they are; those that have ended are followed by others with the next call.
stand_start <- function(state, timeout, call = NULL) {
  is_done <- FALSE
  on.exit(if (!is_done) .Call(ffi_fork_stand_stop, state$stand))
  until <- .Call(ffi_clock) + timeout
  for (count in if (state$start == "sequential") seq_len(state$n) else state$n) {
    stand_fill(state, call, count)
    .Call(ffi_fork_stand_await, state$stand, max(0, until - .Call(ffi_clock)))
  }
  members <- .Call(ffi_fork_stand_members, state$stand)
  ready <- sum(members$pid > 0L & !members$starting)
  if (ready < state$n) {
    late <- sum(members$pid > 0L & members$starting)
    reason <- reason_not_ready(state$n - ready - late, late, timeout, .Call(ffi_fork_server_state, state$server)$log)
    if (ready == 0L) {
      advice <- if (late > 0L) "Look at what it has printed, or raise `timeout`." else "Look at what it has printed."
      signal_error(error_start(state$n, reason, advice, call = call))
    }
    warning(warning_workers(ready, state$n, reason))
  }
  is_done <- TRUE
}

reason_not_ready <- function(ended, late, timeout, log) {
  said <- utils::tail(unique(lines_said(trimws(strsplit(log, "\n", fixed = TRUE)[[1L]]))), 5L)
  paste(c(
    if (ended > 0L) sprintf("%d ended before they were ready", ended),
    if (late > 0L) sprintf("%d are not ready after %s", late, format_seconds(timeout)), said
  ), collapse = "; ")
}

# Of what a program has written. What R adds to an error would stand in the place of the error.
lines_said <- function(lines) lines[nzchar(trimws(lines)) & !grepl("^(Calls: |Execution halted$)", lines)]

# Every place, or the first `count`, has a worker afterwards. The server may end while it is asked for one.
stand_fill <- function(state, call = NULL, count = state$n) {
  failed <- stand_ask(state, function() .Call(ffi_fork_stand_fill, state$stand, count))
  if (failed != 0L) {
    signal_error(error_start(state$n, .Call(ffi_system_message, failed), call = call))
  }
}

# What `ask` returns, an errno or one behind a pid; if the server has ended meanwhile, another one is asked.
stand_ask <- function(state, ask) {
  got <- ask()
  if (got[[length(got)]] == server_gone) {
    stand_ready(state)
    got <- ask()
  }
  got
}

# ESRCH, on all systems: there is no fork server that could do it.
server_gone <- 3L

# Sends a worker a call of package parallel: an errno, 0 if it was sent. `lost` is called before if the worker that was
# called last has ended, and what it had been given with it.
stand_send <- function(state, rank, bytes, lost = function() NULL) {
  send <- function() stand_ask(state, function() .Call(ffi_fork_stand_send, state$stand, rank, bytes))
  failed <- send()
  if (failed == worker_lost) {
    lost()
    failed <- send()
  }
  failed
}

# WORKER_LOST and WORKER_ENDED of src/fork-server.c.
worker_lost <- -1L
worker_ended <- -2L

# Why a call was not sent.
stand_reason <- function(failed) {
  if (failed == worker_ended) "it has ended while it was sent a call" else .Call(ffi_system_message, failed)
}

# A server that has ended is followed by another.
stand_ready <- function(state) {
  if (is.null(state$stand)) signal_error(error_stopped())
  check_owner(state$pid, state$stand)
  if (!.Call(ffi_fork_server_state, state$server)$alive) {
    stand_serve(state)
    .Call(ffi_fork_stand_renew, state$stand, state$server)
  } else {
    fork_server_note(state$known)
  }
}

then_replaced <- "; another takes its place with the next call"
reason_replaced <- paste0("its process has ended", then_replaced)

# For cluster_status(), which says what it returns.
stand_status <- function(cl) {
  state <- stand_state(cl)
  if (is.null(state$stand)) signal_error(error_stopped())
  check_owner(state$pid, state$stand)
  members <- lapply(.Call(ffi_fork_stand_members, state$stand), `[`, stand_numbers(cl))
  there <- members$pid > 0L
  busy <- there & members$busy
  look <- processes_look(members$pid)
  known <- ifelse(busy, "busy", "idle")
  known[members$starting] <- "starting"
  known[look$state %in% c("T", "t")] <- "silent"
  known[!there] <- "gone"
  table <- data.frame(
    host = "localhost", pid = ifelse(there, members$pid, NA_integer_), state = known,
    call = ifelse(busy, members$call, NA_character_), element = members$element, element_for = members$seconds,
    busy_for = ifelse(busy, .Call(ffi_clock) - members$since, NA_real_),
    cpu = look$cpu, memory = look$memory, heard = ifelse(there, 0, NA_real_),
    reason = ifelse(there, NA_character_, reason_replaced)
  )
  list(table = table, active = any(there & (members$starting | members$active)))
}
