detritus <- detritus_snapshot()

test_that("the triggers come down after a large object has gone", {
  x <- numeric(3e7)
  gc()
  before <- gc()[, "gc trigger"]
  rm(x)
  after <- gc_reset_triggers(print_stats = FALSE)
  expect_lt(after["Vcells", "gc trigger"], before[["Vcells"]])
  expect_output(shown <- gc_reset_triggers(), "Memory before.*Memory after [0-9]+ full collection")
  expect_identical(dim(shown), dim(gc()))
  expect_error(gc_reset_triggers(print_stats = 1), class = "regatta_error_argument")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
