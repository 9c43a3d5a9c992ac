# How much memory processes have, counted so that a sum over processes is what the machine gives:
# a page that several have mapped counts in parts (Pss of /proc/PID/smaps_rollup). A page of shared
# memory that no process has touched counts nowhere, so measure when the data have been read.

# Bytes of all `pids` together; NA where the system does not tell. One that has ended has none.
process_pss <- function(pids) {
  if (!file.exists("/proc/self/smaps_rollup")) return(NA_real_)
  sum(vapply(pids, function(pid) {
    lines <- tryCatch(readLines(file.path("/proc", pid, "smaps_rollup")),
                      error = function(e) "", warning = function(w) "")
    pss <- grep("^Pss:", lines, value = TRUE)
    if (length(pss) == 0L) 0 else as.numeric(gsub("[^0-9]", "", pss)) * 1024
  }, 0))
}

child_processes <- function(pid) {
  text <- readLines(file.path("/proc", pid, "task", pid, "children"), warn = FALSE)
  as.integer(strsplit(paste(text, collapse = " "), " +")[[1]])
}

# The most that this process and its children have together while `fun` runs, in bytes, as a
# process beside them sees it some ten times in a second.
peak_pss <- function(fun) {
  if (is.na(process_pss(Sys.getpid()))) return(NA_real_)
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
