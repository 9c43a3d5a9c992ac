# What a session holds after each kind of call, seen from outside of the package: descriptors, mappings,
# blocks of memory, processes, files. A first call may make what the session keeps for the next ones;
# after a second everything is as after the first.

detritus <- detritus_snapshot()

for (end in outside_ends) {
  test_that(sprintf("forked workers leave nothing of calls that end so: %s", end), {
    skip_unless_linux()
    expect_nothing_more(c(outside_all_verbs(), list(mclapply = outside_mclapply(2L))), end)
  })
}

for (end in setdiff(outside_ends, c("killed", "limit"))) {
  test_that(sprintf("the session as its own worker keeps nothing of calls that end so: %s", end), {
    skip_unless_linux()
    expect_nothing_more(list(mclapply = outside_mclapply(1L)), end)
  })
}

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
