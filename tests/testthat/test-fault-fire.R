detritus <- detritus_snapshot()

test_that("whenever a worker is killed, its element alone is lost or run again", {
  skip_unless_linux()
  skip_unless_command("shuf")
  expect_unharmed(3, size = 1e4, n = 1000, retries = 0L)
  expect_unharmed(5, size = 1, n = 2000, retries = 1000L)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
