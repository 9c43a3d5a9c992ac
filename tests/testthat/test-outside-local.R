# What a session holds after each kind of call on workers that stand ready, seen from outside of the package:
# descriptors, mappings, blocks of memory, processes, files. A first call may make what the session keeps;
# after a second everything is as after the first.

detritus <- detritus_snapshot()

for (end in outside_ends) {
  test_that(sprintf("workers that stand ready leave nothing of calls that end so: %s", end), {
    skip_unless_linux()
    expect_nothing_more(outside_all_verbs(), end, local_pool(), workers = NULL)
  })
}

test_that("nothing is left behind", {
  end_servers()
  expect_no_detritus(detritus)
})
