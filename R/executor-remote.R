# The session's side of clusters on other hosts: what brings an agent to each host (R/executor-remote-launch.R),
# who has come, and what the agents say (R/executor-remote-agent.R is the other end). A pool is what the
# nodes of a cluster have in common. All in it are environments:
#
#   host   name, workers (how many it is to have), state, link, life (how often it has become ready), pids
#          and last facts, why it is gone, how often and when it is started again
#   seat   the place of one worker: host and number there; `holder`, the run whose elements it was given
#          last, and `open`, how many of them have not ended; a call of package parallel and its value; `called`,
#          which worker has last answered one, and `lost`, it was not the one of the answer before
#
# A host is "launched", "coming" (its agent has proved who it is), "ready", or "gone". One that is gone is
# started again, after a pause that grows, until it has failed too often. While anybody may come the
# pool listens; otherwise nobody is let in.

# `launch(pool, hosts)` starts what brings the agents of these hosts (numbers): launch_start(). It is given up if
# none has come of it after `patience` seconds.
remote_pool <- function(workers, names, address, deadline, packages, launch, patience = Inf) {
  pool <- new.env(parent = emptyenv())
  pool$pid <- Sys.getpid()
  pool$address <- address
  pool$deadline <- deadline
  pool$packages <- packages
  pool$launch <- launch
  pool$patience <- patience
  pool$launches <- list()
  pool$numbers <- list() # of those who may come: the host of each
  pool$links <- list() # of those that have proved themselves and not yet said who they are
  pool$refused <- character()
  pool$news <- list() # by token, events that a run has not taken
  pool$running <- list() # by token and host, what the workers of a run with limits do
  pool$count <- 0
  pool$hosts <- lapply(seq_along(workers), function(h) remote_host(h, names[[h]], workers[[h]]))
  pool$seats <- unlist(lapply(pool$hosts, remote_seats), recursive = FALSE)
  reg.finalizer(pool, remote_forget, onexit = TRUE)
  pool
}

remote_host <- function(number, name, workers) {
  host <- new.env(parent = emptyenv())
  host$number <- number
  host$name <- name
  host$workers <- workers
  host$state <- "gone"
  host$life <- 0
  host$tries <- 0
  host$useful <- FALSE
  host$due <- -Inf
  host$reason <- "it was not started"
  host
}

remote_seats <- function(host) {
  lapply(seq_len(host$workers), function(at) {
    seat <- new.env(parent = emptyenv())
    seat$host <- host
    seat$at <- at
    seat$open <- 0
    seat$calls <- 0
    seat$number <- 0 # of the last call
    seat$lost <- FALSE
    seat
  })
}

seat_is_ready <- function(seat) seat$host$state == "ready"

# NA: its process has ended, and no other has taken its place yet.
seat_pid <- function(seat) {
  pid <- seat$host$pids[seat$at]
  if (length(pid) == 0L || pid <= 0L) NA_integer_ else pid
}

# What no worker has that takes its place.
seat_worker <- function(seat) c(seat$host$life, seat_pid(seat))

seat_is_another <- function(seat) !is.null(seat$called) && !identical(seat$called, seat_worker(seat))

# One may have ended that the agent has found ended only when it had a call for it.
seat_answered <- function(seat) {
  seat$lost <- seat$lost || seat_is_another(seat)
  seat$called <- seat_worker(seat)
}

# Whether what calls had left in its worker has gone with it: once for each that has.
seat_has_lost <- function(seat) {
  lost <- seat$lost || seat_is_another(seat)
  if (seat_is_another(seat)) seat$called <- NULL
  seat$lost <- FALSE
  lost
}

# Before one that is gone for good is given up, seconds to wait before each new start. One from which values have
# come, or that was there for half a minute, begins with the first again.
remote_pauses <- c(0, 1, 2, 4, 8)

remote_is_final <- function(pool, host) host$state == "gone" && host$tries > length(remote_pauses)

remote_may_come <- function(pool) {
  any(vapply(pool$hosts, function(host) host$state %in% c("launched", "coming"), NA))
}

remote_handshake_seconds <- 5

# How many numbers there are for those who come while the pool listens.
remote_numbers <- 65536

remote_listen <- function(pool) {
  if (is.null(pool$gate)) {
    pool$key <- link_secret()
    pool$server <- socket_server(host = pool$address)
    pool$port <- socket_port(pool$server)
    pool$gate <- .Call(ffi_gate_new, pool$server, pool$key, remote_numbers, remote_handshake_seconds)
    pool$numbers <- list()
  }
}

# Nobody is let in any more, and nothing is listened at.
remote_close <- function(pool) {
  if (!is.null(pool$gate)) {
    .Call(ffi_gate_close, pool$gate)
    close(pool$server)
    for (event in pool$links) .Call(ffi_link_close, event$link, 0)
    pool$links <- list()
    pool$gate <- pool$server <- pool$key <- NULL
  }
}

# The first line of an agent; `number` is a number or names a variable, as agent_number() reads it.
remote_line <- function(pool, hosts, port, number) {
  paste(
    paste(hosts, collapse = ","), port, number, paste(format(pool$key), collapse = ""),
    remote_dial_seconds, pool$deadline
  )
}

# How long an agent tries to reach a session that may be busy.
remote_dial_seconds <- 600

remote_launch <- function(pool, hosts) {
  remote_listen(pool)
  numbers <- length(pool$numbers) + seq_along(hosts) - 1
  pool$numbers <- c(pool$numbers, as.list(hosts))
  for (host in pool$hosts[hosts]) {
    host$state <- "launched"
    host$begun <- .Call(ffi_clock)
    host$launches <- list()
  }
  for (launch in pool$launch(pool, hosts, numbers)) {
    pool$launches[[length(pool$launches) + 1L]] <- launch
    for (host in pool$hosts[launch$hosts]) host$launches <- list(launch)
  }
}

# What is to be done without waiting; whether anything was. An interrupt in the middle would leave a host half lost, or
# a message taken and not noted, for whoever uses the cluster next.
remote_step <- function(pool) suspendInterrupts(remote_step_whole(pool))

remote_step_whole <- function(pool) {
  done <- FALSE
  now <- .Call(ffi_clock)
  if (!is.null(pool$gate)) done <- remote_admit(pool)
  for (host in pool$hosts) {
    while (!is.null(host$link) && !is.null(message <- remote_next(pool, host))) {
      remote_take(pool, host, message)
      done <- TRUE
    }
    if (!is.null(host$link)) remote_mind(pool, host)
    if (host$state == "launched") remote_mind_launch(pool, host)
    if (host$state == "gone" && isTRUE(pool$keeps) && !remote_is_final(pool, host) && now >= host$due) {
      remote_launch(pool, host$number)
    }
  }
  if (!is.null(pool$gate) && !remote_may_come(pool)) remote_close(pool)
  done
}

# Goes on for at most `seconds`, until something has happened.
remote_pump <- function(pool, seconds) {
  check_owner(pool$pid, pool$hosts[[1L]]$link)
  if (!remote_step(pool) && seconds > 0) {
    .Call(ffi_link_wait, pool$gate, min(seconds, remote_wait(pool)))
    remote_step(pool)
  }
}

remote_wait <- function(pool) {
  gone <- vapply(pool$hosts, function(host) host$state == "gone" && !remote_is_final(pool, host), NA)
  ending <- vapply(pool$hosts, function(host) !is.null(host$ended_at), NA)
  if (any(ending)) 0.05 else if (remote_may_come(pool) || any(gone)) 0.25 else 1
}

remote_next <- function(pool, host) {
  message <- tryCatch(link_take(host$link), regatta_error_socket = identity)
  if (!inherits(message, "error")) {
    return(message)
  }
  now <- .Call(ffi_clock)
  if (is.null(host$ended_at)) host$ended_at <- now
  if (!any(vapply(host$launches, launch_is_running, NA)) || now - host$ended_at > remote_last_words) {
    remote_lose(pool, host, message$reason)
  }
  NULL
}

# After the end of a connection, seconds within which what has brought the agent says how that has ended.
remote_last_words <- 1

remote_admit <- function(pool) {
  done <- FALSE
  for (event in link_done(.Call(ffi_gate_step, pool$gate, link_settings(pool$deadline)), "let agents in")) {
    if (event$fate == "admitted") {
      pool$links[[length(pool$links) + 1L]] <- event
    } else {
      remote_refuse(pool, event, remote_fates[[event$fate]])
    }
  }
  waiting <- pool$links
  pool$links <- list()
  for (event in waiting) {
    message <- tryCatch(link_take(event$link), error = identity)
    if (is.null(message)) {
      pool$links[[length(pool$links) + 1L]] <- event
    } else if (inherits(message, "error")) {
      remote_refuse(pool, event, conditionMessage(message))
    } else {
      remote_join(pool, event, message)
      done <- TRUE
    }
  }
  done
}

remote_refuse <- function(pool, event, reason) {
  if (length(pool$refused) < 1000L) {
    pool$refused <- c(pool$refused, sprintf("%s: %s", event$peer, reason))
  }
  if (!is.null(event$link)) .Call(ffi_link_close, event$link, 0)
}

remote_fates <- c(
  late = "has not proved itself in time", crowded = "has not proved itself and had to make room",
  foreign = "speaks something else", wrong = "does not know the secret, or was let in already",
  ended = "has gone before it has proved itself", error = "could not be let in"
)

remote_join <- function(pool, event, message) {
  facts <- message$data
  is_agent <- identical(message$type, "JOIN") && typeof(facts) == "list" && !is.object(facts) &&
    is.character(facts$host) && is.integer(facts$pid) && is.character(facts$version) &&
    is.double(facts$clock)
  number <- event$number + 1
  host <- if (is_agent && number <= length(pool$numbers)) pool$hosts[[pool$numbers[[number]]]]
  unfit <- if (is.null(host)) "it is none of those that were started" else remote_unfit(facts)
  if (is.null(unfit) && host$state != "launched") unfit <- "another one is there already"
  if (!is.null(unfit)) {
    remote_refuse(pool, event, unfit)
    if (!is.null(host) && host$state == "launched") {
      remote_gone(pool, host, unfit)
      host$tries <- Inf # it would be the same
    }
    return(invisible())
  }
  host$link <- event$link
  host$facts <- facts
  host$state <- "coming"
  host$ahead <- facts$clock - .Call(ffi_clock)
  host$base <- settings_base()
  link_send(host$link, list(
    type = "BEGIN", workers = host$workers, packages = pool$packages, options = host$base$options
  ))
}

remote_unfit <- function(facts) {
  if (!identical(facts$version, regatta_version())) {
    sprintf("it has regatta %s, this session %s", facts$version, regatta_version())
  } else if (!identical(facts$endian, .Platform$endian)) {
    "it has numbers in another order of bytes"
  }
}

remote_take <- function(pool, host, message) {
  if (is.integer(message$pids)) host$pids <- message$pids
  switch(message$type,
    READY = {
      host$state <- "ready"
      host$life <- host$life + 1
      host$since <- .Call(ffi_clock)
      host$useful <- FALSE # no value has come yet
      host$oom_kills <- message$oom_kills
    },
    FAILED = remote_lose(pool, host, message$reason),
    EVENTS = remote_note(pool, host, message),
    RUNNING = {
      message$running$at <- .Call(ffi_clock)
      pool$running[[message$token]][[host$number]] <- message$running
    },
    ENDED = host$ended <- c(host$ended, message$token),
    LOOK = {
      host$look <- c(message$workers, list(at = message$at))
      host$looked <- .Call(ffi_clock)
    },
    VALUE = {
      if (!is.null(message$bytes)) host$useful <- TRUE
      remote_answered(remote_seat(pool, host, message$seat), message)
    }
  )
}

# What answers a call that was given up may have been on its way when the next one was sent.
remote_answered <- function(seat, message) {
  if (seat$calls == 0 || message$number != seat$number) {
    return(invisible())
  }
  seat$calls <- 0
  seat$value <- list(bytes = message$bytes, reason = message$reason)
  if (!is.null(message$bytes)) seat_answered(seat)
}

remote_seat <- function(pool, host, at) {
  for (seat in pool$seats) {
    if (identical(seat$host, host) && seat$at == at) return(seat)
  }
}

remote_seats_of <- function(pool, host) Filter(function(seat) identical(seat$host, host), pool$seats)

# Events of a run wait until it asks for them; what they say of a seat is noted at once, for the others.
remote_note <- function(pool, host, message) {
  events <- lapply(message$events, function(event) {
    for (field in c("start", "end")) {
      if (!is.null(event[[field]])) event[[field]] <- event[[field]] - host$ahead
    }
    event
  })
  for (event in events) {
    if (event$type %in% c("ended", "left")) remote_settle(pool, host, message$token, event)
    if (event$type == "ended") host$useful <- TRUE
  }
  if (message$token %in% names(pool$news)) {
    pool$news[[message$token]] <- c(pool$news[[message$token]], events)
  }
}

remote_settle <- function(pool, host, token, event) {
  for (seat in remote_seats_of(pool, host)) {
    if (identical(seat$holder$token, token) && seat$holder$worker %in% event$worker) {
      ended <- if (event$type == "left") seat$open else sum(event$worker == seat$holder$worker)
      seat$open <- seat$open - ended
      if (event$type == "left") seat$holder <- NULL
    }
  }
}

# One that is connected and says nothing was stopped, or is cut off.
remote_mind <- function(pool, host) {
  look <- .Call(ffi_link_look, host$link)
  if (look$open && look$silent > pool$deadline) {
    remote_lose(pool, host, sprintf("it has said nothing for %s", format_seconds(look$silent)))
  }
}

# What was to bring the agent has ended.
remote_mind_launch <- function(pool, host) {
  running <- vapply(host$launches, launch_is_running, NA)
  if (length(running) > 0L && !any(running) && length(pool$links) == 0L) {
    said <- unlist(lapply(host$launches, launch_said))
    remote_gone(pool, host, if (length(said) > 0L) paste(said, collapse = "; ") else "its command has ended")
  } else if (.Call(ffi_clock) - host$begun > pool$patience) {
    reason <- sprintf("%s: its command has brought nobody within %s", host$name, format_seconds(pool$patience))
    remote_gone(pool, host, paste(c(reason, unlist(lapply(host$launches, launch_said))), collapse = "; "))
  }
}

remote_lose <- function(pool, host, reason) {
  .Call(ffi_link_close, host$link, 0)
  host$link <- host$ended_at <- NULL
  # What it has printed last may say more than the end of a connection.
  said <- unlist(lapply(host$launches, launch_said))
  remote_gone(pool, host, paste(c(reason, said), collapse = "; "))
}

remote_gone <- function(pool, host, reason) {
  now <- .Call(ffi_clock)
  if (host$state == "ready" && (host$useful || now - host$since > 30)) host$tries <- 0
  host$state <- "gone"
  host$reason <- reason
  host$tries <- host$tries + 1
  host$due <- now + remote_pauses[min(host$tries, length(remote_pauses))]
  for (seat in remote_seats_of(pool, host)) {
    if (seat$calls > 0) seat$value <- list(bytes = NULL, reason = reason)
    seat$calls <- seat$open <- 0
    seat$holder <- NULL
  }
  # One launch may have brought several.
  for (launch in host$launches) {
    others <- vapply(pool$hosts[launch$hosts], function(other) {
      other$state != "gone" && any(vapply(other$launches, function(l) l$folder == launch$folder, NA))
    }, NA)
    if (!any(others)) remote_end_launch(pool, launch)
  }
  host$launches <- list()
}

remote_end_launch <- function(pool, launch) {
  launch_end(launch)
  pool$launches <- Filter(function(l) l$folder != launch$folder, pool$launches)
}

# Launches all, and waits until all are ready, or `seconds` are over, or nobody is left who could come: the
# cluster. An interrupt ends what was started.
remote_start <- function(pool, seconds, min_workers, call) {
  if (min_workers > length(pool$seats)) {
    must <- sprintf("at most %d, which is how many workers there are to be", length(pool$seats))
    abort_argument("min_workers", min_workers, must, call = call)
  }
  is_done <- FALSE
  on.exit(if (!is_done) remote_stop(pool))
  remote_launch(pool, seq_along(pool$hosts))
  until <- .Call(ffi_clock) + seconds
  repeat {
    remote_step(pool)
    left <- until - .Call(ffi_clock)
    if (left <= 0 || !remote_may_come(pool)) break
    .Call(ffi_link_wait, pool$gate, min(left, 0.25))
  }
  ready <- vapply(pool$seats, seat_is_ready, NA)
  pool$keeps <- TRUE
  if (sum(ready) < length(ready)) {
    reason <- remote_reason(pool)
    if (sum(ready) < min_workers) {
      signal_error(error_start(length(ready), reason, remote_advice(pool), call = call))
    }
    warning(warning_workers(sum(ready), length(ready), reason))
  }
  # None yet: all are nodes, and who uses them waits.
  pool$first <- if (any(ready)) which(ready) else seq_along(ready)
  is_done <- TRUE
  nodes <- lapply(pool$first, function(rank) {
    structure(list(pool = pool, rank = rank), class = c("regatta_remote_node", "SOCKnode"))
  })
  structure(nodes, class = c("regatta_remote", "regatta_cluster", "SOCKcluster", "cluster"))
}

remote_reason <- function(pool) {
  states <- vapply(pool$hosts, `[[`, "", "state")
  reasons <- vapply(pool$hosts[states == "gone"], `[[`, "", "reason")
  if (length(reasons) > 0L) paste(utils::tail(unique(reasons), 5L), collapse = "; ") else "they have not come in time"
}

remote_advice <- function(pool) {
  refused <- utils::tail(pool$refused, 3L)
  paste(c(
    "Look whether the command that starts them works by itself, or raise `timeout`.",
    if (length(refused) > 0L) paste("Turned away:", paste(refused, collapse = "; "))
  ), collapse = " ")
}

remote_is_stopped <- function(pool) isTRUE(pool$stopped)

# An interrupt ends the waiting, and nothing else is left out.
remote_stop <- function(pool) {
  pool$stopped <- TRUE
  pool$keeps <- FALSE
  on.exit(suspendInterrupts({
    for (host in pool$hosts) {
      if (!is.null(host$link)) .Call(ffi_link_close, host$link, 0)
      host$link <- NULL
      host$state <- "gone"
    }
    remote_close(pool)
    remote_end_launches(pool)
  }))
  linked <- Filter(function(host) !is.null(host$link), pool$hosts)
  for (host in linked) try(link_send(host$link, list(type = "DONE")), silent = TRUE)
  # They close their connections when their workers have ended.
  await_none(linked, function(host) .Call(ffi_link_look, host$link)$open, 5)
  for (host in linked) {
    .Call(ffi_link_close, host$link, 5)
    host$link <- NULL
  }
  remote_close(pool)
  told <- vapply(linked, `[[`, 0L, "number")
  ending <- Filter(function(launch) any(launch$hosts %in% told) && !launch$watches, pool$launches)
  launches_await(ending, 5)
}

# What has brought agents, or is to, ends.
remote_end_launches <- function(pool) {
  for (launch in pool$launches) launch_end(launch)
  pool$launches <- list()
}

# Nobody has it any more, or the session ends: agents that are killed with what has brought them leave their folders.
remote_forget <- function(pool) {
  if (pool$pid == Sys.getpid() && !remote_is_stopped(pool)) remote_stop(pool)
}
