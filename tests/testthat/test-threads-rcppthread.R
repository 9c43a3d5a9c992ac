detritus <- detritus_snapshot()

rcppthread_library <- function(..., env = parent.frame()) {
  compat <- system.file("include", "regatta", "compat", package = "regatta")
  threads_compile("threads-rcppthread.cpp", flags = c(paste0("-I", compat), ...), env = env)
}

in_rcppthread <- function(library) {
  dll <- dyn.load(library)
  progress <- .Call(getNativeSymbolInfo("progress", dll), 1000L)
  list(progress, .Call(getNativeSymbolInfo("all_names", dll)))
}

test_that("code written for RcppThread compiles with its include paths and does the same", {
  library <- rcppthread_library()
  got <- fault_run(in_rcppthread, list(library))
  expect_identical(got$value, list(TRUE, 90L))
  text <- paste(got$stdout, collapse = "\n")
  expect_match(text, "at 100: 100% (done)", fixed = TRUE)
  expect_match(text, "Counting: 100% (done)", fixed = TRUE)
  expect_match(text, "printed by 1 thread", fixed = TRUE)
  expect_match(text, "C++ call interrupted by the user.", fixed = TRUE)
  expect_true("errors" %in% got$stderr)
})

test_that("its macros make std::cout stand for Rcout", {
  rcppthread_library("-DRCPPTHREAD_OVERRIDE_COUT=1", "-DRCPPTHREAD_OVERRIDE_CERR=1",
    "-DRCPPTHREAD_OVERRIDE_THREAD=1")
  succeed()
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
