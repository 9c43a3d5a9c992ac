detritus <- detritus_snapshot()

again <- two_workers(workers = 1L, retries = 1)
first_try <- function() Sys.getenv("REGATTA_TRY") == "1"

test_that("the worker of a further try has the variables as they were at the call", {
  x <- 1
  h <- par_call({
    if (first_try()) quit()
    list(x, exists("later", inherits = FALSE), exists("h", inherits = FALSE))
  }, .control = again)
  x <- 100
  later <- TRUE
  expect_identical(par_value(h), list(1, FALSE, FALSE))
  h <- par_call({
    if (first_try()) quit()
    x
  }, .control = again)
  rm(x)
  expect_identical(par_value(h), 100)
})

test_that("so it is with arguments, forced or not, changed in place or removed", {
  value_of <- function(a, change, b = a + 1) {
    h <- par_call({
      if (first_try()) quit()
      list(a, b)
    }, .control = again)
    eval(change)
    par_value(h)
  }
  for (change in expression(a <- 100, a[1] <- 100, {force(a); a[1] <- 100}, rm(a), b <- 3)) {
    expect_identical(value_of(c(1, 2) + 0, change), list(c(1, 2), c(2, 3)))
  }
  forced <- function(a) {
    force(a)
    h <- par_call({
      if (first_try()) quit()
      a
    }, .control = again)
    a[1] <- 100
    par_value(h)
  }
  expect_identical(forced(c(1, 2) + 0), c(1, 2))
})

test_that("what cannot be looked at without running it is left alone", {
  run <- 0
  makeActiveBinding("active", function() run <<- run + 1, environment())
  delayedAssign("never", run <- run + 1000)
  never_given <- function(missing_one, ...) {
    h <- par_call({
      if (first_try()) quit()
      list(missing(missing_one), ...length())
    }, .control = again)
    missing_one <- 1
    par_value(h)
  }
  expect_identical(never_given(, 1, 2), list(TRUE, 2L))
  expect_identical(run, 0)
})

test_that("a stream goes on with the variables as they were when it began", {
  glob <- 1
  s <- par_stream(1:6, function(i) {
    if (i == 3 && first_try()) quit()
    glob
  }, .control = two_workers(workers = 1L, retries = 1, batch = 1))
  got <- c()
  while (par_more(s)) {
    got <- c(got, par_next(s))
    glob <- glob + 100
  }
  expect_identical(got, rep(1, 6))
})

test_that("a stream whose worker has died goes on so in another, in the workspace too", {
  workspace <- globalenv()
  assign("regatta_test_set", 1, workspace)
  assign("regatta_test_removed", 2, workspace)
  withr::defer(suppressWarnings(
    rm(list = c("regatta_test_set", "regatta_test_removed", "regatta_test_new"), envir = workspace)
  ))
  seen <- function(i) {
    if (i == 2) quit()
    c(regatta_test_set, regatta_test_removed, exists("regatta_test_new"))
  }
  environment(seen) <- workspace
  s <- par_stream(1:4, seen, .control = two_workers(workers = 1L, errors = "collect", batch = 1))
  expect_identical(par_next(s), c(1, 2, 0))
  assign("regatta_test_set", 100, workspace)
  assign("regatta_test_new", 100, workspace)
  rm("regatta_test_removed", envir = workspace)
  expect_s3_class(suppressWarnings(par_next(s)), "regatta_error_death")
  expect_identical(par_next(s), c(1, 2, 0))
  expect_identical(par_next(s), c(1, 2, 0))
})

test_that("so it is with variables around functions that the caller has handed over", {
  begin <- function(of) par_stream(1:6, function(i) {
    if (i == 3 && first_try()) quit()
    if (is.function(of)) of() else of
  }, .control = two_workers(workers = 1L, retries = 1, batch = 1))
  delayed <- function(x) function() x
  given <- list(
    function(x) begin(x), function(x) begin(delayed(x)),
    function(x) {
      held <- function() x
      begin(held)
    },
    function(x) {
      held <- list(function() x)
      begin(held[[1L]])
    }
  )
  for (starting in given) {
    run <- starting
    body(run) <- bquote({
      x <- 1
      s <- .(body(starting))
      x <- 99
      unlist(lapply(1:6, function(k) par_next(s)))
    })
    expect_identical(run(), rep(1, 6), label = deparse1(body(starting)))
  }
})

test_that("a handler around a map changes nothing for its workers", {
  count <- 0
  control <- two_workers(workers = 1L, retries = 1, batch = 1)
  one <- function(i, ...) {
    message("here")
    if (i == 2 && first_try()) quit()
    count
  }
  maps <- list(
    function() unlist(par_lapply(1:4, one, .control = control)),
    function() par_mapply(one, 1:4, 1, .control = control),
    function() rep(par_reduce(1:4, one, `+`, .control = control), 4),
    function() unlist(mclapply(1:4, one, mc.cores = 2, mc.preschedule = FALSE, mc.retry = 1, mc.progress = FALSE,
      mc.set.seed = FALSE))
  )
  for (map in maps) {
    count <- 0
    got <- withCallingHandlers(map(), message = function(m) {
      count <<- count + 1
      tryInvokeRestart("muffleMessage")
    })
    expect_identical(got, rep(0, 4))
    expect_gt(count, 3)
  }
})

test_that("a further try sees nothing of what an earlier one has assigned", {
  for (on in list(NULL, local_pool(1L))) {
    x <- c(1, 1)
    y <- 5
    h <- par_call({
      x <- x + 1
      x[2] <- 7
      new <- if (exists("new", inherits = FALSE)) "still there" else "new"
      rm(y)
      if (Sys.getenv("REGATTA_TRY") == "1") stop("again")
      list(x, new)
    }, .on = on, .control = again)
    expect_identical(par_value(h), list(c(2, 7), "new"))
    expect_identical(x, c(1, 1))
  }
})

test_that("locked variables and frames, options and the folder are put back", {
  folder <- normalizePath(withr::local_tempdir())
  withr::local_dir(folder)
  withr::local_options(digits = 5, regatta_test_option = NULL)
  frame <- new.env()
  frame$x <- 1
  h <- local(par_call({
    if (first_try()) quit()
    list(x, getOption("digits"), getOption("regatta_test_option"), getwd())
  }, .control = again), frame)
  frame$x <- 2
  lockEnvironment(frame, bindings = TRUE)
  options(digits = 9, regatta_test_option = 1)
  setwd("/")
  expect_identical(par_value(h), list(1, 5L, NULL, folder))
})

test_that("the session can change in place what a run has seen, when that is over", {
  x <- numeric(10)
  x[1] <- 1
  invisible(par_lapply(1:2, function(i) x[[1]], .control = two_workers()))
  invisible(par_value(par_call(x[[1]], .control = two_workers())))
  address <- rlang::obj_address(x)
  x[2] <- 2
  expect_identical(rlang::obj_address(x), address)
})

test_that("handles that are replaced are collected while others run", {
  gone <- FALSE
  h <- par_call(Sys.sleep(120), .control = two_workers())
  reg.finalizer(h$run, function(run) gone <<- TRUE)
  h <- par_call(Sys.sleep(120), .control = two_workers())
  wait_until({
    gc()
    gone
  })
  expect_true(gone)
  rm(h)
  gc()
})

test_that("many variables cost microseconds each", {
  frame <- new.env()
  for (i in seq_len(1e4)) assign(paste0("variable", i), i + 0.5, envir = frame)
  used <- system.time(taken <- frames_take(list(frame)))
  expect_lt(used[["user.self"]] + used[["sys.self"]], 1 * slowness())
  frames_put(taken)
  frames_drop(taken)
  expect_identical(frame$variable77, 77.5)
})

end_servers()
expect_no_detritus(detritus)
