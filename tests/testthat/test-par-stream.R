detritus <- detritus_snapshot()

take_all <- function(stream) {
  values <- list()
  while (par_more(stream)) {
    values[[length(values) + 1L]] <- par_next(stream)
  }
  values
}

test_that("results come in the order of the elements", {
  slow_first <- function(i) {
    if (i %% 5 == 1) Sys.sleep(0.02)
    i^2
  }
  stream <- par_stream(1:40, slow_first, .control = two_workers())
  expect_identical(take_all(stream), lapply(1:40, function(i) i^2))
  expect_false(par_more(stream))
  expect_error(par_next(stream), "all 40 results")
  expect_output(print(stream), "40 of 40", fixed = TRUE)
})

test_that("no more than `ahead` bytes wait", {
  made <- shm_counter()
  stream <- par_stream(1:30, function(i) {
    shm_add(made)
    rep(as.double(i), 1e5)
  }, ahead = 4 * 8e5 + 1000, .control = two_workers())
  for (taken in 1:30) {
    expect_equal(par_next(stream)[[1L]], taken)
    expect_lte(shm_value(made), taken + 4)
  }
})

test_that("results that are larger than `ahead`, the first one too, come one by one", {
  stream <- par_stream(1:4, function(i) rep(as.double(i), 2e5), ahead = 1000, .control = two_workers())
  expect_identical(take_all(stream), lapply(1:4, function(i) rep(as.double(i), 2e5)))
})

test_that("an error ends the stream, or is a value of it", {
  fails <- function(i) if (i == 3) stop("three") else i
  stream <- par_stream(1:10, fails, .control = two_workers())
  expect_error(take_all(stream), "three")
  stream <- par_stream(1:5, fails, .control = two_workers(errors = "collect"))
  values <- take_all(stream)
  expect_s3_class(values[[3L]], "regatta_error")
  expect_identical(values[-3], list(1L, 2L, 4L, 5L))
})

test_that("a stream that is dropped leaves no worker behind", {
  stream <- par_stream(1:100, function(i) Sys.getpid(), .control = two_workers())
  pid <- par_next(stream)
  rm(stream)
  gc()
  # One that has nothing to do is collected a moment after it was killed.
  wait_until(!dir.exists(file.path("/proc", pid)))
  expect_false(dir.exists(file.path("/proc", pid)))
})

test_that("random numbers and names are those of a map", {
  stream <- par_stream(1:6, function(i) runif(1), .control = two_workers(seed = 4L))
  expect_identical(take_all(stream), par_lapply(1:6, function(i) runif(1), .control = two_workers(seed = 4L)))
  expect_identical(take_all(par_stream(list(), identity)), list())
  expect_error(par_next(1), "`stream`")
})

test_that("a stream that a failure has ended says so", {
  withr::local_preserve_seed()
  # The failure is told as soon as it is known: here when two results have been taken.
  gate <- withr::local_tempfile()
  stream <- par_stream(1:5, function(i) {
    if (i < 3L) return(i)
    while (!file.exists(gate)) Sys.sleep(0.01)
    stop("on purpose")
  }, .on = 2L)
  expect_identical(par_next(stream), 1L)
  expect_identical(par_next(stream), 2L)
  file.create(gate)
  expect_error(par_next(stream), "on purpose")
  expect_false(par_more(stream))
  expect_error(par_next(stream), "ended by a failure after 2 of 5 results")
  expect_identical(format(stream), "<par_stream> 2 of 5 results taken, then ended by a failure")
})

test_that("a stream that par_next() has left says that it was cancelled", {
  stream <- par_stream(1:5, function(i) {
    if (i == 2L) message("leave")
    i
  }, .on = 1L, .control = par_control(seed = FALSE))
  expect_identical(par_next(stream), 1L)
  expect_identical(format(stream), "<par_stream> 1 of 5 results taken")
  expect_identical(tryCatch(par_next(stream), message = function(m) "left"), "left")
  for (time in 1:2) {
    expect_identical(format(stream), "<par_stream> 1 of 5 results taken, then cancelled")
    expect_error(par_next(stream), "what is left of this stream is lost: it was cancelled", class = "regatta_error_lost")
  }
  expect_false(par_more(stream))
})

test_that("a handler of what an element tells cannot take the next", {
  asked <- NULL
  stream <- par_stream(1:3, function(i) {
    message("on the way")
    i
  }, .control = two_workers())
  ask <- function(m) {
    asked <<- tryCatch(par_next(stream), error = identity)
    invokeRestart("muffleMessage")
  }
  taken <- withCallingHandlers(lapply(1:3, function(k) par_next(stream)), message = ask)
  expect_identical(taken, list(1L, 2L, 3L))
  expect_s3_class(asked, "regatta_error_pending")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
