direct_kde <- function(x, bandwidth, at) {
  vapply(at, function(point) mean(stats::dnorm(point, x, bandwidth)), 0)
}

sample_matrix <- function(n, d) {
  matrix(sin(seq_len(n * d)) * 3 + cos(seq_len(n * d)^2), n, d)
}

test_that("kde() is the mean of the kernels at every grid point", {
  x <- sample_matrix(97, 3)
  fit <- kde(x)
  expect_identical(dim(fit$x), c(500L, 3L))
  expect_identical(dim(fit$density), c(500L, 3L))
  for (j in 1:3) {
    expect_equal(fit$density[, j], direct_kde(x[, j], fit$bandwidth[[j]], fit$x[, j]),
                 tolerance = 1e-13)
  }
})

test_that("kde() integrates to nearly one on its grid", {
  fit <- kde(sample_matrix(200, 1), points = 2000)
  step <- fit$x[2L, 1L] - fit$x[1L, 1L]
  expect_equal(sum(fit$density) * step, 1, tolerance = 0.01)
})

test_that("kde() takes its default bandwidth from bw.nrd0(), or the caller's", {
  x <- sample_matrix(50, 2)
  expect_identical(kde(x)$bandwidth, c(stats::bw.nrd0(x[, 1]), stats::bw.nrd0(x[, 2])))
  expect_identical(kde(x, bandwidth = 0.5)$bandwidth, c(0.5, 0.5))
  expect_identical(kde(x, bandwidth = c(1, 2))$bandwidth, c(1, 2))
})

test_that("kde() gives the same bits for any number of threads", {
  x <- sample_matrix(300, 4)
  one <- kde(x, threads = 1)
  for (threads in c(2, 3, 8)) expect_identical(kde(x, threads = threads), one)
  expect_identical(kde(x), one)
})

test_that("kde() keeps column names and takes data frames and vectors", {
  fit <- kde(datasets::iris[, 1:2], points = 10)
  expect_identical(colnames(fit$density), c("Sepal.Length", "Sepal.Width"))
  expect_identical(names(fit$bandwidth), c("Sepal.Length", "Sepal.Width"))
  expect_identical(kde(c(1, 2, 4), points = 5)$density, kde(cbind(c(1, 2, 4)), points = 5)$density)
  expect_identical(dim(kde(c(1, 2, 4), points = 1)$density), c(1L, 1L))
})

test_that("kde() prints its progress when asked and only then", {
  x <- sample_matrix(50, 2)
  expect_output(shown <- kde(x, progress = TRUE), "100%", fixed = TRUE)
  expect_silent(quiet <- kde(x))
  expect_identical(shown, quiet)
})

test_that("kde() says what is wrong with its arguments", {
  expect_error(kde("a"), "numeric matrix or data frame, not character", fixed = TRUE)
  expect_error(kde(datasets::iris), "columns that hold no numbers", fixed = TRUE)
  expect_error(kde(c(1, NA, Inf)), "2 of its 3 values", fixed = TRUE)
  expect_error(kde(1), "not 1 x 1", fixed = TRUE)
  expect_error(kde(1:3, points = 1.5), "`points` must be a positive whole number, not 1.5",
               fixed = TRUE)
  expect_error(kde(1:3, threads = 0), "`threads` must be a positive whole number, not 0",
               fixed = TRUE)
  expect_error(kde(1:3, threads = "two"), "not \"two\"", fixed = TRUE)
  expect_error(kde(1:3, bandwidth = c(1, 2)), "one for each of the 1 columns", fixed = TRUE)
  expect_error(kde(1:3, bandwidth = -1), "positive number", fixed = TRUE)
  expect_error(kde(1:3, progress = NA), "`progress` must be TRUE or FALSE, not NA", fixed = TRUE)
})
