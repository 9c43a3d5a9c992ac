set.seed(26)
detritus <- detritus_snapshot()

test_that("mcmapply() gives what mapply() gives", {
  withr::local_preserve_seed()
  calls <- list(
    list(rep, 1:4, 4:1), list(rep, times = 1:4, x = 4:1), list(function(x, y) x + y, 1:3, 4:6),
    list(function(x, y) c(x, y), c(a = 1, b = 2), 3:4), list(paste, letters[1:3], 1:3),
    list(function(x, y) x, 1:4, 1:2), list(identity, 1), list(function(x) x, list()),
    list(function(x, p) x^p, 1:3, MoreArgs = list(p = 2)),
    list(function(x) x, 1:3, SIMPLIFY = FALSE), list(function(x) matrix(x, 2, 2), 1:2, SIMPLIFY = "array"),
    list(toupper, c("a", "b"), USE.NAMES = FALSE), list("+", 1:2, 3:4)
  )
  for (call in calls) {
    for (cores in 1:2) {
      got <- do.call(mcmapply, c(call, list(mc.cores = cores)))
      expect_identical(got, do.call(mapply, call))
    }
  }
  expect_identical(mcmapply(function(...) 1), list())
  expect_error(mcmapply(function(x, y) x, 1:2, integer()), "argument 2.*no elements")
  expect_error(mcmapply(function(x) x, 1:2, MoreArgs = 1), class = "regatta_error_argument")
})

# mc.set.seed = TRUE, the default here, moves the session's generator.
test_that("mcmapply() takes settings of mclapply() by name and keeps failures in place", {
  withr::local_preserve_seed()
  got <- mcmapply(function(x) if (x == 2) stop("no") else x, 1:3, mc.allow.error = NA)
  expect_type(got, "list")
  expect_s3_class(got[[2L]], "etry-error")
  expect_identical(sub("  at .*", "", attr(got[[2L]], "traceback")), "FUN(dots[[1L]][[2L]])")
  expect_error(mcmapply(function(x) stop("no"), 1:3, mc.dump.frames = "no"), "3|2|1 of 3 elements")
  expect_silent(mcmapply(function(x) cat("text\n"), 1:2, mc.stdout = "ignore"))
  language <- list(quote(a + b), as.name("x"))
  expect_identical(mcmapply(function(e) e, language), mapply(function(e) e, language))
})

test_that("what is told of an element names no call of ours", {
  withr::local_preserve_seed()
  fails <- function(x, ...) {
    inner <- function() stop("deep")
    inner()
  }
  calls <- function(value) sub("  at .*", "", attr(value[[1L]], "traceback"))
  warned <- function(code) conditionCall(tryCatch(code, warning = identity))
  for (cores in 1:2) {
    got <- mcmapply(fails, 1:2, 3:4, mc.cores = cores, mc.allow.error = NA)
    expect_identical(calls(got), c("inner()", "FUN(dots[[1L]][[1L]], dots[[2L]][[1L]])"))
    expect_null(warned(mcmapply(log, -1, 2, mc.cores = cores)))
    expect_identical(warned(mcmapply(sqrt, -1, mc.cores = cores)), quote(FUN(dots[[1L]][[1L]])))
    expect_identical(warned(pvec(-(1:4), sqrt, mc.cores = cores)), quote(FUN(piece, ...)))
  }
  e <- tryCatch(pvec(1:4, fails, mc.cores = 2), regatta_error_elements = identity)
  shown <- lapply(e$errors[[1L]]$trace$calls, `attributes<-`, NULL)
  expect_identical(shown, list(quote(FUN(piece, ...)), quote(inner())))
  further <- pvec(1:4, function(v, a, b) v + a * b, mc.retry = 1, 10, b = 100, mc.cores = 2)
  expect_identical(further, 1:4 + 1000)
})

test_that("mcMap() gives what Map() gives, in silence", {
  withr::local_preserve_seed()
  expect_identical(mcMap(function(x, y) x + y, c(a = 1, b = 2), 3:4),
    Map(function(x, y) x + y, c(a = 1, b = 2), 3:4))
  expect_silent(mcMap(print, 1:2))
  out <- capture.output(got <- mcMap(print, 1:2, mc.silent = FALSE, mc.cores = 1))
  expect_length(out, 2L)
})

# In parallel every piece has a process of its own.
test_that("without a seed every piece of pvec() begins with the numbers of the session", {
  withr::local_preserve_seed()
  set.seed(1)
  first <- stats::runif(2L)
  for (round in 1:5) {
    set.seed(1)
    got <- pvec(1:4, function(v) stats::runif(length(v)), mc.set.seed = FALSE)
    expect_identical(got, c(first, first))
  }
})

test_that("with one core the settings, arrays and the generator are treated as with several", {
  withr::local_preserve_seed()
  x <- shm_array(2, fill = 1:2)
  for (cores in 1:2) {
    set.seed(1)
    state <- .Random.seed
    got <- pvec(1:2, function(v) if (length(v) == 2L) unclass(x) else unclass(x)[v], mc.cores = cores, mc.set.seed = FALSE)
    x[1] <- x[1] + 1
    expect_identical(got, c(x[1] - 1, 2))
    pvec(1:2, function(v) v + stats::runif(1), mc.cores = cores, mc.set.seed = FALSE)
    expect_identical(.Random.seed, state)
    expect_silent(pvec(1:2, function(v) print(v), mc.cores = cores, mc.silent = TRUE))
    expect_identical(
      pvec(1:2, function(v) v * stats::runif(1) / stats::runif(1) > -1, mc.cores = cores, mc.set.seed = 5), c(TRUE, TRUE)
    )
    failed <- pvec(1:2, function(v) stop("no"), mc.cores = cores, mc.allow.error = NA)
    expect_match(as.character(failed)[[1L]], "no")
    expect_identical(pvec(integer(), function(v) length(v), mc.cores = cores), 0L)
  }
})

test_that("pvec() takes the number of cores in each form that mclapply() takes", {
  withr::local_preserve_seed()
  for (cores in list("2", 2.7, 2L)) {
    expect_identical(pvec(1:3, function(v) length(v) + 0 * v, mc.cores = cores), c(2, 2, 1))
  }
  expect_error(pvec(1:3, sqrt, mc.cores = "two"), class = "regatta_error_argument")
})

test_that("pvec() applies a function to pieces of a vector", {
  withr::local_preserve_seed()
  for (n in c(0, 1, 2, 5, 100)) {
    for (cores in 1:3) {
      expect_identical(pvec(seq_len(n) + 0, sqrt, mc.cores = cores), sqrt(seq_len(n) + 0))
    }
  }
  expect_identical(pvec(c(a = 1, b = 4), sqrt), c(a = 1, b = 2))
  expect_identical(pvec(1:10, function(x, p) x^p, p = 2), (1:10)^2)
  expect_identical(pvec(letters, toupper, mc.cores = 3), LETTERS)
  expect_identical(pvec(list(1, "b"), identity), list(1, "b"))
  expect_warning(pvec(1:10, sum), "10 elements and FUN has returned 2")
  expect_error(pvec(factor("a"), identity), class = "regatta_error_argument")
  expect_error(pvec(matrix(1:4, 2), sqrt), "`v`.*`dim`", class = "regatta_error_argument")
  expect_error(pvec(1:4, function(x) stop("no"), mc.dump.frames = "no"), "elements failed")
  sizes <- cut_evenly(11, 4)
  expect_identical(sizes$to - sizes$from + 1, c(3, 3, 3, 2))
  expect_identical(sizes$to[[4L]], 11)
})

test_that("one seed for each piece or element makes numbers reproducible", {
  withr::local_preserve_seed()
  run <- function(cores) {
    set.seed(8)
    list(mcmapply(function(i) stats::runif(1), 1:4, mc.cores = cores),
      mcMap(function(i) stats::runif(1), 1:4, mc.cores = cores))
  }
  expect_identical(run(2), run(3))
})

test_that("pvec() leaves further arguments to FUN, as they are written", {
  withr::local_preserve_seed()
  for (cores in 1:2) {
    expect_identical(pvec(1:4, function(v, z) v, z = stop("never used"), mc.cores = cores), 1:4)
    shown <- pvec(1:4, function(v, z) rep(deparse(substitute(z)), length(v)), z = a + b, mc.cores = cores)
    expect_identical(shown, rep("a + b", 4L))
    # Settings of mclapply() among them are not FUN's.
    given <- pvec(1:4, function(v, y, z) v + y * z, z = 3, mc.preschedule = TRUE, 10L, mc.cores = cores)
    expect_identical(given, 1:4 + 30)
  }
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
