helpers <- c("wait", "detritus", "fault", "remote", "fault-storm")
for (name in helpers) {
  source(file.path("..", "testthat", paste0("helper-", name, ".R")), local = TRUE)
}
detritus <- detritus_snapshot()

test_that("clusters survive thousands of random signals", {
  skip_unless_linux()
  for (kind in c("forkserver", "parallel")) expect_storm_survived(kind, shots = 1000)
  # A host is given up after some losses: more clusters instead of more signals.
  if (!.Call(regatta:::ffi_crypto_available)) skip("built without libsodium")
  for (k in 1:50) expect_storm_survived("ssh", shots = 8, pause = 0.3)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
