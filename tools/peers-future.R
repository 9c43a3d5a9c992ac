# Parts of tools/peers-future.sh.
#   Rscript tools/peers-future.R install LIB PACKAGE ...
#                                                 the newest future, with what it needs of newer versions, and others
#   Rscript tools/peers-future.R check PLACE      the tests of future.tests, into .build/peers/future.tsv
arguments <- commandArgs(TRUE)
peers <- Sys.getenv("PEERS_DIR", ".build/peers")

install <- function(lib, ...) {
  mirror <- sub("/$", "", utils::getCRANmirrors(local.only = TRUE)$URL[[1L]])
  if (identical(getOption("repos")[["CRAN"]], "@CRAN@")) options(repos = c(CRAN = mirror))
  .libPaths(c(lib, .libPaths()))
  wanted <- c("globals", "parallelly", "listenv", "future", ...)
  there <- function(names) dir.exists(file.path(lib, names))
  missing <- wanted[!there(wanted)]
  if (length(missing) > 0L) utils::install.packages(missing, lib, dependencies = NA, quiet = TRUE)
  if (!all(there(wanted))) stop("cannot be had: ", toString(wanted[!there(wanted)]))
}

# Cases have the version, so that both are told apart: "1.80.0 forks: future() - standard output".
check <- function(place) {
  suppressPackageStartupMessages(library(regatta))
  on <- switch(place, forks = NULL, pool = cluster_local(2), cluster = parallel::makePSOCKcluster(2))
  assign("on", on, globalenv())
  plan <- if (is.null(on)) "regatta" else "regatta, .on = on"
  results <- future.tests::check(plan, exit_value = FALSE, .args = character())
  cases <- lapply(unlist(results, recursive = FALSE), describe)
  cases <- do.call(rbind, cases)
  cases$case <- sprintf("%s %s: %s", utils::packageVersion("future"), place, make.unique(cases$case, " "))
  write(sprintf("%s\t%s\t%s", cases$case, cases$result, cases$why), file.path(peers, "future.tsv"), append = TRUE)
  if (!is.null(on)) parallel::stopCluster(on)
}

# All combinations of arguments of a test are one case.
describe <- function(steps) {
  text <- function(x) gsub("[[:space:]]+", " ", conditionMessage(x))
  errors <- Filter(Negate(is.null), lapply(steps, `[[`, "error"))
  skips <- Filter(Negate(is.null), lapply(steps, `[[`, "skipped"))
  why <- if (length(errors) > 0L) text(errors[[1L]]) else if (length(skips) > 0L) text(skips[[1L]]) else ""
  result <- if (length(errors) > 0L) "failed" else if (length(skips) > 0L) "skipped" else "passed"
  data.frame(case = steps[[1L]]$test$title, result = result, why = substr(why, 1L, 200L))
}

do.call(switch(arguments[[1L]], install = install, check = check), as.list(arguments[-1L]))
