detritus <- detritus_snapshot()

test_that("a worker is a child of the session, and has its memory", {
  skip_unless_linux()
  here <- new.env()
  got <- par_lapply(1:4, function(i) {
    list(parent = parent_pid(Sys.getpid()), address = rlang::obj_address(here))
  }, .control = two_workers())
  expect_identical(got, rep(list(list(parent = Sys.getpid(), address = rlang::obj_address(here))), 4L))
})

test_that("idle workers are collected after a run without another call, and their peak memory is known", {
  skip_unless_linux()
  pids <- unlist(par_lapply(1:4, function(i) Sys.getpid(), .control = two_workers(batch = 1L)))
  workers <- par_last()$workers
  expect_true(all(pids %in% workers$pid))
  expect_true(all(workers$peak_memory > 1e6))
  wait_until(function() !any(dir.exists(file.path("/proc", workers$pid))), 60, "the end of the workers")
})

test_that("a worker that has started something is waited for, with all of it", {
  skip_unless_linux()
  started <- par_call({
    system("sleep 313 > /dev/null & echo $!", intern = TRUE)
  }, .control = two_workers(workers = 1L))
  pid <- as.integer(par_value(started))
  # It was sent SIGKILL before the value came; on busy cores it gets there a moment later.
  wait_until(function() !is_running(pid), 60, "the end of what the worker started")
})

test_that("a small map loads no package that is for the words of errors and for progress", {
  code <- paste(
    "invisible(regatta::par_lapply(1:4, identity, .control = regatta::par_control(workers = 2, seed = 1)))",
    "cat(length(intersect(c('rlang', 'cli'), loadedNamespaces())))", sep = "; "
  )
  expect_identical(session_prints(code), "0")
})

test_that("what a worker needs is read before the fork, what tells of conditions and errors after the first of them", {
  kinds_read <- function(fun) {
    fault_run(function(fun) {
      control <- regatta::par_control(workers = 2L, progress = FALSE, errors = "collect", dump = "no")
      suppressMessages(suppressWarnings(regatta::par_lapply(1:2, fun, .control = control)))
      regatta:::the$code_loaded
    }, list(fun = fun))$value
  }
  expect_identical(kinds_read(identity), "workers")
  expect_identical(kinds_read(function(i) message("yes")), c("workers", "conditions"))
  expect_identical(kinds_read(function(i) stop("no")), c("workers", "conditions", "errors"))
  code <- lapply(regatta:::the$code, `[[`, "own")
  expect_identical(anyDuplicated(unlist(code)), 0L)
  expect_true(all(c("fork_worker_main", "evaluate_all", "leave_worker") %in% code$workers))
  expect_true("without_outer_call" %in% code$conditions)
  expect_true("capture_error" %in% code$errors)
})

test_that("a worker whose elements tell nothing reads no function that its session has not read", {
  more <- fault_run(function() {
    read <- function() {
      home <- asNamespace("regatta")
      names <- ls(home, all.names = TRUE)
      names[!rlang::env_binding_are_lazy(home, names)]
    }
    control <- regatta::par_control(workers = 2L, progress = FALSE)
    setdiff(unlist(regatta::par_lapply(1:4, function(i) read(), .control = control)), read())
  })$value
  expect_identical(more, character())
})

test_that("a run that is over leaves no memory of its own to processes that are forked after it", {
  skip_unless_linux()
  shared <- function() sum(grepl("/dev/zero|regatta-run", readLines("/proc/self/maps")))
  invisible(gc())
  before <- shared()
  for (k in 1:5) {
    run <- par_call(k, .control = two_workers(workers = 1L))
    expect_identical(par_value(run), k)
    expect_identical(par_lapply(1:2, identity, .control = two_workers()), list(1L, 2L))
  }
  expect_identical(shared(), before)
})

test_that("what a driver still asks for when its run is over is in vain", {
  handle <- par_call(1, .control = two_workers(workers = 1L))
  par_value(handle)
  executor <- handle$run$executor
  expect_true(all(lengths(executor$running()) == 0L))
  expect_false(executor$interrupt(1L, 1))
  expect_false(executor$signal(1L, 9L))
  for (asked in list(executor$submit(1, 1L, TRUE), executor$withdraw(1), executor$limit(1L), executor$hold(1L))) {
    expect_null(asked)
  }
})

test_that("a function of the workspace that is mapped again is compiled for all workers, unless R would not", {
  skip_if(compiler::enableJIT(-1L) < 1L, "R's compiler is switched off")
  in_workspace <- function(fun) {
    environment(fun) <- globalenv()
    fun
  }
  mapped <- function(fun) unlist(par_lapply(1L, fun, .control = two_workers(workers = 1L)))
  fun <- in_workspace(function(i) typeof(.Internal(bodyCode(sys.function()))))
  expect_identical(mapped(fun), "language")
  expect_identical(mapped(fun), "bytecode")
  expect_identical(mapped(fun), "bytecode")
  expect_identical(typeof(.Internal(bodyCode(fun))), "language")
  other <- in_workspace(function(i) {
    if (i > 1L) browser()
    typeof(.Internal(bodyCode(sys.function())))
  })
  for (k in 1:2) expect_identical(mapped(other), "language")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
