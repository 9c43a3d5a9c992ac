# The driver: one scheduler for every kind of worker. It hands elements to an executor, turns its
# events into results, and does all that par_control() asks for. A run is an environment, made by
# run_new(), that only the functions of the driver-*.R files change.

# Element states; `run$status` holds one for each element.
element_states <- c(pending = 0L, done = 1L, error = 2L, death = 3L, timeout = 4L)

# `task`: list(verb, call, n, names, loop, replay) made by the verb. What a verb may add to it:
#   prefix(run, index)  what stands before the output and the messages of each of these elements
#   stop_on             the failures ("error", "death", "timeout") that end a run with
#                       errors = "stop"; all of them unless given
#   on_retry(run, index, kind, cnd, event)   called before an element is tried again
#   on_note(index, note)                     called for what ffi_evaluator_note() has sent
#   failed              what the verb puts in place of the values that are missing with errors = "collect", as text,
#                       if that are not their conditions
#   near                what needs workers that share memory with the session, as text
#   inherit             TRUE: workers are to have all that the session has
#   keyed               what its values are kept by in a checkpoint, see driver-checkpoint.R
#   series              the whole that it is a part of, see driver-series.R
#   beside              how many runs of one worker are to be there at a time, this one among them
#   is_call             TRUE: what its user has is a handle of one value, whatever the verb
#   awaited             what its user calls it, where that is not what the verb says: see busy_words()
#   limit_signal        the signal for an element over a limit, in place of the usual steps
# `attended`: the run is driven from its beginning to its end, and not when the user asks for a value.
run_new <- function(task, on, control, seed = task_base(task, control), attended = FALSE) {
  where <- where_to_run(on, control, task$call, isTRUE(task$inherit))
  on <- where$on
  control <- where$control
  offered <- workers_offered(on)
  # Before the checkpoint: the session's generator stands after the call where it does without one.
  force(seed)
  run <- new.env(parent = emptyenv())
  run$pid <- Sys.getpid()
  run$mark <- .Call(ffi_process_mark)
  run$task <- task
  run$control <- control
  run$n <- task$n
  if (!is.null(control$checkpoint)) run$checkpoint <- checkpoint_open(task, control, seed)
  on.exit(if (!is.null(run$checkpoint)) checkpoint_close(run))
  if (!is.null(run$checkpoint)) seed <- run$checkpoint$seed
  left <- if (is.null(run$checkpoint)) task$n else max(1L, checkpoint_missing(run$checkpoint))
  wanted <- if (is.null(control$workers)) offered$usual else control$workers
  run$places <- as.integer(min(wanted, offered$most, left))
  cores <- if (is.null(on)) offered$usual else cores_known()
  run$share <- max(1L, cores %/% max(run$places, task$beside))
  run$seed <- rng_base_from(seed, task_before(task))
  run$values <- vector("list", task$n)
  run$status <- integer(task$n)
  run$done <- 0
  run$tasks <- tasks_new(task$n)
  run$queue <- queue_new()
  run$workers <- workers_new()
  run$errors <- NULL # a list of them by the number of the element, when there is one
  run$failed <- 0
  run$told <- list() # of each worker, the last error that others may be like: see take_alike()
  run$tries <- list()
  run$ending <- list() # tries that have been over a limit, by ending_key()
  run$turned <- list() # errors that warnings have become, of elements under way, by number: see turn_element()
  run$stopping <- FALSE
  run$stop_index <- Inf
  run$idle_deaths <- 0L
  run$active <- run$places
  run$begun <- Sys.time()
  run$clock <- .Call(ffi_clock)
  run$cpu <- .Call(ffi_clock_cpu_process)
  run$attended <- attended
  run$oom_kills <- list()
  run$unheard <- NULL # a forgotten_watch() since the last event
  run$relay <- relay_new(control, task$names)
  run$executor <- new_executor(on, list(
    n = task$n, workers = run$places, control = checkpoint_control(run), seed = run$seed, share = run$share,
    loop = task$loop, replay = task$replay, limited = limits_any(run), attended = attended, verb = task$verb,
    awaited = task$awaited
  ))
  run$memory <- memory_new(run)
  on.exit()
  run
}

run_map <- function(task, on, control) {
  # Not as an argument: the run would then be evaluated wherever its value is first asked for, with the
  # frames of that place in the user's tracebacks.
  run <- run_through(task, on, control)
  run_result(run)
}

# The run when it is over. One that has got no worker at all is done in this process, if the user allows it, with the
# same random numbers: `seed` is drawn once, by the first that needs it.
run_through <- function(task, on, control, seed = task_base(task, control)) {
  # Limits cannot be watched in this process.
  if (control$no_workers == "stop" || limits_any(list(control = control))) {
    return(run_on(task, on, control, seed))
  }
  attempt <- new.env(parent = emptyenv())
  got <- tryCatch(run_on(task, on, control, seed, attempt), regatta_error_start = identity)
  if (!inherits(got, "condition")) {
    return(got)
  }
  if (!is.null(attempt$run) && run_has_begun(attempt$run)) signal_error(got)
  warning(warning_here(got$reason))
  # Not within the handler, whose frames would be in the tracebacks of elements.
  run_on(task, structure(list(), class = "regatta_session"), control, seed)
}

# Whether any element may have been run.
run_has_begun <- function(run) {
  run$done > 0 || any(run$tasks$tries > 1L) || any(!is.na(run$tasks$start))
}

# Evaluates `code`, which drives a run that goes on after it. When that is left by an error or an interrupt the run
# is over, since its workers have been stopped; the error is kept for whoever asks for values. Meanwhile the run is
# half way, and what handlers of its messages call cannot drive it: see check_not_driven().
run_guard <- function(run, code) {
  run$driven <- TRUE
  ended <- FALSE
  failure <- NULL
  on.exit({
    run$driven <- FALSE
    if (!ended) {
      run$failure <- failure
      run_close(run)
    }
  })
  value <- withCallingHandlers(run_within(run, code), error = function(e) failure <<- e)
  checkpoint_settle(run)
  ended <- TRUE
  value
}

run_within <- function(run, code) {
  tryCatch(run$executor$guard(code), CStackOverflowError = function(e) signal_error(error_stack(e, run$task$call)))
}

# `asked`: the function of the user that would drive it.
check_not_driven <- function(run, asked, call) {
  if (isTRUE(run$driven)) signal_error(error_driven(asked, call))
}

# From the first worker to the record of the run; leaves nothing behind, however it is left. `attempt` is told of the
# run before anything is started.
run_on <- function(task, on, control, seed, attempt = NULL) {
  run <- run_new(task, on, control, seed, attended = TRUE)
  if (!is.null(attempt)) attempt$run <- run
  on.exit(run_close(run))
  run_wait(run, {
    run_within(run, {
      run_start(run)
      run_drive(run)
    })
    run_close(run)
  })
  on.exit()
  run
}

# Until a worker is there that takes something, or there will be none.
run_start <- function(run, first = run_order(run)) {
  # Before the workers, so that each finds work when it is born.
  queue_submit(run, first)
  if (run$done < run$n) workers_start(run, seq_len(run$places))
  run$progress <- progress_start(run$n, run$control$progress, given = run$done)
  run_drive(run, settled = function() run$workers$begun || workers_count(run) > 0L || run$done >= run$n)
  queue_feed(run)
}

run_order <- function(run) {
  priority <- run$control$priority
  if (is.null(priority)) seq_len(run$n) else order(-priority, seq_len(run$n))
}

# Evaluates `code`, which waits for elements of the run, is FALSE if that was in vain, and has ended those that nobody
# waits for any more. In a worker that is a time when others can have its core, unless it runs them itself.
run_wait <- function(run, code) {
  if (run$executor$kind == "session") code else with_core_lent(code)
}

# Until `settled()`, which is when every element is, or one has failed that stops the run, or `until`
# (seconds of the monotonic clock) has come; TRUE unless the last.
run_drive <- function(run, until = Inf, settled = function() run$done >= run$n) {
  while (!settled() && !run_stopped(run)) {
    if (isTRUE(run$closed)) run_lost(run) # nobody is left who could have news
    queue_feed(run)
    left <- until - .Call(ffi_clock)
    wait <- min(
      limits_wait(run), memory_wait(run), workers_wait(run), checkpoint_wait(run), queue_wait(run), left,
      unheard_wait(run),
      if (run$stopping) run$stop_until - .Call(ffi_clock)
    )
    events <- run$executor$poll(max(0, wait))
    for (event in events) {
      # Hosts are heard of whatever their workers do.
      if (event$type != "heartbeat") run$workers$quiet <- run$unheard <- NULL
      run_take(run, event)
    }
    limits_enforce(run)
    memory_watch(run)
    workers_watch(run)
    queue_push_again(run)
    checkpoint_tend(run)
    progress_update(run$progress, run$done, run$failed)
    if (left <= 0 && !settled()) {
      return(FALSE)
    }
  }
  TRUE
}

# Workers of which nothing is heard may be waiting as well: for a core of the budget, a lock, memory.
unheard_wait <- function(run) {
  if (is.null(run$unheard)) run$unheard <- forgotten_watch(after = 1)
  run$unheard()
}

run_take <- function(run, event) {
  switch(event$type,
    ended = take_ended(run, event),
    output = relay_output(run, event),
    condition = take_conditions(run, event),
    suppressed = take_suppressed(run, event),
    joined = take_joined(run, event),
    ready = take_ready(run, event),
    heartbeat = take_heartbeat(run, event),
    left = take_left(run, event)
  )
}

take_ended <- function(run, event) {
  if (run$workers$promising) {
    for (id in unique(event$worker)) take_heartbeat(run, list(worker = id))
  }
  if (length(run$workers$given_up) + length(run$tries) > 0L) {
    event <- drop_late(run, event)
  }
  queue_ended(run, event)
  if (length(event$index) == 0L) {
    return(invisible())
  }
  run$idle_deaths <- 0L
  if (!is.null(event$error)) {
    alike_note(run, event)
    tasks_note(run$tasks, event)
    take_error(run, event)
  } else if (!is.null(event$alike)) {
    take_alike(run, event)
  } else {
    take_ended_values(run, event)
  }
}

take_ended_values <- function(run, event) {
  if (length(run$turned) + length(run$ending) > 0L) event <- take_refused(run, event)
  if (length(event$index) > 0L) {
    tasks_note_later(run$tasks, event)
    take_values(run, event)
    if (!is.null(run$checkpoint)) checkpoint_keep(run, event)
  }
}

# What a worker tells that has been given up is of tries that are over. Nor may the end of an earlier try be that of the
# one that is under way.
drop_late <- function(run, event) {
  keep <- !event$worker %in% run$workers$given_up & tries_open(run, event$index, event$try)
  columns <- intersect(names(event), c(ended_columns, "values", "alike"))
  event[columns] <- lapply(event[columns], `[`, keep)
  event
}

take_values <- function(run, event) {
  if (length(the$worker_homes$class) > 0L) event$values <- load_for_values(event$values)
  tasks_set(run, "values", event$index, event$values)
  tasks_set(run, "status", event$index, element_states[["done"]])
  run$done <- run$done + length(event$index)
  relay_settled(run, event$index)
}

take_conditions <- function(run, event) {
  load_condition_code()
  if (event$kind == "message") {
    return(relay_messages(run, event$index, event$cnd))
  }
  for (k in seq_along(event$index)) {
    take_condition(run, list(type = "condition", index = event$index[[k]], kind = event$kind, cnd = event$cnd[[k]]))
  }
}

take_condition <- function(run, event) {
  if (inherits(event$cnd, "regatta_loaded")) {
    note_loaded(event$cnd$homes)
  } else if (inherits(event$cnd, "regatta_packages")) {
    warn_packages(run, event$cnd$notes)
  } else if (inherits(event$cnd, "regatta_note") && !is.null(run$task$on_note)) {
    run$task$on_note(event$index, event$cnd)
  } else {
    checkpoint_tell(run, event)
    relay_condition(run, event)
  }
}

# Each worker tells of it, the user hears it once.
warn_packages <- function(run, notes) {
  new <- setdiff(notes, run$packages_told)
  run$packages_told <- c(run$packages_told, new)
  for (note in new) warning(warning_package(note))
}

take_suppressed <- function(run, event) {
  checkpoint_tell(run, event)
  relay_suppressed(run, event)
}

# Of a run that was closed before its elements had ended.
run_lost <- function(run, call = run$task$call) {
  if (!is.null(run$failure)) signal_error(run$failure)
  pid <- if (isTRUE(run$task$is_call)) run$workers$rows[[1L]]$pid
  signal_error(error_lost(pid, call = call, verb = run$task$verb))
}

# Ends the workers and writes the record. May be called again.
run_close <- function(run) {
  if (isTRUE(run$closed)) {
    return(invisible())
  }
  run$closed <- TRUE
  on.exit(if (!is.null(run$checkpoint)) checkpoint_close(run))
  stopped <- run$executor$stop() # an argument would be evaluated only if it is used
  workers_note_stop(run, stopped)
  if (!is.null(run$progress)) {
    progress_done(run$progress)
  }
  run$facts <- record_facts(run)
  record_later(run$facts)
}

# What the verb returns, or the error that ends it.
run_result <- function(run) {
  relay_flush(run)
  errors <- run_errors(run)
  call <- run$task$call
  if (length(errors) > 0L) {
    file <- save_dump(run, errors)
    if (run$control$errors == "collect") {
      run$values[run_failed(run)] <- all_as_failed(errors)
      warning(warning_errors(errors, run$n, call, file, run$task$failed))
    } else {
      several <- run$control$errors == "finish" && length(errors) > 1L
      cnd <- if (several) error_elements(errors, run$n, call) else errors[[1L]]
      signal_error(with_advice(cnd, file))
    }
  }
  names(run$values) <- run$task$names
  run$values
}

run_failed <- function(run) {
  as.numeric(which(run$status > element_states[["done"]]))
}

# Of a run under way: who can go on with it, in words, if that is not this process. One that is over is nothing
# but values.
run_owner <- function(run) {
  if (isTRUE(run$closed)) {
    return(NULL)
  }
  stored <- !.Call(ffi_encode_is_foreign, run$mark)
  if (stored || run$pid != Sys.getpid()) format_owner(run$pid, stored)
}

# `what` is the user's object: "handle" or "stream".
check_run_owner <- function(run, what, call) {
  owner <- run_owner(run)
  if (!is.null(owner)) signal_error(error_run_owner(what, owner, run$pid, call))
}

run_errors <- function(run) {
  if (is.null(run$errors)) list() else run$errors[run_failed(run)]
}
