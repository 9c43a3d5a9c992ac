detritus <- detritus_snapshot()

# What a worker has inherited, such as a pipe of the session, is closed when it has ended.

calm <- function(...) par_control(progress = FALSE, dump = "no", seed = 1L, ...)
call_pid <- function(handle) handle$run$workers$rows[[1L]]$pid
stream_pids <- function(stream) vapply(stream$stream$run$workers$rows, `[[`, 1L, "pid")
wait_ended <- function(pids) {
  wait_until(function() all(vapply(pids, has_ended, NA)), what = "the end of the workers")
}

test_that("the worker of a call whose value is there ends by itself", {
  skip_unless_linux()
  handle <- par_call({
    cat("said\n")
    runif(1e5)
  }, .control = calm(shm_min = 1000))
  wait_ended(call_pid(handle))
  expect_output(value <- par_value(handle), "said")
  expect_length(value, 1e5)
  workers <- par_last()$workers
  expect_identical(workers$exit, "stopped")
  expect_gt(workers$peak_memory, 0)
})

test_that("so does that of one that has failed, if it is not to be tried again", {
  skip_unless_linux()
  handle <- par_call(stop("once"), .control = calm())
  wait_ended(call_pid(handle))
  expect_error(par_value(handle), "once", class = "regatta_error_element")

  path <- withr::local_tempfile()
  again <- par_call(
    if (file.exists(path)) "second" else {
      file.create(path)
      stop("first")
    },
    .control = calm(retries = 1)
  )
  wait_until(function() file.exists(path), what = "the first try")
  expect_identical(par_value(again), "second")
  expect_length(par_last()$workers$pid, 1L)
})

test_that("what an ended call has started goes with its worker", {
  skip_unless_linux()
  path <- withr::local_tempfile()
  handle <- par_call(system(sprintf("sleep 1000 & echo $! > %s", path)), .control = calm())
  wait_ended(call_pid(handle))
  expect_true(has_ended(as.integer(readLines(path))))
  par_value(handle)
})

test_that("workers of a stream end when all its elements have", {
  skip_unless_linux()
  stream <- par_stream(1:8, function(i) i * 10, .control = calm(workers = 2L))
  first <- c(par_next(stream), par_next(stream))
  run <- stream$stream$run
  wait_until(function() {
    # Those that wait since before the last element had ended are told when the session looks.
    regatta:::run_drive(run, 0)
    run$done == 8
  }, what = "all elements")
  wait_ended(stream_pids(stream))
  expect_length(stream_pids(stream), 2L) # none has been taken for dead and replaced
  expect_identical(c(first, vapply(3:8, function(i) par_next(stream), 1)), 1:8 * 10)
})

test_that("a worker that dies in a run nobody looks at is no finished one", {
  skip_unless_linux()
  handle <- par_call(tools::pskill(Sys.getpid(), tools::SIGKILL), .control = calm())
  wait_ended(call_pid(handle))
  expect_error(par_value(handle), class = "regatta_error_death")
})

expect_no_detritus(detritus)
