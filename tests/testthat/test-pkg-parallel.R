detritus <- detritus_snapshot()

test_that("makeCluster() of package parallel makes clusters of this package where R has a register of types", {
  if (is.null(parallel_registers())) {
    skip("this R has no register of types of clusters")
  }
  expect_true("regatta" %in% parallel::registerClusterType())
  cluster <- parallel::makeCluster(2, type = "regatta")
  withr::defer(parallel::stopCluster(cluster))
  expect_s3_class(cluster, "regatta_cluster")
  expect_identical(parallel::parLapply(cluster, 1:3, function(i) i^2), list(1, 4, 9))
})

test_that("the type is registered once, for workers here and on hosts", {
  known <- list()
  register <- function(type, starter) {
    if (missing(type)) {
      return(c("PSOCK", names(known)))
    }
    known[[type]] <<- c(known[[type]], starter)
  }
  parallel_register(register)
  parallel_register(register)
  expect_length(known$regatta, 1L)
  cluster <- known$regatta[[1L]](c("localhost", "localhost"))
  expect_length(cluster, 2L)
  parallel::stopCluster(cluster)
  skip_unless_linux()
  skip_without_crypto()
  error <- expect_error(
    known$regatta[[1L]](c("a", "b", "a"), ssh = "false", tunnel = FALSE, address = "127.0.0.1"),
    class = "regatta_error_start"
  )
  expect_match(conditionMessage(error), "any of 3 workers")
  end_servers()
})

test_that("to register the type where objects of the package are attached is no warning", {
  # As R's own: any object of that name is taken for a registration.
  attached <- list2env(list(regatta = function() "the plan of package future"))
  starters <- new.env(parent = attached)
  register <- function(type, starter) {
    if (missing(type)) {
      return(names(starters))
    }
    if (exists(type, starters)) warning("replacing registration")
    assign(type, starter, starters)
  }
  expect_no_warning(parallel_register(register))
  expect_named(starters, "regatta")
  got <- fault_run(function() {
    options(warn = 2)
    loaded <- isNamespaceLoaded("parallel")
    loadNamespace("parallel")
    list(loaded, is.function(regatta))
  })
  # A hook that fails is told of there, and ends nothing.
  expect_identical(got$value, list(FALSE, TRUE))
  expect_identical(got$stderr, character())
})

test_that("a type that was registered before the namespace was unloaded makes clusters of the one that is loaded", {
  got <- fault_run(function() {
    kept <- NULL
    getFromNamespace("parallel_register", "regatta")(function(type, starter) {
      if (missing(type)) "PSOCK" else kept <<- starter
    })
    unloadNamespace("regatta")
    loadNamespace("regatta")
    utils::assignInNamespace("cluster_local", function(workers) "of the new one", "regatta")
    kept(1)
  })
  expect_identical(got$value, "of the new one")
})

test_that("loading the namespace a second time is no warning", {
  got <- fault_run(function() {
    options(warn = 2)
    unloadNamespace("regatta")
    loadNamespace("regatta")
    "regatta" %in% loadedNamespaces()
  })
  expect_true(got$value)
})

test_that("nothing is left behind", {
  end_servers()
  expect_no_detritus(detritus)
})
