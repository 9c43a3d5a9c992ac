# Failures of elements: an error, the death of the worker, an end by a limit. Each is tried again as
# the control says, or becomes the condition that stands for the element.

take_error <- function(run, event) {
  load_error_code()
  index <- event$index
  event$pid <- run$workers$rows[[event$worker]]$pid
  ended <- ending_take(run, event$worker, index, event$try)
  turned <- turned_take(run, index)
  if (!is.null(ended) && (isTRUE(event$error$interrupted) || was_asked_to_end(ended))) {
    cnd <- limit_error(run, index, event$pid, event$try, ended)
    return(fail(run, index, "timeout", cnd, event))
  }
  if (!is.null(turned)) event$error <- turned
  event$error$attached <- attached_home(event$error$missing)
  cnd <- error_element(event$error, index, element_name(run, index), event$pid, event$try, run$task$call)
  fail(run, index, "error", cnd, event)
}

# A warning is to be the error of its element, which goes on meanwhile. It is interrupted where that can be done, and
# has failed when it has ended, whatever its end is. The first such warning counts.
turn_element <- function(run, index, item) {
  key <- as.character(index)
  if (!is.null(run$turned[[key]])) {
    return(invisible())
  }
  record <- item$fate$record
  if (is.null(record)) record <- capture_error(warning_as_error(item$bare), list(), list(), detail = FALSE, dump = "no")
  run$turned[[key]] <- record
  now <- workers_running(run)
  for (worker in now$worker[now$element == index]) run$executor$interrupt(worker, index)
}

turned_take <- function(run, index) {
  key <- as.character(index)
  record <- run$turned[[key]]
  if (!is.null(record)) run$turned[[key]] <- NULL
  record
}

# What is left of values when those of such elements are errors, and those of elements that were ended for a limit: one
# that has caught the interrupt has not done its work, and what another waited for may have been ended.
take_refused <- function(run, event) {
  keys <- as.character(event$index)
  ended <- ending_key(event$worker, event$index, event$try) %in% names(run$ending)
  refused <- ended | keys %in% names(run$turned)
  columns <- names(ended_only(event))
  for (k in which(refused)) {
    one <- lapply(event[columns], `[[`, k)
    one$error <- if (ended[[k]]) list(interrupted = TRUE) else run$turned[[keys[[k]]]]
    tasks_note(run$tasks, one)
    take_error(run, one)
  }
  event[c(columns, "values")] <- lapply(event[c(columns, "values")], `[`, !refused)
  event
}

# After the first step, an interrupt.
was_asked_to_end <- function(ending) !is.null(ending) && ending$step > 1L

# `row` is that of the worker, which was at the element `index`.
take_death <- function(run, event, row, index) {
  event$index <- index
  event$pid <- row$pid
  event$try <- run$tasks$tries[[index]]
  turned_take(run, index)
  ended <- ending_take(run, event$worker, index, event$try)
  if (!is.null(ended)) {
    return(fail(run, index, "timeout", limit_error(run, index, event$pid, event$try, ended), event))
  }
  if (memory_ended(run, event$worker)) {
    return(put_back(run, index, event))
  }
  cnd <- death_error(run, event, row)
  if (memory_lost(run, event, cnd$oom)) put_back(run, index, event) else fail(run, index, "death", cnd, event)
}

# A worker that dies before it begins anything costs no element, so nothing else would end a run
# whose workers all do.
count_idle_death <- function(run, event, row) {
  run$idle_deaths <- run$idle_deaths + 1L
  if (run$idle_deaths > 2L * run$places + 2L) {
    said <- has_given_up(event$status, event$backtrace)
    exit <- if (said) event$backtrace else format_exit(event$signal, event$status)
    reason <- sprintf(
      "%d of them in a row ended before they began an element (%s)", run$idle_deaths,
      if (is.null(row$late)) exit else row$late
    )
    calls <- if (!said) order_backtrace(event$backtrace)
    signal_error(error_start(run$places, reason, idle_advice(event), calls, call = run$task$call))
  }
}

# One that crashes has found something to run: the limits of the machine are not the reason.
idle_advice <- function(event) if (nzchar(event$backtrace)) "Look at what the code needs."

death_error <- function(run, event, row) {
  host <- worker_host(row)
  kills <- c(run$oom_kills[[host]], event$oom)
  oom <- if (length(kills) < 2L || any(kills < 0)) NA else kills[[2L]] > kills[[1L]]
  # Of several that were killed at once each is one of those that the system has counted.
  run$oom_kills[[host]] <- if (isTRUE(oom)) kills[[1L]] + 1 else event$oom
  backtrace <- order_backtrace(event$backtrace)
  error_death(
    event$index, element_name(run, event$index), event$pid, event$try,
    signal = event$signal, status = event$status, peak_memory = event$peak,
    oom = oom, oom_kills = kills, backtrace = backtrace, lost = event$lost, call = run$task$call
  )
}

# The worker writes the C calls first, while it still can; a reader wants the R calls first.
order_backtrace <- function(text) {
  lines <- strsplit(text, "\n", fixed = TRUE)[[1L]]
  r <- which(startsWith(lines, "R calls"))
  if (length(r) == 1L) {
    lines <- c(lines[r:length(lines)], utils::head(lines[seq_len(r - 1L)], 20L))
  }
  lines
}

element_name <- function(run, index) name_or_null(run$task$names[index])

fail <- function(run, index, kind, cnd, event) {
  control <- run$control
  if (event$try <= control$retries && kind %in% control$retry_on) {
    return(try_again(run, index, kind, cnd, event))
  }
  fail_for_good(run, index, kind, list(cnd))
}

# Of one element or several.
fail_for_good <- function(run, index, kind, cnds) {
  if (is.null(run$errors)) run$errors <- vector("list", run$n)
  tasks_set(run, "errors", index, cnds)
  tasks_set(run, "status", index, element_states[[kind]])
  run$failed <- run$failed + length(index)
  run$done <- run$done + length(index)
  if (stops_run(run, kind)) {
    run_stop(run, min(index))
  }
  relay_settled(run, index)
}

# The error of a run that stops is to be that of lapply(), the first in the order of the elements: those
# before it that are under way are waited for, but not long, since they may take hours.
run_stop <- function(run, index) {
  if (!run$stopping) run$stop_until <- .Call(ffi_clock) + stop_wait
  run$stopping <- TRUE
  run$stop_index <- min(run$stop_index, index)
  # With priorities those before it may not be under way.
  queue_withdraw(run, if (is.null(run$control$priority)) run$stop_index - 1 else 0)
}

# Seconds.
stop_wait <- 0.5

run_stopped <- function(run) {
  if (!run$stopping) {
    return(FALSE)
  }
  before <- run$status[seq_len(run$stop_index - 1)] != element_states[["pending"]]
  all(before) || !is.null(run$control$priority) || .Call(ffi_clock) > run$stop_until
}

stops_run <- function(run, kind) {
  stop_on <- run$task$stop_on
  run$control$errors == "stop" && (is.null(stop_on) || kind %in% stop_on)
}

# At once and alone, while the others run on.
try_again <- function(run, index, kind, cnd, event) {
  # What this try wrote without a newline is not the beginning of what the next one writes.
  relay_settled(run, index)
  if (!is.null(run$task$on_retry)) {
    run$task$on_retry(run, index, kind, cnd, event)
  }
  run$tries[[length(run$tries) + 1L]] <- record_try(run, index, kind, event)
  if (run$control$retry_workers == "fewer" && run$active > 1L) {
    queue_limit(run, run$active - 1L)
  }
  queue_submit_again(run, index)
}

# par_last() has the dump; where the user has named a file it is there for other sessions as well.
# Returns the file's path, NULL if there is none.
save_dump <- function(run, errors) {
  if (!is.null(run$control$dump_file)) write_dump(errors, run$control$dump_file)
}
