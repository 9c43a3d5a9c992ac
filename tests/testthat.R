source("testthat/report-results.R")
source("testthat/run-files.R")

# R CMD check sets this for its own R; a session that a test starts would look for its file in vain.
Sys.setenv(R_TESTS = "")

# The counts are written to a file when the caller names one: the output of this script is kept
# in a log by R CMD check, where nobody should have to search for them.
report <- Sys.getenv("REGATTA_TEST_REPORT")

# With REGATTA_TEST_JOBS every file has a session of its own, as many at a time; in this source tree
# what each leaves behind is looked at from outside, too.
in_sessions <- function(jobs) {
  tree <- Sys.getenv("REGATTA_SOURCE")
  wrap <- if (nzchar(tree)) file.path(tree, "tools", "leak-watch.sh")
  times <- if (nzchar(tree)) utils::read.csv(file.path(tree, "tools", "quick.csv"), comment.char = "#")
  out <- "suite-logs"
  seconds <- as.numeric(Sys.getenv(c("REGATTA_SUITE_SECONDS", "REGATTA_FILE_SECONDS"), "Inf"))
  rows <- run_files("regatta", "testthat", order_files("testthat", times), out,
    jobs = jobs, limit = seconds[[2L]], seconds = seconds[[1L]], wrap = wrap, report = report)
  # Warnings count for nobody, but for that of a snapshot that was compared with nothing.
  for (i in seq_len(nrow(rows))) {
    log <- file_log(rows$file[[i]], out)
    if (rows$failed[[i]] + rows$skipped[[i]] > 0L || any(grepl("Adding new snapshot", log, fixed = TRUE))) {
      writeLines(c("", paste0("test-", rows$file[[i]], ".R"), log))
    }
  }
  data.frame(passed = sum(rows$passed), failed = sum(rows$failed))
}

in_this_session <- function() {
  library(testthat)
  library(regatta)
  results <- test_dir(
    "testthat",
    package = "regatta", load_package = "installed",
    reporter = "check", stop_on_failure = FALSE
  )
  write_report(results, report)
}

jobs <- suppressWarnings(as.integer(Sys.getenv("REGATTA_TEST_JOBS", "0")))
counts <- if (isTRUE(jobs > 0L)) in_sessions(jobs) else in_this_session()
if (counts$passed == 0L) stop("no expectation was checked: is the package empty?")
if (counts$failed > 0L) stop(sprintf("%d expectations failed", counts$failed))
