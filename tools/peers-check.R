# Compares how the cases of a peer's suite have ended with those that are known to fail.
#   Rscript tools/peers-check.R NAME
# Reads .build/peers/NAME.tsv and tools/peers-NAME.known, prints what is unexpected and the counts in one
# line, and writes these to .build/peers/NAME.csv. The status is 1 if anything is unexpected. Where the row of
# docs/PEERS.md has other counts a line says so: suites whose version is not fixed grow.
read_table <- function(path, columns) {
  lines <- if (file.exists(path)) readLines(path, encoding = "UTF-8") else character()
  lines <- lines[nzchar(lines) & !startsWith(lines, "#")]
  parts <- strsplit(lines, "\t", fixed = TRUE)
  if (any(lengths(parts) < 2L)) stop(path, ": a line without a tab")
  column <- function(k) vapply(parts, function(p) if (length(p) < k) "" else p[[k]], "")
  out <- lapply(seq_along(columns), column)
  names(out) <- columns
  out
}

name <- commandArgs(TRUE)
stopifnot(length(name) == 1L)
file <- function(ending) file.path(".build", "peers", paste0(name, ending))
cases <- read_table(file(".tsv"), c("case", "result", "why"))
known <- read_table(file.path("tools", sprintf("peers-%s.known", name)), c("case", "reason"))
if (length(cases$case) == 0L) stop("peers: ", name, ": no case has been run")
twice <- unique(cases$case[duplicated(cases$case)])
if (length(twice) > 0L) stop("peers: ", name, ": cases of the same name: ", toString(twice))
stopifnot(cases$result %in% c("passed", "failed", "skipped"))

is_known <- cases$case %in% known$case
failing <- cases$result == "failed"
unexpected <- c(
  sprintf("fails: %s: %s", cases$case, cases$why)[failing & !is_known],
  sprintf("passes, though it is known to fail: %s", cases$case)[cases$result == "passed" & is_known],
  sprintf("is known to fail and was not run: %s", setdiff(known$case, cases$case))
)
writeLines(sprintf("peers: %s: skipped: %s: %s", name, cases$case, cases$why)[cases$result == "skipped"])
writeLines(sprintf("peers: %s: %s", name, unexpected))
counts <- data.frame(
  passed = sum(cases$result == "passed" & !is_known), known = sum(failing & is_known), failed = length(unexpected),
  skipped = sum(cases$result == "skipped")
)
utils::write.csv(counts, file(".csv"), row.names = FALSE, quote = FALSE)
cat(sprintf("peers: %s: %d passed, %d failed as known, %d unexpected, %d skipped\n", name,
  counts$passed, counts$known, counts$failed, counts$skipped))

# | `name` | ... | passed | known | skipped |
row <- grep(sprintf("^\\| `%s` \\|", name), readLines(file.path("docs", "PEERS.md"), encoding = "UTF-8"), value = TRUE)
in_page <- regmatches(row, regexec("\\| *([0-9]+) *\\| *([0-9]+) *\\| *([0-9]+) *\\|$", row))
here <- as.character(counts[c("passed", "known", "skipped")])
if (length(row) != 1L || !identical(in_page[[1L]][-1L], here)) {
  cat(sprintf("peers: %s: in the row of docs/PEERS.md belong: | %s |\n", name, paste(here, collapse = " | ")))
}
if (counts$failed > 0L) quit(status = 1L)
