# The files go when this file is over.
files <- local_h5_files()
detritus <- detritus_snapshot()

test_that("a file is listed with kinds, types, extents and filters", {
  skip_without_h5()
  found <- h5_ls(h5_file(files, "values.h5"))
  expect_s3_class(found, c("h5_ls", "data.frame"), exact = TRUE)
  row <- function(name) as.list(found[found$name == name, c("kind", "type", "dim", "chunk", "filters")])
  expect_identical(row("uint32"), list(
    kind = "dataset", type = "uint32", dim = "3 x 2", chunk = "2 x 2", filters = "deflate"
  ))
  expect_identical(found$type[match(c("boolean", "enum", "text", "record"), found$name)],
    c("boolean", "enum of int8", "string", "compound"))
  expect_output(print(found), "uint32 +3 x 2 +chunks 2 x 2 +deflate")
  inside <- h5_ls(h5_file(files, "types.h5"), "lzf")$name
  expect_true("le-i4" %in% inside)
  expect_true(any(grepl("/", h5_ls(h5_file(files, "types.h5"))$name)))
})

test_that("short vectors and attributes are read", {
  skip_without_h5()
  path <- h5_file(files, "values.h5")
  expect_identical(regatta:::h5_values(path, "text"), c("a", "\u00e4", ""))
  expect_identical(regatta:::h5_values(path, "fixed"), c("ab", "c"))
  expect_identical(regatta:::h5_values(path, "text", "note"), "hello")
  expect_null(regatta:::h5_values(path, "text", "other"))
  expect_null(regatta:::h5_values(path, "other"))
  expect_null(regatta:::h5_values(path, "a/b/c"))
})

test_that("a chunk that is damaged is an error that names file, dataset, chunk and filter", {
  skip_without_h5()
  path <- h5_file(files, "damaged.h5")
  says <- c(
    short = "deflate: 48 bytes were expected, 44 came out", long = "deflate: 48 bytes were expected, more",
    checksum = "deflate checksum mismatch", stream = "deflate data are damaged",
    cut = "deflate data are damaged", nothing = "deflate data are damaged",
    fletcher = "fletcher32 checksum mismatch",
    lzf = "lzf data are damaged"
  )
  for (name in names(says)) {
    m <- h5_matrix(path, name)
    error <- h5_error(m[])
    expect_identical(
      conditionMessage(error), sub("more$", "more came out", sprintf(
        "chunk (2, 2) of `%s` in %s: %s", name, regatta:::h5_fields(m)$path, says[[name]]
      ))
    )
    expect_identical(error$chunk, "2, 2")
    expect_identical(error$name, name)
    expect_identical(error$path, regatta:::h5_fields(m)$path)
    # Other chunks are what they are.
    expect_identical(m[1:3, ] + 0, h5_values_of(6, 8)[1:3, ], label = name)
  }
})

test_that("a filter that is not there is named, with what to do", {
  skip_without_h5()
  error <- h5_error(h5_matrix(h5_file(files, "damaged.h5"), "zstd")[])
  expect_match(conditionMessage(error), "chunk \\(1, 1\\) of `zstd`.*filter zstd \\(32015\\).*HDF5_PLUGIN_PATH")
  expect_identical(error$filter, "zstd")
})

test_that("chunks of other filters are read by libhdf5's plugins, where these are", {
  skip_without_h5()
  skip_without_h5py()
  path <- withr::local_tempfile(fileext = ".h5")
  h5_by_python(path, c(
    "x = (37 * np.arange(23)[:, None] + 11 * np.arange(17)) % 113",
    "for id, name, values in ((307, 'bzip2', (9,)), (32001, 'blosc', (2, 2, 4, 80, 5, 1, 0)), (32004, 'lz4', ()),",
    "                         (32015, 'zstd', (3,))):",
    "    if not h5py.h5z.filter_avail(id): continue",
    "    for t in ('<i4', '>u2', '<f8'):",
    "        f.create_dataset(name + '/' + t[1:], data=x.astype(t), chunks=(5, 4),",
    "                         compression=id, compression_opts=values)"
  ))
  names <- datasets_of(path)
  skip_if(length(names) == 0L, "libhdf5 has no plugins here (on Debian: hdf5-filter-plugin)")
  right <- h5_values_of(17, 23)
  for (name in names) {
    m <- h5_matrix(path, name)
    expect_identical(m[] + 0, right, label = name)
    expect_identical(h5_stats(m, 1:2, "sum", threads = 2L)$columns$sum, colSums(right), label = name)
    expect_true(any(grepl(dirname(name), format(m), ignore.case = TRUE)), label = name)
  }
})

test_that("a file on a file system that is for reading only is read", {
  skip_without_h5()
  skip_unless_linux()
  got <- fault_run(function() {
    h5_write(matrix(1:6 + 0, 2), "/mnt/a.h5", "x", .control = par_control(workers = 1L, seed = FALSE))
    stopifnot(system("mount -o remount,ro /mnt") == 0L)
    m <- h5_matrix("/mnt/a.h5", "x")
    list(refused = !file.create("/mnt/b"), sums = h5_col_sums(m), values = m[],
      text = conditionMessage(tryCatch(h5_write(matrix(1), "/mnt/a.h5", "y"), error = identity)))
  }, wrap = small_disk("400k", "/mnt"))$value
  expect_identical(got[-4L], list(refused = TRUE, sums = c(3, 7, 11), values = matrix(1:6 + 0, 2)))
  expect_match(got$text, "cannot open /mnt/a[.]h5 for writing: .*Read-only file system")
})

test_that("what cannot be opened says why", {
  skip_without_h5()
  path <- h5_file(files, "types.h5")
  folder <- withr::local_tempdir()
  says <- function(path, name = "x") conditionMessage(h5_error(h5_matrix(path, name)))
  expect_match(says(file.path(folder, "none.h5")), "cannot open .*none.h5: No such file")
  expect_match(says(folder), "it is a folder")
  file <- file.path(folder, "a")
  file.create(file)
  expect_match(says(file), "it is empty")
  writeLines("no HDF5", file)
  expect_match(says(file), "no HDF5 file")
  bytes <- readBin(path, "raw", 1e6)
  writeBin(utils::head(bytes, 5000), file)
  expect_match(says(file), "truncated file.*copy it anew")
  expect_match(says(path, "fletcher/none"), "no `fletcher/none` in .*types.h5\n`fletcher` has `.*le-i4`")
  expect_match(says(path, "fletcher"), "is a group, no dataset")
  expect_error(h5_matrix(path, 1), class = "regatta_error_argument")
  expect_error(h5_ls(NULL), class = "regatta_error_argument")
  # Printing of the library itself would go to the standard error of C.
  expect_silent(try(h5_matrix(file, "x"), silent = TRUE))
})

test_that("a file that another process writes says so, and can be read all the same", {
  skip_without_h5()
  python <- h5_python()
  skip_without_h5py()
  path <- h5_file(files, "loom.h5")
  ready <- withr::local_tempfile()
  script <- withr::local_tempfile(lines = c(
    "import h5py, sys", "f = h5py.File(sys.argv[1], 'r+')", "open(sys.argv[2], 'w').close()",
    "sys.stdin.read()"
  ))
  skip_if_not_installed("processx")
  withr::local_preserve_seed()
  writer <- processx::process$new(python, c(script, path, ready), stdin = "|")
  withr::defer(writer$kill())
  wait_until(file.exists(ready))
  withr::local_envvar(HDF5_USE_FILE_LOCKING = NA)
  expect_match(conditionMessage(h5_error(h5_matrix(path, "matrix"))), "HDF5_USE_FILE_LOCKING")
  Sys.setenv(HDF5_USE_FILE_LOCKING = "FALSE")
  expect_identical(h5_matrix(path, "matrix")[] + 0, h5_values_of(3, 4), ignore_attr = TRUE)
  Sys.unsetenv("HDF5_USE_FILE_LOCKING")
})

test_that("a package without libhdf5 says what to install", {
  the <- regatta:::the
  before <- the$h5_about
  the$h5_about <- FALSE
  withr::defer(the$h5_about <- before)
  expect_identical(h5_available(), FALSE)
  # Before a look at any argument.
  names <- setdiff(grep("^h5_", getNamespaceExports("regatta"), value = TRUE), "h5_available")
  expect_gte(length(names), 30L)
  for (name in names) {
    error <- tryCatch(get(name, asNamespace("regatta"))(), error = identity)
    expect_s3_class(error, "regatta_error_h5")
    expect_match(conditionMessage(error), "without libhdf5.*libhdf5-dev and libdeflate-dev", label = name)
  }
})

# Mutations are made in a process of their own: a crash is its end, not that of the tests.
fuzz_script <- '
arguments <- commandArgs(TRUE)
suppressWarnings(library(regatta))
bytes <- readBin(arguments[[1L]], "raw", 1e7)
names <- strsplit(arguments[[3L]], ",")[[1L]]
for (k in seq_len(as.integer(arguments[[4L]]))) {
  set.seed(k)
  cat(k, "", sep = "\\n", file = arguments[[5L]])
  n <- sample(c(1L, 3L, 20L), 1L)
  broken <- bytes
  broken[sample(length(bytes), n)] <- as.raw(sample(0:255, n, TRUE))
  if (k %% 10L == 0L) broken <- utils::head(broken, sample(length(broken), 1L))
  writeBin(broken, arguments[[2L]])
  for (name in names) {
    tryCatch(suppressWarnings({
      m <- h5_matrix(arguments[[2L]], name)
      if (length(m) <= 1e6) m[]
    }), regatta_error = function(e) NULL, error = function(e) if (!grepl("allocate", conditionMessage(e))) stop(e))
  }
  tryCatch(h5_ls(arguments[[2L]]), regatta_error = function(e) NULL)
}
cat("all done")
'

test_that("files with random bytes in them are read or refused, and never end the process", {
  skip_without_h5()
  skip_if_not_installed("processx")
  withr::local_preserve_seed()
  script <- withr::local_tempfile(fileext = ".R", lines = fuzz_script)
  for (case in list(c("values.h5", "uint32,boolean"), c("shapes.h5", "three-plain,part,mask,one"))) {
    at <- withr::local_tempfile()
    result <- processx::run(
      file.path(R.home("bin"), "Rscript"),
      c("--vanilla", script, h5_file(files, case[[1L]]), withr::local_tempfile(), case[[2L]],
        if (identical(Sys.getenv("REGATTA_SANITIZER"), "")) "300" else "30", at),
      error_on_status = FALSE, timeout = 300 * slowness(),
      env = c("current", R_LIBS = paste(.libPaths(), collapse = ":"), R_TESTS = "")
    )
    expect_match(result$stdout, "all done",
      info = paste(c(case, readLines(at), result$stderr), collapse = "\n"))
  }
})

test_that("a dataset that says it has more chunks than any list of them could hold is refused", {
  skip_without_h5()
  skip_without_h5py()
  path <- withr::local_tempfile(fileext = ".h5")
  h5_by_python(path, c(
    "f.create_dataset('a', (7 * 10**13, 0), 'f4', chunks=(100, 1), maxshape=(None, None))",
    "f.create_dataset('b', (0, 7 * 10**13), 'f4', chunks=(1, 100), maxshape=(None, None))",
    "f.create_dataset('c', (3, 7 * 10**13), 'f4', chunks=(1, 100))", "f.create_dataset('d', (7 * 10**13, 0), 'f4')"
  ))
  for (name in c("a", "b", "c", "d")) {
    m <- h5_matrix(path, name)
    uses <- list(function() m[], function() h5_stats(m, 1, "sum"), function() h5_stats(m, 2, "median"))
    for (use in uses) {
      text <- conditionMessage(h5_error(use()))
      expect_match(text, "pieces along a dimension: at most 67108864.*damaged", label = name)
    }
  }
})

test_that("an enumeration whose size is damaged is refused", {
  skip_without_h5()
  skip_if_not_installed("processx")
  # libhdf5 copies more than there is of one, which is its own affair.
  skip_if(!identical(Sys.getenv("REGATTA_SANITIZER"), ""), "libhdf5 reads beyond its memory")
  withr::local_preserve_seed()
  source <- h5_file(files, "values.h5")
  bytes <- readBin(source, "raw", 1e6)
  # Version 1 or 3 of a datatype of class 8 with two members, of which one has a byte.
  found <- 0L
  for (first in c(0x18, 0x38)) {
    pattern <- as.raw(c(first, 2, 0, 0, 1, 0, 0, 0))
    at <- which(vapply(seq_len(length(bytes) - 8L), function(k) identical(bytes[k - 1L + 1:8], pattern), NA))
    bytes[at + 4L] <- as.raw(16)
    found <- found + length(at)
  }
  expect_gt(found, 0L)
  path <- withr::local_tempfile(fileext = ".h5")
  writeBin(bytes, path)
  script <- withr::local_tempfile(fileext = ".R", lines = c(
    "suppressWarnings(library(regatta))",
    "cat(class(tryCatch(h5_matrix(commandArgs(TRUE), 'boolean'), error = identity))[[1L]])"
  ))
  result <- processx::run(file.path(R.home("bin"), "Rscript"), c("--vanilla", script, path), error_on_status = FALSE,
    timeout = 300 * slowness(), env = c("current", R_LIBS = paste(.libPaths(), collapse = ":"), R_TESTS = "")
  )
  expect_identical(c(result$status, result$stdout), c("0", "regatta_error_h5"), info = result$stderr)
})

test_that("names and numbers that cannot be read are an error with the reason", {
  skip_without_h5()
  skip_without_h5py()
  path <- withr::local_tempfile(fileext = ".h5")
  h5_by_python(path, c(
    "a = dict(chunks=(2,), fletcher32=True)",
    "f.create_dataset('fixed', data=np.array(['x', 'y'], 'S5'), **a)",
    "f.create_dataset('wide', data=np.array([1, 2], 'i8'), **a)",
    "f.create_dataset('number', data=np.array([1, 2], 'f8'), **a)",
    "f.create_dataset('record', data=np.array([(1, 'x'), (2, 'y')], [('n', 'i4'), ('text', 'S3')]), **a)",
    "for name in f:",
    "    d = f[name].id",
    "    mask, raw = d.read_direct_chunk((0,))",
    "    d.write_direct_chunk((0,), raw[:-1] + bytes([raw[-1] ^ 1]), mask)"
  ))
  reason <- "Data error detected by Fletcher32 checksum"
  for (name in c("fixed", "wide", "number")) {
    what <- sprintf("`%s` in %s cannot be read", name, path)
    found <- expect_error(regatta:::h5_values(path, name), class = "regatta_error_h5")
    expect_match(conditionMessage(found), paste0(what, ": .*", reason), ignore.case = TRUE)
  }
  for (field in c("n", "text")) {
    found <- expect_error(regatta:::h5_values(path, "record", field = field), class = "regatta_error_h5")
    expect_match(conditionMessage(found), paste0("field `", field, "` of `record` .*", reason), ignore.case = TRUE)
  }
  # The place where the strings are.
  h5_by_python(path, "f['text'] = np.array(['x', 'y'], h5py.string_dtype())")
  bytes <- readBin(path, "raw", 1e6)
  bytes[grepRaw("GCOL", bytes)] <- charToRaw("X")
  writeBin(bytes, path)
  expect_error(regatta:::h5_values(path, "text"), "cannot be read: .*global heap", class = "regatta_error_h5")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
