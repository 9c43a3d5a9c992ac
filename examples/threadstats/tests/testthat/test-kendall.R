# Whole numbers from a small set, so that ties occur in x, in y and in both at once.
tied_matrix <- function(n, d, levels) {
  matrix((seq_len(n * d) * 7919L) %% 104729L %% levels, n, d)
}

continuous_matrix <- function(n, d) matrix(sin(seq_len(n * d)^2), n, d)

expect_same_as_cor <- function(x) {
  reference <- suppressWarnings(stats::cor(x, method = "kendall"))
  expect_equal(kendall_matrix(x, threads = 2), reference, tolerance = 1e-13)
}

test_that("kendall_matrix() equals cor() without ties, around every block size", {
  for (n in c(2:18, 31:33, 63:65, 100, 257)) expect_same_as_cor(continuous_matrix(n, 4))
})

test_that("kendall_matrix() equals cor() with ties in one column, in both, and few levels", {
  for (levels in c(2, 3, 5, 17)) {
    for (n in c(5, 40, 211)) expect_same_as_cor(tied_matrix(n, 5, levels))
  }
  expect_same_as_cor(cbind(continuous_matrix(90, 2), tied_matrix(90, 2, 4)))
  expect_same_as_cor(as.matrix(datasets::mtcars))
})

test_that("kendall_matrix() is one for equal order and minus one for the reverse", {
  x <- continuous_matrix(1000, 1)
  tau <- kendall_matrix(cbind(x, exp(x), -x))
  expect_identical(tau[1, ], c(1, 1, -1))
  expect_identical(tau, t(tau))
})

test_that("kendall_matrix() ranks infinite values and equal zeros of either sign", {
  expect_same_as_cor(cbind(c(1, Inf, -Inf, 2), c(3, 2, 1, Inf), c(0, -0, 1, -1)))
})

test_that("kendall_matrix() gives NA where tau is not defined, as cor() does", {
  x <- cbind(a = c(1, 2, 3, 3), b = 1, c = c(1, NA, 2, 3), d = c(4, NaN, 2, 1), e = c(2, 1, 4, 3))
  tau <- kendall_matrix(x)
  expect_equal(tau, suppressWarnings(stats::cor(x, method = "kendall")), tolerance = 1e-13)
  expect_identical(sum(is.na(tau)), 18L)
  expect_false(any(is.nan(tau)))
  expect_silent(kendall_matrix(x))
})

test_that("kendall_matrix() counts pairs past 2^31", {
  n <- 70000
  x <- seq_len(n)
  expect_identical(kendall_matrix(cbind(x, rev(x)))[[2L]], -1)
})

test_that("kendall_matrix() meets every pair once, for few and many columns", {
  for (d in c(1, 2, 3, 10, 101)) {
    x <- continuous_matrix(12, d)
    expect_equal(kendall_matrix(x), stats::cor(x, method = "kendall"), tolerance = 1e-13)
  }
})

test_that("kendall_matrix() gives the same bits for any number of threads", {
  x <- tied_matrix(500, 12, 50)
  one <- kendall_matrix(x, threads = 1)
  for (threads in c(2, 3, 8)) expect_identical(kendall_matrix(x, threads = threads), one)
  expect_identical(kendall_matrix(x), one)
})

test_that("kendall_matrix() leaves its argument alone and keeps names", {
  x <- as.matrix(datasets::mtcars[, 1:3])
  before <- x + 0
  expect_identical(dimnames(kendall_matrix(x)), list(colnames(x), colnames(x)))
  expect_identical(x, before)
  expect_identical(kendall_matrix(datasets::mtcars[, 1:3]), kendall_matrix(x))
})

test_that("kendall_matrix() prints its progress when asked and only then", {
  x <- tied_matrix(50, 4, 9)
  expect_output(kendall_matrix(x, progress = TRUE), "100%", fixed = TRUE)
  expect_silent(kendall_matrix(x))
})

test_that("kendall_matrix() says what is wrong with its arguments", {
  expect_error(kendall_matrix(list(1, 2)), "numeric matrix or data frame, not list", fixed = TRUE)
  expect_error(kendall_matrix(matrix(0, 1, 3)), "not 1 x 3", fixed = TRUE)
  expect_error(kendall_matrix(matrix(0, 3, 0)), "not 3 x 0", fixed = TRUE)
  expect_error(kendall_matrix(diag(3), threads = c(1, 2)), "positive whole number", fixed = TRUE)
})
