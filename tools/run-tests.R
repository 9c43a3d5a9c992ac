# Runs the testthat suite of an installed package and writes its counts.
#   Rscript tools/run-tests.R PACKAGE FOLDER REPORT.csv [FILTER]
# FILTER is a regular expression on the names of the test files.
source("tests/testthat/report-results.R")

arguments <- commandArgs(TRUE)
if (length(arguments) < 3L) stop("usage: run-tests.R PACKAGE FOLDER REPORT.csv [FILTER]")
package <- arguments[[1]]
filter <- if (length(arguments) > 3L) arguments[[4]]

library(testthat)
library(package, character.only = TRUE)
results <- test_dir(
  arguments[[2]],
  package = package, load_package = "installed", filter = filter,
  reporter = "check", stop_on_failure = FALSE
)
counts <- write_report(results, arguments[[3]])
if (counts$passed == 0L) stop("no expectation was checked: is FILTER right?")
# R reads no further: a process that valgrind has ended in its way has moved where this script is read.
quit(status = if (counts$failed > 0L) 1L else 0L)
