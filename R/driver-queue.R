# Handing out elements. Where the workers of an executor share a queue all go there, and the workers take
# batches by themselves. Otherwise the queue is here, and each idle worker is given its next batch. How
# many elements that are is computed by the same code (rg_queue_batch() of src/queue.h).

queue_new <- function() {
  queue <- new.env(parent = emptyenv())
  queue$elements <- numeric() # the first `taken` of them have been handed out
  queue$taken <- 0
  queue$again <- numeric() # what has failed since the last poll and is tried again
  queue$given <- list() # for each worker: elements that it has been given and that have not ended,
  queue$size <- integer() # how many they were, how many have ended,
  queue$begun <- integer()
  queue$since <- numeric() # and when it was given them or when the latest of them ended
  queue$first <- numeric()
  queue$watch <- NULL # a forgotten_watch() while idle workers are at something of others
  queue
}

# In the order in which they are to begin, after all that wait. Those whose values are there already are done.
queue_submit <- function(run, indices) {
  if (!is.null(run$checkpoint)) indices <- checkpoint_take(run, indices)
  tasks_submit(run$tasks, indices)
  queue_push(run, indices, first = FALSE)
}

# `first`: before all that wait.
queue_push <- function(run, indices, first) {
  if (length(indices) == 0L) {
    return(invisible())
  }
  if (is.null(run$executor$submit)) {
    waiting <- queue_waiting(run$queue)
    run$queue$elements <- if (first) c(indices, waiting) else c(waiting, indices)
  } else {
    run$executor$submit(indices, run$tasks$tries[indices], first)
  }
}

# What has failed and is tried again is next, whatever waits: what was to begin early does, and a function that always
# fails ends a run soon.
queue_submit_again <- function(run, index) {
  tasks_submit(run$tasks, index)
  run$queue$again <- c(run$queue$again, index)
}

# Those of one poll, in their order.
queue_push_again <- function(run) {
  if (length(run$queue$again) == 0L) {
    return(invisible())
  }
  indices <- sort(run$queue$again)
  run$queue$again <- numeric()
  if (run$stopping) indices <- indices[indices < run$stop_index]
  queue_push(run, indices, first = TRUE)
}

# What has not been handed out; it is the queue from now on.
queue_waiting <- function(queue) {
  if (queue$taken > 0) {
    queue$elements <- queue$elements[-seq_len(queue$taken)]
    queue$taken <- 0
  }
  queue$elements
}

# No element begins any more but the first `first` of the run.
queue_withdraw <- function(run, first) {
  waiting <- queue_waiting(run$queue)
  run$queue$elements <- waiting[waiting <= first]
  if (!is.null(run$executor$withdraw)) run$executor$withdraw(first)
}

# Only so many places have workers that begin further elements.
queue_limit <- function(run, places) {
  run$active <- places
  if (!is.null(run$executor$limit)) run$executor$limit(places)
}

# Gives every idle worker that may work its next batch. One that others have is waited for.
queue_feed <- function(run) {
  queue <- run$queue
  refused <- FALSE
  on.exit(queue_refused(queue, refused))
  if (is.null(run$executor$give) || length(queue$elements) == queue$taken) {
    return(invisible())
  }
  for (id in workers_idle(run)) {
    left <- length(queue$elements) - queue$taken
    if (left == 0) {
      break
    }
    size <- queue_batch(run, id, left)
    elements <- queue$elements[queue$taken + seq_len(size)]
    if (isFALSE(run$executor$give(id, elements, run$tasks$tries[elements]))) {
      refused <- TRUE
      next
    }
    queue$taken <- queue$taken + size
    queue$given[[id]] <- elements
    queue$size[[id]] <- size
    queue$begun[[id]] <- 0L
    queue$first[[id]] <- queue$since[[id]] <- .Call(ffi_clock)
    workers_set(run, id, "state", "busy")
  }
}

queue_refused <- function(queue, refused) {
  if (!refused) {
    queue$watch <- NULL
  } else if (is.null(queue$watch)) {
    queue$watch <- forgotten_watch()
  }
}

# How long to wait at most where idle workers are at something of others.
queue_wait <- function(run) if (is.null(run$queue$watch)) Inf else run$queue$watch()

queue_batch <- function(run, id, left) {
  queue <- run$queue
  before <- if (id <= length(queue$size) && !is.na(queue$size[[id]])) queue$size[[id]] else 0L
  seconds <- if (before > 0L) queue$since[[id]] - queue$first[[id]] else 0
  fixed <- run$control$batch
  .Call(
    ffi_driver_batch, if (is.null(fixed)) 0 else as.double(fixed), as.double(before), seconds,
    as.double(left), as.double(min(run$active, workers_count(run)))
  )
}

# A worker whose batch has ended is idle.
queue_ended <- function(run, event) {
  queue <- run$queue
  if (is.null(run$executor$give)) {
    return(invisible())
  }
  for (id in unique(event$worker)) {
    mine <- event$index[event$worker == id]
    given <- queue$given[[id]]
    queue$given[[id]] <- given[!given %in% mine]
    queue$since[[id]] <- .Call(ffi_clock)
    done <- length(queue$given[[id]]) == 0L
    if (done && run$workers$rows[[id]]$state != "gone") workers_set(run, id, "state", "idle")
  }
}

# Of a worker that has left: what it had begun, list(index, start), as far as can be known here. The
# first of its batch that has not ended has begun when the one before it ended.
queue_begun <- function(run, id) {
  given <- queue_given(run, id)
  if (length(given) == 0L) {
    return(list(index = numeric(), start = numeric()))
  }
  list(index = given[[1L]], start = run$queue$since[[id]])
}

# What an executor says that a worker had begun, less what has ended according to what it has told.
queue_known <- function(run, id, event) {
  if (is.null(run$executor$give)) {
    return(event)
  }
  mine <- event$index %in% queue_given(run, id)
  list(index = event$index[mine], start = event$start[mine], end = if (!is.null(event$end)) event$end[mine])
}

queue_given <- function(run, id) {
  if (id <= length(run$queue$given)) run$queue$given[[id]] else numeric()
}

# What a worker that has left had not begun goes to others, before all that wait.
queue_return <- function(run, id, begun) {
  left <- setdiff(queue_given(run, id), begun)
  if (run$stopping) left <- left[left <= run$stop_index]
  queue_push(run, left, first = TRUE)
  if (id <= length(run$queue$given)) run$queue$given[[id]] <- numeric()
}
