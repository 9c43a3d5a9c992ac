# Compiles the driver with every peer that this machine has and loads it into this process.

bench_root <- function(common) normalizePath(file.path(common, "..", ".."))

compiles <- function(code, flags = "") {
  folder <- tempfile("probe")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  writeLines(c("CXX_STD = CXX17", paste("PKG_CXXFLAGS =", flags), paste("PKG_LIBS =", flags)),
             file.path(folder, "Makevars"))
  writeLines(code, file.path(folder, "probe.cpp"))
  run_shlib(folder, "probe.so")$status == 0L
}

run_shlib <- function(folder, target) {
  old <- setwd(folder)
  on.exit(setwd(old))
  sources <- list.files(pattern = "[.]cpp$")
  output <- suppressWarnings(system2(file.path(R.home("bin"), "R"),
                                     c("CMD", "SHLIB", "-o", target, sources),
                                     stdout = TRUE, stderr = TRUE))
  status <- attr(output, "status")
  list(status = if (is.null(status)) 0L else status, output = output)
}

package_include <- function(package) {
  if (!requireNamespace(package, quietly = TRUE)) return(NULL)
  system.file("include", package = package, mustWork = TRUE)
}

tbb_version <- function() {
  code <- c("#include <tbb/version.h>", "#include <cstdio>",
            "extern \"C\" void probe(char** out) {",
            "  std::snprintf(out[0], 20, \"%d.%d\", TBB_VERSION_MAJOR, TBB_VERSION_MINOR);", "}")
  folder <- tempfile("tbb")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  writeLines(code, file.path(folder, "probe.cpp"))
  if (run_shlib(folder, "probe.so")$status != 0L) return(NA_character_)
  dll <- dyn.load(file.path(folder, "probe.so"))
  on.exit(dyn.unload(dll[["path"]]), add = TRUE, after = FALSE)
  .C(dll$probe, strrep(" ", 20L))[[1L]]
}

compiler_version <- function() {
  cxx <- strsplit(system2(file.path(R.home("bin"), "R"), c("CMD", "config", "CXX17"),
                          stdout = TRUE)[[1L]], " ")[[1L]]
  system2(cxx[[1L]], c(cxx[-1L], "--version"), stdout = TRUE)[[1L]]
}

# One entry per source file of a peer: its version, and the flags for its own file and for linking.
# A peer that is missing has `missing`, which says what to install.
find_peers <- function(root) {
  include <- function(path) if (is.null(path)) "" else paste0("-I", shQuote(path))
  rcppthread <- package_include("RcppThread")
  rcppparallel <- package_include("RcppParallel")
  tbb <- compiles("#include <tbb/global_control.h>\n#include <tbb/version.h>", "-ltbb")
  openmp <- compiles("#include <omp.h>\nint f() { return omp_get_max_threads(); }", "-fopenmp")
  version <- function(package) {
    if (is.null(package_include(package))) NA_character_ else format(packageVersion(package))
  }
  list(
    serial = list(version = "", covers = yardsticks),
    regatta = list(version = read.dcf(file.path(root, "DESCRIPTION"), "Version")[[1L]],
                   covers = "regatta", cpp = include(file.path(root, "inst", "include"))),
    rcppthread = list(version = version("RcppThread"), covers = "RcppThread",
                      cpp = include(rcppthread),
                      missing = if (is.null(rcppthread)) "the package RcppThread"),
    rcppparallel = list(version = version("RcppParallel"), covers = "RcppParallel",
                        cpp = include(rcppparallel), libs = rcppparallel_libs(rcppparallel),
                        missing = if (is.null(rcppparallel)) "the package RcppParallel"),
    tbb = list(version = if (tbb) tbb_version() else NA, covers = "oneTBB", libs = "-ltbb",
               missing = if (!tbb) "oneTBB (libtbb-dev)"),
    openmp = list(version = if (openmp) compiler_version() else NA, cpp = "-fopenmp",
                  covers = c("OpenMP static", "OpenMP dynamic", "OpenMP guided", "OpenMP task"),
                  libs = "-fopenmp", missing = if (!openmp) "a compiler with OpenMP")
  )
}

rcppparallel_libs <- function(found) {
  if (is.null(found)) return("")
  paste(utils::capture.output(RcppParallel::RcppParallelLibs()), collapse = " ")
}

write_makevars <- function(folder, peers, root) {
  own_flags <- vapply(names(peers), function(name) {
    flags <- peers[[name]]$cpp
    if (is.null(flags)) "" else sprintf("peer-%s.o: PKG_CPPFLAGS += %s", name, flags)
  }, "")
  libs <- unlist(lapply(peers, `[[`, "libs"))
  kernels <- file.path(root, "examples", "threadstats", "src")
  writeLines(c("CXX_STD = CXX17",
               paste0("PKG_CPPFLAGS = -I", shQuote(kernels)),
               "PKG_CXXFLAGS = -O2 -pthread", own_flags[nzchar(own_flags)],
               paste("PKG_LIBS = -pthread", paste(unique(libs), collapse = " "))),
             file.path(folder, "Makevars"))
}

build_driver <- function(common) {
  root <- bench_root(common)
  peers <- find_peers(root)
  absent <- Filter(function(peer) !is.null(peer$missing), peers)
  for (peer in absent) message("skipped: ", toString(peer$covers), " (needs ", peer$missing, ")")
  peers <- peers[setdiff(names(peers), names(absent))]

  folder <- tempfile("bench-threads")
  dir.create(folder)
  sources <- c("driver.cpp", sprintf("peer-%s.cpp", names(peers)))
  headers <- list.files(common, pattern = "[.](h|hpp)$")
  file.copy(file.path(common, c(sources, headers)), folder)
  write_makevars(folder, peers, root)
  built <- run_shlib(folder, "bench_threads.so")
  if (built$status != 0L) {
    stop("the benchmark driver does not compile:\n", paste(built$output, collapse = "\n"))
  }
  dll <- dyn.load(file.path(folder, "bench_threads.so"))
  versions <- unlist(lapply(unname(peers), function(peer) {
    stats::setNames(rep(peer$version, length(peer$covers)), peer$covers)
  }))
  list(dll = dll, versions = versions)
}
