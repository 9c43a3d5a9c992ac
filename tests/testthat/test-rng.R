detritus <- detritus_snapshot()

test_that("the streams are those of parallel, one after the other", {
  local_rng("L'Ecuyer-CMRG")
  for (seed in c(1L, -5L, 123456L)) {
    base <- rng_base(seed)
    expected <- base
    wrong <- integer()
    for (i in 1:2000) {
      if (!identical(rng_element_seed(base, i), expected)) wrong <- c(wrong, i)
      expected <- parallel::nextRNGStream(expected)
    }
    expect_identical(wrong, integer())
  }
})

test_that("a stream far away is found at once and is the right one", {
  local_rng("L'Ecuyer-CMRG")
  base <- rng_base(2024L)
  expected <- base
  wrong <- integer()
  for (i in seq_len(1e6)) {
    if (i %% 99999L == 0L && !identical(rng_element_seed(base, i), expected)) wrong <- c(wrong, i)
    expected <- parallel::nextRNGStream(expected)
  }
  expect_identical(wrong, integer())
  expect_identical(rng_element_seed(base, 1e6 + 1), expected)
})

test_that("jumps add up where no loop could follow", {
  local_rng("L'Ecuyer-CMRG")
  base <- rng_base(7L)
  for (i in c(2^31, 2^40 + 12345, 2^52)) {
    here <- rng_element_seed(base, i)
    expect_identical(rng_element_seed(base, i + 1), parallel::nextRNGStream(here))
    expect_identical(rng_element_seed(here, i), rng_element_seed(base, 2 * i - 1))
  }
})

test_that("later tries have the substreams of their element", {
  local_rng("L'Ecuyer-CMRG")
  base <- rng_base(99L)
  expected <- parallel::nextRNGStream(base)
  for (try in 1:200) {
    expect_identical(rng_element_seed(base, 2, try), expected)
    expected <- parallel::nextRNGSubStream(expected)
  }
})

test_that("words with the sign bit and the largest valid words are understood", {
  seeds <- list(
    c(10407L, -210L, -210L, -210L, -22854L, -22854L, -22854L),
    c(10407L, -1L - 209L, 0L, 0L, 0L, 0L, 1L),
    c(10407L, 2147483647L, -2147483647L, 5L, -1234567L, 2147483647L, -2147483647L)
  )
  for (base in seeds) {
    expected <- base
    for (i in 1:20) {
      expect_identical(rng_element_seed(base, i), expected)
      expected <- parallel::nextRNGStream(expected)
    }
    expect_identical(rng_element_seed(base, 1, 2), parallel::nextRNGSubStream(base))
  }
})

test_that("a number gives the state of set.seed() and does not touch the session", {
  local_rng()
  for (seed in c(0L, 1L, -1L, 42L, .Machine$integer.max, -.Machine$integer.max)) {
    set.seed(seed, "L'Ecuyer-CMRG", "Inversion", "Rejection")
    expected <- session_seed()
    set.seed(1)
    before <- session_seed()
    expect_identical(rng_base(seed), expected)
    expect_identical(session_seed(), before)
    set.seed(1, "Mersenne-Twister")
    before <- session_seed()
    expect_identical(rng_base(seed)[-1L], expected[-1L])
    expect_identical(session_seed(), before)
  }
  suppressWarnings(rm(".Random.seed", envir = globalenv()))
  base <- rng_base(1L)
  expect_null(session_seed())
  expect_identical(base[[1L]], 10403L)
})

test_that("TRUE moves the session by exactly one number", {
  local_rng()
  for (kind in c("Mersenne-Twister", "L'Ecuyer-CMRG", "Wichmann-Hill", "Knuth-TAOCP-2002")) {
    set.seed(3, kind)
    stats::runif(1)
    expected <- session_seed()
    set.seed(3, kind)
    first <- rng_base(TRUE)
    expect_identical(session_seed(), expected)
    second <- rng_base(TRUE)
    expect_false(identical(first, second))
    set.seed(3, kind)
    expect_identical(rng_base(TRUE), first)
    expect_identical(rng_base(TRUE), second)
  }
})

test_that("TRUE works in a session that has no state yet, and FALSE gives none", {
  local_rng()
  suppressWarnings(rm(".Random.seed", envir = globalenv()))
  base <- rng_base(TRUE)
  expect_length(base, 7L)
  expect_false(is.null(session_seed()))
  before <- session_seed()
  expect_null(rng_base(FALSE))
  expect_null(rng_element_seed(NULL, 3))
  expect_identical(session_seed(), before)
})

test_that("bases from the session are valid states and differ from call to call", {
  local_rng()
  set.seed(11, "Mersenne-Twister")
  bases <- replicate(5000, rng_base(TRUE))
  words <- ifelse(bases[-1, ] < 0, bases[-1, ] + 2^32, bases[-1, ])
  expect_true(all(words[1:3, ] > 0 & words[1:3, ] < 4294967087))
  expect_true(all(words[4:6, ] > 0 & words[4:6, ] < 4294944443))
  for (row in 1:6) {
    expect_lt(sum(duplicated(words[row, ])), 3)
    expect_gt(stats::ks.test(words[row, ] / 2^32, "punif")$p.value, 1e-6)
  }
  set.seed(12)
  expect_false(rng_base(TRUE)[[2L]] %in% bases[2L, ])
})

test_that("an element has the session's generator and ways to make normals and samples", {
  for (kinds in rng_kinds) {
    local_rng(kinds[[1L]], kinds[[2L]], kinds[[3L]])
    stats::runif(1)
    state <- session_seed()
    seed <- rng_element_seed(rng_base(5L), 3)
    expect_length(seed, length(state))
    expect_identical(seed[[1L]], state[[1L]])
    rng_use(seed)
    expect_identical(RNGkind(), kinds)
    # R takes the state as it is: it begins nothing anew, and what it draws differs from stream to stream.
    expect_identical(session_seed(), rng_element_seed(rng_base(5L), 3))
    drawn <- stats::runif(3)
    expect_true(all(drawn > 0 & drawn < 1))
    rng_use(rng_element_seed(rng_base(5L), 3))
    expect_identical(stats::runif(3), drawn)
    rng_use(rng_element_seed(rng_base(5L), 4))
    expect_false(any(stats::runif(3) == drawn))
  }
})

test_that("elements have L'Ecuyer's generator where the session's is user-supplied", {
  local_rng("L'Ecuyer-CMRG")
  local_function("rng_kind", function() 10405L)
  expect_identical(rng_base(5L)[[1L]], 10407L)
})

test_that("a state that nobody has looked at is as good as one that somebody has", {
  local_rng("Mersenne-Twister")
  base <- rng_base(5L)
  seed <- function() rng_element_seed(base, 9)
  looked_at <- seed()
  expect_identical(looked_at[[2L]], 624L)
  expect_identical(unserialize(serialize(seed(), NULL)), looked_at)
  copy <- seed()
  copy[[1L]] <- 1L
  expect_identical(c(10403L, copy[-1L]), looked_at)
  expect_identical(seed()[600:626], looked_at[600:626])
  expect_type(seed(), "integer")
  expect_identical(range(seed()), range(looked_at))
})

test_that("a generator is put back with its kind, with a state and without", {
  for (kinds in rng_kinds) {
    local_rng(kinds[[1L]], kinds[[2L]], kinds[[3L]])
    set.seed(4)
    state <- session_seed()
    saved <- rng_save()
    suppressWarnings(RNGkind("Super-Duper", "Kinderman-Ramage", "Rejection"))
    rng_restore(saved)
    expect_identical(session_seed(), state)
    rm(".Random.seed", envir = globalenv())
    saved <- rng_save()
    suppressWarnings(RNGkind("Super-Duper", "Kinderman-Ramage", "Rejection"))
    rng_restore(saved)
    expect_null(session_seed())
    expect_identical(RNGkind(), kinds)
    set.seed(4)
    expect_identical(session_seed(), state)
  }
})

test_that("an element's normals do not depend on the element before it", {
  local_rng()
  RNGkind("default", "Box-Muller", "default")
  base <- rng_base(5L)
  rng_use(rng_element_seed(base, 1))
  alone <- stats::rnorm(3)
  rng_use(rng_element_seed(base, 2))
  stats::rnorm(1)
  rng_use(rng_element_seed(base, 1))
  expect_identical(stats::rnorm(3), alone)
})

test_that("without a seed the generator starts anew", {
  local_rng()
  set.seed(1)
  rng_use(NULL)
  expect_null(session_seed())
  expect_silent(rng_use(NULL))
})

test_that("neighbouring streams are independent and uniform", {
  local_rng()
  for (kind in c("L'Ecuyer-CMRG", "Mersenne-Twister", "Wichmann-Hill")) {
    RNGkind(kind)
    base <- rng_base(1L)
    n <- if (kind == "Mersenne-Twister") 1e5 else 2000
    first <- vapply(seq_len(n), function(i) {
      assign(".Random.seed", rng_element_seed(base, i), envir = globalenv())
      stats::runif(2)
    }, c(0, 0))
    limit <- 4 / sqrt(n)
    expect_gt(suppressWarnings(stats::ks.test(first[1, ], "punif"))$p.value, 1e-4)
    expect_gt(stats::chisq.test(tabulate(first[2, ] * 100 + 1, 100))$p.value, 1e-4)
    for (lag in c(1, 2, 6, 128)) {
      expect_lt(abs(stats::cor(first[1, -seq_len(lag)], first[1, seq_len(n - lag)])), limit)
    }
    expect_lt(abs(stats::cor(first[1, ], first[2, ])), limit)
  }
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
