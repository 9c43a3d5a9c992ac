# The lines of vignettes/coming.Rmd, both columns of its tables: what is written there and what is written here give the
# same values, where the last column does not begin with what else they give.
detritus <- detritus_snapshot()

page <- file.path(Sys.getenv("REGATTA_SOURCE", "."), "vignettes", "coming.Rmd")
if (!file.exists(page)) page <- system.file("doc", "coming.Rmd", package = "regatta")

# For each section its chunk of code and the rows of its table: there, here, whether they give the same.
page_tables <- function(lines) {
  starts <- grep("^## ", lines)
  sections <- Map(function(from, to) lines[from:to], starts, c(starts[-1L] - 1L, length(lines)))
  names(sections) <- sub("^## ", "", lines[starts])
  lapply(sections, function(text) {
    cells <- strsplit(grep("^\\| `", text, value = TRUE), " *\\| *")
    code <- function(cell) sub("^.*?`(.*)`$", "\\1", cell, perl = TRUE)
    chunk <- cumsum(startsWith(text, "```")) %% 2L == 1L & !startsWith(text, "```")
    list(chunk = text[chunk], rows = lapply(cells, function(cell) {
      list(there = code(cell[[2L]]), here = code(cell[[3L]]), same = !startsWith(c(cell, "", "")[[4L]], "("))
    }))
  })
}

named_packages <- function(code) {
  unique(sub("::", "", unlist(regmatches(code, gregexpr("[A-Za-z.]+::", code)))))
}

# The values of both columns of one table, in a session of its own.
run_table <- function(chunk, rows) {
  fault_run(function(objects, chunk, rows) {
    eval(parse(text = c(objects, chunk)), globalenv())
    lapply(rows, function(row) {
      value <- function(code) suppressWarnings(eval(parse(text = code), globalenv()))
      here <- value(row$here)
      there <- if (row$is_there) value(row$there)
      if (row$same) list(there = there, here = here)
    })
  }, list(objects, chunk, rows), timeout = 120 * slowness())
}

lines <- if (file.exists(page)) readLines(page, encoding = "UTF-8")
tables <- page_tables(lines)
objects <- lines[grep("^x <- ", lines) + 0:2]
is_installed <- function(package) nzchar(system.file(package = package))

for (section in setdiff(names(tables), "RcppThread and RcppParallel")) {
  test_that(paste("both columns run and give the same:", section), {
    withr::local_preserve_seed()
    # Where processes that are started from here find the packages.
    withr::local_envvar(R_LIBS = paste(.libPaths(), collapse = ":"))
    table <- tables[[section]]
    expect_gt(length(table$rows), 5L)
    missing <- character()
    rows <- lapply(table$rows, function(row) {
      absent <- Filter(Negate(is_installed), c(named_packages(row$there), if (grepl("%dopar%", row$there)) "foreach"))
      missing <<- union(missing, absent)
      c(row, is_there = length(absent) == 0L)
    })
    got <- run_table(if (!"foreach" %in% missing) table$chunk, rows)
    expect_null(got$error, label = paste(got$stderr, collapse = "\n"))
    for (i in which(vapply(rows, function(row) row$is_there && row$same, NA))) {
      expect_equal(got$value[[i]]$here, got$value[[i]]$there, label = rows[[i]]$here)
    }
    skip_if(length(missing) > 0L, paste("not installed:", toString(missing)))
  })
}

# What the pieces of C++ leave in `out`, one after the other: compiled into a library by `flags` and called in a session
# of its own.
run_cpp <- function(codes, headers, flags, env = parent.frame()) {
  body <- function(k, code) {
    c(sprintf("std::vector<int> piece%d() {", k), "  std::vector<int> out(8);",
      "  struct Fill : RcppParallel::Worker {", "    std::vector<int>& out;",
      "    explicit Fill(std::vector<int>& o) : out(o) {}",
      "    void operator()(std::size_t begin, std::size_t end) {",
      "      for (std::size_t i = begin; i < end; i++) out[i] = static_cast<int>(i);", "    }", "  } fill(out);",
      "  (void)fill;", paste0("  ", code), "  return out;", "}")
  }
  pieces <- seq_along(codes)
  file <- withr::local_tempfile(fileext = ".cpp", .local_envir = env)
  writeLines(c(
    headers, "#include <vector>", unlist(Map(body, pieces, codes)),
    "extern \"C\" SEXP pieces() {", sprintf("  SEXP result = PROTECT(Rf_allocMatrix(INTSXP, 8, %d));", length(codes)),
    "  int* to = INTEGER(result);", sprintf("  for (int value : piece%d()) *to++ = value;", pieces),
    "  UNPROTECT(1);", "  return result;", "}"
  ), file)
  library <- threads_compile(file, flags = flags, env = env)
  fault_run(function(library) .Call(getNativeSymbolInfo("pieces", dyn.load(library))), list(library))$value
}

# Both columns in one program, which has no name of RcppThread and RcppParallel but those of regatta. Where the packages
# themselves are installed, what is written there is compiled against their own headers, too, RcppParallel's with the
# threads that it has beside TBB, which would have to be linked.
test_that("both columns of C++ compile and do the same, and so does the first by the packages' own headers", {
  rows <- tables[["RcppThread and RcppParallel"]]$rows
  expect_gt(length(rows), 5L)
  there <- vapply(rows, `[[`, "", "there")
  here <- vapply(rows, `[[`, "", "here")
  compat <- system.file("include", "regatta", "compat", package = "regatta")
  got <- run_cpp(c(there, here), c(
    "#include <RcppThread.h>", "#include <regatta/regatta.hpp>", "#include <regatta/compat/rcppparallel.hpp>",
    "namespace RcppParallel = regatta::rcppparallel;"
  ), paste0("-I", compat))
  expect_identical(got[, seq_along(there)], got[, -seq_along(there)])
  packages <- c("Rcpp", "RcppParallel", "RcppThread")
  missing <- Filter(Negate(is_installed), packages)
  skip_if(length(missing) > 0L, paste("not installed:", toString(missing)))
  folders <- vapply(packages, function(package) system.file("include", package = package), "")
  theirs <- run_cpp(there, c("#define RCPP_PARALLEL_USE_TBB 0", "#include <Rcpp.h>", "#include <RcppThread.h>",
    "#include <RcppParallel.h>"), paste0("-I", folders))
  expect_identical(got[, seq_along(there)], theirs)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
