# Writes the table of measured claims into README.md, between its two marks, from the csv files of
# bench/results/. bench/sections.csv names the results in order, a title for each and, where not
# all cells belong in a README, a regular expression on their names.
#   Rscript bench/README-table.R [ROOT]

begin_mark <- "<!-- bench: begin -->"
end_mark <- "<!-- bench: end -->"

format_seconds <- function(seconds) {
  steps <- findInterval(seconds, c(1e-6, 1e-3, 1)) + 1L
  unit <- c("ns", "\u00b5s", "ms", "s")[steps]
  scaled <- seconds * c(1e9, 1e6, 1e3, 1)[steps]
  paste(formatC(signif(scaled, 3L), digits = 3L, format = "g"), unit)
}

# How often its time is that of regatta; two digits are what repeated runs agree on.
format_times <- function(times) {
  digits <- ifelse(times < 10, 2L, 3L)
  mapply(function(x, d) format(signif(x, d), scientific = FALSE, big.mark = ","), times, digits)
}

is_ours <- function(peer) grepl("^regatta", peer)

# One row of the table: the cell, our times, the others beside them in order of speed.
table_row <- function(rows) {
  ours <- rows[is_ours(rows$peer), ]
  others <- rows[!is_ours(rows$peer), ]
  others <- others[order(others$median_s), ]
  labels <- sub("^regatta[^A-Za-z0-9]*", "", ours$peer)
  labels <- ifelse(nzchar(labels), paste0(" (", labels, ")"), "")
  own <- paste0(format_seconds(ours$median_s), labels)
  base <- min(ours$median_s)
  theirs <- sprintf("%s: %s", others$peer, format_times(others$median_s / base))
  join <- function(x) paste(x, collapse = "; ")
  sprintf("| %s | %s | %s |", rows$cell[[1]], join(own), join(theirs))
}

table_of <- function(results) {
  cells <- split(results, factor(results$cell, unique(results$cell)))
  measured <- Filter(function(rows) any(is_ours(rows$peer)), cells)
  c(
    "| measured | regatta | others, in multiples of that |", "|---|---|---|",
    vapply(measured, table_row, "", USE.NAMES = FALSE)
  )
}

# The versions that the peers of all results had.
versions_line <- function(results) {
  known <- unique(results[nzchar(results$version) & !is.na(results$version), c("peer", "version")])
  known <- known[!is_ours(known$peer), ]
  package <- sub("[^A-Za-z0-9.].*$", "", known$peer)
  package[package %in% c("lapply", "sequential")] <- "base"
  keep <- !duplicated(package)
  paste0("Versions: ", toString(sort(paste(package[keep], known$version[keep]))), ".")
}

read_results <- function(root) {
  sections <- utils::read.csv(file.path(root, "bench", "sections.csv"), colClasses = "character")
  files <- list.files(file.path(root, "bench", "results"), "\\.csv$")
  names <- sub("\\.csv$", "", files[!grepl("-short\\.csv$", files)])
  unlisted <- setdiff(names, sections$results)
  more <- data.frame(results = unlisted, title = unlisted, cells = rep("", length(unlisted)))
  sections <- rbind(sections, more)
  sections <- sections[sections$results %in% names, ]
  sections$data <- lapply(seq_len(nrow(sections)), function(i) {
    path <- file.path(root, "bench", "results", paste0(sections$results[[i]], ".csv"))
    data <- utils::read.csv(path, colClasses = c(version = "character"))
    if (nzchar(sections$cells[[i]])) data <- data[grepl(sections$cells[[i]], data$cell), ]
    data
  })
  sections
}

render <- function(sections) {
  parts <- lapply(seq_len(nrow(sections)), function(i) {
    c("", paste0("**", sections$title[[i]], "** (`bench/", sections$results[[i]], "`)"), "",
      table_of(sections$data[[i]]))
  })
  columns <- c("cell", "peer", "version", "median_s")
  all <- do.call(rbind, lapply(sections$data, `[`, columns))
  c(begin_mark, unlist(parts), "", versions_line(all), end_mark)
}

replace_between_marks <- function(lines, table) {
  from <- which(lines == begin_mark)
  to <- which(lines == end_mark)
  if (length(from) != 1L || length(to) != 1L || from > to) {
    stop("README.md needs the lines \"", begin_mark, "\" and \"", end_mark, "\", once each")
  }
  c(lines[seq_len(from - 1L)], table, lines[-seq_len(to)])
}

main <- function(root = ".") {
  readme <- file.path(root, "README.md")
  sections <- read_results(root)
  if (nrow(sections) == 0L) {
    stop("bench/results/ holds no results: run `make bench` first", call. = FALSE)
  }
  old <- readLines(readme, encoding = "UTF-8")
  writeLines(replace_between_marks(old, render(sections)), readme, useBytes = TRUE)
  cat("README.md: ", nrow(sections), " tables written\n", sep = "")
}

if (sys.nframe() == 0L) do.call(main, as.list(commandArgs(TRUE)))
