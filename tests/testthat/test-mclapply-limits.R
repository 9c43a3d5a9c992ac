set.seed(25)
detritus <- detritus_snapshot()

map <- function(X, FUN, ...) mclapply(X, FUN, ..., mc.dump.frames = "no")

busy <- function(seconds) {
  start <- proc.time()[["elapsed"]]
  while (proc.time()[["elapsed"]] - start < seconds) sqrt(1:100)
}

test_that("an element over its limit dies, and the others do not", {
  for (signal in list("SIGTERM", "SIGKILL", "SIGABRT", 10)) {
    got <- map(1:3, function(i) {
      if (i == 2L) Sys.sleep(300)
      i
    }, mc.timeout.elapsed = 1, mc.timeout.signal = signal, mc.allow.fatal = NA)
    expect_identical(class(got[[2L]]), c("fatal-error", "try-error"))
    expect_match(got[[2L]], "mc.timeout.elapsed")
    expect_s3_class(attr(got[[2L]], "condition"), "regatta_error_timeout")
    expect_identical(got[-2L], list(1L, 3L))
  }
})

test_that("CPU time is a limit of its own", {
  got <- map(1:2, function(i) {
    if (i == 1L) busy(300) else Sys.sleep(0.6)
    i
  }, mc.timeout.cpu = 0.3, mc.allow.fatal = NA)
  expect_match(got[[1L]], "mc.timeout.cpu")
  expect_identical(got[[2L]], 2L)
})

test_that("SIGINT is an error of the element, after its on.exit() code", {
  marker <- withr::local_tempfile()
  got <- map(1:2, function(i) {
    if (i == 1L) {
      on.exit(file.create(marker))
      Sys.sleep(300)
    }
    i
  }, mc.timeout.elapsed = 1, mc.timeout.signal = "SIGINT", mc.allow.error = NA)
  expect_identical(class(got[[1L]]), c("interrupt-error", "try-error"))
  expect_identical(got[[2L]], 2L)
  expect_true(file.exists(marker))
})

test_that("a limit is not allowed by default, and may be tried again", {
  expect_error(map(1:2, function(i) if (i == 1L) Sys.sleep(300), mc.timeout.elapsed = 1),
    "died with their worker.*mc.timeout.elapsed")
  got <- suppressMessages(map(1:2, function(i) {
    if (i == 1L && Sys.getenv("BMC_RETRY") == "0") Sys.sleep(300)
    i
  }, mc.timeout.elapsed = 1, mc.retry = 1))
  expect_identical(got, list(1L, 2L))
})

test_that("a limit never ends the session", {
  got <- map(1, function(i) Sys.sleep(300), mc.timeout.elapsed = 1, mc.allow.fatal = NA)
  expect_s3_class(got[[1L]], "fatal-error")
  got <- map(1:2, function(i) Sys.sleep(300), mc.timeout.elapsed = 1, mc.cores = 1,
    mc.allow.fatal = NA)
  expect_s3_class(got[[2L]], "fatal-error")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
