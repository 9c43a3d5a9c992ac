# What is said between a run and its nodes, by the wires of R/executor-cluster-wire.R or, where a
# cluster has no sockets, by the calls of package parallel.

# Evaluated on a node, which has no more than base R: loads the package, the session's own copy of it
# if that is to be found there.
cluster_launch <- function(name, args, lib) {
  if (!"regatta" %in% loadedNamespaces()) {
    loadNamespace("regatta", lib.loc = c(lib, .libPaths()))
  }
  do.call(get(name, envir = asNamespace("regatta")), args, quote = TRUE)
}
environment(cluster_launch) <- baseenv()

cluster_send <- function(pool, w, name, args, token = pool$token) {
  wire <- pool$wires[[w]]
  lib <- dirname(getNamespaceInfo("regatta", "path"))
  data <- list(
    fun = cluster_launch, args = list(name, args, lib), return = TRUE, tag = token
  )
  message <- list(type = "EXEC", data = data, tag = NULL)
  if (!is.null(wire$pointer)) {
    return(wire_send(wire, token, message))
  }
  wire$busy <- token
  tryCatch(
    send_handles(isTRUE(wire$facts$local), cluster_method("sendData")(wire$node, message)),
    error = function(e) wire_retire(wire, "it has ended, or its connection has")
  )
}

# parallel's generics are not exported.
cluster_method <- function(name) {
  get(name, envir = asNamespace("parallel"))
}

# What has come for the run within `timeout` seconds: lists of worker and either message, `failed`
# with a text if what it was asked could not be done, or `dead`.
cluster_receive <- function(pool, timeout) {
  if (!cluster_has_news(pool)) {
    if (pool$sockets) {
      waited <- pool$wires[c(which(pool$alive), pool$greeted)]
      if (length(waited) > 0L) wires_wait(waited, timeout)
    } else if (timeout > 0) {
      cluster_await(pool)
    }
  }
  unlist(lapply(which(pool$alive), function(w) cluster_news(pool, w)), recursive = FALSE)
}

cluster_has_news <- function(pool) {
  for (wire in pool$wires[pool$alive]) {
    if (length(wire$news[[pool$token]]) > 0L || !is.null(wire$out)) return(TRUE)
  }
  FALSE
}

# A cluster without sockets can only be waited for.
cluster_await <- function(pool, token = pool$token) {
  if (any(vapply(pool$wires, function(wire) identical(wire$busy, token), NA))) {
    got <- tryCatch(cluster_method("recvOneData")(pool$cluster), regatta_error_socket = identity)
    if (inherits(got, "error")) {
      if (is.null(got$node)) stop(got)
      if (got$node <= length(pool$wires)) wire_retire(pool$wires[[got$node]], got$reason)
      return(invisible())
    }
    wire <- pool$wires[[got$node]]
    wire$told <- .Call(ffi_clock)
    if (identical(got$value$tag, token)) {
      wire$news[[token]] <- list(got$value)
      wire$busy <- NULL
    }
  }
}

cluster_news <- function(pool, w, token = pool$token) {
  wire <- pool$wires[[w]]
  messages <- if (!is.null(token)) wire$news[[token]]
  if (!is.null(messages)) wire$news[[token]] <- NULL
  got <- lapply(messages, function(message) {
    if (!is_last(message)) {
      return(list(worker = w, records = list(message)))
    }
    reply <- message$value
    if (inherits(reply, "regatta_reply")) {
      list(worker = w, records = reply$records, reply = reply, last = TRUE)
    } else {
      list(worker = w, failed = as.character(reply), last = TRUE)
    }
  })
  c(got, if (!is.null(wire$out)) list(list(worker = w, dead = TRUE, failed = wire$out)))
}
