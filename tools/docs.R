# The help pages as HTML in .build/docs/, and the table of floors in docs/ARCHITECTURE.md between
# its two marks, from tools/floors.csv, which is also what the test of the floors reads.
#   Rscript tools/docs.R

floor_words <- c(
  "0" = "system", "1" = "mechanisms", "2" = "R objects", "3" = "executors", "4" = "driver",
  "5" = "verbs", "6" = "neighbours"
)

floor_table <- function(floors) {
  rows <- lapply(sort(unique(floors$floor), decreasing = TRUE), function(level) {
    files <- function(language) {
      here <- floors[floors$floor == level & floors$language == language, ]
      if (nrow(here) == 0L) return("")
      paste(sprintf("`%s`: %s", here$prefix, here$what), collapse = "<br>")
    }
    name <- floor_words[[as.character(level)]]
    sprintf("| %d %s | %s | %s |", level, name, files("R"), files("C"))
  })
  c("| floor | files of `R/` | files of `src/` |", "|---|---|---|", unlist(rows))
}

write_floor_table <- function(path = "docs/ARCHITECTURE.md") {
  begin <- "<!-- floors: begin -->"
  end <- "<!-- floors: end -->"
  if (!file.exists(path)) return(invisible())
  lines <- readLines(path, encoding = "UTF-8")
  from <- which(lines == begin)
  to <- which(lines == end)
  if (length(from) != 1L || length(to) != 1L || from > to) {
    stop(path, " needs the lines \"", begin, "\" and \"", end, "\", once each", call. = FALSE)
  }
  table <- floor_table(utils::read.csv("tools/floors.csv", stringsAsFactors = FALSE))
  writeLines(c(lines[seq_len(from)], table, lines[to:length(lines)]), path, useBytes = TRUE)
  cat("docs: floors written to ", path, "\n", sep = "")
}

write_help <- function(folder = file.path(".build", "docs")) {
  dir.create(folder, recursive = TRUE, showWarnings = FALSE)
  pages <- list.files("man", "\\.Rd$", full.names = TRUE)
  for (page in pages) {
    checked <- tools::checkRd(page)
    if (length(checked) > 0L) stop(paste(format(checked), collapse = "\n"), call. = FALSE)
    out <- file.path(folder, sub("\\.Rd$", ".html", basename(page)))
    tools::Rd2HTML(page, out, package = "regatta", stages = c("build", "install", "render"))
  }
  cat("docs: ", length(pages), " help pages in ", folder, "\n", sep = "")
}

write_floor_table()
write_help()
