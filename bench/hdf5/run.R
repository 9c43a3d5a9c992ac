# Claim: statistics of a matrix in an HDF5 file take at most 1.15 times what inflating its chunks takes, for
# both margins, with one thread and with two, and are several times as fast as what Bioconductor does. What is
# compared with inflating is processor time, which other load does not change.
# The files are made once, in the folder that REGATTA_BENCH_FILES names or in a temporary one.
source("bench/bench.R")
source("bench/hdf5-common/files.R")

# As in the post, or a twentieth of it.
extent <- if (bench_short) c(6000, 5000) else c(30000, 20000)
rounds <- as.integer(Sys.getenv("REGATTA_BENCH_ROUNDS", if (bench_short) "5" else "3"))

folder <- file.path(hdf5_folder, paste(extent, collapse = "x"))
hdf5_make(file.path(folder, "zeros.h5"), "bench/hdf5/make.py", folder, extent[[1L]], extent[[2L]])

# The limit needs a C compiler and both libraries.
flags <- function(what) {
  for (name in c("hdf5-serial", "hdf5")) {
    found <- suppressWarnings(system2("pkg-config", c(what, name), stdout = TRUE, stderr = FALSE))
    if (is.null(attr(found, "status"))) return(found)
  }
  ""
}
library_path <- file.path(tempdir(), paste0("limit", .Platform$dynlib.ext))
command <- paste("cc -O2 -fPIC -shared", flags("--cflags"), "bench/hdf5/limit.c -o", shQuote(library_path),
  flags("--libs"), "-ldeflate -pthread")
limited <- system(command, ignore.stderr = TRUE) == 0L
if (limited) dyn.load(library_path) else cat("skipped: limit, cannot be compiled:", command, "\n")

limit <- function(threads) {
  force(threads)
  function() if (.C("limit_inflate", threads, 0)[[2L]] == 0) stop("a chunk of the file is damaged")
}

h5py_script <- tempfile(fileext = ".py")
writeLines(c(
  "import sys, h5py, numpy as np", "from concurrent.futures import ProcessPoolExecutor",
  "path, workers = sys.argv[1], int(sys.argv[2])",
  "def part(at):", "    with h5py.File(path, 'r') as f: return f['counts'][at:at + 1000].sum(axis=1, dtype='i8')",
  "with h5py.File(path, 'r') as f: lines = range(0, f['counts'].shape[0], 1000)",
  "if workers == 1: sums = [part(at) for at in lines]",
  "else:", "    with ProcessPoolExecutor(workers) as pool: sums = list(pool.map(part, lines))",
  "print(int(np.concatenate(sums).sum()))"
), h5py_script)
h5py <- function(path, workers) function() as.numeric(system2(hdf5_python, shQuote(c(h5py_script, path, workers)), stdout = TRUE))

delayed <- function(path, how) {
  suppressPackageStartupMessages({
    library(DelayedMatrixStats)
    library(HDF5Array)
  })
  # After those, whose colSums2() and friends would be masked by none of ours.
  x <- HDF5Array(path, "counts")
  part <- function(i) DelayedMatrixStats::colSums2(x, cols = i:min(i + 999, ncol(x)))
  switch(how,
    serial = function() DelayedMatrixStats::colSums2(x),
    medians = function() DelayedMatrixStats::colMedians(x),
    lapply = function() unlist(lapply(seq(1, ncol(x), by = 1000), part)),
    mclapply = function() unlist(parallel::mclapply(seq(1, ncol(x), by = 1000), part, mc.cores = 2L))
  )
}

statistics <- list(
  "column sums" = list(margin = 2, stats = "sum"), "row sums" = list(margin = 1, stats = "sum"),
  "sums of both" = list(margin = 1:2, stats = "sum"),
  "sums and variances of both" = list(margin = 1:2, stats = c("sum", "var")),
  "five statistics of both" = list(margin = 1:2, stats = c("sum", "var", "min", "max", "nnz")),
  # Selecting takes longer than inflating, and is not what the claim is of.
  "column medians" = list(margin = 2, stats = "median"), "row medians" = list(margin = 1, stats = "median")
)
aimed <- function(cell) !grepl("medians", cell)
ours <- function(m, what, threads) {
  force(threads)
  function() regatta::h5_stats(m, what$margin, what$stats, threads = threads)
}

# Each call of a peer also leaves its processor time, that of children included which somebody has waited for:
# mclapply() leaves some that nobody has.
spent <- new.env()
with_processor_time <- function(peers) {
  Map(function(name, peer) {
    function() {
      before <- proc.time()
      value <- peer()
      after <- proc.time()
      spent[[name]] <- c(spent[[name]], sum((after - before)[c("user.self", "sys.self", "user.child", "sys.child")]))
      invisible(value)
    }
  }, names(peers), peers)
}

rows <- NULL
for (file in c("post.h5", "zeros.h5")) {
  path <- file.path(folder, file)
  label <- if (file == "post.h5") "the post's file" else "93% zeros"
  m <- regatta::h5_matrix(path, "counts", dimnames = FALSE)
  if (limited && .C("limit_load", path, "counts", 0L)[[3L]] != 0L) stop("the limit cannot read ", path)
  for (name in names(statistics)) {
    what <- statistics[[name]]
    peers <- list("regatta, 1 thread" = ours(m, what, 1L), "regatta, 2 threads" = ours(m, what, 2L))
    if (limited) peers <- c(peers, list("inflating alone, 1 thread" = limit(1L), "inflating alone, 2 threads" = limit(2L)))
    if (name == "column sums") {
      if (nzchar(hdf5_python)) {
        peers <- c(peers, list("h5py, 1 process" = h5py(path, 1L), "h5py, 2 processes" = h5py(path, 2L)))
      }
      for (how in c("serial", "lapply", "mclapply")) {
        peer <- paste0("DelayedMatrixStats, ", c(serial = "serial", lapply = "lapply by 1000", mclapply = "mclapply by 1000")[[how]])
        one <- bench_peer(peer, hdf5_bioconductor, NULL)
        if (length(one) > 0L) peers[[peer]] <- delayed(path, how)
      }
      total <- sum(peers[[1L]]()$sum)
      for (peer in grep("h5py|Delayed", names(peers), value = TRUE)) {
        if (!isTRUE(all.equal(sum(peers[[peer]]()), total))) stop(peer, " has other sums")
      }
    }
    if (name == "column medians" && length(bench_peer("DelayedMatrixStats, serial", hdf5_bioconductor, NULL)) > 0L) {
      peers[["DelayedMatrixStats, serial"]] <- delayed(path, "medians")
      if (!identical(peers[[1L]]()$median, as.double(peers[["DelayedMatrixStats, serial"]]()))) {
        stop("DelayedMatrixStats has other medians")
      }
    }
    rm(list = ls(spent), envir = spent)
    samples <- bench_measure(with_processor_time(peers), rounds, warm = 0L)
    processor <- vapply(names(peers), function(peer) spent[[peer]], numeric(rounds))
    dim(processor) <- dim(samples)
    dimnames(processor) <- dimnames(samples)
    processor <- processor[, !grepl("mclapply", colnames(processor)), drop = FALSE]
    rows <- rbind(
      rows, bench_print(bench_summary(paste0(name, ", ", label), samples)),
      bench_print(bench_summary(paste0(name, ", ", label, ", processor time"), processor))
    )
  }
}
if (limited) .C("limit_free")

cat("\n")
for (cell in Filter(aimed, grep("processor time$", unique(rows$cell), value = TRUE))) {
  here <- rows[rows$cell == cell, ]
  for (threads in c("1 thread", "2 threads")) {
    if (limited) {
      ratio <- bench_ratio(here, paste("regatta,", threads), paste("inflating alone,", threads))
      bench_aim(sprintf("%s, %s, times inflating alone", cell, threads), ratio, 1.15)
    }
  }
}
bench_write("hdf5", rows)
