# Clusters whose nodes have come by R/executor-remote-node.R: how they are recruited, and how package
# parallel talks to them. `pool` is what the nodes of a cluster have in common: how they were launched,
# the address that is listened at until they are there, and who was turned away.

# `launches`: what was started, each list(numbers, host, pid file, log), see R/executor-remote-launch.R.
remote_pool <- function(n, address = "127.0.0.1", deadline = 20) {
  pool <- new.env(parent = emptyenv())
  pool$pid <- Sys.getpid()
  pool$n <- n
  pool$deadline <- deadline
  pool$key <- link_secret()
  pool$server <- socket_server(host = address)
  pool$port <- socket_port(pool$server)
  pool$gate <- .Call(ffi_gate_new, pool$server, pool$key, n, remote_handshake_seconds)
  pool$links <- list() # of those that have proved themselves and not yet said who they are
  pool$nodes <- list()
  pool$refused <- character()
  pool$launches <- list()
  reg.finalizer(pool, remote_forget, onexit = TRUE)
  pool
}

remote_handshake_seconds <- 5

# The first line of a node; `number` is a number or names a variable, as node_number() reads it.
remote_line <- function(pool, hosts, port, number, seconds) {
  paste(
    paste(hosts, collapse = ","), port, number, paste(format(pool$key), collapse = ""), ceiling(seconds),
    pool$deadline
  )
}

# Until all nodes are there, or `seconds` are over, or nobody is left who could come.
remote_recruit <- function(pool, seconds) {
  until <- .Call(ffi_clock) + seconds
  while (length(pool$nodes) < pool$n) {
    remote_admit(pool)
    left <- until - .Call(ffi_clock)
    if (left <= 0 || remote_is_hopeless(pool)) {
      break
    }
    .Call(ffi_link_wait, pool$gate, min(left, 0.25))
  }
  # Nobody is let in any more, and nothing is listened at.
  .Call(ffi_gate_close, pool$gate)
  close(pool$server)
  for (link in pool$links) .Call(ffi_link_close, link$link, 0)
  pool$links <- list()
  pool$key <- NULL
  pool$nodes <- pool$nodes[order(vapply(pool$nodes, `[[`, 0, "number"))]
}

remote_admit <- function(pool) {
  for (event in link_done(.Call(ffi_gate_step, pool$gate, link_settings(pool$deadline)), "let nodes in")) {
    if (event$fate == "admitted") {
      pool$links[[length(pool$links) + 1L]] <- event
    } else if (length(pool$refused) < 1000L) {
      pool$refused <- c(pool$refused, sprintf("%s: %s", event$peer, remote_fates[[event$fate]]))
    }
  }
  waiting <- pool$links
  pool$links <- list()
  for (event in waiting) {
    message <- tryCatch(link_take(event$link), error = identity)
    if (is.null(message)) {
      pool$links[[length(pool$links) + 1L]] <- event
    } else if (inherits(message, "error")) {
      pool$refused <- c(pool$refused, sprintf("%s: %s", event$peer, conditionMessage(message)))
      .Call(ffi_link_close, event$link, 0)
    } else {
      remote_join(pool, event, message)
    }
  }
}

remote_fates <- c(
  late = "has not proved itself in time", crowded = "has not proved itself and had to make room",
  foreign = "speaks something else", wrong = "does not know the secret, or was let in already",
  ended = "has gone before it has proved itself", error = "could not be let in"
)

remote_join <- function(pool, event, message) {
  facts <- message$data
  fits <- identical(message$type, "JOIN") && typeof(facts) == "list" && !is.object(facts) &&
    is.character(facts$host) && is.integer(facts$pid) && identical(facts$version, regatta_version())
  if (!fits) {
    pool$refused <- c(pool$refused, sprintf("%s: it has another version of regatta", event$peer))
    .Call(ffi_link_close, event$link, 0)
    return(invisible())
  }
  node <- structure(
    list(
      link = event$link, number = event$number, host = facts$host, pid = facts$pid, r = facts$r,
      cores = facts$cores, rank = event$number + 1, pool = pool, joined = .Call(ffi_clock)
    ),
    class = "regatta_remote_node"
  )
  pool$nodes[[length(pool$nodes) + 1L]] <- node
}

# Every process that was to bring nodes has ended, and those that are missing have not come.
remote_is_hopeless <- function(pool) {
  length(pool$links) == 0L && length(pool$launches) > 0L &&
    !any(vapply(pool$launches, launch_is_running, NA))
}

# Listens, has `launch(pool)` start what brings the nodes, and waits for them: the cluster. An interrupt
# ends what was started.
remote_start <- function(n, address, deadline, timeout, min_workers, call, launch) {
  pool <- remote_pool(n, address, deadline)
  is_done <- FALSE
  on.exit(if (!is_done) remote_stop(pool$nodes, pool))
  pool$launches <- launch(pool)
  remote_recruit(pool, timeout)
  is_done <- TRUE
  remote_cluster(pool, min_workers, call)
}

# The cluster, with a warning for those that have not come; an error if they are fewer than `least`.
remote_cluster <- function(pool, least, call) {
  came <- length(pool$nodes)
  if (came < pool$n) {
    reason <- remote_reason(pool)
    if (came < least) {
      remote_stop(pool$nodes, pool)
      signal_error(error_start(pool$n, reason, remote_advice(pool), call = call))
    }
    warning(warning_workers(came, pool$n, reason))
  }
  structure(pool$nodes, class = c("regatta_remote", "regatta_cluster", "SOCKcluster", "cluster"))
}

remote_reason <- function(pool) {
  said <- unlist(lapply(pool$launches, launch_said))
  if (length(said) > 0L) paste(utils::tail(said, 5L), collapse = "; ") else "they have not come in time"
}

remote_advice <- function(pool) {
  refused <- utils::tail(pool$refused, 3L)
  paste(c(
    "Look whether the command that starts them works by itself, or raise `timeout`.",
    if (length(refused) > 0L) paste("Turned away:", paste(refused, collapse = "; "))
  ), collapse = " ")
}

remote_stop <- function(nodes, pool) {
  for (node in nodes) {
    try(link_send(node$link, list(type = "DONE")), silent = TRUE)
    .Call(ffi_link_close, node$link, 5)
  }
  remote_forget(pool)
  invisible()
}

# Launchers end when their nodes do; those whose nodes never came are ended.
remote_forget <- function(pool) {
  for (launch in pool$launches) launch_end(launch, gently = length(pool$nodes) > 0L)
  pool$launches <- list()
}

new_executor.regatta_remote <- function(on, plan) {
  links <- lapply(unclass(on), `[[`, "link")
  check_owner(unclass(on)[[1L]]$pool$pid, links[[1L]])
  closed <- !vapply(links, function(link) .Call(ffi_encode_is_foreign, link), NA)
  if (all(closed)) signal_error(error_stopped())
  new_executor.cluster(on, plan)
}

# What package parallel asks of a node.

sendData.regatta_remote_node <- function(node, data) {
  link_send(node$link, data)
}

recvData.regatta_remote_node <- function(node) {
  repeat {
    message <- link_take(node$link)
    if (!is.null(message)) {
      return(message)
    }
    .Call(ffi_link_wait, NULL, Inf)
  }
}

# Any node that has something: in turns, so that none is forgotten. A node that has gone is told once, by
# an error whose `node` is its place in `cl`; when all have gone there is nothing to wait for.
recvOneData.regatta_remote <- function(cl) {
  nodes <- unclass(cl)
  pool <- nodes[[1L]]$pool
  repeat {
    turn <- if (is.null(pool$turn)) 0L else pool$turn
    gone <- 0L
    for (i in (turn + seq_along(nodes) - 1L) %% length(nodes) + 1L) {
      node <- nodes[[i]]
      message <- tryCatch(link_take(node$link), error = identity)
      if (inherits(message, "error")) {
        gone <- gone + 1L
        if (!node$number %in% pool$lost || gone == length(nodes)) {
          pool$lost <- c(pool$lost, node$number)
          signal_error(error_node_lost(node, i, conditionMessage(message)))
        }
      } else if (!is.null(message)) {
        pool$turn <- i
        return(list(node = i, value = message))
      }
    }
    .Call(ffi_link_wait, NULL, Inf)
  }
}

closeNode.regatta_remote_node <- function(node) {
  .Call(ffi_link_close, node$link, 5)
  invisible()
}

stopCluster.regatta_remote <- function(cl = NULL) {
  if (length(cl) > 0L) remote_stop(unclass(cl), cl[[1L]]$pool)
  invisible()
}

format.regatta_remote <- function(x, ...) {
  hosts <- vapply(unclass(x), `[[`, "", "host")
  counts <- table(factor(hosts, unique(hosts)))
  sprintf("<cluster of %d nodes: %s>", length(hosts), paste(counts, "on", names(counts), collapse = ", "))
}

print.regatta_remote <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}

print.regatta_remote_node <- function(x, ...) {
  cat(sprintf("<node %.0f: process %d on %s>\n", x$rank, x$pid, x$host))
  invisible(x)
}

# A node that has said nothing for this many seconds is called silent: it was stopped, or cannot be reached.
remote_silent_seconds <- 4

remote_status <- function(cl) {
  looks <- lapply(unclass(cl), function(node) {
    tryCatch(.Call(ffi_link_look, node$link), error = function(e) NULL)
  })
  get <- function(name) vapply(looks, function(l) if (is.null(l)) NA_real_ else as.double(l[[name]]), 0)
  open <- vapply(looks, function(l) isTRUE(l$open), NA)
  state <- ifelse(get("work") > 0, "busy", "idle")
  state[get("silent") > remote_silent_seconds] <- "silent"
  state[!open] <- "gone"
  field <- function(name, type) vapply(unclass(cl), `[[`, type, name)
  data.frame(
    host = field("host", ""), pid = field("pid", 0L), state = state,
    busy_for = ifelse(open & get("work") > 0, get("work_for"), NA),
    cpu = get("cpu"), memory = get("memory"), heard = get("silent")
  )
}
