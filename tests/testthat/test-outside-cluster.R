# What a session holds after each kind of call on the nodes of a cluster, seen from outside of the package:
# descriptors, mappings, blocks of memory, processes, files. A first call may make what the session keeps;
# after a second everything is as after the first.

detritus <- detritus_snapshot()

for (end in setdiff(outside_ends, "killed")) {
  test_that(sprintf("nodes of a cluster leave nothing of calls that end so: %s", end), {
    skip_unless_linux()
    expect_nothing_more(outside_all_verbs(), end, local_cluster(), workers = NULL)
  })
}

test_that("a cluster of which a node was killed leaves nothing", {
  skip_unless_linux()
  one <- function(end, on, control) {
    cluster <- cluster_start(2L)
    on.exit(cluster$stop())
    outside_verbs$par_lapply(end, cluster$cluster, control)
  }
  expect_nothing_more(list(par_lapply = one), "killed", workers = NULL)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
