# What a run of a suite comes to, in files: used by tests/testthat.R and tools/run-tests.R.

# Writes FILE.csv with the counts and, next to it, FILE-failures.txt with a few lines on every failure and
# FILE-times.csv with the seconds of each test file, and returns the counts. `results` is what `test_dir()`
# returns. An error counts as a failed expectation, also where something else comes after it in its test, which the
# table of testthat does not show.
write_report <- function(results, file) {
  table <- as.data.frame(results)
  counts <- data.frame(
    passed = sum(table$passed),
    failed = sum(vapply(results, function(test) length(failures_of(test)), 0L)),
    skipped = sum(table$skipped)
  )
  if (nzchar(file)) {
    write.csv(counts, file, row.names = FALSE)
    writeLines(as.character(describe_failures(results)), sub("\\.csv$", "-failures.txt", file))
    write.csv(file_times(table), sub("\\.csv$", "-times.csv", file), row.names = FALSE)
  }
  counts
}

file_times <- function(table) {
  files <- sub("^test-", "", sub("[.]R$", "", table$file))
  seconds <- vapply(split(table$real, files), sum, 0)
  data.frame(file = names(seconds), seconds = round(unname(seconds), 2))
}

# The first lines say what was expected, the last what a session wrote before it ended.
ends_of <- function(lines, head = 8L, tail = 8L) {
  if (length(lines) <= head + tail) lines else c(lines[seq_len(head)], "[...]", utils::tail(lines, tail))
}

failures_of <- function(test) {
  Filter(function(r) inherits(r, c("expectation_failure", "expectation_error")), test$results)
}

describe_failures <- function(results) {
  unlist(lapply(results, function(test) {
    lapply(failures_of(test), function(r) {
      message <- ends_of(strsplit(conditionMessage(r), "\n", fixed = TRUE)[[1]])
      line <- if (is.null(r$srcref)) "" else paste0(":", r$srcref[[1]])
      c(paste0(test$file, line, ": ", test$test), paste0("  ", substr(message, 1L, 120L)))
    })
  }))
}
