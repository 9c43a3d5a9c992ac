# The nodes of a cluster of `parallel` as workers, made by makeCluster() or by another package. Each
# is sent what the run needs, once, and then batches of elements (R/executor-cluster-messages.R is the
# way there, R/executor-cluster-worker.R the other end). Nodes of this machine share memory with the
# session: large objects go by handle, and what a node does can be watched and interrupted. Of nodes
# elsewhere only messages are known.
#
# A cluster outlives its runs, and several may be under way: calls that were not asked for their value,
# streams, a map in between. They take turns, batch by batch: a node that has a batch of another run
# is waited for while the others work.

new_executor.cluster <- function(on, plan) {
  pool <- cluster_pool(on, plan)
  inner <- list(
    start = function() cluster_start(pool),
    submit = function(indices) cluster_submit(pool, indices),
    poll = function(timeout) cluster_poll(pool, timeout),
    running = function() cluster_running(pool),
    signal = function(w, how) cluster_signal(pool, w, how),
    respawn = function(w) NA_integer_,
    withdraw = function(first) {
      left <- cluster_queue(pool)
      pool$queue <- left[left <= first]
      pool$ending <- TRUE
    },
    limit = function(active) pool$active <- active,
    tasks = function() task_rows(pool$tasks),
    task = function(index) task_rows(pool$tasks, index),
    guard = function(code) cluster_guard(pool, code),
    stop = function() cluster_stop(pool)
  )
  cluster_executor(inner, pool)
}

# Workers are numbered as their nodes are; nodes that nobody has engaged come first.
cluster_pool <- function(on, plan) {
  pool <- new.env(parent = emptyenv())
  pool$plan <- plan
  pool$cluster <- on
  wires <- cluster_wires(unclass(on))
  pool$sockets <- all(vapply(wires, function(wire) !is.null(wire$pointer) || !is.null(wire$out), NA))
  free <- order(vapply(wires, function(wire) !is.null(wire$busy) || !is.null(wire$out), NA))
  pool$wires <- wires[if (pool$sockets) free[seq_len(plan$workers)] else seq_len(plan$workers)]
  pool$session <- Sys.getpid()
  pool$token <- paste(Sys.getpid(), format(.Call(ffi_clock), digits = 15))
  pool$tasks <- task_table(plan$n)
  pool$queue <- numeric() # `taken` of them have been handed out
  pool$taken <- 0
  pool$active <- plan$workers
  pool$alive <- rep(TRUE, plan$workers)
  pool$batch <- rep(list(numeric()), plan$workers) # elements sent and not yet settled
  pool$seen <- numeric(plan$workers) # what a worker ran when it was last looked at
  pool$size <- integer(plan$workers) # of the last batch, and seconds in its elements
  pool$spent <- numeric(plan$workers)
  pool$stopped <- FALSE
  pool$ending <- FALSE
  # Dropped before its end: a stream, a call.
  reg.finalizer(pool, pool_abandoned)
  pool
}

pool_pids <- function(pool) {
  vapply(pool$wires, function(wire) if (is.null(wire$facts)) NA_integer_ else wire$facts$pid, 1L)
}

is_local <- function(wire) isTRUE(wire$facts$local)

# Evaluates `code`; a jump out of it, or the end of a run that stops, gives the nodes back before
# anything else happens.
cluster_guard <- function(pool, code) {
  stop <- as.call(list(cluster_stop, pool))
  value <- .Call(ffi_cluster_guard, quote(code), environment(), stop)
  if (pool$ending) cluster_stop(pool)
  value
}

cluster_start <- function(pool) {
  plan <- pool$plan
  pool$slots <- .Call(ffi_cluster_slots_new, plan$workers, shm_limit())
  reasons <- cluster_meet(pool)
  if (any(pool$alive)) cluster_prepare(pool)
  cluster_lacks(pool, reasons)
  cluster_feed(pool)
  ifelse(pool$alive, pool_pids(pool), NA_integer_)
}

cluster_lacks <- function(pool, reasons) {
  wanted <- pool$plan$workers
  if (!any(pool$alive)) {
    signal_error(error_start(wanted, reasons[[1L]],
      "Look at the nodes of the cluster; one that is out of service needs another cluster."
    ))
  }
  if (length(reasons) > 0L) {
    warning(warning_workers(sum(pool$alive), wanted, reasons[[1L]]))
  }
}

# Who the nodes are, asked once; why some cannot be used, as text.
cluster_meet <- function(pool) {
  reasons <- character()
  new <- which(vapply(pool$wires, function(wire) is.null(wire$facts) && is.null(wire$out), NA))
  if (length(new) > 0L) {
    cluster_hello(pool, new)
  }
  for (w in seq_along(pool$wires)) {
    wire <- pool$wires[[w]]
    unfit <- if (!is.null(wire$out)) {
      paste("it is out of service:", wire$out)
    } else if (is.null(wire$facts)) {
      pool$failed[[w]]
    } else {
      cluster_unfit(pool, wire)
    }
    if (!is.null(unfit)) {
      reasons <- c(reasons, sprintf("node %s: %s", format_wire(wire), unfit))
      pool$alive[[w]] <- FALSE
    }
  }
  reasons
}

cluster_hello <- function(pool, new) {
  shared <- shm_share(charToRaw(pool$token), min = 0) # to be kept until the nodes have read it
  probe <- send_handles(TRUE, serialize(shared, NULL, xdr = FALSE))
  for (w in new) {
    cluster_send(pool, w, "cluster_worker_hello", list(probe, pool$token))
  }
  waiting <- function() {
    Filter(function(w) identical(pool$wires[[w]]$busy, pool$token), new)
  }
  pool$failed <- vector("list", length(pool$wires))
  while (length(waiting()) > 0L || cluster_has_answers(pool, new)) {
    if (!cluster_has_answers(pool, new)) cluster_answers(pool, waiting())
    for (w in new) {
      for (got in cluster_news(pool, w)) cluster_met(pool, w, got)
    }
  }
}

cluster_has_answers <- function(pool, new) {
  any(vapply(pool$wires[new], function(wire) length(wire$news[[pool$token]]) > 0L, NA))
}

cluster_answers <- function(pool, waiting) {
  if (pool$sockets) wires_wait(pool$wires[waiting], 1) else cluster_await(pool)
}

cluster_met <- function(pool, w, got) {
  wire <- pool$wires[[w]]
  if (!is.null(got$reply)) {
    facts <- got$reply$value
    facts$ahead <- if (facts$local) 0 else facts$clock - wire$told
    wire$facts <- facts
    if (facts$local && !is.null(wire$pointer)) {
      .Call(ffi_cluster_wire_watch, wire$pointer, facts$pid)
    }
    if (!is.null(wire$pointer)) suspendInterrupts(wire_release(wire))
  } else if (is.null(got$dead)) {
    pool$failed[[w]] <- got$failed
    if (!is.null(wire$pointer)) suspendInterrupts(wire_release(wire))
  }
}

# Why a node cannot take part in this run; NULL if it can.
cluster_unfit <- function(pool, wire) {
  facts <- wire$facts
  limited <- pool$plan$limited
  near <- if (is.null(pool$plan$near) && limited) "a limit of time or memory" else pool$plan$near
  if (!identical(facts$version, regatta_version())) {
    sprintf("it has regatta %s, this session %s", facts$version, regatta_version())
  } else if (!identical(facts$endian, .Platform$endian)) {
    "it has numbers in another order of bytes"
  } else if (!facts$local && !is.null(near)) {
    paste0("it shares no memory with this session, which ", near, " needs")
  } else if (limited && !pool$sockets) {
    "its cluster has no sockets, which a limit of time or memory needs to be watched"
  }
}

# What is the same for all elements of a run.
cluster_prepare <- function(pool) {
  plan <- pool$plan
  globals <- globals_of(code_of(plan$replay), plan$replay$env)
  job <- list(
    loop = plan$loop, control = plan$control, seed = plan$seed, share = plan$share,
    variables = globals$variables, packages = globals$packages
  )
  local <- vapply(pool$wires, is_local, NA)
  pool$packed <- lapply(c(near = TRUE, far = FALSE), function(near) {
    if (any(pool$alive & local == near)) {
      min <- if (near && plan$control$shm) plan$control$share_min else Inf
      send_handles(near, closure_pack(job, min))
    }
  })
}

cluster_submit <- function(pool, indices) {
  pool$queue <- c(cluster_queue(pool), indices)
}

# Events of the driver; the values as one.
cluster_poll <- function(pool, timeout) {
  cluster_feed(pool)
  got <- cluster_receive(pool, timeout)
  events <- unlist(lapply(got, function(one) cluster_take(pool, one)), recursive = FALSE)
  is_value <- vapply(events, function(event) event$type == "values", NA)
  values <- list(
    type = "values", index = vapply(events[is_value], `[[`, 0, "index"),
    values = unlist(lapply(events[is_value], `[[`, "values"), recursive = FALSE)
  )
  c(events[!is_value], if (any(is_value)) list(values))
}

cluster_take <- function(pool, got) {
  w <- got$worker
  if (isTRUE(got$dead)) {
    pool$alive[[w]] <- FALSE
    return(list(cluster_death(pool, w)))
  }
  if (!is.null(got$failed)) {
    cluster_cannot(pool, w, got$failed)
    return(NULL)
  }
  lapply(got$records, function(record) cluster_event(pool, w, record))
}

# A node that cannot begin the run: what it was given goes to the others.
cluster_cannot <- function(pool, w, why) {
  pool$alive[[w]] <- FALSE
  pool$queue <- c(pool$batch[[w]], cluster_queue(pool))
  pool$batch[[w]] <- numeric()
  cluster_lacks(pool, sprintf("node %s: %s", format_wire(pool$wires[[w]]), why))
}

# A record of a worker as an event; see R/executor.R. The names are those of rg_record_type and of
# rg_condition_kind.
cluster_event <- function(pool, w, record) {
  kinds <- c("message", "warning", "condition")
  index <- record$index
  type <- cluster_record_types[[record$type]]
  if (type %in% c("values", "error")) {
    cluster_settle(pool, w, record)
  }
  decoded <- function() .Call(ffi_cluster_decode, record$payload, pool$plan$control$copy)
  switch(type,
    values = list(type = type, index = index, values = list(decoded())),
    error = list(
      type = type, index = index, try = record$try, pid = pool$wires[[w]]$facts$pid, worker = w,
      record = decoded()
    ),
    condition = list(type = type, index = index, kind = kinds[[record$kind + 1L]], cnd = decoded()),
    suppressed = list(
      type = type, index = index, kind = kinds[[record$kind + 1L]],
      count = .Call(ffi_cluster_count, record$payload)
    ),
    output = list(
      type = type, index = index, stream = c("stdout", "stderr")[[record$kind + 1L]],
      text = record$payload
    )
  )
}

cluster_record_types <- c("values", "error", "condition", "suppressed", "output")

cluster_settle <- function(pool, w, record) {
  left <- pool$batch[[w]]
  pool$batch[[w]] <- left[left != record$index]
  pool$spent[[w]] <- pool$spent[[w]] + diff(record$times)
  times <- record$times - pool$wires[[w]]$facts$ahead
  cluster_note(pool, w, record$index, record$try, times, length(record$payload))
}

cluster_note <- function(pool, w, index, try, times, bytes = 0) {
  task_set(pool$tasks, "worker", index, w)
  task_set(pool$tasks, "tries", index, try)
  task_set(pool$tasks, "start", index, times[[1L]])
  task_set(pool$tasks, "end", index, times[[2L]])
  task_set(pool$tasks, "bytes", index, bytes)
}

# A node that has ended. The element that it ran is lost; what it had not begun goes to
# others.
cluster_death <- function(pool, w) {
  left <- pool$batch[[w]]
  running <- cluster_running(pool)
  current <- running$element[[w]]
  lost <- if (current %in% left) current else NA_real_
  pool$batch[[w]] <- numeric()
  pool$queue <- c(setdiff(left, lost), cluster_queue(pool))
  try <- 0L
  if (!is.na(lost)) {
    try <- pool$tasks$tries[[lost]] + 1L
    now <- .Call(ffi_clock)
    cluster_note(pool, w, lost, try, c(now - running$seconds[[w]], now))
  }
  list(
    type = "death", worker = w, pid = pool_pids(pool)[[w]], index = lost, try = try,
    signal = NA_integer_, status = NA_integer_, peak = NA_real_,
    oom = .Call(ffi_memory_oom_kills), backtrace = ""
  )
}

# What each worker runs now. A node elsewhere sends a record when an element ends: the next one of its
# batch has begun then.
cluster_running <- function(pool) {
  pids <- pool_pids(pool)
  now <- c(list(pid = ifelse(pool$alive, pids, 0L)),
    .Call(ffi_cluster_slots_running, pool$slots, pids)
  )
  far <- !vapply(pool$wires, is_local, NA)
  for (w in which(far & lengths(pool$batch) > 0L)) {
    now$element[[w]] <- pool$batch[[w]][[1L]]
    now$seconds[[w]] <- .Call(ffi_clock) - pool$wires[[w]]$told
  }
  pool$seen <- now$element
  now
}

# Gives each idle worker its next batch: one element at first, later as many as take about 10 ms.
cluster_feed <- function(pool) {
  for (w in utils::head(which(pool$alive), pool$active)) {
    left <- length(pool$queue) - pool$taken
    if (left == 0) {
      break
    }
    if (is.null(pool$wires[[w]]$busy) && length(pool$wires[[w]]$news[[pool$token]]) == 0L) {
      cluster_hand_out(pool, w, left)
    }
  }
}

cluster_hand_out <- function(pool, w, left) {
  wire <- pool$wires[[w]]
  pool$size[[w]] <- cluster_batch_size(pool, w, left)
  elements <- pool$queue[pool$taken + seq_len(pool$size[[w]])]
  tries <- pool$tasks$tries[elements] + 1L
  # The code goes with the first batch, and again where another run has used the node meanwhile.
  begin <- if (!identical(wire$job, pool$token)) {
    near <- is_local(wire)
    list(
      bytes = pool$packed[[if (near) "near" else "far"]]$bytes,
      slots = if (near) pool$slots, number = w
    )
  }
  pool$taken <- pool$taken + length(elements)
  pool$batch[[w]] <- elements
  pool$spent[[w]] <- 0
  wire$job <- pool$token
  wire$slots <- pool$slots
  cluster_send(
    pool, w, "cluster_worker_batch", list(as.double(elements), tries, pool$token, begin)
  )
}

# What has not been handed out; it is the queue from now on.
cluster_queue <- function(pool) {
  left <- if (pool$taken > 0) pool$queue[-seq_len(pool$taken)] else pool$queue
  pool$taken <- 0
  left
}

cluster_batch_size <- function(pool, w, left) {
  fixed <- pool$plan$control$batch
  before <- pool$size[[w]]
  if (!is.null(fixed) || before == 0L) {
    return(min(left, max(1, fixed)))
  }
  # What the elements themselves took: while the machine is busy the way there and back takes longer,
  # and the more of it is to be saved.
  each <- pool$spent[[w]] / before
  fair <- ceiling(left / (2 * max(1, pool$active)))
  as.integer(max(1, min(0.01 / max(each, 1e-6), 4 * before, fair, 1024)))
}

# `how` as in R/executor.R; only what runs on this machine can be reached.
cluster_signal <- function(pool, w, how) {
  wire <- pool$wires[[w]]
  if (!pool$alive[[w]] || !is_local(wire) || is.null(wire$pointer)) {
    return(FALSE)
  }
  if (how == 1L) {
    # As the driver has seen it: another one may have begun since.
    return(.Call(ffi_cluster_slots_interrupt, pool$slots, w, pool$seen[[w]], wire$facts$pid))
  }
  number <- if (how < 0L) -how else c(NA, signals_of("SIGTERM"), signals_of("SIGKILL"))[[how]]
  .Call(ffi_cluster_wire_signal, wire$pointer, number)
}

# Leaves the nodes ready for whoever uses the cluster next: elements under way are interrupted, and
# their replies read. It takes no longer than cluster_patience says, so that interrupts can wait.
cluster_stop <- function(pool) {
  if (!pool$stopped && pool$session == Sys.getpid()) {
    suspendInterrupts({
      pool$stopped <- TRUE
      mine <- Filter(function(wire) !is.null(wire$pointer), pool$wires)
      for (w in seq_along(pool$wires)) {
        wire <- pool$wires[[w]]
        if (identical(wire$busy, pool$token) && is_local(wire) && !is.null(wire$slots)) {
          .Call(ffi_cluster_slots_interrupt, wire$slots, w, -1, wire$facts$pid)
        }
      }
      wires_recall(mine, pool$token)
      if (!pool$sockets) cluster_part(pool)
      pool$packed <- NULL
      pool$slots <- NULL
    })
  }
  rep(NA_real_, length(pool$wires))
}

# Without sockets there is no message that nobody answers.
cluster_part <- function(pool) {
  settle <- function() {
    while (any(vapply(pool$wires, function(wire) !is.null(wire$busy), NA))) cluster_await(pool)
  }
  settle()
  for (w in which(pool$alive)) {
    if (!is.null(pool$wires[[w]]$job)) {
      cluster_send(pool, w, "cluster_worker_end", list(pool$token))
    }
  }
  settle()
}
