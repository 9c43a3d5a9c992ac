detritus <- detritus_snapshot()

# R puts long vectors into wrappers of its own where it changes their attributes and somebody else has
# them too.
array_of <- function(n, note = NULL) {
  x <- shm_array(n)
  x[] <- seq_len(n)
  if (!is.null(note)) attr(x, "note") <- note
  x
}

handle_of <- function(x) unserialize(with_shm_handles(serialize(x, NULL)))

without_class <- list(
  unclass = unclass,
  class = function(x) {
    class(x) <- NULL
    x
  },
  other = function(x) {
    class(x) <- "another"
    x
  },
  oldClass = function(x) {
    oldClass(x) <- NULL
    x
  }
)

in_list <- function(x) list(1L, pairlist(x), list(x))
in_environment <- function(x) {
  force(x)
  list(f = function() x)
}

test_that("R writes the results for a temporary without the class to a copy", {
  for (n in c(10, 1000)) {
    x <- array_of(n)
    expect_identical(structure(handle_of(x), class = NULL) * 7, 7 * seq_len(n))
    expect_identical(sqrt(structure(handle_of(x), class = NULL)), sqrt(seq_len(n)))
    expect_identical(-structure(handle_of(x), class = NULL), -as.numeric(seq_len(n)))
    expect_identical(unclass(handle_of(x)) * 7, 7 * seq_len(n))
    expect_identical(x[], as.numeric(seq_len(n)))
  }
})

expect_follows <- function(got, x, follows) {
  first <- function() unname(vapply(got, function(v) v[[1L]], 0))
  before <- first()
  x[1L] <- x[[1L]] + 1
  expect_identical(first(), if (follows) rep(x[[1L]], length(got)) else before)
}

test_that("an array that has lost its class is sent as data, wherever it stands", {
  control <- two_workers(workers = 1L)
  for (note in list(NULL, "a note")) {
    for (n in c(5L, 100L, 5000L)) {
      x <- array_of(n, note)
      y <- x
      got <- lapply(without_class, function(strip) handle_of(strip(x)))
      expect_follows(got, y, FALSE)
      routes <- list(
        map = par_lapply(1L, function(i) lapply(without_class, function(strip) strip(x)), .control = control)[[1L]],
        small = par_lapply(1L, function(i) unclass(x), .control = two_workers(workers = 1L, shm = FALSE)),
        call = list(par_value(par_call(unclass(x), .control = control))),
        list = lapply(in_list(unclass(x)), handle_of)[2:3],
        environment = list(handle_of(in_environment(unclass(x)))$f(), par_lapply(1L, function(i) {
          in_environment(unclass(x))
        }, .control = control)[[1L]]$f())
      )
      routes$list <- list(routes$list[[1L]][[1L]], routes$list[[2L]][[1L]])
      for (route in names(routes)) expect_follows(routes[[route]], y, FALSE)
    }
  }
})

test_that("an array is sent as an array, beside one that has lost its class as well", {
  for (n in c(5L, 100L)) {
    x <- array_of(n)
    y <- x
    noted <- x
    attr(noted, "note") <- "wrapped"
    plain <- unclass(x)
    got <- handle_of(list(x, plain, noted, in_environment(plain), in_environment(x), plain, y))
    views <- list(got[[2L]], got[[4L]]$f(), got[[6L]])
    expect_follows(got[c(1L, 3L, 7L)], x, TRUE)
    expect_follows(list(got[[5L]]$f()), x, TRUE)
    expect_identical(lapply(views, function(v) v[[1L]]), list(1, 1, 1))
    worker <- par_lapply(1L, function(i) {
      list(x, in_environment(x), in_environment(plain), noted)
    }, .control = two_workers(workers = 1L))[[1L]]
    expect_follows(list(worker[[1L]], worker[[2L]]$f(), worker[[4L]]), x, TRUE)
    was <- worker[[3L]]$f()[[1L]]
    x[1L] <- x[[1L]] + 1
    expect_identical(worker[[3L]]$f()[[1L]], was)
  }
})

test_that("a node gets it so, too", {
  cluster <- local_cluster(1L)
  x <- array_of(100L, "a note")
  y <- x
  withr::local_preserve_seed()
  first <- function(v) {
    got <<- v
    v[[1L]]
  }
  environment(first) <- globalenv()
  again <- function() get("got", globalenv())[[1L]]
  environment(again) <- globalenv()
  for (strip in without_class) {
    was <- x[[1L]]
    expect_identical(parallel::clusterCall(cluster, first, strip(x))[[1L]], was)
    x[1L] <- was + 1
    expect_identical(parallel::clusterCall(cluster, again)[[1L]], was)
  }
  was <- x[[1L]]
  parallel::clusterCall(cluster, first, x)
  x[1L] <- was + 1
  expect_identical(parallel::clusterCall(cluster, again)[[1L]], was + 1)
  expect_follows(par_lapply(1:2, function(i, v) v, unclass(x), .on = cluster), y, FALSE)
})

test_that("an object behind a hook for environments does not count for one beside it", {
  x <- array_of(100L)
  held <- list2env(list(plain = unclass(x)), parent = emptyenv())
  hook <- function(env) if (identical(env, held)) "held"
  bytes <- with_shm_handles(serialize(list(held, x), NULL, refhook = hook))
  got <- unserialize(bytes, refhook = function(name) held)
  expect_follows(got[2L], x, TRUE)
})

test_that("nothing is left behind", {
  par_lapply(1L, identity, .control = two_workers(workers = 1L))
  gc()
  expect_no_detritus(detritus)
})
