# An executor is where elements run. It is birth and bytes: it starts workers, carries elements to them
# and back what they have to tell. What is to be done about it is the driver's: how many workers, which
# of them works, how many elements at a time, tries, limits, deadlines, who is replaced, and what the
# user is told. new_executor() makes one for what was given as `.on`; another kind of worker is another
# method, and no line of the driver changes.
#
# A worker is known by a number that the driver gives and never uses again in a run. It is starting,
# idle, busy, silent, or gone; the driver keeps that in a table (R/driver-workers.R). What an executor
# knows of it comes as events.
#
# An executor is a list of functions. All of them return at once, but for poll() and stop():
#
#   start(workers, places)   begins to start workers with these numbers; what becomes of each is an event.
#                   A place is one of those that a run has for workers, 1 to their number; that of a
#                   worker that has left is given again
#   poll(timeout)   list of events, in the order in which they happened; empty if there were none within
#                   `timeout` seconds
#   interrupt(worker, element)   interrupts the worker if it runs this element, and no other
#   signal(worker, number)       sends the signal; SIGKILL ends also what the worker has started
#   measure(worker, what)        of the place where the worker is: "memory", the anonymous memory of
#                   the worker (bytes, NA: not known), "stopped", whether a signal has stopped it (NA: not
#                   known), or "oom_kills", how many processes the system has
#                   killed there so far for want of memory (-1: not known)
#   guard(code)     evaluates `code`; if that ends by a jump, stops the workers before anything else
#   stop()          ends the workers: nothing of them is left when it returns. list(worker, peak, begun):
#                   those that were there and their peak memory (bytes), and `begun` as `left` has it
#
# One of two ways to hand out elements, either a worker at a time, as the driver says,
#
#   give(worker, elements, tries)   the worker is idle; it runs these in this order. FALSE if it cannot take
#                   them now, because somebody else has it: it is tried again after the next poll()
#
# or, where workers take what they do next from a queue that they share,
#
#   submit(elements, tries, first)   appends to the queue; with `first` they go before all that wait
#   withdraw(first)           leaves none in the queue but elements up to `first`: the run is about to end
#   limit(places)             workers at places above that take nothing more
#   hold(places)              workers at these places take nothing more, until it is called again
#
# and where they apply
#
#   kind            what the record of a run calls it
#   running()       of the workers that can be watched: list(worker, element (0: none), try, seconds,
#                   cpu_seconds). It may be what they were at a moment ago
#   admit(worker, share)   the driver takes a worker that has joined: it is given what the run needs, and
#                   so many cores. The event `ready` or `left` follows. Without this function a worker is
#                   ready when it has joined
#   available()     memory for all workers together, c(available, total, stalled): what may still be taken, the whole
#                   (bytes), and how long processes have waited for memory so far (seconds, NA: not known). Only where
#                   they share it, and where start() replaces one that was ended
#   min_workers     how many must start, 1 if it is not there
#   patience        seconds within which a worker is to be ready; one that is not and can be sent signals is ended
#   awaits()        why those that are starting are not ready yet, as text
#   advice          what a user can do if no worker has started
#
# A plan is what an executor needs to know: n (elements), workers (how many places), control, seed (of
# rng_base()), share (cores of a worker on this machine), `limited`, whether there are limits to watch, `attended`,
# FALSE if nobody may poll for long, so that workers with no more work are to end by themselves, and `loop`, a
# function without arguments that runs elements in a worker. For workers that do not inherit the session also
# `replay` (FUN, args, X, env), to find what the loop needs.
#
# In a worker evaluate_begin() and evaluate_all() of R/evaluator.R do everything else, with a channel:
# the C struct of src/evaluator.h, or R functions given to evaluate_through().
#
# Events are lists with a `type` and `worker`:
#
#   joined      time (seconds of this session's monotonic clock), host (NA: this machine), pid, shares (memory
#               with the session), watched (running() tells of it, and it can be interrupted and sent signals),
#               cores (of its machine, NA: those of this one), heartbeat (seconds; it is heard of that often.
#               Inf: no such promise)
#   ready       see admit()
#   left        signal, status (NA: not known), peak (bytes), oom (as "oom_kills" above), backtrace, lost (of
#               one whose end nobody has seen: why, as text); vectors index, try, start, end of the elements
#               that it had begun and whose end has not been told: without them the driver goes by what it has
#               given to the worker; element_peak, their largest resident set (bytes). `reason` (text) of one that was
#               never ready, or is of no use to this run
#   heartbeat   it is alive
#   ended       vectors index, try, start, end (seconds of this session's monotonic clock), bytes, where it is
#               measured cpu (seconds of processor time) and peak (largest resident set meanwhile, bytes), and either
#               `values`, a list, or, of a single element, `error` (of capture_error()), or `alike`, a list:
#               errors that differ from an earlier one of their worker in the message alone, c(number, message),
#               where that one has the number. `worker` is a vector, too: ends of several workers may be one event
#   condition   vector index, kind ("message", "warning", "condition"), cnd, a list: of one kind, in their order
#   suppressed  index, kind, count
#   output      vector index, stream ("stdout", "stderr"), vector size, text (raw): so many bytes of it are of each
#
# The last three need no worker. What an element has to tell comes before its end, and the ends that a
# worker has told come before it has left, unless that names what it had begun.

new_executor <- function(on, plan) {
  if (is.null(on)) executor_fork(plan) else UseMethod("new_executor")
}

# How many workers there may be: list(usual, most).
workers_offered <- function(on) {
  if (is.null(on)) {
    list(usual = cores_known(), most = .Machine$integer.max)
  } else {
    UseMethod("workers_offered")
  }
}

# As many as the place has.
workers_offered.default <- function(on) {
  list(usual = length(on), most = length(on))
}

# What a worker on this machine says of itself when it joins.
event_joined <- function(worker, pid, host = NA_character_, shares = TRUE, watched = TRUE,
                         cores = NA_integer_, heartbeat = Inf, time = .Call(ffi_clock)) {
  list(
    type = "joined", worker = worker, time = time, host = host, pid = pid, shares = shares, watched = watched,
    cores = cores, heartbeat = heartbeat
  )
}

# A worker that could not be started, and why; NULL: there is no word to be lost about it.
event_not_started <- function(worker, reason, host = NULL) {
  list(type = "left", worker = worker, reason = reason, host = host)
}

# The end of a worker of which nothing can be known; `lost`: what has ended it is not its own.
event_left <- function(worker, lost = NULL, oom = -1) {
  list(
    type = "left", worker = worker, signal = NA_integer_, status = NA_integer_, peak = NA_real_, oom = oom,
    backtrace = "", lost = lost
  )
}

# Seconds after which the start of a worker, or a command that is to bring one, is taken to hang, by the time that the
# user gives to a cluster to start: who is slow does not hang.
start_patience <- function(timeout) max(60, 3 * timeout)

# available() for workers of this machine, or of the one that the folder `root` stands for.
available_here <- function(root = "") {
  stats::setNames(.Call(ffi_memory_available, root), c("available", "total", "stalled"))
}

# measure() for workers of this machine.
measure_here <- function(pid, what) {
  if (what == "stopped") {
    return(is_stopped_here(pid))
  }
  switch(what, memory = .Call(ffi_memory_anon, pid), oom_kills = .Call(ffi_memory_oom_kills))
}

# By a signal, such as that of Ctrl-Z; not by a debugger. NA: not known.
is_stopped_here <- function(pid) {
  fields <- process_fields(pid)
  if (is.null(fields)) NA else fields[[1L]] == "T"
}

# What the system tells of a process, from its state on: NULL if there is none, or no /proc.
process_fields <- function(pid) {
  line <- tryCatch(
    suppressWarnings(readLines(file.path("/proc", pid, "stat"), n = 1L)), error = function(e) character()
  )
  if (length(line) == 1L) strsplit(sub("^.*[)] ", "", line), " ", fixed = TRUE)[[1L]]
}

# The state, processor time (seconds) and resident memory (bytes) of processes; NA of those that are not there.
processes_look <- function(pids) {
  fields <- lapply(pids, process_fields)
  number <- function(at) vapply(fields, function(f) if (is.null(f)) NA_real_ else as.double(f[[at]]), 0)
  ticks <- 100 # of a second, on all systems that have /proc
  list(
    state = vapply(fields, function(f) if (is.null(f)) NA_character_ else f[[1L]], ""),
    cpu = (number(12L) + number(13L)) / ticks, memory = number(22L) * 4096
  )
}
