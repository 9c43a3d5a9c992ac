# The files go when this file is over.
files <- local_h5_files()
# It sets an option of R when it is loaded.
requireNamespace("Matrix", quietly = TRUE)
detritus <- detritus_snapshot()

control <- par_control(workers = 1L, seed = FALSE)

# As R computes them, of rows or columns.
medians_of <- function(x, margin, na.rm = FALSE) {
  as.double(apply(x, margin, stats::median, na.rm = na.rm))
}

# Bytes for one row at a time, for some, and for all.
budgets <- c(1, 2500, 2^26)

test_that("medians of both margins are those of R, for every type, layout and filter, in any memory", {
  skip_without_h5()
  withr::local_dir(files)
  path <- h5_file(files, "types.h5")
  x <- h5_values_of(17, 23)
  rows <- medians_of(x, 1)
  columns <- medians_of(x, 2)
  for (name in datasets_of(path)) {
    m <- h5_matrix(path, name)
    for (memory in budgets[-1]) {
      expect_identical(h5_row_medians(m, memory = memory), rows, label = name)
      expect_identical(h5_col_medians(m, memory = memory), columns, label = name)
      expect_identical(h5_row_medians(t(m), memory = memory), columns, label = name)
    }
  }
})

test_that("rows, columns, repeated ones and groups are chosen, whatever the chunks, the threads and the memory", {
  skip_without_h5()
  path <- withr::local_tempfile(fileext = ".h5")
  withr::local_seed(11)
  x <- matrix(sample(c(NA, NaN, Inf, -Inf, -40:40 / 7), 31 * 26, TRUE), 31)
  x[4, ] <- NA
  x[, 5] <- c(NA, 2.5)[1 + (1:31 == 8)]
  rows <- c(2, 2, 5, 31:20, 2)
  columns <- c(26, 3, 9:4)
  groups <- factor(rep_len(c("u", "v", NA, "w"), 26), levels = c("w", "none", "v", "u"))
  for (chunk in list(c(31, 1), c(1, 26), c(7, 5))) {
    name <- paste(chunk, collapse = "x")
    m <- h5_write(x, path, name, chunk = chunk, .control = control)
    for (memory in budgets) {
      for (na.rm in c(FALSE, TRUE)) {
        label <- paste(name, memory, na.rm)
        same <- function(found, right) expect_identical(unname(found), unname(right), label = label)
        for (threads in 1:2) {
          both <- h5_stats(m, 1:2, c("median", "count"), na.rm = na.rm, memory = memory, threads = threads)
          same(both$rows, data.frame(median = medians_of(x, 1, na.rm), count = rowSums(!is.na(x))))
          same(both$columns, data.frame(median = medians_of(x, 2, na.rm), count = colSums(!is.na(x))))
        }
        same(h5_row_medians(m, na.rm = na.rm, columns = columns, memory = memory), medians_of(x[, columns], 1, na.rm))
        same(h5_col_medians(m, na.rm = na.rm, rows = rows, columns = columns, memory = memory),
          medians_of(x[rows, columns], 2, na.rm))
        twice <- h5_stats(m, 1:2, c("median", "max", "count"), na.rm = na.rm, rows = rows, columns = c(9, 9, 9, 1, 8),
          memory = memory)
        part <- x[rows, c(9, 9, 9, 1, 8)]
        same(twice$rows$median, medians_of(part, 1, na.rm))
        same(twice$columns$median, medians_of(part, 2, na.rm))
        same(twice$columns$count, as.double(colSums(!is.na(part))))
        by_group <- sapply(levels(groups), function(g) medians_of(x[, groups %in% g, drop = FALSE], 1, na.rm))
        same(h5_row_medians(m, na.rm = na.rm, groups = groups, memory = memory), by_group)
        same(h5_col_medians(t(m), na.rm = na.rm, groups = groups, memory = memory), by_group)
      }
    }
  }
})

test_that("the mean of two middle elements is that of R, and exact for whole numbers of 64 bits", {
  skip_without_h5()
  path <- withr::local_tempfile(fileext = ".h5")
  most <- .Machine$double.xmax
  x <- cbind(c(most, most), c(-most, most), c(most, most / 3), c(0.1, 0.3), c(1e16, 3), c(Inf, Inf), c(-Inf, Inf),
    c(5e-324, 1e-323), c(2^53, 2^53 + 2), c(2147483647, 2147483646))
  m <- h5_write(x, path, "x", chunk = c(2, 3), .control = control)
  expect_identical(h5_col_medians(m), medians_of(x, 2))
  expect_identical(h5_row_medians(m), medians_of(x, 1))
  y <- matrix(c(2147483647L, 2147483646L, -2147483647L, -2147483646L, NA, 1L), 2)
  expect_identical(h5_col_medians(h5_write(y, path, "y", .control = control)), c(2147483646.5, -2147483646.5, NA))
  skip_without_h5py()
  h5_by_python(path, c(
    "m, p = 2**63 - 1, 2**53",
    "f['i8'] = np.array([[m - 1023, m - 1023], [p + 1, p + 3], [-m - 1, m], [5, 8], [-p - 1, -p - 3]], 'i8')",
    "f['u8'] = np.array([[2**64 - 2048, 2**64 - 2048], [0, 2**63], [p, 1]], 'u8')",
    "f['odd'] = np.array([[p + 1]], 'i8')", "f['half'] = np.array([[p + 1, p + 2]], 'u8')"
  ), mode = "a")
  expect_silent(wide <- h5_col_medians(h5_matrix(path, "i8")))
  expect_identical(wide, c(2^63 - 1024, 2^53 + 2, -0.5, 6.5, -2^53 - 2))
  expect_silent(unsigned <- h5_col_medians(h5_matrix(path, "u8")))
  expect_identical(unsigned, c(2^64 - 2048, 2^62, 2^52 + 0.5))
  for (name in c("odd", "half")) {
    expect_warning(expect_identical(h5_col_medians(h5_matrix(path, name)), if (name == "odd") 2^53 else 2^53 + 2),
      class = "regatta_warning_rounded")
  }
})

test_that("medians of sparse matrices are those of the dense ones: with many zeros and few, of both signs", {
  skip_without_h5()
  skip_without_h5py()
  skip_if_not_installed("Matrix")
  path <- withr::local_tempfile(fileext = ".h5")
  withr::local_seed(7)
  h5_by_python(path, c(
    "rng = np.random.default_rng(2)",
    "share = np.linspace(0, 1, 36)",
    "x = np.where(rng.random((33, 36)) < share, rng.integers(-40, 41, (33, 36)) / 8, 0)",
    "x[:, 20] = np.abs(x[:, 20])", "x[:, 21] = -np.abs(x[:, 21])", "x[:16, 22] = 1; x[16:, 22] = 0",
    "x[:17, 23] = -1; x[17:, 23] = 0", "x[:, 24] = 0; x[::2, 24] = np.nan", "x[5, 25:33] = np.inf",
    "def write(name, x, type):",
    "    for layout, y in (('csr', x), ('csc', x.T)):",
    "        g = f.create_group(name + '-' + layout)", "        values, indices, pointers = [], [], [0]",
    "        for line in y:", "            at = rng.permutation(np.flatnonzero(line != 0))",
    "            values.extend(line[at]); indices.extend(at); pointers.append(len(indices))",
    # A stored zero is a zero.
    "        if name == 'f8': values[0] = 0.0",
    "        g.create_dataset('data', data=np.array(values).astype(type), chunks=(10,), compression='gzip')",
    "        g.create_dataset('indices', data=np.array(indices, 'i4'), chunks=(16,))",
    "        g['indptr'] = np.array(pointers, 'i8')", "        g.attrs['encoding-type'] = layout + '_matrix'",
    "        g.attrs['shape'] = np.array(x.shape)",
    "write('f8', x, 'f8')", "write('f2', x, 'f2')", "y = np.nan_to_num(x * 8, nan=-2**31, posinf=99)",
    "write('i4', y, 'i4')", "write('i8', np.where(y > 0, y, 0), 'u8')"
  ))
  rows <- c(30, 2, 2, 9:20)
  groups <- rep_len(c("a", "b", NA, "c"), 33)
  for (name in paste0(rep(c("f8", "f2", "i4", "i8"), 2), c("-csr", "-csc"))) {
    for (turned in c(FALSE, TRUE)) {
      m <- h5_sparse(path, name)
      if (turned) m <- t(m)
      x <- as.matrix(m)
      at <- if (nrow(x) == 36L) seq_len(36) else rows
      group <- rep_len(groups, ncol(x))
      for (memory in budgets) {
        for (na.rm in c(FALSE, TRUE)) {
          label <- paste(name, turned, memory, na.rm)
          same <- function(found, right) expect_identical(unname(found), unname(right), label = label)
          for (threads in 1:2) {
            both <- h5_stats(m, 1:2, c("median", "count", "nnz"), na.rm = na.rm, memory = memory, threads = threads)
            same(both$rows$median, medians_of(x, 1, na.rm))
            same(both$columns$median, medians_of(x, 2, na.rm))
            same(both$rows$count, as.double(rowSums(!is.na(x))))
          }
          same(h5_col_medians(m, na.rm = na.rm, rows = at, memory = memory), medians_of(x[at, ], 2, na.rm))
          same(h5_row_medians(m, na.rm = na.rm, rows = c(9, 3), columns = c(3, 3, 25, 3, 26), memory = memory),
            medians_of(x[c(9, 3), c(3, 3, 25, 3, 26)], 1, na.rm))
          by_group <- sapply(c("a", "b", "c"), function(g) medians_of(x[, group %in% g], 1, na.rm))
          same(h5_row_medians(m, na.rm = na.rm, groups = group, memory = memory), by_group)
        }
      }
    }
  }
})

test_that("shapes without elements, caches and progress are those of the other statistics", {
  skip_without_h5()
  path <- h5_file(files, "shapes.h5")
  empty <- h5_matrix(path, "empty")
  expect_identical(h5_row_medians(empty), rep(NA_real_, 4))
  expect_identical(h5_col_medians(empty), numeric())
  expect_identical(h5_col_medians(h5_matrix(path, "none")), rep(-7, 5))
  expect_identical(h5_row_medians(h5_matrix(path, "three", plane = 2)), medians_of(h5_values_of(5, 6) + 1000, 1))
  m <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4")
  x <- h5_values_of(17, 23)
  expect_identical(h5_col_medians(m, rows = integer()), rep(NA_real_, 23))
  expect_identical(h5_row_medians(m, rows = integer()), numeric())
  expect_output(h5_row_medians(m, progress = TRUE), "100% \\(done\\)")
  cached <- h5_cache(m, "1MB")
  for (k in 1:2) expect_identical(h5_col_medians(cached), medians_of(x, 2))
  h5_cache_drop(cached)
  error <- h5_error(h5_row_medians(h5_matrix(h5_file(files, "damaged.h5"), "checksum")))
  expect_match(conditionMessage(error), "chunk \\(2, 2\\) of `checksum`.*deflate checksum mismatch")
})

test_that("medians need the memory that they are given", {
  skip_on_os(c("windows", "mac", "solaris"))
  skip_without_h5()
  skip_if_not_installed("processx")
  withr::local_preserve_seed()
  path <- withr::local_tempfile(fileext = ".h5")
  # Of 48 MB; a row is in every chunk.
  x <- matrix(as.double((1:6000000 * 7919) %% 10007), 3000)
  h5_write(x, path, "x", chunk = c(3000, 1), level = 1, .control = control)
  found <- h5_measured(path, c(
    "m <- h5_matrix(path, 'x')",
    "medians <- function() list(h5_row_medians(m, memory = '4MB'), h5_col_medians(m, memory = '4MB'))",
    "invisible(h5_row_medians(m, rows = 1:2, memory = '4MB'))",
    "invisible(gc())",
    "before <- peak()",
    "found <- medians()",
    "cat(peak() - before, format(c(sum(found[[1L]]), sum(found[[2L]])), digits = 15))"
  ))
  expect_identical(found[-1L], c(sum(medians_of(x, 1)), sum(medians_of(x, 2))))
  expect_memory_below(found[[1L]], 10)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
