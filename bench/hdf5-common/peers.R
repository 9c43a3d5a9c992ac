# The ways of the post that bench/hdf5 follows, and what else adds up columns of an HDF5 file: each is a function that
# returns all sums, or NULL where what it needs is not installed.

hdf5_attach <- function() {
  suppressPackageStartupMessages({
    library(DelayedMatrixStats)
    library(HDF5Array)
  })
}

# The loop of the post over blocks of `by` columns, of which `of` are asked for.
hdf5_loop <- function(x, by, of = ncol(x), loop = lapply, ...) {
  unlist(loop(seq(1, of, by = by), function(i) {
    DelayedMatrixStats::colSums2(x, cols = i:min(i + by - 1, of))
  }, ...))
}

hdf5_delayed <- function(path, how) {
  hdf5_attach()
  x <- HDF5Array(path, "counts")
  switch(how,
    serial = function() DelayedMatrixStats::colSums2(x),
    "lapply by 100" = function() hdf5_loop(x, 100),
    "lapply by 1000" = function() hdf5_loop(x, 1000),
    "mclapply by 1000" = function() hdf5_loop(x, 1000, loop = parallel::mclapply, mc.cores = 2L),
    "MulticoreParam(2)" = function() {
      before <- DelayedArray::getAutoBPPARAM()
      on.exit(DelayedArray::setAutoBPPARAM(before))
      DelayedArray::setAutoBPPARAM(BiocParallel::MulticoreParam(2L))
      DelayedMatrixStats::colSums2(x)
    }
  )
}

# Of all rows or columns, by a function of DelayedMatrixStats.
hdf5_delayed_all <- function(path, name) {
  hdf5_attach()
  f <- getExportedValue("DelayedMatrixStats", name)
  x <- HDF5Array(path, "counts")
  function() f(x)
}

hdf5_script <- function(name, lines) {
  path <- file.path(tempdir(), name)
  writeLines(lines, path)
  path
}

# h5py in so many processes, which are started within the measured time, as mclapply() starts its own.
hdf5_h5py <- function(path, workers) {
  script <- hdf5_script("column-sums.py", c( # no name of a module
    "import sys, h5py, numpy as np", "from concurrent.futures import ProcessPoolExecutor",
    "path, workers = sys.argv[1], int(sys.argv[2])",
    "def part(at):", "    with h5py.File(path, 'r') as f: return f['counts'][at:at + 1000].sum(axis=1, dtype='i8')",
    "with h5py.File(path, 'r') as f: lines = range(0, f['counts'].shape[0], 1000)",
    "if workers == 1: sums = [part(at) for at in lines]",
    "else:", "    with ProcessPoolExecutor(workers) as pool: sums = list(pool.map(part, lines))",
    "print(int(np.concatenate(sums).sum()))"
  ))
  function() as.numeric(system2(hdf5_python, shQuote(c(script, path, workers)), stdout = TRUE))
}
