detritus <- detritus_snapshot()

draw <- function(i) stats::runif(2)

test_that("the same seed gives the same numbers for any number of workers and batch size", {
  reference <- par_lapply(1:20, draw, .control = two_workers(seed = 7L, workers = 1L))
  for (workers in 2:4) {
    for (batch in list(NULL, 1L, 6L)) {
      got <- par_lapply(1:20, draw, .control = two_workers(
        seed = 7L, workers = workers, batch = batch
      ))
      expect_identical(got, reference)
    }
  }
  expect_length(unique(unlist(reference)), 40L)
})

test_that("element i draws from the i-th L'Ecuyer stream", {
  got <- par_lapply(1:3, function(i) .Random.seed, .control = two_workers(seed = 7L))
  expect_identical(got[[1L]][[1L]] %% 100L, 7L)
  expect_identical(parallel::nextRNGStream(got[[1L]]), got[[2L]])
  expect_identical(parallel::nextRNGStream(got[[2L]]), got[[3L]])
})

test_that("the order of the runs does not matter", {
  reference <- par_lapply(1:6, draw, .control = two_workers(seed = 7L))
  got <- par_lapply(1:6, function(i) {
    Sys.sleep((i %% 3) / 50)
    draw(i)
  }, .control = two_workers(seed = 7L, priority = 6:1, batch = 1L))
  expect_identical(got, reference)
})

test_that("numbers are kept when workers die on the way", {
  reference <- par_lapply(1:8, draw, .control = two_workers(seed = 7L))
  got <- par_lapply(1:8, function(i) {
    x <- draw(i)
    if (i %% 3L == 0L && Sys.getenv("REGATTA_TRY") == "1") {
      tools::pskill(Sys.getpid(), tools::SIGKILL)
    }
    x
  }, .control = two_workers(seed = 7L, retries = 1L))
  expect_identical(got, reference)
})

test_that("set.seed() rules seed = TRUE, and the session moves once whatever is run", {
  withr::local_preserve_seed()
  run <- function(n, workers) {
    set.seed(1)
    got <- par_lapply(seq_len(n), draw, .control = two_workers(seed = TRUE, workers = workers))
    list(got = got, after = .Random.seed)
  }
  one <- run(4, 1L)
  two <- run(4, 2L)
  many <- run(40, 3L)
  expect_identical(one, two)
  expect_identical(one$after, many$after)
  expect_identical(many$got[1:4], one$got)
  set.seed(1)
  expect_false(identical(.Random.seed, one$after))
  next_run <- par_lapply(1:4, draw, .control = two_workers(seed = TRUE))
  again <- par_lapply(1:4, draw, .control = two_workers(seed = TRUE))
  expect_identical(next_run, one$got)
  expect_false(identical(again, next_run))
})

test_that("a session that has drawn nothing yet is no trouble", {
  skip_unless_linux()
  got <- fault_run(function() {
    stopifnot(!exists(".Random.seed", globalenv()))
    first <- par_lapply(1:2, function(i) stats::runif(1),
      .control = par_control(workers = 2L, progress = FALSE))
    fixed <- par_lapply(1:2, function(i) stats::runif(1),
      .control = par_control(workers = 2L, progress = FALSE, seed = 1L))
    c(first, fixed)
  })$value
  expect_length(unique(unlist(got)), 4L)
})

test_that("a number as seed leaves the session's generator as it was", {
  withr::local_preserve_seed()
  set.seed(99)
  before <- .Random.seed
  par_lapply(1:4, draw, .control = two_workers(seed = 5L))
  expect_identical(.Random.seed, before)
  rm(".Random.seed", envir = globalenv())
  par_lapply(1:4, draw, .control = two_workers(seed = 5L))
  expect_false(exists(".Random.seed", globalenv(), inherits = FALSE))
  set.seed(99)
})

test_that("the session's kind of generator is neither needed nor changed", {
  withr::local_preserve_seed()
  kinds <- RNGkind()
  withr::defer(do.call(RNGkind, as.list(kinds)))
  reference <- par_lapply(1:4, draw, .control = two_workers(seed = 5L))
  for (kind in c("Wichmann-Hill", "Mersenne-Twister", "L'Ecuyer-CMRG")) {
    RNGkind(kind)
    expect_identical(par_lapply(1:4, draw, .control = two_workers(seed = 5L)), reference)
    expect_identical(RNGkind()[[1L]], kind)
  }
})

test_that("workers that are forked at once never share their random numbers", {
  withr::local_preserve_seed()
  stats::runif(1)
  for (seed in list(TRUE, FALSE, 3L)) {
    got <- par_lapply(1:12, function(i) stats::runif(1), .control = two_workers(
      seed = seed, workers = 4L, batch = 1L
    ))
    expect_length(unique(unlist(got)), 12L)
  }
  twice <- lapply(1:2, function(k) {
    par_lapply(1:4, function(i) stats::runif(1), .control = two_workers(seed = FALSE))
  })
  expect_false(any(unlist(twice[[1L]]) %in% unlist(twice[[2L]])))
})

test_that("par_replay() runs an element here, with its arguments and its numbers", {
  f <- function(x, add) c(x + add, stats::runif(1), stats::rnorm(1))
  got <- par_lapply(c(a = 1, b = 2, c = 3), f, add = 10, .control = two_workers(seed = 7L))
  run <- par_last()
  for (i in 1:3) expect_identical(par_replay(run, i), got[[i]])
  expect_identical(par_replay(i = 2), got[[2L]])
})

test_that("par_replay() draws the numbers of the element's last try", {
  got <- par_lapply(1:2, function(i) {
    x <- stats::runif(1)
    if (Sys.getenv("REGATTA_TRY") == "1") stop("again")
    x
  }, .control = two_workers(seed = 7L, retries = 1L, retry_seed = "new"))
  withr::local_envvar(REGATTA_TRY = "2")
  expect_identical(par_replay(par_last(), 2L), got[[2L]])
})

test_that("par_replay() shows the user's own error and leaves the session's numbers alone", {
  withr::local_preserve_seed()
  set.seed(3)
  suppressWarnings(par_lapply(1:2, function(i) {
    stats::runif(1)
    if (i == 2L) stop("as it was")
  }, .control = two_workers(errors = "collect")))
  before <- .Random.seed
  expect_error(par_replay(par_last(), 2L), "as it was")
  expect_identical(.Random.seed, before)
  expect_error(par_replay(par_last(), 3L), class = "regatta_error_argument")
  expect_error(par_replay(par_last(), "x"), class = "regatta_error_argument")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
