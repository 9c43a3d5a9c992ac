detritus <- detritus_snapshot()

count_workers <- function(...) {
  par_lapply(1:6, function(i) Sys.sleep(0.02), ...)
  length(unique(par_last()$workers$worker))
}

test_that("a number as `.on` is a number of workers here, for every verb", {
  withr::local_preserve_seed()
  expect_identical(count_workers(.on = 3), 3L)
  expect_identical(count_workers(.on = 2L, .control = par_control(workers = 2)), 2L)
  verbs <- list(
    function() par_vapply(1:3, function(i) i, 0, .on = 3),
    function() par_vapply(1:3, function(i) numeric(1e5), numeric(1e5), .on = 3),
    function() par_sapply(1:3, identity, .on = 3),
    function() par_mapply(function(a, b) a, 1:3, 1:3, .on = 3),
    function() par_reduce(1:3, identity, `+`, .on = 3),
    function() shm_fill(1000, identity, .on = 3),
    function() shm_map(1:1000, identity, .on = 3),
    function() shm_map2(1:1000, 1:1000, `+`, .on = 3)
  )
  for (verb in verbs) {
    verb()
    expect_identical(length(unique(par_last()$workers$worker)), 3L)
  }
  expect_identical(par_value(par_call(6 * 7, .on = 1)), 42)
  stream <- par_stream(1:2, identity, .on = 2)
  expect_identical(list(par_next(stream), par_next(stream)), list(1L, 2L))
})

test_that("options set the defaults of a session, and what a call says goes before them", {
  withr::local_preserve_seed()
  withr::local_options(regatta.on = 3)
  expect_identical(count_workers(), 3L)
  expect_identical(count_workers(.on = 2), 2L)
  expect_identical(count_workers(.on = NULL, .control = par_control(workers = 1)), 1L)
  expect_identical(count_workers(.control = par_control(workers = 2)), 2L)
  withr::local_options(regatta.on = NULL, regatta.control = par_control(workers = 2, seed = 3))
  expect_identical(count_workers(), 2L)
  expect_identical(par_last()$control$seed, 3L)
  expect_identical(count_workers(.on = 3), 3L)
  expect_identical(par_last()$control$seed, 3L)
  expect_identical(count_workers(.control = par_control(workers = 1)), 1L)
  withr::local_options(regatta.control = par_control(errors = "collect"))
  expect_true(is_par_error(suppressWarnings(par_sapply(list("x"), log))[[1L]]))
})

test_that("a worker has no default of the session for where to run, nor settings that are of one call", {
  withr::local_preserve_seed()
  dir <- withr::local_tempdir()
  of_session <- par_control(
    workers = 2, seed = 5, priority = 2:1, progress = FALSE, errors = "collect",
    dump_file = file.path(dir, "dump.rds")
  )
  expected <- par_control(seed = 5, errors = "collect")
  withr::local_options(regatta.on = 2, regatta.control = of_session, regatta.dump_file = file.path(dir, "dump.rds"))
  f <- function(i) options("regatta.on", "regatta.control", "regatta.dump_file")
  expected <- list(regatta.control = expected, regatta.dump_file = NULL, regatta.on = NULL)
  cluster <- cluster_local(2)
  withr::defer(parallel::stopCluster(cluster))
  # one with defaults of its own, as from a profile
  own <- parallel::makePSOCKcluster(2L)
  withr::defer(parallel::stopCluster(own))
  profile <- quote(options(regatta.on = 3, regatta.control = list(1), regatta.dump_file = "theirs.rds"))
  parallel::clusterCall(own, eval, profile)
  for (on in list(2, cluster, own)) {
    of_session$checkpoint <- withr::local_tempfile()
    options(regatta.control = of_session)
    expect_identical(par_lapply(1:2, f, .on = on)[[2L]][names(expected)], expected)
  }
  expect_identical(parallel::clusterCall(own, getOption, "regatta.on")[[1L]], 3)
})

test_that("a cluster is a session's default too", {
  withr::local_preserve_seed()
  cluster <- parallel::makePSOCKcluster(1L)
  withr::defer(parallel::stopCluster(cluster))
  parallel::clusterCall(cluster, function(paths) .libPaths(paths), .libPaths())
  withr::local_options(regatta.on = cluster)
  par_lapply(1:2, identity)
  expect_identical(par_last()$executor, "cluster")
})

test_that("a part of a cluster must have nodes, each once, and a wrong one leaves the cluster as it is", {
  withr::local_preserve_seed()
  for (cluster in list(local_pool(2L), local_cluster(2L))) {
    expect_snapshot(error = TRUE, {
      par_lapply(1:2, identity, .on = cluster[0])
      par_lapply(1:2, identity, .on = cluster[3])
      par_lapply(1:2, identity, .on = cluster[c(2, 1, 2)])
      par_call(1, .on = cluster[0])
    })
    expect_error(par_lapply(1:2, identity, .on = cluster[c(1, 1)]), class = "regatta_error_argument")
    expect_identical(unlist(par_lapply(1:2, function(i) i, .on = cluster[2])), 1:2)
    expect_identical(unlist(par_lapply(1:2, function(i) i, .on = cluster[2:1])), 1:2)
    expect_identical(nrow(par_last()$workers), 2L)
  }
  withr::local_options(regatta.on = cluster[0])
  expect_error(par_lapply(1:2, identity), "options(regatta.on = )", fixed = TRUE)
})

test_that("what is no place to run is refused in words, and an option by its name", {
  withr::local_preserve_seed()
  plan <- structure(function(...) NULL, class = c("multisession", "future", "function"))
  expect_snapshot(error = TRUE, {
    par_lapply(1:2, identity, .on = plan)
    par_lapply(1:2, identity, .on = "4")
    par_lapply(1:2, identity, .on = c("alpha", "beta"))
    par_lapply(1:2, identity, .on = 0)
    par_lapply(1:2, identity, .on = 1:2)
    par_lapply(1:2, identity, .on = par_control())
    par_lapply(1:2, identity, .on = 4, .control = par_control(workers = 2))
    par_lapply(1:2, identity, .control = 2)
    par_lapply(1:2, identity, .control = list(workers = 2))
  })
  for (bad in list(plan, "4", list(), TRUE, 0, NA, Inf)) {
    expect_error(par_lapply(1:2, identity, .on = bad), class = "regatta_error_argument")
  }
  withr::local_options(regatta.on = "alpha", regatta.control = 2)
  expect_snapshot(error = TRUE, {
    par_lapply(1:2, identity, .control = par_control())
    par_lapply(1:2, identity)
  })
})

test_that("nodes of this package under other classes, or of several clusters, are refused", {
  withr::local_preserve_seed()
  one <- cluster_local(1L)
  other <- cluster_local(1L)
  withr::defer(for (cl in list(one, other)) parallel::stopCluster(cl))
  foreign <- structure(list(NULL), class = "node")
  for (nodes in list(c(one, other), unclass(one), c(unclass(one), list(foreign)))) {
    for (class in list(class(one), c("SOCKcluster", "cluster"))) {
      if (identical(nodes, unclass(one)) && identical(class, class(one))) next
      joined <- structure(nodes, class = class)
      for (call in list(
        function() par_lapply(1:3, identity, .on = joined), function() par_call(1, .on = joined),
        function() par_stream(1:3, identity, .on = joined)
      )) {
        expect_error(call(), "put together of nodes", class = "regatta_error_argument")
      }
    }
  }
  expect_identical(par_lapply(1:2, identity, .on = one), list(1L, 2L))
})

test_that("nothing is left behind", {
  end_servers()
  expect_no_detritus(detritus)
})
