# How messages go to the nodes of a cluster and come back, whatever they say: by the calls of package
# parallel, whole or not at all, and each noted in the pool of R/executor-cluster.R.

# Evaluated on a node, which has no more than base R: loads the package, the session's own copy of it
# if that is to be found there.
cluster_launch <- function(name, args, lib) {
  if (!"regatta" %in% loadedNamespaces()) {
    loadNamespace("regatta", lib.loc = c(lib, .libPaths()))
  }
  do.call(get(name, envir = asNamespace("regatta")), args, quote = TRUE)
}
environment(cluster_launch) <- baseenv()

# Half a message, sent or read, would leave a connection that nobody can use any more, and a message
# that nobody has noted would be waited for without end: an interrupt comes before or after.
cluster_send <- function(pool, w, name, args) {
  lib <- dirname(getNamespaceInfo("regatta", "path"))
  data <- list(
    fun = cluster_launch, args = list(name, args, lib), return = TRUE, tag = pool$token
  )
  hold_interrupts({
    pool$busy[[w]] <- TRUE
    pool$sent[[w]] <- .Call(ffi_clock)
    tryCatch(
      send_handles(
        pool$local[[w]],
        cluster_method("sendData")(pool$nodes[[w]], list(type = "EXEC", data = data, tag = NULL))
      ),
      error = function(e) pool$gone[[w]] <- TRUE
    )
  })
}

# Evaluates `code`; an interrupt waits until it is done. suspendInterrupts() does not hold what R
# does with sockets.
hold_interrupts <- function(code) {
  .Call(ffi_system_hold_interrupts, quote(code), environment())
}

# Messages are small and follow each other: TCP would hold each back, for some 40 ms, until the one
# before is acknowledged. The connections are R's; the port leads to their sockets.
send_at_once <- function(connections) {
  ports <- vapply(connections, function(x) sub("^.*:", "", summary(x)$description), "")
  for (port in unique(ports)) .Call(ffi_cluster_send_at_once, as.integer(port))
}

# parallel's generics are not exported.
cluster_method <- function(name) {
  get(name, envir = asNamespace("parallel"))
}

# What has come within `timeout` seconds: lists of worker and reply (value, records), `failed` with a
# text if what it was asked could not be done, and `dead`.
cluster_receive <- function(pool, timeout) {
  got <- list()
  ready <- cluster_ready(pool, timeout)
  hold_interrupts({
    while (length(ready) > 0L && length(got) < 256L) {
      for (w in ready) {
        got[[length(got) + 1L]] <- cluster_read(pool, w)
      }
      ready <- cluster_ready(pool, 0)
    }
  })
  got
}

# Workers whose messages can be read, or that have gone. A cluster without sockets can only be waited
# for.
cluster_ready <- function(pool, timeout) {
  if (any(pool$gone & pool$alive)) {
    return(which(pool$gone & pool$alive))
  }
  if (is.null(pool$connections)) {
    return(if (any(pool$busy) && timeout > 0) cluster_await(pool) else integer())
  }
  alive <- which(pool$alive)
  if (length(alive) == 0L) {
    return(integer())
  }
  alive[socketSelect(pool$connections[alive], FALSE, max(0, timeout))]
}

cluster_await <- function(pool) {
  got <- cluster_method("recvOneData")(pool$cluster)
  pool$early <- got$value
  got$node
}

# NULL for what another run has left unread.
cluster_read <- function(pool, w) {
  message <- pool$early
  pool$early <- NULL
  if (is.null(message) && !pool$gone[[w]]) {
    message <- tryCatch(cluster_method("recvData")(pool$nodes[[w]]), error = function(e) NULL)
  }
  if (is.null(message)) {
    pool$alive[[w]] <- pool$busy[[w]] <- FALSE
    return(list(worker = w, dead = TRUE, failed = "it has ended, or its connection has"))
  }
  if (!identical(message$tag, pool$token)) {
    return(NULL)
  }
  pool$told[[w]] <- .Call(ffi_clock)
  failed <- !inherits(message$value, "regatta_reply")
  pool$busy[[w]] <- !failed && !message$value$last
  list(worker = w, reply = message$value, failed = if (failed) as.character(message$value))
}
