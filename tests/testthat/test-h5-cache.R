# The files go when this file is over.
files <- local_h5_files()
# Packages change options when they are first loaded.
requireNamespace("Matrix", quietly = TRUE)
detritus <- detritus_snapshot()

kept <- function(m) h5_cache_info(m)[["kept"]]

test_that("every type in every layout is the same from the cache", {
  skip_without_h5()
  path <- h5_file(files, "types.h5")
  withr::local_dir(files)
  for (name in datasets_of(path)) {
    m <- h5_matrix(path, name)
    plain <- m[]
    if (name %in% c("external", "elsewhere")) next
    cached <- tryCatch(h5_cache(m, "1MB"), regatta_error_h5 = function(e) NULL)
    if (is.null(cached)) next
    expect_identical(cached[], plain, label = name)
    info <- h5_cache_info(cached)
    expect_identical(info[["kept"]], info[["chunks"]], label = name)
    expect_identical(cached[], plain, label = name)
    expect_identical(h5_stats(cached, 1:2, c("sum", "var", "max")), h5_stats(m, 1:2, c("sum", "var", "max")))
    h5_cache_drop(cached)
  }
  path <- h5_file(files, "values.h5")
  for (name in c("uint32", "int64", "uint64", "int32", "float16", "float64", "boolean", "bits")) {
    m <- h5_matrix(path, name)
    cached <- h5_cache(m, "1MB")
    plain <- suppressWarnings(m[])
    for (pass in 1:2) expect_identical(suppressWarnings(cached[]), plain, label = name)
    expect_gt(kept(cached), 0)
  }
  rm(cached)
  gc()
})

test_that("numbers of every range and with many zeros come back as they were", {
  skip_without_h5()
  withr::local_preserve_seed()
  set.seed(1)
  path <- withr::local_tempfile(fileext = ".h5")
  n <- 40 * 30
  values <- list(
    bytes = sample(0:255, n, TRUE), one = rep(7L, n), none = rep(0L, n), zeros = rbinom(n, 3, 0.05),
    wide = sample(c(-.Machine$integer.max, .Machine$integer.max), n, TRUE), missing = sample(c(NA, 1:3), n, TRUE),
    whole = as.double(rpois(n, 0.3)), real = rnorm(n), odd = sample(c(-0, 0, NaN, Inf, NA, 1e300), n, TRUE),
    gaps = rnorm(n) * rbinom(n, 1, 0.1), large = sample(c(2^31, 2^40, 0), n, TRUE)
  )
  control <- par_control(workers = 1L, seed = FALSE)
  for (name in names(values)) {
    m <- h5_write(matrix(values[[name]], 40), path, name, chunk = c(16, 7), .control = control)
    plain <- m[]
    cached <- h5_cache(m, "1MB")
    for (pass in 1:2) {
      expect_identical(cached[], plain, label = name)
      expect_identical(1 / cached[], 1 / plain, label = name)
    }
    expect_identical(kept(cached), 15)
    if (name == "zeros") expect_lt(h5_cache_info(cached)[["used"]], n)
    h5_cache_drop(cached)
  }
})

test_that("no more is kept than the budget allows, and results are the same", {
  skip_without_h5()
  m <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4")
  cached <- h5_cache(m, 700)
  for (pass in 1:3) expect_identical(cached[], m[])
  info <- h5_cache_info(cached)
  expect_gt(info[["kept"]], 0)
  expect_lt(info[["kept"]], info[["chunks"]])
  expect_lte(info[["used"]], 700)
  expect_match(conditionMessage(h5_error(h5_cache(m, 100))), "no room")
  expect_error(h5_cache(m, -1), class = "regatta_error_argument")
  expect_error(h5_cache(m, Inf), "a finite number of bytes", class = "regatta_error_argument")
  expect_error(h5_cache(m, "4000TB"), class = "regatta_error_memory")
  withr::local_options(regatta.shm_max = 1000)
  expect_error(h5_cache(m, "1MB"), class = "regatta_error_memory")
  h5_cache_drop(cached)
})

test_that("what is chosen is kept, and subsets and the transpose share it", {
  skip_without_h5()
  m <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4")
  cached <- h5_cache(m, "1MB")
  cached[1, 1]
  expect_identical(kept(cached), 1)
  expect_identical(t(cached)[2:3, 5:1], t(m)[2:3, 5:1])
  before <- kept(cached)
  expect_gt(before, 1)
  expect_identical(kept(t(cached)), before)
  expect_identical(h5_col_sums(cached, rows = 1:3), h5_col_sums(m, rows = 1:3))
  expect_match(paste(format(cached), collapse = "\n"), "cache +[0-9]+ of [0-9]+ chunks, .* of 1 MB")
  h5_cache_drop(cached)
  expect_identical(kept(cached), 0)
  expect_identical(cached[], m[])
})

test_that("sparse matrices are cached", {
  skip_without_h5()
  skip_if_not_installed("Matrix")
  m <- h5_sparse(system.file("extdata", "example-10x.h5", package = "regatta"))
  cached <- h5_cache(m, "1MB")
  stats <- c("sum", "var", "nnz", "max")
  for (pass in 1:2) {
    expect_identical(h5_stats(cached, 1:2, stats), h5_stats(m, 1:2, stats))
    expect_identical(cached[5:2, ], m[5:2, ])
  }
  info <- h5_cache_info(cached)
  expect_identical(info[["kept"]], info[["chunks"]])
  h5_cache_drop(cached)
})

test_that("forked workers share the cache, others and files go without", {
  skip_without_h5()
  withr::local_preserve_seed()
  m <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4")
  cached <- h5_cache(m, "1MB")
  control <- par_control(workers = 2L, seed = FALSE)
  sums <- par_lapply(1:4, function(i) sum(cached[, i]), .control = control)
  expect_identical(sums, lapply(1:4, function(i) sum(m[, i])))
  # What they have decoded is here.
  expect_gt(kept(cached), 0)
  before <- kept(cached)
  expect_identical(parallel::mclapply(1:4, function(i) c(sum(cached[, 20 + 0 * i]), kept(cached)), mc.cores = 2L)[[4]][[1]],
    sum(m[, 20]) + 0)
  expect_gt(kept(cached), before)
  back <- par_lapply(1, function(i) cached, .control = control)[[1]]
  expect_identical(kept(back), kept(cached))
  file <- withr::local_tempfile()
  saveRDS(cached, file)
  skip_if_not_installed("processx")
  script <- withr::local_tempfile(lines = c(
    "suppressWarnings(library(regatta))", "m <- readRDS(commandArgs(TRUE)[[1]])",
    "cat(h5_cache_info(m)[['kept']], sum(m[]))"
  ))
  found <- processx::run(file.path(R.home("bin"), "Rscript"), c("--vanilla", script, file),
    env = c("current", R_LIBS = paste(.libPaths(), collapse = ":"), R_TESTS = ""))
  expect_identical(found$stdout, paste(0, sum(m[])))
  h5_cache_drop(cached)
})

test_that("a file that changes is read as it is, and the cache goes with a warning", {
  skip_without_h5()
  skip_without_h5py()
  path <- withr::local_tempfile(fileext = ".h5")
  control <- par_control(workers = 1L, seed = FALSE)
  m <- h5_write(matrix(1:12, 3), path, "x", chunk = c(2, 2), .control = control)
  cached <- h5_cache(m, "1MB")
  expect_identical(cached[], matrix(1:12, 3))
  h5_by_python(path, "f['x'][0, 0] = 99", mode = "r+")
  expect_warning(now <- cached[], class = "regatta_warning_h5_cache")
  expect_identical(now[1, 1], 99L)
  expect_identical(kept(cached), 0)
  expect_silent(expect_identical(cached[1, 1], 99L))
  # Replaced by another file of the same name and size.
  cached <- h5_cache(m, "1MB")
  cached[]
  other <- withr::local_tempfile()
  file.copy(path, other)
  file.rename(other, path)
  expect_warning(expect_identical(cached[], now), class = "regatta_warning_h5_cache")
})

test_that("the memory is given back, by hand and by the collector", {
  skip_without_h5()
  m <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4")
  gc()
  bytes <- function() sum(shm_info()$regions$bytes)
  before <- bytes()
  cached <- h5_cache(m, 2e6)
  expect_identical(bytes(), before + 2e6)
  h5_cache_drop(cached)
  expect_identical(bytes(), before)
  cached <- h5_cache(m, 2e6)
  copy <- t(cached)
  rm(cached)
  gc()
  expect_identical(bytes(), before + 2e6)
  rm(copy)
  gc()
  gc()
  expect_identical(bytes(), before)
})

test_that("datasets in several files are refused", {
  skip_without_h5()
  withr::local_dir(files)
  m <- h5_matrix(h5_file(files, "links.h5"), "virtual")
  expect_match(conditionMessage(h5_error(h5_cache(m))), "cannot be cached: its elements are in other files")
})

test_that("nothing is left behind", {
  gc()
  # parallel::mclapply() was used, see expect_no_detritus().
  expect_no_detritus(detritus, except = "^child process .*state Z")
})
