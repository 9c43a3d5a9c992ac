# An executor is where elements run: forked workers here, other kinds of workers likewise. It is a
# list of functions, and the driver knows no more of it:
#
#   start()          starts the workers; returns their pids, NA for those that could not be
#   submit(indices)  hands elements over, in the order in which they are to begin
#   poll(timeout)    list of events, empty if nothing happened within `timeout` seconds
#   running()        what every worker does now: list(pid, element (0: none), seconds, cpu_seconds)
#   signal(w, how)   1 interrupts the element that worker w runs, 2 asks the worker to end, 3 kills
#                    it; below 0: sends it the signal of number -how
#   respawn(w)       starts a worker in the place of one that has died; its pid or NA
#   withdraw(first)  lets no element begin any more but the first `first` of the run
#   limit(active)    lets only this many workers begin further elements
#   tasks()          list(worker, tries, start, end, bytes) of all elements; monotonic seconds
#   task(index)      the same of one element
#   guard(code)      evaluates `code`; if that ends by a jump, stops the workers before anything else
#   stop()           ends the workers; nothing of them is left when it returns: the peak memory of
#                    each worker (bytes; NA where one had ended before)
#
# and `kind`, what the record of a run calls it, "fork" if there is none.
#
# A plan is what an executor needs to know: n, workers, control, seed (of rng_base()), share (cores
# of each worker), `limited`, whether there are limits to watch, and `loop`, a function without
# arguments that runs elements in a worker. For workers that do not inherit the session: `replay` (FUN,
# args, X, env), to find what the loop needs, and `near`, the words for what they must share memory
# with the session for.
#
# Events are lists with a `type`:
#
#   values      index, values
#   error       index, try, pid, worker, record (of capture_error())
#   condition   index, kind ("message", "warning", "condition"), cnd
#   suppressed  index, kind, count
#   output      index, stream ("stdout", "stderr"), text (raw)
#   death       worker, pid, index (NA: between elements), try, signal, status, peak, oom
#               (OOM kills of the cgroup so far), backtrace

# How many workers a run may have: as many as are asked for, else what there is.
workers_wanted <- function(on, asked, cores) {
  if (inherits(on, "cluster")) min(asked, length(on)) else if (is.null(asked)) cores else asked
}

new_executor <- function(on, plan) {
  if (is.null(on)) {
    executor_fork(plan)
  } else {
    UseMethod("new_executor")
  }
}
