# The fast part of the suite, for those who change a line: the test files that took least when they were
# last measured, as many as fit into a time, and in any case those that belong to a changed file.
#   Rscript tools/quick.R [SECONDS]
# The times are those of the last `make test` in this tree (.build/suite-report-times.csv), or of
# tools/quick.csv. A file without a time counts as slow.
source("tests/testthat/report-results.R")
start <- proc.time()[["elapsed"]]

arguments <- commandArgs(TRUE)
limit <- if (length(arguments) > 0L) as.numeric(arguments[[1L]]) else 80

names_of <- function(files) sub("^test-", "", sub("[.]R$", "", basename(files)))
all <- names_of(list.files("tests/testthat", "^test-.*[.]R$"))

measured <- ".build/suite-report-times.csv"
if (!file.exists(measured)) measured <- "tools/quick.csv"
times <- utils::read.csv(measured, comment.char = "#")
times <- times[times$file %in% all, ]
times <- times[order(times$seconds), ]
fast <- times$file[cumsum(times$seconds) <= limit]

# R/shm-array.R and src/shm-array.c belong to test-shm-array.R, and so does that file itself.
changed <- suppressWarnings(tryCatch(
  system2("git", c("status", "--porcelain", "--", "R", "src", "tests/testthat"), stdout = TRUE,
    stderr = FALSE),
  error = function(e) character()
))
changed <- names_of(sub("[.](c|h|cpp|hpp)$", "", sub("^.* ", "", changed)))
chosen <- union(fast, intersect(all, changed))
if (length(chosen) == 0L) stop("no test file takes less than ", limit, " s by ", measured)

library(testthat)
library(regatta)
results <- test_dir("tests/testthat",
  package = "regatta", load_package = "installed", reporter = "check", stop_on_failure = FALSE,
  filter = sprintf("^(%s)$", paste(chosen, collapse = "|"))
)
counts <- write_report(results, "")
cat(sprintf("\n%d of %d test files, by %s, in %.0f s; `make test` runs the rest\n", length(chosen),
  length(all), measured, proc.time()[["elapsed"]] - start))
cat(sprintf("%d passed, %d failed, %d skipped\n", counts$passed, counts$failed, counts$skipped))
if (counts$failed > 0L || counts$passed == 0L) quit(status = 1L)
