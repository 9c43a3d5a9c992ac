# The record of a run (class "regatta_run"): what ran where, when, how often, and how it ended.

# The workers of a run, one row for every process: several for a slot whose worker was replaced.
# `base` is the anonymous memory that the worker in each slot had when it was forked.
workers_new <- function(run, pids) {
  people <- new.env(parent = emptyenv())
  people$rows <- list()
  people$base <- rep(NA_real_, length(pids))
  run$people <- people
  for (w in which(!is.na(pids))) {
    workers_note_start(run, w, pids[[w]])
  }
  people
}

# Workers on two machines may have the same pid.
worker_key <- function(worker, pid) paste(worker, pid)

workers_note_start <- function(run, worker, pid) {
  people <- run$people
  people$rows[[worker_key(worker, pid)]] <- list(
    worker = worker, pid = pid, start = .Call(ffi_clock) - run$clock, end = NA_real_,
    exit = "stopped", peak_memory = NA_real_
  )
  if (is.finite(run$control$memory)) {
    people$base[[worker]] <- .Call(ffi_memory_anon, pid)
  }
}

workers_note_end <- function(run, event) {
  key <- worker_key(event$worker, event$pid)
  row <- run$people$rows[[key]]
  row$end <- .Call(ffi_clock) - run$clock
  row$exit <- format_exit(event$signal, event$status)
  row$peak_memory <- event$peak
  run$people$rows[[key]] <- row
}

workers_note_stop <- function(run, peaks) {
  for (key in names(run$people$rows)) {
    row <- run$people$rows[[key]]
    if (is.na(row$end)) {
      run$people$rows[[key]]$peak_memory <- peaks[[row$worker]]
    }
  }
}

# What a record is made of: all but the values, which must be able to go.
record_facts <- function(run) {
  c(
    mget(
      c(
        "task", "control", "n", "share", "seed", "status", "tries", "begun", "clock", "relay",
        "people"
      ),
      envir = run, ifnotfound = list(NULL)
    ),
    list(
      tasks = run$executor$tasks(), elapsed = .Call(ffi_clock) - run$clock,
      kind = run$executor$kind, errors = run_errors(run)
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
  elements <- record_elements(run, workers)
  tries <- record_tries(run)
  ran <- table(factor(c(elements$pid, tries$pid), levels = workers$pid))
  workers$elements <- as.integer(ran)
  structure(
    list(
      call = run$task$call, verb = run$task$verb, start = run$begun, elapsed = elapsed,
      n = run$n, names = run$task$names, control = run$control,
      executor = if (is.null(run$kind)) "fork" else run$kind,
      cores = run$share, elements = elements, tries = tries, workers = workers,
      conditions = run$relay$counts, errors = run$errors, dump = first_dump(run$errors),
      replay = c(run$task$replay, list(base_seed = run$seed))
    ),
    class = "regatta_run"
  )
}

record_elements <- function(run, workers) {
  tasks <- run$tasks
  states <- c("done", "error", "death", "timeout", "cancelled", "pending")
  status <- c("pending", states[1:4])[run$status + 1L]
  status[run$status == 0L & !is.na(tasks$start)] <- "cancelled"
  data.frame(
    index = seq_len(run$n), worker = tasks$worker, pid = record_pids(run, tasks, workers),
    start = tasks$start - run$clock, end = tasks$end - run$clock, try = tasks$tries,
    status = factor(status, levels = states), bytes = tasks$bytes
  )
}

# Which of the workers that a slot has had was there when the element began.
record_pids <- function(run, tasks, workers) {
  pids <- rep(NA_integer_, run$n)
  for (w in unique(workers$worker)) {
    own <- workers[workers$worker == w, , drop = FALSE]
    mine <- which(tasks$worker == w)
    nth <- findInterval(tasks$start[mine] - run$clock, own$start, all.inside = FALSE)
    pids[mine] <- own$pid[pmax(1L, nth)]
  }
  pids
}

record_workers <- function(run, elapsed) {
  rows <- unname(run$people$rows)
  pick <- function(field, type) vapply(rows, function(row) row[[field]], type)
  end <- pick("end", 0)
  data.frame(
    worker = pick("worker", 0L), pid = pick("pid", 0L), start = pick("start", 0),
    end = ifelse(is.na(end), elapsed, end), exit = pick("exit", ""),
    peak_memory = pick("peak_memory", 0)
  )
}

# A try that failed and is made again: its row of the task table is about to be overwritten.
record_try <- function(run, index, kind, event) {
  tasks <- run$executor$task(index)
  list(
    index = as.integer(index), worker = as.integer(event$worker), pid = as.integer(event$pid),
    start = tasks$start - run$clock, end = tasks$end - run$clock, try = as.integer(event$try),
    status = kind, bytes = tasks$bytes
  )
}

record_tries <- function(run) {
  pick <- function(field, type) vapply(run$tries, function(row) row[[field]], type)
  states <- c("done", "error", "death", "timeout", "cancelled", "pending")
  data.frame(
    index = pick("index", 0L), worker = pick("worker", 0L), pid = pick("pid", 0L),
    start = pick("start", 0), end = pick("end", 0), try = pick("try", 0L),
    status = factor(pick("status", ""), levels = states), bytes = pick("bytes", 0)
  )
}
