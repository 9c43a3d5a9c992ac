detritus <- detritus_snapshot()

expect_same_vapply <- function(X, FUN, FUN.VALUE, ...) {
  expect_identical(
    par_vapply(X, FUN, FUN.VALUE, ..., .control = two_workers()),
    vapply(X, FUN, FUN.VALUE, ...)
  )
}

test_that("values, dims and names are those of vapply", {
  expect_same_vapply(1:4, function(x) x / 2, 0)
  expect_same_vapply(1:4, function(x) x, 0)
  expect_same_vapply(c(a = 1, b = 2), function(x) x > 1, NA)
  expect_same_vapply(letters[1:3], toupper, "")
  expect_same_vapply(letters[1:3], toupper, "", USE.NAMES = FALSE)
  expect_same_vapply(1:3, function(x) c(lo = x - 1, hi = x + 1), c(lo = 0, hi = 0))
  expect_same_vapply(1:3, function(x) c(lo = x - 1, hi = x + 1), c(0, 0))
  expect_same_vapply(1:3, function(x) matrix(x, 2L, 2L), matrix(0L, 2L, 2L))
  expect_same_vapply(1:3, function(x) as.raw(x), raw(1))
  expect_same_vapply(1:3, function(x) complex(real = x), 0i)
  expect_same_vapply(1:3, function(x) list(x), list(1))
  expect_same_vapply(1:3, function(x, n) x + n, 0, n = 5)
})

test_that("empty input has the type and shape of FUN.VALUE", {
  expect_same_vapply(integer(), function(x) x, 0)
  expect_same_vapply(NULL, function(x) x, "")
  expect_same_vapply(list(), function(x) x, c(a = 1, b = 2))
  expect_same_vapply(character(), nchar, 1L)
})

test_that("a value of the wrong length or type is vapply's error", {
  message_of_error <- function(expr) tryCatch(expr, error = conditionMessage)
  for (wrong in list(1:2, "text", NULL, list(1))) {
    f <- function(x) if (x == 2) wrong else 1L
    expect_match(
      message_of_error(par_vapply(1:3, f, 0L, .control = two_workers())),
      message_of_error(vapply(1:3, f, 0L)), fixed = TRUE
    )
  }
})

test_that("such an error is the user's call's, names the element and says what to do", {
  small <- function(x) if (x == 2) "text" else 1L
  wide <- function(x) if (x == 2) numeric(3) else numeric(1e5)
  errors <- list(
    expect_error(par_vapply(1:3, small, 0L, .control = two_workers()), class = "regatta_error_argument"),
    expect_error(par_vapply(1:3, wide, numeric(1e5), .control = two_workers()), class = "regatta_error_argument")
  )
  for (err in errors) {
    expect_identical(as.character(conditionCall(err)[[1L]]), "par_vapply")
    expect_identical(err[c("argument", "index")], list(argument = "FUN.VALUE", index = 2L))
  }
  expect_match(conditionMessage(errors[[1L]]), "Have FUN return a vector of type integer and length 1 for every element")
  expect_match(conditionMessage(errors[[2L]]), "a vector of type double and length 100000.*like its values")
  err <- expect_error(par_vapply(1:2, identity, matrix(0, 1L, 2L), .control = two_workers()))
  expect_match(conditionMessage(err), "an array of 1 x 2 of type double and length 2")
})

test_that("with errors = \"collect\" a failed element is missing and its error is kept", {
  seen <- NULL
  f <- function(x) if (x == 2L) stop("second") else x + 0
  got <- withCallingHandlers(
    par_vapply(1:3, f, 0, .control = two_workers(errors = "collect")),
    regatta_warning_errors = function(w) {
      seen <<- w
      invokeRestart("muffleWarning")
    }
  )
  expect_identical(got, c(1, NA, 3))
  expect_identical(seen$errors[[1L]]$index, 2L)
  expect_match(conditionMessage(seen), "1 error; `NA` is in place of their values. Their conditions are the field `errors`")
  large <- function(x) if (x == 2L) stop("second") else raw(3e5)
  expect_warning(
    par_vapply(1:4, large, raw(3e5), .control = two_workers(errors = "collect")), "`00` is in place of their values"
  )
})

test_that("FUN.VALUE is checked at the door", {
  marker <- withr::local_tempfile()
  err <- expect_error(
    par_vapply(1:2, function(x) file.create(marker), mean, .control = two_workers()),
    class = "regatta_error_argument"
  )
  expect_identical(err$argument, "FUN.VALUE")
  expect_false(file.exists(marker))
})

test_that("errors of elements carry their index", {
  err <- expect_error(
    par_vapply(1:3, function(x) if (x == 3L) stop("third") else 1, 0, .control = two_workers()),
    class = "regatta_error_element"
  )
  expect_identical(err$index, 3L)
})

test_that("a large result is put together right", {
  expect_same_vapply(1:2000, function(i) i + seq_len(50) / 100, numeric(50))
})

test_that("columns that the workers write themselves are those of vapply", {
  expect_same_vapply(c(a = 1, b = 2), function(i) i + seq_len(1e5) / 7, numeric(1e5))
  named <- function(i) stats::setNames(seq_len(1e5), paste0("n", seq_len(1e5)))
  expect_same_vapply(letters[1:3], named, integer(1e5))
  expect_same_vapply(letters[1:3], named, integer(1e5), USE.NAMES = FALSE)
  page <- function(i) matrix(i + 0, 200L, 1000L, dimnames = list(NULL, seq_len(1000L)))
  expect_same_vapply(1:3, page, matrix(0, 200L, 1000L))
  expect_same_vapply(1:3, function(i) rep(TRUE, 1e6), integer(1e6))
  expect_same_vapply(1:3, function(i) rep(1i, 1e5), complex(1e5))
  expect_same_vapply(1:3, function(i) rep(as.raw(i), 1e6), raw(1e6))
  expect_same_vapply(stats::setNames(1:2e5, 2e5:1), function(i) i / 2, 0)
})

test_that("columns are written by the workers, and the matrix is an ordinary one", {
  control <- two_workers()
  x <- par_vapply(1:4, function(i) rep(i + 0, 1e5), numeric(1e5), .control = control)
  expect_lt(max(par_last()$elements$bytes), 1e4)
  expect_output(.Internal(inspect(x)), "shared memory")
  y <- x
  y[1, ] <- 0
  expect_identical(x[1, ], c(1, 2, 3, 4))
  copy <- two_workers(copy = TRUE)
  plain <- par_vapply(1:4, function(i) rep(i + 0, 1e5), numeric(1e5), .control = copy)
  expect_identical(plain, x)
  expect_output(.Internal(inspect(plain)), "^(?!.*shared memory)", perl = TRUE)
})

test_that("columns of wrong values, failed elements and replays are as without them", {
  f <- function(i) if (i == 2L) 1 else rep(1, 1e6)
  message_of_error <- function(expr) tryCatch(expr, error = conditionMessage)
  expect_match(
    message_of_error(par_vapply(1:3, f, numeric(1e6), .control = two_workers())),
    message_of_error(vapply(1:3, f, numeric(1e6))), fixed = TRUE
  )
  f <- function(i) if (i == 1L) stop("first") else stats::setNames(rep(i, 3e5), seq_len(3e5))
  # par_last() keeps `f` and its surroundings: nothing of the result may be among them.
  expect_identical(
    suppressWarnings(par_vapply(1:3, f, integer(3e5), .control = two_workers(errors = "collect"))),
    matrix(rep(c(NA, 2L, 3L), each = 3e5), ncol = 3L)
  )
  expect_identical(par_replay(i = 2L), f(2L))
})

test_that("attributes of FUN.VALUE but names and dims have no meaning, as in vapply()", {
  day <- as.Date("2013-01-01")
  expect_same_vapply(1:2, function(i) day + i, as.Date(NA))
  expect_same_vapply(1:2, function(i) as.POSIXct(day) + i, Sys.time())
  expect_same_vapply(c(a = 1, b = 2), function(i) factor("u"), factor("v"))
  expect_same_vapply(1:2, function(i) i, structure(0, foo = 2))
  expect_same_vapply(1:2, function(i) day + 1:2, c(from = day, to = day))
  expect_same_vapply(integer(), function(i) day, c(from = day, to = day))
  expect_same_vapply(1:2, function(i) list(i, i), data.frame(u = 1:2, v = 3:4))
  expect_same_vapply(1:2, function(i) day + seq_len(1e5), rep(day, 1e5))
  expect_same_vapply(1:2, function(i) factor(rep("u", 1e5)), numeric(1e5))
  failed <- suppressWarnings(
    par_vapply(1:2, function(i) if (i == 2L) stop("no") else factor("u"), factor("v"),
      .control = two_workers(errors = "collect"))
  )
  expect_identical(failed, c(1L, NA))
  expect_error(par_vapply(1:2, identity, NULL, .control = two_workers()), "`FUN.VALUE`.*not `NULL`")
})

test_that("names are those that the elements have, whatever a class says", {
  names.rg_rec <- function(x) attr(x, "ids")
  registerS3method("names", "rg_rec", names.rg_rec)
  X <- structure(list(1, 2), ids = c("p", "q"), class = "rg_rec")
  control <- two_workers()
  expect_identical(par_vapply(X, length, 1L, .control = control), vapply(X, length, 1L))
  wide <- function(x) numeric(1e5)
  expect_identical(par_vapply(X, wide, numeric(1e5), .control = control), vapply(X, wide, numeric(1e5)))
  X <- structure(list(a = 1, b = 2), class = "rg_rec")
  expect_identical(par_vapply(X, length, 1L, .control = control), vapply(X, length, 1L))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
