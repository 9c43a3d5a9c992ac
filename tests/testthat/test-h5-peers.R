# What rhdf5, HDF5Array and h5py read of the same files, which are generated, is what this package reads: each layout,
# type and filter. In a session of their own, since packages of Bioconductor change what functions are found.
files <- local_h5_files()
detritus <- detritus_snapshot()

# Values of each dataset as `lines` of R, which make `read` of `path` and a name, read them; NULL for one that is refused.
peer_values <- function(path, names, lines) {
  withr::local_preserve_seed()
  script <- withr::local_tempfile(fileext = ".R", lines = c(
    "arguments <- commandArgs(TRUE)", "path <- arguments[[1L]]", lines,
    "one <- function(name) tryCatch(suppressWarnings(read(name)), error = function(e) NULL)",
    "saveRDS(sapply(readRDS(arguments[[2L]]), one, simplify = FALSE), arguments[[3L]])"
  ))
  asked <- withr::local_tempfile()
  told <- withr::local_tempfile()
  saveRDS(names, asked)
  status <- system2(file.path(R.home("bin"), "Rscript"), shQuote(c("--vanilla", script, path, asked, told)), stdout = FALSE)
  stopifnot(status == 0L)
  readRDS(told)
}

test_that("rhdf5, HDF5Array and h5py read the same of every layout, type and filter", {
  skip_without_h5()
  skip_unless_there("rhdf5", "HDF5Array")
  path <- normalizePath(h5_file(files, "types.h5"))
  withr::local_dir(files) # where files beside an HDF5 file are looked for
  names <- datasets_of(path)
  expect_gt(length(names), 80L)
  rhdf5 <- peer_values(path, names, "read <- function(name) { x <- rhdf5::h5read(path, name); x[] <- as.numeric(x); x }")
  array <- peer_values(path, names, c("suppressPackageStartupMessages(library(HDF5Array))",
    "read <- function(name) as.matrix(HDF5Array(path, name)) + 0"))
  seen <- c(rhdf5 = 0, array = 0)
  for (name in names) {
    x <- h5_matrix(path, name)[] + 0
    for (peer in names(seen)) {
      values <- get(peer)[[name]]
      if (is.null(values)) next
      seen[[peer]] <- seen[[peer]] + 1
      if (is.raw(values)) storage.mode(values) <- "integer"
      expect_identical(matrix(as.numeric(values), nrow(x)), x, label = paste(peer, name))
    }
  }
  # HDF5Array refuses bytes without a sign, which R has no integers for.
  expect_gte(seen[["rhdf5"]], length(names) - 12)
  expect_gte(seen[["array"]], length(names) - 24)
  skip_without_h5py()
  sums <- withr::local_tempfile()
  script <- c("import sys, h5py, numpy as np", "f = h5py.File(sys.argv[1], 'r')",
    "for name in open(sys.argv[2]).read().split():", "    print(name, repr(float(f[name][...].astype('f8').sum())), *f[name].shape)")
  writeLines(names, sums)
  told <- system2(h5_python(), c("-c", shQuote(paste(script, collapse = "\n")), shQuote(c(path, sums))), stdout = TRUE)
  expect_length(told, length(names))
  for (line in strsplit(told, " ")) {
    m <- h5_matrix(path, line[[1L]])
    expect_identical(sum(h5_col_sums(m)), as.numeric(line[[2L]]), label = line[[1L]])
    expect_identical(dim(m), rev(as.integer(line[-(1:2)])), label = line[[1L]])
  }
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
