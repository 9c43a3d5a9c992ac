detritus <- detritus_snapshot()

cities <- c("Oslo", "Rome", "Lima", "Bonn", "Cairo", "Quito")

test_that("a record is shown in a few lines", {
  expect_snapshot(print(record_of(c(1, 2, 0.5, 0.25, 3, 1), names = cities, failed = 3L)))
  expect_snapshot(print(record_of(rep(0.1, 4), workers = 1L, retried = 2L)))
})

test_that("a summary tells what ran where, how long, and what failed", {
  run <- record_of(c(1, 2, 0.5, 0.25, 3, 1), names = cities, failed = c(3L, 6L), retried = 5L)
  run$elements$status[[6L]] <- "death"
  run$workers$exit[[2L]] <- "signal 9 (SIGKILL)"
  run$conditions[["suppressed"]] <- 1200
  expect_snapshot(print(summary(run)))
})

test_that("the numbers of a summary are those of the record", {
  run <- record_of(c(1, 2, 0.5, 0.25, 3, 1), names = cities, failed = 3L, retried = 5L)
  summary <- summary(run)
  expect_identical(summary$status, c(done = 5L, error = 1L))
  expect_identical(summary$retried, 1L)
  expect_equal(summary$work$busy, 7.75)
  expect_equal(summary$work$share, 7.75 / (2 * run$elapsed))
  # The failed try counts as work of its worker, and the last try alone as the element's time.
  expect_equal(summary$times[["longest"]], 2)
  expect_equal(sum(summary$workers$busy), 7.75)
  expect_identical(summary$workers$elements, run$workers$elements)
  expect_identical(summary$slowest$index[[1L]], 2L)
  expect_identical(summary$failed$name, "Lima")
  expect_equal(summary$bytes, 600)
})

test_that("the longest idle time counts from the start to the end of a process", {
  run <- record_of(c(1, 1), workers = 1L)
  run$elements$start <- c(0.5, 2)
  run$elements$end <- c(1, 2.5)
  run$elapsed <- 5
  run$workers$end <- 5
  expect_equal(summary(run)$workers$idle, 2.5)
  run$workers$end <- 2.6
  expect_equal(summary(run)$workers$idle, 1)
})

test_that("a worker that was replaced has a row for each of its processes", {
  run <- record_of(c(1, 1, 1), workers = 1L, failed = 1L, how = "death")
  run$workers <- rbind(run$workers, run$workers)
  run$workers$pid <- c(1001L, 2001L)
  run$workers$end <- c(1.001, run$elapsed)
  run$workers$start <- c(0, 1.001)
  run$workers$exit <- c("signal 11 (SIGSEGV)", "stopped")
  run$elements$pid <- c(1001L, 2001L, 2001L)
  summary <- summary(run)
  expect_equal(summary$workers$busy, c(1, 2))
  expect_match(format(summary), "3 elements on 1 worker ", all = FALSE)
  expect_match(format(summary), "signal 11", all = FALSE)
})

test_that("a run without elements, and one in which nothing was run, can be shown", {
  empty <- record_of(numeric(), workers = 1L)
  empty$elapsed <- 0
  empty$workers <- empty$workers[0L, ]
  expect_match(format(empty), "nothing to do", all = FALSE)
  expect_match(format(summary(empty)), "^Conditions: ", all = FALSE)

  run <- record_of(c(1, 1), workers = 1L)
  run$elements[c("worker", "pid", "start", "end")] <- NA
  run$elements$status[] <- "pending"
  expect_match(format(run), "2 pending", all = FALSE)
  expect_null(summary(run)$times)
  expect_identical(nrow(summary(run)$slowest), 0L)
})

test_that("long lists are cut, with a count of what is left out", {
  run <- record_of(rep(0.1, 200), workers = 40L, failed = 1:50)
  text <- format(summary(run))
  expect_match(text, "and 24 more", all = FALSE)
  expect_match(text, "and 40 more", all = FALSE)
  expect_lt(length(text), 60L)
})

test_that("times are shown from microseconds on", {
  expect_identical(
    vapply(c(0, 53.2e-6, 0.9996e-3, 0.0123, 0.999, 1, 75, NA), format_time, ""),
    c("0 s", "53 us", "1 ms", "12.3 ms", "999 ms", "1 s", "75 s", "-")
  )
})

test_that("the record of a run adds up", {
  control <- par_control(
    workers = 2L, progress = FALSE, seed = 1L, errors = "collect", retries = 1L, dump = "no"
  )
  suppressWarnings(par_lapply(c(a = 1, b = 2, c = 3), function(x) {
    if (x == 2) stop("bad") else x
  }, .control = control))
  run <- par_last()
  summary <- summary(run)
  expect_identical(summary$status, c(done = 2L, error = 1L))
  expect_identical(summary$retried, 1L)
  expect_identical(summary$failed$name, "b")
  expect_identical(summary$failed$try, 2L)
  expect_gt(summary$work$busy, 0)
  expect_lte(summary$work$share, 1)
  expect_identical(sum(summary$workers$elements), 4L)
  expect_match(format(run), "2 done, 1 error; 1 failed try", fixed = TRUE, all = FALSE)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
