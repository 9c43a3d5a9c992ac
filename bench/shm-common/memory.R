# How much memory processes have, counted so that a sum over processes is what the machine gives:
# a page that several have mapped counts in parts (Pss of /proc/PID/smaps_rollup). Shared memory is
# counted for the whole machine: what is written to it without a mapping belongs to no process.

# Bytes of all `pids` together, and of shared memory; NA where the system does not tell. A process
# that has ended has none.
process_memory <- function(pids) {
  if (!any(startsWith(readLines("/proc/self/smaps_rollup"), "Pss_Shmem:"))) return(NA_real_)
  shared <- bytes_of("/proc/meminfo", "Shmem")
  shared + sum(vapply(pids, function(pid) {
    rollup <- file.path("/proc", pid, "smaps_rollup")
    bytes_of(rollup, "Pss") - bytes_of(rollup, "Pss_Shmem")
  }, 0))
}

# The number of a line "name: number kB"; 0 if there is none.
bytes_of <- function(path, name) {
  lines <- tryCatch(readLines(path), error = function(e) "", warning = function(w) "")
  line <- grep(paste0("^", name, ":"), lines, value = TRUE)
  if (length(line) == 0L) 0 else as.numeric(gsub("[^0-9]", "", line)) * 1024
}

child_processes <- function(pid) {
  text <- readLines(file.path("/proc", pid, "task", pid, "children"), warn = FALSE)
  as.integer(strsplit(paste(text, collapse = " "), " +")[[1]])
}

# The most that this process and its children have together while `fun` runs, in bytes, as a
# process beside them sees it some ten times in a second.
peak_memory <- function(fun) {
  if (is.na(process_memory(Sys.getpid()))) return(NA_real_)
  folder <- tempfile("peak")
  dir.create(folder)
  stop_watching <- function() invisible(file.create(file.path(folder, "stop")))
  on.exit(stop_watching())
  script <- file.path("bench", "shm-common", "watch.R")
  system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", script, Sys.getpid(), folder),
          wait = FALSE)
  wait_for_file(file.path(folder, "ready"))
  fun()
  stop_watching()
  wait_for_file(file.path(folder, "peak"))
  as.numeric(readLines(file.path(folder, "peak")))
}

wait_for_file <- function(path, seconds = 30) {
  end <- Sys.time() + seconds
  while (!file.exists(path)) {
    if (Sys.time() > end) stop("the process that watches the memory does not answer")
    Sys.sleep(0.02)
  }
}
