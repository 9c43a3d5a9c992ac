# Claim: a C++ file with one loop compiles no slower than one that includes Rcpp. Measured is processor
# time, of compiler and linker; sizes are those of the stripped libraries.
source("bench/bench.R")

programs <- list(
  regatta = c(
    "#include <regatta/regatta.hpp>",
    "extern \"C\" SEXP fill(SEXP x) {",
    "  return regatta::entry([=] {",
    "    double* const values = REAL(x);",
    "    regatta::parallelFor(R_xlen_t(0), Rf_xlength(x), [=](R_xlen_t i) { values[i] *= 2; });",
    "    return x;",
    "  });",
    "}"),
  RcppThread = c(
    "#include <RcppThread.h>",
    "extern \"C\" SEXP fill(SEXP x) {",
    "  double* const values = REAL(x);",
    "  RcppThread::parallelFor(0, (int) Rf_xlength(x), [=](int i) { values[i] *= 2; });",
    "  return x;",
    "}"),
  RcppParallel = c(
    "#include <R.h>", "#include <Rinternals.h>", "#include <RcppParallel.h>",
    "struct Fill : RcppParallel::Worker {",
    "  double* values;",
    "  void operator()(std::size_t begin, std::size_t end) {",
    "    for (std::size_t i = begin; i < end; ++i) values[i] *= 2;",
    "  }",
    "};",
    "extern \"C\" SEXP fill(SEXP x) {",
    "  Fill fill;",
    "  fill.values = REAL(x);",
    "  RcppParallel::parallelFor(0, Rf_xlength(x), fill);",
    "  return x;",
    "}"),
  Rcpp = c(
    "#include <Rcpp.h>",
    "extern \"C\" SEXP fill(SEXP x) {",
    "  Rcpp::NumericVector values(x);",
    "  for (R_xlen_t i = 0; i < values.size(); ++i) values[i] *= 2;",
    "  return values;",
    "}")
)

dir <- tempfile("threads-compile-")
dir.create(dir)
config <- function(what) {
  scan(text = system2(file.path(R.home("bin"), "R"), c("CMD", "config", what), stdout = TRUE),
    what = "", quiet = TRUE)
}
# The time of a compiler, and not of a cache that knows the answer.
compiler <- setdiff(config("CXX"), "ccache")
arguments <- c(compiler[-1L], "-O2", "-g0", "-shared", "-fPIC", "-pthread", config("--cppflags"))
library_of <- function(name) file.path(dir, paste0(name, .Platform$dynlib.ext))

compile <- function(name) {
  source <- file.path(dir, paste0(name, ".cpp"))
  writeLines(programs[[name]], source)
  include <- paste0("-I", system.file("include", package = name))
  function() {
    before <- proc.time()
    status <- system2(compiler[[1L]], c(arguments, include, source, "-o", library_of(name)))
    if (status != 0L) stop("the compiler refuses the program for ", name)
    used <- proc.time() - before
    used[["user.child"]] + used[["sys.child"]]
  }
}

peers <- do.call(c, lapply(names(programs), function(name) bench_peer(name, name, compile(name))))
rounds <- if (bench_short) 1L else 5L
rows <- bench_print(bench_summary("One loop, compiled and linked",
  bench_measure(peers, rounds, timer = function(peer) peer())))
system2("strip", vapply(names(peers), library_of, ""))
rows$bytes <- file.size(vapply(names(peers), library_of, ""))
cat(sprintf("  %-12s %4.0f kB\n", rows$peer, rows$bytes / 1000), sep = "")
bench_write("threads-compile", rows)
unlink(dir, recursive = TRUE)
