# How often elements run, and how soon a run ends that is not to go on.

detritus <- detritus_snapshot()

test_that("without faults each element runs once, however small the batches are", {
  runs <- shm_array(3000, type = "integer")
  total <- shm_counter()
  got <- par_lapply(1:3000, function(i) {
    shm_add(total)
    runs[i] <- runs[i] + 1L
    -i
  }, .control = two_workers(workers = 4L, batch = 1L))
  expect_identical(got, as.list(-(1:3000)))
  expect_identical(as.numeric(shm_value(total)), 3000)
  expect_true(all(runs[] == 1L))
})

test_that("tries are as many as the record says, and no more than allowed", {
  runs <- shm_array(30, type = "integer")
  suppressWarnings(par_lapply(1:30, function(i) {
    runs[i] <- runs[i] + 1L
    if (i %% 10L == 1L) stop("always")
    if (i %% 10L == 2L && runs[i] < 3L) stop("twice")
    if (i %% 10L == 3L && runs[i] < 2L) tools::pskill(Sys.getpid(), tools::SIGKILL)
    i
  }, .control = two_workers(retries = 2L, errors = "collect")))
  wanted <- rep(c(3L, 3L, 2L, rep(1L, 7L)), 3)
  expect_identical(runs[], wanted)
  expect_identical(par_last()$elements$try, wanted)
  expect_identical(as.integer(table(factor(par_last()$tries$index, 1:30))), wanted - 1L)
})

# Elements that would take an hour: any wait for one of them shows, however slow the machine is.
seconds_to_end <- function(..., code = NULL) {
  start <- proc.time()[["elapsed"]]
  tryCatch(
    par_lapply(1:4, function(i, code, session) {
      if (i == 2L) code(session)
      Sys.sleep(3600)
    }, code = code, session = Sys.getpid(), .control = two_workers(...)),
    error = identity, interrupt = identity
  )
  proc.time()[["elapsed"]] - start
}

test_that("a run ends soon after an error, a death, a limit and an interrupt", {
  skip_unless_linux()
  most <- 120 * slowness()
  expect_lt(seconds_to_end(code = function(session) stop("on purpose")), most)
  expect_lt(seconds_to_end(code = function(session) tools::pskill(Sys.getpid(), tools::SIGKILL)), most)
  expect_lt(seconds_to_end(code = function(session) NULL, timeout = 0.2), most)
  expect_lt(seconds_to_end(code = function(session) {
    tools::pskill(session, tools::SIGINT)
  }), most)
})

# Without a bell a session looks up after 0.2 s, and a worker has no look of its own at all. A quarter of so many are
# soon heard of on the busiest machine.
clock <- function() .Call(asNamespace("regatta")$ffi_clock)
soon <- function(late) expect_lt(stats::quantile(late, 0.25)[[1L]], 0.1)

test_that("a session hears soon of a value, and a worker soon of an element", {
  # Of one element at a time, begun when the value before it is taken.
  stream <- par_stream(1:21, function(i) {
    begun <- clock()
    Sys.sleep(0.02)
    c(begun, clock())
  }, ahead = 1, .control = two_workers(workers = 1L, batch = 1L))
  times <- vapply(1:21, function(i) {
    asked <- clock()
    times <- par_next(stream)
    c(begin = times[[1L]] - asked, end = clock() - times[[2L]])
  }, c(begin = 0, end = 0))
  soon(times["begin", ])
  soon(times["end", ])

  withr::local_preserve_seed()
  cluster <- local_pool(1)
  late <- vapply(1:21, function(i) {
    given <- clock()
    begun <- par_lapply(1, function(i) clock(), .on = cluster)[[1L]]
    c(begin = begun - given, end = clock() - begun)
  }, c(begin = 0, end = 0))
  soon(late["begin", ])
  soon(late["end", ])
  end_servers()
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
