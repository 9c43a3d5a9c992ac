# The table of a run's workers. A worker is a row, found by its number, which no other worker of the run
# has had or will have:
#
#   worker      its place: one of run$places. One that takes the place of another has a new number
#   host, pid   NA until it has joined
#   state       "starting", "idle" (ready), "busy", "silent" (ready, and not heard of), "gone"
#   shares, watched, cores, heartbeat   what it said of itself when it joined, see R/executor.R
#   start, end, exit, peak_memory       for the record of the run
#   base        its anonymous memory when it became ready
#   heard       when it was heard of last
#
# A worker that shares a queue with others is "idle" here also while it runs an element.

# For so many heartbeats that are left out a worker is silent, and for so many it is given up.
silent_after <- 3
given_up_after <- 10

workers_new <- function() {
  table <- new.env(parent = emptyenv())
  table$rows <- list()
  table$awaited <- 0L # of those that were started first: how many have no fate yet
  table$begun <- FALSE # all of them have
  table$reasons <- character() # why some could not be started
  table$promising <- FALSE # some have promised heartbeats
  table$watched <- .Call(ffi_clock) # when heartbeats were last missed or not
  table$lonely <- .Call(ffi_clock) # since when nobody has been there, NA: somebody is
  table$told_after <- workers_told_after # seconds of that after which the user is told
  table$quiet <- NULL # when nothing has happened since the last look for workers that were stopped; NULL: something has
  table$stopped <- integer() # those of which the user was told that they were
  table$given_up <- integer() # gone by the driver's judgement: what they still tell is not heard
  table
}

workers_set <- function(run, id, field, value) {
  run$workers$rows[[id]][[field]] <- value
}

workers_field <- function(run, field, type) {
  vapply(run$workers$rows, function(row) row[[field]], type)
}

# Numbers of the workers in one of these states.
workers_in <- function(run, states) {
  which(workers_field(run, "state", "") %in% states)
}

workers_alive <- function(run) workers_in(run, c("idle", "busy", "silent"))

workers_count <- function(run) length(workers_alive(run))

# What workers are at, NULL where that cannot be seen. One that has told the end of a try may look for a moment as if
# it were still at it, when the next try is on its way to another: such a worker is at nothing.
workers_running <- function(run) {
  if (is.null(run$executor$running)) {
    return(NULL)
  }
  now <- run$executor$running()
  busy <- which(now$element > 0)
  over <- !tries_open(run, now$element[busy], now$try[busy])
  now$element[busy[over]] <- 0
  now
}

# Those that may begin something now.
workers_idle <- function(run) {
  idle <- workers_in(run, "idle")
  places <- workers_field(run, "worker", 0L)[idle]
  idle[places <= run$active & !memory_holds(run, places)]
}

workers_start <- function(run, places) {
  table <- run$workers
  ids <- length(table$rows) + seq_along(places)
  now <- .Call(ffi_clock)
  row <- list(
    worker = NA_integer_, host = NA_character_, pid = NA_integer_, state = "starting",
    start = now - run$clock, end = NA_real_, exit = "stopped", peak_memory = NA_real_,
    base = NA_real_, heard = now, heartbeat = Inf
  )
  for (k in seq_along(ids)) {
    row$worker <- places[[k]]
    table$rows[[ids[[k]]]] <- row
  }
  if (!table$begun) table$awaited <- table$awaited + length(ids)
  run$executor$start(ids, places)
}

take_joined <- function(run, event) {
  id <- event$worker
  row <- run$workers$rows[[id]]
  if (row$state != "starting") {
    return(invisible())
  }
  now <- .Call(ffi_clock)
  row[c("host", "pid", "shares", "watched", "cores", "heartbeat")] <-
    event[c("host", "pid", "shares", "watched", "cores", "heartbeat")]
  row$start <- event$time - run$clock
  row$heard <- now
  run$workers$rows[[id]] <- row
  if (is.finite(row$heartbeat)) run$workers$promising <- TRUE
  unfit <- worker_unfit(run, row)
  if (!is.null(unfit)) {
    worker_not_started(run, id, unfit, row$host)
  } else if (is.null(run$executor$admit)) {
    take_ready(run, event)
  } else {
    run$executor$admit(id, worker_share(run, row))
  }
}

# Why a worker cannot do what the run needs; NULL if it can.
worker_unfit <- function(run, row) {
  near <- run$task$near
  limited <- "a limit of time or memory"
  if (!row$shares && (!is.null(near) || (limits_any(run) && !row$watched))) {
    need <- if (is.null(near)) limited else near
    paste0("it shares no memory with this session, which ", need, " needs")
  } else if (!row$watched && limits_any(run)) {
    paste0("what it does cannot be watched from here, which ", limited, " needs")
  }
}

# Its part of the cores of its machine. Of those that have not joined it is not known where they are:
# they count as being there.
worker_share <- function(run, row) {
  if (is.na(row$cores)) {
    return(run$share)
  }
  hosts <- workers_field(run, "host", "")
  states <- workers_field(run, "state", "")
  there <- states != "gone" & (is.na(hosts) & is.na(row$host) | hosts %in% row$host)
  share <- max(1L, row$cores %/% max(1L, sum(there | states == "starting" & is.na(hosts))))
  run$share <- share # for the record
  share
}

take_ready <- function(run, event) {
  id <- event$worker
  row <- run$workers$rows[[id]]
  if (row$state != "starting") {
    return(invisible())
  }
  row$state <- "idle"
  row$heard <- .Call(ffi_clock)
  if (is.finite(run$control$memory) || !is.null(run$memory)) row$base <- run$executor$measure(id, "memory")
  run$workers$rows[[id]] <- row
  host <- worker_host(row)
  if (is.null(run$oom_kills[[host]])) {
    run$oom_kills[[host]] <- run$executor$measure(id, "oom_kills")
  }
  workers_settle(run)
}

worker_host <- function(row) if (is.na(row$host)) "here" else row$host

# One that was never ready. If it was to take another's place, the run goes on with those that are left.
worker_not_started <- function(run, id, reason, host = NULL) {
  if (!is.null(reason)) {
    if (!is.null(host) && !is.na(host)) reason <- sprintf("worker %d (%s): %s", id, host, reason)
    run$workers$reasons <- c(run$workers$reasons, reason)
  }
  workers_set(run, id, "state", "gone")
  workers_set(run, id, "exit", "not started")
  if (run$workers$begun) workers_suffice(run) else workers_settle(run)
}

# Once it is known of all that were started first: are there enough?
workers_settle <- function(run) {
  table <- run$workers
  if (table$begun) {
    return(invisible())
  }
  table$awaited <- table$awaited - 1L
  if (table$awaited > 0L) {
    return(invisible())
  }
  table$begun <- TRUE
  alive <- workers_alive(run)
  started <- length(alive)
  if (started < workers_least(run)) {
    reason <- if (length(table$reasons) > 0L) table$reasons[[1L]] else "none of them has answered"
    signal_error(error_start(run$places, reason, run$executor$advice))
  }
  if (started < run$places) {
    # Their places are the first ones.
    for (k in seq_along(alive)) workers_set(run, alive[[k]], "worker", k)
    queue_limit(run, started)
    if (length(table$reasons) > 0L) {
      warning(warning_workers(started, run$places, table$reasons[[1L]]))
    }
  }
}

workers_least <- function(run) {
  least <- run$executor$min_workers
  min(if (is.null(least)) 1L else least, run$places)
}

# After a worker has left for good. A run that stops ends by the error of its element, however many are left.
workers_suffice <- function(run) {
  if (run$done >= run$n || run$stopping || length(workers_in(run, "starting")) > 0L) {
    return(invisible())
  }
  alive <- workers_alive(run)
  if (length(alive) < workers_least(run)) {
    reason <- if (length(alive) == 0L) {
      "the last worker has died and no other can be started"
    } else {
      sprintf("only %d of them are left and no other can be started", length(alive))
    }
    reason <- paste(c(reason, utils::tail(run$workers$reasons, 1L)), collapse = ": ")
    signal_error(error_start(run$active, reason, run$executor$advice))
  }
  places <- workers_field(run, "worker", 0L)[alive]
  if (min(places) > run$active) queue_limit(run, min(places))
}

# A worker that has left has a place to be filled as long as there is work for it.
worker_replace <- function(run, place) {
  if (run$stopping || run$done >= run$n || place > run$active || memory_holds(run, place)) {
    return(invisible())
  }
  workers_start(run, place)
}

take_left <- function(run, event) {
  id <- event$worker
  row <- run$workers$rows[[id]]
  if (row$state == "gone") {
    return(invisible())
  }
  if (row$state == "starting") {
    return(worker_not_started(run, id, if (is.null(event$reason)) row$late else event$reason, event$host))
  }
  if (!is.null(event$reason)) {
    return(worker_withdrawn(run, id, event$reason))
  }
  row[c("end", "exit", "peak_memory", "state")] <- list(
    .Call(ffi_clock) - run$clock, format_exit(event$signal, event$status), event$peak, "gone"
  )
  run$workers$rows[[id]] <- row
  begun <- if (is.null(event$index)) queue_begun(run, id) else queue_known(run, id, event)
  queue_return(run, id, begun$index)
  tasks_note(run$tasks, list(
    index = begun$index, worker = id, start = begun$start, peak = event$element_peak,
    end = if (is.null(begun$end)) .Call(ffi_clock) else begun$end
  ))
  if (length(begun$index) == 0L && !memory_ended(run, id)) count_idle_death(run, event, row)
  for (index in begun$index) {
    take_death(run, event, row, index)
  }
  worker_replace(run, row$worker)
  workers_suffice(run)
}

# One that was ready and cannot work, as it says: nothing is lost, and no other is started for it.
worker_withdrawn <- function(run, id, reason) {
  workers_set(run, id, "state", "gone")
  queue_return(run, id, numeric())
  run$workers$reasons <- c(run$workers$reasons, reason)
  if (workers_count(run) == 0L && length(workers_in(run, "starting")) == 0L) {
    signal_error(error_start(run$places, reason, run$executor$advice))
  }
  warning(warning_workers(workers_count(run), run$places, reason))
}

take_heartbeat <- function(run, event) {
  row <- run$workers$rows[[event$worker]]
  run$workers$rows[[event$worker]]$heard <- .Call(ffi_clock)
  if (row$state == "silent") {
    busy <- length(queue_given(run, event$worker)) > 0L
    workers_set(run, event$worker, "state", if (busy) "busy" else "idle")
  }
}

# Workers that have not been heard of for too long, in any state.
workers_watch <- function(run) {
  table <- run$workers
  workers_tell(run)
  patience <- run$executor$patience
  starting <- if (is.null(patience)) integer() else workers_in(run, "starting")
  # A session that was stopped, or with all of its machine, has heard of nobody meanwhile.
  now <- .Call(ffi_clock)
  away <- now - table$watched
  table$watched <- now
  if (!table$promising && length(starting) == 0L) {
    return(invisible())
  }
  for (id in starting) workers_excuse(run, id, away - patience / 2)
  since <- now - workers_field(run, "heard", 0)
  for (id in starting[since[starting] > patience]) {
    worker_late(run, id, sprintf("it did not answer within %s", format_seconds(patience)))
  }
  promised <- workers_field(run, "heartbeat", 0)
  if (away > silent_after * min(promised)) {
    for (id in workers_alive(run)) workers_excuse(run, id, away)
    return(invisible())
  }
  for (id in intersect(workers_alive(run), which(since > silent_after * promised))) {
    workers_set(run, id, "state", "silent")
    if (since[[id]] > given_up_after * promised[[id]]) worker_give_up(run, id)
  }
}

# So many seconds are none in which it could be heard.
workers_excuse <- function(run, id, seconds) {
  row <- run$workers$rows[[id]]
  run$workers$rows[[id]]$heard <- row$heard + max(0, seconds)
}

# A run that has nobody and waits for those that are starting does so with a word, and then at longer and longer
# intervals.
workers_tell <- function(run) {
  table <- run$workers
  for (row in table$rows) {
    if (row$state != "starting" && row$state != "gone") {
      table$lonely <- NA
      return(workers_tell_stopped(run))
    }
  }
  now <- .Call(ffi_clock)
  if (is.na(table$lonely)) {
    table$lonely <- now
    table$told_after <- workers_told_after
  }
  lonely <- now - table$lonely
  if (lonely >= table$told_after) {
    table$told_after <- 4 * table$told_after
    message(message_waiting(lonely, if (is.null(run$executor$awaits)) "" else run$executor$awaits()))
  }
}

workers_told_after <- 30

# A worker that a signal has stopped says nothing of that: it is looked for when nothing has happened for a while. It
# may be the user's will, so that it is not ended.
workers_tell_stopped <- function(run) {
  table <- run$workers
  now <- .Call(ffi_clock)
  if (is.null(table$quiet)) {
    table$quiet <- now
  } else if (now - table$quiet >= workers_told_after) {
    table$quiet <- now
    alive <- workers_alive(run)
    stopped <- Filter(function(id) isTRUE(run$executor$measure(id, "stopped")), alive)
    for (id in setdiff(stopped, table$stopped)) message(message_stopped(id, table$rows[[id]]))
    table$stopped <- stopped
  }
}

# If it lives it is ended; nothing that it still tells counts.
worker_give_up <- function(run, id) {
  run$workers$given_up <- c(run$workers$given_up, id)
  run$executor$signal(id, signals_of("SIGKILL"))
  take_left(run, event_left(id))
}

# One that can be reached is ended, or it would be late in the next run, too. Its end is told as that of any other, with
# what it has begun if it was ready just now.
worker_late <- function(run, id, reason) {
  row <- run$workers$rows[[id]]
  if (is.null(row$late)) {
    workers_set(run, id, "late", reason)
    if (!isTRUE(run$executor$signal(id, signals_of("SIGKILL")))) worker_not_started(run, id, reason, row$host)
  }
}

# How long the driver may sleep without missing that somebody is silent.
workers_wait <- function(run) {
  wait <- if (run$workers$promising) {
    min(workers_field(run, "heartbeat", 0)) / 2
  } else if (!is.null(run$executor$patience) && length(workers_in(run, "starting")) > 0L) {
    run$executor$patience / 4
  } else {
    Inf
  }
  if (is.na(run$workers$lonely)) {
    return(wait)
  }
  min(wait, max(0, run$workers$lonely + run$workers$told_after - .Call(ffi_clock)))
}

# What the executor has found when it was stopped.
workers_note_stop <- function(run, stopped) {
  for (k in seq_along(stopped$worker)) {
    id <- stopped$worker[[k]]
    if (run$workers$rows[[id]]$state != "gone") workers_set(run, id, "peak_memory", stopped$peak[[k]])
  }
  if (!is.null(stopped$begun)) {
    return(tasks_note(run$tasks, stopped$begun))
  }
  for (id in workers_alive(run)) {
    begun <- queue_begun(run, id)
    tasks_note(run$tasks, list(index = begun$index, worker = id, start = begun$start))
  }
}
