set.seed(31)
detritus <- detritus_snapshot()

test_that("no more processes run than there are CPUs in the queue", {
  pq <- prio_queue_create(ncpu = 1)
  withr::defer(prio_queue_destroy(pq))
  got <- mclapply(1:4, function(i) {
    start <- proc.time()[["elapsed"]]
    Sys.sleep(0.05)
    c(start, proc.time()[["elapsed"]])
  }, mc.cores = 4, mc.preschedule = FALSE, mc.prio.queue = pq)
  spans <- do.call(rbind, got)
  spans <- spans[order(spans[, 1L]), ]
  expect_true(all(spans[-1L, 1L] >= spans[-4L, 2L] - 0.02))
})

test_that("who waits with a higher priority comes first", {
  pq <- prio_queue_create(ncpu = 1, nprio = 3, seconds2block = 1)
  withr::defer(prio_queue_destroy(pq))
  got <- mclapply(1:3, function(i) {
    Sys.sleep(0.05)
    proc.time()[["elapsed"]]
  }, mc.cores = 3, mc.preschedule = FALSE, mc.prio.queue = pq, mc.priority = c(3, 1, 2))
  expect_identical(order(unlist(got)), c(2L, 3L, 1L))
})

test_that("a process that dies gives its CPU back", {
  pq <- prio_queue_create(ncpu = 1)
  withr::defer(prio_queue_destroy(pq))
  got <- mclapply(1:4, function(i) {
    if (i == 1L) tools::pskill(Sys.getpid(), tools::SIGKILL)
    i
  }, mc.preschedule = FALSE, mc.prio.queue = pq, mc.allow.fatal = NA)
  expect_s3_class(got[[1L]], "fatal-error")
  expect_identical(got[-1L], list(2L, 3L, 4L))
})

test_that("it works by hand, and across nested calls", {
  pq <- prio_queue_create(ncpu = 2, nprio = 2)
  got <- mclapply(1:2, function(i) {
    mclapply(1:2, function(k) {
      prio_queue_insert(pq, k)
      on.exit(prio_queue_release(pq))
      i * 10 + k
    })
  })
  expect_identical(got, list(list(11, 12), list(21, 22)))
  prio_queue_insert(pq, 2)
  expect_null(prio_queue_release(pq))
  prio_queue_destroy(pq)
  expect_error(prio_queue_insert(pq, 1), class = "regatta_error_posix")
})

test_that("wrong arguments are errors that name them", {
  expect_error(prio_queue_create(ncpu = 0), class = "regatta_error_argument")
  expect_error(prio_queue_create(nprio = 1000), class = "regatta_error_argument")
  expect_error(prio_queue_create(seconds2block = -1), class = "regatta_error_argument")
  expect_error(prio_queue_insert(1, 1), class = "regatta_error_argument")
  pq <- prio_queue_create(ncpu = 1, nprio = 2)
  withr::defer(prio_queue_destroy(pq))
  expect_error(prio_queue_insert(pq, 3), class = "regatta_error_argument")
  expect_error(mclapply(1:2, identity, mc.prio.queue = pq, mc.priority = 3),
    class = "regatta_error_argument")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
