# Claim: column sums of a sparse matrix in a file of 10x Genomics take a fifteenth of what TENxMatrix of HDF5Array
# takes, and one row of it a fiftieth. No reader of these files can be faster than what they need is inflated: their
# values for sums, all row numbers for a row. BPCells reads such files, too; it is on neither CRAN nor Bioconductor.
source("bench/bench.R")
source("bench/hdf5-common/files.R")
source("bench/hdf5-common/limit.R")

extent <- if (bench_short) c(27998, 1000) else c(27998, 12000)
path <- file.path(hdf5_folder, sprintf("10x-%d.h5", extent[[2]]))
hdf5_make(path, "bench/hdf5-10x/make.py", path, extent[[1]], extent[[2]])
m <- regatta::h5_sparse(path, dimnames = FALSE)
row <- 12345L
cached <- regatta::h5_cache(m, "2GB")
invisible(regatta::h5_col_sums(cached, threads = 2L))

there <- all(vapply(hdf5_bioconductor, requireNamespace, NA, quietly = TRUE))
if (there) {
  suppressPackageStartupMessages({
    library(DelayedMatrixStats)
    library(HDF5Array)
  })
  tenx <- TENxMatrix(path, "matrix")
} else {
  cat("skipped: TENxMatrix, since HDF5Array or DelayedMatrixStats is not installed\n")
}
bpcells <- length(bench_peer("BPCells", "BPCells", NULL)) > 0L
if (bpcells) packed <- BPCells::open_matrix_10x_hdf5(path)

cells <- list(
  "column sums, 10x CSC" = list(ours = function(m, threads) regatta::h5_col_sums(m, threads = threads),
    theirs = function() DelayedMatrixStats::colSums2(tenx), bpcells = function() Matrix::colSums(packed), needs = "data",
    aim = 1 / 15),
  "one row, 10x CSC" = list(ours = function(m, threads) m[row, ], theirs = function() as.vector(tenx[row, ]),
    bpcells = function() as.vector(methods::as(packed[row, ], "dgCMatrix")), needs = "indices", aim = 1 / 50)
)
rows <- NULL
for (name in names(cells)) {
  cell <- cells[[name]]
  peers <- list("regatta, 2 threads" = function() cell$ours(m, 2L), "regatta, from a cache" = function() cell$ours(cached, 2L))
  if (there) {
    peers[["TENxMatrix"]] <- cell$theirs
    stopifnot(all.equal(as.numeric(peers[[1L]]()), as.numeric(peers[["TENxMatrix"]]())))
  }
  if (bpcells) {
    peers[["BPCells"]] <- cell$bpcells
    stopifnot(all.equal(as.numeric(peers[[1L]]()), as.numeric(peers[["BPCells"]]())))
  }
  if (hdf5_has_limit) {
    hdf5_limit_load(path, paste0("matrix/", cell$needs))
    peers[[sprintf("inflating its %s alone, 2 threads", cell$needs)]] <- hdf5_limit(2L)
  }
  here <- bench_print(bench_summary(name, bench_measure(peers, if (bench_short) 5L else 3L, warm = 0L)))
  if (there) bench_aim(paste0(name, ", times TENxMatrix"), bench_ratio(here, "regatta, 2 threads", "TENxMatrix"), cell$aim)
  rows <- rbind(rows, here)
}
if (hdf5_has_limit) hdf5_limit_free()
bench_write("hdf5-10x", rows)
