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

# How many processes wait in the queue, as the system says.
waiting <- function(pq) {
  lines <- system2("ipcs", c("-s", "-i", unclass(pq$sid)), stdout = TRUE)
  rows <- grep("^[0-9]+( +[0-9]+){4} *$", lines, value = TRUE)
  sum(utils::read.table(text = rows)[-1L, 2L])
}

test_that("who waits with a higher priority comes first", {
  skip_unless_linux()
  skip_unless_command("ipcs")
  pq <- prio_queue_create(ncpu = 1, nprio = 3)
  withr::defer(prio_queue_destroy(pq))
  order <- withr::local_tempfile()
  prio_queue_insert(pq, 1)
  expect_equal(waiting(pq), 0)
  calls <- lapply(c(3, 1, 2), function(prio) {
    par_call({
      prio_queue_insert(pq, prio)
      cat(prio, "\n", file = order, append = TRUE)
      prio_queue_release(pq)
    }, .control = two_workers())
  })
  wait_until(waiting(pq) == 3, 60)
  prio_queue_release(pq)
  lapply(calls, par_value)
  expect_identical(scan(order, quiet = TRUE), c(1, 2, 3))
})

test_that("mclapply() takes the priorities of a queue, which may be closed at first", {
  pq <- prio_queue_create(ncpu = 1, nprio = 3, seconds2block = 0.2)
  withr::defer(prio_queue_destroy(pq))
  got <- mclapply(1:3, identity, mc.cores = 3, mc.preschedule = FALSE, mc.prio.queue = pq,
    mc.priority = c(3, 1, 2))
  expect_identical(got, as.list(1:3))
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
