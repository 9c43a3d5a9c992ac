detritus <- detritus_snapshot()

test_that("an array is filled by position", {
  x <- shm_fill(1e5, function(range) range^2, .control = two_workers())
  expect_identical(as.vector(x), (1:1e5)^2)
  m <- shm_fill(c(30, 40), function(range) range, "integer", .control = two_workers())
  expect_identical(shm_copy(m), matrix(1:1200, 30))
  expect_identical(length(shm_fill(0, identity)), 0L)
  r <- shm_fill(1000, function(range, k) as.raw(range %% k), "raw", k = 7, .control = two_workers())
  expect_identical(as.vector(r), as.raw((1:1000) %% 7))
})

test_that("nothing is sent back", {
  x <- shm_fill(1e6, function(range) sqrt(range), .control = two_workers())
  expect_lt(max(par_last()$elements$bytes), 10)
})

test_that("an array is mapped into another", {
  x <- shm_array(c(100, 50), fill = 3)
  y <- shm_map(x, function(v) v * 2, .control = two_workers())
  expect_identical(shm_copy(y), matrix(6, 100, 50))
  z <- shm_map(1:1000, function(v) v > 500, "logical", .control = two_workers())
  expect_identical(as.vector(z), 1:1000 > 500)
})

test_that("values of the wrong number or type are errors that name the positions", {
  withr::local_preserve_seed()
  one <- par_control(workers = 1, dump = "no")
  expect_error(
    shm_fill(10, function(range) 1:3, .control = one),
    "needs 2 values for the positions 1 to 2, but the function returned 3"
  )
  expect_error(shm_fill(10, function(range) rep("a", length(range)), .control = one), "storable in a shared array")
  expect_error(shm_fill(10, 5), "`f` must be a function", class = "regatta_error_argument")
  for (x in list(shm_array(3), shm_array(c(2, 2)), matrix(1, 2, 2))) {
    err <- expect_error(shm_fill(x, sqrt), "`dim` must be one or more whole numbers", class = "regatta_error_argument")
    expect_match(err$body, "`dim(x)`", fixed = TRUE)
  }
  expect_error(shm_map(list(1), identity), "`x`")
})

test_that("a function for one element at a time is refused for every length, not right by luck", {
  for (n in c(2, 3, 10, 256, 257, 1000)) {
    expect_error(
      shm_fill(n, function(range) 1, .control = two_workers()), "it is called with many positions"
    )
    expect_error(
      shm_map(seq_len(n), function(v) v[[1L]], .control = two_workers()), "with many elements"
    )
    expect_identical(
      as.vector(shm_fill(n, identity, .control = two_workers())), as.double(seq_len(n))
    )
  }
  expect_identical(as.vector(shm_fill(1, function(range) 7, .control = two_workers())), 7)
  # The first part has two elements, every other one as long as there are few.
  shm_fill(10, identity, .control = two_workers())
  expect_identical(par_last()$names, c("1 to 2", 3:10))
})

test_that("a single second input has its class and no extents, as one of several has", {
  minutes <- as.difftime(c(30, 60, 90, 120), units = "mins")
  hour <- as.difftime(1, units = "hours")
  f <- function(a, b) as.numeric(a - b, units = "mins")
  expect_identical(as.vector(shm_map2(minutes, hour, f, "double", .control = two_workers())), f(minutes, hour))
  days <- as.Date("2020-01-01") + 0:3
  f <- function(a, b) as.numeric(a - b)
  expect_identical(as.vector(shm_map2(days, days[[1L]], f, "double", .control = two_workers())), as.numeric(0:3))
  expect_identical(as.vector(shm_map2(1:4, matrix(2, 1, 1), `+`, "double", .control = two_workers())), 1:4 + 2)
  expect_identical(as.vector(shm_map2(1:4, shm_array(1, fill = 2), `+`, .control = two_workers())), 1:4 + 2)
})

test_that("values of another type say which type would do", {
  err <- expect_error(shm_map(1:6, sqrt, .control = two_workers()), class = "regatta_error_element")
  expect_match(conditionMessage(err), "`type = \"double\"`", fixed = TRUE)
  got <- shm_map(1:6, sqrt, "double", .control = two_workers())
  expect_identical(as.vector(got), sqrt(1:6))
  err <- expect_error(shm_fill(2, function(r) c("a", "b"), .control = two_workers()))
  expect_match(conditionMessage(err), "Arrays hold no strings")
  expect_error(shm_fill(2, function(r) structure(r + 0, class = "integer64"), .control = two_workers()), "integer64")
})

test_that("two arrays are mapped into one", {
  x <- shm_array(matrix(as.double(1:6), 2, dimnames = list(c("a", "b"), NULL)))
  y <- shm_array(c(2, 3), fill = 6:1)
  z <- shm_map2(x, y, `+`, .control = two_workers())
  expect_identical(shm_copy(z), matrix(7, 2, 3, dimnames = list(c("a", "b"), NULL)))
  big <- shm_map2(1:1e5, 1e5:1, function(a, b, k) (a - b) * k, "double", k = 2, .control = two_workers())
  expect_identical(as.vector(big), ((1:1e5) - (1e5:1)) * 2)
  expect_identical(as.vector(shm_map2(1:4, 10, `*`, .control = two_workers())), c(10, 20, 30, 40))
  expect_identical(typeof(shm_map2(1:4, 4:1, `+`, .control = two_workers())), "integer")
  expect_identical(length(shm_map2(integer(), integer(), `+`)), 0L)
  expect_identical(as.vector(shm_map2(5, 2, `-`, .control = two_workers())), 3)
  expect_error(shm_map2(1:6, 1:2, `*`), "`y` must be of length 1 or of the length of `x`, 6",
    class = "regatta_error_argument")
  expect_error(shm_map2(matrix(1:4, 2), matrix(1:4, 1), `*`), "of the extents of `x`, 2 x 2")
  expect_error(shm_map2(mtcars, 1, `*`), "as.matrix()", fixed = TRUE)
})

test_that("a part whose worker dies is tried again, and the array is whole", {
  tries <- shm_counter()
  x <- shm_fill(1e4, function(range) {
    if (range[[1L]] == 1L && shm_add(tries) == 1) tools::pskill(Sys.getpid(), 9L)
    range
  }, "integer", .control = two_workers(retries = 1L))
  expect_identical(as.vector(x), 1:10000)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
