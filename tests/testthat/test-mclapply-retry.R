set.seed(22)
detritus <- detritus_snapshot()

die <- function() tools::pskill(Sys.getpid(), tools::SIGKILL)

retry_now <- function() Sys.getenv("BMC_RETRY")

map <- function(X, FUN, ...) suppressMessages(mclapply(X, FUN, ..., mc.dump.frames = "no"))

test_that("errors and deaths are tried again, until they succeed", {
  got <- map(1:6, function(i) {
    if (retry_now() == "0" && i == 2L) stop("once")
    if (retry_now() %in% c("0", "1") && i == 4L) die()
    i
  }, mc.retry = 2)
  expect_identical(got, as.list(1:6))
  expect_identical(nrow(par_last()$tries), 3L)
})

test_that("BMC_RETRY counts from 0 and is the caller's own again afterwards", {
  for (cores in 1:2) {
    got <- map(1:2, function(i) {
      if (as.integer(retry_now()) < i) stop("again")
      retry_now()
    }, mc.retry = 3, mc.cores = cores)
    expect_identical(got, list("1", "2"))
    expect_identical(map(1:2, function(i) retry_now(), mc.cores = cores), list("0", "0"))
  }
  expect_identical(retry_now(), "")
  withr::local_envvar(BMC_RETRY = "7")
  map(1:2, identity, mc.cores = 1)
  expect_identical(retry_now(), "7")
})

test_that("in the session, too", {
  count <- 0
  got <- map(1:2, function(i) {
    count <<- count + 1
    if (count == 1) stop("once")
    i
  }, mc.retry = 1, mc.cores = 1)
  expect_identical(got, list(1L, 2L))
  expect_identical(count, 3)
  expect_identical(Sys.getenv("REGATTA_TRY"), "")
})

test_that("what fails at every try fails", {
  expect_error(map(1:3, function(i) if (i == 2L) stop("always") else i, mc.retry = 2),
    "1 of 3 elements failed.*always.*|try 3")
  got <- map(1:3, function(i) if (i == 2L) die() else i, mc.retry = 1, mc.allow.fatal = NA)
  expect_s3_class(got[[2L]], "fatal-error")
  expect_identical(got[-2L], list(1L, 3L))
})

test_that("below 0 the cores fall evenly to one, or to two with forced forks", {
  expect_identical(workers_by_try(-3L, 10L, FALSE), c(10L, 7L, 4L, 1L))
  expect_identical(workers_by_try(-4L, 10L, TRUE), c(10L, 8L, 6L, 4L, 2L))
  expect_identical(workers_by_try(2L, 3L, FALSE), c(3L, 3L, 3L))
  expect_identical(workers_by_try(-2L, 1L, FALSE), c(1L, 1L, 1L))
  got <- map(1:6, function(i) {
    Sys.sleep(0.05)
    if (retry_now() == "0") stop("too many of us")
    i
  }, mc.retry = -1, mc.cores = 3, mc.preschedule = FALSE)
  expect_identical(got, as.list(1:6))
  last <- par_last()$elements
  # No two of the second tries overlap.
  last <- last[order(last$start), ]
  expect_true(all(last$start[-1L] >= last$end[-nrow(last)]))
})

test_that("many elements with many failures come out right", {
  withr::local_preserve_seed()
  set.seed(123)
  f <- function(i) {
    r <- stats::runif(1)
    if (r < 0.25) die() else if (r < 0.5) stop(i) else i
  }
  for (settings in list(
    list(mc.retry = -50), list(mc.retry = 50, mc.preschedule = FALSE),
    list(mc.retry = 50, mc.preschedule = FALSE, affinity.list = rep(1, 20))
  )) {
    got <- do.call(map, c(list(1:20, f, mc.cores = 2, mc.force.fork = TRUE), settings))
    expect_identical(got, as.list(1:20))
  }
})

test_that("a failure that is tried again is told once for each try, unless silenced", {
  f <- function(i) if (retry_now() == "0") stop("not yet ", i) else i
  seen <- testthat::capture_messages(mclapply(1:4, f, mc.retry = 1))
  expect_length(seen, 1L)
  expect_match(seen, "^0: the first error of this try.*not yet")
  expect_silent(mclapply(1:4, f, mc.retry = 1, mc.retry.silent = TRUE))
  death <- testthat::capture_messages(
    mclapply(1:4, function(i) if (retry_now() == "0") die() else i, mc.retry = 1)
  )
  expect_match(death, "^0: the first death of this try.*SIGKILL")
})

test_that("an element is tried again at once, not when all others are done", {
  order <- withr::local_tempfile()
  file.create(order)
  map(1:4, function(i) {
    if (i == 1L && retry_now() == "0") stop("first")
    if (i == 2L) wait_until(length(readLines(order)) == 3L, 60)
    cat(i, "\n", file = order, append = TRUE)
    i
  }, mc.retry = 1, mc.preschedule = FALSE)
  expect_identical(scan(order, quiet = TRUE)[[4L]], 2)
})

test_that("output and messages carry the number of the try", {
  f <- function(i) {
    cat("part")
    message("note")
    if (retry_now() == "0") stop("again")
    i
  }
  out <- capture.output(messages <- testthat::capture_messages(
    mclapply(1:2, f, mc.retry = 1, mc.retry.silent = TRUE)
  ))
  expect_identical(out, c("0/1: part", "1/1: part", "0/2: part", "1/2: part"))
  expect_identical(messages, c("0/1: note\n", "1/1: note\n", "0/2: note\n", "1/2: note\n"))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
