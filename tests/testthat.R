library(testthat)
library(regatta)

# R CMD check sets this for its own R; a session that a test starts would look for its file in vain.
Sys.setenv(R_TESTS = "")

# The counts are written to a file when the caller names one: the output of this script is kept
# in a log by R CMD check, where nobody should have to search for them.
results <- as.data.frame(test_dir(
  "testthat",
  package = "regatta", load_package = "installed",
  reporter = "check", stop_on_failure = FALSE
))
failed <- sum(results$failed) + sum(results$error)
counts <- c(passed = sum(results$passed), failed = failed, skipped = sum(results$skipped))
report <- Sys.getenv("REGATTA_TEST_REPORT")
if (nzchar(report)) {
  write.csv(as.data.frame(as.list(counts)), report, row.names = FALSE)
}
if (counts[["passed"]] == 0L) stop("no expectation was checked: is the package empty?")
if (failed > 0) stop(sprintf("%d expectations failed", failed))
