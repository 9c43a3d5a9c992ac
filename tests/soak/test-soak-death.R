detritus <- detritus_snapshot()

test_that("values are right and nothing hangs while workers are killed for two minutes", {
  skip_unless_linux()
  skip_unless_command("shuf")
  for (retries in c(0L, 1000L)) {
    expect_unharmed(20, size = 1, n = 2000, retries = retries)
    expect_unharmed(20, size = 1e4, n = 1000, retries = retries)
    expect_unharmed(20, size = 2e5, n = 100, retries = retries)
  }
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
