detritus <- detritus_snapshot()

test_that("the defaults are what the manual says", {
  control <- par_control()
  expect_s3_class(control, "regatta_control", exact = TRUE)
  expect_identical(c("...", names(control)), names(formals(par_control)))
  expect_identical(unclass(control), list(
    workers = NULL, errors = "stop", retries = 0L, retry_on = c("error", "death"),
    retry_workers = "same", retry_seed = "same", timeout = Inf, cpu_timeout = Inf, memory = Inf, memory_budget = NULL,
    seed = TRUE, stdout = "relay", stderr = "relay", messages = "relay", warnings = "relay",
    conditions = "relay", max_conditions = 1000L, dump = "partial", dump_file = NULL, progress = NULL,
    batch = NULL, priority = NULL, threads = NULL, core_budget = NULL, core_priority = "normal", shm = TRUE,
    shm_min = 64000, share_min = 1e6, copy = FALSE, no_workers = "stop", checkpoint = NULL
  ))
})

test_that("what is set is kept in its one form", {
  control <- par_control(
    workers = 2, errors = "collect", retries = 3, retry_on = c("timeout", "error"),
    retry_workers = "fewer", retry_seed = "new", timeout = 5L, memory = "2GB", seed = 1,
    stdout = "capture", warnings = "drop", max_conditions = 0, dump = "no", progress = TRUE,
    batch = 10, priority = 1:3, threads = 1, shm = FALSE, shm_min = 0, copy = TRUE
  )
  expect_identical(control$workers, 2L)
  expect_identical(control$errors, "collect")
  expect_identical(control$retries, 3L)
  expect_identical(control$retry_on, c("error", "timeout"))
  expect_identical(control$timeout, 5)
  expect_identical(control$memory, 2e9)
  expect_identical(control$seed, 1L)
  expect_identical(control$stdout, "capture")
  expect_identical(control$max_conditions, 0L)
  expect_identical(control$priority, c(1, 2, 3))
  expect_identical(control$shm_min, 0)
})

test_that("every argument is checked by name", {
  expect_snapshot(error = TRUE, {
    par_control(workers = "two")
    par_control(errors = "ignore")
    par_control(retries = -1)
    par_control(retry_on = "interrupt")
    par_control(retry_workers = "more")
    par_control(retry_seed = 1)
    par_control(timeout = 0)
    par_control(cpu_timeout = "1 min")
    par_control(memory = "much")
    par_control(memory = 2)
    par_control(memory_budget = "10KB")
    par_control(seed = "lucky")
    par_control(stdout = TRUE)
    par_control(stderr = "keep")
    par_control(messages = NULL)
    par_control(warnings = "error")
    par_control(conditions = NA)
    par_control(max_conditions = Inf)
    par_control(dump = "last")
    par_control(progress = "bar")
    par_control(batch = 0)
    par_control(priority = "first")
    par_control(threads = 1.5)
    par_control(core_budget = 0)
    par_control(core_budget = "all")
    par_control(core_priority = "high")
    par_control(shm = "no")
    par_control(shm_min = -1)
    par_control(copy = NULL)
    par_control(w = 2)
    par_control(2)
    par_control(cores = 2)
    par_control(erors = "stop")
    par_control(retry = 2)
    par_control(frobnicate = 1)
  })
})

test_that("each of those errors has the class, the argument and the value", {
  bad <- list(environment())
  for (argument in setdiff(names(formals(par_control)), "...")) {
    e <- expect_error(
      do.call(par_control, stats::setNames(list(bad), argument)),
      class = "regatta_error_argument"
    )
    expect_identical(e$argument, argument)
    expect_identical(e$value, bad)
  }
})

test_that("the verbs' check takes only a control that fits the elements", {
  verb <- function(.control, n = 3) check_control(.control, n)
  control <- par_control(priority = 3:1)
  expect_identical(verb(control), control)
  expect_identical(verb(par_control(), 1e10), par_control())
  expect_snapshot(error = TRUE, {
    verb(list(workers = 2))
    verb(2)
    verb(par_control)
    verb(control, 4)
  })
})

test_that("only what differs from the default is printed", {
  expect_snapshot({
    par_control()
    par_control(workers = 2, timeout = 90, memory = "1.5GB", shm_min = "1MiB", share_min = "2MB")
    par_control(priority = 100:1, progress = FALSE, retry_on = "death", seed = 42)
    par_control(progress = NULL, errors = "stop", timeout = Inf)
  })
})

test_that("a control that was edited is checked where it is used", {
  withr::local_preserve_seed()
  edited <- function(name, value) {
    control <- par_control(workers = 2)
    control[[name]] <- value
    control
  }
  run <- function(control) par_lapply(1:2, identity, .control = control)
  wrong <- list(
    list("workers", 0), list("timeout", "1"), list("timeout", -1), list("stdout", "dropp"),
    list("errors", "colect"), list("errors", NULL), list("seed", "a"), list("timeot", 1)
  )
  for (one in wrong) {
    e <- expect_error(run(edited(one[[1L]], one[[2L]])), class = "regatta_error_argument")
    expect_identical(e$argument, one[[1L]])
    expect_identical(e$call[[1L]], quote(par_lapply))
  }
  expect_identical(check_control(edited("memory", "100MB"), 1)$memory, 1e8)
  expect_identical(run(edited("workers", NULL)), list(1L, 2L))
})

test_that("settings that were found right are not checked again, those that were edited since are", {
  withr::local_preserve_seed()
  checks <- function(control) {
    count <- 0
    trace("checked_control", function() count <<- count + 1, where = asNamespace("regatta"), print = FALSE)
    on.exit(untrace("checked_control", where = asNamespace("regatta")))
    par_lapply(1:2, identity, .control = control)
    count
  }
  control <- par_control(workers = 1L, retries = 1L)
  suppressMessages({
    expect_identical(checks(control), 0)
    control$retries <- 2L
    expect_identical(checks(control), 1)
    expect_identical(checks(control), 0)
  })
  control$retries <- -1
  expect_error(par_lapply(1:2, identity, .control = control), "retries", class = "regatta_error_argument")
  control$retries <- 2
  control$priority <- 1:2
  expect_identical(par_lapply(1:2, identity, .control = control), list(1L, 2L))
  expect_null(regatta:::the$checked$priority)
  expect_error(par_lapply(1:3, identity, .control = control), "priority", class = "regatta_error_argument")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
