detritus <- detritus_snapshot()

# Runs of which it is known what would have been better.
advised <- function(run, ...) {
  given <- list(...)
  run[names(given)] <- given
  summary(run)$advice
}

record_with <- function(seconds, workers, ..., control = list(), lag = 0.001) {
  run <- record_of(seconds, workers, ..., lag = lag)
  run$control <- control
  run$session <- 0.001
  run$attended <- TRUE
  run
}

test_that("the parts of the time add up to that of all workers", {
  run <- record_with(c(1, 2, 0.5, 0.25, 3), 2L, retried = 2L, lag = 0.1)
  run$elapsed <- run$elapsed + 0.4
  run$workers$end <- run$elapsed
  shares <- summary(run)$shares
  expect_equal(sum(shares$seconds), 2 * run$elapsed)
  expect_equal(sum(shares$share), 1)
  seconds <- stats::setNames(shares$seconds, shares$part)
  # Element 2 failed for 1 s and was run again for 1 s.
  expect_equal(seconds[["elements"]], 1 + 1 + 0.5 + 0.25 + 3)
  expect_equal(seconds[["failed tries"]], 1)
  expect_equal(seconds[["start-up"]], 0.2)
  expect_equal(seconds[["transfer"]], 0.3)
  expect_equal(seconds[["after the last element"]], 2 * 0.5)
  expect_equal(seconds[["idle"]], sum(2 * run$elapsed - sum(seconds[names(seconds) != "idle"])))
  expect_match(format(summary(run)), "^  failed tries +1 s +[0-9]+%$", all = FALSE)
  expect_identical(seconds[["put back"]], 0)
  # A try that was put back for want of memory has not failed.
  run$tries$status[] <- "put back"
  shares <- summary(run)$shares
  seconds <- stats::setNames(shares$seconds, shares$part)
  expect_equal(c(seconds[["failed tries"]], seconds[["put back"]]), c(0, 1))
  expect_equal(sum(shares$seconds), 2 * run$elapsed)
})

test_that("a worker is starting until its first element, and idle when there is nothing to be begun", {
  run <- record_with(c(1, 1, 1), 2L, lag = 0)
  run$workers <- rbind(run$workers, run$workers[2L, ])
  run$workers$pid[[3L]] <- 5000L
  run$workers$start <- c(0.1, 0.2, 1.5)
  run$workers$end <- c(6, 1, 6)
  run$workers$exit[[2L]] <- "signal 9 (SIGKILL)"
  run$elapsed <- 6
  run$elements <- run$elements[1:3, ]
  run$elements$worker <- c(1L, 2L, 1L)
  run$elements$pid <- c(1001L, 5000L, 1001L)
  run$elements$start <- c(0.3, 4, 1.4)
  run$elements$end <- c(1.3, 5, 2.4)
  run$elements$try <- c(1L, 2L, 1L)
  run$tries <- run$elements[2L, ]
  run$tries[c("start", "end", "try", "pid")] <- list(0.4, 1, 1L, 1002L)
  got <- run_phases(run)
  expect_equal(
    got[c("worker", "start", "end", "kind")],
    data.frame(
      worker = c(1L, 1L, 1L, 2L, 2L, 2L), start = c(0, 1.3, 2.4, 0, 1, 5), end = c(0.3, 1.4, 6, 0.4, 4, 6),
      kind = factor(c("start-up", "transfer", "idle", "start-up", "start-up", "idle"), levels = phase_kinds)
    ),
    ignore_attr = "row.names"
  )
  # The try failed when the process had long been there: until then there was nothing to do.
  run$tries$end <- 3
  run$workers$end[[2L]] <- 1.2
  late <- run_phases(run)
  late <- late[late$pid == 5000L & late$start < 5, ]
  expect_equal(late$start, c(1.2, 1.5, 3))
  expect_equal(late$end, c(1.5, 3, 4))
  expect_identical(as.character(late$kind), c("start-up", "idle", "transfer"))
  # A run that waits for its user: nobody knows what a worker waited for.
  run$attended <- FALSE
  expect_false("transfer" %in% run_phases(run)$kind)
})

test_that("elements that are too small are said to be", {
  run <- record_with(rep(0.001, 20), 4L, lag = 0.02)
  advice <- advised(run)
  expect_identical(names(advice), "sequential")
  expect_match(advice[["sequential"]], "took 20 ms in sum, less than the 125 ms of the run")
  # Hosts that may be faster than this one.
  run$workers$host <- "other"
  expect_false("sequential" %in% names(advised(run)))
  expect_false("sequential" %in% names(advised(record_with(rep(1, 20), 4L))))
})

test_that("one giant element last is to be begun first, and what that gains is true", {
  # The giant ends last, and another is begun after it.
  seconds <- c(rep(1, 11), 0.9, 6, 1)
  run <- record_with(seconds, 4L, names = letters[1:14])
  first <- record_with(sort(seconds, decreasing = TRUE), 4L)
  # What follows the last element follows it in any order.
  after <- run$elapsed - max(run$elements$end) + 2
  run$elapsed <- run$elapsed + 2
  advice <- advised(run)
  expect_identical(names(advice)[[1L]], "priority")
  expect_match(advice[["priority"]], 'element 13 ("m"), which took 6 s and was begun after 2.9 s', fixed = TRUE)
  forecast <- sprintf("about %s, not 11 s", format_time(max(first$elements$end) + after))
  expect_match(advice[["priority"]], forecast, fixed = TRUE)
  expect_false("priority" %in% names(advised(first)))
  expect_false("priority" %in% names(advised(record_with(seconds, 4L, control = list(priority = seq_along(seconds))))))
  # The same elements when nothing is to be gained: the giant alone decides.
  expect_false("priority" %in% names(advised(record_with(c(6, rep(0.1, 12)), 4L))))
})

test_that("workers that others could have done without are counted", {
  expect_match(advised(record_with(c(6, rep(1, 6)), 7L))[["workers"]], "^2 workers would have been as fast as 7")
  expect_match(advised(record_with(rep(1, 5), 4L))[["workers"]], "^3 workers would have been as fast as 4")
  expect_identical(advised(record_with(rep(1, 8), 4L)), character())
  expect_identical(advised(record_with(rep(1, 7), 4L)), character())
})

test_that("batches are advised on, by what they have cost", {
  # Each worker had two batches of four, and the last of them was begun when all others had ended.
  run <- record_with(rep(4, 5), 4L, control = list(batch = 4L))
  whole <- run$elements
  run$n <- 20L
  run$elements <- whole[rep(1:5, each = 4L), ]
  run$elements$index <- 1:20
  run$elements$start <- run$elements$start + rep(0:3, 5)
  run$elements$end <- run$elements$start + 1
  advice <- advised(run)
  expect_identical(names(advice), "batch")
  expect_match(advice, "`batch = 4`.*without `batch` it would have taken about 5 s, not 8 s")
  expect_false("batch" %in% names(advised(run, control = list())))
  small <- record_with(rep(1e-4, 4000), 2L, control = list(batch = 1L), lag = 5e-5)
  expect_match(advised(small)[["batch"]], "33% of the time on transfer.*1 element of .* take `batch = 67`")
  expect_false("batch" %in% names(advised(record_with(rep(1e-4, 4000), 2L, lag = 5e-5))))
  expect_false("batch" %in% names(advised(record_with(rep(1e-4, 4000), 2L, control = list(batch = 1L), lag = 1e-6))))
})

test_that("more workers are an advice only where cores were left to them", {
  run <- record_with(rep(1, 40), 2L)
  expect_match(advised(run, cores = 4L)[["more"]], "with 8 workers it would have taken about 5 s, not 20 s at best")
  expect_identical(advised(run, cores = 1L), character())
  expect_identical(advised(run, cores = 4L, control = list(threads = 4L)), character())
  run$elements$cpu <- rep(3.5, 40)
  expect_identical(advised(run, cores = 4L), character())
  run$elements$cpu <- rep(NA_real_, 40)
  expect_identical(names(advised(run, cores = 4L)), "more")
})

test_that("a session that is the limit is told", {
  run <- record_with(rep(1, 10), 2L, lag = 0.8)
  expect_match(advised(run, session = 9.5)[["session"]], "The session itself worked for 9.5 s of 9.8 s")
  expect_false("session" %in% names(advised(run, session = 5)))
})

test_that("there is no advice where the times say nothing", {
  seconds <- c(rep(1, 12), 6)
  expect_true("priority" %in% names(advised(record_with(seconds, 4L))))
  expect_identical(advised(record_with(seconds, 4L), attended = FALSE), character())
  expect_identical(advised(record_with(seconds, 4L, failed = 3L)), character())
  expect_identical(advised(record_with(seconds, 4L, retried = 3L)), character())
  cut <- record_with(seconds, 4L)
  cut$elements$status[[13L]] <- "cancelled"
  expect_identical(advised(cut), character())
  cut$elements <- cut$elements[0L, ]
  cut$n <- 0L
  expect_identical(advised(cut), character())
})

test_that("the schedule that advice is computed from is that of the queue", {
  expect_equal(schedule_end(c(3, 1, 1, 1), c(0, 0)), 3)
  expect_equal(schedule_end(c(1, 1, 1, 3), c(0, 0.5)), 4.5)
  withr::local_seed(1)
  seconds <- stats::runif(20000)
  exact <- schedule_end(seconds, numeric(8), most = Inf)
  coarse <- schedule_end(seconds, numeric(8))
  expect_gte(coarse, exact - 1e-9)
  expect_lt(coarse, 1.01 * exact)
})

test_that("the parts of a real run add up, and nothing begins before a giant that is to be first", {
  waits <- c(rep(0.01, 8), 0.1)
  par_lapply(waits, Sys.sleep, .control = par_control(workers = 4L, progress = FALSE, seed = 1L, priority = waits))
  run <- par_last()
  expect_lt(sum(run$elements$start < run$elements$start[[9L]]), 4L)
  shares <- summary(run)$shares
  expect_equal(sum(shares$share), 1)
  expect_true(all(shares$seconds >= 0))
  expect_equal(shares$seconds[shares$part == "elements"], summary(run)$work$busy)
  expect_gt(run$session, 0)
  expect_false("priority" %in% names(summary(run)$advice))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
