# What functions and operators of R give for a shared array is what they give for the ordinary one.
detritus <- detritus_snapshot()

# Value or that there was an error, and warnings. Words of errors name variables of who signals them.
outcome <- function(code) {
  said <- character()
  value <- withCallingHandlers(
    tryCatch(code, error = function(e) "error"),
    warning = function(w) {
      said <<- c(said, conditionMessage(w))
      invokeRestart("muffleWarning")
    }
  )
  list(value, said)
}

shared <- function(v) if (is.null(dim(v))) shm_array(length(v), typeof(v), v) else shm_array(v)

# Like integers in the bits of doubles, as in package bit64, with a method for each operator; and a class with one
# for all of them.
doubled <- function(op) {
  force(op)
  function(e1, e2) {
    plain <- function(v) if (inherits(v, "test_bits")) unclass(v) * 2 else v
    op(plain(e1), plain(e2))
  }
}
registerS3method("+", "test_bits", doubled(`+`))
registerS3method("==", "test_bits", doubled(`==`))
registerS3method("Ops", "test_money", function(e1, e2) {
  structure(get(.Generic)(unclass(e1), unclass(e2)), class = "test_money")
})

test_that("an operand of another class is met as by the ordinary vector, or with R's warning before 4.3", {
  others <- list(
    as.Date("2020-01-01") + 0:2, as.POSIXct("2020-01-01", tz = "UTC") + 0:2, as.POSIXlt("2020-01-01", tz = "UTC"),
    as.difftime(c(1, 2, 3), units = "mins"), factor(c("3", "2", "1")), factor(3:1, ordered = TRUE),
    numeric_version(c("1.2", "1.3", "2")), data.frame(a = 1:3), structure(c(1, 2, 3), class = "test_bits"),
    structure(c(1, 2, 3), class = "test_money"), as.octmode(1:3), table(c(1, 2, 3)), ts(1:3), noquote(letters[1:3]),
    structure(1:3, class = "test_none"), list(1, 2, 3), letters[1:3], I(1:3)
  )
  operators <- list(`+`, `-`, `*`, `%/%`, `==`, `<`, `&`, max, sum, `%in%`)
  refused <- 0
  wrong <- character()
  for (v in list(c(1, 2, 3), 1:3)) {
    x <- shared(v)
    for (other in others) for (f in operators) for (turned in c(FALSE, TRUE)) {
      g <- if (turned) function(a, b) f(b, a) else f
      got <- outcome(g(x, other))
      if (getRversion() < "4.3.0" && any(grepl("Incompatible methods", got[[2L]]))) {
        refused <- refused + 1
      } else if (!identical(got, outcome(g(v, other)))) {
        wrong <- c(wrong, paste(class(other)[[1L]], typeof(v), turned))
      }
    }
  }
  expect_identical(wrong, character())
  # A class without operators of its own, and all functions that are no operators.
  if (getRversion() >= "4.3.0") expect_identical(refused, 0) else expect_gt(refused, 0)
})

test_that("functions of R that assign to elements of their argument leave the array as it is", {
  group <- c(1, 2, 1, 2)
  functions <- list(
    function(x) replace(x, 2, x[1]), function(x) ifelse(x, FALSE, TRUE), function(x) stats::ave(x, group),
    function(x) pmin(x, 1), function(x) pmax(2, x, na.rm = TRUE), function(x) pmin(1, x),
    function(x) stats::p.adjust(x),
    function(x) Reduce(function(a, b) a, x, accumulate = TRUE), function(x) do.call("replace", list(x, 1, x[2]))
  )
  for (v in list(c(3, NA, 0.5, 2), 4:1, c(TRUE, NA, FALSE, TRUE))) {
    for (k in seq_along(functions)) {
      x <- shared(v)
      got <- outcome(regatta:::drop_shm_class(functions[[k]](x)))
      expect_identical(got, outcome(functions[[k]](v)), info = paste(k, typeof(v)))
      expect_identical(x[], v, info = paste(k, typeof(v)))
      expect_s3_class(x, "shm_array", exact = TRUE)
    }
  }
})

test_that("functions of R that are called to change the array do, and so does code of others that R calls", {
  m <- shm_array(c(2, 2))
  same <- m
  diag(m) <- 5
  base::diag(m) <- 6
  is.na(m) <- 2
  expect_identical(same[], matrix(c(6, NA, 0, 6), 2))
  x <- shm_array(4)
  same <- x
  split(x, c(1, 2, 1, 2)) <- list(c(1, 3), c(2, 4))
  expect_identical(same[], c(1, 2, 3, 4))
  lapply(1:2, function(i) x[i] <- 10 * i)
  local(x[3] <- 30)
  with(list(a = 1), x[4] <- 40)
  expect_identical(same[], c(10, 20, 30, 40))
  tryCatch(x[1] <- -1, error = identity)
  eval(quote(x[2] <- -2))
  do.call("[<-", list(x, 3, value = -3))
  f <- function(v) {
    v[[4]] <- -4
    v
  }
  f(x)
  expect_identical(same[], -c(1, 2, 3, 4))
})

test_that("elements are found by their value, not by their text", {
  for (v in list(c(0.1 + 0.2, 1, NA), c(TRUE, NA, FALSE), 3:1, c(1 + 0i, 2i, NA), as.raw(1:3))) {
    x <- shared(v)
    for (table in list(c(0.3, 1, 2), c(TRUE, FALSE), 1:3, c("TRUE", "1"), c(1 + 0i, 2i), NA, list(1, 2L), as.raw(2))) {
      expect_identical(match(x, table), match(v, table), info = paste(typeof(v), typeof(table)))
      expect_identical(match(table, x), match(table, v), info = paste(typeof(v), typeof(table)))
    }
    expect_identical(x %in% x, rep(TRUE, 3))
  }
})

test_that("sorting, dates, columns and lists of values are those of the ordinary vector", {
  functions <- list(
    function(x) sort(x, partial = 2), function(x) sort(x, index.return = TRUE), function(x) sort(x, decreasing = TRUE),
    sort, rev, function(x) as.data.frame(x), function(x) as.data.frame(x, nm = "named"), function(y) as.data.frame(y),
    function(x) as.Date(x, origin = "1970-01-01"), function(x) as.POSIXct(x, origin = "1970-01-01", tz = "UTC"),
    function(x) as.POSIXlt(x, origin = "1970-01-01", tz = "UTC"), function(x) stats::aggregate(x, list(1:3), sum),
    function(x) stats::qqnorm(x, plot.it = FALSE)
  )
  for (v in list(c(3, 1, 2), c(5L, NA, 4L))) {
    for (k in seq_along(functions)) {
      x <- shared(v)
      got <- outcome(functions[[k]](x))
      x[1] <- 77
      expect_identical(got, outcome(functions[[k]](v)), info = paste(k, typeof(v)))
    }
  }
  # What is sorted already is not given back itself.
  x <- shm_array(3, fill = 1:3)
  sorted <- sort(x)
  sorted[1] <- 9
  expect_identical(x[], c(1, 2, 3))
  expect_identical(shm_array(0, "integer", integer())[], integer())
})

test_that("the column of an array of one dimension has the name of the argument", {
  for (names in list(NULL, list(letters[1:3]), list(level = letters[1:3]))) {
    x <- shm_array(3, "integer", fill = 3:1, dimnames = names)
    y <- x
    expect_identical(dimnames(x[]), names)
    expect_identical(dimnames(shm_copy(x)), names)
    expect_identical(dimnames(x + 1L), names)
    v <- x[]
    if (is.null(dim(v))) dim(v) <- 3L
    w <- v
    functions <- list(
      function(x, y) as.data.frame(x), function(x, y) as.data.frame(x, optional = TRUE),
      function(x, y) as.data.frame(y, LETTERS[1:3]), function(x, y) merge(x, y), function(x, y) data.frame(x, y)
    )
    for (k in seq_along(functions)) expect_identical(functions[[k]](x, y), functions[[k]](v, w), info = k)
  }
})

test_that("an array that is repeated is ordinary, also one without elements", {
  for (v in list(matrix(0, 0, 3), numeric(), matrix(1:6 + 0, 2), c(1, 2))) {
    x <- shm_array(if (is.null(dim(v))) length(v) else dim(v), fill = v)
    v <- x[]
    for (f in list(rep, function(x) rep(x, 2), function(x) rep(x, each = 2), function(x) rep(x, length.out = 0),
      function(x) rep(x, times = 0))) {
      expect_identical(f(x), f(v))
    }
  }
})

test_that("integers in the bits of doubles are refused wherever they would be stored", {
  bits <- structure(c(1, 2) * 4.94065645841247e-324, class = "integer64")
  x <- shm_array(2)
  for (expr in expression(x[] <- bits, x[[1]] <- structure(1e-323, class = "integer64"),
    shm_array(2, fill = bits), shm_array(1, "integer", fill = structure(1e-323, class = "integer64")),
    shm_array(structure(bits, dim = 1:2)))) {
    expect_error(eval(expr), "integer64.*`as.double\\(\\)`", class = "regatta_error_argument")
  }
  for (expr in expression(shm_map(bits, identity), shm_map2(1:2, bits, `+`), shm_map2(bits, 1, `+`))) {
    expect_error(eval(expr), "`[xy]` .*integer64.*`as.double\\(\\)`", class = "regatta_error_argument")
  }
  # As a subscript it would mean no element.
  m <- shm_array(c(2, 2))
  for (expr in expression(x[bits] <- 1, x[[structure(4.94065645841247e-324, class = "integer64")]] <- 1, m[bits, 1] <- 1,
    m[structure(bits, dim = 1:2)] <- 1)) {
    expect_error(eval(expr), "integer64")
  }
  expect_identical(x[], c(0, 0))
  # As base R has it: the values of vapply() are those of vapply().
  f <- function(i) structure(rep(4.94065645841247e-324, 1e5), class = "integer64")
  expect_identical(par_vapply(1:2, f, numeric(1e5), .control = two_workers()), vapply(1:2, f, numeric(1e5)))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
