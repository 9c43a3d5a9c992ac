# Runs the unit tests of the installed BiocParallel with RegattaParam() in the place of its MulticoreParam(),
# SnowParam() and BatchJobsParam(), and with registerDoRegatta() under its DoparParam(), and writes the cases to
# .build/peers/biocparallel.tsv. A case is a test function.
suppressPackageStartupMessages({
  library(BiocParallel)
  library(regatta)
})
folder <- system.file("unitTests", package = "BiocParallel")

# What only the one or the other of them has is left out.
as_ours <- function(formals_of, ...) {
  function(...) {
    args <- as.list(match.call(formals_of, sys.call())[-1L])
    known <- names(args) %in% names(formals(RegattaParam))
    do.call(RegattaParam, args[known], envir = parent.frame())
  }
}

environment_of <- function() {
  env <- new.env(parent = globalenv())
  env$MulticoreParam <- as_ours(BiocParallel::MulticoreParam)
  env$SnowParam <- as_ours(BiocParallel::SnowParam)
  env$BatchJobsParam <- function(workers, ...) RegattaParam(workers)
  env$DEACTIVATED <- function(msg = "") stop(structure(class = c("deactivated", "error", "condition"),
    list(message = msg, call = NULL)))
  if (!requireNamespace("batchtools", quietly = TRUE)) {
    env$BatchtoolsParam <- function(...) env$DEACTIVATED("package batchtools is not installed")
  }
  for (name in grep("^check", getNamespaceExports("RUnit"), value = TRUE)) {
    assign(name, getExportedValue("RUnit", name), envir = env)
  }
  env
}

# Tests call closeAllConnections(), which ends a sink and takes its connection away as well: what they print goes
# where it goes.
run_case <- function(fun) {
  setTimeLimit(elapsed = 120, transient = TRUE)
  on.exit({
    setTimeLimit()
    foreach::registerDoSEQ()
  })
  one <- function(result, why) {
    data.frame(result = result, why = gsub("[[:space:]]+", " ", substr(paste(why, collapse = " "), 1L, 200L)))
  }
  tryCatch({
    suppressMessages(suppressWarnings(fun()))
    one("passed", "")
  },
  deactivated = function(e) one("skipped", conditionMessage(e)),
  error = function(e) one("failed", conditionMessage(e)))
}

# What foreach() runs on in the tests of DoparParam(): the nodes that they make, by this package.
as_backend <- function(lines) {
  gsub("doParallel::registerDoParallel(", "regatta::registerDoRegatta(", lines, fixed = TRUE)
}

run_file <- function(name) {
  env <- environment_of()
  lines <- as_backend(readLines(file.path(folder, sprintf("test_%s.R", name))))
  suppressMessages(for (code in parse(text = lines)) eval(code, env))
  tests <- setdiff(grep("^test_", ls(env), value = TRUE), of_others)
  cbind(case = sprintf("%s: %s", name, tests), do.call(rbind, lapply(tests, function(test) run_case(env[[test]]))))
}

# Files that are left out make no param of those above: bpvalidate, bploop and utilities are about functions within
# BiocParallel, BiocParallelParam about its virtual class, SerialParam and BatchtoolsParam about those params. So are
# these tests of the files that are run: of clusters of snow and MPI made into a SnowParam(), of its types of nodes, and
# of its cache of messages.
of_others <- c(
  "test_SnowParam_MPI", "test_SnowParam_coerce_from_SOCK", "test_SnowParam_coerce_from_MPI", "test_SnowParam_workers",
  "test_SnowParam_taskCache"
)
files <- c("BatchJobsParam", "DoparParam", "MulticoreParam", "SnowParam", "bpaggregate", "bpexportglobals", "bpiterate",
  "bplapply", "bpmapply", "bpoptions", "bpvec", "bpvectorize", "errorhandling", "internal_rng_stream", "ipcmutex",
  "logging", "refclass", "rng")
cases <- do.call(rbind, lapply(files, run_file))
path <- file.path(Sys.getenv("PEERS_DIR", ".build/peers"), "biocparallel.tsv")
writeLines(sprintf("%s\t%s\t%s", cases$case, cases$result, cases$why), path)
