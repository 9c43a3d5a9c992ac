# How column and row sums of an HDF5 file depend on the number of workers and on the shape of its chunks, as the post
# that bench/hdf5 follows draws them; and both drawn.
source("bench/bench.R")
source("bench/hdf5-common/files.R")
source("bench/hdf5-common/peers.R")

folder <- hdf5_post_files()
path <- file.path(folder, "post.h5")
there <- length(bench_peer("DelayedMatrixStats", hdf5_bioconductor, NULL)) > 0L
if (there) hdf5_attach()
cores <- parallel::detectCores()
rounds <- if (bench_short) 3L else 2L

# More of them than there are cores show that they do no harm.
m <- regatta::h5_matrix(path, "counts", dimnames = FALSE)
rows <- NULL
for (workers in unique(c(1L, 2L, 2L * cores))) {
  peers <- list("regatta" = function() regatta::h5_col_sums(m, threads = workers))
  if (there) {
    x <- HDF5Array(path, "counts")
    peers[["DelayedMatrixStats, mclapply by 1000"]] <- function() {
      hdf5_loop(x, 1000, loop = parallel::mclapply, mc.cores = workers)
    }
  }
  if (nzchar(hdf5_python)) peers[["h5py, processes"]] <- hdf5_h5py(path, workers)
  rows <- rbind(rows, bench_cell(sprintf("column sums, %d at a time", workers), peers, rounds, warm = 0L))
}

# Files of a twentieth of the size, one for each shape: rows x columns of a chunk.
small <- c(6000, 5000)
shapes <- list(c(10, 100), c(100, 100), c(1000, 1000), c(6000, 1), c(1, 5000))
for (shape in shapes) {
  label <- paste(shape, collapse = " x ")
  file <- file.path(hdf5_folder, sprintf("shape-%s.h5", paste(shape, collapse = "x")))
  if (!file.exists(file)) {
    regatta::h5_fill(file, "counts", small, type = "int32", chunk = shape, level = 3, shuffle = FALSE,
      f = function(rows, columns) sample.int(100, length(rows) * length(columns), replace = TRUE),
      .control = regatta::par_control(workers = 2, seed = 1))
  }
  one <- regatta::h5_matrix(file, "counts", dimnames = FALSE)
  for (margin in c("column", "row")) {
    peers <- list("regatta, 2 threads" = function() {
      if (margin == "column") regatta::h5_col_sums(one, threads = 2L) else regatta::h5_row_sums(one, threads = 2L)
    })
    if (there) {
      x <- HDF5Array(file, "counts")
      peers[["DelayedMatrixStats, serial"]] <- function() {
        if (margin == "column") DelayedMatrixStats::colSums2(x) else DelayedMatrixStats::rowSums2(x)
      }
    }
    rows <- rbind(rows, bench_cell(sprintf("%s sums, chunks of %s", margin, label), peers, rounds, warm = 0L))
  }
}
bench_write("hdf5-scaling", rows)
if (capabilities("cairo")) source("bench/hdf5-scaling/draw.R")
