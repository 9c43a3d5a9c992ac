skip_if_not_installed("future", "1.31.0")
suppressPackageStartupMessages(loadNamespace("future"))
detritus <- detritus_snapshot()

future <- future::future
value <- future::value

# A plan for the time of one test.
local_plan <- function(..., env = parent.frame()) {
  old <- future::plan(...)
  withr::defer(future::plan(old, .cleanup = FALSE), env)
}

children <- function() as.character(names(detritus_children()))

test_that("futures run in workers and have values, output and conditions", {
  local_plan(regatta, workers = 2)
  expect_identical(as.integer(future::nbrOfWorkers()), 2L)
  expect_identical(as.integer(future::nbrOfFreeWorkers()), 2L)
  a <- 3
  add <- function(x) a + x
  f <- future({
    cat("printed\n")
    message("told")
    warning("careful")
    list(add(1), Sys.getpid())
  })
  expect_s3_class(f, "RegattaFuture")
  told <- warned <- NULL
  printed <- capture.output(got <- withCallingHandlers(
    value(f),
    message = function(m) {
      told <<- conditionMessage(m)
      invokeRestart("muffleMessage")
    },
    warning = function(w) {
      warned <<- conditionMessage(w)
      invokeRestart("muffleWarning")
    }
  ))
  expect_identical(list(printed, told, warned), list("printed", "told\n", "careful"))
  expect_identical(got[[1L]], 4)
  expect_false(got[[2L]] == Sys.getpid())
  expect_error(value(future(stop("over there"))), "over there", class = "simpleError")
})

test_that("what future does around the user's code is not looked through for variables", {
  longest <- 0L
  look <- function(x) longest <<- max(longest, length(all.names(if (is.function(x)) body(x) else x)))
  suppressMessages(trace("globals_names", bquote(.(look)(x)), where = asNamespace("regatta"), print = FALSE))
  withr::defer(suppressMessages(untrace("globals_names", where = asNamespace("regatta"))))
  local_plan(regatta, .on = local_pool(2L))
  factor <- 5
  expect_identical(value(future(factor * 2)), 10)
  expect_gt(longest, 0L)
  expect_lt(longest, 100L)
})

test_that("code that asks for stdin() has left no connection open", {
  skip_if_not_installed("future", "1.40.0")
  local_plan(regatta, workers = 2)
  expect_warning(got <- value(future(inherits(stdin(), "connection"))), NA)
  expect_true(got)
})

test_that("lazy futures of a list begin one by one, and each gives its own value", {
  local_plan(regatta, workers = 2)
  `%<-%` <- future::`%<-%`
  `%lazy%` <- future::`%lazy%`
  values <- listenv::listenv()
  for (i in 1:3) {
    values[[i]] %<-% {
      if (i == 2L) stop("Woops!")
      i
    } %lazy% TRUE
  }
  expect_error(as.list(values), "Woops!")
  expect_identical(unlist(values[c(1, 3)]), c(1L, 3L))
  expect_error(values[[2]], "Woops!")
})

test_that("resolved() does not wait, and more futures than workers take turns", {
  local_plan(regatta, workers = 2)
  gate <- withr::local_tempfile()
  waits <- function(i) future({
    while (!file.exists(gate)) Sys.sleep(0.005)
    i
  })
  f <- waits(1)
  g <- waits(2)
  expect_false(future::resolved(f))
  expect_identical(as.integer(future::nbrOfFreeWorkers()), 0L)
  file.create(gate)
  wait_until(future::resolved(f) && future::resolved(g))
  expect_identical(value(lapply(1:5, waits)), as.list(1:5))
})

test_that("a random number has its stream, and the session's generator is not moved", {
  local_plan(regatta, workers = 2)
  withr::local_seed(3)
  before <- .Random.seed
  expect_identical(value(future(1)), 1)
  expect_identical(.Random.seed, before)
  draw <- function() {
    set.seed(1)
    value(future(stats::rnorm(2), seed = TRUE))
  }
  expect_identical(draw(), draw())
  expect_warning(value(future(stats::rnorm(1))), class = "RngFutureWarning")
})

test_that("plans nest", {
  local_plan(list(future::tweak(regatta, workers = 2), future::tweak(regatta, workers = I(2))))
  f <- future({
    inner <- lapply(1:2, function(i) future::future(Sys.getpid()))
    c(Sys.getpid(), unlist(lapply(inner, future::value)), future::nbrOfWorkers())
  })
  got <- value(f)
  expect_length(unique(c(Sys.getpid(), got[1:3])), 4L)
  expect_identical(as.integer(got[[4L]]), 2L)
})

test_that("a future whose worker dies is an error that says why", {
  local_plan(regatta, workers = 2)
  f <- future(tools::pskill(Sys.getpid(), 9L), label = "ill")
  err <- expect_error(value(f), "'ill'.*SIGKILL", class = "FutureError")
  expect_s3_class(err$parent, "regatta_error_death")
  expect_true(future::resolved(f))
  expect_error(value(f), class = "FutureError")
  local_plan(regatta, workers = 1, .control = par_control(timeout = 3)) # enough for the future that future tries it by
  err <- expect_error(value(future(Sys.sleep(300))), class = "error")
  expect_match(conditionMessage(err), "this future was ended in worker.*`timeout` allows")
  expect_no_match(conditionMessage(err), "par_replay|element 1")
})

test_that("`workers` is named where it is wrong", {
  withr::defer(future::plan("sequential"))
  expect_error(future::plan(regatta, workers = 0), "`workers` must be a positive whole number, not `0`")
  expect_error(future::plan(regatta, workers = "a"), "`workers` must be a number of workers.*cluster_ssh")
})

test_that("an interrupt while a value is waited for ends the future", {
  local_plan(regatta, workers = 2)
  before <- children()
  f <- future(Sys.sleep(300))
  f$handle$run$executor$poll <- function(timeout) rlang::interrupt()
  expect_identical(tryCatch(value(f), interrupt = function(i) "interrupted"), "interrupted")
  wait_until(length(setdiff(children(), before)) == 0L) # idle workers of calls before may go meanwhile
  expect_error(value(f), "interrupted", class = "FutureError")
})

test_that("cancel() and another plan end the workers", {
  skip_if_not_installed("future", "1.40.0")
  local_plan(regatta, workers = 2)
  before <- children()
  f <- future(Sys.sleep(300))
  g <- future(Sys.sleep(300))
  expect_length(setdiff(children(), before), 2L)
  future::cancel(f)
  wait_until(length(setdiff(children(), before)) == 1L)
  expect_error(value(f), class = "FutureInterruptError")
  expect_identical(as.integer(future::nbrOfFreeWorkers()), 1L)
  future::plan(future::sequential)
  wait_until(length(setdiff(children(), before)) == 0L) # idle workers of calls before may go meanwhile
  expect_error(value(g), class = "FutureError")
})

test_that("what is not to wait for the end is told at once", {
  local_plan(regatta, workers = 2)
  gate <- withr::local_tempfile()
  f <- future({
    cnd <- structure(class = c("immediateCondition", "message", "condition"), list(message = "now\n", call = NULL))
    message(cnd)
    while (!file.exists(gate)) Sys.sleep(0.005)
    "end"
  })
  seen <- character()
  listen <- function(code) withCallingHandlers(code, message = function(m) {
    seen <<- c(seen, conditionMessage(m))
    invokeRestart("muffleMessage")
  })
  wait_until({
    listen(future::resolved(f))
    length(seen) > 0L
  })
  file.create(gate)
  expect_identical(listen(value(f)), "end")
  expect_identical(seen, "now\n")
})

test_that("a cluster whose workers are at futures says so, in words of future", {
  cl <- local_pool(1L)
  local_plan(regatta, .on = cl)
  f <- future(5)
  uses <- list(
    function() parallel::clusterApply(cl, 1:3, identity),
    function() par_lapply(1:3, identity, .on = cl, .control = on_local())
  )
  for (use in uses) {
    told <- conditionMessage(expect_error(use(), class = "regatta_error"))
    expect_match(told, "future.*whose values? nobody has asked for.*`value\\(\\)`")
    expect_no_match(told, "par_value")
  }
  expect_identical(cluster_status(cl)$call, "future")
  expect_identical(value(f), 5)
  for (use in uses) expect_identical(use(), as.list(1:3))
  # Nobody is told of futures who has none.
  handle <- par_call(1, .on = cl, .control = on_local())
  told <- conditionMessage(expect_error(uses[[1L]](), class = "regatta_error_node"))
  expect_match(told, "at a call, map or stream that is under way.*par_value")
  expect_no_match(told, "future")
  expect_identical(par_value(handle), 1)
  # One that resolved() has found done holds nobody up.
  f <- future(6)
  wait_until(future::resolved(f))
  expect_identical(uses[[1L]](), as.list(1:3))
  expect_identical(value(f), 6)
})

test_that("a future of a plan of package future on a cluster of this one has its value, for which resolved() waits", {
  cl <- local_pool(2L)
  local_plan(future::cluster, workers = cl)
  # More than workers: each is known to be there by a cluster that is the same as before.
  got <- suppressWarnings(lapply(lapply(1:4, function(i) future(i * 10)), value), classes = "simpleWarning")
  expect_identical(got, list(10, 20, 30, 40))
  # It cannot look at a node without a connection of R's, waits, and says so.
  f <- future(7)
  expect_warning(done <- future::resolved(f), "not yet implemented for workers of class.*regatta_node")
  expect_true(done)
  expect_identical(value(f), 7)
})

test_that("workers that do not inherit the session get globals and packages", {
  pool <- local_pool(2)
  local_plan(regatta, .on = pool)
  expect_identical(as.integer(future::nbrOfWorkers()), 2L)
  local({
    local_plan(regatta, .on = pool, workers = I(1))
    expect_identical(as.integer(future::nbrOfWorkers()), 1L)
    expect_identical(value(future(2)), 2)
  })
  k <- 10
  times <- function(i) k * i
  expect_identical(value(lapply(1:3, function(i) future(times(i)))), list(10, 20, 30))
  expect_true(value(future(is.function(bs), packages = "splines")))
  expect_identical(value(future(exists("k", globalenv()), globals = FALSE)), FALSE)
})

test_that("variables that future is told to leave out are not sent, though the code names them", {
  local_plan(regatta, .on = local_pool(1))
  withr::defer(rm("rg_kept", "rg_given", envir = globalenv()))
  assign("rg_kept", 1, globalenv())
  assign("rg_given", 2, globalenv())
  expect_error(value(future(rg_kept, globals = FALSE)), "object 'rg_kept' not found")
  there <- quote(c(exists("rg_kept", globalenv()), rg_given))
  expect_identical(value(future(there, substitute = FALSE, globals = "rg_given")), c(0, 2))
  left_out <- quote(c(if (exists("rg_kept")) rg_kept, rg_given))
  expect_identical(value(future(left_out, substitute = FALSE, globals = structure(TRUE, ignore = "rg_kept"))), 2)
})

test_that("variables of the workspace that are active or locked are values in a future, wherever it runs", {
  names <- c("rg_state", "rg_active", "rg_function", "rg_locked", "rg_both")
  withr::defer(rm(list = names, envir = globalenv()))
  assign("rg_state", 1, globalenv())
  active <- eval(quote(function(value) if (missing(value)) rg_state * 2 else rg_state <<- value), globalenv())
  makeActiveBinding("rg_active", active, globalenv())
  makeActiveBinding("rg_function", eval(quote(function() rg_state * 3), globalenv()), globalenv())
  makeActiveBinding("rg_both", active, globalenv())
  assign("rg_locked", 4, globalenv())
  for (name in c("rg_both", "rg_locked")) lockBinding(name, globalenv())
  code <- quote(list(rg_active, rg_function, rg_locked, rg_both, rg_state))
  expected <- list(2, 3, 4, 2, 1)
  pool <- local_pool(1)
  for (place in list(list(workers = 2), list(.on = pool))) {
    do.call(local_plan, c(list(regatta), place))
    for (k in 1:2) expect_identical(value(future(code, substitute = FALSE, envir = globalenv())), expected)
  }
  # A map of this package has them as they are.
  sets <- eval(quote(function(i) {
    rg_active <<- 5
    c(rg_active, rg_function)
  }), globalenv())
  unseeded <- par_control(seed = FALSE)
  expect_identical(par_lapply(1, sets, .on = pool, .control = unseeded), list(c(10, 15)))
  locked <- eval(quote(function(i) rg_locked <<- 1), globalenv())
  expect_error(par_lapply(1, locked, .on = pool, .control = unseeded), "rg_locked")
  expect_identical(get("rg_state", globalenv()), 1)
})

test_that("what plan() is given is checked, and the plan is no function to call", {
  expect_error(local_plan(regatta, workers = "host"), class = "regatta_error_argument")
  skip_if_not_installed("future", "1.40.0")
  expect_error(regatta(1), "plan\\(regatta", class = "regatta_error_argument")
})

test_that("nothing is left behind", {
  future::plan(future::sequential)
  end_servers()
  expect_no_detritus(detritus)
})
