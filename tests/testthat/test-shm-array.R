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
