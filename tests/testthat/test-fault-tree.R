detritus <- detritus_snapshot()

# A command that outlives its R code unless it is killed with the tree of its worker.
start_sleeper <- function(dir, i) {
  system(sprintf("sleep 300 & echo $! > '%s/sleeper.%d'", dir, i))
}

sleepers <- function(dir) {
  files <- list.files(dir, "^sleeper", full.names = TRUE)
  vapply(files, scan, 0, quiet = TRUE, USE.NAMES = FALSE)
}

expect_sleepers_gone <- function(dir, count) {
  pids <- sleepers(dir)
  expect_length(pids, count)
  gone <- tryCatch(
    wait_until(function() !any(vapply(pids, is_running, NA)), 60, "the end of the sleepers"),
    error = function(e) FALSE
  )
  for (pid in pids) tools::pskill(pid, tools::SIGKILL)
  expect_true(gone)
}

test_that("grandchildren go with a run that an error cancels", {
  skip_unless_linux()
  dir <- withr::local_tempdir()
  expect_error(
    par_lapply(1:2, function(i) {
      start_sleeper(dir, i)
      if (i == 1L) Sys.sleep(300)
      while (!file.exists(file.path(dir, "sleeper.1"))) Sys.sleep(0.01)
      stop("cancel the other")
    }, .control = two_workers(batch = 1L)),
    class = "regatta_error_element"
  )
  expect_sleepers_gone(dir, 2L)
})

test_that("grandchildren go with an element that is killed for its time", {
  skip_unless_linux()
  dir <- withr::local_tempdir()
  limits_from(function(i) i == 1 && all_written(dir, "sleeper.1"))
  got <- suppressWarnings(par_lapply(1:2, function(i) {
    if (i == 1L) {
      start_sleeper(dir, i)
      suspendInterrupts(repeat Sys.sleep(1))
    }
    i
  }, .control = two_workers(timeout = 0.5, errors = "collect")))
  expect_s3_class(got[[1L]], "regatta_error_timeout")
  expect_sleepers_gone(dir, 1L)
})

test_that("a command that an element waits for is ended with it", {
  skip_unless_linux()
  dir <- withr::local_tempdir()
  limits_from(function(i) i == 1 && all_written(dir, "sleeper.1"))
  got <- suppressWarnings(par_lapply(1:2, function(i) {
    if (i == 1L) system(sprintf("echo $$ > '%s/sleeper.1'; exec sleep 300", dir))
    i
  }, .control = two_workers(timeout = 0.5, errors = "collect")))
  expect_s3_class(got[[1L]], "regatta_error_timeout")
  expect_identical(got[[2L]], 2L)
  expect_sleepers_gone(dir, 1L)
})

test_that("grandchildren go with a worker that dies", {
  skip_unless_linux()
  dir <- withr::local_tempdir()
  got <- suppressWarnings(par_lapply(1:3, function(i) {
    if (i == 2L) {
      start_sleeper(dir, i)
      tools::pskill(Sys.getpid(), tools::SIGKILL)
    }
    i
  }, .control = two_workers(errors = "collect")))
  expect_s3_class(got[[2L]], "regatta_error_death")
  expect_sleepers_gone(dir, 1L)
})

test_that("a grandchild that holds stdout open delays nothing", {
  skip_unless_linux()
  dir <- withr::local_tempdir()
  got <- par_lapply(1:3, function(i) {
    start_sleeper(dir, i)
    i
  }, .control = two_workers())
  expect_identical(got, as.list(1:3))
  expect_sleepers_gone(dir, 3L)
})

# Programs of two elements, one of which has made itself a daemon, on workers that have had programs before.
expect_ends_programs_of_elements <- function(cl) {
  dir <- withr::local_tempdir()
  kept <- withr::local_tempdir()
  parallel::clusterCall(cl, start_sleeper, kept, 1L)
  withr::defer(for (pid in sleepers(kept)) tools::pskill(pid, tools::SIGKILL))
  limits_from(function(i) i == 1 && all_written(dir, c("sleeper.1", "sleeper.daemon")))
  got <- suppressWarnings(par_lapply(1:2, function(i) {
    start_sleeper(dir, i)
    system(sprintf("setsid sh -c 'echo $$ > %s/sleeper.daemon; exec sleep 300' > /dev/null 2>&1 &", dir))
    while (!isTRUE(file.size(file.path(dir, "sleeper.daemon")) > 0)) Sys.sleep(0.01)
    if (i == 1L) Sys.sleep(300)
    i
  }, .on = cl, .control = two_workers(workers = 1L, timeout = 1, errors = "collect")))
  expect_s3_class(got[[1L]], "regatta_error_timeout")
  expect_identical(got[[2L]], 2L)
  expect_sleepers_gone(dir, 3L)
  # What was there before is the user's.
  expect_true(is_running(sleepers(kept)))
}

test_that("what elements have started on a node or in a pool goes with the call, what was there before stays", {
  skip_unless_linux()
  expect_ends_programs_of_elements(local_cluster(1L))
  expect_ends_programs_of_elements(local_pool(1L))
})

test_that("what elements have started goes with a node that dies", {
  skip_unless_linux()
  dir <- withr::local_tempdir()
  got <- suppressWarnings(par_lapply(1:2, function(i) {
    start_sleeper(dir, i)
    if (i == 2L) tools::pskill(Sys.getpid(), tools::SIGKILL)
    i
  }, .on = local_cluster(1L), .control = two_workers(workers = 1L, errors = "collect")))
  expect_s3_class(got[[2L]], "regatta_error_death")
  expect_sleepers_gone(dir, 2L)
})

test_that("what elements have started on nodes goes with a session that dies", {
  skip_unless_linux()
  dir <- withr::local_tempdir()
  session <- local_session(function(dir, start_sleeper) {
    cl <- parallel::makePSOCKcluster(1L, rscript = file.path(R.home("bin"), "Rscript"))
    stream <- par_stream(1:2, function(i) {
      start_sleeper(dir, i)
      i
    }, .on = cl, .control = par_control(progress = FALSE))
    par_next(stream)
    par_next(stream)
    Sys.sleep(300)
  }, list(dir, start_sleeper))
  wait_until(function() file.exists(file.path(dir, "sleeper.2")) && file.size(file.path(dir, "sleeper.2")) > 0, 60)
  tools::pskill(session$process$get_pid(), tools::SIGKILL)
  expect_sleepers_gone(dir, 2L)
})

test_that("children of the session that no map has started are left alone", {
  skip_unless_linux()
  withr::local_preserve_seed()
  other <- processx::process$new("sleep", "300")
  withr::defer(other$kill())
  expect_error(
    par_lapply(1:4, function(i) stop("cancel"), .control = two_workers()),
    class = "regatta_error_element"
  )
  expect_true(other$is_alive())
})

test_that("nothing is left behind", {
  end_servers()
  expect_no_detritus(detritus)
})
