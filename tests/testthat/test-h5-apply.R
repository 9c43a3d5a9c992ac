# Blocks, products, and datasets that are written: files made here, so that no Python is needed.
folder <- withr::local_tempdir("h5-")
control <- par_control(workers = 2L, seed = FALSE)
requireNamespace("Matrix", quietly = TRUE) # sets an option
detritus <- detritus_snapshot()

values <- outer(1:61, 1:47, function(i, j) (i * 37L + j * 11L) %% 101L - 30L)
values[3, ] <- 0L
values[7, 9] <- NA

file_of <- function(name, x = values, ...) {
  skip_without_h5()
  path <- file.path(folder, name)
  if (!file.exists(path)) h5_write(x, path, "x", chunk = c(8, 10), .control = control, ...)
  h5_matrix(path, "x")
}

test_that("what is written is read again, whatever the type and the blocks", {
  skip_without_h5()
  path <- withr::local_tempfile(fileext = ".h5")
  small <- abs(values)
  small[is.na(small)] <- 5L
  for (type in c("int8", "uint8", "int16", "uint16", "int32", "uint32", "float32", "float64")) {
    for (memory in c(1, 8 * 8 * 10 * 9, 2^20)) {
      name <- paste0("group/", type, "/", memory)
      m <- h5_write(small, path, name, type, c(8, 10), level = 4, memory = memory, .control = control)
      expect_identical(m[] + 0, small + 0, label = name)
      expect_identical(regatta:::h5_fields(m)$type, type)
      expect_identical(regatta:::h5_fields(m)$chunk, c(8L, 10L))
      if (type != "int8" && memory > 1) break
    }
  }
  expect_identical(h5_write(values, path, "missing", .control = control)[], values)
  # of R's own kind, and no NaN, in numbers too
  wide <- h5_write(matrix(c(NA, 1L), 1), path, "wide", type = "float64", .control = control)
  expect_identical(wide[, ], c(NA, 1))
  expect_false(is.nan(wide[1, 1]))
  real <- values / 7
  real[2, 2:4] <- c(Inf, -0, NaN)
  plain <- h5_write(real, path, "plain", chunk = c(61, 1), level = 0, .control = control)
  expect_identical(plain[], real + 0)
  expect_identical(regatta:::h5_fields(plain)$filters, character())
  large <- h5_write(real, path, "large", chunk = c(1000, 20), level = 0, .control = control)
  expect_identical(large[], real)
  expect_match(format(large), sprintf("chunks of %d x 20", nrow(real)), fixed = TRUE, all = FALSE)
  expect_identical(dim(h5_write(values[0, ], path, "empty", .control = control)), c(0L, 47L))
  python <- h5_python()
  skip_if(!nzchar(python), "no Python with h5py")
  says <- system2(python, shQuote(c("-c", sprintf(
    "import h5py; f = h5py.File('%s'); print(f['missing'].shape, f['missing'][1, 2], f['plain'][0, 0])", path
  ))), stdout = TRUE)
  expect_identical(says, sprintf("(47, 61) %d %s", values[3, 2], format(real[1, 1], digits = 17)))
})

test_that("a function fills a dataset block by block, in order, in several processes", {
  skip_without_h5()
  path <- withr::local_tempfile(fileext = ".h5")
  f <- function(rows, columns) outer(rows, columns, function(i, j) i * 1000 + j)
  m <- h5_fill(path, "a/b", c(50, 35), f, chunk = c(20, 6), memory = 8 * 20 * 6, .control = control)
  expect_identical(m[], f(1:50, 1:35) + 0)
  who <- h5_fill(path, "pid", c(40, 2), function(rows, columns) matrix(Sys.getpid(), length(rows), length(columns)),
    "int32", c(10, 2), memory = 1, .control = control)
  expect_false(Sys.getpid() %in% who[])
  # Nothing is left of one that fails, the file only if it was there before.
  expect_error(h5_fill(path, "wrong", c(5, 5), function(rows, columns) stop("no"), .control = control), "no")
  expect_false("wrong" %in% h5_ls(path)$name)
  expect_identical(m[3, 4], 3004)
  other <- withr::local_tempfile(fileext = ".h5")
  expect_error(h5_fill(other, "x", c(5, 5), function(rows, columns) 1, .control = control), "must return a matrix of numbers, 5 x 5")
  bits <- matrix(structure(4.94065645841247e-324, class = "integer64"), 5, 5)
  class(bits) <- "integer64"
  expect_error(h5_fill(other, "x", c(5, 5), function(rows, columns) bits, .control = control), "integer64.*as.double")
  expect_error(h5_write(bits, other, "x"), "integer64.*as.double", class = "regatta_error_argument")
  expect_error(h5_fill(other, "x", c(5, 4), function(rows, columns) matrix(1, 4, 5), .control = control), "5 x 4")
  expect_error(h5_write(values, other, "x", "uint8", .control = control), "cannot be stored as uint8")
  # What would be read as another value.
  expect_error(h5_write(matrix(c(1e39, 2)), other, "x", "float32", .control = control), "1e+39 cannot be stored as float32",
    fixed = TRUE
  )
  expect_error(h5_write(matrix(c(-2^31, 2)), other, "x", "int32", .control = control), "-2147483648 cannot be stored")
  expect_false(file.exists(other))
  expect_match(conditionMessage(h5_error(h5_fill(path, "a/b", c(5, 5), f, .control = control))), "cannot create `a/b` .*it exists")
  expect_identical(m[3, 4], 3004)
  refused <- function(code) expect_error(code, class = "regatta_error_argument")
  refused(h5_fill(path, "x", 5, f))
  refused(h5_fill(path, "x", c(5, 5), f, type = "complex"))
  refused(h5_fill(path, "x", c(5, 5), f, chunk = c(0, 1)))
  refused(h5_fill(path, "x", c(5, 5), f, level = 10))
  refused(h5_fill(path, "x", c(5, 5), f, .control = par_control(errors = "collect")))
  refused(h5_write(1:3, path, "x"))
})

test_that("what is written is called as what was given, and one without names says so", {
  path <- withr::local_tempfile(fileext = ".h5")
  named <- matrix(1:6, 2, dimnames = list(c("a", "b"), NULL))
  m <- h5_write(named, path, "x", .control = control)
  expect_identical(m["b", 2:3], named["b", 2:3])
  expect_error(m[, "a"], "there is no column \"a\": columns have no names here, `dimnames(m) <- ", fixed = TRUE)
  expect_error(m["c", ], "there is no row \"c\" (`x`", fixed = TRUE)
  again <- h5_matrix(path, "x")
  expect_null(dimnames(again))
  dimnames(again) <- dimnames(named)
  expect_identical(again[], named)
})

test_that("sparse matrices and those of other files are written as their elements", {
  skip_without_h5()
  skip_if_not_installed("Matrix")
  path <- withr::local_tempfile(fileext = ".h5")
  dense <- replace(matrix(0, 61, 47, dimnames = list(NULL, paste0("c", 1:47))), c(3, 700, 2867), c(1.5, -2, 7))
  sparse <- methods::as(methods::as(dense, "CsparseMatrix"), "generalMatrix")
  m <- h5_write(sparse, path, "sparse", chunk = c(8, 10), .control = control)
  expect_identical(m[], dense)
  again <- h5_write(t(m), withr::local_tempfile(fileext = ".h5"), "x", "float32", memory = 1e3, .control = control)
  expect_identical(again[], t(dense))
  cells <- h5_sparse(system.file("extdata", "example-10x.h5", package = "regatta"))
  expect_identical(h5_write(cells, path, "cells", .control = control)[], as.matrix(cells[]))
})

test_that("a new file has its name when it is complete, and not before", {
  skip_without_h5()
  folder <- withr::local_tempdir()
  path <- file.path(folder, "new.h5")
  there <- function() list.files(folder, all.files = TRUE, no.. = TRUE)
  seen <- NULL
  f <- function(rows, columns) {
    cat(there(), "\n", file = file.path(dirname(folder), "seen"), append = TRUE)
    matrix(1, length(rows), length(columns))
  }
  withr::defer(unlink(file.path(dirname(folder), "seen")))
  m <- h5_fill(path, "x", c(6, 6), f, chunk = c(2, 2), memory = 1, .control = control)
  expect_identical(there(), "new.h5")
  expect_false("new.h5" %in% scan(file.path(dirname(folder), "seen"), "", quiet = TRUE))
  expect_identical(m[6, 6], 1)
  # Somebody else is quicker.
  other <- file.path(folder, "other.h5")
  quicker <- function(rows, columns) {
    writeLines("theirs", other)
    matrix(1, length(rows), length(columns))
  }
  expect_match(conditionMessage(h5_error(h5_fill(other, "x", c(2, 2), quicker, .control = control))), "cannot create .*other.h5: somebody else")
  expect_identical(readLines(other), "theirs")
  expect_setequal(there(), c("new.h5", "other.h5"))
  # What is killed in the middle leaves no file of that name.
  skip_if_not_installed("processx")
  withr::local_preserve_seed()
  script <- withr::local_tempfile(lines = c(
    "suppressWarnings(library(regatta))", "args <- commandArgs(TRUE)", "session <- Sys.getpid()",
    "h5_fill(args[[1]], 'x', c(4, 4), chunk = c(2, 2), memory = 1, .control = par_control(workers = 1L), f = function(rows, columns) {",
    "  if (columns[[1]] > 1) { tools::pskill(session, 9L); Sys.sleep(60) }", "  matrix(1, length(rows), length(columns))", "})"
  ))
  killed <- file.path(folder, "killed.h5")
  run <- processx::run(file.path(R.home("bin"), "Rscript"), c("--vanilla", script, killed),
    error_on_status = FALSE, timeout = 300 * slowness(),
    env = c("current", R_LIBS = paste(.libPaths(), collapse = ":"), R_TESTS = "", TMPDIR = folder))
  expect_identical(run$status, -9L)
  expect_false(file.exists(killed))
})

test_that("errors of writing are those of the call that the user has made", {
  skip_without_h5()
  path <- withr::local_tempfile(fileext = ".h5")
  call_of <- function(code) deparse(conditionCall(tryCatch(code, error = identity)))[[1L]]
  expect_match(call_of(h5_write(matrix(300), path, "x", "uint8", .control = control)), "^h5_write\\(matrix")
  expect_match(call_of(h5_fill(path, "x", c(2, 2), function(rows, columns) stop("no"), .control = control)), "^h5_fill\\(path")
  expect_match(call_of(h5_write(1:3, path, "x")), "^h5_write\\(1:3")
  expect_match(call_of(h5_write(matrix(1), path, "x", level = 99)), "^h5_write\\(matrix")
  h5_write(matrix(1), path, "x", .control = control)
  expect_match(call_of(h5_write(matrix(1), path, "x", .control = control)), "^h5_write\\(matrix")
  error <- tryCatch(h5_write(matrix(c(1, 1e300), 1), withr::local_tempfile(), "x", "uint8", .control = control), error = identity)
  expect_match(conditionMessage(error), "(\"1-1, 1-2\")", fixed = TRUE)
  expect_match(conditionMessage(error), "the value 1e+300 cannot be stored as uint8", fixed = TRUE)
  expect_false(grepl("h5_call|ffi_", conditionMessage(error)))
})

test_that("a function is applied to blocks of whole chunks, in order", {
  m <- file_of("one.h5")
  x <- values
  expect_identical(h5_chunks(m, 2, 8 * 61 * 10)$from, c(1, 11, 21, 31, 41))
  expect_identical(h5_chunks(m, 2, 8 * 61 * 29)$to, c(20, 40, 47))
  expect_identical(h5_chunks(m, 1, 8 * 47 * 8)$from, seq(1, 57, by = 8))
  expect_identical(h5_chunks(t(m), 1, 8 * 61 * 10)$from, c(1, 11, 21, 31, 41))
  # Not even one chunk fits.
  expect_identical(h5_chunks(m, 2, 8 * 61 * 3)$to[1:2], c(3, 6))
  expect_identical(nrow(h5_chunks(m, 1, "1GB")), 1L)
  found <- h5_apply(m, 2, function(block, power) colSums(block^power, na.rm = TRUE), power = 2, memory = 8 * 61 * 10, .control = control)
  expect_identical(names(found), c("1-10", "11-20", "21-30", "31-40", "41-47"))
  expect_identical(unlist(found, use.names = FALSE), colSums(x^2, na.rm = TRUE))
  rows <- h5_apply(m, 1, identity, memory = 8 * 47 * 8, .control = control)
  expect_identical(unname(do.call(rbind, rows)), x)
  expect_identical(h5_apply(t(m), 2, dim, memory = 1e6, .control = control), list(`1-61` = c(47L, 61L)))
  expect_error(h5_apply(m, 2, function(block) stop("bad block"), .control = control), "bad block")
  expect_silent(h5_apply(m, 2, function(block) packageStartupMessage("attached"), .control = control))
  expect_message(h5_apply(m, 2, function(block) message("said"), .control = control), "said")
  expect_error(h5_apply(m, 3, dim), class = "regatta_error_argument")
  expect_error(h5_apply(values, 2, dim), class = "regatta_error_argument")
})

test_that("products are those of the matrix in memory", {
  m <- file_of("product.h5", x = replace(values, is.na(values), 1L))
  x <- m[] + 0
  y <- matrix(cos(1:141), 47)
  z <- matrix(sin(1:122), 61)
  for (memory in c(1, 8 * 61 * 10, 2^26)) {
    expect_equal(h5_product(m, y, memory), x %*% y, tolerance = 1e-13)
    expect_equal(h5_crossprod(m, z, memory), crossprod(x, z), tolerance = 1e-13)
    expect_equal(h5_crossprod(m, memory = memory), crossprod(x), tolerance = 1e-13)
    expect_equal(h5_product(t(m), z, memory), t(x) %*% z, tolerance = 1e-13)
    expect_equal(h5_crossprod(t(m), memory = memory), tcrossprod(x), tolerance = 1e-13)
  }
  expect_equal(h5_product(m, y[, 1]), x %*% y[, 1], tolerance = 1e-13)
  expect_true(is.na(h5_product(file_of("one.h5"), y)[7, 1]))
  expect_error(h5_product(m, z), "47 rows, as many as `m` has columns")
  expect_error(h5_crossprod(m, y), class = "regatta_error_argument")
  skip_if(getRversion() < "4.3.0", "R has no methods of S3 for %*% before 4.3")
  expect_equal(m %*% y, x %*% y, tolerance = 1e-13)
  expect_equal(t(z) %*% m, t(z) %*% x, tolerance = 1e-13)
})

test_that("blocks and new datasets are computed on a cluster, too", {
  m <- file_of("one.h5")
  cluster <- parallel::makeCluster(1L)
  withr::defer(parallel::stopCluster(cluster))
  found <- h5_apply(m, 2, colSums, memory = 8 * 61 * 20, .on = cluster, .control = par_control(seed = FALSE))
  expect_identical(unlist(found, use.names = FALSE), colSums(values))
  path <- withr::local_tempfile(fileext = ".h5")
  written <- h5_write(values, path, "x", .on = cluster, .control = par_control(seed = FALSE))
  expect_identical(written[], values)
})

test_that("irlba and RSpectra find singular vectors by products with a matrix in a file", {
  skip_without_h5()
  skip_if_not_installed("Matrix")
  withr::local_preserve_seed()
  set.seed(1)
  dense <- h5_matrix(system.file("extdata", "example.h5", package = "regatta"), "counts")
  sparse <- h5_sparse(system.file("extdata", "example-10x.h5", package = "regatta"))
  tried <- 0L
  for (m in list(dense, t(dense), sparse)) {
    x <- as.matrix(m)
    if (nzchar(system.file(package = "RSpectra"))) {
      center <- h5_row_means(m)
      found <- getExportedValue("RSpectra", "svds")(
        function(v, args) h5_crossprod(m, v) - sum(center * v), k = 3, dim = rev(dim(m)),
        Atrans = function(u, args) h5_product(m, u) - center * sum(u)
      )
      right <- svd(scale(t(x), scale = FALSE))
      expect_equal(found$d, right$d[1:3], tolerance = 1e-8)
      expect_equal(abs(crossprod(found$v, right$v[, 1:3])), diag(3), tolerance = 1e-6)
      tried <- tried + 1L
    }
    if (nzchar(system.file(package = "irlba"))) {
      times <- function(x, y) {
        if (inherits(x, "h5_object")) h5_product(x, y) else t(h5_crossprod(y, if (is.matrix(x)) t(x) else x))
      }
      found <- getExportedValue("irlba", "irlba")(m, nv = 3, mult = times)
      expect_equal(found$d, svd(x)$d[1:3], tolerance = 1e-6)
      tried <- tried + 1L
    }
  }
  skip_if(tried == 0L, "neither irlba nor RSpectra is installed")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
