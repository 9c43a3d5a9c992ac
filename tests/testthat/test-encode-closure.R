detritus <- detritus_snapshot()

travel <- function(x, min = 1e5) {
  packed <- closure_pack(x, min)
  bytes <- send_handles(TRUE, serialize(packed$bytes, NULL))
  list(value = closure_unpack(unserialize(bytes)), size = length(bytes))
}

numbers <- function(n) seq_len(n) + 0.5

maker <- function(big, small = 1) {
  force(big)
  counter <- 0
  function(i) {
    counter <<- counter + 1
    list(i + small, sum(big), regatta::is_shm(big), counter)
  }
}
environment(maker) <- globalenv() # what a test has around it is large itself

test_that("what is large in a function's environment is shared and the rest is written", {
  big <- numbers(1e5)
  f <- maker(big)
  got <- travel(list(f, 1:3))
  expect_lt(got$size, 20000)
  value <- got$value[[1L]](1)
  expect_identical(value, list(2, sum(big), TRUE, 1))
  expect_identical(got$value[[2L]], 1:3)
  # nothing of it in the original
  expect_false(is_shm(environment(f)$big))
  expect_identical(environment(f)$counter, 0)
  expect_identical(got$value[[1L]](1)[[4L]], 2)
  expect_identical(environment(f)$counter, 0)
})

test_that("below the size, and without one, the data are written", {
  f <- maker(numbers(1e4))
  got <- travel(f, min = 1e6)
  expect_gt(got$size, 8e4)
  expect_false(got$value(1)[[3L]])
  packed <- closure_pack(maker(numbers(1e5)))
  expect_gt(length(packed$bytes$body), 8e5)
  expect_false(closure_unpack(packed$bytes)(1)[[3L]])
})

test_that("functions that have an environment in common still have", {
  pair <- local({
    data <- numbers(1e5)
    n <- 0
    list(add = function() n <<- n + 1, get = function() n, sum = function() sum(data))
  })
  got <- travel(pair)$value
  got$add()
  expect_identical(got$get(), 1)
  expect_identical(pair$get(), 0)
  expect_identical(environment(got$add), environment(got$sum))
  expect_true(is_shm(environment(got$add)$data))
})

test_that("environments inside each other arrive with what encloses them", {
  outer <- local({
    data <- numbers(1e5)
    local({
      more <- as.character(seq_len(5e4))
      function() c(length(data), length(more))
    })
  })
  got <- travel(outer)$value
  expect_identical(got(), c(100000L, 50000L))
  expect_true(is_shm(environment(got)$more))
  expect_true(is_shm(parent.env(environment(got))$data))
})

test_that("an object that refers to itself, its class and its locks arrive", {
  self <- new.env(parent = baseenv())
  self$self <- self
  self$data <- numbers(1e5)
  self$method <- local(function() sum(self$data), list2env(list(self = self), parent = baseenv()))
  makeActiveBinding("twice", function() 2, self)
  class(self) <- "thing"
  lockBinding("data", self)
  lockEnvironment(self)
  got <- travel(self)$value
  expect_s3_class(got, "thing")
  expect_identical(got$self, got)
  expect_identical(got$method(), sum(self$data))
  expect_identical(environment(got$method)$self, got)
  expect_true(is_shm(got$data))
  expect_true(bindingIsLocked("data", got))
  expect_true(environmentIsLocked(got))
  expect_true(bindingIsActive("twice", got))
  expect_identical(got$twice, 2)
})

test_that("a promise that was not forced stays one, a missing argument missing", {
  forced <- FALSE
  make <- function(big, lazy, absent, ...) {
    force(big)
    function(use = FALSE) {
      if (use) return(lazy)
      c(tryCatch(absent, error = function(e) -1L), length(big), ...length())
    }
  }
  f <- make(numbers(1e5), {
    forced <<- TRUE
    7
  }, , 1, 2)
  got <- travel(f)$value
  expect_false(forced)
  expect_identical(got(), c(-1L, 100000L, 2L))
  expect_true(is_shm(environment(got)$big))
  expect_identical(got(TRUE), 7)
  expect_false(forced) # what it sets is the copy's
})

test_that("a shared array is the same array there", {
  x <- shm_array(1e5)
  f <- local({
    array <- x
    function(v) array[1] <<- v
  })
  got <- travel(f)$value
  got(5)
  expect_identical(x[1], 5)
})

test_that("the variables and packages that code uses are found", {
  skip_if_not_installed("globals")
  withr::defer(rm(list = c("rg_a", "rg_b", "rg_f"), envir = globalenv()))
  assign("rg_a", 1, globalenv())
  assign("rg_b", 2, globalenv())
  assign("rg_f", eval(quote(function(x) x + rg_b), globalenv()), globalenv())
  code <- eval(quote(function(i) rg_f(i) + rg_a + toTitleCase("a")), globalenv())
  found <- globals_of(list(code))
  expect_setequal(names(found$variables), c("rg_a", "rg_b", "rg_f"))
  expect_identical(found$packages, character())
  attached <- !"package:tools" %in% search()
  library(tools)
  if (attached) withr::defer(detach("package:tools"))
  expect_identical(globals_of(list(code))$packages, "tools")
  expect_named(globals_of(list(quote(rg_a + 1)), globalenv())$variables, "rg_a")
  expect_length(globals_of(list(sum))$variables, 0L)
  # not what is in the function's own surroundings
  own <- local({
    rg_a <- 3
    function() rg_a
  })
  expect_length(globals_of(list(own))$variables, 0L)
})

test_that("what is remembered of code is what would be found again", {
  skip_if_not_installed("globals")
  withr::defer(rm(list = intersect(c("rg_a", "rg_b", "rg_f", "quote"), ls(globalenv())), envir = globalenv()))
  in_workspace <- function(code) eval(substitute(code), globalenv())
  used <- function(code) sort(as.character(names(globals_of(list(code))$variables)))
  before <- as.list(analyses <- regatta:::the$analyses)
  in_workspace({
    rg_a <- 1
    rg_b <- 2
    rg_f <- function(i) i + rg_a
  })
  code <- in_workspace(function(i) rg_f(i))
  expect_identical(used(code), c("rg_a", "rg_f"))
  known <- as.list(analyses)
  expect_gt(length(known), length(before))
  expect_identical(used(code), c("rg_a", "rg_f"))
  expect_identical(as.list(analyses), known)
  # a value has changed, and what is used
  in_workspace(rg_a <- 5)
  expect_identical(globals_of(list(code))$variables$rg_a, 5)
  in_workspace(rg_f <- function(i) i + rg_b)
  expect_identical(used(code), c("rg_b", "rg_f"))
  in_workspace(body(rg_f)[[3]] <- quote(rg_a * rg_b))
  expect_identical(used(code), c("rg_a", "rg_b", "rg_f"))
  # the same code elsewhere
  environment(code) <- list2env(list(rg_f = identity), parent = globalenv())
  expect_identical(used(code), character())
  # an argument's default, in a function with the same body
  one <- in_workspace(function(i, k = rg_a) i)
  expect_identical(used(one), "rg_a")
  formals(one)$k <- quote(rg_b)
  expect_identical(used(one), "rg_b")
  # a function of base R that means something else for a while
  quoting <- in_workspace(function() quote(rg_a))
  expect_identical(used(quoting), "rg_a")
  in_workspace(quote <- function(x) x)
  expect_identical(used(quoting), c("quote", "rg_a"))
  in_workspace(rm(quote))
  expect_identical(used(quoting), "rg_a")
  # there is room for so much
  for (k in 1:300) used(eval(call("function", NULL, call("+", k, quote(rg_a))), globalenv()))
  expect_lte(length(analyses), regatta:::analyses_most)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
