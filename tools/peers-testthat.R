# Runs the testthat suite of a peer and writes its cases to .build/peers/NAME.tsv.
#   Rscript tools/peers-testthat.R NAME FOLDER [SETUP.R]
# SETUP.R is evaluated first; it may define `package`, whose functions the tests call without a
# prefix, `case_name(test)`, which gives tests a name in common that are one case, and `in_part`, TRUE if a test that
# skips a part of itself is skipped; otherwise one of which nothing was checked is.
arguments <- commandArgs(TRUE)
name <- arguments[[1L]]
folder <- arguments[[2L]]
package <- NULL
case_name <- identity
in_part <- FALSE
if (length(arguments) > 2L) source(arguments[[3L]])

suppressPackageStartupMessages(library(testthat))
results <- test_dir(folder,
  package = package, load_package = if (is.null(package)) "none" else "installed",
  reporter = "silent", stop_on_failure = FALSE, stop_on_warning = FALSE
)
# A case is a test, or, of a test that fails, each expectation that does: what else is wrong in such a
# test is seen, too.
describe <- function(test) {
  kind <- function(class) Filter(function(r) inherits(r, class), test$results)
  text <- function(r) {
    substr(gsub("[[:space:]]+", " ", cli::ansi_strip(conditionMessage(r))), 1L, 200L)
  }
  name <- sprintf("%s: %s", sub("\\.R$", "", test$file), case_name(test$test))
  bad <- kind(c("expectation_failure", "expectation_error"))
  if (length(bad) > 0L) {
    where <- vapply(bad, function(r) {
      if (inherits(r, "expectation_error")) "error" else paste("line", r$srcref[[1L]])
    }, "")
    return(data.frame(
      case = paste0(name, ", ", where), result = "failed", why = vapply(bad, text, "")
    ))
  }
  skips <- kind("expectation_skip")
  if (length(skips) > 0L && (in_part || length(kind("expectation_success")) == 0L)) {
    return(data.frame(case = name, result = "skipped", why = text(skips[[1L]])))
  }
  data.frame(case = name, result = "passed", why = "")
}
cases <- do.call(rbind, lapply(results, describe))
# Tests in a loop have one name in common: they are one case.
cases <- cases[!duplicated(cases[c("case", "result")]), ]
path <- file.path(Sys.getenv("PEERS_DIR", ".build/peers"), paste0(name, ".tsv"))
writeLines(sprintf("%s\t%s\t%s", cases$case, cases$result, cases$why), path)
