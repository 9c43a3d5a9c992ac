detritus <- detritus_snapshot()

test_that("a name that is assigned somewhere, or an argument within, is a global where it is neither", {
  withr::defer(rm(list = c("rg_one", "rg_two"), envir = globalenv()))
  assign("rg_one", data.frame(a = 1:3), globalenv())
  assign("rg_two", 2, globalenv())
  names_of <- function(f) {
    environment(f) <- globalenv()
    sort(as.character(names(regatta:::globals_of(list(f))$variables)))
  }
  expect_identical(names_of(function(i) { h <- function(rg_one) nrow(rg_one); c(h(i), nrow(rg_one)) }), "rg_one")
  expect_identical(names_of(function(i) sapply(1:2, function(rg_two) rg_two) + rg_two), "rg_two")
  expect_identical(names_of(function(i) { if (i == 1) rg_two <- 0; rg_two }), "rg_two")
  expect_identical(names_of(function(i) { lapply(1, function(j) rg_two <- j); rg_two }), "rg_two")
  expect_identical(names_of(function(i) { tryCatch({ stop(); rg_two <- 1 }, error = identity); rg_two }), "rg_two")
  expect_identical(names_of(function(i) { rg_two <- 2; rm(rg_two); rg_two }), "rg_two")
  expect_identical(names_of(function(i, k = rg_two) { rg_two <- 2; k }), "rg_two")
  # its own before anything is read
  expect_identical(names_of(function(i) { rg_two <- i; rg_one <- rg_two; rg_one }), character())
  expect_identical(names_of(function(rg_one) rg_one), character())
})

test_that("a list with an empty argument is looked into", {
  used <- function(x) rg_within
  environment(used) <- globalenv()
  assign("rg_empty", c(alist(a = ), list(used)), globalenv())
  assign("rg_within", 1, globalenv())
  withr::defer(rm("rg_empty", "rg_within", envir = globalenv()))
  f <- function(i) length(rg_empty)
  environment(f) <- globalenv()
  expect_setequal(names(regatta:::globals_of(list(f))$variables), c("rg_empty", "rg_within"))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
