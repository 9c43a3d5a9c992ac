detritus <- detritus_snapshot()

test_that("an expression runs elsewhere while the session goes on", {
  gate <- withr::local_tempfile()
  handle <- par_call({
    while (!file.exists(gate)) Sys.sleep(0.01)
    Sys.getpid()
  }, .control = two_workers())
  still_here <- 1 + 1
  file.create(gate)
  pid <- par_value(handle)
  expect_true(is.integer(pid) && pid != Sys.getpid())
  expect_identical(still_here, 2)
})

test_that("the expression sees the caller's variables as they were", {
  x <- 1
  handle <- par_call(x + 1, .control = two_workers())
  x <- 100
  expect_identical(par_value(handle), 2)
})

test_that("a value can be asked for again, and may be NULL", {
  handle <- par_call(NULL, .control = two_workers())
  expect_null(par_value(handle))
  expect_null(par_value(handle))
  handle <- par_call(rep(2, 1e5), .control = two_workers())
  expect_identical(par_value(handle), par_value(handle))
})

test_that("a handle that was stored or sent, or is used by a fork, says whose it is", {
  gate <- withr::local_tempfile()
  handle <- par_call({
    while (!file.exists(gate)) Sys.sleep(0.01)
    "value"
  }, .control = two_workers())
  stream <- par_stream(1:3, identity, .control = two_workers())
  uses <- list(function(x, y) par_value(x), function(x, y) par_done(x), function(x, y) par_next(y))
  stored <- unserialize(serialize(list(handle, stream), NULL))
  for (use in uses) {
    err <- expect_error(use(stored[[1L]], stored[[2L]]), class = "regatta_error_owner")
    expect_match(conditionMessage(err), "this (handle|stream) is a copy that was stored or sent")
    expect_identical(err$pid, Sys.getpid())
  }
  for (x in stored) expect_output(print(x), "belongs to process [0-9]+, and what was stored")
  forked <- par_lapply(uses, function(use) tryCatch(use(handle, stream), error = identity), .control = two_workers())
  for (err in forked) {
    expect_s3_class(err, "regatta_error_owner")
    expect_match(conditionMessage(err), "cannot use this .* process [0-9]+, from which this one was forked")
  }
  text <- par_lapply(1, function(i) c(format(handle), format(stream)), .control = two_workers())[[1L]]
  expect_match(text, "from which this one was forked")
  # What is over is its value.
  file.create(gate)
  expect_identical(par_value(handle), "value")
  expect_identical(par_value(unserialize(serialize(handle, NULL))), "value")
  expect_match(format(handle), "done$")
  expect_identical(list(par_next(stream), par_next(stream), par_next(stream)), list(1L, 2L, 3L))
  expect_false(par_more(unserialize(serialize(stream, NULL))))
})

test_that("several calls run at once and are collected in any order", {
  handles <- lapply(1:4, function(i) par_call(i * 10L, .control = two_workers()))
  expect_identical(lapply(handles[4:1], par_value), list(40L, 30L, 20L, 10L))
})

test_that("a timeout of par_value() leaves the call running", {
  gate <- withr::local_tempfile()
  handle <- par_call({
    while (!file.exists(gate)) Sys.sleep(0.01)
    "done"
  }, .control = two_workers())
  expect_error(par_value(handle, timeout = 0.05), class = "regatta_error_pending")
  expect_error(par_value(handle, timeout = 0), class = "regatta_error_pending")
  file.create(gate)
  expect_identical(par_value(handle), "done")
})

test_that("a handler of what comes before the value cannot ask for it", {
  asked <- NULL
  handle <- par_call({
    message("on the way")
    1
  }, .control = two_workers())
  ask <- function(m) {
    asked <<- list(par_done(handle), tryCatch(par_value(handle), error = identity))
    invokeRestart("muffleMessage")
  }
  expect_identical(withCallingHandlers(par_value(handle), message = ask), 1)
  expect_false(asked[[1L]])
  expect_s3_class(asked[[2L]], "regatta_error_pending")
  expect_match(conditionMessage(asked[[2L]]), "called by a handler")
  expect_identical(par_value(handle), 1)
})

test_that("an error is raised where the value is asked for", {
  handle <- par_call(stop("over there"), .control = two_workers())
  for (k in 1:2) {
    err <- expect_error(par_value(handle), class = "regatta_error_element")
    expect_identical(conditionMessage(err$parent), "over there")
  }
})

test_that("a death is an error with signal or status", {
  handle <- par_call(tools::pskill(Sys.getpid(), tools::SIGKILL), .control = two_workers())
  expect_identical(expect_error(par_value(handle), class = "regatta_error_death")$signal, 9L)
  handle <- par_call(quit("no", 4), .control = two_workers())
  expect_identical(expect_error(par_value(handle), class = "regatta_error_death")$status, 4L)
})

test_that("messages and output arrive when the value is asked for", {
  handle <- par_call({
    message("from the call")
    7
  }, .control = two_workers())
  seen <- character()
  value <- withCallingHandlers(par_value(handle), message = function(m) {
    seen <<- c(seen, conditionMessage(m))
    invokeRestart("muffleMessage")
  })
  expect_identical(value, 7)
  expect_match(paste(seen, collapse = ""), "from the call")
})

test_that("a time limit, a retry and a seed hold for a call too", {
  handle <- par_call(Sys.sleep(300), .control = two_workers(timeout = 0.3))
  expect_error(par_value(handle), class = "regatta_error_timeout")
  count <- withr::local_tempfile()
  handle <- par_call({
    cat("x", file = count, append = TRUE)
    if (file.size(count) < 2) stop("again")
    file.size(count)
  }, .control = two_workers(retries = 1L))
  expect_equal(par_value(handle), 2)
  draw <- function() par_value(par_call(stats::runif(1), .control = two_workers(seed = 9L)))
  expect_identical(draw(), draw())
})

test_that("a handle that is dropped ends its call", {
  skip_unless_linux()
  pid_file <- withr::local_tempfile()
  handle <- par_call({
    cat(Sys.getpid(), file = pid_file)
    Sys.sleep(300)
  }, .control = two_workers())
  wait_until(function() isTRUE(file.size(pid_file) > 0), 60, "the call's pid")
  pid <- scan(pid_file, quiet = TRUE)
  expect_true(is_running(pid))
  rm(handle)
  gc()
  wait_until(function() !is_running(pid), 60, "the end of the call")
  expect_false(is_running(pid))
})

test_that("maps run while a call is pending", {
  gate <- withr::local_tempfile()
  handle <- par_call({
    while (!file.exists(gate)) Sys.sleep(0.01)
    "done"
  }, .control = two_workers())
  expect_identical(par_lapply(1:4, identity, .control = two_workers()), as.list(1:4))
  file.create(gate)
  expect_identical(par_value(handle), "done")
})

test_that("a handle prints its state and is checked", {
  handle <- par_call(1 + 1, .control = two_workers())
  expect_match(paste(format(handle), collapse = "\n"), "1 \\+ 1")
  par_value(handle)
  expect_output(print(handle), "1 \\+ 1")
  expect_error(par_value(1), class = "regatta_error_argument")
  expect_error(par_value(handle, timeout = "soon"), class = "regatta_error_argument")
})

test_that("whether a call is done can be asked without waiting", {
  gate <- withr::local_tempfile()
  handle <- par_call({
    while (!file.exists(gate)) Sys.sleep(0.01)
    rep(1, 1e5)
  }, .control = two_workers())
  for (k in 1:3) expect_false(par_done(handle))
  file.create(gate)
  wait_until(function() par_done(handle), 60, "the end of the call")
  expect_identical(par_value(handle, timeout = 0), rep(1, 1e5))
  expect_true(par_done(handle))
  failing <- par_call(stop("over there"), .control = two_workers())
  wait_until(function() par_done(failing), 60, "the failure")
  expect_error(par_value(failing, timeout = 0), "over there")
  expect_true(par_done(failing))
  expect_error(par_done(1), "par_call", class = "regatta_error_argument")
  limited <- par_call(Sys.sleep(300), .control = two_workers(timeout = 0.2))
  wait_until(function() par_done(limited), 60, "the limit")
  expect_error(par_value(limited), class = "regatta_error_timeout")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
