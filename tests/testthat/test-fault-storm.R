detritus <- detritus_snapshot()

# Some hundreds; `make soak` sends thousands.
for (kind in c("forkserver", "parallel")) test_that(paste("a cluster survives random signals:", kind), {
  skip_unless_linux()
  expect_storm_survived(kind, shots = 100)
})

test_that("a cluster of other hosts survives random signals", {
  skip_unless_linux()
  skip_without_crypto()
  expect_storm_survived("ssh", shots = 40, pause = 0.3)
})

test_that("hosts survive random signals and cuts of the link between them", {
  skip_without_crypto()
  expect_storm_survived("ssh", shots = 15, pause = 0.3, far = local_far_host())
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
