# Two executors for tests: the contract of R/executor.R must be enough for them, without a line in the
# driver. A place to run is an object of a class for which there are methods.

executor_methods <- function() {
  space <- asNamespace("regatta")
  registerS3method("new_executor", "test_pipes", new_executor_pipes, envir = space)
  registerS3method("new_executor", "test_script", new_executor_script, envir = space)
  registerS3method("workers_offered", "test_pipes", offered_by_test, envir = space)
  registerS3method("workers_offered", "test_script", offered_by_test, envir = space)
}

offered_by_test <- function(on) list(usual = on$workers, most = on$workers)

# Processes that package parallel forks, on pipes: they are sent batches and send back records. What they
# do stands in a shared array: element, start of it, the element to be interrupted, and the try.
on_pipes <- function(workers = 2L, first = workers, delay = 0) {
  executor_methods()
  structure(list(workers = workers, first = first, delay = delay), class = "test_pipes")
}

new_executor_pipes <- function(on, plan) {
  pool <- new.env()
  pool$plan <- plan
  pool$slots <- shm_array(c(4, 64))
  pool$children <- list()
  pool$events <- list()
  list(
    kind = "pipes",
    start = function(workers, places) for (w in workers) pipes_start(pool, w),
    poll = function(timeout) pipes_poll(pool, timeout),
    give = function(worker, elements, tries) {
      batch <- serialize(list(elements = elements, tries = tries), NULL)
      parallel:::sendChildStdin(pool$children[[worker]], batch)
    },
    running = function() {
      there <- which(!vapply(pool$children, is.null, NA))
      slots <- matrix(pool$slots[, there], 4)
      busy <- slots[1, ] > 0
      list(
        worker = there, element = slots[1, ], try = slots[4, ],
        seconds = ifelse(busy, .Call(regatta:::ffi_clock) - slots[2, ], 0), cpu_seconds = 0 * slots[1, ]
      )
    },
    interrupt = function(worker, element) {
      pool$slots[3, worker] <- element
      if (pool$slots[1, worker] == element) pipes_signal(pool, worker, 2L)
    },
    signal = function(worker, number) pipes_signal(pool, worker, number),
    measure = function(worker, what) regatta:::measure_here(pool$children[[worker]]$pid, what),
    guard = function(code) code,
    stop = function() {
      for (w in seq_along(pool$children)) pipes_signal(pool, w, 9L)
      while (!all(vapply(pool$children, is.null, NA))) pipes_poll(pool, 1)
      list(worker = integer(), peak = numeric())
    }
  )
}

pipes_start <- function(pool, w) {
  child <- parallel:::mcfork()
  if (inherits(child, "masterProcess")) {
    pipes_child(pool, w)
  }
  pool$children[[w]] <- child
  pool$events <- c(pool$events, list(regatta:::event_joined(w, child$pid)))
}

pipes_signal <- function(pool, w, number) {
  if (!is.null(pool$children[[w]])) tools::pskill(pool$children[[w]]$pid, number)
}

pipes_poll <- function(pool, timeout) {
  events <- pool$events
  pool$events <- list()
  there <- Filter(Negate(is.null), pool$children)
  ready <- parallel:::selectChildren(there, if (length(events) > 0L) 0 else timeout)
  for (pid in if (is.integer(ready)) ready) {
    bytes <- parallel:::readChild(pid)
    w <- which(vapply(pool$children, function(child) identical(child$pid, pid), NA))
    if (is.raw(bytes)) {
      event <- do.call(regatta:::evaluate_event, c(
        list(w), unserialize(bytes),
        list(value = function(x) .Call(regatta:::ffi_cluster_decode, x, FALSE))
      ))
      events <- c(events, list(event))
    } else {
      pool$children[w] <- list(NULL)
      at <- pool$slots[1, w]
      events <- c(events, list(list(
        type = "left", worker = w, signal = NA_integer_, status = NA_integer_, peak = NA_real_,
        oom = -1, backtrace = "", index = if (at > 0) at else numeric(),
        start = if (at > 0) pool$slots[2, w] else numeric()
      )))
    }
  }
  regatta:::join_ends(events)
}

pipes_child <- function(pool, w) {
  plan <- pool$plan
  input <- file("stdin", "rb")
  batch <- NULL
  slot <- function(element, try = 0) {
    pool$slots[2, w] <- .Call(regatta:::ffi_clock)
    pool$slots[4, w] <- try
    pool$slots[1, w] <- element
  }
  regatta:::evaluate_begin(plan$control, plan$seed)
  regatta:::evaluate_through(
    take = function() {
      slot(0)
      if (length(batch$elements) == 0L) batch <<- unserialize(input)
      now <- as.numeric(c(batch$elements[[1L]], batch$tries[[1L]]))
      batch <<- lapply(batch, `[`, -1L)
      slot(now[[1L]], now[[2L]])
      now
    },
    tell = function(...) {
      record <- unname(list(...))
      if (record[[1L]] <= 2L) slot(0)
      parallel:::sendMaster(serialize(record, NULL))
    },
    cancelled = function(element) if (pool$slots[3, w] > 0) if (pool$slots[3, w] == element) TRUE else NA else FALSE
  )
  regatta:::evaluate_all(plan$loop)
  parallel:::mcexit()
}

# Workers that are only told of. `steps` are functions of the place, one for each poll, which return
# events; what the driver has asked for stands in place$log. When there are no more steps everything that
# has been given is done.
# `running(place)`: what workers are at, which is otherwise the first element of what each has been given.
# `available(place)`: what is left of the memory of workers, as c(available =, total =); place$bytes is what each has.
on_script <- function(workers, ..., patience = NULL, min_workers = NULL, admit = FALSE, available = NULL,
                      running = script_running) {
  executor_methods()
  place <- new.env()
  place$workers <- workers
  place$steps <- list(...)
  place$log <- character()
  place$given <- list()
  place$patience <- patience
  place$min_workers <- min_workers
  place$admit <- admit
  place$available <- available
  place$running <- running
  place$kills <- -1
  structure(list(workers = workers, place = place), class = "test_script")
}

new_executor_script <- function(on, plan) {
  place <- on$place
  place$plan <- plan
  note <- function(...) place$log <- c(place$log, paste(...))
  list(
    kind = "script", patience = place$patience, min_workers = place$min_workers,
    start = function(workers, places) note("start", paste(workers, collapse = " ")),
    poll = function(timeout) {
      if (length(place$steps) > 0L) {
        step <- place$steps[[1L]]
        place$steps <- place$steps[-1L]
        return(step(place))
      }
      if (length(place$given) == 0L) Sys.sleep(min(timeout, 0.01))
      events <- lapply(seq_along(place$given), function(w) script_done(place, w))
      regatta:::join_ends(Filter(Negate(is.null), events))
    },
    give = function(worker, elements, tries) {
      note("give", worker, paste(elements, collapse = " "))
      place$given[[worker]] <- list(elements = elements, tries = tries)
    },
    admit = if (place$admit) function(worker, share) note("admit", worker, share),
    hold = function(places) note("hold", paste(places, collapse = " ")),
    available = if (!is.null(place$available)) function() place$available(place),
    running = function() place$running(place),
    interrupt = function(worker, element) note("interrupt", worker, element),
    signal = function(worker, number) note("signal", worker, number),
    measure = function(worker, what) {
      switch(what,
        memory = if (is.null(place$measured)) sum(place$bytes[worker], na.rm = TRUE) else place$measured,
        stopped = worker %in% place$stopped, oom_kills = place$kills
      )
    },
    guard = function(code) code,
    stop = function() {
      note("stop")
      list(worker = integer(), peak = numeric())
    }
  )
}

script_running <- function(place) {
  busy <- which(lengths(place$given) > 0L)
  first <- function(field, w) place$given[[w]][[field]][[1L]]
  list(
    worker = busy, element = vapply(busy, first, 0, field = "elements"), try = vapply(busy, first, 0L, field = "tries"),
    seconds = rev(as.numeric(busy)), cpu_seconds = rep(0, length(busy))
  )
}

script_idle <- function(place) {
  list(worker = integer(), element = numeric(), try = integer(), seconds = numeric(), cpu_seconds = numeric())
}

# Events of a script.

script_joined <- function(w, ...) regatta:::event_joined(w, pid = 1000L + as.integer(w), ...)

script_left <- function(w, ...) {
  list(
    type = "left", worker = w, signal = 9L, status = NA_integer_, peak = NA_real_, oom = -1,
    backtrace = "", ...
  )
}

# The first `n` elements that a worker was given: their values are their numbers, negative.
script_done <- function(place, w, n = Inf) {
  given <- place$given[[w]]
  count <- min(n, length(given$elements))
  if (count == 0) {
    return(NULL)
  }
  first <- seq_len(count)
  place$given[w] <- list(if (count < length(given$elements)) lapply(given, `[`, -first))
  now <- .Call(regatta:::ffi_clock)
  list(
    type = "ended", worker = rep(w, count), index = given$elements[first], try = given$tries[first],
    start = rep(now, count), end = rep(now, count), bytes = rep(8, count),
    values = as.list(-given$elements[first])
  )
}

# Its first element fails.
script_failed <- function(place, w, interrupted = FALSE) {
  done <- script_done(place, w, 1)
  done$error <- list(cnd = simpleError("no"), calls = list(), interrupted = interrupted, locals = NULL, dump = NULL)
  done$values <- NULL
  done
}
