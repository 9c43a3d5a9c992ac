detritus <- detritus_snapshot()

test_that("values and names are those of sapply()", {
  withr::local_preserve_seed()
  cases <- list(
    list(1:3, function(i) i^2), list(c(a = "x", b = "y"), toupper), list(c("x", "y"), nchar),
    list(1:3, function(i) c(u = i, v = -i)), list(1:3, function(i) seq_len(i)), list(1:2, function(i) NULL),
    list(list(), identity), list(character(), nchar), list(1:2, function(i) matrix(i, 2, 2)),
    list(mtcars[1:3], range), list(1:2, function(i) list(i))
  )
  for (case in cases) {
    X <- case[[1L]]
    f <- case[[2L]]
    expect_identical(par_sapply(X, f, .on = 2), sapply(X, f))
    expect_identical(par_sapply(X, f, simplify = FALSE, .on = 2), sapply(X, f, simplify = FALSE))
    expect_identical(par_sapply(X, f, simplify = "array", .on = 2), sapply(X, f, simplify = "array"))
    expect_identical(par_sapply(X, f, USE.NAMES = FALSE, .on = 2), sapply(X, f, USE.NAMES = FALSE))
  }
  expect_identical(par_sapply(1:3, function(i, k) i * k, k = 2, .on = 2), c(2, 4, 6))
})

test_that("with failures among them the values stay a list", {
  withr::local_preserve_seed()
  got <- suppressWarnings(
    par_sapply(list(a = 1, b = "x"), log, .control = two_workers(errors = "collect"))
  )
  expect_identical(par_failed(got), c(a = FALSE, b = TRUE))
  expect_error(par_sapply(list(a = 1, b = "x"), log, .control = two_workers()), "element 2")
  expect_error(par_sapply(1, identity, USE.NAMES = NA), class = "regatta_error_argument")
})

test_that("character elements of any class are names", {
  withr::local_preserve_seed()
  for (X in list(I(c("a", "b")), noquote(c("a", "b")), matrix(c("a", "b"), 1), structure("a", foo = 1))) {
    expect_identical(par_sapply(X, nchar, .on = 2), sapply(X, nchar))
    expect_identical(par_sapply(X, nchar, USE.NAMES = FALSE, .on = 2), sapply(X, nchar, USE.NAMES = FALSE))
    expect_named(mcmapply(nchar, X), names(sapply(X, nchar)))
    expect_named(mclapply(X, nchar), names(sapply(X, nchar)))
    expect_null(names(mclapply(X, nchar, mc.use.names = FALSE)))
  }
  expect_identical(par_sapply(I(character()), nchar, .on = 2), sapply(I(character()), nchar))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
