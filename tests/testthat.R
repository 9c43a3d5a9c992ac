library(testthat)
library(regatta)
source("testthat/report-results.R")

# R CMD check sets this for its own R; a session that a test starts would look for its file in vain.
Sys.setenv(R_TESTS = "")

# The counts are written to a file when the caller names one: the output of this script is kept
# in a log by R CMD check, where nobody should have to search for them.
results <- test_dir(
  "testthat",
  package = "regatta", load_package = "installed",
  reporter = "check", stop_on_failure = FALSE
)
counts <- write_report(results, Sys.getenv("REGATTA_TEST_REPORT"))
if (counts$passed == 0L) stop("no expectation was checked: is the package empty?")
if (counts$failed > 0L) stop(sprintf("%d expectations failed", counts$failed))
