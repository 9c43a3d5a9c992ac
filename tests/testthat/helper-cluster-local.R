# Clusters of cluster_local() for the tests. The server outlives a cluster, for the next one: a file that
# has used one ends it before its last test.

local_pool <- function(n = 2L, ..., frame = parent.frame()) {
  cl <- cluster_local(n, ...)
  withr::defer(parallel::stopCluster(cl), envir = frame)
  cl
}

end_servers <- function() regatta:::fork_server_stop_all()

cluster_pids <- function(cl) unlist(parallel::clusterCall(cl, Sys.getpid))

server_pid <- function(cl) {
  .Call(regatta:::ffi_fork_server_state, regatta:::stand_state(cl)$server)$pid
}

server_is_alive <- function(cl) {
  .Call(regatta:::ffi_fork_server_state, regatta:::stand_state(cl)$server)$alive
}

is_process <- function(pid) dir.exists(file.path("/proc", pid))

on_local <- function(...) par_control(progress = FALSE, dump = "no", seed = 1L, ...)

# It has ended, whether somebody has collected it or not. Its first thread is a zombie before the others have ended,
# and only with the last of them the process has, and its pidfd says so.
has_ended <- function(pid) {
  state <- process_state(pid)
  is.na(state) || state == "Z" && length(list.files(file.path("/proc", pid, "task"))) <= 1L
}

process_state <- function(pid) {
  line <- proc_line(pid)
  if (nzchar(line)) substr(sub("^.*\\) ", "", line), 1L, 1L) else NA_character_
}
