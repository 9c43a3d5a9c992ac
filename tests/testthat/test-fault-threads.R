detritus <- detritus_snapshot()

test_that("a child may use OpenMP after the parent has used it", {
  skip_unless_linux()
  library <- fault_compile(c(
    "#include <omp.h>",
    "void team(int *n, int *size, double *sum) {",
    "  double s = 0; int t = 0;",
    "  #pragma omp parallel for reduction(+:s)",
    "  for (int i = 0; i < *n; i++) s += i;",
    "  #pragma omp parallel",
    "  { _Pragma(\"omp single\") t = omp_get_num_threads(); }",
    "  *sum = s; *size = t;",
    "}"
  ), "team", flags = "-fopenmp")
  for (workers in 1:2) {
    got <- fault_run(function(library, workers) {
      dyn.load(library)
      team <- function() .C("team", 1000L, size = 0L, sum = 0)[c("size", "sum")]
      parent <- team()
      children <- par_lapply(1:4, function(i) team(),
        .control = par_control(workers = workers, progress = FALSE, timeout = 30, dump = "no"))
      list(parent = parent, children = children, after = team())
    }, list(library = library, workers = workers), env = c(OMP_NUM_THREADS = "4"))$value
    expect_identical(got$parent, list(size = 4L, sum = 499500))
    expect_identical(got$after, got$parent)
    share <- max(1L, as.integer(workers_available()) %/% workers)
    for (child in got$children) {
      expect_identical(child$sum, 499500)
      expect_lte(child$size, share)
    }
  }
})

multiply <- function(session_env) {
  fault_run(function() {
    x <- matrix(stats::rnorm(400 * 400), 400L)
    parent <- x %*% x
    threads <- length(list.files("/proc/self/task"))
    children <- par_lapply(1:4, function(i) max(abs(x %*% x - parent)),
      .control = par_control(workers = 2L, progress = FALSE, timeout = 60, dump = "no"))
    after <- max(abs(x %*% x - parent))
    list(children = unlist(children), after = after, threads = threads)
  }, env = session_env)$value
}

test_that("a child may multiply matrices after the parent has", {
  skip_unless_linux()
  got <- multiply(c(OMP_NUM_THREADS = "4"))
  expect_lt(max(got$children, got$after), 1e-8)
})

test_that("a child may use OpenBLAS after the parent has started its threads", {
  skip_unless_linux()
  places <- c(Sys.getenv("REGATTA_OPENBLAS"), Sys.glob("/usr/lib/*/openblas-pthread"))
  found <- places[file.exists(file.path(places, "libblas.so.3"))]
  if (length(found) == 0L) skip("no OpenBLAS with threads")
  got <- multiply(c(
    LD_PRELOAD = file.path(found[[1L]], "libblas.so.3"), OPENBLAS_NUM_THREADS = "4"
  ))
  expect_gt(got$threads, 1L)
  expect_lt(max(got$children, got$after), 1e-8)
})

test_that("a session that hosts an IDE's threads is refused or warned", {
  skip_unless_linux()
  got <- fault_run(function() {
    seen <- NULL
    control <- par_control(workers = 2L, progress = FALSE, dump = "no")
    run <- function() {
      withCallingHandlers(
        tryCatch(par_lapply(1:2, identity, .control = control), error = identity),
        warning = function(w) {
          seen <<- c(seen, list(w))
          invokeRestart("muffleWarning")
        },
        message = function(m) {
          seen <<- c(seen, list(m))
          invokeRestart("muffleMessage")
        }
      )
    }
    list(value = run(), again = run(), seen = seen)
  }, env = c(RSTUDIO = "1"))$value
  told <- c(got$seen, Filter(function(x) inherits(x, "error"), list(got$value)))
  expect_gt(length(told), 0L)
  expect_match(conditionMessage(told[[1L]]), "RStudio")
  expect_match(class(told[[1L]]), "^regatta_", all = FALSE)
  expect_true(inherits(got$value, "regatta_error") || identical(got$value, as.list(1:2)))
})

test_that("the threads of the session are the same after a map", {
  skip_unless_linux()
  tasks <- function() length(list.files("/proc/self/task"))
  par_lapply(1:2, identity, .control = two_workers())
  before <- tasks()
  for (k in 1:5) par_lapply(1:2, identity, .control = two_workers())
  # One collects the workers that are still going, and ends with the last.
  wait_until(tasks() <= before)
  expect_lte(tasks(), before)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
