# Runs test files of the installed package, each in a session and with a folder of shared memory of its
# own, and names those that do not end in time.
#   Rscript tools/run-files.R OUT [NAME ...]
# OUT is a folder for logs and tables. Without names all files are run, those first that take longest, or least
# where there is not time for all. REGATTA_TEST_JOBS is how many at a time (1), REGATTA_TEST_LIMIT the seconds for
# each (600), REGATTA_TEST_SECONDS those after which none is begun. The last line is "N passed, N failed, N skipped";
# the status is 1 when anything failed.
source("tests/testthat/report-results.R")
source("tests/testthat/run-files.R")

arguments <- commandArgs(TRUE)
if (length(arguments) < 1L) stop("usage: run-files.R OUT [NAME ...]")
out <- arguments[[1L]]
folder <- "tests/testthat"
names <- arguments[-1L]
setting <- function(name, default) {
  value <- Sys.getenv(name)
  if (nzchar(value)) as.numeric(value) else default
}

jobs <- setting("REGATTA_TEST_JOBS", 1)
seconds <- setting("REGATTA_TEST_SECONDS", Inf)
if (length(names) == 0L) {
  times <- utils::read.csv("tools/quick.csv", comment.char = "#")
  names <- order_files(folder, times)
  if (sum(times$seconds) / jobs > seconds) names <- rev(names)
}

Sys.setenv(NOT_CRAN = "true", REGATTA_SOURCE = normalizePath("."))
report <- file.path(out, "report.csv")
rows <- run_files("regatta", folder, names, out,
  jobs = jobs, limit = setting("REGATTA_TEST_LIMIT", 600), seconds = seconds,
  wrap = normalizePath("tools/leak-watch.sh"), report = report
)
cat("", readLines(sub("\\.csv$", "-failures.txt", report)), sep = "\n")
cat(sprintf("\n%d passed, %d failed, %d skipped\n", sum(rows$passed), sum(rows$failed), sum(rows$skipped)))
if (sum(rows$failed) > 0L || sum(rows$passed) == 0L) quit(status = 1L)
