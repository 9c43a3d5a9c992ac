helpers <- c("wait", "detritus", "fault", "remote", "remote-net", "fault-storm")
for (name in helpers) {
  source(file.path("..", "testthat", paste0("helper-", name, ".R")), local = TRUE)
}
detritus <- detritus_snapshot()

test_that("clusters survive thousands of random signals", {
  skip_unless_linux()
  for (kind in c("forkserver", "parallel")) expect_storm_survived(kind, shots = 1000)
  skip_without_crypto()
  expect_storm_survived("ssh", shots = 500, pause = 0.2)
})

test_that("hosts survive hundreds of random signals and cuts of the link between them", {
  skip_without_crypto()
  expect_storm_survived("ssh", shots = 200, pause = 0.2, far = local_far_host())
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
