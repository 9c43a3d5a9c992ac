# The help pages as HTML in .build/docs/, and what docs/ has between marks: in ARCHITECTURE.md the table of
# floors from tools/floors.csv, which is also what the test of the floors reads, and there and in
# SHARED-MEMORY.md the tables of shared structures as the compiler lays them out.
#   Rscript tools/docs.R           writes them
#   Rscript tools/docs.R --check   fails if a table is not what would be written

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

layout_tables <- function(document, folder = file.path(".build", "docs")) {
  dir.create(folder, recursive = TRUE, showWarnings = FALSE)
  program <- file.path(folder, "layout")
  status <- system2("make", c("-s", "-C", "tests/c", shQuote(paste0("OUT=", normalizePath(folder))),
    shQuote(file.path(normalizePath(folder), "layout"))))
  if (status != 0L) stop("tests/c/layout.c cannot be compiled", call. = FALSE)
  tables <- system2(program, document, stdout = TRUE)
  if (!is.null(attr(tables, "status"))) stop("tests/c/layout.c says no more", call. = FALSE)
  tables[seq_len(max(which(nzchar(tables))))]
}

# The lines of `path` with `table` between the marks of `name`.
with_table <- function(path, name, table) {
  lines <- readLines(path, encoding = "UTF-8")
  marks <- sprintf("<!-- %s: %s -->", name, c("begin", "end"))
  from <- which(lines == marks[[1]])
  to <- which(lines == marks[[2]])
  if (length(from) != 1L || length(to) != 1L || from > to) {
    stop(path, " needs the lines \"", marks[[1]], "\" and \"", marks[[2]], "\", once each",
      call. = FALSE)
  }
  c(lines[seq_len(from)], table, lines[to:length(lines)])
}

renew_table <- function(name, table, check, document = "ARCHITECTURE") {
  path <- file.path("docs", paste0(document, ".md"))
  new <- with_table(path, name, table)
  if (!check) {
    writeLines(new, path, useBytes = TRUE)
  } else if (!identical(new, readLines(path, encoding = "UTF-8"))) {
    stop(path, ": the tables of \"", name, "\" are not what the code says. Run `make docs`.",
      call. = FALSE)
  }
  cat("docs: ", name, if (check) " is right in " else " written to ", path, "\n", sep = "")
}

write_help <- function(folder = file.path(".build", "docs")) {
  dir.create(folder, recursive = TRUE, showWarnings = FALSE)
  pages <- list.files("man", "\\.Rd$", full.names = TRUE)
  for (page in pages) {
    checked <- tools::checkRd(page, encoding = "UTF-8")
    if (length(checked) > 0L) stop(paste(format(checked), collapse = "\n"), call. = FALSE)
    out <- file.path(folder, sub("\\.Rd$", ".html", basename(page)))
    tools::Rd2HTML(page, out, package = "regatta", stages = c("build", "install", "render"))
  }
  cat("docs: ", length(pages), " help pages in ", folder, "\n", sep = "")
}

check <- "--check" %in% commandArgs(TRUE)
floors <- utils::read.csv("tools/floors.csv", stringsAsFactors = FALSE)
renew_table("floors", floor_table(floors), check)
for (document in c("ARCHITECTURE", "SHARED-MEMORY")) {
  renew_table("layout", layout_tables(document), check, document)
}
if (!check) write_help()
