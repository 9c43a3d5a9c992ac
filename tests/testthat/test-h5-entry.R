detritus <- detritus_snapshot()

# Of a new session in which `code` is run: a `TRUE` for each process that `code` asks, if that has the library.
loaded <- 'loaded <- function(...) "regatta_h5" %in% names(getLoadedDLLs())'
control <- "control <- regatta::par_control(workers = 2L, progress = FALSE)"
session_has <- function(...) session_prints(c(loaded, control, ...))

test_that("the package and a map load no library for HDF5 files, nor what that asks for", {
  skip_if_not(file.exists("/proc/self/maps"), "no /proc/self/maps")
  found <- session_has(
    "cat(unlist(regatta::par_lapply(1:2, loaded, .control = control)), loaded())",
    "cat('', length(grep('hdf5', readLines('/proc/self/maps'))))"
  )
  expect_identical(found, "FALSE FALSE FALSE 0")
})

test_that("a worker has the library from the session if that has it", {
  found <- session_has(
    "about <- regatta::h5_available()",
    "cat(loaded(), unlist(regatta::par_lapply(1:2, loaded, .control = control)))"
  )
  expect_identical(found, "TRUE TRUE TRUE")
})

test_that("a session loads the library for workers whose function calls it", {
  found <- session_has(
    "fun <- function(i) { had <- loaded(); regatta::h5_available(); had }",
    "cat(unlist(regatta::par_lapply(1:2, fun, .control = control)), loaded())"
  )
  expect_identical(found, "TRUE TRUE TRUE")
})

test_that("a worker loads the library where the session could not know that it would be called", {
  found <- session_has(
    "inner <- function() isFALSE(regatta::h5_available())",
    "fun <- function(i) { had <- loaded(); inner(); c(had, loaded()) }",
    "cat(unlist(regatta::par_lapply(1:2, fun, .control = control)), loaded())"
  )
  expect_identical(found, "FALSE TRUE FALSE TRUE FALSE")
})

test_that("a fork server has the library for its workers", {
  expect_identical(session_has("while (regatta:::fork_server_idle()) {}", "cat(loaded())"), "TRUE")
})

test_that("the namespace finds the library again when it was unloaded and loaded", {
  found <- session_has(
    "a <- regatta::h5_available()", "unloadNamespace('regatta')", "cat(identical(regatta::h5_available(), a))"
  )
  expect_identical(found, "TRUE")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
