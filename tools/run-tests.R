# Runs the testthat suite of an installed package and writes its counts.
#   Rscript tools/run-tests.R PACKAGE FOLDER REPORT.csv [FILTER]
# FILTER is a regular expression on the names of the test files.

arguments <- commandArgs(TRUE)
if (length(arguments) < 3L) stop("usage: run-tests.R PACKAGE FOLDER REPORT.csv [FILTER]")
package <- arguments[[1]]
report <- arguments[[3]]
filter <- if (length(arguments) > 3L) arguments[[4]]

library(testthat)
library(package, character.only = TRUE)
results <- as.data.frame(test_dir(
  arguments[[2]],
  package = package, load_package = "installed", filter = filter,
  reporter = "check", stop_on_failure = FALSE
))
counts <- data.frame(
  passed = sum(results$passed),
  failed = sum(results$failed) + sum(results$error),
  skipped = sum(results$skipped)
)
write.csv(counts, report, row.names = FALSE)
if (counts$passed == 0L) stop("no expectation was checked: is FILTER right?")
if (counts$failed > 0L) quit(status = 1L)
