detritus <- detritus_snapshot()

# The documents name files, functions and exports: what they name must be there.

# The sources are beside an uninstalled package, and named by the caller when R CMD check runs this.
doc_root <- function() {
  candidates <- c(Sys.getenv("REGATTA_SOURCE"), test_path("..", ".."))
  found <- candidates[file.exists(file.path(candidates, "docs", "ARCHITECTURE.md"))]
  if (length(found) == 0L) skip("the sources of the package are not here")
  found[[1L]]
}

doc_files <- function(root) {
  docs <- file.path("docs", list.files(file.path(root, "docs"), "[.]md$"))
  pages <- c("README.md", "CONTRIBUTING.md", "bench/README.md", "NEWS.md", docs)
  stats::setNames(file.path(root, pages), pages)
}

read_text <- function(path) {
  paste(readLines(path, encoding = "UTF-8", warn = FALSE), collapse = "\n")
}

all_matches <- function(pattern, text) {
  regmatches(text, gregexpr(pattern, text, perl = TRUE))[[1L]]
}

# Code spans outside of blocks, without their marks and with one space for a line break.
code_spans <- function(text) {
  text <- gsub("(?s)\n```.*?\n```(?=\n|$)", "\n", text, perl = TRUE)
  gsub("\\s+", " ", gsub("`", "", all_matches("`[^`]+`", text)))
}

# Paths into the tree among the code spans; `test-fault-*.R` stands for at least one file.
missing_paths <- function(root, text) {
  folders <- "^(R|src|man|docs|bench|tools|tests|demo|examples|inst)/"
  paths <- grep(folders, code_spans(text), value = TRUE)
  paths <- grep("[ ()<>]", paths, value = TRUE, invert = TRUE)
  there <- vapply(paths, function(path) length(Sys.glob(file.path(root, path))) > 0L, NA)
  unique(paths[!there])
}

# [text](target) with a target in this tree; a part after # is a heading of the page. In a listing it
# is C++.
broken_links <- function(page, text) {
  text <- gsub("(?s)```.*?```", "", text, perl = TRUE)
  targets <- sub("^.*\\]\\(([^)]*)\\)$", "\\1", all_matches("\\]\\([^)]+\\)", text))
  targets <- grep("^[a-z]+:", targets, value = TRUE, invert = TRUE)
  ok <- vapply(targets, function(target) {
    file <- sub("#.*$", "", target)
    other <- if (nzchar(file)) file.path(dirname(page), file) else page
    heading <- sub("^[^#]*#?", "", target)
    file.exists(other) && (!nzchar(heading) || heading %in% anchors(read_text(other)))
  }, NA)
  targets[!ok]
}

anchors <- function(text) {
  headings <- sub("^#+ +", "", grep("^#+ ", strsplit(text, "\n")[[1L]], value = TRUE))
  gsub(" ", "-", gsub("[^a-z0-9 -]", "", tolower(headings)))
}

# "`run_result()` in `R/driver.R`", also with several functions before the file: each must be
# defined in that file.
misplaced_functions <- function(root, text) {
  name <- "`[A-Za-z_.]+\\(\\)`"
  claims <- all_matches(sprintf("%s(?:(?:,|\\s+and)\\s+%s)*\\s+in\\s+`[^`]+`", name, name), text)
  wrong <- lapply(claims, function(claim) {
    spans <- code_spans(claim)
    path <- file.path(root, spans[[length(spans)]])
    names <- sub("()", "", spans[-length(spans)], fixed = TRUE)
    code <- if (file.exists(path)) readLines(path, warn = FALSE) else character()
    here <- vapply(names, defines, NA, code = code)
    sprintf("%s() in %s", names, spans[[length(spans)]])[!here]
  })
  as.character(unlist(wrong))
}

# At the start of a line an R function is assigned to, a C function has its type before it.
defines <- function(name, code) {
  r <- sprintf("^%s <- function\\(", gsub(".", "\\.", name, fixed = TRUE))
  c <- sprintf("^[a-zA-Z_].*\\b%s\\(", name)
  declares <- grepl(";\\s*$", code)
  any(grepl(r, code) | (grepl(c, code, perl = TRUE) & !declares & !grepl("<-", code)))
}

help_aliases <- function() {
  pages <- tools::Rd_db("regatta")
  text <- unlist(lapply(pages, as.character))
  text <- paste(text, collapse = "")
  sub("^.*\\{(.*)\\}$", "\\1", all_matches("\\\\alias\\{[^}]+\\}", text))
}

cited_vignettes <- function(text) {
  sub("^.*\\(\"([^\"]+)\".*$", "\\1", all_matches("vignette\\(\"[^\"]+\", (package = )?\"regatta\"\\)", text))
}

# The names under `contents:` in a part of _pkgdown.yml, in brackets or one in a line.
site_contents <- function(lines, part) {
  after <- lines[-seq_len(which(lines == paste0(part, ":")))]
  here <- after[cumsum(grepl("^[a-z]", after)) == 0L]
  brackets <- all_matches("(?<=contents: \\[)[^]]*", paste(here, collapse = " "))
  c(unlist(strsplit(brackets, ", *")), sub("^ +- ", "", grep("^ +- [^ ]+$", here, value = TRUE)))
}

test_that("every exported name has a page", {
  if (length(tools::Rd_db("regatta")) == 0L) skip("the package is installed without its help pages")
  expect_identical(setdiff(getNamespaceExports("regatta"), help_aliases()), character())
})

test_that("every exported name is in the README or the NEWS", {
  root <- doc_root()
  text <- paste(read_text(file.path(root, "README.md")), read_text(file.path(root, "NEWS.md")))
  named <- vapply(getNamespaceExports("regatta"), grepl, NA, x = text, fixed = TRUE)
  expect_identical(names(named)[!named], character())
})

test_that("every condition class of the code is on its page", {
  root <- doc_root()
  code <- unlist(lapply(list.files(file.path(root, "R"), full.names = TRUE), read_text))
  classes <- unique(unlist(lapply(code, all_matches, pattern = "regatta_(error|warning)_[a-z0-9_]*[a-z0-9]")))
  page <- read_text(file.path(root, "man", "regatta-conditions.Rd"))
  expect_gt(length(classes), 5L)
  expect_identical(classes[!vapply(classes, grepl, NA, x = page, fixed = TRUE)], character())
})

test_that("every link of a document leads somewhere", {
  for (page in doc_files(doc_root())) {
    expect_identical(broken_links(page, read_text(page)), character(), label = basename(page))
  }
})

test_that("every path that a document names exists", {
  root <- doc_root()
  for (page in doc_files(root)) {
    expect_identical(missing_paths(root, read_text(page)), character(), label = basename(page))
  }
})

# Names of `prefix` that scripts call and neither they nor what they source defines. A benchmark would end of it after
# all its measuring.
undefined_calls <- function(root, script, prefix) {
  code <- new.env()
  read <- function(path) {
    if (exists(path, code)) return()
    text <- readLines(file.path(root, path), encoding = "UTF-8", warn = FALSE)
    assign(path, text, code)
    for (other in sub('^.*source\\("([^"]+)".*$', "\\1", grep('^ *source\\("', text, value = TRUE))) read(other)
  }
  read(script)
  text <- unlist(as.list(code), use.names = FALSE)
  text <- sub("(^| )#.*$", "", text)
  called <- unique(sub("\\($", "", all_matches(paste0("\\b", prefix, "[a-z_]*\\("), paste(text, collapse = "\n"))))
  called[!vapply(called, defines, NA, code = text)]
}

test_that("benchmarks define or source what they call of each other", {
  root <- doc_root()
  scripts <- file.path("bench", list.files(file.path(root, "bench"), "^run[.]R$", recursive = TRUE))
  expect_gt(length(scripts), 20L)
  for (script in scripts) {
    for (prefix in c("bench_", "hdf5_", "threads_")) {
      expect_identical(undefined_calls(root, script, prefix), character(), label = paste(script, prefix))
    }
  }
})

test_that("every function is in the file that a document says", {
  root <- doc_root()
  for (page in doc_files(root)) {
    expect_identical(
      misplaced_functions(root, read_text(page)), character(), label = basename(page)
    )
  }
})

test_that("the table of floors is that of tools/floors.csv", {
  root <- doc_root()
  text <- read_text(file.path(root, "docs", "ARCHITECTURE.md"))
  floors <- utils::read.csv(file.path(root, "tools", "floors.csv"))
  rows <- sprintf("`%s`: %s", floors$prefix, floors$what)
  expect_identical(rows[!vapply(rows, grepl, NA, x = text, fixed = TRUE)], character())
})

test_that("what the vignette says of measured times of HDF5 is what the results of the benchmarks say", {
  root <- doc_root()
  text <- readLines(file.path(root, "vignettes", "hdf5.Rmd"), encoding = "UTF-8")
  steps <- withr::with_dir(root, capture.output(source(file.path("bench", "hdf5", "steps.R"), local = new.env())))
  expect_gt(length(steps), 8L)
  shown <- text[seq(match(steps[[1L]], text), length.out = length(steps))]
  expect_identical(shown, steps)
  words <- gsub("\\s+", " ", paste(text, collapse = " "))
  median_of <- function(file, cell, peer) {
    rows <- utils::read.csv(file.path(root, "bench", "results", file))
    rows$median_s[rows$cell == cell & rows$peer == peer]
  }
  sums <- function(peer) median_of("hdf5.csv", "column sums, the post's file", paste0("DelayedMatrixStats, ", peer))
  pass <- function(peer) median_of("hdf5-cache.csv", "column sums, 1 to 100, 1 thread", paste0("regatta, ", peer))
  said <- c(
    sprintf("That takes %.0f times as long", sums("lapply by 1, from 10 columns") / sums("serial")),
    sprintf("took %.3g s without a cache, %.3g s as the first one with a cache of 532 MB, and %.2g s as the second",
      pass("without a cache"), pass("first pass with a cache"), pass("from the cache"))
  )
  for (sentence in said) expect_match(words, sentence, fixed = TRUE)
  expect_lt(max(sums("lapply by 100"), sums("lapply by 1000")) / sums("serial"), 1.05)
  expect_equal(sums("mclapply by 1000") / sums("lapply by 1000"), 0.6, tolerance = 0.05)
})

test_that("the words of the README run and give what it shows", {
  root <- doc_root()
  text <- read_text(file.path(root, "README.md"))
  expect_match(text, "make demo", fixed = TRUE)
  expect_match(text, "make test", fixed = TRUE)
  blocks <- all_matches("(?s)```(r?)\n.*?\n```", text)
  first <- which(startsWith(blocks, "```r\n"))[[1L]]
  body <- function(block) strsplit(gsub("^```r?\n|\n```$", "", block), "\n")[[1L]]
  env <- new.env(parent = globalenv())
  withr::local_preserve_seed()
  printed <- capture.output(suppressWarnings(source(
    textConnection(body(blocks[[first]])), local = env, print.eval = TRUE
  )))
  shown <- grep("Warning messages:|^[0-9]: In ", body(blocks[[first + 1L]]), value = TRUE,
    invert = TRUE)
  # Which of two workers prints first is chance.
  expect_setequal(trimws(printed), trimws(shown))
})

test_that("help.search() finds a page by the word that a user has for it", {
  # What R CMD INSTALL keeps for help.search(): titles, aliases, keywords and concepts, by the number of a page.
  index <- readRDS(system.file("Meta", "hsearch.rds", package = "regatta"))
  topic <- index[[1L]][, "Topic"]
  texts <- c(index[[1L]][, "Title"], index[[2L]][, "Alias"], index[[4L]][, "Concept"])
  numbers <- c(index[[1L]][, "ID"], index[[2L]][, "ID"], index[[4L]][, "ID"])
  pages <- function(word) topic[index[[1L]][, "ID"] %in% numbers[grepl(word, texts, ignore.case = TRUE)]]
  words <- c(
    timeout = "par_control", progress = "par_control", retry = "par_control", checkpoint = "par_control",
    seed = "par_control", "shared memory" = "shm_share", mutex = "shm_lock", semaphore = "sem_open",
    "number of cores" = "workers_available", "worker pool" = "cluster_local", ssh = "cluster_ssh",
    slurm = "cluster_ssh", foreach = "registerDoRegatta", future = "regatta", bioc = "RegattaParam",
    colSums = "h5_stats", traceback = "par_last", debugging = "par_last", asynchronous = "par_call"
  )
  found <- vapply(names(words), function(word) words[[word]] %in% pages(word), NA)
  expect_identical(names(words)[!found], character())
})

test_that("every vignette that is cited is there, and an installation with vignettes has it", {
  root <- doc_root()
  files <- c(
    doc_files(root), list.files(file.path(root, c("man", "R", "vignettes")), "[.](Rd|R|Rmd)$", full.names = TRUE)
  )
  names <- unique(unlist(lapply(lapply(files, read_text), cited_vignettes)))
  expect_true("sharing" %in% names)
  expect_identical(names[!file.exists(file.path(root, "vignettes", paste0(names, ".Rmd")))], character())
  expect_match(read_text(file.path(root, "README.md")), "R CMD build . && R CMD INSTALL", fixed = TRUE)
  built <- utils::vignette(package = "regatta")$results[, "Item"]
  if (length(built) > 0L) expect_identical(setdiff(names, built), character())
})

test_that("the site has a place for each page of the manual, vignette and document, and for nothing else", {
  root <- doc_root()
  lines <- readLines(file.path(root, "_pkgdown.yml"))
  pages <- Sys.glob(file.path(root, "man", "*.Rd"))
  expect_identical(sort(site_contents(lines, "reference")), sort(sub("[.]Rd$", "", basename(pages))))
  vignettes <- sub("[.]Rmd$", "", basename(Sys.glob(file.path(root, "vignettes", "*.Rmd"))))
  documents <- tolower(sub("[.]md$", "", basename(Sys.glob(file.path(root, "docs", "*.md")))))
  articles <- c(vignettes, paste0("docs-", documents), "bench-readme")
  expect_identical(sort(site_contents(lines, "articles")), sort(articles))
})

# The cells of each row of the tables in a text, headings and lines left out.
table_rows <- function(text) {
  rows <- grep("^\\|", strsplit(text, "\n")[[1L]], value = TRUE)
  rows <- lapply(strsplit(gsub("^\\||\\|$", "", rows), "|", fixed = TRUE), trimws)
  Filter(function(row) nzchar(row[[1L]]) && row[[1L]] != "---", rows)
}

# What links to tests are wrong about: `[title of a test](its file)`, a test of R, one of those whose titles begin with
# it, or a test of C++.
wrong_test <- function(root, page, cell) {
  links <- all_matches("\\[.*?\\]\\([^ )]*\\)", cell)
  if (length(links) == 0L) return("is no link")
  unlist(lapply(links, function(link) {
    parts <- regmatches(link, regexec("^\\[(.*)\\]\\((.*)\\)$", link))[[1L]]
    file <- file.path(root, dirname(page), parts[[3L]])
    if (!file.exists(file)) return("has no file")
    starts <- paste0(c("test_that(\"", "test_that(paste(\"", "TEST("), parts[[2L]], c("\"", "\"", ")"))
    if (!any(vapply(starts, grepl, NA, x = read_text(file), fixed = TRUE))) "has no such test"
  }))
}

test_that("what the comparison says that regatta does is shown by the test that it names", {
  root <- doc_root()
  page <- "docs/COMPARISON.md"
  tables <- sub("(?s)^.*\n## Tables\n(.*?)\n## .*$", "\\1", read_text(file.path(root, page)), perl = TRUE)
  rows <- table_rows(tables)
  expect_gt(length(rows), 50L)
  # One that is short of a cell has no place for its link.
  expect_identical(vapply(rows[lengths(rows) != 14L], `[[`, "", 1L), character())
  words <- c("yes", "part", "no", "?", "\u2013", "backend")
  expect_identical(setdiff(unlist(lapply(rows, `[`, 2:13)), words), character())
  wrong <- unlist(lapply(rows, function(row) {
    # A part may be shown by less than a test; what is claimed in full may not.
    linked <- row[[13L]] == "yes" || startsWith(row[[14L]], "[")
    if (linked) sprintf("%s: %s", row[[1L]], wrong_test(root, page, row[[14L]]))
  }))
  expect_identical(as.character(wrong), character())
})

test_that("each suite of the peers has a row, which counts as many known failures as are listed", {
  root <- doc_root()
  rows <- table_rows(read_text(file.path(root, "docs", "PEERS.md")))
  rows <- Filter(function(row) startsWith(row[[1L]], "`"), rows)
  named <- gsub("`", "", vapply(rows, `[[`, "", 1L))
  scripts <- sub("^peers-(.*)[.]sh$", "\\1", list.files(file.path(root, "tools"), "^peers-.*[.]sh$"))
  expect_identical(sort(named), sort(setdiff(scripts, "lib")))
  counted <- grepl("^[0-9]+$", vapply(rows, `[[`, "", 4L))
  expect_identical(named[!counted], "rcppthread-users")
  known <- vapply(named[counted], function(name) {
    file <- file.path(root, "tools", sprintf("peers-%s.known", name))
    if (file.exists(file)) sum(grepl("^[^#].*\t", readLines(file, encoding = "UTF-8"))) else 0L
  }, 0L)
  expect_identical(vapply(rows[counted], `[[`, "", 5L), unname(as.character(known)))
})

test_that("the checks of this file find what they look for", {
  root <- withr::local_tempdir()
  dir.create(file.path(root, "R"))
  writeLines(c("here <- function() 1", "  away(1)"), file.path(root, "R", "a.R"))
  page <- file.path(root, "page.md")
  text <- paste(
    "# One heading", "`R/a.R`, `R/b.R`, `here()` and `away()` in `R/a.R`,",
    "[good](page.md#one-heading) [bad](gone.md) [worse](#nowhere) [web](https://example.org)",
    sep = "\n"
  )
  writeLines(text, page)
  expect_identical(missing_paths(root, text), "R/b.R")
  tests <- c("test_that(\"it works\", {", "test_that(paste(\"it goes on:\", a), {", "TEST(it_ends) {")
  writeLines(tests, file.path(root, "test.R"))
  expect_null(wrong_test(root, "page.md", "[it works](test.R), on: [it_ends](test.R)"))
  expect_null(wrong_test(root, "page.md", "[it goes on:](test.R)"))
  expect_identical(wrong_test(root, "page.md", "[it works](test.R), [it fails](test.R)"), "has no such test")
  expect_identical(wrong_test(root, "page.md", "[it fails](test.R)"), "has no such test")
  expect_identical(wrong_test(root, "page.md", "[it works](tests.R)"), "has no file")
  expect_identical(wrong_test(root, "page.md", ""), "is no link")
  expect_identical(table_rows("| |b|\n|---|---|\n| c | [d](e) |\n|f|"), list(c("c", "[d](e)"), "f"))
  expect_identical(misplaced_functions(root, text), "away() in R/a.R")
  expect_identical(broken_links(page, text), c("gone.md", "#nowhere"))
  expect_identical(
    site_contents(c("a:", "- x", "b:", "- t:", "  contents: [c,", "    d]", "  contents:", "  - e", "g:", "  - h"), "b"),
    c("c", "d", "e")
  )
  expect_identical(
    cited_vignettes("`vignette(\"a\", \"regatta\")`, \\code{vignette(\"b-c\", package = \"regatta\")}"), c("a", "b-c")
  )
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
