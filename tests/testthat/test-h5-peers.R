# What rhdf5, HDF5Array and h5py read of the same file, which is generated, is what this package reads: each layout,
# type, filter and rank, with elements at the ends of each type. In a session of their own, since packages of
# Bioconductor change what functions are found.
files <- local_h5_files("exact")
detritus <- detritus_snapshot()

# Values of each dataset by each of the functions of `path` and a name that `lines` of R list; NULL for a dataset that
# is refused.
peer_values <- function(path, names, lines) {
  withr::local_preserve_seed()
  script <- withr::local_tempfile(fileext = ".R", lines = c(
    "arguments <- commandArgs(TRUE)", "path <- arguments[[1L]]", "names <- readRDS(arguments[[2L]])",
    "readers <- list(", lines, ")",
    "one <- function(name, read) tryCatch(suppressWarnings(read(name)), error = function(e) NULL)",
    "saveRDS(lapply(readers, function(read) sapply(names, one, read, simplify = FALSE)), arguments[[3L]])"
  ))
  asked <- withr::local_tempfile()
  told <- withr::local_tempfile()
  saveRDS(names, asked)
  status <- system2(file.path(R.home("bin"), "Rscript"), shQuote(c("--vanilla", script, path, asked, told)),
    stdout = FALSE, stderr = FALSE)
  stopifnot(status == 0L)
  readRDS(told)
}

# The elements of each dataset as h5py reads them, a list of those of R's matrix, or of its planes.
h5py_values <- function(path, names) {
  asked <- withr::local_tempfile(lines = names)
  told <- withr::local_tempfile()
  script <- c("import sys, h5py, numpy as np", "f = h5py.File(sys.argv[1], 'r')", "out = open(sys.argv[3], 'wb')",
    "for name in open(sys.argv[2]).read().split():",
    "    x = f[name][...]", "    out.write(x.astype('<f8').tobytes())", "    print(*x.shape)")
  python <- c("-c", shQuote(paste(script, collapse = "\n")), shQuote(c(path, asked, told)))
  shapes <- lapply(strsplit(system2(h5_python(), python, stdout = TRUE), " "), as.integer)
  stopifnot(length(shapes) == length(names))
  open <- file(told, "rb")
  withr::defer(close(open))
  lapply(stats::setNames(shapes, names), function(shape) {
    values <- readBin(open, "double", prod(shape), endian = "little")
    array(values, c(rev(shape), if (length(shape) == 1L) 1L))
  })
}

# All planes of a dataset in R's order, the values as doubles; a whole number above 2^53 comes with a warning.
our_values <- function(path, name, dim) {
  planes <- as.matrix(expand.grid(lapply(dim[-(1:2)], seq_len)))
  one <- function(plane) {
    x <- as.double(suppressWarnings(h5_matrix(path, name, plane = plane)[]))
    # Of the least one R's integers make NA.
    replace(x, is.na(x) & !is.nan(x), -2^31)
  }
  array(if (length(dim) > 2L) apply(planes, 1L, function(at) one(unname(at))) else one(NULL), dim)
}

test_that("rhdf5, HDF5Array and h5py read the same of every layout, type, filter and rank, to the last bit", {
  skip_without_h5()
  skip_without_h5py()
  path <- normalizePath(h5_file(files, "exact.h5"))
  withr::local_dir(files) # where files beside an HDF5 file are looked for
  found <- h5_ls(path)
  names <- found$name[found$kind %in% c("dataset", "external link")]
  expect_gt(length(names), 150L)
  right <- h5py_values(path, names)
  ours <- lapply(stats::setNames(nm = names), function(name) our_values(path, name, dim(right[[name]])))
  for (name in names) expect_true(identical(ours[[name]], right[[name]], num.eq = FALSE), label = name)
  # Each of these is in the file, so that it is known to be read.
  every <- unlist(right)
  expect_true(all(c(-2^63, 2^63, 2^64, -2^31, 2^32 - 1, Inf, -Inf, 2^-1074, 65504, -128) %in% every))
  expect_true(any(is.nan(every)) && any(1 / every == -Inf, na.rm = TRUE))
  skip_unless_there("rhdf5", "HDF5Array")
  peers <- peer_values(path, names, c(
    "rhdf5 = function(name) {", "  x <- rhdf5::h5read(path, name)",
    "  code <- c(`FALSE` = 0, `TRUE` = 1, low = -2^15, minus = -1, none = 0, high = 2^15 - 1)",
    "  as.numeric(if (is.factor(x)) code[as.character(x)] else x)", "},",
    "array = function(name) as.numeric(as.array(HDF5Array::HDF5Array(path, name)))"
  ))
  seen <- list(rhdf5 = character(), array = character())
  for (name in names) {
    x <- as.double(right[[name]])
    for (peer in names(seen)) {
      values <- peers[[peer]][[name]]
      if (is.null(values)) next
      seen[[peer]] <- c(seen[[peer]], name)
      # Whole numbers beyond R's integers they make NA, or others, of.
      if (all(x == trunc(x), na.rm = TRUE) && !anyNA(x)) values[abs(x) >= 2^31] <- x[abs(x) >= 2^31]
      expect_true(identical(values, x, num.eq = FALSE), label = paste(peer, name))
    }
  }
  # They lack some plugins, and HDF5Array, by its version, enumerations, virtual datasets, bytes without a sign and
  # floats of 16 bits.
  lacking <- "^(lz4|bitshuffle|zstd|bzip2|blosc|lzf)/|^(boolean|enum|virtual)|(u1|f2)$"
  most <- grep(lacking, names, value = TRUE, invert = TRUE)
  for (peer in names(seen)) expect_identical(setdiff(most, seen[[peer]]), character(), label = peer)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
