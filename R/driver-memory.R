# Memory of a run whose workers share that of a machine. When it gets short fewer elements are begun. When it is about
# to run out all the same the youngest one is put back: its worker is ended and the element handed out again, to run
# when there is room, with the same number of its try. One always runs; one for which a new worker has no room even so
# ends as it would without all this.
#
# run$memory, NULL where nothing is watched:
#   budget   bytes that elements may need together, Inf: what the system leaves
#   most     how many elements may be under way
#   done     run$done when `most` was changed last: more of them only after another has ended, so that no
#            two can put each other back for ever
#   seen     run$done at the last look
#   need     bytes that an element is expected to need, by those seen so far
#   room, stalled, at   what was left at the last look, how long processes had waited for memory, and when that was
#   due      when the next look is
#   held     places whose workers begin nothing
#   ending   workers that have been ended for want of memory
#   told     when the user was last told

# Bytes that a core can be filling in a second: how long what is left will do at least.
memory_speed <- 2e9

# Seconds from a look until what a worker that was killed had is free.
memory_horizon <- 0.1

# A run of less is not looked at.
memory_first <- 0.02

# What is left alone, of all there is or of the user's `budget` within that, which may be as small as he likes.
memory_reserve <- function(total, budget) {
  if (budget < total) min(0.05 * budget, 2^30) else min(max(0.05 * total, 2^25), 2^30)
}

memory_new <- function(run) {
  budget <- run$control$memory_budget
  if (run$places < 2L || is.null(run$executor$available) || identical(budget, Inf)) {
    return(NULL)
  }
  list(
    budget = if (is.null(budget)) Inf else budget, most = run$places, done = 0, seen = 0, need = 0, room = Inf,
    stalled = NA_real_, at = run$clock, due = run$clock + memory_first, held = integer(), ending = integer(),
    told = -Inf
  )
}

memory_wait <- function(run) {
  if (is.null(run$memory) || run$stopping) Inf else max(0, run$memory$due - .Call(ffi_clock))
}

memory_holds <- function(run, place) place %in% run$memory$held

memory_watch <- function(run) {
  memory <- run$memory
  now <- .Call(ffi_clock)
  if (is.null(memory) || run$stopping || now < memory$due) {
    return(invisible())
  }
  left <- run$executor$available()
  near <- is.finite(memory$budget) || memory$most < run$places ||
    left[["available"]] < max(0.5 * left[["total"]], 2 * memory$need * run$places)
  if (!near || is.na(left[["available"]])) {
    return(memory_looked(run, left, left[["available"]], 0L, now))
  }
  memory_act(run, left, now)
}

# When there may not be enough for all.
memory_act <- function(run, left, now) {
  memory <- run$memory
  used <- memory_used(run)
  ending <- used$worker %in% memory$ending
  # What is about to be free counts as free.
  room <- min(left[["available"]], memory$budget - sum(used$bytes)) + sum(used$bytes[ending])
  used <- used[!ending, ]
  busy <- used[used$element > 0, ]
  memory_learn(run, busy$bytes)
  fall <- max(0, memory$room - room) / max(now - memory$at, 1e-3)
  reserve <- memory_reserve(left[["total"]], memory$budget)
  decided <- memory_decide(
    room - if (is.finite(fall)) fall * memory_horizon else 0, reserve, run$memory$need, busy$bytes,
    busy$seconds, used$bytes[used$element == 0], memory$most, run$places, run$done > memory$done,
    memory_stalls(memory, left[["stalled"]], now)
  )
  memory_allow(run, decided$most, busy)
  memory_tidy(run, used, reserve)
  if (decided$put_back > 0L) {
    total <- min(left[["total"]], memory$budget)
    memory_put_back(run, busy[decided$put_back, ], nrow(busy), room, total, now)
  }
  memory_looked(run, left, room, nrow(busy), now)
}

# How many elements may be under way, and which of those that are is put back (0: none). `room` is what is left and
# `reserve` what should be; `used` and `seconds` are of the elements under way, `idle` what workers without one have not
# given back. `ended`: an element has ended since this was last changed; `stalls`: processes wait for memory.
memory_decide <- function(room, reserve, need, used, seconds, idle, most, places, ended, stalls) {
  count <- length(used)
  if (room < reserve) {
    most <- min(most, max(1L, count))
    # Workers without an element go first, when they are held.
    if (count < 2L || any(idle > reserve / 2)) {
      return(list(most = most, put_back = 0L))
    }
    return(list(most = count - 1L, put_back = which.min(seconds)))
  }
  if (stalls) {
    return(list(most = min(most, max(1L, count)), put_back = 0L))
  }
  fits <- if (need > 0) {
    # Those under way may still grow.
    max(1, count + floor((room - reserve - sum(pmax(0, need - used))) / need))
  } else {
    places
  }
  most <- if (fits < most) fits else if (fits > most && ended) most + 1L else most
  list(most = as.integer(min(most, places)), put_back = 0L)
}

# Whether processes have waited for memory a tenth of the time since the last look: what counts as left has to be had
# from somebody first.
memory_stalls <- function(memory, stalled, now) isTRUE((stalled - memory$stalled) / (now - memory$at) > 0.1)

# Workers as they are: place, element (0: none), for how long, and what they have beyond what they began with.
memory_used <- function(run) {
  now <- workers_running(run)
  row <- run$workers$rows[now$worker]
  bytes <- vapply(now$worker, run$executor$measure, 0, "memory") - vapply(row, `[[`, 0, "base")
  data.frame(
    worker = now$worker, place = vapply(row, `[[`, 0L, "worker"), element = now$element, seconds = now$seconds,
    bytes = ifelse(is.na(bytes) | bytes < 0, 0, bytes)
  )
}

# One that needs more than the others is forgotten in time.
memory_learn <- function(run, bytes) {
  kept <- if (run$done > run$memory$seen) 0.9 else 1
  run$memory$seen <- run$done
  run$memory$need <- max(bytes, kept * run$memory$need)
}

# Those whose elements are oldest go on, then those that have none.
memory_allow <- function(run, most, busy) {
  memory <- run$memory
  if (most == memory$most && length(memory$held) == 0L) {
    return(invisible())
  }
  if (most != memory$most) run$memory[c("most", "done")] <- list(most, run$done)
  alive <- workers_field(run, "worker", 0L)[workers_alive(run)]
  alive <- alive[order(memory_holds(run, alive))]
  places <- unique(c(busy$place[order(busy$seconds, decreasing = TRUE)], alive, seq_len(run$active)))
  places <- places[places <= run$active]
  memory_hold(run, setdiff(seq_len(run$places), utils::head(places, most)))
}

memory_hold <- function(run, held) {
  before <- run$memory$held
  if (!setequal(held, before)) {
    run$memory$held <- held
    run$executor$hold(held)
    there <- workers_field(run, "worker", 0L)[workers_in(run, c("starting", "idle", "busy", "silent"))]
    for (place in setdiff(setdiff(before, held), there)) worker_replace(run, place)
  }
}

# A worker that is to begin nothing and keeps much is ended; another comes when there is room.
memory_tidy <- function(run, used, reserve) {
  for (k in which(used$element == 0 & used$place %in% run$memory$held & used$bytes > reserve / 2)) {
    memory_end(run, used$worker[[k]])
  }
}

memory_end <- function(run, worker) {
  run$memory$ending <- c(run$memory$ending, worker)
  run$executor$signal(worker, signals_of("SIGKILL"))
}

memory_put_back <- function(run, one, count, room, total, now) {
  memory_end(run, one$worker)
  run$memory$need <- max(run$memory$need, one$bytes)
  if (now - run$memory$told >= memory_told_after) {
    run$memory$told <- now
    message(message_put_back(
      one$element, element_name(run, one$element), one$seconds, one$bytes, max(0, room), total, count - 1L
    ))
  }
}

# Seconds.
memory_told_after <- 30

# The less there is the sooner the next look, as a core takes at least so long to fill it.
memory_looked <- function(run, left, room, count, now) {
  run$memory[c("room", "stalled", "at")] <- list(room, left[["stalled"]], now)
  reserve <- memory_reserve(left[["total"]], run$memory$budget)
  seconds <- (room - reserve) / (4 * run$places * memory_speed)
  run$memory$due <- now + min(max(seconds, if (count > 1L) 0.01 else 0.05, na.rm = TRUE), 1)
}

# Whether the driver has ended this worker for want of memory.
memory_ended <- function(run, worker) worker %in% run$memory$ending

# Whether an element that was lost with its worker is put back: the system has ended that for want of memory, and it
# was not alone, or in a worker that may have kept what elements before had needed.
memory_lost <- function(run, event, oom) {
  memory <- run$memory
  if (is.null(memory) || run$stopping || !isTRUE(oom) || !isTRUE(event$signal == signals_of("SIGKILL"))) {
    return(FALSE)
  }
  busy <- memory_used(run)
  busy <- busy[busy$element > 0 & busy$worker != event$worker, ]
  if (memory$most == 1L && nrow(busy) == 0L && memory_was_alone(run, event$worker, event$index)) {
    return(FALSE)
  }
  memory_allow(run, max(1L, min(memory$most - 1L, nrow(busy))), busy)
  row <- run$workers$rows[[event$worker]]
  run$memory$need <- max(run$memory$need, event$element_peak - row$base, na.rm = TRUE)
  run$memory$due <- .Call(ffi_clock)
  TRUE
}

# Whether no other element has been under way since this one began, nor the worker had one before it in this run. Deaths
# are told when they are over: those of others, which may have been in the way, have been collected by now.
memory_was_alone <- function(run, worker, index) {
  tasks_settle(run$tasks)
  tasks <- run$tasks
  others <- c(tasks$end[-index], vapply(run$tries, `[[`, 0, "end") + run$clock)
  !worker %in% tasks$worker[-index] && !any(others > tasks$start[[index]], na.rm = TRUE)
}

# It is no failed try: the next one has its number, and with that its random numbers.
put_back <- function(run, index, event) {
  relay_settled(run, index)
  checkpoint_untell(run, index)
  run$tries[[length(run$tries) + 1L]] <- record_try(run, index, "put back", event)
  tasks_set(run$tasks, "tries", index, event$try - 1L)
  queue_submit(run, index)
}
