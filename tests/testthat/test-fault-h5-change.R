# A file that is written anew while an object knows it as it was: nothing is read by what the object remembers.
# Packages change options when they are first loaded.
requireNamespace("Matrix", quietly = TRUE)
detritus <- detritus_snapshot()
control <- par_control(workers = 1L, seed = FALSE)

# As many elements in each.
values <- matrix(1:24, 6)
write_values <- function(path, x = values, type = "int32", chunk = c(3, 2)) {
  unlink(path)
  h5_write(x, path, "x", type, chunk, .control = control)
}

# All that reads a matrix.
reads <- list(
  all = function(m) m[, ], part = function(m) m[2, 3], matrix = function(m) as.matrix(m), none = function(m) m[integer(), 1:2],
  stats = function(m) h5_stats(m, 1:2), sums = function(m) h5_col_sums(m, rows = 1:2), summary = function(m) summary(m),
  groups = function(m) h5_row_sums(m, groups = c("a", "b", "a", "b")), turned = function(m) t(m)[1:2, ],
  cache = function(m) h5_cache(m, "1MB"), annotation = function(m) h5_annotation(m, 1),
  apply = function(m) h5_apply(m, 2, dim, .control = control), product = function(m) h5_product(m, diag(4)),
  crossprod = function(m) h5_crossprod(m), thin = function(m) h5_crossprod(m, diag(6)),
  written = function(m) h5_write(m, tempfile(fileext = ".h5"), "y", .control = control)
)

fails <- function(read, m, message, info) {
  # In workers it is an error of an element, whose message has that of the file.
  error <- tryCatch(read(m), error = identity)
  expect_s3_class(error, "regatta_error")
  expect_match(conditionMessage(error), message, fixed = TRUE, info = info)
}

test_that("another size, type or chunk is an error of everything that reads", {
  skip_without_h5()
  path <- withr::local_tempfile(fileext = ".h5")
  was <- "and was 6 x 4 of int32 in chunks of 3 x 2 when the matrix was opened"
  changes <- list(
    "is 4 x 6 of int32 in chunks of 3 x 2, " = function() write_values(path, matrix(1:24, 4)),
    "is 6 x 4 of uint16 in chunks of 3 x 2, " = function() write_values(path, type = "uint16"),
    "is 6 x 4 of int32 in chunks of 2 x 3, " = function() write_values(path, chunk = c(2, 3))
  )
  for (now in names(changes)) {
    m <- write_values(path)
    cached <- h5_cache(m, "1MB")
    expect_identical(cached[, ], values)
    changes[[now]]()
    for (name in names(reads)) {
      fails(reads[[name]], m, paste0("the file has changed: `x` in ", regatta:::h5_fields(m)$path, " ", now, was), name)
    }
    fails(function(m) m[, ], cached, was, now)
    h5_cache_drop(cached)
    expect_identical(h5_matrix(path, "x")[1, ] + 0L, if (startsWith(now, "is 4 x 6")) matrix(1:24, 4)[1, ] else values[1, ])
  }
  # What is as it was may have other elements.
  m <- write_values(path)
  write_values(path, values * 2L)
  expect_identical(m[, ], values * 2L)
})

test_that("a dataset or file that is gone is an error of everything that reads", {
  skip_without_h5()
  path <- withr::local_tempfile(fileext = ".h5")
  m <- write_values(path)
  unlink(path)
  h5_write(values, path, "y", .control = control)
  some <- reads[c("all", "none", "stats", "cache", "annotation", "apply", "product")]
  for (name in names(some)) fails(some[[name]], m, paste0("there is no `x` in ", regatta:::h5_fields(m)$path), name)
  unlink(path)
  for (name in names(some)) fails(some[[name]], m, "No such file or directory", name)
})

test_that("a sparse matrix of another size is an error", {
  skip_without_h5()
  skip_if_not_installed("Matrix")
  skip_without_h5py()
  path <- withr::local_tempfile(fileext = ".h5")
  script <- withr::local_tempfile(lines = c(
    "import h5py, numpy as np, sys", "path, rows, columns, entries, kind = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]",
    "with h5py.File(path, 'w') as f:", "    g = f.create_group('matrix')",
    "    g.create_dataset('data', data=np.arange(1, entries + 1).astype(kind), chunks=(4,))",
    "    g['indices'] = np.arange(entries) % (entries // columns)",
    "    g['indptr'] = np.linspace(0, entries, columns + 1).astype('i8')", "    g['shape'] = [rows, columns]"
  ))
  write <- function(rows = 6, columns = 4, entries = 8, kind = "i4") {
    expect_identical(system2(h5_python(), shQuote(c(script, path, rows, columns, entries, kind))), 0L)
    h5_sparse(path)
  }
  m <- write()
  path <- regatta:::h5_fields(m)$path
  sparse_reads <- reads[setdiff(names(reads), "none")]
  all_fail <- function(message) {
    for (name in names(sparse_reads)) if (name != "annotation") fails(sparse_reads[[name]], m, message, name)
  }
  write(rows = 9)
  all_fail(sprintf("`matrix` in %s is 9 x 4, stored by columns, and was 6 x 4, stored by columns when", path))
  write(entries = 12)
  all_fail("`matrix/data` in ")
  all_fail("is 12 of int32 in chunks of 4, and was 8 of int32 in chunks of 4 when the matrix was opened")
  write(kind = "f8")
  all_fail("is 8 of float64 in chunks of 4, and was 8 of int32")
  fails(reads$annotation, m, "is 8 of float64", "annotation")
  write()
  expect_identical(h5_col_sums(m), colSums(as.matrix(m)))
})

test_that("nothing is left behind", {
  gc()
  expect_no_detritus(detritus)
})
