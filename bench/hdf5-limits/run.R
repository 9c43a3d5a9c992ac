# Claim: a file of 60,000 chunks is open, and one of its elements read, within 0.1 s; column sums need at most 64 MiB
# besides their result, however many threads take part; two workers write a file 1.8 times as fast as one.
source("bench/bench.R")
source("bench/hdf5-common/files.R")
source("bench/hdf5-common/peers.R")

path <- file.path(hdf5_post_files(), "post.h5")
last <- hdf5_extent
there <- length(bench_peer("HDF5Array", hdf5_bioconductor, NULL)) > 0L
if (there) hdf5_attach()

# Opened anew each time: nothing of a file is kept between calls, but that it was tried. With another time it is a file
# that was not.
opening <- list("regatta" = function() {
  Sys.setFileTime(path, Sys.time())
  regatta::h5_matrix(path, "counts")[last[[1L]], last[[2L]]]
})
if (there) opening[["HDF5Array"]] <- function() HDF5Array(path, "counts")[last[[1L]], last[[2L]]]
cell <- sprintf("a file of %s chunks opened, one element read", format(prod(hdf5_extent) / 1e4, big.mark = ","))
rows <- bench_cell(cell, opening, same = TRUE)
bench_aim("seconds until it is open and read", rows$median_s[[1L]], 0.1)

# In a session of its own, which has seen a call before: bytes between what is resident before a call and the most
# that was while it ran, without the result. A call is the margins and statistics of h5_stats().
peak_script <- hdf5_script("peak.R", c(
  "arguments <- commandArgs(TRUE)", "status <- function(field) {",
  "  1024 * as.numeric(gsub('[^0-9]', '', grep(field, readLines('/proc/self/status'), value = TRUE)))", "}",
  "threads <- as.integer(arguments[[2L]])", "margins <- as.integer(strsplit(arguments[[3L]], '')[[1L]])",
  "wanted <- strsplit(arguments[[4L]], ',')[[1L]]",
  "if (threads > 0) {",
  "  x <- suppressWarnings(regatta::h5_matrix(arguments[[1L]], 'counts', dimnames = FALSE))",
  "  small <- regatta::h5_stats(x, 2, wanted, columns = 1:2, threads = threads)",
  "  call <- function() regatta::h5_stats(x, margins, wanted, threads = threads)",
  "} else {", "  suppressPackageStartupMessages({ library(DelayedMatrixStats); library(HDF5Array) })",
  "  x <- HDF5Array(arguments[[1L]], 'counts')", "  small <- DelayedMatrixStats::colSums2(x, cols = 1:2)",
  "  call <- function() DelayedMatrixStats::colSums2(x)",
  "}", "invisible(gc())", "cat('5', file = '/proc/self/clear_refs')", "before <- status('VmRSS')",
  "all <- call()", "cat(status('VmHWM') - before - as.numeric(object.size(all)))"
))
peak <- function(threads, margins = "2", wanted = "sum") {
  script <- c("--vanilla", shQuote(c(peak_script, path, threads, margins, wanted)))
  found <- system2(file.path(R.home("bin"), "Rscript"), script, stdout = TRUE)
  as.numeric(utils::tail(found, 1L))
}
threads <- c(1L, 2L, 8L, 32L)
peaks <- stats::setNames(vapply(threads, peak, 0), sprintf("regatta, %d thread%s", threads, ifelse(threads == 1L, "", "s")))
if (there) peaks[["DelayedMatrixStats, serial"]] <- peak(0)
memory <- bench_summary("bytes of memory for column sums, at the most", t(peaks))
print(memory[c("peer", "median_s")], row.names = FALSE)
bench_aim("memory besides the result, MiB", max(peaks[seq_along(threads)]) / 2^20, 64)
rows <- rbind(rows, memory)
other <- list("row sums" = c("1", "sum"), "sums of both" = c("12", "sum"),
  "five statistics of both" = c("12", "sum,var,min,max,nnz"), "column medians" = c("2", "median"))
for (name in names(other)) {
  peaks <- vapply(1:2, function(threads) peak(threads, other[[name]][[1L]], other[[name]][[2L]]), 0)
  names(peaks) <- c("regatta, 1 thread", "regatta, 2 threads")
  memory <- bench_summary(sprintf("bytes of memory for %s, at the most", name), t(peaks))
  print(memory[c("peer", "median_s")], row.names = FALSE)
  # Medians take what `memory` of h5_stats() says.
  if (name != "column medians") bench_aim(sprintf("memory besides the result, %s, MiB", name), max(peaks) / 2^20, 64)
  rows <- rbind(rows, memory)
}

# Random numbers are made by the workers, too.
write_with <- function(workers) {
  force(workers)
  function() {
    to <- tempfile(tmpdir = hdf5_folder, fileext = ".h5")
    on.exit(unlink(to))
    size <- if (bench_short) c(3000, 5000) else c(15000, 10000)
    regatta::h5_fill(to, "counts", size, type = "int32", chunk = c(100, 100), level = 3, shuffle = FALSE,
      f = function(rows, columns) sample.int(100, length(rows) * length(columns), replace = TRUE),
      .control = regatta::par_control(workers = workers, seed = 1))
  }
}
written <- bench_cell("a matrix of random numbers written", list("regatta, 1 worker" = write_with(1L),
  "regatta, 2 workers" = write_with(2L)), rounds = if (bench_short) 5L else 3L)
bench_aim("two workers, times one", bench_ratio(written, "regatta, 2 workers", "regatta, 1 worker"), 1 / 1.8)
rows <- rbind(rows, written)
bench_write("hdf5-limits", rows)
