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
  local_rng("L'Ecuyer-CMRG")
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

test_that("elements draw with the session's kind of generator, which stays as it is", {
  for (kinds in rng_kinds) {
    local_rng(kinds[[1L]], kinds[[2L]], kinds[[3L]])
    got <- par_lapply(1:4, function(i) list(RNGkind(), stats::runif(1)), .control = two_workers(seed = 5L))
    expect_identical(lapply(got, `[[`, 1L), rep(list(kinds), 4L))
    expect_length(unique(lapply(got, `[[`, 2L)), 4L)
    expect_identical(RNGkind(), kinds)
  }
})

test_that("an element that looks at its state and does not draw leaves the next one its own", {
  local_rng("Mersenne-Twister")
  look <- function(i) .Random.seed[3:6]
  got <- par_lapply(1:4, look, .control = two_workers(workers = 1L))
  expect_length(unique(got), 4L)
  expect_identical(par_lapply(1:4, look, .control = two_workers(batch = 1L)), got)
})

test_that("what an element does with the generator is nothing to the next one", {
  for (kinds in rng_kinds[1:4]) {
    local_rng(kinds[[1L]], kinds[[2L]], kinds[[3L]])
    draw <- function(i) c(stats::rnorm(3), sample(100L, 2L))
    expected <- par_lapply(1:9, draw, .control = two_workers())
    kept <- NULL
    got <- par_lapply(1:9, function(i) {
      seed <- .Random.seed # a state that somebody holds is not made into the next one
      if (!is.null(kept) && i > 1) stopifnot(!identical(kept, seed))
      kept <<- seed
      x <- draw(i)
      switch(1 + i %% 5, suppressWarnings(RNGkind("Super-Duper", "Box-Muller", "Rounding")),
        rm(".Random.seed", envir = globalenv()), set.seed(1), stats::rnorm(1), assign(".Random.seed", 1:3, globalenv()))
      again <- kept
      assign(".Random.seed", again, globalenv())
      stopifnot(identical(x[1:2], stats::rnorm(2)) || kinds[[2L]] == "Box-Muller")
      suppressWarnings(RNGkind("Wichmann-Hill"))
      x
    }, .control = two_workers(workers = 1L))
    expect_identical(got, expected)
  }
})

# What each verb gives for seeding(3), by a function of where to run and of the settings.
seeding <- function(i) {
  set.seed(i)
  c(stats::runif(1), stats::rnorm(3), sample(1000L, 2L))
}
seeding_verbs <- list(
  par_vapply = function(on, control) par_vapply(1:3, seeding, numeric(6), .on = on, .control = control)[, 3L],
  par_mapply = function(on, control) {
    par_mapply(function(i) seeding(i), 1:3, SIMPLIFY = FALSE, .on = on, .control = control)[[3L]]
  },
  par_call = function(on, control) par_value(par_call(seeding(3), .on = on, .control = control)),
  par_stream = function(on, control) {
    stream <- par_stream(1:3, seeding, .on = on, .control = control)
    lapply(1:3, function(i) par_next(stream))[[3L]]
  },
  par_reduce = function(on, control) {
    par_reduce(1:3, function(i) list(seeding(i)), c, list(), .on = on, .control = control)[[3L]]
  },
  shm_fill = function(on, control) {
    as.vector(shm_fill(6L, function(k) seeding(3)[k], "double", .on = on, .control = control))
  }
)

test_that("set.seed() gives what it gives in lapply(), and all else the same numbers, on every kind of worker", {
  skip_if_not_installed("globals")
  here <- structure(list(), class = "regatta_session")
  places <- list(forks = NULL, session = here, pool = local_pool(), nodes = local_cluster())
  # Of these workers the generator is another, and nobody has drawn a number yet.
  change <- function() {
    RNGkind("Super-Duper", "Ahrens-Dieter")
    rm(".Random.seed", envir = globalenv())
  }
  for (place in c("pool", "nodes")) parallel::clusterCall(places[[place]], change)
  draw <- function(i) list(c(stats::runif(1), stats::rnorm(3), sample(1000L, 2L)), seeding(i))
  for (kinds in rng_kinds[1:4]) {
    local_rng(kinds[[1L]], kinds[[2L]], kinds[[3L]])
    expected <- lapply(1:3, seeding)
    moved <- NULL
    for (place in names(places)) {
      set.seed(2)
      got <- par_lapply(1:3, draw, .on = places[[place]], .control = two_workers(seed = TRUE))
      after <- session_seed()
      expect_identical(lapply(got, `[[`, 2L), expected, label = paste(c(place, kinds), collapse = " "))
      expect_length(unique(lapply(got, `[[`, 1L)), 3L)
      if (is.null(moved)) moved <- list(got, after)
      expect_identical(list(got, after), moved, label = paste(c(place, kinds), collapse = " "))
    }
  }
  # Also where nothing seeds elements, nor the session.
  local_rng("Wichmann-Hill")
  expected <- lapply(1:3, seeding)
  rm(".Random.seed", envir = globalenv())
  for (place in names(places)) {
    got <- par_lapply(1:3, seeding, .on = places[[place]], .control = two_workers(seed = FALSE))
    expect_identical(got, expected, label = place)
    expect_null(session_seed())
    expect_identical(RNGkind()[[1L]], "Wichmann-Hill")
  }
  for (verb in names(seeding_verbs)) {
    for (place in names(places)) {
      got <- seeding_verbs[[verb]](places[[place]], two_workers(seed = 2L))
      expect_identical(got, expected[[3L]], label = paste(verb, place))
    }
  }
  state <- function() list(RNGkind(), exists(".Random.seed", globalenv(), inherits = FALSE))
  for (place in c("pool", "nodes")) {
    left <- parallel::clusterCall(places[[place]], state)
    expect_identical(left, rep(list(list(c("Super-Duper", "Ahrens-Dieter", "Rejection"), FALSE)), 2L))
  }
  parallel::stopCluster(places$pool)
  end_servers()
})

test_that("a nested map has the generator that its element has", {
  local_rng("Mersenne-Twister")
  got <- par_lapply(1:2, function(i) {
    if (i == 2L) suppressWarnings(RNGkind("Wichmann-Hill"))
    inner <- par_lapply(1:2, function(k) {
      set.seed(k)
      list(RNGkind()[[1L]], stats::runif(1))
    }, .control = two_workers())
    after <- stats::runif(1)
    list(inner, lapply(1:2, function(k) {
      set.seed(k)
      list(RNGkind()[[1L]], stats::runif(1))
    }), after)
  }, .control = two_workers())
  for (one in got) expect_identical(one[[1L]], one[[2L]])
  expect_false(got[[1L]][[3L]] == got[[2L]][[3L]])
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
  local_rng("Wichmann-Hill") # the kind is the run's
  expect_identical(par_replay(run, 2), got[[2L]])
  expect_identical(RNGkind()[[1L]], "Wichmann-Hill")
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
