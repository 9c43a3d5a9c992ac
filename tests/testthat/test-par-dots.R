detritus <- detritus_snapshot()

plain <- function(x) x
open <- function(x, ...) x

test_that("a setting without its dot is refused where the function has no such argument", {
  withr::local_preserve_seed()
  expect_snapshot(error = TRUE, {
    par_lapply(1:2, plain, workers = 2)
    par_lapply(1:2, plain, mc.cores = 2)
    par_lapply(1:2, plain, control = par_control())
    par_lapply(1:2, plain, timeout = 5)
    par_lapply(1:2, plain, on = 4)
    par_lapply(1:2, plain, .contol = par_control())
    par_lapply(1:2, plain, future.seed = TRUE)
  })
  verbs <- list(
    function() par_vapply(1:2, plain, 0L, workers = 2),
    function() par_sapply(1:2, plain, workers = 2),
    function() par_mapply(plain, 1:2, workers = 2),
    function() par_reduce(1:2, plain, `+`, workers = 2),
    function() par_stream(1:2, plain, workers = 2),
    function() shm_fill(2, plain, workers = 2),
    function() shm_map(1:2, plain, workers = 2),
    function() shm_map2(1:2, 1:2, function(a, b) a, workers = 2)
  )
  for (verb in verbs) {
    err <- expect_error(verb(), "par_control(workers = 2)", fixed = TRUE)
    expect_s3_class(err, "regatta_error_argument")
    expect_identical(err$argument, "workers")
  }
})

test_that("functions that look their arguments up in the data are not given values in place of code", {
  x <- 3
  frames <- list(data.frame(x = 1:5), data.frame(x = 6:10))
  for (verb in list(par_lapply, par_sapply, par_stream, function(...) par_vapply(..., FUN.VALUE = 0))) {
    err <- expect_error(verb(frames, with, sum(x)), "Write it within a function: `function(x) with(x, sum(x))`",
      fixed = TRUE, class = "regatta_error_argument")
    expect_match(conditionMessage(err), "`with()` looks up `sum(x)` in each element", fixed = TRUE)
  }
  expect_error(par_lapply(frames, "subset", subset = none > 1),
    "function(x) subset(x, subset = none > 1)", fixed = TRUE)
  expect_error(par_lapply(frames, transform, y = x), class = "regatta_error_argument")
  expect_error(par_lapply(frames, within, {y <- x}), class = "regatta_error_argument") # nolint
  expect_identical(
    par_lapply(frames, subset, select = "x", .control = two_workers()), lapply(frames, subset, select = "x")
  )
})

test_that("a function that hands its dots on gets them, with a warning where they can hardly be meant", {
  withr::local_preserve_seed()
  run <- function(...) par_lapply(1:2, open, ..., .on = 2)
  expect_warning(got <- run(workers = 2), "through its `...`", class = "regatta_warning_argument")
  expect_identical(got, list(1L, 2L))
  expect_warning(run(mc.cores = 2), class = "regatta_warning_argument")
  expect_warning(run(control = par_control()), class = "regatta_warning_argument")
  expect_no_warning <- function(code) expect_warning(code, NA)
  expect_no_warning(run(control = list(maxit = 5)))
  expect_no_warning(run(timeout = 3, seed = 1, y = 2))
})

test_that("a function that has the argument gets it, whole or in part, without a word", {
  withr::local_preserve_seed()
  expect_identical(
    par_lapply(1:2, function(x, workers) x + workers, workers = 2L, .on = 2), list(3L, 4L)
  )
  expect_identical(par_lapply(1:2, function(x, timeouts) timeouts, timeout = 2, .on = 2), list(2, 2))
  expect_identical(par_lapply(1:2, sum, 1, seed = 1, .on = 2), list(3, 4))
})

test_that("a function of the language takes named arguments without a word", {
  withr::local_preserve_seed()
  withr::local_options(warn = 2)
  x <- list(matrix(1:4, 2))
  for (fun in list(`[`, "[")) {
    expect_identical(par_lapply(x, fun, 1, , drop = FALSE, .on = 2), lapply(x, fun, 1, , drop = FALSE))
  }
  expect_identical(par_lapply(list(list(ab = 1)), `[[`, "a", exact = FALSE, .on = 2), list(1))
  expect_identical(mclapply(x, `[`, 1, 1:2, drop = FALSE, mc.cores = 2), lapply(x, `[`, 1, 1:2, drop = FALSE))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
