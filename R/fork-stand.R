# Workers that stand ready: the nodes of an object of cluster_local() share an environment, with the
# server, the stand (src/fork-server.h) and what another server would have to load.

stand_cluster <- function(n, packages, call = NULL) {
  state <- new.env(parent = emptyenv())
  state$n <- n
  state$pid <- Sys.getpid()
  state$packages <- packages
  state$server <- fork_server(packages, call)
  state$stand <- .Call(ffi_fork_stand_new, state$server, n)
  stand_fill(state, call)
  nodes <- lapply(seq_len(n), function(rank) {
    structure(
      list(state = state, rank = rank, host = "localhost"),
      class = c("regatta_node", "SOCKnode")
    )
  })
  structure(nodes, class = c("regatta_cluster", "SOCKcluster", "cluster"))
}

stand_state <- function(cl) unclass(cl)[[1L]]$state

stand_numbers <- function(cl) vapply(unclass(cl), function(node) node$rank, 1L)

# Every place has a worker afterwards.
stand_fill <- function(state, call = NULL) {
  failed <- .Call(ffi_fork_stand_fill, state$stand)
  if (failed != 0L) {
    signal_error(error_start(state$n, .Call(ffi_system_message, failed), call = call))
  }
}

# A server that has ended is followed by another.
stand_ready <- function(state) {
  if (is.null(state$stand)) signal_error(error_stopped())
  check_owner(state$pid, state$stand)
  if (!.Call(ffi_fork_server_state, state$server)$alive) {
    state$server <- fork_server(state$packages)
    .Call(ffi_fork_stand_renew, state$stand, state$server)
  }
}
