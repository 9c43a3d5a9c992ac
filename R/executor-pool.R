# Workers that stand ready between runs, forked by a fork server. In a run they are what forked workers
# are: the same queue, rings and arena (src/fork-attach.c), but the code of the run is sent to them.

new_executor.regatta_cluster <- function(on, plan) {
  state <- stand_state(on)
  members <- stand_numbers(on)
  stand_ready(state)
  pool_settle(state, members)
  if (!is.null(plan$awaited)) state$awaited[[plan$verb]] <- plan$awaited
  pool <- fork_pool_new(plan, state$stand)
  packed <- pool_code(pool, plan, state$base)
  starts <- new.env(parent = emptyenv())
  starts$pids <- integer() # of workers that the driver does not know to be ready
  starts$ids <- integer() # their numbers
  executor <- fork_pool_executor(
    pool, "pool",
    begin = function(workers, places) pool_attach(pool, state, workers, places, members),
    look = function(timeout) pool_poll(pool, state, plan, timeout, starts)
  )
  if (state$start != "forkserver") {
    executor$patience <- start_patience(state$timeout)
    executor$admit <- function(worker, share) {
      starts$ids <- c(starts$ids, worker)
      starts$pids <- c(starts$pids, executor$pid(worker))
    }
  }
  executor$advice <- paste(
    busy_words(pool_busy(state, members), "advice"),
    "`regatta_info()` tells the limits of processes, open files and memory."
  )
  end <- executor$stop
  executor$stop <- function() {
    packed <<- NULL # what the workers had by handle
    end()
  }
  executor
}

# EBUSY, on all systems.
device_busy <- 16L

# What a run that has a worker is called where another wants that worker, and when the worker is free. A neighbour whose
# users know its runs by another name says so by `awaited` of a task.
busy_usual <- list(
  one = "a call, map or stream that is under way", many = "calls, maps or streams that are under way",
  advice = "A worker that is at a call is free when `par_value()` has its value, those of a stream are at its end."
)

# `runs` is a list of such descriptions, `which` a part of them.
busy_words <- function(runs, which) {
  if (length(runs) == 0L) runs <- list(busy_usual)
  words <- unique(vapply(runs, `[[`, "", which))
  paste(words, collapse = if (which == "advice") " " else " or ")
}

reason_busy <- function(runs) paste("all of this cluster are at", busy_words(runs, "many"))

# Of the runs that have these workers.
pool_busy <- function(state, numbers) {
  members <- .Call(ffi_fork_stand_members, state$stand)
  lapply(unique(members$call[numbers][members$busy[numbers]]), function(verb) {
    awaited <- state$awaited[[verb]]
    if (is.null(awaited)) busy_usual else awaited
  })
}

# Returns what must be kept as long as workers may read it.
pool_code <- function(pool, plan, base) {
  job <- job_of(plan)
  job$settings <- settings_since(base, near = TRUE)
  packed <- job_pack(job, plan$replay)
  failed <- .Call(ffi_fork_pool_code, pool, packed$stream)
  if (failed != 0L) {
    signal_error(error_start(plan$workers, .Call(ffi_system_message, failed)))
  }
  packed
}

# Events: who has joined, and who not. A member that takes part in another run is no reason for a warning.
pool_attach <- function(pool, state, workers, places, members) {
  lapply(seq_along(workers), function(k) {
    time <- .Call(ffi_clock)
    got <- .Call(ffi_fork_worker_attach, pool, places[[k]], workers[[k]], members)
    if (got[[2L]] == server_gone) abort_server(state)
    if (got[[1L]] > 0L) {
      event_joined(workers[[k]], got[[1L]], time = time)
    } else {
      reason <- if (got[[2L]] != device_busy) {
        .Call(ffi_system_message, got[[2L]])
      } else if (k == 1L) {
        reason_busy(pool_busy(state, members))
      }
      event_not_started(workers[[k]], reason)
    }
  })
}

# A worker that cannot load what the run needs says why; others would find the same. With the server all
# workers have gone.
pool_poll <- function(pool, state, plan, timeout, starts) {
  ready <- pool_ready(state, starts)
  if (length(ready) > 0L) {
    timeout <- 0
  } else if (length(starts$ids) > 0L) {
    timeout <- min(timeout, pool_start_seconds)
  }
  events <- .Call(ffi_fork_poll, pool, timeout)
  # What a worker tells comes after its word that it is ready.
  if (length(events) > 0L) ready <- c(ready, pool_ready(state, starts))
  for (event in events) {
    if (event$type == "left") pool_look(event, state, plan)
  }
  c(ready, events)
}

# How often workers that are starting are looked at: they wake nobody when they are ready.
pool_start_seconds <- 0.1

# Events of workers that are programs of their own and are ready now. One that has gone is ready for the driver, which
# hears of its end next and has another started.
pool_ready <- function(state, starts) {
  if (length(starts$ids) == 0L) {
    return(list())
  }
  members <- .Call(ffi_fork_stand_members, state$stand)
  starting <- starts$pids %in% members$pid[members$starting]
  ready <- starts$ids[!starting]
  starts$ids <- starts$ids[starting]
  starts$pids <- starts$pids[starting]
  lapply(ready, function(id) list(type = "ready", worker = id))
}

pool_look <- function(event, state, plan) {
  if (!.Call(ffi_fork_server_state, state$server)$alive) abort_server(state)
  if (length(event$index) == 0L && has_given_up(event$status, event$backtrace)) {
    signal_error(error_start(plan$workers, event$backtrace, "Look at what the code needs."))
  }
}

abort_server <- function(state) {
  signal_error(error_server("has ended during the run", paste(
    "its workers have ended with it, and what they were running is lost. The next call on this cluster",
    "starts another"
  ), log = .Call(ffi_fork_server_state, state$server)$log))
}

# Before a run: a call of package parallel may have been interrupted, or have failed, with workers at it. Those that
# have answered are free, and their replies are put aside. Only where no worker is free are those still at such a call
# replaced: somebody may have sent it who will ask for its value.
pool_settle <- function(state, numbers) {
  while (!is.null(got <- .Call(ffi_fork_stand_receive, state$stand, numbers, 0))) {
    state$kept[got[[1L]]] <- list(got)
  }
  members <- .Call(ffi_fork_stand_members, state$stand)
  if (all(members$busy[numbers])) {
    forgotten_end()
    members <- .Call(ffi_fork_stand_members, state$stand)
  }
  if (all(members$busy[numbers])) {
    for (rank in numbers[members$calls[numbers] > 0]) {
      .Call(ffi_fork_stand_replace, state$stand, rank)
      warning(warning_replaced(rank))
    }
  }
}
