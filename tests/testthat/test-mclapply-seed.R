set.seed(24)
detritus <- detritus_snapshot()

draw <- function(i) stats::runif(i)

test_that("every element has its own seed, the same for any number of cores and any schedule", {
  withr::local_preserve_seed()
  set.seed(456)
  reference <- mclapply(1:4, draw)
  expect_identical(mclapply(1:4, draw, mc.set.seed = 456), reference)
  for (settings in list(
    list(mc.cores = 1), list(mc.cores = 3), list(mc.retry = 5, mc.cores = 1),
    list(mc.retry = -3), list(mc.preschedule = FALSE), list(mc.priority = 4:1)
  )) {
    set.seed(456)
    expect_identical(do.call(mclapply, c(list(1:4, draw), settings)), reference)
  }
  set.seed(457)
  expect_false(identical(mclapply(1:4, draw), reference))
})

test_that("a normal that the session has kept of a pair is its next one after a call", {
  withr::local_preserve_seed()
  withr::defer(RNGkind("default", "default", "default"))
  RNGkind(normal.kind = "Box-Muller")
  normals <- function(code = NULL) {
    set.seed(1)
    first <- stats::rnorm(1)
    code
    c(first, stats::rnorm(2))
  }
  expected <- normals()
  for (seed in c(NA, TRUE, FALSE)) {
    got <- normals(mclapply(1:3, function(i) stats::rnorm(1), mc.cores = 2, mc.set.seed = seed))
    expect_identical(got[1:2], expected[1:2])
    if (!isTRUE(seed)) expect_identical(got, expected) # a stream takes a number of the session's
  }
})

test_that("the seeds are whole numbers drawn from the caller's generator, as bettermc draws them", {
  withr::local_preserve_seed()
  got <- mclapply(1:3, function(i) stats::rnorm(2), mc.set.seed = 99)
  set.seed(99)
  seeds <- round(stats::runif(3, -.Machine$integer.max, .Machine$integer.max))
  expect_identical(got, lapply(seeds, function(seed) {
    set.seed(seed)
    stats::rnorm(2)
  }))
})

test_that("the caller's generator is left as it was, whatever is called", {
  withr::local_preserve_seed()
  set.seed(987)
  before <- .Random.seed
  for (cores in 1:2) {
    mclapply(1:4, draw, mc.cores = cores)
    mclapply(1:4, draw, mc.set.seed = 1, mc.cores = cores)
    mclapply(1:4, function(i) RNGkind("Wichmann-Hill"), mc.cores = cores)
    try(mclapply(1:4, function(i) {
      stats::runif(1)
      stop("x")
    }, mc.cores = cores, mc.dump.frames = "no"), silent = TRUE)
    expect_identical(.Random.seed, before)
  }
  expect_identical(RNGkind()[[1L]], "Mersenne-Twister")
  mclapply(1:4, draw, mc.set.seed = FALSE)
  expect_identical(.Random.seed, before)
})

test_that("a session without a generator's state gets one, and keeps it", {
  skip_unless_linux()
  got <- fault_run(function() {
    stopifnot(!exists(".Random.seed", globalenv()))
    first <- mclapply(1:2, function(i) stats::runif(1))
    state <- .Random.seed
    second <- mclapply(1:2, function(i) stats::runif(1))
    list(first, second, identical(state, .Random.seed))
  })$value
  expect_identical(got[[1L]], got[[2L]])
  expect_true(got[[3L]])
})

test_that("a later try has another seed, or the same one if so asked", {
  withr::local_preserve_seed()
  f <- function(i) {
    r <- stats::runif(1)
    if (Sys.getenv("BMC_RETRY") == "0") stop("once")
    r
  }
  plain <- mclapply(1:5, function(i) stats::runif(1), mc.set.seed = 5)
  for (cores in 1:2) {
    same <- mclapply(1:5, f, mc.set.seed = 5, mc.retry = 1, mc.retry.fixed.seed = TRUE,
      mc.retry.silent = TRUE, mc.cores = cores)
    expect_identical(same, plain)
    other <- mclapply(1:5, f, mc.set.seed = 5, mc.retry = 2, mc.retry.silent = TRUE,
      mc.cores = cores)
    set.seed(5)
    blocks <- matrix(round(stats::runif(15, -.Machine$integer.max, .Machine$integer.max)), 5)
    expect_identical(other, lapply(blocks[, 2L], function(seed) {
      set.seed(seed)
      stats::runif(1)
    }))
  }
})

test_that("an element that changes the kind of generator does not change the next one's numbers", {
  withr::local_preserve_seed()
  f <- function(i) {
    x <- stats::runif(1)
    if (i == 1L) RNGkind("Wichmann-Hill")
    x
  }
  one <- mclapply(1:4, f, mc.set.seed = 5, mc.cores = 1)
  expect_identical(mclapply(1:4, f, mc.set.seed = 5, mc.cores = 3), one)
})

test_that("TRUE gives streams that set.seed() makes reproducible, and moves the caller's generator", {
  withr::local_preserve_seed()
  run <- function(cores) {
    set.seed(3)
    got <- mclapply(1:4, draw, mc.set.seed = TRUE, mc.cores = cores)
    list(got, .Random.seed)
  }
  reference <- run(2)
  for (cores in c(1, 3)) expect_identical(run(cores), reference)
  expect_length(unique(unlist(reference[[1L]])), 10L)
  again <- mclapply(1:4, draw, mc.set.seed = TRUE)
  expect_false(identical(again, reference[[1L]]))
})

test_that("set.seed() in an element gives what it gives in lapply(), however elements are seeded", {
  seeding <- function(i) {
    set.seed(i)
    c(stats::runif(1), stats::rnorm(3), sample(1000L, 2L))
  }
  sums <- function(v) vapply(v, function(i) sum(seeding(i)), 0)
  for (kinds in rng_kinds[1:4]) {
    local_rng(kinds[[1L]], kinds[[2L]], kinds[[3L]])
    expected <- lapply(1:3, seeding)
    for (seed in list(TRUE, FALSE, NA, 5)) {
      for (cores in 1:2) {
        expect_identical(mclapply(1:3, seeding, mc.set.seed = seed, mc.cores = cores), expected)
        expect_identical(pvec(1:3, sums, mc.set.seed = seed, mc.cores = cores), sums(1:3))
        expect_identical(mcMap(seeding, 1:3, mc.set.seed = seed, mc.cores = cores), expected)
        got <- mcmapply(seeding, 1:3, SIMPLIFY = FALSE, mc.set.seed = seed, mc.cores = cores)
        expect_identical(got, expected)
      }
    }
  }
})

test_that("FALSE lets workers go on from the caller's state", {
  withr::local_preserve_seed()
  set.seed(11)
  first <- stats::runif(1)
  set.seed(11)
  got <- mclapply(1:4, function(i) stats::runif(1), mc.set.seed = FALSE, mc.preschedule = FALSE)
  expect_identical(got, rep(list(first), 4L))
  set.seed(11)
  got <- mclapply(1:4, function(i) stats::runif(1), mc.set.seed = FALSE)
  expect_true(first %in% unlist(got))
  # In the session the generator goes on, as in lapply().
  set.seed(11)
  expected <- lapply(1:4, function(i) stats::runif(1))
  set.seed(11)
  expect_identical(mclapply(1:4, function(i) stats::runif(1), mc.set.seed = FALSE, mc.cores = 1),
    expected)
})

test_that("par_replay() draws the numbers of the last try", {
  withr::local_preserve_seed()
  for (cores in 1:2) {
    got <- mclapply(1:3, function(i) {
      x <- stats::runif(1)
      if (i == 2L && Sys.getenv("BMC_RETRY") == "0") stop("again")
      x
    }, mc.retry = 1, mc.retry.silent = TRUE, mc.cores = cores)
    for (i in 1:3) expect_identical(par_replay(i = i), got[[i]])
  }
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
