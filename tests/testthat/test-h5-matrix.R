# The files go when this file is over.
files <- local_h5_files()
detritus <- detritus_snapshot()

test_that("every type in every layout, filter and byte order has the values of the file", {
  skip_without_h5()
  path <- h5_file(files, "types.h5")
  names <- datasets_of(path)
  expect_gt(length(names), 10L)
  right <- h5_values_of(17, 23)
  # Files beside an HDF5 file are looked for in the working directory.
  withr::local_dir(files)
  for (name in names) {
    m <- h5_matrix(path, name)
    expect_identical(dim(m), c(17L, 23L), label = name)
    whole <- m[, ]
    storage <- if (grepl("[iu](1|2)$|i4$", name) || name %in% c("compact", "nbit", "elsewhere")) {
      "integer"
    } else {
      "double"
    }
    expect_identical(typeof(whole), storage, label = name)
    expect_identical(whole + 0, right, label = name)
    expect_identical(m[c(17, 2, 2), c(23, 1, 9)] + 0, right[c(17, 2, 2), c(23, 1, 9)], label = name)
  }
})

test_that("subscripts choose as those of a matrix in memory", {
  skip_without_h5()
  m <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4",
    dimnames = list(paste0("r", 1:17), paste0("c", 1:23))
  )
  x <- h5_values_of(17, 23)
  storage.mode(x) <- "integer"
  dimnames(x) <- dimnames(m)
  withr::local_seed(1)
  some <- sample(17, 40, TRUE)
  expect_identical(m[], x)
  expect_identical(m[, ], x)
  expect_identical(as.matrix(m), x)
  expect_identical(m[3, ], x[3, ])
  expect_identical(m[, 3], x[, 3])
  expect_identical(m[3, , drop = FALSE], x[3, , drop = FALSE])
  expect_identical(m[3, 4], x[3, 4])
  expect_identical(m[some, ], x[some, ])
  expect_identical(m[-(1:3), -23], x[-(1:3), -23])
  expect_identical(m[-99, -0.5], x[-99, 0L])
  expect_identical(m[c(TRUE, FALSE), c("c5", "c5", "c1")], x[c(TRUE, FALSE), c("c5", "c5", "c1")])
  expect_identical(m[factor("r2", levels = paste0("r", 1:17)), ], x[2, ])
  expect_identical(m[c(0, 2), 2.9], x[c(0, 2), 2.9])
  expect_identical(m[integer(), ], x[integer(), ])
  expect_identical(m[, integer(), drop = FALSE], x[, integer(), drop = FALSE])
  expect_identical(m[rep(FALSE, 17), ], x[rep(FALSE, 17), ])
  expect_identical(t(m)[2:3, 5:1], t(x)[2:3, 5:1])
  expect_identical(dim(t(m)), dim(t(x)))
  expect_identical(t(t(m))[, 2], x[, 2])
  # As many as from the first to the last, but repeated or in another order.
  short <- as.matrix(expand.grid(1:4, 1:4, 1:4, 1:4))
  same <- apply(short, 1L, function(k) {
    identical(m[k, 2], x[k, 2]) && identical(m[2, k], x[2, k]) && identical(t(m)[k, k], t(x)[k, k])
  })
  expect_identical(unname(short[!same, , drop = FALSE]), matrix(0L, 0L, 4L))
})

test_that("subscripts are taken as R takes those of a matrix", {
  skip_without_h5()
  m <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4",
    dimnames = list(paste0("r", 1:17), paste0("r", 1:23))
  )
  x <- h5_values_of(17, 23)
  storage.mode(x) <- "integer"
  dimnames(x) <- dimnames(m)
  # Nothing but `o` is another object in the two.
  same <- expression(
    o[j = 2, i = 1], o[2, i = 1], o[i = 3, ], o[, i = 3], o[k = 1, 2], o[1, 2, drop = NA], o[1, 2, drop = 1],
    o[1, , drop = 0], o[drop = FALSE], o[NULL, 1], o[2, NULL], o[1.9, 2.9], o[-1.9, 2], o[c(0.9, 1.1), -0.9],
    o[[1, 2]], o[["r3", 4]], o[[j = 2, i = 1]], o[[2.9, 1.9]], o[[1, 2, exact = FALSE]], o[[17, 17]]
  )
  for (code in same) {
    expect_identical(eval(code, list(o = m)), eval(code, list(o = x)), label = deparse(code))
    expect_identical(eval(code, list(o = t(m))), eval(code, list(o = t(x))), label = deparse(code))
  }
  wrong <- expression(
    o[1, 2, 3], o[, , 1], o[1, 2, ], o[1, 2, exact = TRUE], o[1, -Inf], o[[1, 2, 3]], o[[1:2, 1]], o[[0, 1]], o[[18, 1]],
    o[[-1, 1]], o[[, 1]], o[["a", 1]], o[[NA, 1]]
  )
  for (code in wrong) {
    expect_error(eval(code, list(o = m)), class = "regatta_error_h5", label = deparse(code))
    # Whether x[[-1, 1]] is an error R decides by memory that it has not written to.
    if (!any(grepl("Inf|-1", deparse(code)))) expect_error(eval(code, list(o = x)), label = deparse(code))
  }
  expect_error(m[i = 1], class = "regatta_error_argument")
  expect_match(conditionMessage(h5_error(m[1, 2, 3])), "there are 3 subscripts for a matrix, which has 2")
})

test_that("subscripts that lead outside are errors", {
  skip_without_h5()
  m <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4")
  expect_match(conditionMessage(h5_error(m[18, 1])), "no row 18: the matrix has 17")
  expect_match(conditionMessage(h5_error(m[1, "a"])), "no column \"a\"")
  expect_match(conditionMessage(h5_error(m[c(1, NA), 1])), "a row is `NA`")
  dimnames(m) <- list(c("", NA, letters[1:15]), NULL)
  expect_match(conditionMessage(h5_error(m["", 1])), "no row \"\"")
  expect_match(conditionMessage(h5_error(m[NA_character_, 1])), "no row")
  expect_match(conditionMessage(h5_error(m[c(NA, TRUE), 1])), "`NA`")
  expect_match(conditionMessage(h5_error(m[rep(TRUE, 18), 1])), "18 logical subscripts for 17 rows")
  expect_match(conditionMessage(h5_error(m[c(-1, 1), 1])), "mixed")
  expect_error(m[3], class = "regatta_error_argument")
})

test_that("vectors, planes, single values and parts that were never written are read", {
  skip_without_h5()
  path <- h5_file(files, "shapes.h5")
  expect_identical(h5_matrix(path, "one")[] + 0, matrix((11 * 0:28) %% 113))
  for (name in c("three", "three-plain")) {
    expect_error(h5_matrix(path, name), class = "regatta_error_argument")
    expect_error(h5_matrix(path, name, plane = 5), "of at most 4")
    for (k in 1:4) {
      m <- h5_matrix(path, name, plane = k)
      expect_identical(m[] + 0, h5_values_of(5, 6) + 1000 * (k - 1))
    }
  }
  expect_identical(h5_matrix(path, "single")[], matrix(42L))
  expect_identical(h5_matrix(path, "empty")[], matrix(0, 4, 0))
  expect_identical(h5_matrix(path, "none")[], matrix(-7L, 6, 5))
  expect_identical(h5_matrix(path, "none-plain")[], matrix(2.5, 6, 5))
  part <- matrix(-1L, 9, 9)
  part[5:8, 5:8] <- 5L
  expect_identical(h5_matrix(path, "part")[], part)
  expect_identical(h5_matrix(path, "mask")[] + 0, h5_values_of(6, 4))
  expect_error(h5_matrix(path, "one", plane = 1), class = "regatta_error_argument")
})

test_that("whole numbers above R's integers are right, or said to be rounded", {
  skip_without_h5()
  path <- h5_file(files, "values.h5")
  high <- rbind(c(0, 2^31), c(1, 2^32 - 2), c(2^31 - 1, 2^32 - 1))
  expect_silent(expect_identical(h5_matrix(path, "uint32")[], high))
  expect_warning(
    wide <- h5_matrix(path, "int64")[], "above 2\\^53", class = "regatta_warning_rounded"
  )
  expect_identical(wide, rbind(c(0, -2^63), c(2^53, 2^63), c(2^53, -2^53)))
  # 2^53 + 1, the least that is no double, and its negative.
  for (column in 1:2) {
    expect_warning(h5_matrix(path, "int64")[3, column], class = "regatta_warning_rounded")
    expect_warning(h5_col_sums(h5_matrix(path, "int64"), rows = 3, columns = column), class = "regatta_warning_rounded")
  }
  expect_silent(expect_identical(h5_matrix(path, "int64-exact")[], matrix(c(0, 2^53))))
  expect_warning(expect_identical(h5_matrix(path, "uint64")[], matrix(c(0, 2^64))), "rounded")
  expect_identical(h5_matrix(path, "int32")[], matrix(c(NA, -1L, .Machine$integer.max)))
  half <- h5_matrix(path, "float16")[, 1]
  expect_identical(half, c(1.5, 2^-24, 65504, Inf, -Inf, NaN, 0))
  expect_identical(1 / half[[7L]], -Inf)
  expect_identical(h5_matrix(path, "float64")[, 1], c(1e300, 5e-324, NaN, -Inf))
  expect_identical(h5_matrix(path, "boolean")[], h5_values_of(5, 6) %% 2 == 0)
  expect_identical(h5_matrix(path, "enum")[] + 0, h5_values_of(2, 3) %% 3)
  expect_identical(h5_matrix(path, "bits")[], rbind(c(1L, 3L), c(2L, 65535L)))
  for (name in c("text", "fixed", "record")) {
    expect_match(conditionMessage(h5_error(h5_matrix(path, name))), "holds (strings|records)")
  }
})

test_that("logicals of R as rhdf5 writes them are logicals with missing values", {
  skip_without_h5()
  skip_without_h5py()
  path <- withr::local_tempfile(fileext = ".h5")
  h5_by_python(path, c(
    "m = f.create_dataset('m', data=np.array([[1, -128], [0, 1], [1, 1]], 'i1'), chunks=(2, 1), compression='gzip')",
    "v = f.create_dataset('obs/v', data=np.array([1, -128, 0], 'i1'))",
    "o = f.create_dataset('other', data=np.array([[1, -128]], 'i1'))",
    "[d.attrs.create('storage.mode', np.array([b'logical'], 'S8')) for d in (m, v)]",
    "o.attrs.create('storage.mode', np.array([b'integer'], 'S8'))", "f['X'] = np.zeros((3, 2))"
  ))
  x <- matrix(c(TRUE, NA, FALSE, TRUE, TRUE, TRUE), 2)
  m <- h5_matrix(path, "m")
  expect_identical(m[, ], x)
  expect_identical(t(m)[2:3, 2:1], t(x)[2:3, 2:1])
  expect_identical(h5_col_sums(m), colSums(x))
  expect_identical(h5_row_sums(m, na.rm = TRUE), rowSums(x, na.rm = TRUE))
  cached <- h5_cache(m, "1MB")
  for (pass in 1:2) expect_identical(cached[, ], x)
  h5_cache_drop(cached)
  expect_identical(h5_annotation(h5_matrix(path, "X"), 2)$v, c(TRUE, NA, FALSE))
  found <- h5_ls(path)
  expect_identical(found$type[match(c("m", "obs/v", "other"), found$name)], c("boolean", "boolean", "int8"))
  expect_identical(h5_matrix(path, "other")[, ], c(1L, -128L))
})

test_that("names are found where AnnData, Loom and HDF5Array keep them", {
  skip_without_h5()
  path <- h5_file(files, "anndata.h5")
  names <- list(c("g0", "g1", "g2"), c("c0", "c1", "c2", "c3"))
  expect_identical(dimnames(h5_matrix(path, "X")), names)
  expect_identical(dimnames(h5_matrix(path, "/layers/raw")), names)
  expect_null(dimnames(h5_matrix(path, "X", dimnames = FALSE)))
  loom <- h5_matrix(h5_file(files, "loom.h5"), "matrix")
  expect_identical(dimnames(loom), list(c("c0", "c1", "c2"), c("g0", "g1", "g2", "g3")))
  expect_identical(t(loom)["g2", ], loom[, "g2"])
  expect_identical(
    dimnames(h5_matrix(file.path(files, "hdf5array.h5"), "m")),
    list(c("r1", "r2", "r3"), c("a", "b", "c", "d"))
  )
})

test_that("new and old arrangements of chunks, and blocks in front of the file, are read", {
  skip_without_h5()
  path <- h5_file(files, "latest.h5")
  for (name in c("fixed", "array", "tree")) {
    expect_identical(h5_matrix(path, name)[], h5_values_of(17, 23), label = name)
  }
  expect_identical(h5_matrix(path, "one")[], h5_values_of(4, 5))
  path <- h5_file(files, "userblock.h5")
  expect_identical(h5_matrix(path, "x")[] + 0, h5_values_of(3, 4))
  expect_identical(h5_matrix(path, "z")[] + 0, h5_values_of(3, 4))
})

test_that("links and virtual datasets are followed, and say what is missing", {
  skip_without_h5()
  path <- h5_file(files, "links.h5")
  right <- h5_values_of(3, 4)
  for (name in c("out", "out-gzip", "soft")) {
    expect_identical(h5_matrix(path, name)[] + 0, right, label = name)
  }
  expect_identical(h5_matrix(path, "virtual")[] + 0, cbind(right, right))
  expect_match(conditionMessage(h5_error(h5_matrix(path, "out-away"))), "link to `/x` in away.h5")
  expect_match(conditionMessage(h5_error(h5_matrix(path, "nowhere"))), "link to `/not/there`")
  away <- h5_matrix(path, "virtual-away")
  expect_match(conditionMessage(h5_error(away[])), "source in away.h5, which is not there")
  expect_match(conditionMessage(h5_error(h5_matrix(path, "virtual-other")[])), "`gone`")
  found <- h5_ls(path)
  expect_identical(found$target[found$name == "out"], "target.h5:/x")
})

test_that("an object is sent as path and name, to files, workers and forks", {
  skip_without_h5()
  withr::local_preserve_seed()
  m <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4")
  file <- withr::local_tempfile()
  saveRDS(m, file)
  expect_identical(readRDS(file)[2, ], m[2, ])
  expect_lt(file.size(file), 2000)
  control <- par_control(workers = 2L, seed = FALSE)
  expect_identical(
    par_lapply(1:4, function(i) m[i, ], .control = control), lapply(1:4, function(i) m[i, ])
  )
  expect_identical(
    parallel::mclapply(1:4, function(i) m[i, ], mc.cores = 2L), lapply(1:4, function(i) m[i, ])
  )
})

test_that("a fork uses its share of threads and no more", {
  skip_without_h5()
  withr::local_preserve_seed()
  threads <- function(i) regatta:::h5_threads(NULL)
  expect_identical(par_lapply(1:2, threads, .control = par_control(workers = 2L, threads = 1L, seed = FALSE)), list(1L, 1L))
  withr::local_envvar(REGATTA_SHARE = NA, REGATTA_THREADS = NA)
  expect_identical(parallel::mclapply(1:2, threads, mc.cores = 2L), list(1L, 1L))
  expect_identical(threads(), as.integer(unclass(workers_available())))
})

test_that("filters may stand in any order", {
  skip_without_h5()
  skip_without_h5py()
  path <- withr::local_tempfile(fileext = ".h5")
  h5_by_python(path, c(
    "import itertools",
    "x = (np.arange(620) * 7 % 23).reshape(20, 31).astype('f8')",
    "use = dict(s=lambda p: p.set_shuffle(), d=lambda p: p.set_deflate(4), f=lambda p: p.set_fletcher32(),",
    "           l=lambda p: p.set_filter(h5py.h5z.FILTER_LZF, 0, (0, 0, 480)))",
    "orders = [''.join(o) for n in (2, 3) for o in itertools.permutations('sdf', n)] + ['ls', 'lfs', 'dd', 'dsd']",
    "for order in orders:",
    "    p = h5py.h5p.create(h5py.h5p.DATASET_CREATE)",
    "    p.set_chunk((6, 10))",
    "    for one in order: use[one](p)",
    "    space = h5py.h5s.create_simple(x.shape)",
    "    d = h5py.h5d.create(f.id, order.encode(), h5py.h5t.IEEE_F64LE, space, p)",
    "    h5py.Dataset(d)[...] = x",
    "    assert (h5py.Dataset(d)[...] == x).all()"
  ))
  x <- matrix((0:619 * 7) %% 23, 31)
  orders <- h5_ls(path)$name
  expect_length(orders, 16L)
  for (order in orders) expect_identical(h5_matrix(path, order)[], x, label = order)
})

test_that("print, format and str show what there is", {
  skip_without_h5()
  m <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4")
  text <- sub(dirname(regatta:::h5_fields(m)$path), "F", format(m), fixed = TRUE)
  expect_identical(text[c(1, 2, 5)], c(
    "<h5_matrix> 17 x 23 of int32", "  dataset   fletcher/le-i4", "  filters   shuffle, deflate, fletcher32"
  ))
  expect_match(text[[4L]], "chunks of 4 x 5")
  expect_output(str(m), "<h5_matrix> 17 x 23 of int32")
  expect_output(print(t(m)), "23 x 17 of int32")
})

test_that("a matrix is printed with the same numbers whatever options() say of numbers", {
  path <- withr::local_tempfile()
  matrix <- h5_write(matrix(c(0.25, 1.5), 2000, 2), path, "a", .on = 1L, .control = two_workers(workers = 1L))
  words <- function() {
    list(
      capture.output(print(matrix), str(matrix), print(summary(matrix)), print(h5_ls(path))),
      conditionMessage(expect_error(h5_matrix(path, "a", plane = 1.5), class = "regatta_error_argument"))
    )
  }
  usual <- words()
  expect_match(usual[[1L]], "2,000 x 2", fixed = TRUE, all = FALSE)
  for (odd in list(list(OutDec = ",", warn = 2), list(OutDec = ",", scipen = -5, digits = 3))) {
    expect_identical(withr::with_options(odd, words()), usual)
  }
})

test_that("without a name of a dataset it is said which there are, or that there is no file", {
  skip_without_h5()
  path <- withr::local_tempfile(fileext = ".h5")
  one <- par_control(workers = 1L, seed = FALSE)
  for (k in 1:12) h5_write(matrix(1, 2, 2), path, sprintf("g/m%02d", k), .control = one)
  error <- expect_error(h5_matrix(path), "`name` is missing", class = "regatta_error_argument")
  expect_identical(error$body, sprintf("The file has %s and 2 more, which `h5_ls(path)` lists.", paste0(
    sprintf("`g/m%02d`", 1:10), collapse = ", ")))
  expect_error(h5_matrix("missing.h5"), "cannot open missing.h5", class = "regatta_error_h5")
  expect_error(h5_matrix(system.file("extdata", "example-10x.h5", package = "regatta")), "`h5_sparse\\(path\\)` finds")
})

test_that("nothing is left behind", {
  # parallel::mclapply() was used, see expect_no_detritus().
  expect_no_detritus(detritus, except = "^child process .*state Z")
})
