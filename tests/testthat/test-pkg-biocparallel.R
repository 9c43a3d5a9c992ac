skip_if_not_installed("BiocParallel", "1.32.0")
suppressPackageStartupMessages(loadNamespace("BiocParallel"))
detritus <- detritus_snapshot()

bp <- function(name) getExportedValue("BiocParallel", name)
bplapply <- function(...) bp("bplapply")(...)

test_that("elements are evaluated in workers, and what BiocParallel has around them works", {
  param <- RegattaParam(2)
  expect_identical(bp("bpnworkers")(param), 2L)
  expect_false(bp("bpisup")(param))
  pids <- unlist(bplapply(1:4, function(i) Sys.getpid(), BPPARAM = param))
  expect_false(Sys.getpid() %in% pids)
  expect_length(unique(pids), 2L)
  expect_identical(bplapply(c(a = 1, b = 2), sqrt, BPPARAM = param), list(a = 1, b = sqrt(2)))
  expect_identical(bp("bpvec")(1:10, function(x) x * 2L, BPPARAM = param), 2L * 1:10)
  expect_identical(bp("bpmapply")(function(x, y) x + y, 1:3, 4:6, BPPARAM = param), c(5L, 7L, 9L))
  count <- 0
  more <- function() if (count < 5) count <<- count + 1
  squares <- bp("bpiterate")(more, function(x) x^2, REDUCE = `+`, init = 0, BPPARAM = param)
  expect_identical(squares, 55)
})

test_that("a param is printed as BiocParallel's are, in a session that has not attached it", {
  expect_false("package:BiocParallel" %in% search())
  shown <- function(param) capture.output(print(param))
  param <- RegattaParam(2, jobname = "here", exportvariables = TRUE)
  of_snow <- sub("SnowParam", "RegattaParam", shown(bp("SnowParam")(2, jobname = "here")))
  expect_identical(shown(param), setdiff(of_snow, "  cluster type: SOCK"))
  expect_identical(shown(param$copy()), shown(param))
})

test_that("a param that is up stays up, and one that is stopped has no workers", {
  param <- RegattaParam(2)
  bp("bpstart")(param)
  expect_true(bp("bpisup")(param))
  expect_identical(bplapply(1:3, identity, BPPARAM = param), list(1L, 2L, 3L))
  expect_true(bp("bpisup")(param))
  nested <- bplapply(1:2, function(i) bp("bpisup")(param), BPPARAM = param)
  expect_identical(nested, list(FALSE, FALSE))
  bp("bpstop")(param)
  expect_false(bp("bpisup")(param))
  param <- bp("bpworkers<-")(param, 3)
  expect_identical(bp("bpnworkers")(param), 3L)
  expect_error(RegattaParam("host"), class = "regatta_error_argument")
})

test_that("random numbers are those of BiocParallel's other params", {
  draw <- function(param) unlist(bplapply(1:5, function(i) stats::rnorm(1), BPPARAM = param))
  withr::local_preserve_seed()
  serial <- draw(bp("SerialParam")(RNGseed = 7))
  expect_identical(draw(RegattaParam(2, RNGseed = 7)), serial)
  expect_identical(draw(RegattaParam(3, tasks = 5, RNGseed = 7)), serial)
  set.seed(2)
  before <- .Random.seed
  bplapply(1:2, identity, BPPARAM = RegattaParam(2, RNGseed = 1))
  expect_identical(.Random.seed, before)
})

test_that("errors are those of BiocParallel, deaths too, and only what failed is done again", {
  param <- RegattaParam(2, stop.on.error = FALSE, tasks = 4)
  some <- function(i) if (i == 3) stop("three") else i
  got <- bp("bptry")(bplapply(1:4, some, BPPARAM = param))
  expect_identical(bp("bpok")(got), c(TRUE, TRUE, FALSE, TRUE))
  expect_s3_class(got[[3L]], "remote_error")
  expect_error(bplapply(1:4, some, BPPARAM = param), "three", class = "bplist_error")
  expect_identical(bplapply(1:4, identity, BPREDO = got, BPPARAM = param), as.list(1:4))
  dies <- function(i) if (i == 2) tools::pskill(Sys.getpid(), 9L) else i
  got <- bp("bptry")(bplapply(1:4, dies, BPPARAM = param))
  expect_identical(bp("bpok")(got), c(TRUE, FALSE, TRUE, TRUE))
  expect_s3_class(got[[2L]], "regatta_error_death")
  expect_error(bplapply(1:4, dies, BPPARAM = param), "SIGKILL", class = "bplist_error")
})

# Its element is a task of BiocParallel's, and par_last() is that of the task whose value came last.
test_that("a task that was ended is not called an element of the user's, nor is another one's replay advised", {
  control <- par_control(cpu_timeout = 0.5)
  param <- function(tasks) RegattaParam(2, stop.on.error = FALSE, tasks = tasks, .control = control)
  slow <- function(i) if (i == 4) repeat NULL else i
  for (tasks in c(2, 4)) {
    got <- bp("bptry")(bplapply(1:4, slow, BPPARAM = param(tasks)))
    text <- conditionMessage(got[[4L]])
    expect_match(text, sprintf("^a task of %s was ended in worker", if (tasks == 2) "2 elements" else "1 element"))
    expect_no_match(text, "par_replay|element 1")
  }
})

test_that("there is a task for each element where a progress bar is shown, and no number of tasks is given", {
  tasks <- function(...) bp("bptasks")(RegattaParam(2, ...))
  expect_identical(c(tasks(), tasks(tasks = 3)), c(0L, 3L))
  expect_identical(c(tasks(progressbar = TRUE), tasks(0L, progressbar = TRUE)), c(.Machine$integer.max, 0L))
})

test_that("what is wrong among its arguments is named", {
  expect_error(RegattaParam(2, force.GC = NA), "force.GC")
  expect_error(RegattaParam(2, logdir = tempdir()), "'log' must be TRUE when 'logdir' is given")
  expect_error(RegattaParam(0), "`workers` must be a positive whole number, not `0`", class = "regatta_error_argument")
  expect_error(RegattaParam("a"), "`workers` must be a number of workers", class = "regatta_error_argument")
  expect_error(RegattaParam(2, tasks = -1L), "`tasks` must be a whole number of at least 0")
  expect_error(RegattaParam(2, .control = par_control(workers = 3)), "`workers` must be 3, as in `par_control")
  expect_identical(bp("bptasks")(RegattaParam(2, tasks = NA)), NA_integer_)
})

test_that("output, logs and warnings arrive", {
  said <- capture_messages(bplapply(1, function(i) {
    cat("printed\n")
    message("told")
  }, BPPARAM = RegattaParam(2, fallback = FALSE)))
  expect_match(paste(said, collapse = ""), "printed\ntold")
  expect_warning(bplapply(1:2, function(i) if (i == 2) warning("careful"), BPPARAM = RegattaParam(2)), "careful")
  folder <- withr::local_tempdir()
  bplapply(1:2, function(i) message("logged"), BPPARAM = RegattaParam(2, log = TRUE, logdir = folder))
  logs <- list.files(folder, full.names = TRUE)
  expect_length(logs, 2L)
  expect_match(paste(readLines(logs[[1L]]), collapse = "\n"), "logged")
  bar <- capture.output(bplapply(1:2, identity, BPPARAM = RegattaParam(2, progressbar = TRUE)))
  expect_match(paste(bar, collapse = ""), "100%")
})

test_that("an interrupt ends the tasks", {
  param <- RegattaParam(2)
  bp("bpstart")(param)
  before <- as.character(names(detritus_children()))

  backend <- param$backend
  task <- list(type = "EXEC", data = list(tag = 1L, fun = function(X) Sys.sleep(300), args = list(X = 1)))
  biocparallel_send(backend, 1L, task)
  expect_length(setdiff(names(detritus_children()), before), 1L)
  backend$calls[[1L]]$handle$run$executor$poll <- function(timeout) rlang::interrupt()
  expect_identical(tryCatch(biocparallel_receive(backend), interrupt = function(i) "interrupted"), "interrupted")
  wait_until(length(setdiff(names(detritus_children()), before)) == 0L)
  bp("bpstop")(param)
})

test_that("on workers that do not inherit the session", {
  param <- RegattaParam(.on = local_pool(2))
  expect_identical(bp("bpnworkers")(param), 2L)
  g <- 5
  expect_identical(bplapply(1:3, function(i) i * g, BPPARAM = param), list(5, 10, 15))
})

test_that("variables of the workspace that are active or locked are values in a task, wherever it runs", {
  names <- c("rg_state", "rg_active", "rg_function", "rg_locked")
  withr::defer(rm(list = names, envir = globalenv()))
  assign("rg_state", 1, globalenv())
  active <- eval(quote(function(value) if (missing(value)) rg_state * 2 else rg_state <<- value), globalenv())
  makeActiveBinding("rg_active", active, globalenv())
  makeActiveBinding("rg_function", eval(quote(function() rg_state * 3), globalenv()), globalenv())
  assign("rg_locked", 4, globalenv())
  lockBinding("rg_locked", globalenv())
  uses <- eval(quote(function(i) list(rg_active, rg_function, rg_locked, rg_state)), globalenv())
  pool <- local_pool(2)
  params <- list(RegattaParam(2), RegattaParam(2, exportvariables = TRUE), RegattaParam(.on = pool))
  for (param in params) expect_identical(bplapply(1:2, uses, BPPARAM = param), lapply(1:2, uses))
  # Also several tasks of one worker.
  expect_identical(bplapply(1:3, uses, BPPARAM = RegattaParam(.on = pool, tasks = 3L)), lapply(1:3, uses))
})

test_that("nothing is left behind", {
  end_servers()
  expect_no_detritus(detritus)
})
