# Threads of libraries in a worker: workers times threads must not exceed the cores.

# Holds this process to `n` threads, libraries and programs that it starts included, and its own
# parallel maps to its share of the cores. Whoever is set to fewer keeps that. In a forked worker it
# is the first thing called: it returns how many threads OpenMP may use, which is 1 if the fork may
# have left OpenMP without threads that it believes in (see rg_threads_share_settle).
threads_share <- function(n) {
  share <- strtoi(Sys.getenv("REGATTA_SHARE"), 10L)
  processes <- if (is.na(share) || share < 1L) as.integer(n) else share
  openmp <- .Call(ffi_threads_share, c(as.integer(n), processes))
  wish <- getOption("mc.cores")
  if (!is.numeric(wish) || !isTRUE(wish <= processes)) {
    options(mc.cores = processes)
  }
  data_table_threads(openmp)
  invisible(openmp)
}

# Threads that BLAS and OpenMP libraries would use now, NA for a library that is not loaded.
threads_share_now <- function() {
  .Call(ffi_threads_share_now)
}
