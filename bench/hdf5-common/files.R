# What benchmarks of HDF5 files share: where the files are, the Python that makes them, the peers of Bioconductor.

hdf5_folder <- Sys.getenv("REGATTA_BENCH_FILES", file.path(tempdir(), "hdf5"))
dir.create(hdf5_folder, recursive = TRUE, showWarnings = FALSE)

hdf5_has_h5py <- function(python) {
  nzchar(python) && system2(python, c("-c", shQuote("import h5py, numpy")), stderr = FALSE) == 0L
}
hdf5_python <- c(Filter(hdf5_has_h5py, c(Sys.which("python3"), "/usr/bin/python3")), "")[[1L]]

# Runs a script that makes files, unless `made`, the last of them, is there.
hdf5_make <- function(made, script, ...) {
  if (file.exists(made)) return(invisible(made))
  if (!nzchar(hdf5_python)) stop("files are made by Python with h5py and numpy, which is not installed", call. = FALSE)
  dir.create(dirname(made), showWarnings = FALSE)
  args <- vapply(list(...), format, "", scientific = FALSE, trim = TRUE)
  if (system2(hdf5_python, shQuote(c(script, args))) != 0L) stop(script, " has failed", call. = FALSE)
  invisible(made)
}

# The post's file, "post.h5", and one with most values 0, "genes.h5", in the folder that is returned: as large as in the
# post, or a twentieth of it.
hdf5_extent <- if (bench_short) c(6000, 5000) else c(30000, 20000)
hdf5_post_files <- function() {
  folder <- file.path(hdf5_folder, paste(hdf5_extent, collapse = "x"))
  hdf5_make(file.path(folder, "genes.h5"), "bench/hdf5/make.py", folder, hdf5_extent[[1L]], hdf5_extent[[2L]])
  folder
}

# Takes a file out of the cache of the system, as far as nobody has mapped it: what is read next comes from the disk.
hdf5_forget <- function(path) {
  script <- paste("import os, sys", "file = os.open(sys.argv[1], os.O_RDONLY)", "os.fsync(file)",
    "os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)", sep = "; ")
  invisible(system2(hdf5_python, c("-c", shQuote(script), shQuote(path))))
}

hdf5_bioconductor <- c("DelayedMatrixStats", "HDF5Array", "rhdf5")
