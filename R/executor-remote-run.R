# Runs on the workers of agents (R/executor-remote-agent.R). The session says which worker is to run which
# elements, and hears what a worker of this machine tells: the events are those of the fork executor. What
# the run needs goes to each host once.
#
# A cluster outlives its runs, and several may be under way: calls that were not asked for their value,
# streams, a map in between. They take turns: a worker that has elements of another run is waited for while
# the others work.
#
# A worker of the driver gets a seat when one is ready that no other worker of the run has: so those that
# come late take part, and those whose host was lost get another.

new_executor.regatta_remote <- function(on, plan) {
  run <- remote_run(on, plan)
  list(
    kind = "remote",
    advice = "`cluster_status()` tells what has become of the workers.",
    awaits = function() remote_awaits(run$pool),
    start = function(workers, places) remote_begin(run, workers),
    poll = function(timeout) remote_poll(run, timeout),
    admit = function(worker, share) {
      run$workers[[worker]]$share <- share
      remote_tell(run, list(type = "ready", worker = worker))
    },
    give = function(worker, elements, tries) remote_give(run, worker, elements, tries),
    running = function() remote_running(run),
    interrupt = function(worker, element) {
      remote_reach(run, worker, "INTERRUPT", element = as.double(element))
    },
    signal = function(worker, number) remote_reach(run, worker, "SIGNAL", number = number),
    measure = function(worker, what) remote_measure(run, worker, what),
    guard = function(code) {
      .Call(ffi_cluster_guard, quote(code), environment(), as.call(list(remote_end, run)))
    },
    stop = function() {
      remote_end(run)
      list(worker = integer(), peak = numeric())
    }
  )
}

# Seats that the cluster had when it was made, and those that have come since.
workers_offered.regatta_remote <- function(on) {
  count <- length(remote_ranks(on))
  list(usual = count, most = count)
}

remote_ranks <- function(on) {
  ranks <- vapply(unclass(on), `[[`, 0L, "rank")
  pool <- unclass(on)[[1L]]$pool
  if (all(pool$first %in% ranks)) seq_along(pool$seats) else ranks
}

remote_run <- function(on, plan) {
  pool <- unclass(on)[[1L]]$pool
  check_owner(pool$pid, remote_pointer(pool))
  if (remote_is_stopped(pool)) signal_error(error_stopped())
  run <- new.env(parent = emptyenv())
  run$pool <- pool
  run$plan <- plan
  run$ranks <- remote_ranks(on)
  pool$count <- pool$count + 1
  run$token <- sprintf("%d.%.0f", Sys.getpid(), pool$count)
  run$waiting <- integer() # workers without a seat
  run$workers <- list() # by number: list(seat, life, share), NULL when it has left
  run$told <- list() # by host: the life to which what the run needs was sent
  run$events <- list()
  run$beat <- max(pool$deadline / 10, 0.5)
  run$beaten <- run$polled <- .Call(ffi_clock)
  run$over <- FALSE
  pool$news[[run$token]] <- list()
  # Dropped before its end: a stream, a call.
  reg.finalizer(run, remote_abandoned)
  run
}

# An external pointer of this process, to tell a copy of the cluster that was sent elsewhere.
remote_pointer <- function(pool) {
  links <- Filter(Negate(is.null), lapply(pool$hosts, `[[`, "link"))
  if (length(links) > 0L) links[[1L]]
}

remote_tell <- function(run, event) {
  run$events[[length(run$events) + 1L]] <- event
}

remote_poll <- function(run, timeout) {
  stop_abandoned_remote()
  if (length(run$events) == 0L) {
    remote_pump(run$pool, 0)
    remote_look(run)
    if (length(run$events) == 0L && timeout > 0) {
      remote_pump(run$pool, min(timeout, run$beat))
      remote_look(run)
    }
  }
  events <- run$events
  run$events <- list()
  events
}

remote_look <- function(run) {
  pool <- run$pool
  news <- pool$news[[run$token]]
  if (length(news) > 0L) {
    pool$news[[run$token]] <- list()
    run$events <- c(run$events, news)
    for (event in news) {
      if (event$type == "left") run$workers[event$worker] <- list(NULL)
    }
  } else if (remote_is_stopped(pool)) {
    signal_error(error_stopped())
  }
  remote_look_hosts(run)
  remote_seat_workers(run)
  remote_beats(run)
}

# Why nobody is there yet, in words.
remote_awaits <- function(pool) {
  now <- .Call(ffi_clock)
  reasons <- lapply(pool$hosts, function(host) {
    switch(host$state,
      launched = sprintf("%s was launched %s ago and has not come", host$name, format_seconds(now - host$begun)),
      coming = sprintf("%s has come and starts its workers", host$name),
      gone = sprintf("%s is gone: %s", host$name, host$reason)
    )
  })
  paste(utils::head(unlist(reasons), 3L), collapse = "; ")
}

# Workers whose host was lost.
remote_look_hosts <- function(run) {
  for (id in which(!vapply(run$workers, is.null, NA))) {
    worker <- run$workers[[id]]
    host <- worker$seat$host
    if (host$life != worker$life || host$state != "ready") {
      run$workers[id] <- list(NULL)
      remote_tell(run, event_left(id, host$reason))
    }
  }
}

remote_seat_workers <- function(run) {
  if (length(run$waiting) == 0L) {
    return(invisible())
  }
  taken <- Filter(Negate(is.null), lapply(run$workers, `[[`, "seat"))
  seats <- Filter(function(seat) {
    !any(vapply(taken, identical, NA, seat))
  }, run$pool$seats[run$ranks])
  # First those that nobody else has engaged.
  ready <- Filter(seat_is_ready, seats)
  ready <- ready[order(vapply(ready, function(seat) seat$open > 0 || seat$calls > 0, NA))]
  for (seat in utils::head(ready, length(run$waiting))) {
    id <- run$waiting[[1L]]
    run$waiting <- run$waiting[-1L]
    host <- seat$host
    run$workers[[id]] <- list(seat = seat, life = host$life, share = run$plan$share)
    remote_tell(run, event_joined(
      id, seat_pid(seat), host = host$facts$host, shares = FALSE, cores = host$facts$cores,
      heartbeat = run$beat
    ))
  }
  hopeful <- sum(!vapply(seats, function(seat) remote_is_final(run$pool, seat$host), NA)) - length(ready)
  while (length(run$waiting) > max(0, hopeful)) {
    id <- run$waiting[[length(run$waiting)]]
    run$waiting <- run$waiting[-length(run$waiting)]
    remote_tell(run, event_not_started(id, remote_reason(run$pool)))
  }
}

# A session that was away, stopped or busy, has heard of nobody.
remote_beats <- function(run) {
  now <- .Call(ffi_clock)
  away <- now - run$polled > run$beat
  run$polled <- now
  if (now - run$beaten < run$beat / 2 && !away) {
    return(invisible())
  }
  run$beaten <- now
  for (id in which(!vapply(run$workers, is.null, NA))) {
    link <- run$workers[[id]]$seat$host$link
    if (away || .Call(ffi_link_look, link)$silent < 2 * run$beat) {
      remote_tell(run, list(type = "heartbeat", worker = id))
    }
  }
}

# At once, though nobody may be free for long: what is sent is as it was at the time of the call.
remote_begin <- function(run, workers) {
  if (is.null(run$job)) {
    bytes <- job_closure(job_of(run$plan), run$plan$replay)$bytes
    run$packages <- bytes$packages
    run$job <- link_pack(bytes$body)
    run$settings <- settings_take(whole = FALSE)
  }
  run$waiting <- c(run$waiting, workers)
}

# FALSE if the worker has elements of another run, or a call of package parallel.
remote_give <- function(run, id, elements, tries) {
  worker <- run$workers[[id]]
  seat <- worker$seat
  if (is.null(worker) || !seat_is_ready(seat) || seat$host$life != worker$life) {
    return(FALSE) # the next poll tells that it has left
  }
  mine <- identical(seat$holder$token, run$token)
  if (seat$calls > 0 || (!mine && seat$open > 0)) {
    return(FALSE)
  }
  host <- seat$host
  if (!identical(run$told[host$number][[1L]], host$life)) {
    run$told[[host$number]] <- host$life # before it is sent, so that the host is told of the end however this one is
    sent <- remote_send(run$pool, host, "RUN",
      token = run$token, n = run$plan$n, control = run$plan$control, limited = run$plan$limited,
      share = worker$share, settings = settings_since(host$base, near = FALSE, run$settings), job = run$job,
      packages = run$packages, seed = run$plan$seed
    )
    if (!sent) {
      return(FALSE)
    }
  }
  seat$holder <- list(token = run$token, worker = id)
  seat$open <- seat$open + length(elements)
  seat$since <- .Call(ffi_clock)
  seat$verb <- run$plan$verb
  remote_send(run$pool, host, "GIVE",
    token = run$token, seat = seat$at, worker = id, elements = elements, tries = tries
  )
}

# FALSE if the host was lost: who has a worker there is told so.
remote_send <- function(pool, host, type, ...) {
  sent <- tryCatch(
    {
      link_send(host$link, list(type = type, ...))
      TRUE
    },
    regatta_error_socket = identity
  )
  if (inherits(sent, "error")) suspendInterrupts(remote_lose(pool, host, conditionMessage(sent)))
  isTRUE(sent)
}

remote_reach <- function(run, id, type, ...) {
  worker <- run$workers[[id]]
  if (is.null(worker) || !seat_is_ready(worker$seat)) {
    return(FALSE)
  }
  remote_send(run$pool, worker$seat$host, type,
    token = run$token, seat = worker$seat$at, worker = as.integer(id), ...
  )
}

# What was told last.
remote_running <- function(run) {
  now <- .Call(ffi_clock)
  all <- list(worker = integer(), element = numeric(), try = integer(), seconds = numeric(), cpu_seconds = numeric())
  for (told in run$pool$running[[run$token]]) {
    if (is.null(told)) next
    there <- !vapply(run$workers[told$worker], is.null, NA)
    told$seconds <- told$seconds + (now - told$at) * (told$element > 0)
    for (field in names(all)) all[[field]] <- c(all[[field]], told[[field]][there])
  }
  all
}

# As told by the host within the last moments, or asked for. Nobody waits long for a host that is silent.
remote_measure <- function(run, id, what) {
  worker <- run$workers[[id]]
  if (is.null(worker)) {
    return(if (what == "oom_kills") -1 else NA_real_)
  }
  host <- worker$seat$host
  if (what == "oom_kills") {
    return(host$oom_kills)
  }
  if (what == "stopped") {
    known <- !is.null(host$look) && .Call(ffi_clock) - host$looked < 1
    look <- if (known) host$look else remote_ask(run$pool, list(host), 2)[[1L]]
    return(if (is.null(look)) NA else identical(look$state[[worker$seat$at]], "T"))
  }
  told <- run$pool$running[[run$token]]
  told <- if (length(told) >= host$number) told[[host$number]]
  at <- match(id, told$worker)
  if (!is.na(at) && .Call(ffi_clock) - told$at < 1) {
    return(told$memory[[at]])
  }
  look <- remote_ask(run$pool, list(host), 2)[[1L]]
  if (is.null(look)) NA_real_ else look$anonymous[[worker$seat$at]]
}

# What hosts say of their workers, NULL for those that have not answered within `seconds`.
remote_ask <- function(pool, hosts, seconds) {
  pool$count <- pool$count + 1
  at <- pool$count
  for (host in hosts) {
    if (host$state == "ready") remote_send(pool, host, "LOOK", at = at)
  }
  until <- .Call(ffi_clock) + seconds
  waits <- function() {
    any(vapply(hosts, function(host) host$state == "ready" && !identical(host$look$at, at), NA))
  }
  while (waits() && (left <- until - .Call(ffi_clock)) > 0) remote_pump(pool, left)
  lapply(hosts, function(host) if (identical(host$look$at, at)) host$look)
}

# The workers are ready for whoever uses the cluster next when this returns: those that were at an element
# were ended, and others have taken their places. A host that does not say so in time is lost.
remote_end <- function(run) {
  pool <- run$pool
  if (run$over || pool$pid != Sys.getpid()) {
    return(invisible())
  }
  suspendInterrupts({
    run$over <- TRUE
    hosts <- Filter(function(host) {
      host$state == "ready" && identical(run$told[host$number][[1L]], host$life)
    }, pool$hosts)
    for (host in hosts) remote_send(pool, host, "END", token = run$token)
    until <- .Call(ffi_clock) + remote_end_seconds
    waiting <- function() {
      Filter(function(host) host$state == "ready" && !run$token %in% host$ended, hosts)
    }
    while (length(waiting()) > 0L && (left <- until - .Call(ffi_clock)) > 0) remote_pump(pool, left)
    for (host in waiting()) {
      remote_lose(pool, host, sprintf("it did not end its run within %g seconds", remote_end_seconds))
    }
    for (host in hosts) host$ended <- setdiff(host$ended, run$token)
    for (seat in pool$seats) {
      if (identical(seat$holder$token, run$token)) {
        seat$holder <- NULL
        seat$open <- 0
      }
    }
    pool$news[[run$token]] <- pool$running[[run$token]] <- NULL
    run$job <- NULL
  })
}

# More than an agent waits for workers that are between two elements.
remote_end_seconds <- 30

# A finalizer may be called within anything: what it is to do is done by the next poll, or call.
remote_abandoned <- function(run) {
  the$abandoned_remote <- c(the$abandoned_remote, list(run))
}

stop_abandoned_remote <- function() {
  while (length(the$abandoned_remote) > 0L) {
    run <- the$abandoned_remote[[1L]]
    the$abandoned_remote <- the$abandoned_remote[-1L]
    remote_end(run)
  }
}
