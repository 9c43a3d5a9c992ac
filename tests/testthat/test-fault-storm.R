detritus <- detritus_snapshot()

for (kind in c("forkserver", "parallel")) test_that(paste("a cluster survives random signals:", kind), {
  skip_unless_linux()
  expect_storm_survived(kind, shots = 6)
})

test_that("a cluster of other hosts survives random signals", {
  skip_unless_linux()
  if (!.Call(regatta:::ffi_crypto_available)) skip("built without libsodium")
  expect_storm_survived("ssh", shots = 4, pause = 0.3)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
