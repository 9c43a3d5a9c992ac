detritus <- detritus_snapshot()

test_that("a map inside a map gives the right values", {
  got <- par_lapply(1:4, function(i) {
    par_lapply(1:3, function(j) i * 10L + j)
  }, .control = two_workers())
  expect_identical(got, lapply(1:4, function(i) lapply(1:3, function(j) i * 10L + j)))
})

test_that("three levels do not deadlock", {
  got <- par_lapply(1:2, function(i) {
    par_lapply(1:2, function(j) par_lapply(1:2, function(k) i + 10L * j + 100L * k))
  }, .control = two_workers())
  expect_identical(got[[2L]][[1L]][[2L]], 212L)
})

test_that("inside a worker the default is the worker's share of the cores", {
  got <- par_lapply(1:4, function(i) {
    par_lapply(1:8, function(j) Sys.getpid())
    run <- par_last()
    c(
      workers = nrow(run$workers), available = as.integer(workers_available()),
      share = as.integer(Sys.getenv("REGATTA_SHARE"))
    )
  }, .control = two_workers())
  share <- max(1L, as.integer(workers_available()) %/% 2L)
  for (seen in got) {
    expect_lte(seen[["workers"]], share)
    expect_equal(seen[["available"]], share)
    expect_equal(seen[["share"]], share)
  }
})

test_that("workers asked for by name inside a worker are given", {
  got <- par_lapply(1:2, function(i) {
    begun <- tempfile()
    dir.create(begun)
    on.exit(unlink(begun, recursive = TRUE))
    values <- par_lapply(1:4, function(j) {
      file.create(file.path(begun, Sys.getpid()))
      wait_until(length(list.files(begun)) == 2L, 60) # so that each of the two has run one
      Sys.getpid()
    }, .control = two_workers(workers = 2L, batch = 1L))
    c(length(unique(unlist(values))), Sys.getpid() %in% unlist(values))
  }, .control = two_workers())
  expect_equal(got, list(c(2, 0), c(2, 0)))
})

test_that("parallel::mclapply inside a worker and a worker inside mclapply work", {
  got <- par_lapply(1:2, function(i) {
    parallel::mclapply(1:3, function(j) i + j, mc.cores = 2L)
  }, .control = two_workers())
  expect_identical(got, lapply(1:2, function(i) lapply(1:3, function(j) i + j)))
  # In a session where processx has not taken SIGCHLD: it would keep parallel from its children.
  got <- fault_run(function() {
    control <- par_control(workers = 2L, progress = FALSE)
    parallel::mclapply(1:2, function(i) {
      par_lapply(1:3, function(j) i + j, .control = control)
    }, mc.cores = 2L)
  })$value
  expect_identical(got, lapply(1:2, function(i) lapply(1:3, function(j) i + j)))
})

test_that("mc.cores in a worker is held to the share", {
  got <- par_lapply(1:2, function(i) {
    c(getOption("mc.cores", NA), Sys.getenv("MC_CORES", NA))
  }, .control = two_workers())
  share <- max(1L, as.integer(workers_available()) %/% 2L)
  for (seen in got) {
    expect_true(all(is.na(seen) | as.integer(seen) <= share))
    expect_false(all(is.na(seen)))
  }
})

test_that("threads of BLAS, OpenMP and data.table are held to the share", {
  got <- par_lapply(1:2, function(i) {
    c(OMP = Sys.getenv("OMP_NUM_THREADS"), BLAS = Sys.getenv("OPENBLAS_NUM_THREADS"))
  }, .control = two_workers(threads = 1L))
  expect_identical(got[[1L]], c(OMP = "1", BLAS = "1"))
  skip_if_not_installed("data.table")
  threads <- data.table::getDTthreads()
  got <- par_lapply(1:2, function(i) {
    data.table::getDTthreads()
  }, .control = two_workers(threads = 1L))
  expect_identical(got, list(1L, 1L))
  expect_identical(data.table::getDTthreads(), threads)
})

test_that("an error deep inside arrives with both indices", {
  withr::local_dir(withr::local_tempdir())
  err <- expect_error(
    par_lapply(1:2, function(i) {
      par_lapply(1:3, function(j) if (i == 2L && j == 3L) stop("inmost") else j)
    }, .control = two_workers()),
    class = "regatta_error_element"
  )
  expect_identical(err$index, 2L)
  expect_s3_class(err$parent, "regatta_error_element")
  expect_identical(err$parent$index, 3L)
  expect_identical(conditionMessage(err$parent$parent), "inmost")
})

test_that("large values come up through two levels", {
  got <- par_lapply(1:2, function(i) {
    par_lapply(1:2, function(j) rep(i * 10 + j, 1e5), .control = two_workers())
  }, .control = two_workers())
  expect_identical(got[[2L]], list(rep(21, 1e5), rep(22, 1e5)))
})

test_that("a death deep inside is an error of the inner map only", {
  got <- par_lapply(1:2, function(i) {
    inner <- tryCatch(
      par_lapply(1:2, function(j) if (j == 2L) quit("no", 3) else j, .control = two_workers()),
      regatta_error_death = function(e) e$status
    )
    inner
  }, .control = two_workers())
  expect_identical(got, list(3L, 3L))
})

test_that("nested draws are the same for any number of workers", {
  draw <- function(workers) {
    par_lapply(1:3, function(i) {
      par_lapply(1:3, function(j) stats::runif(1))
    }, .control = two_workers(seed = 11L, workers = workers))
  }
  one <- draw(1L)
  expect_identical(draw(3L), one)
  expect_length(unique(unlist(one)), 9L)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
