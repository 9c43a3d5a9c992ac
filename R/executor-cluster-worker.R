# The other end of R/executor-cluster.R: what a node of a cluster does for a run. Each function is one
# message of the session and returns the reply.

# What the node is at: `job`, what the run needs; `token`; `slots` and `number`, where it writes what
# it does; `socket`, the descriptor of the connection to the session, -1 if that is not known; `undo`,
# how the process was before.
cluster_worker <- new.env(parent = emptyenv())

# Records are what elements have to tell that could not be sent while they ran.
cluster_reply <- function(records = list(), value = NULL) {
  structure(list(records = records, value = value), class = "regatta_reply")
}

regatta_version <- function() {
  getNamespaceVersion("regatta")[[1L]]
}

# `probe`: the bytes of a shared vector, which only a process of the same machine and user can read.
cluster_worker_hello <- function(probe, token) {
  near <- tryCatch(identical(rawToChar(unserialize(probe)), token), error = function(e) FALSE)
  cluster_reply(value = list(
    pid = Sys.getpid(), local = near, clock = .Call(ffi_clock), endian = .Platform$endian,
    version = regatta_version(), cores = as.integer(workers_available()), dir = directory_of_start()
  ))
}

# The working directory of this process if it is still that in which it was started, by the shell that has started it;
# NULL if it is another, as after a call of setwd(), or that cannot be told.
directory_of_start <- function() {
  now <- getwd()
  start <- Sys.getenv("PWD")
  if (!is.null(now) && nzchar(start) && identical(normalizePath(start, mustWork = FALSE), now)) now
}

cluster_worker_begin <- function(bytes, slots, number, token, share = NULL, settings = NULL, mark = NULL) {
  cluster_worker_clear()
  job <- job_unpack(bytes)
  if (!is.null(share)) job$share <- share
  job$settings <- settings
  control <- job$control
  # What the node has by handle goes back as a handle, if the session is near: it has `slots` then.
  streams <- c(control$stdout, control$stderr) != "drop"
  .Call(ffi_cluster_worker_begin, streams, !is.null(slots))
  if (!the$ends_programs) {
    # A node whose session has gone ends between two messages.
    the$ends_programs <- TRUE
    reg.finalizer(cluster_worker, function(e) .Call(ffi_cluster_worker_end), onexit = TRUE)
  }
  cluster_worker$undo <- job_set(job)
  if (!is.null(mark)) {
    above <- Sys.getenv("REGATTA_RUN", NA)
    Sys.setenv(REGATTA_RUN = if (is.na(above)) mark else paste(above, mark, sep = ":"))
  }
  cluster_worker$job <- job
  cluster_worker$token <- token
  cluster_worker$slots <- slots
  cluster_worker$number <- number
  cluster_worker$socket <- master_socket(find_master(sys.frames())$con)
  evaluate_begin(control, job$seed, notes = job$notes)
}

# `begin`: list(bytes, slots, number, share, settings, mark, alone) with the first batch of a run, or after another run.
# After one that is `alone` nothing of the run stays here.
# Interrupts are let in where an element runs and nowhere else: one that came between two of them, while an error is
# on its way from its frames, would end the batch without a reply.
cluster_worker_batch <- function(elements, tries, token, begin = NULL) {
  suspendInterrupts({
    if (!is.null(begin)) {
      cluster_worker_begin(begin$bytes, begin$slots, begin$number, token, begin$share, begin$settings, begin$mark)
    } else if (!identical(token, cluster_worker$token)) {
      stop("the run that these elements belong to is over")
    }
    cluster_worker$held <- list()
    with_streams({
      .Call(
        ffi_cluster_worker_batch, elements, tries, cluster_worker$slots, cluster_worker$number,
        cluster_worker_report, cluster_worker$socket, token
      )
      cluster_worker_run(function() allowInterrupts(cluster_worker$job$loop()))
    })
    take_interrupts()
    records <- cluster_worker$held
    if (isTRUE(begin$alone)) cluster_worker_clear()
    cluster_reply(records)
  })
}

cluster_worker_run <- function(loop) {
  jumped <- function() {
    keep_jump()
    cluster_worker_evaluate(loop)
  }
  .Call(ffi_cluster_worker_run, quote(cluster_worker_evaluate(loop)), quote(jumped()), environment())
}

# While a handler describes an error, or passes on what an element has signalled, R does not call it for
# an interrupt: that gets here, and is the end of the element if it has not told of one.
cluster_worker_evaluate <- function(loop) {
  while (!tryCatch({
    evaluate_all(loop)
    TRUE
  }, interrupt = function(e) FALSE)) {
    keep_error(simpleError("interrupted"), list(calls = list(), frames = list()), interrupted = TRUE)
  }
}

# One that was meant for an element that has ended.
take_interrupts <- function() {
  while (!tryCatch(allowInterrupts({
    Sys.sleep(0)
    TRUE
  }), interrupt = function(e) FALSE)) NULL
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

# Called from C with what an element has to tell that goes with the end of the batch: all of it where the
# way to the session is not known, else a small value after which nothing is left to do.
cluster_worker_report <- function(type, index, try, kind, times, payload) {
  cluster_worker$held[[length(cluster_worker$held) + 1L]] <- list(
    type = type, index = index, try = try, kind = kind, times = times, payload = payload
  )
  NULL
}

# To find a socket means to look at all that are open: it is done once for a connection.
master_socket <- function(connection) {
  known <- the$master
  if (is.null(known) || !identical(known$id, attr(connection, "conn_id"))) {
    known <- list(id = attr(connection, "conn_id"), socket = find_socket(connection))
    if (known$socket >= 0L) the$master <- known
  }
  known$socket
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

# The end of a run is a message that parallel's loop has no reply for, so that nobody need wait for one:
# its type is the token of the run, and where the loop asks for that the run is ended.
`$.regatta_end` <- function(x, name) {
  tryCatch(cluster_worker_end(unclass(x)$type), error = function(e) NULL)
  "END"
}

cluster_worker_end <- function(token) {
  if (identical(token, cluster_worker$token)) {
    cluster_worker_clear()
    attach_for()
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
  job_reset(undo)
}
