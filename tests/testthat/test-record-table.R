detritus <- detritus_snapshot()

test_that("a record is a table with a row for each element", {
  run <- record_of(c(1, 2, 0.5), names = c("a", "b", "a"), failed = 2L, how = "timeout", retried = 1L)
  run$workers$host <- c("localhost", "other")
  run$elements$peak <- c(10, 20, 30)
  run$tries$peak <- 25
  table <- as.data.frame(run)
  expect_identical(names(table), c(
    "index", "name", "worker", "host", "pid", "try", "start", "end", "seconds", "status", "bytes", "peak"
  ))
  expect_identical(table$index, 1:3)
  expect_identical(table$name, c("a", "b", "a"))
  expect_identical(table$host, c("localhost", "other")[run$elements$worker])
  expect_equal(table$seconds, c(0.5, 2, 0.5))
  expect_identical(as.character(table$status), c("done", "timeout", "done"))
  expect_identical(table$peak, c(10, 20, 30))
  both <- as.data.frame(run, tries = TRUE)
  expect_identical(both$index, c(1L, 1:3))
  expect_identical(both$try, c(1L, 2L, 1L, 1L))
  expect_identical(as.character(both$status), c("error", "done", "timeout", "done"))
  expect_identical(both$peak, c(25, 10, 20, 30))
  expect_identical(dim(both), c(4L, 12L))
})

test_that("elements that were not begun have no worker, no host and no times", {
  run <- record_of(c(1, 1), workers = 1L)
  run$elements[2L, c("worker", "pid", "start", "end")] <- NA
  run$elements$status[[2L]] <- "pending"
  table <- as.data.frame(run)
  expect_identical(table$host, c("localhost", NA))
  expect_identical(table$seconds[[2L]], NA_real_)
  expect_identical(table$name, c(NA_character_, NA))
  run$workers <- run$workers[0L, ]
  run$elements <- run$elements[0L, ]
  expect_identical(nrow(as.data.frame(run)), 0L)
})

test_that("processes of one number on several hosts are told apart", {
  run <- record_of(c(1, 1, 1, 1), workers = 2L)
  run$workers$host <- c("one", "two")
  run$workers$pid <- c(7L, 7L)
  run$elements$pid <- rep(7L, 4L)
  expect_identical(as.data.frame(run)$host, c("one", "two")[run$elements$worker])
  row <- list(worker = 1L, pid = 7L, host = NA, start = 0, end = NA_real_, exit = "stopped", peak_memory = NA_real_)
  facts <- list(
    task = list(verb = "par_lapply"), n = 2L, status = c(1L, 1L), clock = 0, elapsed = 2, tries = list(),
    tasks = list2env(list(
      worker = 1:2, tries = c(1L, 1L), start = c(0, 0), end = c(1, 1), bytes = c(1, 1), later = list()
    )),
    rows = list(utils::modifyList(row, list(host = "one")), utils::modifyList(row, list(worker = 2L, host = "two")))
  )
  expect_identical(record_new(facts)$workers$elements, c(1L, 1L))
})

test_that("a table of a million elements copies no more than its columns", {
  run <- record_of(c(1, 1))
  n <- 1e6
  run$elements <- run$elements[rep(1:2, length.out = n), ]
  run$elements$index <- seq_len(n)
  row.names(run$elements) <- NULL
  # Of each element a name, a host and its time, 8 bytes each, and what they are looked up by.
  expect_lt(sum(utils::object.size(as.data.frame(run))), 80 * n)
  run$tries <- run$elements[0L, ]
  expect_identical(nrow(as.data.frame(run)), 1000000L)
})

test_that("the record itself has less than 100 bytes for each element", {
  control <- par_control(workers = 2L, progress = FALSE, seed = 1L)
  few <- par_lapply(1:2, function(i) NULL, .control = control)
  base <- length(serialize(par_last(), NULL))
  many <- par_lapply(1:20000, function(i) NULL, .control = control)
  expect_lt((length(serialize(par_last(), NULL)) - base) / 20000, 100)
})

test_that("the table of a real run has every element", {
  control <- par_control(workers = 2L, progress = FALSE, seed = 1L)
  par_mapply(function(a, b) a + b, c(x = 1, y = 2), 3:4, .control = control)
  table <- as.data.frame(par_last())
  expect_identical(table$name, c("x", "y"))
  expect_true(all(table$host == "localhost" & table$seconds > 0 & table$bytes > 0))
  expect_error(as.data.frame(par_last(), row.names = c("a", "b")), "`row.names`", class = "regatta_error_argument")
  expect_error(as.data.frame(par_last(), tries = NA), "`tries`", class = "regatta_error_argument")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
