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
  list(
    kind = "cluster",
    advice = "Look at the nodes of the cluster; one that is out of service needs another cluster.",
    start = function(workers, places) cluster_start(pool, workers),
    poll = function(timeout) cluster_poll(pool, timeout),
    admit = function(worker, share) {
      pool$share[[worker]] <- share
      cluster_tell(pool, list(type = "ready", worker = worker))
    },
    give = function(worker, elements, tries) cluster_give(pool, worker, elements, tries),
    withdraw = function(first) pool$ending <- TRUE, # nothing waits here
    running = function() cluster_running(pool),
    interrupt = function(worker, element) {
      wire <- pool$wires[[worker]]
      is_local(wire) && wire_interrupt(wire, element)
    },
    signal = function(worker, number) cluster_signal(pool, worker, number),
    measure = function(worker, what) {
      wire <- pool$wires[[worker]]
      if (is_local(wire)) measure_here(wire$facts$pid, what) else if (what == "oom_kills") -1 else NA_real_
    },
    guard = function(code) cluster_guard(pool, code),
    stop = function() {
      cluster_stop(pool)
      list(worker = integer(), peak = numeric())
    }
  )
}

# pool$wires has the node of each worker by the number of the worker; pool$spare those that the run does not use;
# pool$greeted the workers that are to join in the middle of the run and have not said yet who they are; pool$failed by
# the number of the worker why it does not.
cluster_pool <- function(on, plan) {
  pool <- new.env(parent = emptyenv())
  pool$plan <- plan
  pool$cluster <- on
  wires <- cluster_wires(unclass(on))
  pool$sockets <- all(vapply(wires, function(wire) !is.null(wire$pointer) || !is.null(wire$out), NA))
  if (pool$sockets) wires <- wires[order(vapply(wires, wire_rank, 1L))]
  first <- seq_len(plan$workers)
  pool$wires <- wires[first]
  pool$spare <- if (pool$sockets) wires[-first]
  # Where nobody says which process a node is, one that the run does not use may be what another was.
  pool$wanders <- !pool$sockets && length(wires) > plan$workers
  pool$session <- Sys.getpid()
  pool$token <- paste(Sys.getpid(), format(.Call(ffi_clock), digits = 15))
  pool$alive <- rep(TRUE, plan$workers)
  pool$greeted <- integer()
  pool$share <- rep(plan$share, plan$workers)
  pool$events <- list() # that have not come from a node
  pool$stopped <- FALSE
  pool$ending <- FALSE
  # Dropped before its end: a stream, a call.
  reg.finalizer(pool, pool_abandoned)
  pool
}

cluster_tell <- function(pool, event) {
  pool$events[[length(pool$events) + 1L]] <- event
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

# Of a cluster without sockets what comes from any node is for the one run that has it.
cluster_engage <- function(pool) {
  taken <- vapply(pool$wires, function(wire) rlang::obj_address(wire$node), "")
  engaged <- function() Filter(function(run) any(taken %in% run$nodes), the$engaged)
  if (length(engaged()) > 0L) forgotten_end()
  others <- engaged()
  if (length(others) > 0L) {
    runs <- lapply(others, `[[`, "busy")
    signal_error(error_start(
      length(pool$wires), reason_busy(runs), busy_words(runs, "advice"), call = pool$plan$call
    ))
  }
  awaited <- pool$plan$awaited
  the$engaged[[pool$token]] <- list(nodes = taken, busy = if (is.null(awaited)) busy_usual else awaited)
}

# A worker that takes the place of another is a node that the run has not used, if there is one.
cluster_start <- function(pool, workers) {
  if (is.null(pool$slots)) {
    if (!pool$sockets) cluster_engage(pool)
    pool$slots <- .Call(ffi_cluster_slots_new, length(pool$wires) + length(pool$spare), shm_limit())
  }
  if (!is.null(pool$packed)) {
    return(cluster_replace(pool, workers))
  }
  cluster_choose(pool, workers)
  for (w in workers) cluster_join(pool, w)
  # At once, though the nodes may be busy for long: what is sent is as it was at the time of the call.
  cluster_prepare(pool)
}

cluster_join <- function(pool, w) {
  wire <- pool$wires[[w]]
  unfit <- cluster_unfit(pool, w)
  pool$alive[[w]] <- is.null(unfit)
  cluster_tell(pool, if (is.null(unfit)) {
    facts <- wire$facts
    event_joined(
      w, facts$pid, host = if (facts$local) NA_character_ else wire$host, shares = facts$local,
      watched = facts$local && pool$sockets, cores = facts$cores
    )
  } else {
    event_not_started(w, sprintf("node %s: %s", format_wire(wire), unfit))
  })
}

# In the middle of a run nobody is waited for: who the new node is comes with what others have to tell.
cluster_replace <- function(pool, workers) {
  for (w in workers) {
    wire <- cluster_spare(pool)
    if (is.null(wire)) {
      cluster_tell(pool, event_not_started(w, NULL))
    } else {
      cluster_seat(pool, w, wire)
    }
  }
  cluster_greet(pool)
}

cluster_seat <- function(pool, w, wire) {
  pool$wires[[w]] <- wire
  pool$failed[w] <- list(NULL)
  pool$alive[[w]] <- FALSE
  pool$greeted <- union(pool$greeted, w)
  if (!is.null(wire$facts)) wires_wait(list(wire), 0) # it may have died since it was last used
}

# Of pool$greeted those join that have said who they are, or had said so before; those that cannot take part, or do not
# answer, make room for others.
cluster_greet <- function(pool) {
  while (length(pool$greeted) > 0L) {
    cluster_hello(pool, Filter(function(w) cluster_is_new(pool, w), pool$greeted))
    for (w in pool$greeted) cluster_hear(pool, w)
    waiting <- Filter(function(w) !is.null(pool$wires[[w]]$asked), pool$greeted)
    late <- Filter(function(w) cluster_hello_left(pool, w) <= 0, waiting)
    for (w in late) cluster_late(pool, w)
    settled <- setdiff(pool$greeted, setdiff(waiting, late))
    if (length(settled) == 0L) break
    pool$greeted <- setdiff(pool$greeted, settled)
    for (w in settled) {
      other <- if (!is.null(cluster_unfit(pool, w))) cluster_spare(pool)
      if (is.null(other)) cluster_join(pool, w) else cluster_seat(pool, w, other)
    }
  }
}

# The next node for a worker, which the run has then; NULL if there is none.
cluster_spare <- function(pool) {
  spare <- Filter(function(wire) is.null(wire$out), pool$spare)
  if (length(spare) == 0L) {
    return(NULL)
  }
  best <- which.min(vapply(spare, wire_rank, 1L))
  pool$spare <- spare[-best]
  spare[[best]]
}

# A node that can take part in no run, or has died since it was last used, makes room for one that the run has not used.
cluster_choose <- function(pool, workers) {
  repeat {
    cluster_meet(pool, workers)
    if (pool$sockets) wires_wait(Filter(function(wire) wire_rank(wire) == 0L, pool$wires[workers]), 0)
    changed <- FALSE
    for (w in workers) {
      other <- if (!is.null(cluster_unfit(pool, w))) cluster_spare(pool)
      if (!is.null(other)) {
        pool$wires[[w]] <- other
        changed <- TRUE
      }
    }
    if (!changed) break
  }
}

# Who the nodes are, asked once. One that has not answered in time is asked nothing else: its answer is taken when it
# comes, by a later run, so that the node stays in step however late it is.
cluster_meet <- function(pool, workers) {
  pool$failed <- vector("list", length(pool$wires))
  new <- Filter(function(w) is.null(pool$wires[[w]]$facts) && is.null(pool$wires[[w]]$out), workers)
  if (length(new) == 0L) {
    return(invisible())
  }
  cluster_hello(pool, Filter(function(w) cluster_is_new(pool, w), new))
  if (pool$sockets) wires_wait(pool$wires[new], 0) # the answer to an earlier run
  begun <- .Call(ffi_clock)
  heard <- if (any(vapply(pool$wires, function(wire) !is.null(wire$facts) && is.null(wire$out), NA))) -Inf
  repeat {
    for (w in new) if (cluster_hear(pool, w)) heard <- .Call(ffi_clock)
    waiting <- Filter(function(w) !is.null(pool$wires[[w]]$asked), new)
    left <- cluster_hello_left(pool, waiting, begun, heard)
    if (length(waiting) == 0L || left <= 0) break
    if (pool$sockets) {
      wires_wait(pool$wires[waiting], min(left, 1))
    } else {
      cluster_await(pool, pool$wires[[waiting[[1L]]]]$asked$token)
    }
  }
  for (w in waiting) cluster_late(pool, w)
}

# Nobody knows who it is, and nobody has asked.
cluster_is_new <- function(pool, w) {
  wire <- pool$wires[[w]]
  is.null(wire$facts) && is.null(wire$asked) && is.null(wire$out) && is.null(pool$failed[[w]])
}

# TRUE if it has answered now.
cluster_hear <- function(pool, w) {
  heard <- FALSE
  for (got in cluster_news(pool, w, pool$wires[[w]]$asked$token)) {
    cluster_met(pool, w, got)
    heard <- heard || !is.null(got$reply)
  }
  heard
}

cluster_late <- function(pool, w) {
  pool$failed[[w]] <- sprintf(
    "it has not said who it is within %s: it is at something else, was stopped, or cannot be reached",
    format_seconds(.Call(ffi_clock) - pool$wires[[w]]$asked$at)
  )
}

cluster_hello <- function(pool, new) {
  if (length(new) == 0L) {
    return(invisible())
  }
  # To be kept until the nodes have read it.
  shared <- shm_share(charToRaw(pool$token), min = 0)
  probe <- send_handles(TRUE, serialize(shared, NULL, xdr = FALSE))
  token <- paste(pool$token, "hello")
  for (w in new) {
    pool$wires[[w]]$asked <- list(token = token, at = .Call(ffi_clock), shared = shared)
    cluster_send(pool, w, "cluster_worker_hello", list(probe, pool$token), token)
  }
}

# Seconds for which the nodes `waiting` are still waited for. `heard` is when one of the others has answered, -Inf if
# that was in an earlier run, or long ago, NULL if none has. A cluster without sockets can only be waited for.
cluster_hello_left <- function(pool, waiting, begun = NULL, heard = -Inf) {
  if (length(waiting) == 0L || !pool$sockets) {
    return(Inf)
  }
  until <- if (is.null(heard)) {
    begun + cluster_hello_seconds[["first"]]
  } else {
    asked <- vapply(pool$wires[waiting], function(wire) wire$asked$at, 0)
    max(asked, heard) + cluster_hello_seconds[["rest"]]
  }
  until - .Call(ffi_clock)
}

# How long the first answer of a cluster may take, a package to be loaded by nodes that are busy, and how long after
# one the others are waited for.
cluster_hello_seconds <- c(first = 60, rest = 10)

cluster_met <- function(pool, w, got) {
  wire <- pool$wires[[w]]
  wire$asked <- NULL
  if (!is.null(got$reply)) {
    facts <- got$reply$value
    facts$ahead <- if (facts$local) 0 else facts$clock - wire$told
    wire$base <- settings_base()
    # The session may have gone elsewhere since it has started the node.
    if (!is.null(facts$dir)) wire$base$settings$dir <- facts$dir
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

# Why a node can take part in no run; NULL if it can.
cluster_unfit <- function(pool, w) {
  wire <- pool$wires[[w]]
  facts <- wire$facts
  if (!is.null(wire$out)) {
    paste("it is out of service:", wire$out)
  } else if (is.null(facts)) {
    pool$failed[[w]]
  } else if (!identical(facts$version, regatta_version())) {
    sprintf("it has regatta %s, this session %s", facts$version, regatta_version())
  } else if (!identical(facts$endian, .Platform$endian)) {
    "it has numbers in another order of bytes"
  } else if (!is.null(pool$packed) && is.null(pool$packed[[cluster_nearness(wire)]])) {
    others <- if (is_local(wire)) "elsewhere" else "of this machine"
    sprintf("what the call needs was made ready for nodes %s alone", others)
  }
}

# Which of pool$packed a node is sent.
cluster_nearness <- function(wire) if (is_local(wire)) "near" else "far"

# What is the same for all elements of a run.
cluster_prepare <- function(pool) {
  plan <- pool$plan
  job <- job_of(plan)
  local <- vapply(pool$wires, is_local, NA)
  pool$settings <- settings_take(whole = FALSE)
  pool$packed <- lapply(c(near = TRUE, far = FALSE), function(near) {
    if (any(pool$alive & local == near)) {
      job_closure(job, plan$replay, if (near) share_from(plan$control) else Inf, near)
    }
  })
}

cluster_poll <- function(pool, timeout) {
  if (length(pool$events) == 0L) {
    for (one in cluster_receive(pool, min(timeout, cluster_hello_left(pool, pool$greeted)))) {
      for (event in cluster_take(pool, one)) cluster_tell(pool, event)
    }
    cluster_greet(pool)
  }
  events <- join_ends(pool$events)
  pool$events <- list()
  events
}

cluster_take <- function(pool, got) {
  w <- got$worker
  if (isTRUE(got$dead)) {
    return(list(cluster_left(pool, w)))
  }
  if (!is.null(got$failed)) {
    # It cannot begin the run.
    pool$alive[[w]] <- FALSE
    reason <- sprintf("node %s: %s", format_wire(pool$wires[[w]]), got$failed)
    return(list(event_not_started(w, reason)))
  }
  lapply(got$records, function(record) cluster_event(pool, w, record))
}

cluster_event <- function(pool, w, record) {
  decoded <- function(payload) .Call(ffi_cluster_decode, payload, pool$plan$control$copy)
  event <- evaluate_event(
    w, record$type, record$index, record$try, record$kind,
    record$times - pool$wires[[w]]$facts$ahead, record$payload, decoded
  )
  if (event$type == "suppressed") event$count <- .Call(ffi_cluster_count, record$payload)
  event
}

# A node that has ended. Of one on this machine it can be seen what it ran, or what it had run before: that is lost
# with it if its end was not told, and may be what has ended the node, as by closing the connection.
cluster_left <- function(pool, w) {
  pool$alive[[w]] <- FALSE
  left <- event_left(w, oom = if (is_local(pool$wires[[w]])) .Call(ffi_memory_oom_kills) else -1)
  if (is_local(pool$wires[[w]])) {
    now <- .Call(ffi_cluster_slots_running, pool$slots, pool_pids(pool))
    current <- now$element[[w]]
    begun <- if (current > 0) current else now$last[[w]]
    begun <- begun[begun > 0]
    left$index <- begun
    left$start <- rep(.Call(ffi_clock) - now$seconds[[w]], length(begun))
  }
  left
}

# What each worker of this machine runs now.
cluster_running <- function(pool) {
  now <- .Call(ffi_cluster_slots_running, pool$slots, pool_pids(pool))
  watched <- which(pool$alive & vapply(pool$wires, is_local, NA))
  c(list(worker = watched), lapply(now, `[`, watched))
}

# FALSE if the node is at a batch of another run.
cluster_give <- function(pool, w, elements, tries) {
  wire <- pool$wires[[w]]
  if (!is.null(wire$busy) || length(wire$news[[pool$token]]) > 0L) {
    return(FALSE)
  }
  # The code goes with the first batch, and again where another run has used the node meanwhile.
  begin <- if (!identical(wire$job, pool$token)) {
    near <- is_local(wire)
    list(
      bytes = pool$packed[[cluster_nearness(wire)]]$bytes,
      slots = if (near) pool$slots, number = w, share = pool$share[[w]],
      settings = settings_since(wire$base, near, pool$settings),
      mark = wire_mark(wire, pool$token), alone = pool$wanders
    )
  }
  wire$job <- if (!pool$wanders) pool$token
  wire$slots <- pool$slots
  wire$worker <- w
  cluster_send(
    pool, w, "cluster_worker_batch", list(as.double(elements), tries, pool$token, begin)
  )
  TRUE
}

# Only what runs on this machine can be reached. A node that is asked to end has not heard an interrupt: it is heard
# once more before the node, which nobody replaces, is killed.
cluster_signal <- function(pool, w, number) {
  wire <- pool$wires[[w]]
  if (!pool$alive[[w]] || !is_local(wire) || is.null(wire$pointer)) {
    return(FALSE)
  }
  if (number != signals_of("SIGTERM")) {
    return(.Call(ffi_cluster_wire_signal, wire$pointer, number))
  }
  wire_free(wire)
  wire_interrupt(wire, .Call(ffi_cluster_slots_running, pool$slots, pool_pids(pool))$element[[w]])
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
        if (identical(wire$busy, pool$token) && is_local(wire) && !is.null(wire$slots)) wire_interrupt(wire, -1)
      }
      wires_recall(mine, pool$token)
      if (!pool$sockets) {
        cluster_part(pool)
        the$engaged[[pool$token]] <- NULL
      }
      pool$packed <- NULL
      pool$slots <- NULL
    })
  }
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
