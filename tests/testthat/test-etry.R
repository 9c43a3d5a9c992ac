set.seed(27)
detritus <- detritus_snapshot()

test_that("without an error the value is that of the expression", {
  expect_identical(etry(1 + 1), 2)
  expect_null(etry(NULL))
  expect_identical(withVisible(etry(invisible(3)))$value, 3)
  x <- 1
  etry(x <- 2)
  expect_identical(x, 2)
})

test_that("an error becomes an object with the condition, the calls and their variables", {
  inner <- function(a, b) {
    local_value <- a * 2
    stop("went wrong")
  }
  outer <- function(n, ...) inner(n + 1, b = never)
  error <- etry(outer(20), silent = TRUE)
  expect_identical(class(error), c("etry-error", "try-error"))
  expect_identical(as.character(unclass(error)), "Error: went wrong")
  expect_s3_class(attr(error, "condition"), "simpleError")
  expect_identical(conditionMessage(attr(error, "condition")), "went wrong")
  trace <- sub("  at .*", "", unlist(attr(error, "traceback")[1:3]))
  expect_identical(trace, c("inner(n + 1, b = never)", "outer(20)", "etry(outer(20), silent = TRUE)"))
  locals <- attr(error, "locals")
  expect_length(locals, length(attr(error, "traceback")))
  expect_match(locals[[1L]], "local_value: num 42", all = FALSE)
  expect_match(locals[[1L]], "b: <not evaluated: never>", all = FALSE)
  expect_match(locals[[2L]], "n: num 20", all = FALSE)
  expect_false(any(grepl("tryCatch|withCallingHandlers|etry_", unlist(trace))))
})

test_that("it is invisible, and is shown unless silent", {
  expect_false(withVisible(etry(stop("x"), silent = TRUE))$visible)
  expect_silent(etry(stop("x"), silent = TRUE))
  file <- withr::local_tempfile()
  etry(stop("to a file"), outFile = file)
  expect_match(readLines(file), "Error: to a file", all = FALSE)
  withr::local_options(show.error.messages = FALSE, try.outFile = file)
  unlink(file)
  etry(stop("hidden"))
  expect_false(file.exists(file))
})

test_that("what is dumped can be chosen, and debugger() takes it", {
  f <- function(x) {
    here <- x + 1
    stop("dump me")
  }
  caller <- function(dump) {
    outside <- "of the expression"
    etry(f(41), silent = TRUE, dump.frames = dump)
  }
  dumps <- lapply(c("partial", "full", "full_global", "no"), function(dump) {
    attr(caller(dump), "dump.frames")
  })
  for (dump in dumps) {
    expect_s3_class(dump, "dump.frames")
    expect_match(attr(dump, "error.message"), "dump me")
  }
  partial <- dumps[[1L]]
  expect_length(partial, 2L)
  expect_identical(partial[[1L]]$outside, "of the expression")
  expect_identical(partial[[2L]]$here, 42)
  expect_match(names(partial)[[2L]], "f(41)", fixed = TRUE)
  expect_gt(length(dumps[[2L]]), 2L)
  expect_identical(names(dumps[[3L]])[[1L]], ".GlobalEnv")
  expect_length(dumps[[3L]], length(dumps[[2L]]) + 1L)
  expect_length(dumps[[4L]], 0L)
})

test_that("long calls are cut, when they are kept and when they are printed", {
  long <- eval(call("function", NULL, as.call(c(
    quote(`{`), rep(list(quote(value <- 1)), 50), quote(stop("long"))
  ))))
  error <- etry((function(x) long())(c(
    1111111111, 2222222222, 3333333333, 4444444444, 5555555555, 6666666666, 7777777777, 8888888888
  )), silent = TRUE, max.lines = 1)
  expect_true(all(lengths(attr(error, "traceback")) <= 2L))
  full <- capture.output(print(error))
  expect_lt(length(capture.output(print(error, max.lines = 1))), length(full) + 1L)
  expect_match(full, "Crash dump|frames are kept", all = FALSE)
})

test_that("errors of odd shape are kept, too", {
  recurse <- function(i) recurse(i + 1)
  expect_s3_class(etry(recurse(1), silent = TRUE), "etry-error")
  bare <- structure(class = c("bare", "error", "condition"), list())
  expect_s3_class(etry(stop(bare), silent = TRUE), "etry-error")
  expect_identical(attr(etry(stop(bare), silent = TRUE), "condition"), bare)
  expect_output(print(etry(stop(bare), silent = TRUE)), "bare")
  no_call <- etry(stop("plain", call. = FALSE), silent = TRUE)
  expect_identical(as.character(unclass(no_call)), "Error: plain")
  expect_s3_class(etry(rlang::abort("info", class = "custom"), silent = TRUE), "etry-error")
  nested <- etry(tryCatch(stop("inner"), error = function(e) stop("outer")), silent = TRUE)
  expect_match(nested, "outer")
})

test_that("other conditions pass", {
  expect_warning(etry(warning("through")), "through")
  expect_message(etry(message("through")), "through")
  expect_identical(tryCatch(etry(rlang::interrupt()), interrupt = function(e) "out"), "out")
})

test_that("wrong arguments are errors that name them", {
  expect_error(etry(1, silent = NA), class = "regatta_error_argument")
  expect_error(etry(1, max.lines = 0), class = "regatta_error_argument")
  expect_error(etry(1, dump.frames = "some"), class = "regatta_error_argument")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
