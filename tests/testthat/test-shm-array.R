detritus <- detritus_snapshot()

filled <- function(dim, ...) {
  x <- shm_array(dim, ...)
  x[] <- seq_len(prod(dim))
  x
}

test_that("an array has its type, extents, names and content", {
  for (type in c("double", "integer", "logical", "complex", "raw")) {
    x <- shm_array(c(2, 3), type)
    expect_identical(typeof(x), type)
    expect_identical(dim(x), 2:3)
    expect_identical(x[, ], array(vector(type, 6), c(2, 3)))
  }
  expect_identical(shm_array(3, fill = 7)[], c(7, 7, 7))
  x <- shm_array(c(2, 2), dimnames = list(c("a", "b"), NULL))
  x["b", 2] <- 9
  expect_identical(x["b", ], c(0, 9))
  expect_identical(length(shm_array(0)), 0L)
  expect_identical(dim(shm_array(c(0, 4))), c(0L, 4L))
})

test_that("every way of writing does what it does to an ordinary array", {
  writes <- list(
    quote(x[] <- 1), quote(x[2] <- 5), quote(x[c(1, 5)] <- c(8, 9)), quote(x[-1] <- 3),
    quote(x[x > 10] <- 0), quote(x[2, ] <- 1:4), quote(x[, 3] <- 7), quote(x[1:2, c(4, 1)] <- 1:4),
    quote(x[cbind(1:3, 3:1)] <- 11:13), quote(x[-2, -1] <- 0), quote(x[c(TRUE, FALSE, TRUE), 1] <- 5),
    quote(x[, ] <- 12:1), quote(x[[4]] <- 2), quote(x[[2, 3]] <- 2), quote(x[integer()] <- 5),
    quote(x["b", ] <- 4), quote(x[2, ] <- x[3, ] * 2), quote(x[, c("p", "s")] <- 1:6)
  )
  names <- list(c("a", "b", "c"), c("p", "q", "r", "s"))
  for (write in writes) {
    x <- shm_array(c(3, 4), dimnames = names)
    x[] <- as.double(1:12)
    y <- array(as.double(1:12), c(3, 4), names)
    eval(write)
    expect_true(is_shm_array(x))
    eval(do.call(substitute, list(write, list(x = quote(y)))))
    expect_identical(shm_copy(x), y)
  }
  x <- filled(c(2, 3, 2))
  x[2, , 1] <- 0
  y <- array(as.double(1:12), c(2, 3, 2))
  y[2, , 1] <- 0
  expect_identical(shm_copy(x), y)
})

test_that("assignment makes no copy, and workers write to the array itself", {
  withr::local_preserve_seed()
  x <- shm_array(c(4, 100))
  y <- x
  y[1, 1] <- 5
  expect_identical(x[1, 1], 5)
  par_lapply(1:100, function(j) x[, j] <- j, .control = par_control(workers = 2))
  expect_identical(x[3, ], as.double(1:100))
})

test_that("an array behaves like a matrix", {
  x <- filled(c(3, 3))
  m <- matrix(as.double(1:9), 3)
  expect_identical(x %*% m, m %*% m)
  expect_identical(colSums(x), colSums(m))
  expect_identical(apply(x, 1, sum), apply(m, 1, sum))
  expect_identical(x + 1, m + 1)
  expect_identical(-x, -m)
  expect_identical(sqrt(x), sqrt(m))
  expect_identical(t(x), t(m))
  expect_identical(crossprod(x), crossprod(m))
  expect_identical(sum(x), 45)
  expect_identical(as.vector(x), as.double(1:9))
  expect_identical(as.matrix(x), m)
  expect_identical(x == m, m == m)
  expect_identical(rowSums(x[1:2, ]), rowSums(m[1:2, ]))
})

test_that("what was copied is ordinary: writing to it leaves the array alone", {
  for (n in c(6, 1000)) {
    x <- filled(n)
    copies <- list(as.vector(x), x[], shm_copy(x), x + 0, unclass(x), as.numeric(x), rev(x))
    for (copy in copies) {
      copy[1] <- 100
      expect_identical(copy[1], 100)
      expect_identical(x[1], 1)
    }
  }
})

test_that("an array travels by handle and stays the same memory", {
  x <- filled(1000)
  bytes <- with_shm_handles(serialize(x, NULL))
  expect_lt(length(bytes), 1000)
  y <- unserialize(bytes)
  y[1] <- -1
  expect_identical(x[1], -1)
  cluster <- parallel::makePSOCKcluster(1L)
  on.exit(parallel::stopCluster(cluster), add = TRUE)
  parallel::clusterCall(cluster, function(paths) .libPaths(paths), .libPaths())
  parallel::clusterCall(cluster, function(v) {
    v[2] <- -2
    NULL
  }, x)
  expect_identical(x[2], -2)
})

test_that("what would be lost is refused, with numbers", {
  withr::local_preserve_seed()
  x <- shm_array(10, "integer")
  x[1:2] <- c(3, 4)
  x[3] <- TRUE
  expect_identical(x[1:3], c(3L, 4L, 1L))
  expect_error(x[1] <- 1.5, "`value` must be storable in a shared array of type integer")
  expect_error(x[1] <- "a", "`value`")
  expect_error(x[11] <- 1L, "subscript 11 is outside of a dimension of 10")
  expect_error(x[1:3] <- 1:2, "2 values cannot fill 3 elements")
  expect_error(x[1, 2] <- 1L, "2 subscripts for a shared array of 1 dim")
  expect_error(x[["a"]] <- 1L, "no name")
  expect_error(shm_array(-1), "`dim`", class = "regatta_error_argument")
  expect_error(shm_array(2.5), "`dim`")
  expect_error(shm_array(c(2, 3e9)), "`dim` must be extents of at most")
  expect_error(shm_array(3, "character"), "`type`")
  expect_error(shm_array(3, fill = 1:2), "`fill` must be of length 1, or 3 as the array has elements")
  names <- "`dimnames` must be `NULL` or a list with, for each extent of 2 x 3, `NULL` or as many names"
  for (wrong in list(list("a"), list("a", NULL), list(NULL, letters), letters[1:2], 1)) {
    expect_error(shm_array(c(2, 3), dimnames = wrong), names, class = "regatta_error_argument")
    expect_error(shm_array(matrix(0, 2, 3), dimnames = wrong), names, class = "regatta_error_argument")
  }
  expect_null(dimnames(shm_array(c(2, 3), dimnames = list())))
})

test_that("names that a vector is given stay with what is made of it", {
  x <- shm_array(3, "integer", 1:3)
  names(x) <- c("a", "b", NA)
  plain <- stats::setNames(1:3, c("a", "b", NA))
  expect_identical(shm_copy(x), plain)
  expect_identical(x + 1L, plain + 1L)
  expect_output(print(x), "a +b")
  x[["b"]] <- 5L
  expect_identical(shm_copy(x), c(a = 1L, b = 5L, plain[3L]))
  m <- shm_array(matrix(1:4, 2, dimnames = list(NULL, c("a", "b"))))
  expect_identical(shm_copy(m), matrix(1:4, 2, dimnames = list(NULL, c("a", "b"))))
})

test_that("what is missing is missing in both parts of a complex number, or not, as R has it", {
  withr::local_preserve_seed()
  for (value in list(NA, NA_integer_, NA_real_, NaN, NA_complex_, 2, c(NA_real_, NaN, 1))) {
    shared <- shm_array(3, "complex")
    plain <- complex(3)
    shared[seq_along(value)] <- value
    plain[seq_along(value)] <- value
    expect_identical(Re(shared[]), Re(plain), label = deparse1(value))
    expect_identical(Im(shared[]), Im(plain), label = deparse1(value))
  }
})

test_that("a matrix becomes a shared one, and a vector of values is no vector of extents", {
  for (m in list(
    matrix(1:4, 2), matrix(c(TRUE, FALSE), 1, dimnames = list("a", c("x", "y"))), array(1:24 / 2, 2:4)
  )) {
    x <- shm_array(m)
    expect_true(is_shm_array(x))
    expect_identical(shm_copy(x), m)
  }
  expect_identical(shm_array(matrix(1:4, 2), "double")[, 2], c(3, 4))
  expect_error(shm_array(matrix(c(1.5, 2), 1), "integer"), "storable")
  expect_identical(shm_array(c(2, 3), fill = 6:1)[2, ], c(5, 3, 1))
  expect_error(shm_array(c(0.5, 1)), "`shm_array(length(v), typeof(v), v)`", fixed = TRUE)
  expect_error(shm_array(1:100), "too many.*shm_array.length")
  expect_error(shm_array(data.frame(a = 1)), "shm_share()", fixed = TRUE)
  expect_error(shm_array(shm_array(2)), "The extents of an array `x` are `dim(x)`", fixed = TRUE)
  expect_error(shm_array(matrix(1:4, 2), fill = 3), "`fill` must be `NULL`.*shm_array\\(dim\\(m\\)")
  x <- shm_array(2, "integer")
  expect_error(x[1] <- 0.5, "`type = \"double\"`", fixed = TRUE)
})

test_that("a print shows what it is", {
  x <- filled(c(2, 2), type = "integer")
  expect_output(print(x), "<shm_array> 2 x 2 integer, 16 bytes", fixed = TRUE)
})

test_that("the memory goes back", {
  gc()
  before <- sum(shm_info()$regions$bytes)
  x <- shm_array(1e6)
  expect_identical(sum(shm_info()$regions$bytes) - before, 8e6)
  rm(x)
  gc()
  expect_identical(sum(shm_info()$regions$bytes), before)
})

test_that("what a worker reads of an array is what it was when it was read", {
  withr::local_preserve_seed()
  x <- shm_array(1e4)
  got <- par_lapply(1:3, function(i) {
    x[1] <- i
    list(x[], unclass(x), as.matrix(x), +x)
  }, .control = par_control(workers = 1))
  for (i in 1:3) {
    expect_identical(vapply(got[[i]], function(v) v[[1L]], 0), rep(as.double(i), 4L))
  }
  x[1] <- 77
  expect_identical(got[[3L]][[1L]][[1L]], 3)
  shared <- shm_share(unclass(x))
  x[1] <- 100
  expect_identical(shared[1], 77)
  expect_identical(data.frame(v = shm_array(2))$v, c(0, 0))
})

pick <- function(from, size) {
  from[sample.int(length(from), if (length(from) > 0L) size else 0L, replace = TRUE)]
}

# A subscript of a dimension of `extent`. Base R accepts most of them in an assignment.
random_subscript <- function(extent, names) {
  some <- function(from) pick(from, sample(0:4, 1L))
  switch(sample(8L, 1L),
    some(seq_len(extent)),
    some(seq_len(extent)) + sample(c(0, 0.25, 0.99), 1L),
    c(some(0:extent), 0.5),
    -some(c(0.5, seq_len(extent) + 0.75)),
    some(c(NA, seq_len(extent))),
    sample(c(TRUE, FALSE, NA), sample(extent, 1L), replace = TRUE),
    some(names),
    factor(some(names), names)
  )
}

random_matrix_subscript <- function(dim, names) {
  rows <- sample(0:4, 1L)
  column <- switch(sample(3L, 1L),
    function(k) pick(seq_len(dim[[k]]) + 0.75, rows),
    function(k) pick(c(0, NA, seq_len(dim[[k]])), rows),
    function(k) pick(c(NA, names[[k]]), rows)
  )
  matrix(unlist(lapply(seq_along(dim), column)), rows, length(dim))
}

test_that("subscripts of an assignment mean what they mean to an ordinary array", {
  withr::local_preserve_seed()
  withr::local_seed(20)
  assigned <- 0L
  for (i in 1:400) {
    dim <- sample(1:4, sample(3L, 1L), replace = TRUE)
    names <- lapply(dim, function(n) letters[seq_len(n)])
    y <- array(0, dim, names)
    x <- shm_array(y)
    subscripts <- switch(sample(3L, 1L),
      lapply(seq_along(dim), function(k) random_subscript(dim[[k]], names[[k]])),
      list(random_subscript(length(y), if (length(dim) == 1L) names[[1L]] else character())),
      list(random_matrix_subscript(dim, names))
    )
    value <- if (i %% 4L) 9 else c(8, 9)
    # A number of values that does not fit is a warning of base R, and an error here.
    ordinary <- tryCatch(do.call("[<-", c(list(y), subscripts, list(value = value))),
      error = identity, warning = identity
    )
    shared <- tryCatch(do.call("[<-", c(list(x), subscripts, list(value = value))), error = identity)
    if (inherits(ordinary, "condition")) {
      expect_s3_class(shared, "error")
      ordinary <- y
    } else {
      assigned <- assigned + 1L
    }
    # Names can make base R add an attribute.
    expect(identical(x[], array(ordinary, dim, names)), deparse1(list(dim, subscripts, value)))
  }
  expect_gt(assigned, 200L)
})

test_that("a fraction of a subscript is cut off, and a missing one means no element", {
  withr::local_preserve_seed()
  x <- shm_array(c(4, 4))
  x[cbind(1.5, 2.5)] <- 1
  expect_identical(which(x[] == 1), 5L)
  x <- shm_array(3)
  x[3.5] <- 1
  expect_identical(x[], c(0, 0, 1))
  x <- shm_array(c(2, 2))
  x[cbind(1:2, c(NA, 1))] <- 9
  expect_identical(x[], matrix(c(0, 9, 0, 0), 2))
  expect_error(x[cbind(1:2, c(NA, 1))] <- 1:2, "NAs are not allowed in subscripted assignments")
  expect_error(x[[NA]] <- 1, "missing")
  expect_error(x[c(1, 5)] <- 7, "subscript 5 is outside")
  expect_error(x[Inf] <- 7, "subscript [Ii]nf is outside")
  y <- shm_array(c(3, 1))
  expect_error(y[integer(), 5] <- 1, "subscript 5 is outside of a dimension of 1")
  expect_error(y[7, FALSE] <- 1, "subscript 7 is outside of a dimension of 3")
  for (expr in expression(y[9, NA] <- 1, y[NA, 2] <- 1, y[c(NA, 4), 1] <- 1, y[9, NA_real_] <- 1)) {
    expect_error(eval(expr), "is outside of a dimension of")
  }
  expect_identical(y[], matrix(0, 3, 1))
  y[integer(), 1] <- 1
  z <- shm_array(c(0, 3))
  expect_error(z[, 4] <- 1, "subscript 4 is outside of a dimension of 3")
  z[, 3] <- 1
  expect_error(x[c(1, 5, -0.5)] <- 7, "subscript 5 is outside")
  expect_error(x[rep(TRUE, 5)] <- 7, "does not grow")
  expect_error(x[cbind(1, -1)] <- 7, "negative")
  expect_error(x[cbind("a", "b")] <- 7, "no name")
  expect_identical(x[], matrix(c(0, 9, 0, 0), 2))
})

test_that("functions of R give what they give for the ordinary array", {
  withr::local_preserve_seed()
  functions <- list(
    unique = unique, duplicated = duplicated, anyDuplicated = anyDuplicated, head = head, tail = tail,
    head1 = function(x) head(x, 1), tail1 = function(x) tail(x, c(1, 1)), summary = summary,
    subset = function(x) subset(x, c(TRUE, FALSE, TRUE)), diff = diff, na.omit = na.omit, lag = stats::lag,
    determinant = function(x) determinant(x), isSymmetric = isSymmetric,
    boxplot = function(x) boxplot(x, plot = FALSE), raster = function(x) as.raster(x, max = 9),
    Re = Re, Im = Im, Mod = Mod, Arg = Arg, Conj = Conj, unlist = unlist, format = format,
    as.list = as.list, as.table = as.table, as.data.frame = as.data.frame, as.logical = as.logical,
    as.character = as.character, as.complex = as.complex, aperm = aperm, rev = rev, sort = sort,
    rep = function(x) rep(x, 2), mean = mean, median = stats::median, quantile = stats::quantile,
    scale = scale, rowsum = function(x) rowsum(x, c(1, 1, 2)), toString = toString, range = range,
    split = function(x) split(x, 1:3), cut = function(x) cut(x, 2),
    merge = function(x) merge(x, x), aggregate = function(x) stats::aggregate(x, list(1:3), sum),
    by = function(x) c(by(x, 1:3, sum)), transform = transform, xtfrm = xtfrm, c = function(x) c(x, x),
    is.na = is.na, anyNA = anyNA, cbind = function(x) cbind(x, 1), levels = levels, solve = function(x)
      solve(x + diag(3)), qr = function(x) qr(x)$qr, kronecker = function(x) x %x% x, dist = stats::dist,
    prcomp = function(x) stats::prcomp(x)$sdev, cor = stats::cor, ts = stats::ts, stack = function(x)
      utils::stack(as.data.frame(x))
  )
  for (m in list(rbind(c(1, 2, 0), c(1, 2, 0), c(3, 4, 1)), cbind(c(a = 1L, b = 5L, c = 1L), 2:4, 7:9))) {
    x <- shm_array(m)
    for (name in names(functions)) {
      attempt <- function(x) tryCatch(functions[[name]](x), error = function(e) class(e))
      expect_identical(attempt(x), attempt(m), info = name)
    }
  }
  v <- shm_array(3, fill = c(2, 1, 2))
  a <- shm_array(array(1:8 / 2, c(2, 2, 2)))
  for (f in functions[c("unique", "duplicated", "head", "tail", "na.omit", "diff", "unlist", "format")]) {
    expect_identical(f(v), f(v[]))
    expect_identical(f(a), f(a[]))
  }
  z <- shm_array(2, "complex", fill = 1 + 2i)
  expect_identical(list(Re(z), Im(z), Conj(z)), list(c(1, 1), c(2, 2), rep(1 - 2i, 2)))
  for (f in list(na.omit, unlist, Re, Conj, function(x) diff(x, 1), head, unique)) {
    copy <- f(v)
    copy[1] <- 100
    expect_identical(v[1], 2)
  }
})

test_that("a value that is read from the memory that is written is taken as it was before", {
  withr::local_preserve_seed()
  again <- function(x) unserialize(with_shm_handles(serialize(x, NULL)))
  itself <- list(
    same = identity, view = unclass, as_is = I, dropped = drop, unnamed = unname, handle = again,
    view_of_handle = function(x) unclass(again(x)), marked = function(x) structure(x, a = 1),
    marked_view = function(x) structure(unclass(x), a = 1)
  )
  writes <- list(
    reverse = quote(x[12:1] <- v), rotate = quote(x[c(2:12, 1)] <- v), order = quote(x[order(x)] <- v),
    rows = quote(x[3:1, ] <- v), columns = quote(x[, 4:1] <- v), both = quote(x[3:1, c(4, 1:3)] <- v),
    pairs = quote(x[cbind(rep(3:1, 4), rep(4:1, each = 3))] <- v), empty = quote(x[] <- v),
    all = quote(x[, ] <- v), not = quote(x[-13] <- v), logical = quote(x[rep(TRUE, 12)] <- v),
    twice = quote(x[c(12:1, 1:12)] <- v), replace = quote(x <- replace(x, 12:1, v))
  )
  wrong <- character()
  for (type in c("double", "integer", "complex")) {
    y <- matrix(as.vector(c(5, 3, 8, 1, 12, 2, 7, 11, 4, 10, 6, 9), type), 3)
    for (value in names(itself)) for (write in names(writes)) {
      x <- shm_array(y)
      v <- itself[[value]](x)
      z <- y
      eval(do.call(substitute, list(writes[[write]], list(v = y, x = quote(z)))))
      eval(writes[[write]])
      if (!identical(x[], z)) wrong <- c(wrong, paste(type, value, write))
    }
  }
  expect_identical(wrong, character())
  x <- shm_array(3, fill = 3:1)
  x[[2]] <- x[[1]]
  expect_identical(x[], c(3, 3, 1))
})

test_that("a subscript that is read from the memory that is written is taken as it was before", {
  withr::local_preserve_seed()
  for (type in c("double", "integer")) {
    for (index in list(c(2, 3, 1, 4), c(4, 1, 2, 3))) {
      x <- shm_array(4, type, fill = index)
      y <- x[]
      x[x] <- 1000
      y[y] <- 1000
      expect_identical(as.double(x[]), as.double(y))
      x <- shm_array(4, type, fill = index)
      y <- x[]
      x[x] <- x
      y[y] <- y
      expect_identical(x[], y)
      x <- shm_array(c(4, 2), type, fill = c(index, 5:8))
      y <- x[]
      x[x[1:4], 1] <- x[, 2]
      y[y[1:4], 1] <- y[, 2]
      expect_identical(x[], y)
    }
  }
})

# What R can turn into the type of an array and back.
storable <- function(value, type) {
  if (is.null(value)) {
    return(TRUE)
  }
  order <- c("logical", "integer", "double", "complex")
  if (isTRUE(match(typeof(value), order) <= match(type, order))) {
    return(TRUE)
  }
  there <- suppressWarnings(tryCatch(as.vector(unclass(value), type), error = function(e) NULL))
  value <- one_missing(unclass(value))
  # In an assignment R takes nothing but raw to raw, which it takes to nothing else.
  is.atomic(value) && !is.character(value) && (type == "raw") == is.raw(value) &&
    identical(one_missing(as.vector(there, typeof(value))), as.vector(value))
}

# Versions of R differ in the imaginary part of a number that is missing.
one_missing <- function(x) {
  if (is.complex(x)) x[is.na(x) & !is.nan(x)] <- NA
  x
}

# NULL if the shared array that equals `y` does what `y` does, and what differs otherwise: where `y` would
# become longer or of another type, or R warns that the number of values does not fit, it must refuse.
differs_from_base <- function(write, y, subscripts, value) {
  x <- shm_array(if (is.null(dim(y))) length(y) else dim(y), typeof(y), dimnames = dimnames(y))
  x[] <- as.vector(y)
  arguments <- c(subscripts, list(value = value))
  ordinary <- tryCatch(do.call(write, c(list(y), arguments)), error = identity, warning = identity)
  shared <- tryCatch(do.call(write, c(list(x), arguments)), error = identity)
  kept <- !inherits(ordinary, "condition") && length(ordinary) == length(y) && storable(value, typeof(y))
  expected <- y
  if (kept) expected[] <- as.vector(ordinary, typeof(y))
  if (inherits(shared, "error") == kept) {
    return(if (kept) paste("refused:", conditionMessage(shared)) else "not refused")
  }
  if (!identical(one_missing(x[]), one_missing(expected))) "other elements"
}

test_that("`[<-` and `[[<-` do for all forms of subscripts and values what base R does, or refuse", {
  withr::local_preserve_seed()
  vectors <- list(
    TRUE, FALSE, NA, NA_integer_, NA_real_, NaN, 0, 1, 3L, 1.9, 0.5, -0.5, -1, -2, -1.5, -5L, 5, 5.9, 6, 1e10,
    c(1, 2), c(2L, 2L), c(-1, -2), c(TRUE, FALSE), c(TRUE, NA), integer(), character(), NULL, list(), list(1),
    "a", "e", "z", "", NA_character_, c("a", "b"), factor("b", c("a", "b")), 1i, as.raw(1), mean, quote(a),
    cbind(1, 2), matrix(2), cbind("a", "q"), cbind(c(1, 2), c(2, 1)), cbind(1, NA), as.Date("1970-01-04"),
    shm_array(1, fill = 2)
  )
  pairs <- list(1, 2, 0, -1, -2, 1.5, 3, NA, NA_real_, TRUE, FALSE, "a", "b", "z", "", c(1, 2), integer(), NULL, 1i,
    list(1), factor("b", c("a", "b")))
  others <- list(1, 2L, 3, "q", TRUE, c(1, 3))
  values <- list(
    9, 7L, 2:3, c(7, 8, 9), NA, NA_integer_, NA_real_, NaN, 2.5, TRUE, 3 + 1i, NA_complex_, "a", NA_character_,
    as.raw(1), factor("u", c("t", "u")), as.Date("1970-01-04"), matrix(6), list(1), numeric(), integer(), NULL,
    1e10, mean
  )
  named <- array(c(5, 3, 8, 1, 2), 5, list(letters[1:5]))
  m <- matrix(c(5, 3, 8, 1, 2, 6), 2, dimnames = list(c("a", "b"), c("p", "q", "r")))
  arrays <- list(as.vector(named), named, m, 4, c(4, 5), unname(m), array(1, c(0, 2)), numeric())
  wrong <- character()
  try_all <- function(y, subscripts, value) {
    for (write in c("[<-", "[[<-")) {
      found <- differs_from_base(write, y, subscripts, value)
      if (!is.null(found)) wrong <<- c(wrong, paste(write, deparse1(list(y, subscripts, value)), found))
    }
  }
  for (y in arrays) {
    for (index in vectors) try_all(y, list(index), 9)
  }
  for (i in pairs) {
    for (j in others) try_all(m, list(i, j), 9)
  }
  for (type in c("double", "integer", "logical", "complex", "raw")) {
    y <- named
    storage.mode(y) <- type
    for (value in values) {
      for (index in list(2, "b", c(1, 4), integer(), NA)) try_all(y, list(index), value)
    }
  }
  for (write in c("[<-", "[[<-")) {
    for (given in list(list(1, 1), list(1, 1, 1), list(), list(quote(expr = ), 1), list(2, quote(expr = )))) {
      for (y in list(named, m)) {
        found <- differs_from_base(write, y, given, 9)
        if (!is.null(found)) wrong <- c(wrong, paste(write, deparse1(list(dim(y), given)), found))
      }
    }
  }
  expect_identical(wrong, character())
})

test_that("an empty or missing string matches no name, in any form of subscript", {
  m <- matrix(c(5, 3, 8, 1), 2, dimnames = list(c("", "b"), c("a", NA)))
  x <- shm_array(m, dimnames = dimnames(m))
  given <- list(
    list(cbind("", "a")), list(cbind("b", NA)), list(cbind(c("b", ""), "a")), list("", "a"), list("b", NA_character_),
    list(cbind("b", "a")), list(cbind("b", "NA"))
  )
  for (subscripts in given) {
    expect_null(differs_from_base("[<-", m, subscripts, 9))
    read <- function(x) tryCatch(do.call("[", c(list(x), subscripts)), error = conditionMessage)
    expect_identical(read(x), read(m))
  }
  expect_error(x[cbind("", "a")] <- 9, "there is no name \"\"", fixed = TRUE)
  expect_identical(x[], m)
})

test_that("there is no element number infinity", {
  withr::local_preserve_seed()
  x <- shm_array(c(2, 2), dimnames = list(c("a", "b"), NULL))
  for (i in list(Inf, -Inf, c(1, Inf))) {
    expect_error(x[i] <- 1, "subscript")
    expect_error(x[[i]] <- 1, "subscript|select")
    expect_error(x[i, 1] <- 1, "subscript")
    expect_error(x[[1, i]] <- 1, "subscript|select")
    expect_error(x[cbind(1, i)] <- 1, "subscript")
  }
  expect_identical(sum(x), 0)
})

test_that("a copy has ordinary vectors for arrays at every depth", {
  x <- filled(c(2, 3))
  l <- list(x, list(unclass(x), I(x), a = x), structure(list(), at = x), data.frame(i = 1:3))
  m <- matrix(as.double(1:6), 2)
  for (copy in list(shm_copy(l), shm_copy(list(l))[[1L]])) {
    x[] <- 0
    expect_identical(copy, list(m, list(m, I(m), a = m), structure(list(), at = m), data.frame(i = 1:3)))
    copy[[1L]][1] <- 9
    copy[[2L]]$a[1] <- 9
    expect_identical(sum(x), 0)
    x[] <- 1:6
  }
})

test_that("what only views an array is the elements from that time, also if the session itself is the worker", {
  withr::local_preserve_seed()
  x <- filled(1000)
  for (cores in 1:2) {
    x[1] <- 1
    got <- mclapply(1:2, function(i) list(unclass(x), structure(list(), at = unclass(x))), mc.cores = cores)
    x[1] <- 77
    expect_identical(got[[1L]][[1L]][[1L]], 1)
    expect_identical(attr(got[[2L]][[2L]], "at")[[1L]], 1)
  }
})

test_that("a type that was not given and cannot be is asked for", {
  withr::local_preserve_seed()
  expect_error(shm_array(array(c("a", "b"))), "`type` must be given.* where `dim` is of another type")
  expect_error(shm_map(letters, nchar), "`type` must be given.* where `x` is of another type")
  expect_error(shm_map2(letters, letters, nchar), "`type` must be given.* where `x`")
  expect_error(shm_map2(letters, 1, nchar), "`type` must be given.* where `x`", class = "regatta_error_argument")
  expect_error(shm_map2(1:2, c("a", "b"), nchar), "`type` must be given.* where `y`")
  expect_identical(shm_map2(letters, 2, function(a, b) nchar(a) * b, "double", .on = 1)[], rep(2, 26))
  expect_error(shm_map(letters, nchar, "character"), "`type` must be one of", class = "regatta_error_argument")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
