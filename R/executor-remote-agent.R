# An agent: the one process on a host that talks to the session. It finds the session, proves who it is,
# and has workers for it: those of a fork server, as cluster_local() has them (src/fork-server.h). So what
# a worker elsewhere does is what one of this machine does, by the same code: queue, rings and arena,
# output, limits, ends and their causes. The agent runs none of the user's code; it passes on what the
# workers tell, and is there when they are not.
#
# For each worker that takes part in a run there is a pool of one place, since the session says which
# elements are whose. What it is sent and what it sends stands in R/executor-remote-run.R.

# What a launcher starts. What it is to know comes in one variable of the environment or as the first line
# of stdin, never as an argument, which every user of the machine can read: hosts separated by commas,
# port, number, secret as hexadecimal digits, seconds to try, deadline of link_settings().
agent_main <- function() suspendInterrupts({
  link <- NULL
  status <- tryCatch(
    allowInterrupts({
      .Call(ffi_link_heed_signals)
      link <- agent_join(agent_line())
      .Call(ffi_link_end_with_session, tempdir())
      link_send(link, list(type = "JOIN", data = agent_facts()))
      agent_serve(link)
    }),
    # The session is gone, or a signal has come. R may learn of its link first, and of the interrupt then.
    interrupt = function(e) .Call(ffi_link_end_status),
    error = function(e) {
      status <- .Call(ffi_link_end_status)
      if (status == 1L) message(conditionMessage(e))
      status
    }
  )
  unlink(tempdir(), recursive = TRUE) # the end of the connection may be that of a job, with what still runs in it
  if (!is.null(link)) .Call(ffi_link_close, link, 1)
  quit("no", status, FALSE)
})

agent_join <- function(line) {
  words <- strsplit(line, " ", fixed = TRUE)[[1L]]
  key <- as.raw(strtoi(substring(words[[4L]], seq(1L, 63L, 2L), seq(2L, 64L, 2L)), 16L))
  agent_connect(
    strsplit(words[[1L]], ",", fixed = TRUE)[[1L]], as.integer(words[[2L]]), key, agent_number(words[[3L]]),
    as.double(words[[5L]]), link_settings(as.double(words[[6L]]), is_node = TRUE)
  )
}

agent_line <- function() {
  line <- Sys.getenv("REGATTA_NODE")
  Sys.unsetenv("REGATTA_NODE") # not for programs that workers start
  if (!nzchar(line)) {
    input <- file("stdin", "r")
    on.exit(close(input))
    line <- readLines(input, 1L)
  }
  line
}

# With one launch for many agents each has its number from the system that has launched it.
agent_number <- function(word) {
  if (!startsWith(word, "$")) {
    return(as.double(word))
  }
  parts <- strsplit(substring(word, 2L), "+", fixed = TRUE)[[1L]]
  as.double(Sys.getenv(parts[[1L]])) + as.double(parts[[2L]])
}

agent_facts <- function() {
  list(
    pid = Sys.getpid(), host = unname(Sys.info()[["nodename"]]), version = regatta_version(),
    r = paste0(R.version$major, ".", R.version$minor), endian = .Platform$endian,
    cores = as.integer(workers_available()), clock = .Call(ffi_clock)
  )
}

# Tries again until `seconds` are over: the session may not be listening yet, its queue may be full, and
# a connection may be one that only this end believes in, whose challenge never comes. As package parallel
# does, each try may take a little longer than the one before, and so may the pause after it.
agent_connect <- function(hosts, port, key, number, seconds, settings) {
  until <- .Call(ffi_clock) + seconds
  heard <- .Call(ffi_clock)
  limit <- 1
  pause <- 0.1
  repeat {
    is_refused <- TRUE
    for (host in hosts) {
      link <- tryCatch(
        agent_try(host, port, key, number, limit, settings),
        regatta_error_socket = function(e) e
      )
      if (!inherits(link, "error")) {
        return(link)
      }
      is_refused <- is_refused && isTRUE(link$errno %in% errno_refused)
    }
    now <- .Call(ffi_clock)
    if (!is_refused) heard <- now
    if (now + pause > until || now - heard > agent_refused_seconds) {
      stop(link)
    }
    Sys.sleep(pause)
    limit <- limit + 0.2
    pause <- min(pause * 1.5, 10)
  }
}

# The session listens before it launches agents, and as long as any may come: where nobody listens any more, it
# has given them up.
agent_refused_seconds <- 5

errno_refused <- c(111L, 61L) # ECONNREFUSED of Linux, of macOS and BSD

# The session may be busy with other agents: for its handshake there is more time.
agent_try <- function(host, port, key, number, limit, settings) {
  socket <- socket_connect(port, host, timeout = limit)
  on.exit(close(socket))
  link_done(
    .Call(ffi_link_join, socket, key, number, limit + 4, settings),
    "prove to the session who this is"
  )
}

# Until the session says that it is done, or is gone.
agent_serve <- function(link) {
  agent <- new.env(parent = emptyenv())
  agent$link <- link
  agent$done <- FALSE
  agent$runs <- list() # by token
  agent$seats <- list() # of each worker: pool, token, id, while it takes part in a run
  while (is.null(agent$stand) && !agent$done) {
    agent_listen(agent)
    if (is.null(agent$stand)) .Call(ffi_link_wait, NULL, Inf)
  }
  on.exit(agent_stop(agent))
  while (!agent$done) {
    agent_listen(agent)
    agent_look(agent)
    pools <- lapply(agent_busy(agent), function(seat) agent$seats[[seat]]$pool)
    .Call(ffi_fork_wait, pools, agent$stand, agent_wait(agent))
  }
  0L
}

agent_stop <- function(agent) {
  for (seat in agent_busy(agent)) agent_leave(agent, seat)
  if (!is.null(agent$stand)) .Call(ffi_fork_stand_stop, agent$stand)
  fork_server_stop_all()
}

agent_send <- function(agent, type, ...) {
  link_send(agent$link, list(type = type, ...))
}

agent_listen <- function(agent) {
  while (!agent$done && !is.null(message <- link_take(agent$link))) {
    agent_do(agent, message)
  }
}

agent_do <- function(agent, message) {
  switch(message$type,
    BEGIN = agent_begin(agent, message),
    RUN = agent_run(agent, message),
    GIVE = agent_give(agent, message),
    INTERRUPT = agent_reach(agent, message, function(pool) {
      .Call(ffi_fork_pool_interrupt, pool, message$worker, message$element)
    }),
    SIGNAL = agent_reach(agent, message, function(pool) {
      .Call(ffi_fork_pool_signal, pool, message$worker, message$number)
    }),
    END = agent_end(agent, message$token),
    CALL = agent_call(agent, message),
    LOOK = agent_send(agent, "LOOK", workers = agent_workers(agent), at = message$at),
    DONE = agent$done <- TRUE
  )
}

# Has so many workers, with these packages loaded.
agent_begin <- function(agent, message) {
  n <- message$workers
  failed <- tryCatch(
    {
      agent$state <- stand_new(n, message$packages, options = message$options)
      NULL
    },
    error = conditionMessage
  )
  if (!is.null(failed)) {
    agent_send(agent, "FAILED", reason = failed)
    agent$done <- TRUE
    return(invisible())
  }
  agent$stand <- agent$state$stand
  agent$seats <- vector("list", n)
  agent$calls <- rep(0, n) # of each worker the number of the call that it has to answer, 0: none
  agent$pids <- agent_pids(agent)
  agent_send(agent, "READY", pids = agent$pids, oom_kills = .Call(ffi_memory_oom_kills))
}

agent_pids <- function(agent) .Call(ffi_fork_stand_members, agent$stand)$pid

agent_busy <- function(agent) which(!vapply(agent$seats, is.null, NA))

# What a run needs comes once for all workers of the host: what is large in it they read in the memory of
# this process.
agent_run <- function(agent, message) {
  run <- list(
    n = message$n, control = message$control, limited = message$limited, told = 0, share = message$share
  )
  run$failed <- tryCatch(
    {
      job <- job_unpack(list(body = link_unpack(message$job), packages = message$packages, seed = message$seed))
      job$share <- message$share
      job$settings <- message$settings
      run$packed <- job_pack(job, NULL)
      NULL
    },
    error = conditionMessage
  )
  # Values are sent on at once.
  run$control$copy <- TRUE
  run$control["lazy_strings"] <- list(NULL)
  agent$runs[[message$token]] <- run
}

# A worker's next batch. It joins the run if it is not in it, whatever it has taken part in before.
agent_give <- function(agent, message) {
  run <- agent$runs[[message$token]]
  seat <- agent$seats[[message$seat]]
  failed <- if (is.null(run)) "the run is over" else run$failed
  if (is.null(failed) && !agent_is_at(seat, message)) {
    failed <- agent_attach(agent, run, message)
    seat <- agent$seats[[message$seat]]
  }
  if (is.null(failed)) {
    .Call(ffi_fork_pool_submit, seat$pool, as.double(message$elements), message$tries, FALSE)
  } else {
    event <- event_not_started(message$worker, failed, agent_facts()$host)
    agent_send(agent, "EVENTS", token = message$token, events = list(event), pids = agent$pids)
  }
}

# Workers of two runs may have the same number.
agent_is_at <- function(seat, message) {
  identical(seat$token, message$token) && identical(seat$id, message$worker)
}

# NULL, or why it cannot.
agent_attach <- function(agent, run, message) {
  at <- message$seat
  if (!is.null(agent$seats[[at]])) agent_leave(agent, at)
  stand_ready(agent$state)
  tryCatch(
    {
      pool <- fork_pool_new(list(n = run$n, workers = 1L, control = run$control), agent$stand)
      failed <- .Call(ffi_fork_pool_code, pool, run$packed$stream)
      attach <- function() .Call(ffi_fork_worker_attach, pool, 1L, message$worker, at)
      got <- if (failed == 0L) stand_ask(agent$state, attach)
      if (failed == 0L && got[[1L]] <= 0L) failed <- got[[2L]]
      if (failed == 0L) {
        agent$seats[[at]] <- list(pool = pool, token = message$token, id = message$worker, pid = got[[1L]])
        return(NULL)
      }
      .Call(ffi_fork_pool_stop, pool)
      .Call(ffi_system_message, failed)
    },
    error = conditionMessage
  )
}

agent_leave <- function(agent, at) {
  .Call(ffi_fork_pool_stop, agent$seats[[at]]$pool)
  agent$seats[at] <- list(NULL)
}

# `act`, which interrupts a worker or sends it a signal, if the worker is still at what the message is about.
agent_reach <- function(agent, message, act) {
  seat <- agent$seats[[message$seat]]
  if (agent_is_at(seat, message)) act(seat$pool)
}

agent_end <- function(agent, token) {
  for (at in agent_busy(agent)) {
    if (identical(agent$seats[[at]]$token, token)) agent_leave(agent, at)
  }
  agent$runs[[token]] <- NULL
  agent_renew(agent)
  agent_send(agent, "ENDED", token = token, pids = agent$pids)
  if (sum(.Call(ffi_shm_info)$bytes) > 1e6) gc()
}

# Places whose workers have ended get others; what was not asked for is told.
agent_renew <- function(agent) {
  stand_ready(agent$state)
  if (any(agent_pids(agent)[!seq_along(agent$seats) %in% agent_busy(agent)] == 0L)) {
    stand_fill(agent$state)
  }
  agent$pids <- agent_pids(agent)
}

agent_call <- function(agent, message) {
  at <- message$seat
  if (!is.null(agent$seats[[at]])) agent_leave(agent, at)
  stand_ready(agent$state)
  if (message$fresh) .Call(ffi_fork_stand_replace, agent$stand, at)
  agent$calls[[at]] <- message$number
  failed <- stand_send(agent$state, at, message$bytes) # the session sees by the pids what was lost
  if (failed != 0L) agent_answer(agent, at, NULL, stand_reason(failed))
}

# `bytes` NULL: there will be no answer, for a `reason`.
agent_answer <- function(agent, at, bytes, reason = "its process has ended") {
  number <- agent$calls[[at]]
  agent$calls[[at]] <- 0
  agent_send(agent, "VALUE", seat = at, number = number, bytes = bytes, reason = reason, pids = agent_pids(agent))
}

# What has happened, without waiting.
agent_look <- function(agent) {
  tokens <- character()
  for (at in agent_busy(agent)) {
    seat <- agent$seats[[at]]
    tryCatch(
      {
        events <- .Call(ffi_fork_poll, seat$pool, 0)
        if (length(events) > 0L) agent_pass(agent, at, seat, events)
      },
      error = function(e) agent_cannot_pass(agent, at, seat, e)
    )
    tokens <- c(tokens, seat$token)
  }
  agent_receive(agent)
  pids <- agent_pids(agent)
  if (!identical(pids, agent$pids)) {
    agent_renew(agent)
    agent_send(agent, "PIDS", pids = agent$pids)
  }
  for (token in unique(tokens)) agent_tell(agent, token)
}

# With a fork server its workers have gone, and what they were to answer is no longer known to be asked.
agent_receive <- function(agent) {
  while (any(agent$calls > 0)) {
    got <- .Call(ffi_fork_stand_receive, agent$stand, which(agent$calls > 0), 0)
    if (is.null(got)) break
    agent_answer(agent, got[[1L]], got[[2L]])
  }
  if (any(agent$calls > 0)) {
    asked <- .Call(ffi_fork_stand_members, agent$stand)$calls
    for (at in which(agent$calls > 0 & asked == 0)) agent_answer(agent, at, NULL)
  }
}

# A worker that has left leaves its place to another. One that could not have what the run needs says so.
agent_pass <- function(agent, at, seat, events) {
  left <- vapply(events, function(event) event$type == "left", NA)
  if (any(left)) {
    agent_leave(agent, at)
    agent_renew(agent)
    event <- events[[which(left)]]
    if (length(event$index) == 0L && nzchar(event$backtrace)) {
      events[[which(left)]] <- event_not_started(event$worker, event$backtrace, agent_facts()$host)
    }
  }
  agent_send(agent, "EVENTS", token = seat$token, events = events, pids = agent$pids)
}

# What a worker has sent does not fit into the memory that this process may have: that costs the worker, not the host.
agent_cannot_pass <- function(agent, at, seat, cnd) {
  if (inherits(cnd, "regatta_error_socket")) stop(cnd)
  if (!is.null(agent$seats[[at]])) agent_leave(agent, at)
  agent_renew(agent)
  reason <- paste("what it has sent could not be passed on by its host:", conditionMessage(cnd))
  event <- event_left(seat$id, reason)
  agent_send(agent, "EVENTS", token = seat$token, events = list(event), pids = agent$pids)
}

# What the workers of a run with limits do.
agent_tell <- function(agent, token) {
  run <- agent$runs[[token]]
  now <- .Call(ffi_clock)
  if (run$limited && now - run$told >= agent_interval) {
    agent$runs[[token]]$told <- now
    mine <- Filter(function(seat) identical(seat$token, token), agent$seats)
    running <- lapply(mine, function(seat) .Call(ffi_fork_pool_running, seat$pool))
    pids <- vapply(mine, `[[`, 0L, "pid")
    agent_send(agent, "RUNNING", token = token, running = list(
      worker = unlist(lapply(running, `[[`, "worker")), element = unlist(lapply(running, `[[`, "element")),
      try = unlist(lapply(running, `[[`, "try")),
      seconds = unlist(lapply(running, `[[`, "seconds")),
      cpu_seconds = unlist(lapply(running, `[[`, "cpu_seconds")),
      memory = if (is.finite(run$control$memory)) vapply(pids, measure_here, 0, "memory")
    ))
  }
}

# Seconds between two reports of what workers do.
agent_interval <- 0.05

agent_wait <- function(agent) {
  limited <- vapply(agent$runs, function(run) run$limited, NA)
  if (any(limited) && length(agent_busy(agent)) > 0L) agent_interval else 60
}

# The state, processor time, element and memory of each worker.
agent_workers <- function(agent) {
  members <- .Call(ffi_fork_stand_members, agent$stand)
  pids <- members$pid
  c(
    list(pid = pids), processes_look(pids), members[c("element", "seconds")],
    list(anonymous = vapply(pids, measure_here, 0, "memory"))
  )
}
