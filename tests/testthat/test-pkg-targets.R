# What nanonext has open once it is loaded is its own.
withr::with_preserve_seed(for (package in c("targets", "crew")) requireNamespace(package, quietly = TRUE))
detritus <- detritus_snapshot()

controller <- function(...) crew_controller_regatta(.control = two_workers(...))

# What pop() has until all tasks are over, by name.
popped <- function(of, tasks) {
  rows <- list()
  wait_until(function() {
    of$wait(mode = "one", seconds_timeout = 0.5)
    while (!is.null(row <- of$pop())) rows[[row$name]] <<- row
    length(rows) >= tasks
  }, 20, "all tasks are over")
  rows
}

test_that("a task has its data and the variables of the workspace that it was given, and one row comes of it", {
  it <- controller()
  expect_null(it$validate())
  expect_null(it$pop())
  expect_true(it$empty())
  it$push(x + y, data = list(x = 1), globals = list(y = 2), name = "sum")
  it$push(command = quote(list(NULL, Sys.getpid())), substitute = FALSE, name = "list")
  it$push(NULL, name = "null")
  expect_false(it$empty())
  rows <- popped(it, 3L)
  expect_identical(rows$sum$result[[1L]], 3)
  expect_identical(rows$sum$status, "success")
  expect_identical(rows$sum$error, NA_character_)
  expect_false(rows$list$result[[1L]][[2L]] == Sys.getpid())
  expect_identical(rows$null$result, list(NULL))
  expect_s3_class(rows$null, "data.frame")
  expect_identical(nrow(rows$null), 1L)
  expect_true(it$empty())
  expect_identical(it$summary()$tasks, 3L)
  expect_false(exists("y", globalenv(), inherits = FALSE))
})

test_that("no more tasks are evaluated at a time than there are workers, and names that were put off come back", {
  it <- controller()
  gate <- withr::local_tempfile()
  held <- quote(while (!file.exists(gate)) Sys.sleep(0.005))
  expect_false(it$saturated())
  for (name in c("a", "b", "c")) it$push(held, data = list(gate = gate), substitute = FALSE, name = name)
  expect_true(it$saturated())
  expect_output(print(it), "2 workers, 2 tasks running")
  for (name in c("d", "e", "f")) it$push_backlog(name)
  expect_identical(it$pop_backlog(), character())
  expect_false(it$wait(mode = "one", seconds_timeout = 0.01))
  file.create(gate)
  expect_true(it$wait(mode = "all", seconds_timeout = 20))
  expect_identical(it$pop_backlog(), c("d", "e"))
  expect_identical(it$pop_backlog(), "f")
  rows <- popped(it, 3L)
  expect_setequal(names(rows), c("a", "b", "c"))
  expect_true(it$empty())
})

test_that("an error, a death and a time that is over are told with their task, and others go on", {
  it <- controller()
  it$push(stop("on purpose"), name = "fails")
  it$push(tools::pskill(Sys.getpid(), tools::SIGKILL), name = "dies")
  it$push(Sys.sleep(60), name = "late", seconds_timeout = 0.1)
  it$push("here", name = "goes on")
  rows <- popped(it, 4L)
  expect_match(rows$fails$error, "on purpose")
  expect_match(rows$dies$error, "SIGKILL")
  expect_match(rows$late$error, "^task late was ended in worker.* 0.1 s")
  expect_no_match(unlist(lapply(rows, `[[`, "error")), "par_replay|element 1")
  expect_identical(vapply(rows[c("fails", "dies", "late")], `[[`, "", "status"), c(fails = "error", dies = "error", late = "error"))
  expect_identical(rows[["goes on"]]$result[[1L]], "here")
})

test_that("terminate() ends what runs", {
  it <- controller()
  file <- withr::local_tempfile()
  it$push({
    cat(Sys.getpid(), file = file)
    Sys.sleep(60)
  }, data = list(file = file), name = "long")
  wait_until(function() file.exists(file) && length(scan(file, quiet = TRUE)) == 1L, 20, "the task runs")
  pid <- scan(file, quiet = TRUE)
  task <- environment(it$pop)$state$running # or a collection might end it
  it$terminate()
  wait_until(function() has_ended(pid), 20, "its worker ends")
  expect_length(task, 1L)
  expect_true(it$empty())
  expect_null(it$pop())
})

test_that("tasks are evaluated by workers of a cluster, which keep no variable of them", {
  it <- crew_controller_regatta(.on = local_pool())
  it$push(y, globals = list(y = 4), name = "set")
  expect_identical(popped(it, 1L)$set$result[[1L]], 4)
  it$push(exists("y"), name = "first")
  it$push(exists("y"), name = "second")
  expect_identical(unname(unlist(lapply(popped(it, 2L), `[[`, "result"))), c(FALSE, FALSE))
})

test_that("arguments are checked", {
  expect_error(crew_controller_regatta(name = 1), "`name` must be", class = "regatta_error_argument")
  expect_error(crew_controller_regatta(.on = "a"), class = "regatta_error_argument")
})

# The values of a pipeline and what targets has told of it: `script` is its file, run in a session of its own.
pipeline <- function(script, names) {
  folder <- withr::local_tempdir()
  writeLines(script, file.path(folder, "_targets.R"))
  fault_run(function(folder, names) {
    setwd(folder)
    made <- tryCatch(
      targets::tar_make(callr_function = NULL, reporter = "silent", envir = globalenv()),
      error = function(e) conditionMessage(e)
    )
    meta <- targets::tar_meta(fields = c("name", "error"), complete_only = FALSE)
    values <- lapply(names, function(name) tryCatch(targets::tar_read_raw(name), error = function(e) "none"))
    list(values = stats::setNames(values, names), made = made, errors = stats::setNames(meta$error, meta$name))
  }, list(folder = folder, names = names), timeout = 60 * slowness())$value
}

test_that("a pipeline of targets is made in workers", {
  skip_if_not_installed("targets", "1.11.0")
  skip_if_not_installed("crew", "0.9.0")
  got <- pipeline(c(
    "library(targets)",
    "tar_option_set(controller = regatta::crew_controller_regatta(.on = 2))",
    "square <- function(x) x^2",
    "list(",
    "  tar_target(numbers, 1:4),",
    "  tar_target(squares, list(square(numbers), Sys.getpid()), pattern = map(numbers), iteration = 'list'),",
    "  tar_target(total, sum(vapply(squares, function(s) s[[1]], 0))),",
    "  tar_target(main, Sys.getpid(), deployment = 'main')",
    ")"
  ), c("squares", "total", "main"))
  expect_null(got$made)
  expect_identical(got$values$total, 30)
  pids <- vapply(got$values$squares, `[[`, 0L, 2L)
  expect_length(pids, 4L)
  expect_false(got$values$main %in% pids)
})

test_that("a target whose worker dies ends the pipeline with the reason", {
  skip_if_not_installed("targets", "1.11.0")
  skip_if_not_installed("crew", "0.9.0")
  got <- pipeline(c(
    "library(targets)",
    "tar_option_set(controller = regatta::crew_controller_regatta(.on = 2))",
    "list(tar_target(dies, tools::pskill(Sys.getpid(), 9)), tar_target(fine, 1))"
  ), "fine")
  expect_match(got$made, "target dies error: .*SIGKILL")
})

end_servers()

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
