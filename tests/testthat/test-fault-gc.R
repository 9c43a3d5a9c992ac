detritus <- detritus_snapshot()

test_that("results may be dropped and collected while others live", {
  kept <- list()
  for (k in 1:6) {
    got <- par_lapply(1:4, function(i) rep(k * 10 + i, 5e4), .control = two_workers())
    kept[[k]] <- got[[k %% 4L + 1L]]
    rm(got)
    gc()
  }
  for (k in 1:6) expect_identical(kept[[k]], rep(k * 10 + k %% 4L + 1, 5e4))
})

test_that("a collection at every allocation of the worker changes no value", {
  got <- par_lapply(1:2, function(i) {
    gctorture(TRUE)
    on.exit(gctorture(FALSE))
    list(i, letters, rep(i + 0, 1e4), c(a = "x"))
  }, .control = two_workers(shm_min = "1KB"))
  expect_identical(got, lapply(1:2, function(i) list(i, letters, rep(i + 0, 1e4), c(a = "x"))))
})

test_that("a collection at every allocation of the parent changes no value", {
  skip_unless_linux()
  got <- fault_run(function() {
    control <- par_control(workers = 2L, progress = FALSE, shm_min = "1KB", errors = "collect")
    f <- function(i) {
      if (i == 2L) stop("failed")
      list(x = rep(i + 0, 1000), y = as.character(seq_len(i)))
    }
    suppressWarnings(par_lapply(1:3, f, .control = control))
    gctorture2(31L)
    got <- suppressWarnings(par_lapply(1:3, f, .control = control))
    gctorture(FALSE)
    list(got[c(1L, 3L)], inherits(got[[2L]], "regatta_error_element"))
  }, timeout = 300)$value
  wanted <- lapply(c(1L, 3L), function(i) list(x = rep(i + 0, 1000), y = as.character(seq_len(i))))
  expect_identical(got, list(wanted, TRUE))
})

test_that("a collection at every allocation while values arrive changes none of them", {
  withr::local_preserve_seed()
  stream <- par_stream(1:8, function(i) rep(i + 0, 1000), .control = par_control(workers = 1L, progress = FALSE))
  executor <- stream$stream$run$executor
  poll <- executor$poll
  executor$poll <- function(timeout) {
    gctorture(TRUE)
    on.exit(gctorture(FALSE))
    poll(timeout)
  }
  stream$stream$run$executor <- executor
  got <- lapply(1:8, function(i) par_next(stream))
  expect_identical(got, lapply(1:8, function(i) rep(i + 0, 1000)))
})

test_that("collections in a handler while a map runs do no harm", {
  got <- withCallingHandlers(
    par_lapply(1:20, function(i) {
      message("note")
      rep(i + 0, 2e4)
    }, .control = two_workers()),
    message = function(m) {
      gc()
      invokeRestart("muffleMessage")
    }
  )
  expect_identical(vapply(got, sum, 0), 1:20 * 2e4)
})

test_that("a map inside a handler of a map works", {
  inner <- list()
  got <- withCallingHandlers(
    par_lapply(1:3, function(i) {
      message("note")
      i
    }, .control = two_workers()),
    message = function(m) {
      inner <<- c(inner, list(par_lapply(1:2, identity, .control = two_workers())))
      invokeRestart("muffleMessage")
    }
  )
  expect_identical(got, as.list(1:3))
  expect_identical(inner, rep(list(as.list(1:2)), 3L))
})

test_that("an error in a handler ends the run and all its workers", {
  skip_unless_linux()
  expect_error(
    withCallingHandlers(
      par_lapply(1:4, function(i) {
        message("note")
        Sys.sleep(300)
      }, .control = two_workers()),
      message = function(m) stop("enough")
    ),
    "enough"
  )
  expect_identical(par_lapply(1:3, identity, .control = two_workers()), as.list(1:3))
})

test_that("values are still good when the package has been unloaded", {
  skip_unless_linux()
  got <- fault_run(function() {
    control <- par_control(workers = 2L, progress = FALSE)
    values <- par_lapply(1:2, function(i) rep(i + 0, 1e5), .control = control)
    pending <- par_call(Sys.sleep(300), .control = control)
    detach("package:regatta")
    rm(control)
    unloadNamespace("regatta")
    gc()
    first <- vapply(values, sum, 0)
    rm(pending)
    gc()
    values[[1L]][1L] <- 5
    file <- tempfile()
    saveRDS(values, file)
    loadNamespace("regatta")
    again <- regatta::par_lapply(1:2, identity)
    list(first, values[[1L]][1:2], identical(readRDS(file), values), again)
  })$value
  expect_identical(got, list(c(1e5, 2e5), c(5, 1), TRUE, as.list(1:2)))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
