detritus <- detritus_snapshot()

test_that("a fold gives what Reduce() gives", {
  expect_identical(par_reduce(1:1000, identity, `+`, .control = two_workers()), sum(1:1000))
  expect_identical(
    par_reduce(letters, toupper, paste0, "start:", .control = two_workers()),
    paste0("start:", paste(LETTERS, collapse = ""))
  )
  expect_identical(
    par_reduce(1:100, function(i, k) i * k, `+`, k = 2L, .control = two_workers()), 10100L
  )
})

test_that("values are combined where they are made, and one of each stretch is combined here", {
  makers <- par_reduce(1:1000, function(i) integer(), function(a, b) c(a, b, Sys.getpid()), .control = two_workers())
  expect_length(makers, 999L)
  expect_identical(sum(makers == Sys.getpid()), par_last()$n - 1L)
  expect_lt(par_last()$n, 500L)
})

test_that("the first value alone has the name that Reduce() gives it", {
  pair <- function(i) c(a = i, b = -i)
  none <- c(a = 0, b = 0)
  for (n in c(1L, 3L, 1025L)) {
    values <- lapply(seq_len(n), pair)
    expect_identical(par_reduce(seq_len(n), pair, rbind, .control = two_workers()), Reduce(rbind, values))
    expect_identical(par_reduce(seq_len(n), pair, cbind, none, .control = two_workers()), Reduce(cbind, values, none))
  }
})

test_that("the order of the elements is kept for any number of workers", {
  wanted <- Reduce(c, 1:257)
  for (workers in 1:3) {
    got <- par_reduce(1:257, identity, c, .control = two_workers(workers = workers))
    expect_identical(got, wanted)
  }
})

test_that("without elements there is `init` or nothing", {
  withr::local_preserve_seed()
  expect_identical(par_reduce(list(), identity, `+`, 0), 0)
  expect_null(par_reduce(list(), identity, `+`))
  expect_identical(par_reduce(5, identity, `+`), 5)
})

test_that("an error names the stretch of elements", {
  expect_error(
    par_reduce(1:64, function(i) if (i == 40) stop("forty") else i, `+`, .control = two_workers()),
    "40.*forty|forty"
  )
})

test_that("language is an argument like any other", {
  withr::local_preserve_seed()
  expect_identical(par_reduce(list(quote(a + b), quote(c)), deparse, paste), "a + b c")
  expect_identical(
    par_lapply(1:2, function(i, e) deparse(e), quote(zz + b), .control = two_workers()),
    list("zz + b", "zz + b")
  )
})

test_that("random numbers are the same for any number of workers", {
  draws <- lapply(1:3, function(workers) {
    par_reduce(1:600, function(i) runif(1), `+`, .control = two_workers(workers = workers))
  })
  expect_identical(draws[[1L]], draws[[2L]])
  expect_identical(draws[[1L]], draws[[3L]])
})

test_that("a fold with holes is refused", {
  expect_error(par_reduce(1:3, identity, `+`, .control = two_workers(errors = "collect")), "`errors`")
})

test_that("a `combine` that cannot take two values is refused", {
  for (bad in list(function(x) x, function() 1, sqrt)) {
    error <- expect_error(par_reduce(1:3, sqrt, bad, .control = two_workers()), "`combine`.*two values")
    expect_s3_class(error, "regatta_error_argument")
  }
  expect_warning(got <- par_reduce(list(1:3, 2L), identity, `[`, .control = two_workers()), NA)
  expect_identical(got, 2L)
})

test_that("functions that f and combine return have the arguments that these were called with", {
  withr::local_preserve_seed()
  X <- seq_len(600) # parts of three
  # Their surroundings go with each of them.
  made <- local(list(
    hold = function(x) list(function() x), one = function(x) function() x, add = function(a, b) function() a() + b()
  ), globalenv())
  kept <- par_reduce(X, made$hold, c, .control = two_workers())
  expect_identical(vapply(kept, function(f) f(), 1L), X)
  sums <- par_reduce(X, made$one, made$add, .control = two_workers())
  expect_identical(sums(), sum(X))
})

test_that("an argument of f whose name `init` or `combine` begins with is refused", {
  f <- function(x, i = 1, comb = 0) x * i + comb
  expect_error(par_reduce(1:3, f, `+`, i = 2), "`i`.*the name `init`", class = "regatta_error_argument")
  expect_error(par_reduce(1:3, f, `+`, comb = 2), "`combine`.*comb = \\.\\.\\.", class = "regatta_error_argument")
  expect_identical(par_reduce(1:3, identity, comb = `+`, ini = 10L, .control = two_workers()), 16L)
  expect_identical(par_reduce(1:3, sum, `+`, init = 1L, 5L, .control = two_workers()), 22L)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
