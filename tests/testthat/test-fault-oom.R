detritus <- detritus_snapshot()

test_that("an element ended by the cgroup's OOM killer says so, and the rest go on", {
  skip_unless_linux()
  group <- local_cgroup(400 * 2^20)
  got <- fault_run(function() {
    suppressWarnings(par_lapply(1:6, function(i) {
      if (i == 2L) {
        held <- list()
        for (k in 1:400) held[[k]] <- rep(k + 0, 5e5)
        return(length(held))
      }
      i
    }, .control = par_control(workers = 2L, progress = FALSE, errors = "collect")))
  }, wrap = in_cgroup(group))$value
  expect_identical(got[-2L], list(1L, 3L, 4L, 5L, 6L))
  err <- got[[2L]]
  expect_s3_class(err, "regatta_error_death")
  expect_identical(err$signal, 9L)
  expect_true(err$oom)
  expect_gt(err$peak_memory, 1e8)
  expect_match(conditionMessage(err), "OOM killer")
})

test_that("the OOM killer takes a worker rather than the session, and one inside of a worker before that", {
  skip_unless_linux()
  got <- fault_run(function() {
    path <- "/proc/self/oom_score_adj"
    score <- function() as.integer(readLines(path))
    control <- par_control(workers = 2L, progress = FALSE)
    below <- function(i) c(score(), unlist(par_lapply(1:2, function(k) score(), .control = control)))
    first <- c(score(), par_lapply(1:2, below, .control = control)[[1L]])
    writeLines("950", path)
    list(first, par_lapply(1:2, below, .control = control)[[1L]])
  })$value
  expect_identical(diff(got[[1L]]), c(100L, 100L, 0L))
  expect_identical(got[[2L]], c(1000L, 1000L, 1000L))
})

test_that("a SIGKILL by hand in a cgroup is not called an OOM kill", {
  skip_unless_linux()
  group <- local_cgroup(400 * 2^20)
  got <- fault_run(function() {
    suppressWarnings(par_lapply(1:3, function(i) {
      if (i == 2L) tools::pskill(Sys.getpid(), tools::SIGKILL)
      i
    }, .control = par_control(workers = 2L, progress = FALSE, errors = "collect")))
  }, wrap = in_cgroup(group))$value
  expect_false(got[[2L]]$oom)
})

test_that("values that do not fit the cgroup are an error with numbers, not a death", {
  skip_unless_linux()
  group <- local_cgroup(500 * 2^20)
  got <- fault_run(function() {
    control <- par_control(workers = 1L, progress = FALSE, dump = "no")
    kept <- par_lapply(1:2, function(i) rep(i + 0, 5e6), .control = control)
    # The vector has room in what is left, and its copy in shared memory has none: so it is the value that does not
    # fit, and not the vector that it is made of, for which the kernel would end the worker.
    large <- function(i) rep(i, 0.7 * regatta_info()$memory[["available"]] / 8)
    list(error = tryCatch(par_lapply(1, large, .control = control), error = identity), sums = vapply(kept, sum, 0))
  }, wrap = in_cgroup(group))$value
  memory <- find_condition(got$error, "regatta_error_memory")
  expect_s3_class(memory, "regatta_error_memory")
  expect_gte(memory$requested, 4e7)
  expect_lt(memory$available, 5e8)
  expect_match(conditionMessage(got$error), "shared memory")
  expect_identical(got$sums, c(5e6, 1e7))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
