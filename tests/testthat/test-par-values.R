detritus <- detritus_snapshot()

# Each of the values as an element, by one worker for all.
round_trips <- function(values, ...) {
  par_lapply(seq_along(values), function(i) values[[i]], .control = two_workers(workers = 1L, ...))
}

big <- 2e5L

test_that("large vectors of each type arrive with their attributes", {
  withr::local_preserve_seed()
  values <- list(
    double = c(NA, NaN, Inf, -0, seq_len(big) / 3),
    integer = c(NA, sample.int(big)),
    logical = rep_len(c(TRUE, NA, FALSE), big),
    complex = complex(real = seq_len(big), imaginary = NA),
    raw = as.raw(seq_len(big) %% 256L),
    character = as.character(seq_len(big)),
    matrix = matrix(stats::rnorm(big), 100L, dimnames = list(NULL, NULL)),
    dated = structure(seq_len(big) + 0.5, class = "Date", note = seq_len(big)),
    factor = factor(rep_len(letters, big))
  )
  for (shm in c(TRUE, FALSE)) {
    got <- round_trips(values, shm = shm)
    for (k in seq_along(values)) expect_identical(got[[k]], values[[k]], info = paste(names(values)[[k]], shm))
  }
})

test_that("vectors without attributes keep the S4 bit, from forked workers, nodes and shm_share()", {
  cluster <- local_cluster(1L)
  ways <- list(
    forked = round_trips, data = function(all) round_trips(all, shm = FALSE),
    copied = function(all) round_trips(all, copy = TRUE),
    nested = function(all) lapply(round_trips(lapply(all, list)), `[[`, 1L),
    made = function(all) par_lapply(all, function(x) asS4(asS3(x)), .control = two_workers()),
    cluster = function(all) par_lapply(all, identity, .on = cluster, .control = on_cluster()),
    shared = function(all) lapply(all, shm_share)
  )
  for (n in c(0L, 1L, 1000L, big)) {
    plain <- list(
      seq_len(n) + 0L, seq_len(n) / 3, rep_len(c(TRUE, NA), n), complex(n, 1, 2), raw(n),
      as.character(seq_len(n)), as.list(seq_len(min(n, 1000L)))
    )
    plain <- lapply(plain, asS4)
    for (way in names(ways)) {
      all <- ways[[way]](plain)
      for (k in seq_along(plain)) {
        x <- plain[[k]]
        got <- all[[k]]
        expect_true(isS4(got), info = paste(way, typeof(x), n))
        expect_identical(is.object(got), is.object(x), info = paste(way, typeof(x), n))
        expect_identical(asS3(got), asS3(x), info = paste(way, typeof(x), n))
      }
    }
  }
})

test_that("payloads of NaN and the sign of zero survive", {
  value <- rep_len(c(NA_real_, NaN, -0, 0), big)
  bits <- function(x) serialize(x[seq_len(8L)] + 0, NULL)
  got <- round_trips(list(value))[[1L]]
  expect_identical(is.na(got) & !is.nan(got), is.na(value) & !is.nan(value))
  expect_identical(1 / got[3:4], c(-Inf, Inf))
  expect_identical(bits(got), bits(value))
})

test_that("large leaves anywhere in a value arrive", {
  skip_if_not_installed("methods")
  methods::setClass("RegattaTestSlots", representation(x = "numeric", meta = "list"),
    where = globalenv())
  on.exit(methods::removeClass("RegattaTestSlots", where = globalenv()), add = TRUE)
  leaf <- seq_len(big) / 7
  values <- list(
    list(a = leaf, b = list(c = list(leaf, "x", NULL)), d = pairlist(leaf)),
    data.frame(x = leaf, n = seq_len(big), flag = leaf > 1),
    structure("small", big = leaf),
    methods::new("RegattaTestSlots", x = leaf, meta = list(leaf)),
    list(leaf, leaf),
    list2DF(list(x = leaf))
  )
  expect_identical(round_trips(values), values)
})

test_that("a value from shared memory is changed by copy, in the parent alone", {
  got <- par_lapply(1:2, function(i) rep(i + 0, 1e5), .control = two_workers())
  kept <- got[[1L]]
  got[[1L]][5L] <- 99
  expect_identical(kept[5L], 1)
  expect_identical(got[[1L]][4:6], c(1, 99, 1))
  expect_identical(got[[2L]], rep(2, 1e5))
})

test_that("values outlive the run, gc, and the next runs", {
  first <- par_lapply(1:4, function(i) rep(i, 1e5), .control = two_workers())
  kept <- first[[3L]]
  rm(first)
  gc()
  for (i in 1:3) {
    par_lapply(1:4, function(i) rep(-i, 1e5), .control = two_workers())
    gc()
  }
  expect_identical(kept, rep(3L, 1e5))
})

test_that("a value of a map can go through the next map", {
  first <- par_lapply(1:2, function(i) rep(i + 0, 1e5), .control = two_workers())
  second <- par_lapply(first, function(x) x + 1, .control = two_workers())
  third <- par_lapply(1:2, function(i) first[[i]], .control = two_workers())
  expect_identical(second, list(rep(2, 1e5), rep(3, 1e5)))
  expect_identical(third, list(rep(1, 1e5), rep(2, 1e5)))
})

test_that("values can be saved, serialised and copied", {
  got <- par_lapply(1:2, function(i) rep(i + 0, 1e5), .control = two_workers())
  file <- withr::local_tempfile()
  saveRDS(got, file)
  expect_identical(readRDS(file), list(rep(1, 1e5), rep(2, 1e5)))
  expect_identical(unserialize(serialize(got, NULL)), got)
  copied <- par_lapply(1:2, function(i) rep(i + 0, 1e5), .control = two_workers(copy = TRUE))
  expect_identical(copied, got)
})

test_that("base R's functions work on values in shared memory", {
  x <- par_lapply(1L, function(i) c(3, NA, 1, seq_len(1e5)), .control = two_workers())[[1L]]
  y <- c(3, NA, 1, seq_len(1e5))
  expect_identical(sum(x, na.rm = TRUE), sum(y, na.rm = TRUE))
  expect_identical(sort(x), sort(y))
  expect_identical(order(x), order(y))
  expect_identical(x[c(1, 3, NA, 1e6)], y[c(1, 3, NA, 1e6)])
  expect_identical(which(is.na(x)), 2L)
  expect_identical(rev(x), rev(y))
  expect_identical(unique(x), unique(y))
  expect_identical(match(7, x), match(7, y))
  expect_identical(x * 2, y * 2)
  expect_identical(anyNA(x), TRUE)
  expect_identical(range(x, na.rm = TRUE), range(y, na.rm = TRUE))
  expect_identical(as.character(utils::head(x)), as.character(utils::head(y)))
})

test_that("shm_min is where sharing begins and does not show in the values", {
  values <- lapply(c(8190L, 8191L, 8192L, 8193L), function(size) seq_len(size) + 0.5)
  for (shm_min in list("64KB", 0, "1GB")) expect_identical(round_trips(values, shm_min = shm_min), values)
})

test_that("zero-length and tiny values are right with a threshold of nothing", {
  values <- list(numeric(), integer(), logical(), complex(), raw(), character(), 1, "a", list())
  expect_identical(round_trips(values, shm_min = 0), values)
})

test_that("many medium values in one run arrive", {
  got <- par_lapply(1:300, function(i) rep(i + 0, 2e4), .control = two_workers())
  expect_identical(vapply(got, function(x) x[[1L]], 0), as.double(1:300))
  expect_true(all(vapply(got, function(x) all(x == x[[1L]]), NA)))
})

test_that("values that are no longer used can go, also if nobody looks at the record", {
  values <- par_lapply(1:2, function(i) new.env(), .control = two_workers())
  gone <- 0
  for (value in values) reg.finalizer(value, function(e) gone <<- gone + 1)
  rm(values, value)
  gc()
  gc()
  expect_identical(gone, 2)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
