# The files go when this file is over.
files <- local_h5_files()
# Packages change options when they are first loaded.
requireNamespace("Matrix", quietly = TRUE)
detritus <- detritus_snapshot()

test_that("a summary has the figures of the matrix in memory", {
  skip_without_h5()
  path <- withr::local_tempfile(fileext = ".h5")
  x <- h5_values_of(17, 23) - 20
  x[3, 4] <- NA
  x[1:3, 1:3] <- 0
  m <- h5_write(x, path, "x", chunk = c(5, 4), .control = par_control(workers = 1L, seed = FALSE))
  found <- summary(m)
  expect_s3_class(found, "summary.h5_matrix")
  expect_identical(found$dim, c(17L, 23L))
  expect_identical(c(found$elements, found$missing), c(391, 1))
  expect_identical(found$nonzero, as.numeric(sum(x != 0, na.rm = TRUE)))
  expect_equal(c(found$sum, found$mean, found$min, found$max), c(sum(x, na.rm = TRUE), mean(x, na.rm = TRUE), range(x, na.rm = TRUE)))
  expect_equal(unname(found$column_sums), unname(quantile(colSums(x, na.rm = TRUE))))
  expect_equal(unname(found$row_nonzero), unname(quantile(rowSums(x != 0, na.rm = TRUE))))
  expect_equal(summary(t(m))$row_sums, found$column_sums)
  text <- format(found)
  expect_identical(text[[1L]], "17 rows, 23 columns of float64")
  expect_match(text[[2L]], "not zero  [0-9]+ of 391 \\([0-9.]+%\\)")
  expect_output(print(found), "sums of columns")
  empty <- h5_matrix(h5_file(files, "shapes.h5"), "empty")
  expect_identical(summary(empty)$elements, 0)
  expect_match(format(summary(empty))[[2L]], "0 of 0")
})

test_that("whole numbers of a summary are written out, and others to four digits", {
  skip_without_h5()
  path <- withr::local_tempfile(fileext = ".h5")
  x <- outer(1:20, 1:10)
  x[20, 10] <- 1e6
  m <- h5_write(x, path, "x", .control = par_control(workers = 1L, seed = FALSE))
  expect_identical(format(summary(m))[-(1:3)], c(
    "  range     1 to 1,000,000, mean 5,057",
    "                        min    25%  median    75%        max",
    "  sums of rows           55  316.2   577.5  838.8  1,000,900",
    "  not zero in a row      10     10      10     10         10",
    "  sums of columns       210  682.5   1,155  1,628  1,001,900",
    "  not zero in a column   20     20      20     20         20"
  ))
  expect_identical(
    h5_format_figure(c(0, -2100, 1e15, 1e16, 123456.7, 0.25, 1.25e-7, NA, Inf)),
    c("0", "-2,100", "1,000,000,000,000,000", "1e+16", "123,457", "0.25", "1.25e-07", "NA", "Inf")
  )
})

test_that("a sparse matrix has a summary, too", {
  skip_without_h5()
  skip_if_not_installed("Matrix")
  m <- h5_sparse(system.file("extdata", "example-10x.h5", package = "regatta"))
  found <- summary(m)
  x <- as.matrix(m)
  expect_identical(c(found$sum, found$nonzero), c(sum(x), as.numeric(sum(x != 0))))
  expect_identical(found$max, max(x))
})

test_that("annotations are found where Loom, AnnData and 10x Genomics keep them", {
  skip_without_h5()
  path <- h5_file(files, "loom.h5")
  loom <- h5_matrix(path, "matrix")
  expect_identical(h5_annotation(loom, 1)$CellID, c("c0", "c1", "c2"))
  expect_identical(h5_annotation(loom, 2), data.frame(Gene = c("g0", "g1", "g2", "g3"), row.names = c("g0", "g1", "g2", "g3")))
  expect_identical(h5_annotation(t(loom), 1), h5_annotation(loom, 2))
  expect_identical(h5_annotation(h5_matrix(path, "layers/spliced"), 1)$CellID, c("c0", "c1", "c2"))
  data <- h5_matrix(h5_file(files, "anndata.h5"), "X")
  expect_identical(h5_annotation(data, 1)[["_index"]], c("g0", "g1", "g2"))
  expect_identical(h5_annotation(data, 2)$cell, c("c0", "c1", "c2", "c3"))
  ten <- h5_sparse(system.file("extdata", "example-10x.h5", package = "regatta"))
  expect_identical(h5_annotation(ten, 2)$barcodes, colnames(ten))
  expect_identical(h5_annotation(ten, 1)$id, rownames(ten))
  plain <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4")
  expect_identical(dim(h5_annotation(plain, 1)), c(17L, 0L))
  expect_error(h5_annotation(plain, 3), class = "regatta_error_argument")
  expect_error(h5_annotation(1, 1), class = "regatta_error_argument")
})

test_that("categories of AnnData are factors, in the present and the former encoding", {
  skip_without_h5()
  skip_without_h5py()
  path <- withr::local_tempfile(fileext = ".h5ad")
  h5_by_python(path, c(
    "f['X'] = np.zeros((3, 2))",
    "f['obs/n'] = [1, 2, 3]", "f['obs/kind/codes'] = np.array([0, -1, 1], 'i1')", "f['obs/kind/categories'] = ['a', 'b']",
    "f['var/old'] = np.array([1, 0], 'i1')", "f['var/__categories/old'] = ['x', 'y']", "f['obs/two'] = np.zeros((3, 2))"
  ))
  m <- h5_matrix(path, "X")
  cells <- h5_annotation(m, 2)
  expect_identical(cells$kind, factor(c("a", NA, "b"), c("a", "b")))
  expect_identical(as.numeric(cells$n), c(1, 2, 3))
  expect_null(cells$two)
  expect_identical(h5_annotation(m, 1)$old, factor(c("y", "x"), c("x", "y")))
})

test_that("tables of AnnData before version 0.7 are read", {
  skip_without_h5()
  path <- h5_file(files, "anndata-old.h5")
  cells <- paste0("c", 0:3)
  for (name in c("X", "layers/raw")) {
    m <- h5_matrix(path, name)
    expect_identical(dimnames(m), list(c("g0", "g1", "g2"), cells), label = name)
    expect_identical(h5_annotation(m, 2), data.frame(
      index = cells, n_counts = c(0.5, 1, NaN, -2), kind = factor(c("low", NA, "high", "high"), c("low", "high")),
      batch = c(7, 8, 9, 1), fine = c(TRUE, FALSE, TRUE, TRUE), text = c("one", "", "\u00e4", "x"),
      high = c("18446744073709551615", "0", "1", "2"), row.names = cells
    ), label = name)
  }
  # Codes of another table that has a field of this name.
  expect_identical(h5_annotation(m, 1)$kind, c(2L, 0L, 1L))
  raw <- h5_matrix(path, "raw.X")
  expect_identical(dimnames(raw), list(paste0("g", 0:3), cells))
  expect_identical(h5_annotation(raw, 1)$kind, factor(c("z", "x", "y", "y"), c("x", "y", "z")))
  expect_identical(names(h5_annotation(t(raw), 1)), names(h5_annotation(m, 2)))
  # A field by itself, and what is none.
  expect_identical(regatta:::h5_values(path, "obs", field = "kind"), c(0L, -1L, 1L, 1L))
  for (field in c("none", "kin", "KIND")) expect_null(regatta:::h5_values(path, "obs", field = field))
  expect_null(regatta:::h5_values(path, "X", field = "kind"))
  error <- h5_error(regatta:::h5_values(path, "obs", field = "pair"))
  expect_match(conditionMessage(error), "field `pair` of `obs` in .*type array")
  expect_match(conditionMessage(h5_error(regatta:::h5_values(path, "obs"))), "type compound")
})

test_that("whole numbers that no double is are strings of their digits, as are names", {
  skip_without_h5()
  skip_without_h5py()
  path <- withr::local_tempfile(fileext = ".h5ad")
  h5_by_python(path, c(
    "f['X'] = np.zeros((3, 2))",
    "f['obs/_index'] = np.array([2**53 + 1, -2**63, 100000], 'i8')", "f['obs/high'] = np.array([2**64 - 1, 0, 7], 'u8')",
    "f['obs/fine'] = np.array([2**60, -2**63, 7], '>i8')", "f['obs/four'] = np.array([1, 100000, 7], 'i4')",
    "f['var/_index'] = np.array([100000, 7], 'i4')", "f['obs/kind/codes'] = np.array([0, 1, 2], 'i8')",
    "f['obs/kind/categories'] = np.array([2**53 + 1, 2**53, 2**53 + 1], 'i8')"
  ))
  m <- h5_matrix(path, "X")
  index <- c("9007199254740993", "-9223372036854775808", "100000")
  expect_identical(dimnames(m), list(c("100000", "7"), index))
  cells <- expect_silent(h5_annotation(m, 2))
  expect_identical(cells[["_index"]], index)
  expect_identical(cells$high, c("18446744073709551615", "0", "7"))
  expect_identical(cells$fine, c(2^60, -2^63, 7))
  expect_identical(cells$four, c(1L, 100000L, 7L))
  two <- c("9007199254740993", "9007199254740992")
  expect_identical(cells$kind, factor(two[c(1, 2, 1)], two))
})

test_that("real files of 10x Genomics have names and annotations", {
  skip_without_h5()
  folder <- Sys.getenv("REGATTA_TEST_DATA")
  skip_if(!nzchar(folder), "REGATTA_TEST_DATA names no folder with real files")
  for (file in c("10x-v3-filtered_feature_bc_matrix.h5", "10x-v2-filtered_gene_bc_matrices.h5")) {
    path <- file.path(folder, file)
    skip_if(!file.exists(path), paste("there is no", file))
    m <- h5_sparse(path)
    expect_length(rownames(m), nrow(m))
    expect_length(colnames(m), ncol(m))
    expect_match(colnames(m)[[1L]], "^[ACGT]+-[0-9]+$")
    expect_identical(h5_annotation(m, 2)$barcodes, colnames(m))
    genes <- h5_annotation(m, 1)
    expect_true(all(c("gene_names", "genes") %in% names(genes)) || all(c("id", "name") %in% names(genes)))
  }
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
