# Checkpoints: values that have arrived in the session are appended to a log, and elements whose values are there are
# not handed out. It knows elements and values and nothing of workers.
#
# A value is found by a key of the element's content, of the code, and of its random numbers, see log-key.R.
# `task$keyed`, list(fun, args, content, shape), is what a verb says of these; content(i) is what the function is
# called with for element i, and `shape` how. A verb without it has no use for a checkpoint.

# `seed` is the base of random numbers that the run would have.
checkpoint_open <- function(task, control, seed) {
  if (is.null(task$keyed)) signal_error(error_checkpoint_verb(task$verb, task$call))
  earlier <- task$series$checkpoint
  point <- if (is.null(earlier)) checkpoint_new(task, control, seed) else checkpoint_next(earlier)
  opened <- FALSE
  on.exit(if (!opened && is.null(earlier)) log_close(point$log))
  # A part that is begun again, in another place, has its keys.
  if (!identical(point$before, task_before(task))) {
    point$before <- task_before(task)
    point$keys <- checkpoint_keys(task, point)
  }
  point$rows <- point$values[match(point$keys, point$log$records$key[point$values])]
  point$kept <- list() # elements that need not be written any more, as they came
  point$told <- list() # warnings of elements that have not ended, by number
  point$names <- if (is.null(task$series)) task$names
  point$due <- Inf
  checkpoint_empty(point)
  if (is.null(earlier)) checkpoint_begin(point, task)
  checkpoint_message(point, task$n)
  if (!is.null(task$series)) task$series$checkpoint <- point
  opened <- TRUE
  point
}

checkpoint_new <- function(task, control, seed) {
  log <- checkpoint_log(control$checkpoint, TRUE, task$call)
  opened <- FALSE
  on.exit(if (!opened) log_close(log))
  point <- new.env(parent = emptyenv())
  point$log <- log
  context <- key_context(key_unwrapped(task$keyed$fun))
  point$parts <- key_parts(task$keyed$fun, task$keyed$args, context, task$keyed$shape)
  point$shared <- context$met
  point$taken <- context$fields
  point$code <- key_of(point$parts)
  point$setting <- control$seed
  point$again <- if (!isFALSE(control$seed)) control$retry_seed
  point$seed <- checkpoint_seed(point, seed, task$call)
  # In every record, so that no damage to one costs the others.
  point$of <- list(code = point$code, seed = point$seed, setting = point$setting, again = point$again)
  point$values <- which(log$records$type != log_types[["call"]])
  point$counts <- new.env(parent = emptyenv()) # how many elements of a content there were, in parts before
  point$failed <- FALSE
  opened <- TRUE
  point
}

# For another part of the same whole.
checkpoint_next <- function(earlier) {
  earlier$log$damaged <- 0 # it has been told
  list2env(as.list.environment(earlier), parent = emptyenv())
}

checkpoint_log <- function(folder, write, call) {
  log <- log_open(path.expand(folder), write)
  if (is_log_failure(log) && log$holder == Sys.getpid()) {
    # A log is closed with its object, or with its run. Ctrl-C may have come when one was open and nobody had it yet.
    forgotten_end()
    log <- log_open(path.expand(folder), write)
  }
  if (!is_log_failure(log)) {
    return(log)
  }
  # What is not locked by anybody cannot be locked.
  locked <- log$operation == "lock" && (log$holder > 0L || log$errno %in% log_taken)
  if (locked) {
    around <- normalizePath(folder, mustWork = FALSE) %in% evaluator$control$checkpoint
    signal_error(error_checkpoint_lock(folder, log, log_holder(folder), around, call))
  }
  signal_error(error_checkpoint_open(folder, log, call))
}

# The base of random numbers of this call. A log of another call is an error here. With `seed = TRUE` the numbers of
# the first call go on: the session's generator stands elsewhere now.
checkpoint_seed <- function(point, seed, call) {
  log <- point$log
  calls <- which(log$records$type == log_types[["call"]])
  before <- NULL
  # Each call has written one; of a damaged one the next tells the same, and so does each value.
  for (row in c(rev(calls), setdiff(seq_len(nrow(log$records)), calls))) {
    facts <- log_read(log, row, values = FALSE)[[1L]]$facts
    before <- facts$of
    if (!is.null(before)) break
  }
  if (is.null(before)) {
    if (nrow(log$records) > 0L) signal_error(error_checkpoint_unreadable(log$folder, call))
    return(seed)
  }
  taken <- isTRUE(point$setting) && isTRUE(before$setting)
  # Its first word is the kind of generator, which is one of the settings.
  same_seed <- taken || identical(list(point$setting, seed[-1L]), list(before$setting, before$seed[-1L]))
  changes <- c(
    if (!identical(before$code, point$code)) checkpoint_changes(facts$parts, point$parts),
    if (!same_seed) "the seed" else if (!identical(before$again, point$again)) "`retry_seed`"
  )
  if (length(changes) > 0L) {
    count <- sum(log$records$type != log_types[["call"]])
    signal_error(error_checkpoint_changed(log$folder, changes, count, call))
  }
  before$seed
}

# `before` is NULL where the records that tell more are damaged.
checkpoint_changes <- function(before, now) {
  if (is.null(before)) "what it computes" else key_changes(before, now)
}

# With random numbers an element is its place as well. Without, elements of the same content are told apart.
checkpoint_keys <- function(task, point) {
  context <- key_context(key_unwrapped(task$keyed$fun), point$shared, point$taken)
  content <- vapply(seq_len(task$n), function(i) key_given(task$keyed$content(i), context), "")
  place <- if (!is.null(point$seed)) {
    point$before + seq_len(task$n)
  } else {
    checkpoint_places(content, if (!is.null(task$series)) point$counts)
  }
  text <- paste(paste(point$code, paste(point$seed, collapse = " ")), content, place)
  vapply(text, rlang::hash, "", USE.NAMES = FALSE)
}

# Which of the elements of its content each is. `counts` has how many there were in parts before, and is told of these.
checkpoint_places <- function(content, counts) {
  n <- length(content)
  places <- if (anyDuplicated(content)) stats::ave(seq_len(n), content, FUN = seq_along) else rep(1L, n)
  if (is.null(counts)) {
    return(places)
  }
  places <- places + vapply(content, function(one) c(counts[[one]], 0L)[[1L]], 0L)
  list2env(as.list(stats::setNames(places, content)), envir = counts) # of several the last, which is the largest
  places
}

checkpoint_begin <- function(point, task) {
  facts <- list(
    of = point$of, parts = point$parts, verb = task$verb, call = format_call(task$call, 200L), n = task$n,
    when = Sys.time(), pid = Sys.getpid(), host = Sys.info()[["nodename"]]
  )
  wrote <- log_append(point$log, "call", point$code, 0, facts)
  if (is_log_failure(wrote)) signal_error(error_checkpoint_open(point$log$folder, wrote, task$call))
  point$due <- .Call(ffi_clock) + checkpoint_sync_after
}

checkpoint_message <- function(point, n) {
  found <- sum(!is.na(point$rows))
  if (found > 0L || point$log$damaged > 0) {
    message(message_checkpoint(point$log$folder, found, n, point$before, point$log$damaged))
  }
}

# How many elements have no value in the log.
checkpoint_missing <- function(point) sum(is.na(point$rows))

# Seconds for which what was written may be lost if the machine, not just the session, comes to an end: with those for
# which a value may wait one.
checkpoint_sync_after <- 0.9

# Gives the run the values that are there of these elements; returns the others.
checkpoint_take <- function(run, indices) {
  point <- run$checkpoint
  there <- indices[!is.na(point$rows[indices])]
  # A part at a time: Ctrl-C and the memory for what is read.
  for (some in split(there, (seq_along(there) - 1L) %/% 100L)) {
    objects <- log_read(point$log, point$rows[some])
    damaged <- vapply(objects, is.null, NA)
    point$rows[some[damaged]] <- NA_integer_
    point$log$lost <- c(point$log$lost, some[damaged])
    some <- some[!damaged]
    objects <- objects[!damaged]
    for (k in seq_along(some)) {
      for (event in objects[[k]]$facts$told) {
        event$index <- some[[k]] # where its element stands in this call
        if (event$type == "condition") relay_condition(run, event) else relay_suppressed(run, event)
      }
    }
    point$kept <- c(point$kept, list(some))
    if (length(some) > 0L) take_values(run, list(index = some, values = lapply(objects, `[[`, "value")))
  }
  if (length(point$log$lost) > 0L) {
    message(message_checkpoint_lost(point$log$folder, point$before + point$log$lost))
    point$log$lost <- NULL
  }
  indices[run$status[indices] == element_states[["pending"]]]
}

# What workers are told of the settings: warnings belong to values, also to those of a call that drops them. `checkpoint`
# is the folders of this call and of those that it is inside of.
checkpoint_control <- function(run) {
  control <- run$control
  if (!is.null(control$checkpoint) && control$warnings == "drop") control$warnings <- "relay"
  control["checkpoint"] <- list(c(run$checkpoint$log$folder, evaluator$control$checkpoint))
  control
}

# A warning belongs to the value, and is given again with it.
checkpoint_tell <- function(run, event) {
  point <- run$checkpoint
  if (!is.null(point) && event$kind == "warning") {
    key <- as.character(event$index)
    if (inherits(event$cnd, "regatta_fate")) event$cnd$fate$record <- NULL
    if (event$type == "suppressed") event$most <- run$control$max_conditions # that of a later call may be another
    point$told[[key]] <- c(point$told[[key]], list(event))
  }
}

# What a try has told that is run again as if it had not been.
checkpoint_untell <- function(run, index) {
  if (!is.null(run$checkpoint)) run$checkpoint$told[[as.character(index)]] <- NULL
}

# Values have arrived: `event` is as it comes from the executor. This is done for every element, while workers may want
# the processor: small values wait for others, so that a write, and all that is done for one, is for many.
checkpoint_keep <- function(run, event) {
  point <- run$checkpoint
  point$arrived[[length(point$arrived) + 1L]] <- event
  point$room <- point$room - sum(event$bytes)
  if (!is.finite(point$write)) point$write <- .Call(ffi_clock) + checkpoint_gather
  if (point$room < 0 || length(point$arrived) >= 1000L) checkpoint_write(run)
}

# Seconds for which a value may wait to be written.
checkpoint_gather <- 0.1

checkpoint_gathered <- function(events) {
  of <- function(name) do.call(c, lapply(events, `[[`, name))
  columns <- c("index", "values", "worker", "start", "end", "bytes", "try")
  if (length(events) == 1L) events[[1L]] else stats::setNames(lapply(columns, of), columns)
}

# If Ctrl-C comes in between, all of them are written again when the run is closed.
checkpoint_write <- function(run) {
  point <- run$checkpoint
  events <- point$arrived
  checkpoint_empty(point)
  if (length(events) == 0L) {
    return(invisible())
  }
  event <- checkpoint_gathered(events)
  numbers <- rbind(unclass(Sys.time()), event$end - event$start, event$bytes, event$try, checkpoint_pids(run, event))
  left <- seq_along(event$index)
  small <- checkpoint_small(point, event)
  for (some in split(small, (seq_along(small) - 1L) %/% 100L)) {
    # What has no room as a whole may have it in part.
    if (checkpoint_append(point, event, numbers, some)) left <- setdiff(left, some)
  }
  k <- 0L
  keep <- function() {
    while (k < length(left)) {
      k <<- k + 1L
      place <- left[[k]]
      i <- event$index[[place]]
      facts <- checkpoint_facts(point, i, numbers[, place])
      wrote <- log_append(
        point$log, "value", point$keys[[i]], point$before + i, facts, event$values[[place]], event$bytes[[place]]
      )
      if (is_log_failure(wrote)) checkpoint_fail(run, i, wrote)
      if (!is.null(facts$told)) point$told[[as.character(i)]] <- NULL
    }
  }
  # A value that cannot be serialised costs no other.
  while (k < length(left)) {
    tryCatch(keep(), error = function(e) {
      checkpoint_fail(run, event$index[[left[[k]]]], list(operation = conditionMessage(e), errno = 0L, holder = 0L))
    })
  }
  point$kept[[length(point$kept) + 1L]] <- event$index
  point$due <- min(point$due, .Call(ffi_clock) + checkpoint_sync_after)
}

checkpoint_empty <- function(point) {
  point$arrived <- list() # events whose values have not been written
  point$room <- log_large # bytes for which others may wait
  point$write <- Inf # when they are written
}

# Before values are given to somebody while the run goes on.
checkpoint_settle <- function(run) if (!is.null(run$checkpoint)) checkpoint_write(run)

checkpoint_facts <- function(point, i, numbers) {
  list(
    of = point$of, numbers = numbers, name = point$names[i],
    told = if (length(point$told) > 0L) point$told[[as.character(i)]]
  )
}

# Which of the values can be written together, if there are several.
checkpoint_small <- function(point, event) {
  if (length(event$index) == 1L) {
    return(integer())
  }
  plain <- vapply(event$values, function(value) is_plain_value(value) && length(value) <= 1000L, NA)
  which(plain & event$bytes < 2^16 & !as.character(event$index) %in% names(point$told))
}

# Whether these are in the log.
checkpoint_append <- function(point, event, numbers, some) {
  payloads <- vector("list", length(some))
  for (k in seq_along(some)) {
    place <- some[[k]]
    payloads[[k]] <- log_payload(checkpoint_facts(point, event$index[[place]], numbers[, place]), event$values[[place]])
  }
  index <- event$index[some]
  all(lengths(payloads) < log_large) &&
    isTRUE(log_append_bytes(point$log, "value", point$keys[index], as.double(point$before + index), payloads))
}

# What stands in the record of a value as `numbers`.
checkpoint_numbers <- c("when", "seconds", "bytes", "try", "pid")

checkpoint_pids <- function(run, event) {
  workers <- unique(event$worker)
  pids <- vapply(run$workers$rows[workers], function(row) as.double(row$pid), 0)
  pids[match(event$worker, workers)]
}

# The map goes on: its values are worth more than the log. Later ones are tried again, since room may come.
checkpoint_fail <- function(run, index, failure) {
  point <- run$checkpoint
  if (!point$failed) {
    point$failed <- TRUE
    progress_clear(run$progress)
    warning(warning_checkpoint(point$log$folder, if (!is.null(index)) point$before + index, failure))
  }
}

# Seconds until there is something to do.
checkpoint_wait <- function(run) {
  point <- run$checkpoint
  if (is.null(point)) Inf else min(point$due, point$write) - .Call(ffi_clock)
}

checkpoint_tend <- function(run) {
  point <- run$checkpoint
  if (is.null(point)) {
    return(invisible())
  }
  now <- .Call(ffi_clock)
  if (now >= point$write) checkpoint_write(run)
  if (now >= point$due) {
    point$due <- Inf
    wrote <- log_sync(point$log)
    if (is_log_failure(wrote)) checkpoint_fail(run, NULL, wrote)
  }
}

# Values that have arrived and were not written, since Ctrl-C came between, are written now.
checkpoint_close <- function(run) {
  point <- run$checkpoint
  on.exit(if (is.null(run$task$series)) log_close(point$log))
  checkpoint_write(run)
  left <- setdiff(which(run$status == element_states[["done"]]), unlist(point$kept))
  if (length(left) > 0L) {
    tasks <- run$tasks
    tasks_settle(tasks)
    checkpoint_keep(run, list(
      index = left, values = run$values[left], worker = tasks$worker[left], start = tasks$start[left],
      end = tasks$end[left], bytes = tasks$bytes[left], try = tasks$tries[left]
    ))
    checkpoint_write(run)
  }
  wrote <- if (is.finite(point$due)) log_sync(point$log)
  if (is_log_failure(wrote)) checkpoint_fail(run, NULL, wrote)
  run$checkpoint <- NULL
}
