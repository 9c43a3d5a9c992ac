# Claim: without libdeflate, inflating by zlib, column sums of the post's file by two threads are still 3.5 times as fast
# as those of DelayedMatrixStats. Builds this package so into a folder of its own.
source("bench/bench.R")
source("bench/hdf5-common/files.R")
source("bench/hdf5-common/peers.R")

folder <- hdf5_post_files()
library_path <- file.path(tempdir(), "zlib")
sources <- file.path(tempdir(), "sources")
dir.create(library_path)
dir.create(sources)
# A tree in which somebody has built has objects that know of libdeflate.
file.copy(setdiff(list.files("."), c("bench", "tests", "docs", "examples")), sources, recursive = TRUE)
unlink(Sys.glob(file.path(sources, "src", c("*.o", "*.so", "Makevars"))))
built <- withVisible(system2(file.path(R.home("bin"), "R"), c("CMD", "INSTALL", "--no-docs", "--no-test-load", "-l",
  shQuote(library_path), shQuote(sources)), env = "REGATTA_LIBDEFLATE=no", stdout = FALSE, stderr = FALSE))$value
if (built != 0L) stop("the package cannot be built with REGATTA_LIBDEFLATE=no", call. = FALSE)

# The seconds that a session of its own says.
script <- hdf5_script("sums.R", c(
  "arguments <- commandArgs(TRUE)", "library(regatta, lib.loc = arguments[[2L]])",
  "stopifnot(grepl('^zlib', attr(h5_available(), 'inflate')))",
  "m <- h5_matrix(arguments[[1L]], 'counts', dimnames = FALSE)", "warm <- h5_col_sums(m, columns = 1, threads = 2L)",
  "cat(system.time(h5_col_sums(m, threads = 2L))[['elapsed']])"
))
ours <- function(path) {
  function() {
    found <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", shQuote(c(script, path, library_path))), stdout = TRUE)
    as.numeric(utils::tail(found, 1L))
  }
}
timer <- function(peer) {
  said <- NULL
  elapsed <- bench_elapsed(function() said <<- peer())
  if (length(said) == 1L) said else elapsed
}

there <- length(bench_peer("DelayedMatrixStats, serial", hdf5_bioconductor, NULL)) > 0L
rows <- NULL
for (file in c("post.h5", "genes.h5")) {
  path <- file.path(folder, file)
  label <- if (file == "post.h5") "the post's file" else "93% zeros"
  peers <- list("regatta with zlib, 2 threads" = ours(path))
  if (there) peers[["DelayedMatrixStats, serial"]] <- hdf5_delayed(path, "serial")
  here <- bench_cell(paste0("column sums, ", label), peers, if (bench_short) 5L else 3L, timer = timer, warm = 0L)
  if (there) {
    bench_aim(paste0("column sums, ", label, ", times DelayedMatrixStats"),
      bench_ratio(here, "regatta with zlib, 2 threads", "DelayedMatrixStats, serial"), 1 / 3.5)
  }
  rows <- rbind(rows, here)
}
bench_write("hdf5-zlib", rows)
