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
  one <- par_control(workers = 1, dump = "no")
  expect_error(
    shm_fill(10, function(range) 1:3, .control = one),
    "needs 1 values for the positions 1 to 1, but the function returned 3"
  )
  expect_error(shm_fill(10, function(range) "a", .control = one), "storable in a shared array")
  expect_error(shm_fill(10, 5), "not a function|match.fun|not found")
  expect_error(shm_map(list(1), identity), "`x`")
})

test_that("a part whose worker dies is tried again, and the array is whole", {
  tries <- shm_counter()
  x <- shm_fill(1e4, function(range) {
    if (range[[1L]] == 1L && shm_add(tries) == 1) tools::pskill(Sys.getpid(), 9L)
    range
  }, "integer", .control = two_workers(retries = 1L))
  expect_identical(as.vector(x), 1:10000)
})
