# Builds the site into .build/site from a copy of the sources, and takes nothing from a network: what a page loads is
# in `pkgdown/` or comes with the R packages. Documents beside the manual and the vignettes are articles of it too, and
# a link to a file of the tree leads to a page that shows it.
#   tools/site.sh runs it.

# The documents of the tree by the names that they have as articles: `docs-architecture` and so on.
site_documents <- function(stage) {
  found <- c(Sys.glob(file.path(stage, "docs", "*.md")), file.path(stage, "bench", "README.md"))
  paths <- substring(found, nchar(stage) + 2L)
  stats::setNames(paths, tolower(gsub("/", "-", sub("[.]md$", "", paths))))
}

# Where on the site a file of the tree is shown.
site_page <- function(path, documents) {
  if (path == "README.md") return("index.html")
  if (path == "NEWS.md") return("news/index.html")
  if (path %in% documents) return(paste0("articles/", names(documents)[documents == path], ".html"))
  if (startsWith(path, "vignettes/")) return(sub("^vignettes/(.*)[.]Rmd$", "articles/\\1.html", path))
  if (grepl("^[^/]*[.]md$", path)) return(sub("[.]md$", ".html", path))
  paste0("source/", path, ".html")
}

# "a/../b" -> "b"
normal_path <- function(path) {
  parts <- character()
  for (part in strsplit(path, "/", fixed = TRUE)[[1L]]) {
    if (part == "..") parts <- parts[-length(parts)] else if (!part %in% c(".", "")) parts <- c(parts, part)
  }
  paste(parts, collapse = "/")
}

relative_url <- function(to, from) {
  paste0(strrep("../", lengths(gregexpr("/", from, fixed = TRUE)) * grepl("/", from, fixed = TRUE)), to)
}

# The links of a document into the tree, as links on the site. In a listing `](` is C++ or R.
with_site_links <- function(lines, path, documents) {
  folder <- if (dirname(path) == ".") "" else paste0(dirname(path), "/")
  outside <- cumsum(startsWith(lines, "```")) %% 2L == 0L
  at <- gregexpr("\\]\\(([^)#: ]+)(#[^) ]*)?\\)", lines[outside], perl = TRUE)
  regmatches(lines[outside], at) <- lapply(regmatches(lines[outside], at), function(links) {
    vapply(links, function(link) {
      target <- normal_path(paste0(folder, sub("^\\]\\(([^)#]+).*$", "\\1", link)))
      if (startsWith(target, "man/figures/")) return(link)
      linked <<- union(linked, target)
      url <- relative_url(site_page(target, documents), site_page(path, documents))
      sub("^\\]\\([^)#]+", paste0("](", url), link)
    }, "")
  })
  lines
}
linked <- character()

stage_documents <- function(stage, documents) {
  read <- function(path) readLines(file.path(stage, path), encoding = "UTF-8")
  for (path in c("README.md", "NEWS.md", "CONTRIBUTING.md")) {
    writeLines(with_site_links(read(path), path, documents), file.path(stage, path), useBytes = TRUE)
  }
  for (name in names(documents)) {
    lines <- with_site_links(read(documents[[name]]), documents[[name]], documents)
    head <- c("---", sprintf("title: \"%s\"", sub("^# +", "", lines[[1L]])), "---")
    writeLines(c(head, lines[-1L]), file.path(stage, "vignettes", paste0(name, ".Rmd")), useBytes = TRUE)
  }
}

# Pages for files of the tree that a document links to.
show_sources <- function(package, documents) {
  for (path in linked) {
    page <- site_page(path, documents)
    file <- file.path(package$src_path, path)
    if (!startsWith(page, "source/") || !file.exists(file) || dir.exists(file)) next
    lines <- readLines(file, encoding = "UTF-8", warn = FALSE)
    body <- c("<pre><code>", htmltools::htmlEscape(lines), "</code></pre>")
    dir.create(file.path(package$dst_path, dirname(page)), recursive = TRUE, showWarnings = FALSE)
    data <- list(pagetitle = path, body = paste(body, collapse = "\n"))
    pkgdown::render_page(package, "title-body", data, page, quiet = TRUE)
  }
}

# Mathematics is powers and letters here, which HTML has itself: \(2^{31}\).
with_plain_formulas <- function(lines) {
  at <- gregexpr("\\\\\\([^)\\\\]*\\\\\\)", lines)
  regmatches(lines, at) <- lapply(regmatches(lines, at), function(formulas) {
    inner <- substring(formulas, 3L, nchar(formulas) - 2L)
    gsub("\\^\\{?([0-9]+)\\}?", "<sup>\\1</sup>", inner)
  })
  lines
}

# A table scrolls in a box of its own.
finish_page <- function(path) {
  lines <- with_plain_formulas(readLines(path, encoding = "UTF-8", warn = FALSE))
  html <- xml2::read_html(paste(lines, collapse = "\n"), encoding = "UTF-8")
  for (table in xml2::xml_find_all(html, "//main//table")) {
    columns <- length(xml2::xml_find_all(table, ".//tr[1]/th"))
    xml2::xml_add_parent(table, "div", class = paste0("table-box", if (columns > 7L) " wide"))
  }
  xml2::write_html(html, path)
}

stage <- normalizePath(commandArgs(TRUE)[[1L]])
documents <- site_documents(stage)
stage_documents(stage, documents)
options(pkgdown.internet = FALSE)
# library() of a package that is not installed here would be a link, for which all of CRAN is asked.
utils::assignInNamespace("CRAN_urls", function() data.frame(Package = character(), URL = character()), "downlit")
site <- file.path(getwd(), ".build", "site")
unlink(site, recursive = TRUE)
package <- pkgdown::as_pkgdown(stage, list(destination = site))
pkgdown::init_site(package)
unlink(file.path(site, "pkgdown.js"))  # `pkgdown/extra.js` is in its place
pkgdown::build_home(package, preview = FALSE)
pkgdown::build_reference(package, lazy = FALSE, preview = FALSE, devel = FALSE)
pkgdown::build_articles(package, lazy = FALSE, preview = FALSE)
pkgdown::build_news(package, preview = FALSE)
show_sources(package, documents)
for (page in list.files(site, "[.]html$", recursive = TRUE, full.names = TRUE)) finish_page(page)
pkgdown::build_search(package)
cat("site: ", file.path(site, "index.html"), "\n", sep = "")
