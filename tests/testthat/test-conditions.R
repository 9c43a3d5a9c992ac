detritus <- detritus_snapshot()

user_record <- function(message = "cannot fit", n_calls = 3L) {
  cnd <- structure(
    class = c("fit_error", "error", "condition"),
    list(message = message, call = quote(fit(d)), code = 7L)
  )
  calls <- lapply(seq_len(n_calls), function(i) call(paste0("f", i), quote(x)))
  attr(calls[[n_calls]], "srcref") <- "fit.R#12"
  trace <- structure(
    list(calls = calls, locals = list(), omitted = c(after = 0L, frames = 0L)),
    class = "regatta_trace"
  )
  list(cnd = cnd, trace = trace, dump = NULL)
}

show_error <- function(cnd) {
  writeLines(conditionMessage(cnd))
}

test_that("the messages of failed elements read as they should", {
  expect_snapshot({
    show_error(error_element(user_record(), 3, "c", 12345L))
    show_error(error_element(user_record("two\nlines\n", 14L), 3, NULL, 12345L, 2L))
    show_error(error_death(2, "b", 12345L, 1L, 9L, NA, 1.2e9, TRUE, c(3, 4)))
    show_error(error_death(2, NULL, 12345L, 3L, 9L, NA, 5e6, FALSE))
    show_error(error_death(2, NULL, 12345L, 1L, 9L, NA, NA, NA))
    show_error(error_death(2, "b", 12345L, 1L, NA, 3L, 2e8))
    show_error(error_death(2, "b", 12345L, 1L, 11L, NA, 0, backtrace = "f() at a.c:3"))
    show_error(error_death(2, NULL, 12345L, 1L, NA, 125L, 2e8, backtrace = "Error: cannot report it"))
    show_error(error_death(NA, NULL, 12345L, 1L, 15L))
    show_error(error_death(4, NULL, 12345L))
    show_error(error_timeout(4, "d", 12345L, 1L, "elapsed", 2, 2.04))
    show_error(error_timeout(4, "d", 12345L, 2L, "cpu", 60, 61.2))
    show_error(error_timeout(4, NULL, 12345L, 1L, "memory", 1e9, 1.26e9))
    show_error(error_timeout(4, NULL, 12345L, 1L, "memory", 1e9))
  })
})

test_that("the messages about a whole run read as they should", {
  some <- list(
    error_element(user_record(), 3, "c", 12345L),
    error_element(user_record(), 5, "e", 12345L),
    error_death(7, NULL, 12346L, 1L, NA, 3L),
    error_timeout(9, NULL, 12347L, 1L, "elapsed", 2, 2.5)
  )
  expect_snapshot({
    show_error(error_elements(some, 100))
    show_error(error_elements(rep(some, 6), 1e6))
    show_error(error_elements(some[3], 3))
    show_error(warning_errors(some, 100))
    show_error(error_memory(3.2e9, 1.1e9))
    show_error(error_start(4, "Resource temporarily unavailable"))
    show_error(error_start(4, "Too many open files", "Raise `ulimit -n`."))
    show_error(error_lost(12345L))
    print(error_lost(12345L, call = quote(par_value(p))))
  })
})

test_that("an error of an element keeps the user's condition and every fact", {
  record <- user_record()
  record$dump <- structure(list(), class = "dump.frames")
  e <- error_element(record, 3, "c", 12345L, 2L, quote(par_lapply(x, f)))
  expect_identical(
    class(e),
    c("regatta_error_element", "regatta_error", "fit_error", "rlang_error", "error", "condition")
  )
  expect_identical(e$parent, record$cnd)
  expect_identical(e$parent$code, 7L)
  expect_identical(e[c("index", "name", "pid", "try")], list(
    index = 3L, name = "c", pid = 12345L, try = 2L
  ))
  expect_identical(e$trace, record$trace)
  expect_identical(e$dump, record$dump)
  expect_identical(conditionCall(e), quote(par_lapply(x, f)))
  expect_true(all(c("name", "dump") %in% names(error_element(user_record(), 3))))
})

test_that("deaths and timeouts carry their facts", {
  e <- error_death(2, "b", 12345L, 1L, 9L, NA, 1.2e9, TRUE, c(3, 4), "f()")
  expect_identical(class(e)[1:2], c("regatta_error_death", "regatta_error"))
  expect_identical(
    e[c("index", "signal", "signal_name", "status", "peak_memory", "oom", "backtrace")],
    list(
      index = 2L, signal = 9L, signal_name = "SIGKILL", status = NA_integer_,
      peak_memory = 1.2e9, oom = TRUE, backtrace = "f()"
    )
  )
  e <- error_timeout(4, NULL, 12345L, 1L, "cpu", 60, 61)
  expect_identical(e[c("kind", "limit", "used")], list(kind = "cpu", limit = 60, used = 61))
  e <- error_memory(3e9, 1e9)
  expect_identical(e[c("requested", "available")], list(requested = 3e9, available = 1e9))
  w <- warning_errors(list(e), 3)
  expect_s3_class(w, c("regatta_warning_errors", "regatta_warning"))
  expect_s3_class(w, "warning")
  expect_identical(w$errors, list(e))
})

test_that("a condition whose message cannot be had is still reported", {
  bad <- structure(class = c("bad_error", "error", "condition"), list(message = NULL, call = NULL))
  expect_match(conditionMessage(error_element(list(cnd = bad), 1)), "bad_error")
  failing <- structure(
    class = c("regatta_test_failing", "error", "condition"),
    list(message = "from the field", call = NULL)
  )
  method <- function(c) stop("no message for you")
  registerS3method("conditionMessage", "regatta_test_failing", method, envir = baseenv())
  expect_match(conditionMessage(error_element(list(cnd = failing), 1)), "from the field")
})

test_that("an uncaught error is shown whole and leaves no option changed", {
  e <- error_elements(rep(list(error_element(user_record(strrep("long ", 30)), 3, "c")), 20), 100)
  expect_gt(nchar(conditionMessage(e)), 2000)
  shown <- NULL
  old <- getOption("warning.length")
  caught <- tryCatch(
    withCallingHandlers(
      signal_error(e),
      error = function(cnd) shown <<- getOption("warning.length")
    ),
    error = identity
  )
  expect_identical(caught, e)
  expect_identical(shown, 8170L)
  expect_identical(getOption("warning.length"), old)
  text <- paste(capture.output(try(signal_error(e)), type = "message"), collapse = "\n")
  expect_match(text, conditionMessage(e), fixed = TRUE)
  expect_identical(getOption("warning.length"), old)
})

test_that("rlang and testthat can show an error of ours", {
  e <- error_element(user_record(), 3, "c", 12345L)
  expect_match(rlang::cnd_message(e), "element 3 (\"c\") failed", fixed = TRUE)
  # What to do next is there where rlang words the error, as in knitr, too.
  advised <- with_advice(e)
  expect_match(conditionMessage(advised), "par_replay(par_last(), 3)", fixed = TRUE)
  for (line in strsplit(conditionMessage(advised), "\n", fixed = TRUE)[[1L]]) {
    expect_match(rlang::cnd_message(advised), line, fixed = TRUE)
  }
  expect_identical(nrow(e$trace), 3L)
  reporter <- testthat::SilentReporter$new()
  testthat::with_reporter(reporter, testthat::test_that("fails", {
    signal_error(e)
  }))
  shown <- paste(format(reporter$expectations()[[1L]]), collapse = "\n")
  expect_match(shown, "cannot fit", fixed = TRUE)
})

test_that("elements, sizes, durations and exits are written for people", {
  expect_identical(format_element(3, "c"), "element 3 (\"c\")")
  expect_identical(format_element(123456789), "element 123456789")
  expect_identical(format_element(1, NA), "element 1")
  expect_identical(format_element(1, ""), "element 1")
  expect_identical(format_element(1e5, "a\tb"), "element 100000 (\"a\\tb\")")
  sizes <- c(0, 1, 999, 999.6, 1000, 999949, 999951, 1e6, 65536, 2e9, 2^60, Inf, NA)
  times <- c(0, 0.001, 0.5, 2, 9.94, 9.96, 40, 119, 120, 200, 7000, 7300, 86400, 1e6, Inf, NA)
  expect_snapshot({
    vapply(sizes, format_bytes, "")
    vapply(times, format_seconds, "")
    format_exit(9L)
    format_exit(status = 3L)
    format_exit(64L)
    format_exit()
  })
})

test_that("sizes are read back as they are written", {
  for (size in c(1, 500, 1e3, 2.5e6, 2e9, 1.5e12)) {
    expect_identical(parse_bytes(sub("bytes?", "B", format_bytes(size))), size)
  }
})

test_that("signals have the names that this system gives them", {
  known <- c("SIGHUP", "SIGINT", "SIGKILL", "SIGTERM", "SIGSTOP", "SIGCONT", "SIGCHLD", "SIGUSR1",
             "SIGUSR2", "SIGQUIT")
  for (name in known) {
    number <- getExportedValue("tools", name)
    expect_identical(signal_name(number), name)
  }
  expect_identical(signal_name(63L), "signal 63")
  expect_identical(signal_name(NA), NA_character_)
  expect_false(anyDuplicated(signal_table()) > 0)
})

test_that("long and many calls stay short", {
  record <- user_record(n_calls = 12L)
  record$trace$calls <- rep(list(call("f", strrep("x", 500), 1:1e5)), 12)
  record$trace$omitted <- c(after = 2L, frames = 1000L)
  body <- error_element(record, 1)$body
  expect_length(body, 12L)
  expect_true(all(nchar(body) < 100L))
  expect_match(body[[2L]], "1002 outer calls")
  record$trace$calls <- list()
  expect_length(error_element(record, 1)$body, 0L)
  expect_length(error_element(list(cnd = record$cnd), 1)$body, 0L)
})

test_that("messages and prints have the same numbers whatever options() say of numbers", {
  run <- {
    par_lapply(1:3, function(i) Sys.sleep(0.01), .on = 2L, .control = two_workers(workers = 2L))
    par_last()
  }
  facts <- regatta_info()
  shared <- shm_info()
  array <- shm_array(c(100000, 2))
  control <- par_control(timeout = 0.25, memory = 1.5e9, retries = 100000)
  sparse <- structure(class = "summary.h5_matrix", list(
    dim = c(100000, 2), type = "double", elements = 2e5, missing = 0, nonzero = 12345, sum = 1, mean = 0.12345678,
    min = -0.5, max = 1e5, row_sums = regatta:::h5_quartiles(c(0.25, 1e5)),
    row_nonzero = regatta:::h5_quartiles(1:3), column_sums = regatta:::h5_quartiles(c(12345.67, 2)),
    column_nonzero = regatta:::h5_quartiles(1e6)
  ))
  refused <- function(code) conditionMessage(expect_error(code, class = "regatta_error_argument"))
  words <- function() {
    list(
      format(run), format(summary(run)), format(facts), format(shared), format(control), format(sparse),
      capture.output(print(array))[[1L]],
      refused(par_control(timeout = -1.5)), refused(par_control(retries = 0.25)), refused(par_control(batch = -1e5)),
      refused(par_lapply(1:2, identity, .control = 100000)), refused(shm_array(c(1e5, 1e15))),
      vapply(c(0.25, 1.5, 1e5), regatta:::format_seconds, ""), vapply(c(1500, 1e9), regatta:::format_bytes, ""),
      regatta:::atomic_sample(c(0.5, 1e5, NA), 3L), conditionMessage(regatta:::error_timeout(
        100000L, NULL, 1L, 1L, kind = "elapsed", limit = 0.5, used = 1.25
      ))
    )
  }
  usual <- words()
  for (odd in list(
    list(OutDec = ",", warn = 2), list(OutDec = ",", scipen = -5, digits = 3), list(scipen = 100, digits = 15)
  )) {
    expect_identical(withr::with_options(odd, words()), usual)
  }
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
