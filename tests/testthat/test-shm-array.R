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
  on.exit(parallel::stopCluster(cluster))
  parallel::clusterCall(cluster, function(paths) .libPaths(paths), .libPaths())
  parallel::clusterCall(cluster, function(v) {
    v[2] <- -2
    NULL
  }, x)
  expect_identical(x[2], -2)
})

test_that("what would be lost is refused, with numbers", {
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
  expect_error(x[c(1, 5, -0.5)] <- 7, "subscript 5 is outside")
  expect_error(x[rep(TRUE, 5)] <- 7, "does not grow")
  expect_error(x[cbind(1, -1)] <- 7, "negative")
  expect_error(x[cbind("a", "b")] <- 7, "no name")
  expect_identical(x[], matrix(c(0, 9, 0, 0), 2))
})

test_that("functions of R give what they give for the ordinary array", {
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
