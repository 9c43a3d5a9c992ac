# What the tests rest on, tested itself: the check that ends every file, of which each kind of detritus is made and
# found, and the count of what has failed.

snapshot_here <- detritus_snapshot()

found_after <- function(code) {
  before <- detritus_snapshot()
  force(code)
  detritus_found(before, timeout = 0)
}

test_that("a session left as it was passes", {
  expect_identical(found_after(sum(1:10)), NULL)
  expect_no_detritus(detritus_snapshot())
})

test_that("what is left makes the check fail", {
  before <- detritus_snapshot()
  withr::local_options(regatta.test_detritus = TRUE)
  expect_failure(expect_no_detritus(before), "option `regatta.test_detritus` changed")
})

test_that("a child is found until it is collected", {
  skip_on_os(c("mac", "windows"))
  before <- detritus_snapshot()
  child <- parallel::mcparallel(NULL)
  found <- detritus_found(before, timeout = 0)
  parallel::mccollect(child)
  expect_match(found, sprintf("^child process %d \\(R, state .\\)$", child$pid), all = FALSE)
  expect_identical(detritus_found(before), NULL)
})

test_that("a file descriptor and a connection are found", {
  skip_on_os(c("mac", "windows"))
  before <- detritus_snapshot()
  connection <- file(test_path("test-detritus.R"), "r")
  found <- detritus_found(before, timeout = 0)
  close(connection)
  expect_match(found, "^file descriptor [0-9]+ \\(.*test-detritus.R\\)$", all = FALSE)
  expect_match(found, "^connection", all = FALSE)
})

test_that("a shared memory object is found, one of another process is not", {
  skip_unless_linux()
  withr::local_envvar(REGATTA_PRIVATE_SHM = NA)
  before <- detritus_snapshot()
  name <- sprintf("rg_detritus_%d", Sys.getpid())
  foreign <- sprintf("rg_detritus_%d0", Sys.getpid())
  paths <- shm_path(c(name, foreign))
  withr::defer(unlink(paths))
  file.create(paths)
  expect_identical(detritus_found(before, timeout = 0), paste("shared memory object", name))
  withr::local_envvar(REGATTA_PRIVATE_SHM = "1")
  expect_true(all(c(name, foreign) %in% detritus_shm()))
})

test_that("an option that another package makes does not count, any other does", {
  loadNamespace("withr")
  before <- detritus_snapshot()
  withr::local_options(withr.made.on.first.use = 1, R6.made.too = 1, tools.is.base = 1, regatta.mine = 1,
    no_such_package.x = 1)
  expect_setequal(
    detritus_found(before, timeout = 0),
    sprintf("option `%s` changed", c("tools.is.base", "regatta.mine", "no_such_package.x"))
  )
})

test_that("a file in the temporary folder is found", {
  path <- withr::local_tempfile(fileext = ".left")
  found <- found_after(file.create(path))
  expect_identical(found, paste("temporary file", basename(path)))
})

test_that("changed options, variables, folders, streams and devices are found", {
  withr::local_preserve_seed()
  set.seed(1)
  expect_identical(found_after(withr::local_options(digits = 3)), "option `digits` changed")
  expect_identical(
    found_after(withr::local_envvar(REGATTA_TEST_DETRITUS = "1")),
    "environment variable `REGATTA_TEST_DETRITUS` changed"
  )
  expect_identical(found_after(withr::local_dir(tempdir())), "working directory `path` changed")
  expect_identical(found_after(runif(1)), "RNG state `seed` changed")
  expect_match(found_after(withr::local_output_sink(nullfile())), "^sink `output`", all = FALSE)
  expect_match(
    found_after(withr::local_pdf(withr::local_tempfile(fileext = ".pdf"))),
    "^graphics device", all = FALSE
  )
})

test_that("an error after which something else comes in its test counts as failed", {
  report <- new.env()
  source(testthat::test_path("report-results.R"), local = report)
  folder <- withr::local_tempdir()
  writeLines(c(
    "test_that('it fails', {",
    "  on.exit(warning('late'))",
    "  stop('early')",
    "})",
    "test_that('it does not', expect_true(TRUE))",
    "test_that('it fails twice', {",
    "  expect_true(FALSE)",
    "  expect_true(FALSE)",
    "})"
  ), file.path(folder, "test-one.R"))
  results <- testthat::test_dir(folder, reporter = "silent", stop_on_failure = FALSE, load_package = "none")
  expect_identical(as.list(report$write_report(results, "")), list(passed = 1L, failed = 3L, skipped = 0L))
})

test_that("nothing is left behind", {
  expect_no_detritus(snapshot_here)
})
