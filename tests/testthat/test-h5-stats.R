# The files go when this file is over.
files <- local_h5_files()
# It sets an option of R when it is loaded.
requireNamespace("Matrix", quietly = TRUE)
detritus <- detritus_snapshot()

all_stats <- c("sum", "mean", "var", "sd", "min", "max", "nnz", "median", "count")

# As R computes them, for the rows of x.
expected_stats <- function(x, na.rm = FALSE) {
  each <- function(f) apply(x + 0, 1L, f)
  data.frame(
    sum = each(function(v) sum(v, na.rm = na.rm)), mean = each(function(v) mean(v, na.rm = na.rm)),
    var = each(function(v) stats::var(v, na.rm = na.rm)), sd = each(function(v) stats::sd(v, na.rm = na.rm)),
    min = each(function(v) min(v, na.rm = na.rm)), max = each(function(v) max(v, na.rm = na.rm)),
    nnz = each(function(v) sum(v != 0, na.rm = na.rm)) + 0, median = each(function(v) stats::median(v, na.rm = na.rm)),
    count = each(function(v) sum(!is.na(v))) + 0
  )
}

test_that("statistics of both margins are those of R, for every type, layout and filter", {
  skip_without_h5()
  withr::local_dir(files)
  path <- h5_file(files, "types.h5")
  right <- h5_values_of(17, 23)
  rows <- expected_stats(right)
  columns <- expected_stats(t(right))
  for (name in datasets_of(path)) {
    m <- h5_matrix(path, name)
    both <- h5_stats(m, 1:2, all_stats)
    expect_equal(both$rows, rows, tolerance = 1e-12, label = name)
    expect_equal(both$columns, columns, tolerance = 1e-12, label = name)
    exact <- c("sum", "min", "max", "nnz", "median", "count")
    expect_identical(both$rows[exact], rows[exact], label = name)
    expect_identical(h5_stats(m, 2, all_stats), both$columns, label = name)
    expect_identical(h5_stats(t(m), 2, all_stats), both$rows, label = name)
  }
})

test_that("each statistic has a function for rows and one for columns", {
  skip_without_h5()
  m <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4", dimnames = list(NULL, rep(c("a", "b"), length.out = 23)))
  x <- h5_values_of(17, 23)
  rows <- expected_stats(x)
  columns <- expected_stats(t(x))
  for (stat in c("sum", "mean", "var", "sd", "min", "max", "nnz", "median")) {
    suffix <- if (stat == "nnz") stat else paste0(stat, "s")
    by_row <- get(paste0("h5_row_", suffix))(m)
    by_column <- get(paste0("h5_col_", suffix))(m)
    expect_equal(by_row, rows[[stat]], tolerance = 1e-12, label = stat)
    expect_equal(by_column, stats::setNames(columns[[stat]], dimnames(m)[[2L]]), tolerance = 1e-12, label = stat)
  }
})

test_that("rows, columns and groups are chosen", {
  skip_without_h5()
  m <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4")
  x <- h5_values_of(17, 23)
  rows <- c(17, 3:9)
  columns <- c(2, 23, 11:13)
  expect_identical(h5_row_sums(m, rows = rows, columns = columns), rowSums(x[rows, columns]))
  expect_identical(h5_col_sums(m, rows = rows, columns = columns), colSums(x[rows, columns]))
  expect_identical(h5_col_sums(m, columns = c(5, 5, 1)), colSums(x[, c(5, 5, 1)]))
  expect_identical(h5_col_sums(t(m), rows = columns), colSums(t(x)[columns, ]))
  expect_identical(h5_col_sums(m, rows = -(1:16)), x[17, ])
  groups <- factor(rep_len(c("u", "v", NA, "w"), 23), levels = c("w", "none", "v", "u"))
  by_group <- sapply(levels(groups), function(g) rowSums(x[, groups %in% g, drop = FALSE]))
  expect_identical(h5_row_sums(m, groups = groups), by_group)
  spread <- h5_stats(m, 1, c("var", "max"), groups = groups, rows = rows)
  direct <- sapply(levels(groups), function(g) apply(x[rows, groups %in% g, drop = FALSE], 1L, stats::var))
  direct[, "none"] <- NA
  expect_equal(spread$var, direct, tolerance = 1e-12)
  expect_identical(spread$max[, "none"], rep(-Inf, 8L))
  half <- factor(rep_len(1:2, 17))
  expect_identical(h5_col_sums(m, groups = half), unname(t(rowsum(x, half))), ignore_attr = TRUE)
  few <- h5_row_sums(m, groups = c("b", "a", "b", "a", "a"), columns = columns)
  expect_identical(few, t(rowsum(t(x[, columns]), c("b", "a", "b", "a", "a"))), ignore_attr = TRUE)
  expect_error(h5_row_sums(m, groups = 1:3), "length 23, one for each of the columns")
  expect_error(h5_stats(m, 1:2, groups = groups), class = "regatta_error_argument")
})

test_that("what is missing makes a result missing, or is left out", {
  skip_without_h5()
  skip_without_h5py()
  path <- withr::local_tempfile(fileext = ".h5")
  h5_by_python(path, c(
    "x = np.indices((40, 30)).sum(0) % 7 - 2.0",
    "x[(np.indices((40, 30))[0] * 5 + np.indices((40, 30))[1]) % 11 == 0] = np.nan",
    "x[:, 3] = np.nan",
    "f.create_dataset('f8', data=x, chunks=(7, 8), compression='gzip')",
    "f.create_dataset('f4', data=x.astype('f4'), chunks=(40, 1))",
    "f.create_dataset('f2', data=x.astype('f2'))",
    "y = np.where(np.isnan(x), -2**31, x).astype('i4')",
    "f.create_dataset('i4', data=y, chunks=(7, 8), compression='gzip')"
  ))
  for (name in c("f8", "f4", "f2", "i4")) {
    m <- h5_matrix(path, name)
    x <- m[] + 0
    expect_true(all(is.na(x[4, ])))
    for (na.rm in c(FALSE, TRUE)) {
      both <- h5_stats(m, 1:2, all_stats, na.rm = na.rm)
      for (k in 1:2) {
        right <- suppressWarnings(expected_stats(if (k == 1L) x else t(x), na.rm))
        for (stat in all_stats) {
          label <- paste(name, na.rm, k, stat)
          expect_equal(both[[k]][[stat]], right[[stat]], tolerance = 1e-12, ignore_attr = TRUE, label = label)
        }
      }
    }
  }
})

test_that("positions that come several times count as often", {
  skip_without_h5()
  path <- withr::local_tempfile(fileext = ".h5")
  control <- par_control(workers = 1L, seed = FALSE)
  x <- outer(1:31, 1:17, function(i, j) sin(i * j) * 10^(i %% 5))
  x[4, ] <- c(NA, 1)[1 + (1:17 %% 3 > 0)]
  x[9, 2] <- Inf
  rownames(x) <- paste0("r", 1:31)
  m <- h5_write(unname(x), path, "x", chunk = c(7, 5), .control = control)
  dimnames(m) <- dimnames(x)
  right_of <- function(x, na.rm) {
    of <- function(f) apply(x, 2L, f, na.rm = na.rm)
    suppressWarnings(data.frame(
      sum = of(sum), mean = of(mean), var = of(stats::var), sd = of(stats::sd), min = of(min), max = of(max),
      nnz = apply(x, 2L, function(column) if (na.rm || !anyNA(column)) sum(column != 0, na.rm = TRUE) else NA_real_),
      median = of(stats::median),
      count = colSums(!is.na(x))
    ))
  }
  for (rows in list(c(2, 2, 5), c(4, 9, 4, 4, 9, 30), rep(1:31, 1:31), c(4, 4))) {
    for (na.rm in c(FALSE, TRUE)) {
      found <- h5_stats(m, 2, all_stats, rows = rows, na.rm = na.rm)
      right <- right_of(x[rows, ], na.rm)
      for (stat in all_stats) {
        here <- is.finite(right[[stat]])
        expect_equal(found[[stat]][here], right[[stat]][here], tolerance = 1e-12, label = stat)
        expect_identical(is.na(found[[stat]]), is.na(right[[stat]]), label = stat)
      }
    }
  }
  columns <- c(3, 3, 17, 1, 3)
  found <- h5_stats(m, 1:2, c("sum", "max"), rows = c(2, 2, 5), columns = columns)
  part <- x[c(2, 2, 5), columns]
  expect_equal(found$columns, data.frame(sum = colSums(part), max = apply(part, 2, max)), tolerance = 1e-13)
  expect_equal(found$rows$sum, unname(rowSums(part)), tolerance = 1e-13)
  expect_identical(row.names(found$rows), c("r2", "r2.1", "r5"))
  expect_equal(h5_row_means(m, rows = "r2", columns = columns), c(r2 = mean(x[2, columns])))
  expect_error(h5_stats(m, 1, columns = c(1, 1), groups = c("a", "b")), "more than once", class = "regatta_error_argument")
})

test_that("sums are those of R near the range of doubles, and where large elements cancel, whatever the chunks", {
  skip_without_h5()
  folder <- withr::local_tempdir()
  control <- par_control(workers = 1L, seed = FALSE)
  most <- .Machine$double.xmax
  column <- function(...) rep_len(c(...), 43)
  # An odd number of rows, so that what is left at the end of a line is of all kinds.
  x <- cbind(
    column(most, most, -most, -most, 1), column(1e308, 1e308, 1e308), column(1e16, 1, -1e16, 1e-3, 0.25),
    column(1, 2^54, -2^54, 0.125), rep(c(-most, 0, most), c(20, 3, 20)), column(Inf, 1), column(Inf, -Inf, 1),
    column(-1e308, -Inf), column(1e16, NA, 1, -1e16), column(most, most, NaN, -most, -most, 0), column(0.1, 0.2, 0.3)
  )
  rows <- c(3, 3, 8, 1, 2, 2, 40:43)
  same <- function(found, right, label) {
    expect_identical(is.na(found), is.na(right), label = label)
    here <- !is.na(right)
    expect_equal(found[here], right[here], tolerance = 1e-15, label = label)
  }
  for (chunk in list(c(43, 11), c(1, 11), c(43, 1), c(2, 3), c(17, 4))) {
    m <- h5_write(x, file.path(folder, "x.h5"), paste(chunk, collapse = "x"), chunk = chunk, .control = control)
    for (na.rm in c(FALSE, TRUE)) {
      label <- paste(c(chunk, na.rm), collapse = " ")
      both <- h5_stats(m, 1:2, c("sum", "mean"), na.rm = na.rm)
      same(both$columns$sum, colSums(x, na.rm = na.rm), label)
      same(both$columns$mean, colMeans(x, na.rm = na.rm), label)
      same(both$rows$sum, rowSums(x, na.rm = na.rm), label)
      same(both$rows$mean, rowMeans(x, na.rm = na.rm), label)
      same(h5_col_sums(t(m), na.rm = na.rm), rowSums(x, na.rm = na.rm), label)
      same(h5_col_means(m, na.rm = na.rm, rows = rows), colMeans(x[rows, ], na.rm = na.rm), label)
      same(h5_col_sums(m, na.rm = na.rm, rows = rows), colSums(x[rows, ], na.rm = na.rm), label)
    }
  }
})

test_that("sums of whole numbers are exact, or said to be rounded", {
  skip_without_h5()
  path <- h5_file(files, "values.h5")
  expect_silent(high <- h5_stats(h5_matrix(path, "uint32"), 2, c("sum", "max", "var")))
  expect_identical(high$sum, c(2^31, 2^31 + 2^33 - 3))
  expect_identical(high$max, c(2^31 - 1, 2^32 - 1))
  expect_equal(high$var, c(stats::var(c(0, 1, 2^31 - 1)), stats::var(c(2^31, 2^32 - 2, 2^32 - 1))), tolerance = 1e-14)
  wide <- h5_matrix(path, "int64")
  expect_warning(sums <- h5_col_sums(wide), class = "regatta_warning_rounded")
  # -2^63 + (2^63 - 1) - (2^53 + 1), of which doubles would make -2^53.
  expect_identical(sums, c(2^54, -2^53 - 2))
  expect_silent(expect_identical(h5_col_sums(wide, columns = 2, rows = 1:2), -1))
  expect_identical(suppressWarnings(h5_row_maxs(wide)), c(0, 2^63, 2^53))
})

test_that("statistics hold for numbers of every size, in chunks of odd shapes", {
  skip_without_h5()
  skip_without_h5py()
  path <- withr::local_tempfile(fileext = ".h5")
  # Sums of the larger ones do not fit into 32 bits, their squares not into 64; lines are longer than a
  # block of lines or of columns.
  h5_by_python(path, c(
    "r = np.random.default_rng(5)",
    "sizes = {'i1': (7,), 'u1': (8,), 'i2': (7, 15), 'u2': (16,), 'i4': (9, 14, 27, 31), 'u4': (12, 32),",
    "         'i8': (10, 16, 31, 40), 'u8': (11, 32, 45), 'f4': (20,), 'f8': (30,)}",
    "for type, bits in sizes.items():",
    "    for bit in bits:",
    "        for rows, columns, chunk in ((611, 7, (300, 7)), (3, 17001, (3, 17001))):",
    "            low = 0 if type[0] == 'u' else 1 - 2**bit",
    "            x = r.integers(low, 2**bit, (rows, columns), dtype='i8').astype(type)",
    "            x[r.random((rows, columns)) < 0.3] = 0",
    "            x[0, 0], x[-1, -1] = low, 2**bit - 1",
    "            f.create_dataset('%s/%d/%d' % (type, bit, columns), data=x, chunks=chunk)"
  ))
  columns_of <- function(x) {
    count <- nrow(x)
    middle <- x - rep(colMeans(x), each = count)
    list(
      sum = colSums(x), var = colSums(middle^2) / (count - 1), min = apply(x, 2L, min), max = apply(x, 2L, max),
      nnz = colSums(x != 0)
    )
  }
  found <- h5_ls(path)
  for (name in found$name[found$kind == "dataset"]) {
    m <- h5_matrix(path, name)
    x <- m[] + 0
    both <- suppressWarnings(h5_stats(m, 1:2, c("sum", "var", "min", "max", "nnz")))
    for (margin in 1:2) {
      right <- columns_of(if (margin == 2L) x else t(x))
      for (stat in names(right)) {
        expect_equal(both[[margin]][[stat]], right[[stat]], tolerance = 1e-12, label = paste(name, margin, stat))
      }
    }
    expect_identical(suppressWarnings(h5_stats(m, 2, c("var", "nnz"))), both$columns[c("var", "nnz")])
    exact <- startsWith(name, "i4") || startsWith(name, "u4")
    if (exact) expect_identical(both$columns$sum, colSums(x), label = name)
    groups <- rep_len(c("a", "b", "c"), nrow(x))
    by_group <- suppressWarnings(h5_col_sums(m, groups = groups))
    expect_equal(by_group, t(rowsum(x, groups)), tolerance = 1e-12, ignore_attr = TRUE, label = name)
  }
})

test_that("numbers from 0 to 255, and those just beyond, have right statistics however they are stored", {
  skip_without_h5()
  skip_without_h5py()
  path <- withr::local_tempfile(fileext = ".h5")
  # Lines are shorter than sixteen, a multiple of it and none; more than 256 of them; chunks reach over the edge. In
  # some of the chunks one element does not fit into a byte, or is missing for R.
  h5_by_python(path, c(
    "r = np.random.default_rng(7)",
    "for type in ('<i4', '>i4', '<u4', '>u2', '<i8', 'u1', 'i1'):",
    "    for rows, columns, chunk in ((700, 33, (700, 33)), (70, 150, (32, 100)), (40, 29, (7, 15)), (5, 600, (2, 500))):",
    "        x = r.integers(0, 128 if type == 'i1' else 256, (rows, columns))",
    "        x[r.random((rows, columns)) < 0.3] = 0",
    "        x[:, 3] = 127 if type == 'i1' else 255",
    "        for beyond in (None, 256, -1, -2**31):",
    "            if beyond is not None:",
    "                if type[-2:] not in ('i4', 'i8') and beyond != -1: continue",
    "                if beyond < 0 and 'u' in type: continue",
    "                x[rows // 2, columns - 1] = beyond",
    "            for packing, how in (('plain', {}), ('shuffle', dict(compression='gzip', shuffle=True)),",
    "                                 ('lzf', dict(compression='lzf', shuffle=True, fletcher32=True))):",
    "                name = '%s/%dx%d/%s/%s' % (type.replace('<', 'l').replace('>', 'b'), rows, columns, beyond, packing)",
    "                f.create_dataset(name, data=x.astype(type), chunks=chunk, **how)",
    "f.create_dataset('three', data=r.integers(0, 256, (3, 40, 50)), dtype='<i4', chunks=(2, 30, 40), compression='gzip', shuffle=True)"
  ))
  columns_of <- function(x) {
    count <- colSums(!is.na(x))
    middle <- x - rep(colMeans(x, na.rm = TRUE), each = nrow(x))
    list(
      sum = colSums(x, na.rm = TRUE), var = colSums(middle^2, na.rm = TRUE) / (count - 1),
      min = apply(x, 2L, min, na.rm = TRUE), max = apply(x, 2L, max, na.rm = TRUE), nnz = colSums(x != 0, na.rm = TRUE),
      count = count
    )
  }
  check <- function(m, label) {
    x <- m[] + 0
    stats <- c("sum", "var", "min", "max", "nnz", "count")
    both <- h5_stats(m, 1:2, stats, na.rm = TRUE)
    right <- list(columns_of(t(x)), columns_of(x))
    for (margin in 1:2) {
      expect_equal(as.list(both[[margin]]), right[[margin]], tolerance = 1e-12, label = paste(label, margin))
      expect_identical(both[[margin]]$sum, right[[margin]]$sum, label = label)
      expect_identical(h5_stats(m, margin, stats, na.rm = TRUE), both[[margin]], label = label)
    }
    chosen <- sort(sample.int(nrow(x), nrow(x) %/% 2))
    groups <- rep_len(c("a", "b", "c"), length(chosen))
    by_group <- h5_col_sums(m, rows = chosen, groups = groups, na.rm = TRUE)
    expect_equal(by_group, t(rowsum(x[chosen, ], groups, na.rm = TRUE)), tolerance = 1e-12, ignore_attr = TRUE, label = label)
    odd <- seq(1, ncol(x), by = 2)
    expect_identical(h5_row_sums(m, columns = odd, na.rm = TRUE), rowSums(x[, odd], na.rm = TRUE), label = label)
  }
  withr::local_seed(1)
  found <- h5_ls(path)
  names <- found$name[found$kind == "dataset" & found$name != "three"]
  expect_gt(length(names), 100L)
  for (name in names) check(h5_matrix(path, name), name)
  for (plane in 1:3) check(h5_matrix(path, "three", plane = plane), paste("plane", plane))
})

test_that("results do not depend on the number of threads", {
  skip_without_h5()
  skip_without_h5py()
  path <- withr::local_tempfile(fileext = ".h5")
  h5_by_python(path, c(
    "x = np.random.default_rng(1).lognormal(0, 9, (300, 200))",
    "f.create_dataset('x', data=x, chunks=(13, 17), compression='gzip')",
    "f.create_dataset('y', data=x)"
  ))
  m <- h5_matrix(path, "x")
  one <- h5_stats(m, 1:2, all_stats, threads = 1L)
  for (threads in c(2L, 3L, 2L, 2L)) {
    expect_identical(h5_stats(m, 1:2, all_stats, threads = threads), one)
  }
  x <- m[]
  expect_identical(x, h5_matrix(path, "y")[])
  expect_equal(one$columns$sum, colSums(x), tolerance = 1e-13)
  expect_equal(one$rows$var, apply(x, 1L, stats::var), tolerance = 1e-12)
  # With a budget below one chunk one thread works.
  expect_identical(h5_stats(m, 1:2, all_stats, memory = 1), one)
})

test_that("threads read all chunks whose filters are decoded here, of every index that files have", {
  skip_without_h5()
  threads_of <- function(path, name, plane = NULL) {
    m <- h5_matrix(path, name, plane = plane)
    regatta:::h5_call_cached(
      m, "ffi_h5_stats", regatta:::h5_source(m), rep(list(list(NULL, 1L, NULL)), 2L),
      c(TRUE, FALSE, FALSE, FALSE, FALSE, TRUE, TRUE, FALSE), 2L, 2^26
    )$threads
  }
  direct <- list(
    types.h5 = c("fletcher/le-i4", "lzf/le-i4"), shapes.h5 = c("one", "none", "part", "mask"),
    latest.h5 = c("fixed", "array", "tree", "one"), userblock.h5 = c("x", "z"), links.h5 = c("out", "out-gzip", "soft")
  )
  for (file in names(direct)) {
    if (!file.exists(file.path(files, file))) next
    for (name in direct[[file]]) expect_identical(threads_of(file.path(files, file), name), 2, label = name)
  }
  expect_identical(threads_of(h5_file(files, "shapes.h5"), "three", 2), 2)
  # What only libhdf5 decodes is for R's thread.
  for (name in intersect("nbit", h5_ls(h5_file(files, "types.h5"))$name)) {
    expect_identical(threads_of(file.path(files, "types.h5"), name), 1, label = name)
  }
})

test_that("a damaged chunk is an error whatever the margin and the threads", {
  skip_without_h5()
  m <- h5_matrix(h5_file(files, "damaged.h5"), "checksum")
  for (margin in list(1, 2, 1:2)) {
    for (threads in 1:2) {
      error <- h5_error(h5_stats(m, margin, "sum", threads = threads))
      expect_match(conditionMessage(error), "chunk \\(2, 2\\) of `checksum`.*deflate checksum mismatch")
    }
  }
  expect_identical(h5_col_sums(m, rows = 1:3), colSums(h5_values_of(6, 8)[1:3, ]))
})

test_that("shapes without elements, vectors and planes have statistics", {
  skip_without_h5()
  path <- h5_file(files, "shapes.h5")
  empty <- h5_matrix(path, "empty")
  expect_identical(h5_row_sums(empty), numeric(4))
  expect_identical(h5_col_sums(empty), numeric())
  expect_identical(h5_row_maxs(empty), rep(-Inf, 4))
  expect_identical(h5_col_sums(h5_matrix(path, "one")), sum((11 * 0:28) %% 113))
  expect_identical(h5_col_sums(h5_matrix(path, "none")), rep(-42, 5))
  expect_identical(h5_row_sums(h5_matrix(path, "three", plane = 2)), rowSums(h5_values_of(5, 6) + 1000))
  expect_identical(h5_row_vars(h5_matrix(path, "single")), NA_real_)
})

# A file with chunks of 9 to 19 MB: one over a matrix, two side by side of which the second is cut off, one without
# filters, those of the vectors of a sparse matrix; and with three of the first kind that are damaged.
giant_chunks <- function() {
  skip_without_h5()
  skip_without_h5py()
  # Chunks of more than 8 MiB are too large to be decoded at once.
  withr::local_envvar(REGATTA_H5_WHOLE_CHUNK = 2^23, .local_envir = parent.frame())
  path <- file.path(files, "giant.h5")
  if (file.exists(path)) {
    return(path)
  }
  h5_by_python(path, c(
    "import zlib",
    "i, j = np.ogrid[0:1500, 0:2500]",
    "x = (((37 * i + 11 * j) % 113) * ((i + j) % 9 == 0)).astype('i4')",
    "how = dict(compression='gzip', compression_opts=1)",
    "def damaged(name, like, filters, raw, at):",
    "    d = f.create_dataset(name, like.shape, 'i4', chunks=like.chunks, **filters)",
    "    raw = bytearray(raw)",
    "    raw[at] ^= 1",
    "    d.id.write_direct_chunk((0, 0), bytes(raw))",
    "one = f.create_dataset('one', data=x, chunks=x.shape, shuffle=True, fletcher32=True, **how)",
    "two = f.create_dataset('two', data=x, chunks=(1500, 1400), **how)",
    "plain = f.create_dataset('plain', data=x, chunks=x.shape)",
    "f.create_dataset('never', x.shape, 'i4', chunks=x.shape, fillvalue=3, **how)",
    "g = f.create_group('matrix')",
    "n = 2400000",
    "g.create_dataset('data', data=(np.arange(n) % 7 + 1).astype('i4'), chunks=(n,), shuffle=True, **how)",
    "g.create_dataset('indices', data=np.arange(n, dtype='i8') % 1200, chunks=(n,), shuffle=True, **how)",
    "g.create_dataset('indptr', data=np.arange(0, n + 1, 1200))",
    "g.create_dataset('shape', data=np.array([1200, 2000]))",
    "f.flush()",
    "raw = one.id.read_direct_chunk((0, 0))[1]",
    "damaged('fletcher', one, dict(shuffle=True, fletcher32=True, **how), raw, -1)",
    "damaged('deflate', plain, how, zlib.compress(x.tobytes(), 1), -1)",
    "damaged('shuffled', plain, dict(shuffle=True, **how), raw[:-4], -1)",
    "damaged('middle', plain, how, zlib.compress(x.tobytes(), 1), 100000)"
  ))
  path
}

test_that("chunks that are too large to be decoded at once are read part by part", {
  path <- giant_chunks()
  # The last index of the file runs along a column.
  x <- outer(0:2499, 0:1499, function(j, i) ((37 * i + 11 * j) %% 113) * ((i + j) %% 9 == 0))
  mean_of <- list(rows = rowMeans(x), columns = colMeans(x))
  right <- list(
    rows = data.frame(sum = rowSums(x), var = rowSums((x - mean_of$rows)^2) / 1499),
    columns = data.frame(sum = colSums(x), var = rowSums((t(x) - mean_of$columns)^2) / 2499)
  )
  for (name in c("one", "two", "plain")) {
    m <- h5_matrix(path, name)
    found <- h5_stats(m, 1:2, c("sum", "var"), threads = 4L)
    expect_equal(found, right, tolerance = 1e-12, label = name)
    expect_identical(found$rows$sum, right$rows$sum, label = name)
    expect_identical(h5_col_sums(m, columns = c(1500, 3), rows = 2:2499), colSums(x[2:2499, c(1500, 3)]), label = name)
    expect_identical(m[c(2500, 1, 1400:1402), c(1500, 7)] + 0, x[c(2500, 1, 1400:1402), c(1500, 7)], label = name)

    # With room for all parts, and for some.
    for (budget in c("64MB", "1MB")) {
      cached <- h5_cache(m, budget)
      expect_identical(h5_stats(cached, 1:2, c("sum", "var")), found, label = name)
      kept <- h5_cache_info(cached)
      if (name != "plain") expect_gt(kept[["chunks"]], 10)
      if (budget == "64MB") expect_identical(kept[["kept"]], kept[["chunks"]], label = name)
      expect_identical(h5_stats(cached, 1:2, c("sum", "var")), found, label = name)
      expect_identical(cached[c(2500, 1, 1400:1402), c(1500, 7)] + 0, x[c(2500, 1, 1400:1402), c(1500, 7)], label = name)
      h5_cache_drop(cached)
    }
  }
  expect_identical(h5_col_sums(h5_matrix(path, "never")), rep(7500, 1500))

  for (name in c("fletcher", "deflate", "shuffled")) {
    message <- sprintf("chunk \\(1, 1\\) of `%s`.*%s checksum mismatch", name, if (name == "fletcher") "fletcher32" else "deflate")
    expect_match(conditionMessage(h5_error(h5_col_sums(h5_matrix(path, name)))), message)
    # What is before the damage is not given out either.
    expect_match(conditionMessage(h5_error(h5_matrix(path, name)[1:2, 1:2])), message)
  }
  expect_match(conditionMessage(h5_error(h5_col_sums(h5_matrix(path, "middle")))), "chunk \\(1, 1\\) of `middle`.*deflate")
})

test_that("vectors of a sparse matrix that are one large chunk each are read part by part", {
  skip_if_not_installed("Matrix")
  path <- giant_chunks()
  x <- matrix(seq(0, 2399999) %% 7 + 1, 1200)
  m <- h5_sparse(path)
  found <- h5_stats(m, 1:2, c("sum", "nnz"), threads = 4L)
  expect_identical(found$rows, data.frame(sum = rowSums(x), nnz = rep(2000, 1200)))
  expect_identical(found$columns, data.frame(sum = colSums(x), nnz = rep(1200, 2000)))
  chosen <- c(1990, 3, 1991, 1000, 4)
  expect_equal(as.matrix(m[, chosen]), x[, chosen], ignore_attr = TRUE)
  # Parts that are kept come between those that are read.
  cached <- h5_cache(m, "1MB")
  expect_identical(h5_stats(cached, 1:2, c("sum", "nnz")), found)
  kept <- h5_cache_info(cached)
  expect_gt(kept[["kept"]], 3)
  expect_lt(kept[["kept"]], kept[["chunks"]])
  expect_identical(h5_stats(cached, 1:2, c("sum", "nnz")), found)
  expect_equal(as.matrix(cached[, chosen]), x[, chosen], ignore_attr = TRUE)
})

test_that("chunks that are too large to be decoded at once need little memory", {
  skip_on_os(c("windows", "mac", "solaris"))
  skip_if_not_installed("processx")
  withr::local_preserve_seed()
  path <- giant_chunks()
  needed <- h5_measured(path, c(
    "sums <- function(m) invisible(h5_stats(m, 1:2, 'sum', threads = 4L))",
    "sums(h5_matrix(path, 'matrix/indptr'))",
    "invisible(gc())",
    "before <- peak()",
    "for (name in c('one', 'two', 'plain')) sums(h5_matrix(path, name))",
    "dense <- peak()",
    "sums(h5_sparse(path))",
    "cat(dense - before, peak() - before)"
  ))
  # Decoded at once, the dense ones need more than 30 MB, and the sparse one 60.
  expect_memory_below(needed[[1L]], 16)
  expect_memory_below(needed[[2L]], 32)
})

test_that("arguments are checked", {
  skip_without_h5()
  m <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4")
  refused <- function(code) expect_error(code, class = "regatta_error_argument")
  refused(h5_stats(1, 1))
  refused(h5_stats(m, 3))
  refused(h5_stats(m, 1, "mode"))
  refused(h5_stats(m, 1, na.rm = NA))
  refused(h5_stats(m, 1, threads = 0))
  refused(h5_stats(m, 1, memory = "much"))
  expect_error(h5_stats(m, 1, rows = 99), class = "regatta_error_h5")
})

test_that("progress is shown when asked for", {
  skip_without_h5()
  m <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4")
  expect_output(h5_col_sums(m, progress = TRUE), "100% \\(done\\)")
  expect_silent(h5_col_sums(m))
})

test_that("statistics are computed in forked workers", {
  skip_without_h5()
  withr::local_preserve_seed()
  m <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4")
  h5_col_sums(m, threads = 2L)
  right <- lapply(1:4, function(i) h5_col_sums(m, rows = i))
  expect_identical(
    par_lapply(1:4, function(i) h5_col_sums(m, rows = i), .control = par_control(workers = 2L, seed = FALSE)),
    right
  )
  expect_identical(parallel::mclapply(1:4, function(i) h5_col_sums(m, rows = i), mc.cores = 2L), right)
})

test_that("an interrupt ends a pass between two chunks, and the next one is right", {
  skip_without_h5()
  skip_if_not_installed("processx")
  path <- withr::local_tempfile(fileext = ".h5")
  h5_write(matrix(1, 400, 500), path, "x", chunk = c(10, 10), .control = par_control(workers = 1L, seed = FALSE))
  session <- fault_start(function(path) {
    m <- h5_matrix(path, "x")
    input <- file("stdin", "r")
    drain <- function() tryCatch(allowInterrupts(Sys.sleep(0)), interrupt = function(e) NULL)
    one <- list(
      stats = function() h5_stats(m, 1:2, threads = 2L), part = function() m[], median = function() h5_row_medians(m),
      apply = function() h5_apply(m, 2, colSums, memory = 1e5, .control = par_control(workers = 2L, seed = FALSE))
    )
    suspendInterrupts(for (name in names(one)) {
      drain()
      caught <- tryCatch(allowInterrupts({
        cat("go", name, "\n")
        repeat one[[name]]()
      }), interrupt = function(e) "interrupt", error = function(e) conditionMessage(e))
      cat("after", name, caught, identical(h5_col_sums(m), rep(400, 500)), "\n")
      readLines(input, 1L)
    })
  }, list(path = path))
  withr::defer(fault_end(session))
  for (name in c("stats", "part", "median", "apply")) {
    fault_wait_line(session, paste("^go", name))
    tools::pskill(session$process$get_pid(), tools::SIGINT)
    fault_wait_line(session, paste("^after", name))
    expect_match(fault_text(session, "stdout"), paste("^after", name, "interrupt TRUE"), all = FALSE)
    fault_tell(session, "go on")
  }
})

test_that("variances are those of the elements however large or far from zero they are", {
  skip_without_h5()
  withr::local_seed(3)
  folder <- withr::local_tempdir()
  n <- 300L
  steps <- matrix(sample(0:8, 2L * n, TRUE), n)
  noise <- matrix(stats::rnorm(2L * n), n)
  signs <- matrix(c(1e155, -1e155, rep(0, n - 2L)), n, 2L)
  missing <- replace(1e15 + steps, c(5L, n + 7:200), NA)
  cases <- list(
    shifted = list(1e15 + steps, steps), missing = list(missing, missing - 1e15), large = list(1e153 * noise),
    overflow = list(signs), equal = list(matrix(1e200, n, 2L)), spread = list(1e155 + 1e140 * steps),
    infinite = list(replace(noise, 5L, -Inf)), largest = list(matrix(1.7e308, n, 2L))
  )
  # Where the compiler has no numbers of more range than doubles, squares of some do not fit.
  if (.Machine$sizeof.longdouble <= 8) cases[c("large", "overflow")] <- NULL
  for (name in names(cases)) {
    x <- cases[[name]][[1L]]
    same <- cases[[name]][[length(cases[[name]])]]
    expected <- apply(same, 2L, stats::var, na.rm = TRUE)
    for (rows in c(64, n)) {
      m <- h5_write(x, file.path(folder, name), sprintf("x%d", rows), chunk = c(rows, 1),
        .control = par_control(workers = 1, seed = FALSE, progress = FALSE))
      tolerance <- if (name == "spread") 1e-2 else 1e-13 # those of 1e155 are 1e139 apart
      expect_equal(h5_col_vars(m, na.rm = TRUE), expected, tolerance = tolerance, label = name)
      expect_identical(h5_row_vars(t(m), na.rm = TRUE), h5_col_vars(m, na.rm = TRUE), label = name)
      expect_equal(h5_stats(m, 1:2, "var", na.rm = TRUE)$columns$var, expected, tolerance = tolerance, label = name)
    }
  }
  # Whole numbers of 64 bits are no doubles, but their distances are; and what a sparse matrix has stored.
  skip_without_h5py()
  path <- file.path(folder, "python.h5")
  h5_by_python(path, c(
    "a = np.arange(600).reshape(2, 300) % 7",
    "f.create_dataset('i64', data=(a + 2**60).astype('i8'), chunks=(1, 40))",
    "f.create_dataset('u64', data=a.astype('u8') + np.uint64(2**63), chunks=(1, 40))"
  ))
  expected <- apply(matrix(0:599 %% 7, 300L), 2L, stats::var)
  expect_equal(h5_col_vars(h5_matrix(path, "i64")), expected, tolerance = 1e-14)
  expect_equal(h5_col_vars(h5_matrix(path, "u64")), expected, tolerance = 1e-14)
})

test_that("nothing is left behind", {
  # parallel::mclapply() was used, see expect_no_detritus().
  expect_no_detritus(detritus, except = "^child process .*state Z")
})
