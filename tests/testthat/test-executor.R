# An executor that knows no more of the driver than the contract has every feature.

detritus <- detritus_snapshot()

on_two <- function(...) par_control(progress = FALSE, dump = "no", seed = 1L, ...)

test_that("values, random numbers and names are those of any other worker", {
  X <- list(a = 1, b = NULL, c = "x")
  f <- function(x, y) list(x, y, rnorm(1), runif(1))
  expect_identical(
    par_lapply(X, f, y = 2, .on = on_pipes(), .control = on_two()),
    par_lapply(X, f, y = 2, .on = 2L, .control = on_two())
  )
  expect_identical(
    par_lapply(1:300, sqrt, .on = on_pipes(), .control = on_two()), lapply(1:300, sqrt)
  )
  run <- par_last()
  expect_identical(run$executor, "pipes")
  expect_true(all(run$elements$status == "done" & run$elements$end >= run$elements$start))
  expect_true(all(run$elements$pid %in% run$workers$pid))
  expect_identical(sum(run$workers$elements), 300L)
  expect_identical(
    par_reduce(1:100, identity, `+`, .on = on_pipes(), .control = on_two()), sum(1:100)
  )
  call <- par_call(6 * 7, .on = on_pipes(1L), .control = on_two())
  expect_identical(par_value(call), 42)
  stream <- par_stream(1:5, function(i) i * 10, .on = on_pipes(), .control = on_two())
  taken <- list()
  while (par_more(stream)) taken[[length(taken) + 1L]] <- par_next(stream)
  expect_identical(taken, as.list(c(10, 20, 30, 40, 50)))
})

test_that("errors have calls, index and try; retries count and leave the others alone", {
  f <- function(i) {
    try <- as.integer(Sys.getenv("REGATTA_TRY", "1"))
    inner <- function() if (i == 3 && try < 3) stop("not yet")
    inner()
    c(i, try)
  }
  got <- par_lapply(1:6, f, .on = on_pipes(), .control = on_two(retries = 2))
  expect_identical(got, lapply(1:6, function(i) c(i, if (i == 3) 3L else 1L)))
  expect_identical(par_last()$tries$try, 1:2)
  failed <- expect_error(
    par_lapply(1:6, f, .on = on_pipes(), .control = on_two(retries = 1)),
    class = "regatta_error_element"
  )
  expect_identical(failed$index, 3L)
  expect_match(conditionMessage(failed), "inner()", fixed = TRUE)
})

test_that("conditions arrive, a bounded number of them, and are counted", {
  seen <- testthat::capture_messages(
    par_lapply(1:2, function(i) for (k in 1:4) message("m", k), .on = on_pipes(1L),
      .control = on_two(max_conditions = 2))
  )
  expect_identical(seen[1:3], c("1: m1\n", "1: m2\n", "1: 2 more messages (`max_conditions` is 2)\n"))
  expect_warning(
    par_lapply(1, function(i) warning("w"), .on = on_pipes(1L), .control = on_two()), "1: w"
  )
})

test_that("a worker that dies loses the element it ran, and another takes its place", {
  f <- function(i) {
    if (i == 7) tools::pskill(Sys.getpid(), 9L)
    i
  }
  got <- suppressWarnings(
    par_lapply(1:40, f, .on = on_pipes(), .control = on_two(errors = "collect"))
  )
  expect_s3_class(got[[7L]], "regatta_error_death")
  expect_identical(got[-7L], as.list((1:40)[-7L]))
  expect_identical(nrow(par_last()$workers), 3L)
  once <- shm_counter(0)
  got <- par_lapply(1:10, function(i) {
    if (i == 5 && shm_add(once, 1) == 1) tools::pskill(Sys.getpid(), 9L)
    i
  }, .on = on_pipes(), .control = on_two(retries = 1))
  expect_identical(got, as.list(1:10))
})

test_that("an element over its limit is interrupted and its worker goes on", {
  f <- function(i) {
    if (i == 2) tryCatch(while (TRUE) Sys.sleep(0.01), finally = message("left"))
    i
  }
  seen <- testthat::capture_messages(suppressWarnings(
    got <- par_lapply(1:4, f, .on = on_pipes(), .control = on_two(timeout = 1, errors = "collect"))
  ))
  expect_identical(seen, "2: left\n")
  expect_s3_class(got[[2L]], "regatta_error_timeout")
  expect_identical(got[-2L], list(1L, 3L, 4L))
  expect_identical(nrow(par_last()$workers), 2L)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
