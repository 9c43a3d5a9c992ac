# The other end of R/executor-cluster.R: what a node of a cluster does for a run. Each function is one
# message of the session and returns the reply.

# What the node is at: `job`, what the run needs; `token`; `slots` and `number`, where it writes what
# it does; `master`, the connection to the session; `undo`, how the process was before.
cluster_worker <- new.env(parent = emptyenv())

# `last`: whether the node is done with what it was asked. Records are what elements have to tell.
cluster_reply <- function(records = list(), value = NULL, last = TRUE) {
  structure(list(records = records, value = value, last = last), class = "regatta_reply")
}

regatta_version <- function() {
  getNamespaceVersion("regatta")[[1L]]
}

# `probe`: the bytes of a shared vector, which only a process of the same machine and user can read.
cluster_worker_hello <- function(probe, token) {
  near <- tryCatch(identical(rawToChar(unserialize(probe)), token), error = function(e) FALSE)
  cluster_reply(value = list(
    pid = Sys.getpid(), local = near, clock = .Call(ffi_clock), endian = .Platform$endian,
    version = regatta_version()
  ))
}

cluster_worker_begin <- function(bytes, slots, number, token) {
  cluster_worker_clear()
  job <- closure_unpack(bytes)
  for (package in job$packages) {
    library(package, character.only = TRUE)
  }
  control <- job$control
  # What the node has by handle goes back as a handle, if the session is near: it has `slots` then.
  streams <- c(control$stdout, control$stderr) != "drop"
  .Call(ffi_cluster_worker_begin, streams, !is.null(slots))
  cluster_worker$undo <- cluster_worker_set(job)
  cluster_worker$job <- job
  cluster_worker$token <- token
  cluster_worker$slots <- slots
  cluster_worker$number <- number
  cluster_worker$master <- find_master(sys.frames())
  if (inherits(cluster_worker$master, c("SOCKnode", "SOCK0node"))) {
    send_at_once(list(cluster_worker$master$con))
  }
  evaluate_begin(control, job$seed)
  cluster_reply()
}

# The variables of the session, the share of the cores; returns how it was.
cluster_worker_set <- function(job) {
  names <- as.character(names(job$variables))
  there <- intersect(names, ls(globalenv(), all.names = TRUE))
  undo <- list(
    variables = mget(there, envir = globalenv()), new = setdiff(names, there),
    seed = globalenv()$.Random.seed,
    env = Sys.getenv(c("REGATTA_SHARE", "REGATTA_TRY"), NA, names = TRUE),
    cores = getOption("mc.cores")
  )
  list2env(job$variables, envir = globalenv())
  Sys.setenv(REGATTA_SHARE = job$share)
  threads_share(if (is.null(job$control$threads)) job$share else job$control$threads)
  if (is.null(job$seed)) {
    rng_use(NULL)
  }
  undo
}

cluster_worker_batch <- function(elements, tries, token) {
  if (!identical(token, cluster_worker$token)) {
    stop("the run that these elements belong to is over")
  }
  cluster_worker$held <- list()
  with_streams({
    .Call(
      ffi_cluster_worker_batch, elements, tries, cluster_worker$slots, cluster_worker$number,
      cluster_worker_report
    )
    evaluate_all(cluster_worker$job$loop)
  })
  cluster_reply(cluster_worker$held)
}

# R itself may write to a file: parallel has its workers do so.
with_streams <- function(code) {
  messages <- sink.number(type = "message")
  level <- sink.number()
  .Call(ffi_cluster_worker_divert)
  on.exit({
    while (sink.number() > level) sink()
    if (messages != 2L) sink(getConnection(messages), type = "message")
    .Call(ffi_cluster_worker_restore)
  })
  sink(getConnection(1L)) # stdout() is where R writes now
  sink(type = "message")
  code
}

# Called from C with what an element has to tell. It is sent at once where a way is known, else with
# the end of the batch. An interrupt in the middle of a message would leave half of it.
cluster_worker_report <- function(type, index, try, kind, times, payload) {
  record <- list(
    type = type, index = index, try = try, kind = kind, times = times, payload = payload
  )
  if (is.null(cluster_worker$master)) {
    cluster_worker$held[[length(cluster_worker$held) + 1L]] <- record
  } else {
    message <- list(
      type = "VALUE", value = cluster_reply(list(record), last = FALSE), success = TRUE,
      time = NULL, tag = cluster_worker$token
    )
    tryCatch(
      hold_interrupts(cluster_method("sendData")(cluster_worker$master, message)),
      error = function(e) quit("no", 1L, FALSE) # the session has gone
    )
  }
  NULL
}

# The connection of the loop in which parallel's workers wait for messages; the functions that have
# opened it know the host by the same name.
find_master <- function(frames) {
  for (frame in rev(frames)) {
    master <- get0("master", frame, inherits = FALSE)
    if (!is.null(master) && identical(topenv(frame), asNamespace("parallel"))) {
      return(master)
    }
  }
}

cluster_worker_end <- function(token) {
  if (identical(token, cluster_worker$token)) {
    cluster_worker_clear()
    # Shared memory of the session: the less there is the longer it may wait.
    if (sum(.Call(ffi_shm_info)$bytes) > 1e6) gc()
  }
  cluster_reply()
}

cluster_worker_clear <- function() {
  undo <- cluster_worker$undo
  rm(list = ls(cluster_worker), envir = cluster_worker)
  if (is.null(undo)) {
    return(invisible())
  }
  .Call(ffi_cluster_worker_end)
  rm(list = undo$new, envir = globalenv())
  list2env(undo$variables, envir = globalenv())
  rng_use(undo$seed)
  restore_env(undo$env)
  options(mc.cores = undo$cores)
}
