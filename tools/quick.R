# The part of the suite for those who change a line: first the test files for what has changed, then those that took
# least when they were last measured, as many as fit into a time.
#   Rscript tools/quick.R [--list] [SECONDS]
# --list only says which. The times are those of the last `make test` in this tree (.build/suite-report-times.csv), or
# of tools/quick.csv. A file without a time counts as slow: it is run if it has itself changed.
# What is for a changed file: the test file of its name (R/shm-array.R and src/shm-array.c have test-shm-array.R), then
# those that are to notice faults in it, by tools/mutants.dcf; for headers of C++ all of test-threads-*.R.
source("tests/testthat/report-results.R")
start <- proc.time()[["elapsed"]]

arguments <- setdiff(commandArgs(TRUE), "--list")
limit <- if (length(arguments) > 0L) as.numeric(arguments[[1L]]) else 100
fast_limit <- min(limit, 80)

names_of <- function(files) sub("^test-", "", sub("[.](R|c|h|cpp|hpp)$", "", basename(files)))
all <- names_of(list.files("tests/testthat", "^test-.*[.]R$"))

measured <- ".build/suite-report-times.csv"
if (!file.exists(measured)) measured <- "tools/quick.csv"
times <- utils::read.csv(measured, comment.char = "#")
times <- times[times$file %in% all, ]
times <- times[order(times$seconds), ]

changed_files <- function() {
  parts <- c("R", "src", "inst/include", "tests/testthat")
  lines <- suppressWarnings(tryCatch(
    system2("git", c("status", "--porcelain", "--untracked-files=all", "--", parts), stdout = TRUE, stderr = FALSE),
    error = function(e) character()
  ))
  sub("^.* ", "", lines)
}

# The most relevant first.
tests_for <- function(files) {
  mutants <- as.data.frame(read.dcf(textConnection(grep("^#", readLines("tools/mutants.dcf"),
    value = TRUE, invert = TRUE
  ))))
  noticing <- unlist(strsplit(mutants$Tests[mutants$File %in% files & !is.na(mutants$Tests)], "[ ,]+"))
  by_faults <- names(sort(table(noticing), decreasing = TRUE))
  headers <- if (any(startsWith(files, "inst/include/"))) grep("^threads-", all, value = TRUE)
  is_test <- startsWith(files, "tests/testthat/test-")
  intersect(c(names_of(files[is_test]), names_of(files[!is_test]), headers, by_faults), all)
}

seconds_of <- function(names) times$seconds[match(names, times$file)]

# As many of them as fit, in this order, into what `taken` leaves of the time.
fitting <- function(names, taken, limit) {
  chosen <- character()
  for (name in names) {
    seconds <- seconds_of(name)
    if (is.na(seconds) || taken + seconds > limit) next
    taken <- taken + seconds
    chosen <- c(chosen, name)
  }
  chosen
}

files <- changed_files()
wanted <- tests_for(files)
unmeasured <- wanted[is.na(seconds_of(wanted)) & wanted %in% names_of(grep("/test-", files, value = TRUE))]
chosen <- c(unmeasured, fitting(wanted, 0, limit))
taken <- sum(seconds_of(chosen), na.rm = TRUE)
chosen <- union(chosen, fitting(setdiff(times$file, chosen), taken, max(fast_limit, taken)))
left_out <- setdiff(wanted, chosen)
if (length(chosen) == 0L) stop("no test file takes less than ", limit, " s by ", measured)
told <- function() {
  if (length(left_out) == 0L) return(invisible())
  cat(strwrap(sprintf("left out, for what has changed: %s; `tools/with-lib.sh Rscript --vanilla tools/run-files.R %s`",
    toString(left_out), ".build/files NAME ..."), 110), sep = "\n")
}
if ("--list" %in% commandArgs(TRUE)) {
  cat(strwrap(sprintf("%.0f s: %s", sum(seconds_of(chosen), na.rm = TRUE), toString(chosen)), 110), sep = "\n")
  told()
  quit()
}

library(testthat)
library(regatta)
results <- test_dir("tests/testthat",
  package = "regatta", load_package = "installed", reporter = "check", stop_on_failure = FALSE,
  filter = sprintf("^(%s)$", paste(chosen, collapse = "|"))
)
counts <- write_report(results, "")
cat(sprintf("\n%d of %d test files, by %s, in %.0f s; `make test` runs the rest\n", length(chosen),
  length(all), measured, proc.time()[["elapsed"]] - start))
told()
cat(sprintf("%d passed, %d failed, %d skipped\n", counts$passed, counts$failed, counts$skipped))
if (counts$failed > 0L || counts$passed == 0L) quit(status = 1L)
