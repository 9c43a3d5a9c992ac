# Messages as a user meets them. The files go when this file is over.
files <- local_h5_files()
detritus <- detritus_snapshot()

says <- function(code) {
  text <- conditionMessage(tryCatch(code, error = identity))
  text <- gsub(files, "F", gsub(normalizePath(files), "F", text, fixed = TRUE), fixed = TRUE)
  gsub("file[0-9a-f]+", "TEMP", text)
}

test_that("arithmetic and assignment say what to use", {
  skip_without_h5()
  m <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4")
  for (code in expression(m + 1, 1 - m, -m, m > 2, log(m), sum(m), range(m), mean(m), m[1, 1] <- 2L)) {
    expect_error(eval(code), class = "regatta_error_h5")
  }
  expect_identical(says(m + 1), paste0(
    "`+` does not compute with a matrix in a file.\nRead what you need, `m[i, j]`, take `h5_stats()`, `h5_apply()` or ",
    "`h5_product()`, or `DelayedArray(m)` of Bioconductor."
  ))
  expect_match(says(rbind(m, 1)), "not put together.\nRead them", fixed = TRUE)
  expect_error(cbind(a = 1:17, m), class = "regatta_error_h5")
  expect_match(says(m[1, 1] <- 2), "is not written to.\n`h5_write()`", fixed = TRUE)
})

test_that("names are set, and those of another size refused", {
  skip_without_h5()
  m <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4")
  named <- m
  dimnames(named) <- list(paste0("r", 1:17), NULL)
  expect_identical(named["r2", ], m[2, ])
  turned <- t(m)
  dimnames(turned) <- list(NULL, paste0("r", 1:17))
  expect_identical(turned[, "r2"], m[2, ])
  dimnames(named) <- NULL
  expect_null(dimnames(named))
  expect_error(dimnames(named) <- list(NULL, 1:3), "`value` must be a list of names for 17 rows and 23 columns")
  expect_error(dimnames(named) <- TRUE, "list of names")
})

test_that("what cannot be opened or written says why", {
  skip_without_h5()
  path <- h5_file(files, "types.h5")
  expect_identical(says(h5_matrix(file.path(files, "none.h5"), "x")), "cannot open F/none.h5: No such file or directory")
  expect_identical(says(h5_matrix(files, "x")), "cannot open F: it is a folder")
  text <- withr::local_tempfile(lines = "no HDF5")
  expect_match(says(h5_matrix(text, "x")), "it is no HDF5 file")
  expect_match(says(h5_matrix(path, "fletcher/none")), "there is no `fletcher/none` in F/types.h5\n`fletcher` has `", fixed = TRUE)
  expect_match(says(h5_write(matrix("a"), text, "x")), "`x` must be a matrix of numbers, not \"a\"", fixed = TRUE)
  expect_match(says(h5_write(matrix(1), "/nonexistent/a.h5", "x")), "must be a file in a folder that exists")
  short <- withr::local_tempfile()
  writeBin(utils::head(readBin(path, "raw", 1e6), 5000), short)
  expect_match(says(h5_matrix(short, "x")), "truncated file.*copy it anew")
})

test_that("mistakes are errors of the call that the user has made", {
  skip_without_h5()
  m <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4")
  call_of <- function(code) as.character(conditionCall(tryCatch(code, error = identity))[[1L]])
  expect_identical(call_of(h5_col_sums("F")), "h5_col_sums")
  expect_identical(call_of(h5_row_vars(m, columns = 99)), "h5_row_vars")
  expect_identical(call_of(h5_stats(m, 3)), "h5_stats")
  expect_identical(call_of(h5_stats(m, 1, rows = 99)), "h5_stats")
  expect_identical(call_of(h5_apply(m, sum)), "h5_apply")
  expect_identical(call_of(h5_chunks(m, 3)), "h5_chunks")
  expect_identical(call_of(h5_product(1, m)), "h5_product")
  expect_identical(call_of(h5_crossprod(m, m)), "h5_crossprod")
  expect_identical(call_of(h5_write(matrix(1))), "h5_write")
  expect_error(h5_col_sums(m, margin = 1), "\"margin\" matched by multiple")
})

test_that("a file without permission says so", {
  skip_without_h5()
  skip_if(detritus_uid() == 0, "root may read everything")
  path <- withr::local_tempfile()
  file.copy(h5_file(files, "types.h5"), path)
  Sys.chmod(path, "000")
  expect_match(says(h5_matrix(path, "x")), "Permission denied")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
