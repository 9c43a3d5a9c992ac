# Test files of an installed package, each in a session of its own and with a limit on its time, some
# of them at a time: used by tests/testthat.R and by tools/. What one file leaves in its session cannot
# help or harm another, and one that hangs costs its limit and is named. report-results.R comes first.

# Runs one file in this session; the log then says which test was under way when it ended.
run_file <- function(package, folder, name, report) {
  library(testthat)
  library(package, character.only = TRUE)
  results <- test_dir(
    folder,
    package = package, load_package = "installed", stop_on_failure = FALSE,
    filter = sprintf("^%s$", gsub("([.+*?^$()|\\[\\]{}\\\\])", "\\\\\\1", name, perl = TRUE)),
    reporter = MultiReporter$new(list(LocationReporter$new(), CheckReporter$new()))
  )
  write_report(results, report)
  invisible()
}

# Runs the files `names` of `folder`, `jobs` at a time in the order given, each for at most `limit`
# seconds, and returns a data frame with a row for each: file, seconds, passed, failed, skipped, problem.
# A file that does not come to its end is one failure, whatever it had found; one that would begin
# `seconds` after the first is skipped. `out` is a folder for
# logs, `wrap` a command to put before each session. The rows and what failed are written beside
# `report` as write_report() does.
run_files <- function(package, folder, names, out, jobs = 1L, limit = 600, seconds = Inf,
                      wrap = character(), report = "") {
  dir.create(out, recursive = TRUE, showWarnings = FALSE)
  here <- normalizePath(folder)
  place <- normalizePath(out)
  start <- proc.time()[["elapsed"]]
  run <- function(name) {
    row <- if (proc.time()[["elapsed"]] - start > seconds) {
      file_row(name, 0, failed = 0L, skipped = 1L, problem = "not begun, the time is over")
    } else {
      run_in_session(package, here, name, place, limit, wrap)
    }
    cat(describe_row(row), sep = "\n")
    row
  }
  # The processes that wait for the sessions do nothing else, so that forking them is safe.
  rows <- parallel::mclapply(names, run, mc.cores = jobs, mc.preschedule = FALSE)
  broken <- which(!vapply(rows, is.data.frame, NA))
  rows[broken] <- lapply(broken, function(i) file_row(names[[i]], 0, problem = "was not run"))
  rows <- do.call(rbind, rows)
  if (nzchar(report)) write_rows(rows, place, report)
  rows
}

# What a shell starts in the background ignores Ctrl-C, and newer versions of R go on ignoring it.
with_interrupts <- function() {
  command <- c("env", "--default-signal=INT")
  status <- suppressWarnings(system2(command[[1L]], c(command[-1L], "true"), stdout = FALSE, stderr = FALSE))
  if (status == 0L) command
}

run_in_session <- function(package, folder, name, out, limit, wrap) {
  report <- file.path(out, paste0(name, ".csv"))
  log <- file.path(out, paste0(name, ".log"))
  unlink(c(report, log))
  quoted <- function(x) encodeString(x, quote = "\"")
  code <- c(
    sprintf("source(%s)", quoted(file.path(folder, c("report-results.R", "run-files.R")))),
    sprintf("run_file(%s)", toString(quoted(c(package, folder, name, report))))
  )
  # timeout(1) ends the session and its group of processes, and `wrap` sees what that leaves.
  command <- c(wrap, with_interrupts(), "timeout", "-k", "10", format(limit), file.path(R.home("bin"), "Rscript"),
    "--vanilla", rbind("-e", code))
  start <- proc.time()[["elapsed"]]
  # R CMD check sets R_TESTS for its own session, which another would look for in vain. A folder of
  # shared memory that was made for all sessions is not that of one.
  status <- suppressWarnings(system2(
    command[[1L]], shQuote(command[-1L]), stdout = log, stderr = log, stdin = "/dev/null",
    env = c("R_TESTS=", "REGATTA_PRIVATE_SHM=")
  ))
  seconds <- proc.time()[["elapsed"]] - start
  if (!file.exists(report)) {
    why <- if (status == 124L || seconds >= limit) sprintf("did not end in %g s", limit) else sprintf("ended with status %d", status)
    return(file_row(name, seconds, failed = 1L, problem = why))
  }
  counts <- utils::read.csv(report)
  problem <- if (status != 0L) sprintf("ended with status %d after its tests", status) else ""
  file_row(name, seconds, counts$passed, counts$failed + (status != 0L), counts$skipped, problem)
}

file_row <- function(file, seconds, passed = 0L, failed = 1L, skipped = 0L, problem = "") {
  data.frame(file = file, seconds = round(seconds, 2), passed = passed, failed = failed,
    skipped = skipped, problem = problem)
}

describe_row <- function(row) {
  sprintf("%-24s %4d passed, %d failed, %d skipped, %.1f s%s", row$file, row$passed, row$failed,
    row$skipped, row$seconds, if (nzchar(row$problem)) paste0(": ", row$problem) else "")
}

write_rows <- function(rows, out, report) {
  counts <- data.frame(passed = sum(rows$passed), failed = sum(rows$failed), skipped = sum(rows$skipped))
  write.csv(counts, report, row.names = FALSE)
  write.csv(rows[c("file", "seconds")], sub("\\.csv$", "-times.csv", report), row.names = FALSE)
  failures <- unlist(lapply(which(rows$failed > 0L), function(i) describe_file(rows[i, ], out)))
  writeLines(as.character(failures), sub("\\.csv$", "-failures.txt", report))
}

describe_file <- function(row, out) {
  known <- file.path(out, paste0(row$file, "-failures.txt"))
  lines <- if (file.exists(known)) readLines(known)
  if (!nzchar(row$problem)) return(lines)
  log <- file.path(out, paste0(row$file, ".log"))
  tail <- if (file.exists(log)) utils::tail(readLines(log, warn = FALSE), 12L)
  c(sprintf("test-%s.R: %s; the end of its log:", row$file, row$problem),
    paste0("  ", substr(tail, 1L, 160L)), lines)
}

# What somebody who reads the log of all files wants of that of one: all but the list of what went well.
file_log <- function(name, out) {
  log <- file.path(out, paste0(name, ".log"))
  lines <- if (file.exists(log)) readLines(log, warn = FALSE) else character()
  lines[!grepl("^(Start|End) test: |^  .* \\[(success|skip)\\]$|^ *$", lines)]
}

# The names of the test files of `folder`, those first that took longest by the table `times` of file
# and seconds, so that none of them begins when all others are done. What was not measured comes first.
order_files <- function(folder, times = NULL) {
  names <- sub("^test-(.*)[.]R$", "\\1", list.files(folder, "^test-.*[.]R$"))
  seconds <- times$seconds[match(names, times$file)]
  seconds[is.na(seconds)] <- Inf
  names[order(-seconds, names)]
}
