detritus <- detritus_snapshot()

test_that("processx and system() keep their children's statuses beside a map", {
  withr::local_preserve_seed()
  quick <- processx::process$new("sh", c("-c", "exit 7"))
  slow <- processx::process$new("sleep", "300")
  withr::defer(slow$kill())
  got <- par_lapply(1:6, function(i) {
    Sys.sleep(0.05)
    i
  }, .control = two_workers(batch = 1L))
  expect_identical(got, as.list(1:6))
  wait_until(function() !quick$is_alive(), 60, "the end of the process")
  expect_identical(quick$get_exit_status(), 7L)
  expect_true(slow$is_alive())
  expect_identical(system("exit 3"), 3L)
})

# Apart from processx: these two lose each other's statuses without a map, too.
test_that("a job of the package parallel that ends during a map is collected by it", {
  got <- fault_run(function() {
    gate <- tempfile()
    job <- parallel::mcparallel({
      while (!file.exists(gate)) Sys.sleep(0.01)
      "from mcparallel"
    })
    par_lapply(1:4, function(i) {
      file.create(gate)
      Sys.sleep(0.1)
    }, .control = par_control(workers = 2L, batch = 1L, progress = FALSE))
    parallel::mccollect(job)[[1L]]
  })$value
  expect_identical(got, "from mcparallel")
})

test_that("a child of another package that ends during a map is collected by its package", {
  withr::local_preserve_seed()
  gate <- withr::local_tempfile()
  wait_for_gate <- sprintf("while [ ! -e '%s' ]; do sleep 0.01; done; exit 5", gate)
  other <- processx::process$new("sh", c("-c", wait_for_gate))
  withr::defer(other$kill())
  par_lapply(1:4, function(i) {
    file.create(gate)
    Sys.sleep(0.2)
  }, .control = two_workers(batch = 1L))
  wait_until(function() !other$is_alive(), 60, "the end of the process")
  expect_identical(other$get_exit_status(), 5L)
})

test_that("processx, callr, parallel and system() work inside an element", {
  got <- par_lapply(1:4, function(i) {
    switch(i,
      processx::run("sh", c("-c", "echo out; exit 3"), error_on_status = FALSE)[c(
        "status", "stdout"
      )],
      unlist(parallel::mclapply(1:3, function(j) j * 2, mc.cores = 2L)),
      system("exit 9"),
      system("echo intern", intern = TRUE)
    )
  }, .control = two_workers())
  expect_identical(got, list(list(status = 3L, stdout = "out\n"), c(2, 4, 6), 9L, "intern"))
})

test_that("a forked child of an element can be killed without harm to its worker", {
  skip_unless_linux()
  got <- par_lapply(1:4, function(i) {
    job <- parallel::mcparallel(Sys.sleep(300))
    tools::pskill(job$pid, tools::SIGTERM)
    suppressWarnings(parallel::mccollect(job))
    c(i, Sys.getpid())
  }, .control = two_workers(workers = 1L))
  expect_identical(lapply(got, `[[`, 1L), as.list(1:4))
  expect_length(unique(vapply(got, `[[`, 0L, 2L)), 1L)
})

test_that("a SIGCHLD handler that takes every child's status loses no result", {
  skip_unless_linux()
  library <- fault_compile(c(
    "#include <signal.h>",
    "#include <sys/wait.h>",
    "static void take(int s) { (void)s; while (waitpid(-1, 0, WNOHANG) > 0) {} }",
    "void greedy(void) { signal(SIGCHLD, take); }",
    "void ignore(void) { signal(SIGCHLD, SIG_IGN); }"
  ), "greedy")
  for (how in c("greedy", "ignore")) {
    got <- fault_run(function(library, how) {
      dyn.load(library)
      .C(how)
      control <- par_control(workers = 2L, progress = FALSE, errors = "collect")
      values <- par_lapply(1:20, function(i) rep(i + 0, 2e4), .control = control)
      dead <- suppressWarnings(par_lapply(1:4, function(i) {
        if (i == 2L) tools::pskill(Sys.getpid(), tools::SIGKILL)
        i
      }, .control = control))
      list(sums = vapply(values, sum, 0), rest = dead[-2L], class = class(dead[[2L]]))
    }, list(library = library, how = how))$value
    expect_identical(got$sums, 1:20 * 2e4)
    expect_identical(got$rest, list(1L, 3L, 4L))
    expect_true("regatta_error_death" %in% got$class)
  }
})

test_that("a map leaves the disposition of SIGCHLD and other signals as it was", {
  skip_unless_linux()
  masks <- function() {
    grep("^Sig(Blk|Ign|Cgt)", readLines("/proc/self/status"), value = TRUE)
  }
  par_lapply(1:2, identity, .control = two_workers())
  before <- masks()
  par_lapply(1:4, identity, .control = two_workers())
  suppressWarnings(
    par_lapply(1:2, function(i) stop("x"), .control = two_workers(errors = "collect"))
  )
  expect_identical(masks(), before)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
