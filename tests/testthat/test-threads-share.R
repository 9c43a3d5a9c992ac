detritus <- detritus_snapshot()

# Threads of a real OpenMP team: .C("team", n) has n threads, .C("team", 0) as many as allowed.
openmp_library <- function(env = parent.frame()) {
  skip_unless_linux()
  fault_compile(c(
    "#include <omp.h>",
    "void team(int *n) {",
    "  int size = 0, want = *n > 0 ? *n : omp_get_max_threads();",
    "  #pragma omp parallel num_threads(want) reduction(+:size)",
    "  size++;",
    "  *n = size;",
    "}"
  ), "team", flags = "-fopenmp", env = env)
}

# Runs in a new session: `before` in the parent, then, in a forked child, threads_share(share) and
# `child`, whose value is returned; "stuck" if the child does not end.
in_child <- function(before, share, child, args = list(), settle = TRUE, env = character()) {
  environment(before) <- environment(child) <- globalenv()
  fault_run(function(before, share, child, args, settle) {
    do.call(before, args)
    if (settle) .Call(regatta:::ffi_threads_share_settle)
    job <- parallel::mcparallel({
      Sys.unsetenv("REGATTA_SHARE")
      openmp <- regatta:::threads_share(share)
      list(openmp = openmp, value = do.call(child, args))
    })
    got <- parallel::mccollect(job, wait = FALSE, timeout = 20)
    if (is.null(got)) {
      tools::pskill(job$pid, tools::SIGKILL)
      parallel::mccollect(job)
      return("stuck")
    }
    parallel::mccollect(job)
    got[[1L]]
  }, list(before = before, share = share, child = child, args = args, settle = settle),
  env = env)$value
}

load_and_use <- function(library) {
  dyn.load(library)
  .C("team", 4L)[[1L]]
}

test_that("a child forked from a live OpenMP pool is held to one thread", {
  got <- in_child(load_and_use, 3L, function(library) .C("team", 0L)[[1L]],
    list(openmp_library()), settle = FALSE)
  expect_identical(got, list(openmp = 1L, value = 1L))
})

test_that("after the pool was ended a child has its share of OpenMP threads", {
  library <- openmp_library()
  got <- in_child(load_and_use, 3L, function(library) {
    c(.C("team", 0L)[[1L]], .C("team", 5L)[[1L]])
  }, list(library), env = c(OMP_NUM_THREADS = "4"))
  skip_if(identical(got$openmp, 1L), "an OpenMP library that cannot end its threads")
  expect_identical(got, list(openmp = 3L, value = c(3L, 5L)))
})

test_that("ending the pool leaves the parent able to use OpenMP", {
  got <- fault_run(function(library) {
    dyn.load(library)
    team <- function() .C("team", 4L)[[1L]]
    first <- team()
    settled <- .Call(regatta:::ffi_threads_share_settle)
    again <- .Call(regatta:::ffi_threads_share_settle)
    c(first, team(), settled, again)
  }, list(openmp_library()))$value
  expect_identical(got, c(4L, 4L, 1L, 1L))
})

test_that("a child that lacks its pool's threads does not wait for them when it forks", {
  got <- in_child(load_and_use, 2L, function(library) {
    settled <- .Call(regatta:::ffi_threads_share_settle)
    job <- parallel::mcparallel({
      regatta:::threads_share(2L)
      .C("team", 0L)[[1L]]
    })
    list(settled = settled, grandchild = parallel::mccollect(job)[[1L]])
  }, list(openmp_library()), settle = FALSE)
  expect_identical(got$value, list(settled = FALSE, grandchild = 1L))
})

test_that("OpenBLAS in a child has its share of threads, and starts none before it has work", {
  skip_unless_linux()
  places <- c(Sys.getenv("REGATTA_OPENBLAS"), Sys.glob("/usr/lib/*/openblas-pthread"))
  found <- file.path(places, "libopenblas.so.0")
  found <- found[file.exists(found)]
  if (length(found) == 0L) skip("no OpenBLAS with threads")
  got <- in_child(function() {
    x <<- matrix(as.double(1:250000), 500L)
    y <<- x %*% x
  }, 1L, function() {
    tasks <- function() length(list.files("/proc/self/task"))
    idle <- tasks()
    same <- identical(x %*% x, y) || isTRUE(all.equal(x %*% x, y))
    list(
      threads = regatta:::threads_share_now()[["openblas"]], idle = idle, busy = tasks(),
      same = same
    )
  }, env = c(LD_PRELOAD = found[[1L]], OPENBLAS_NUM_THREADS = "4"))
  expect_identical(got$value, list(threads = 1L, idle = 1L, busy = 1L, same = TRUE))
})

test_that("data.table is held to the share", {
  skip_if_not_installed("data.table")
  got <- in_child(function() loadNamespace("data.table"), 1L, function() {
    x <- data.table::data.table(g = rep(1:100, 1000), v = 1)
    c(data.table::getDTthreads(), nrow(x[order(-g), sum(v), by = g]))
  })
  expect_identical(got$value, c(1L, 100L))
})

variables <- c(
  "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
  "VECLIB_MAXIMUM_THREADS", "RCPP_PARALLEL_NUM_THREADS", "REGATTA_THREADS",
  "R_DATATABLE_NUM_THREADS", "MC_CORES"
)

test_that("programs that a worker starts see the share, and the session is untouched", {
  before <- Sys.getenv(variables, NA)
  got <- in_child(function(variables) Sys.unsetenv(variables), 2L, function(variables) {
    list(
      program = vapply(variables, function(name) {
        system2("printenv", name, stdout = TRUE)
      }, "", USE.NAMES = FALSE),
      option = getOption("mc.cores")
    )
  }, list(variables))
  expect_identical(got$value, list(program = rep("2", length(variables)), option = 2L))
  expect_identical(Sys.getenv(variables, NA), before)
})

test_that("who is set to fewer threads keeps that", {
  got <- in_child(function(variables) options(mc.cores = 1L), 3L, function(variables) {
    list(getOption("mc.cores"), Sys.getenv(c("OMP_NUM_THREADS", "MKL_NUM_THREADS")))
  }, list(variables), env = c(OMP_NUM_THREADS = "2,1", MKL_NUM_THREADS = "many"))
  expect_identical(got$value, list(1L, c(OMP_NUM_THREADS = "2,1", MKL_NUM_THREADS = "3")))
})

test_that("a worker's processes are its share of the cores, whatever its threads are", {
  got <- in_child(function() NULL, 2L, function() {
    Sys.setenv(REGATTA_SHARE = "5")
    Sys.unsetenv(c("MC_CORES", "OMP_NUM_THREADS"))
    options(mc.cores = NULL)
    regatta:::threads_share(1L)
    c(Sys.getenv("MC_CORES"), getOption("mc.cores"), Sys.getenv("OMP_NUM_THREADS"))
  })
  expect_identical(got$value, c("5", "5", "1"))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
