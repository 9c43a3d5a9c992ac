# The nodes of a cluster of `parallel` as workers, made by makeCluster() or by another package. Each
# is sent what the run needs, once, and then batches of elements (R/executor-cluster-messages.R is the
# way there, R/executor-cluster-worker.R the other end). Nodes of this machine share memory with the
# session: large objects go by handle, and what a node does can be watched and interrupted. Of nodes
# elsewhere only messages are known.
#
# A cluster outlives its runs. Replies carry the token of their run: what an abandoned one left
# unread is recognised and dropped.

new_executor.cluster <- function(on, plan) {
  pool <- cluster_pool(on, plan)
  list(
    kind = "cluster",
    start = function() cluster_start(pool),
    submit = function(indices) pool$queue <- c(cluster_queue(pool), indices),
    poll = function(timeout) cluster_poll(pool, timeout),
    running = function() cluster_running(pool),
    signal = function(w, how) cluster_signal(pool, w, how),
    respawn = function(w) NA_integer_,
    withdraw = function(first) {
      left <- cluster_queue(pool)
      pool$queue <- left[left <= first]
    },
    limit = function(active) pool$active <- active,
    tasks = function() task_rows(pool$tasks),
    task = function(index) task_rows(pool$tasks, index),
    guard = function(code) code,
    stop = function() cluster_stop(pool)
  )
}

# Nodes are numbered as workers are: w-th node, w-th worker.
cluster_pool <- function(on, plan) {
  pool <- new.env(parent = emptyenv())
  pool$plan <- plan
  pool$cluster <- on
  pool$nodes <- unclass(on)[seq_len(plan$workers)]
  if (all(vapply(pool$nodes, inherits, NA, c("SOCKnode", "SOCK0node")))) {
    pool$connections <- lapply(pool$nodes, `[[`, "con") # NULL: a cluster without sockets
  }
  pool$token <- paste(Sys.getpid(), format(.Call(ffi_clock), digits = 15))
  pool$tasks <- task_table(plan$n)
  pool$queue <- numeric() # `taken` of them have been handed out
  pool$taken <- 0
  pool$active <- plan$workers
  pool$alive <- rep(TRUE, plan$workers)
  pool$gone <- logical(plan$workers) # could not be sent anything
  pool$busy <- logical(plan$workers)
  pool$pid <- rep(NA_integer_, plan$workers)
  pool$local <- logical(plan$workers)
  pool$ahead <- numeric(plan$workers) # of a node's clock, seconds
  pool$batch <- rep(list(numeric()), plan$workers) # elements sent and not yet settled
  pool$seen <- numeric(plan$workers) # what a worker ran when it was last looked at
  pool$size <- integer(plan$workers) # of the last batch, and when it was sent
  pool$sent <- numeric(plan$workers)
  pool$told <- numeric(plan$workers) # when a node was last heard of
  pool
}

cluster_start <- function(pool) {
  plan <- pool$plan
  pool$slots <- .Call(ffi_cluster_slots_new, plan$workers, shm_limit())
  reasons <- cluster_meet(pool)
  reasons <- c(reasons, cluster_prepare(pool))
  started <- sum(pool$alive)
  if (started == 0L) {
    signal_error(error_start(plan$workers, reasons[[1L]], "Look at the nodes of the cluster."))
  }
  if (started < plan$workers) {
    warning(warning_workers(started, plan$workers, reasons[[1L]]))
  }
  ifelse(pool$alive, pool$pid, NA_integer_)
}

# Who the nodes are; returns why some cannot be used.
cluster_meet <- function(pool) {
  shared <- shm_share(charToRaw(pool$token), min = 0) # to be kept until the nodes have read it
  probe <- send_handles(TRUE, serialize(shared, NULL, xdr = FALSE))
  send_at_once(pool$connections)
  for (w in which(pool$alive)) {
    cluster_send(pool, w, "cluster_worker_hello", list(probe, pool$token))
  }
  replies <- cluster_replies(pool)
  for (w in which(vapply(replies, is.list, NA))) {
    reply <- replies[[w]]
    pool$pid[[w]] <- reply$pid
    pool$local[[w]] <- reply$local
    pool$ahead[[w]] <- if (reply$local) 0 else reply$clock - pool$told[[w]]
    unfit <- cluster_unfit(pool, reply)
    if (!is.null(unfit)) {
      replies[[w]] <- unfit
      pool$alive[[w]] <- FALSE
    }
  }
  cluster_reasons(pool, replies)
}

# Why a node cannot take part in this run; NULL if it can.
cluster_unfit <- function(pool, reply) {
  limited <- pool$plan$limited
  near <- if (is.null(pool$plan$near) && limited) "a limit of time or memory" else pool$plan$near
  if (!identical(reply$version, regatta_version())) {
    sprintf("it has regatta %s, this session %s", reply$version, regatta_version())
  } else if (!identical(reply$endian, .Platform$endian)) {
    "it has numbers in another order of bytes"
  } else if (!reply$local && !is.null(near)) {
    paste0("it shares no memory with this session, which ", near, " needs")
  } else if (limited && is.null(pool$connections)) {
    "its cluster has no sockets, which a limit of time or memory needs to be watched"
  }
}

# What is the same for all elements of a run, sent once.
cluster_prepare <- function(pool) {
  plan <- pool$plan
  globals <- globals_of(code_of(plan$replay), plan$replay$env)
  job <- list(
    loop = plan$loop, control = plan$control, seed = plan$seed, share = plan$share,
    variables = globals$variables, packages = globals$packages
  )
  pool$packed <- lapply(c(near = TRUE, far = FALSE), function(near) {
    if (any(pool$alive & pool$local == near)) {
      min <- if (near && plan$control$shm) plan$control$share_min else Inf
      send_handles(near, closure_pack(job, min))
    }
  })
  for (w in which(pool$alive)) {
    near <- pool$local[[w]]
    cluster_send(pool, w, "cluster_worker_begin", list(
      pool$packed[[if (near) "near" else "far"]]$bytes, if (near) pool$slots, w, pool$token
    ))
  }
  cluster_reasons(pool, cluster_replies(pool))
}

cluster_reasons <- function(pool, replies) {
  bad <- which(vapply(replies, is.character, NA))
  sprintf("worker %d (%s): %s", bad, format_node(pool, bad), unlist(replies[bad]))
}

format_node <- function(pool, w) {
  vapply(pool$nodes[w], function(node) {
    if (is.list(node) && is.character(node$host)) node$host else class(node)[[1L]]
  }, "")
}

# Waits for all busy nodes: for each worker the value that it has replied with, or as text why it
# cannot; such a node is not used.
cluster_replies <- function(pool) {
  replies <- vector("list", length(pool$nodes))
  while (any(pool$busy)) {
    for (got in cluster_receive(pool, 1)) {
      if (!is.null(got$failed)) pool$alive[[got$worker]] <- FALSE
      replies[got$worker] <- list(if (is.null(got$failed)) got$reply$value else got$failed)
    }
  }
  replies
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
    return(list(cluster_death(pool, w)))
  }
  if (!is.null(got$failed)) {
    signal_error(error_start(
      length(pool$nodes), sprintf("worker %d failed: %s", w, got$failed),
      "Look at the nodes of the cluster."
    ))
  }
  lapply(got$reply$records, function(record) cluster_event(pool, w, record))
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
      type = type, index = index, try = record$try, pid = pool$pid[[w]], worker = w,
      record = decoded()
    ),
    condition = list(type = type, index = index, kind = kinds[[record$kind + 1L]], cnd = decoded()),
    suppressed = list(
      type = type, index = index, kind = kinds[[record$kind + 1L]],
      count = record$payload
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
  times <- record$times - pool$ahead[[w]]
  cluster_note(pool, w, record$index, record$try, times, length(record$payload))
}

cluster_note <- function(pool, w, index, try, times, bytes = 0) {
  task_set(pool$tasks, "worker", index, w)
  task_set(pool$tasks, "tries", index, try)
  task_set(pool$tasks, "start", index, times[[1L]])
  task_set(pool$tasks, "end", index, times[[2L]])
  task_set(pool$tasks, "bytes", index, bytes)
}

# A node whose connection has closed. The element that it ran is lost; what it had not begun goes to
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
    type = "death", worker = w, pid = pool$pid[[w]], index = lost, try = try,
    signal = NA_integer_, status = NA_integer_, peak = NA_real_,
    oom = .Call(ffi_memory_oom_kills), backtrace = ""
  )
}

# What each worker runs now. A node elsewhere sends a record when an element ends: the next one of its
# batch has begun then.
cluster_running <- function(pool) {
  now <- c(list(pid = ifelse(pool$alive, pool$pid, 0L)),
    .Call(ffi_cluster_slots_running, pool$slots, pool$pid)
  )
  for (w in which(!pool$local & lengths(pool$batch) > 0L)) {
    now$element[[w]] <- pool$batch[[w]][[1L]]
    now$seconds[[w]] <- .Call(ffi_clock) - pool$told[[w]]
  }
  pool$seen <- now$element
  now
}

# Gives each idle worker its next batch: one element at first, later as many as take about 10 ms.
cluster_feed <- function(pool) {
  allowed <- utils::head(which(pool$alive), pool$active)
  for (w in allowed[!pool$busy[allowed]]) {
    left <- length(pool$queue) - pool$taken
    if (left == 0) {
      break
    }
    pool$size[[w]] <- cluster_batch_size(pool, w, left)
    elements <- pool$queue[pool$taken + seq_len(pool$size[[w]])]
    pool$taken <- pool$taken + length(elements)
    pool$batch[[w]] <- elements
    tries <- pool$tasks$tries[elements] + 1L
    cluster_send(pool, w, "cluster_worker_batch", list(as.double(elements), tries, pool$token))
  }
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
  each <- (pool$told[[w]] - pool$sent[[w]]) / before
  fair <- ceiling(left / (2 * max(1, pool$active)))
  as.integer(max(1, min(0.01 / max(each, 1e-6), 4 * before, fair, 1024)))
}

# `how` as in R/executor.R; only what runs on this machine can be reached.
cluster_signal <- function(pool, w, how) {
  if (!pool$alive[[w]] || !pool$local[[w]]) {
    return(FALSE)
  }
  pid <- pool$pid[[w]]
  if (how == 1L) {
    # As the driver has seen it: another one may have begun since.
    return(.Call(ffi_cluster_slots_interrupt, pool$slots, w, pool$seen[[w]], pid))
  }
  number <- if (how < 0L) -how else c(NA, signals_of("SIGTERM"), signals_of("SIGKILL"))[[how]]
  tools::pskill(pid, number)
}

# Leaves the nodes ready for whoever uses the cluster next: elements under way are interrupted, or
# where that cannot be done waited for, and their replies read.
cluster_stop <- function(pool) {
  for (w in which(pool$alive & pool$busy & pool$local)) {
    .Call(ffi_cluster_slots_interrupt, pool$slots, w, -1, pool$pid[[w]])
  }
  cluster_replies(pool)
  for (w in which(pool$alive)) {
    cluster_send(pool, w, "cluster_worker_end", list(pool$token))
  }
  cluster_replies(pool)
  pool$packed <- NULL
  pool$slots <- NULL
  rep(NA_real_, length(pool$nodes))
}
