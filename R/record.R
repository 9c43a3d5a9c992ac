# The record of a run (class "regatta_run"): what ran where, when, how often, and how it ended.

# What a record is made of: all but the values, which must be able to go.
record_facts <- function(run) {
  c(
    mget(
      c(
        "task", "control", "n", "share", "seed", "status", "tries", "begun", "clock", "relay",
        "tasks", "attended"
      ),
      envir = run, ifnotfound = list(NULL)
    ),
    list(
      rows = run$workers$rows, elapsed = .Call(ffi_clock) - run$clock,
      kind = run$executor$kind, errors = run_errors(run), session = .Call(ffi_clock_cpu_process) - run$cpu
    )
  )
}

# Tables are made when somebody looks at them. Until then the promise keeps the variables of this
# function, which must not reach the values.
record_later <- function(facts) {
  force(facts)
  delayedAssign("last", record_new(facts), assign.env = the)
}

record_new <- function(run) {
  elapsed <- run$elapsed
  workers <- record_workers(run, elapsed)
  elements <- record_elements(run)
  tries <- record_tries(run)
  ran <- c(process_of(elements, workers), process_of(tries, workers))
  workers$elements <- tabulate(ran, nrow(workers))
  structure(
    list(
      call = run$task$call, verb = run$task$verb, start = run$begun, elapsed = elapsed,
      n = run$n, names = run$task$names, attended = run$attended, control = run$control,
      session = if (isTRUE(run$attended)) run$session,
      executor = run$kind,
      cores = run$share, elements = elements, tries = tries, workers = workers,
      conditions = run$relay$counts, errors = run$errors, dump = first_dump(run$errors),
      replay = c(run$task$replay, list(base_seed = run$seed))
    ),
    class = "regatta_run"
  )
}

# What becomes of a try; the last is that of tries only, for which memory was short.
run_states <- c("done", "error", "death", "timeout", "cancelled", "pending", "put back")

record_elements <- function(run) {
  tasks <- run$tasks
  tasks_settle(tasks)
  status <- c("pending", run_states[1:4])[run$status + 1L]
  begun <- !is.na(tasks$start)
  status[run$status == 0L & begun] <- "cancelled"
  pids <- vapply(run$rows, `[[`, 0L, "pid")
  places <- vapply(run$rows, `[[`, 0L, "worker")
  data.frame(
    index = seq_len(run$n), worker = places[tasks$worker], pid = pids[tasks$worker],
    start = tasks$start - run$clock, end = tasks$end - run$clock,
    try = ifelse(begun | tasks$tries == 0L, tasks$tries, tasks$tries - 1L),
    status = factor(status, levels = run_states), bytes = tasks$bytes,
    cpu = tasks_use(tasks, "cpu"), peak_memory = tasks_use(tasks, "peak")
  )
}

# For each row the row of `workers` of the process that ran it: other hosts may have processes of the same number.
process_of <- function(rows, workers) {
  key <- function(table) table$worker * 2^31 + table$pid
  match(key(rows), key(workers), incomparables = NA)
}

# Those that have joined.
record_workers <- function(run, elapsed) {
  rows <- Filter(function(row) !is.na(row$pid) && row$exit != "not started", run$rows)
  pick <- function(field, type) vapply(rows, function(row) row[[field]], type)
  end <- pick("end", 0)
  hosts <- pick("host", "")
  hosts[is.na(hosts)] <- "localhost"
  data.frame(
    worker = pick("worker", 0L), host = hosts, pid = pick("pid", 0L), start = pick("start", 0),
    end = ifelse(is.na(end), elapsed, end), exit = pick("exit", ""),
    peak_memory = pick("peak_memory", 0)
  )
}

# A try that failed, or was put back, and is made again: its row of the task table is about to be overwritten.
record_try <- function(run, index, kind, event) {
  tasks <- run$tasks
  row <- run$workers$rows[[event$worker]]
  list(
    index = as.integer(index), worker = row$worker, pid = row$pid,
    start = tasks$start[[index]] - run$clock, end = tasks$end[[index]] - run$clock,
    try = as.integer(event$try), status = kind, bytes = tasks$bytes[[index]],
    cpu = tasks_use(tasks, "cpu", index), peak_memory = tasks_use(tasks, "peak", index)
  )
}

record_tries <- function(run) {
  pick <- function(field, type) vapply(run$tries, function(row) row[[field]], type)
  data.frame(
    index = pick("index", 0L), worker = pick("worker", 0L), pid = pick("pid", 0L),
    start = pick("start", 0), end = pick("end", 0), try = pick("try", 0L),
    status = factor(pick("status", ""), levels = run_states), bytes = pick("bytes", 0),
    cpu = pick("cpu", 0), peak_memory = pick("peak_memory", 0)
  )
}

check_run <- function(run, call = rlang::caller_env()) {
  if (!inherits(run, "regatta_run")) {
    must <- "the record of a run, as of `par_last()`"
    if (is.null(the$last)) must <- paste0(must, " (there has been no run in this session)")
    abort_argument("run", run, must, call)
  }
}
