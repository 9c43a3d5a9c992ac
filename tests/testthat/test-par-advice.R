detritus <- detritus_snapshot()

# What a person reads of a failure, and what can be pasted then.

failing <- function(X, FUN, ..., verb = par_lapply, control = two_workers(dump = "partial")) {
  expect_error(verb(X, FUN, ..., .control = control), class = "regatta_error")
}

# The lines of a failure without what differs from run to run.
show_failure <- function(err) {
  text <- gsub("worker [0-9]+", "worker PID", conditionMessage(err))
  text <- sub("; peak memory [0-9.]+ [kMG]B", "", text)
  # What a busy machine notices so late that the times differ as they are shown.
  late <- "used [0-9.]+ s of elapsed time, `timeout` allows ([0-9.]+) s"
  writeLines(sub(late, "used more than the \\1 s of elapsed time that `timeout` allows", text))
}

test_that("the message shows the call that has failed, as R does", {
  cases <- list(
    "log(v)" = function(v) log(v),
    "v + 1" = function(v) v + 1,
    "no_such_function(v)" = function(v) no_such_function(v),
    "sqrt(w)" = function(v) {
      deep <- function(w) sqrt(w)
      deep(v)
    },
    "fit(v)" = function(v) {
      fit <- function(d) stop("no fit")
      fit(v)
    },
    "match.arg(v, c(\"a\", \"b\"))" = function(v) match.arg(v, c("a", "b"))
  )
  for (call in names(cases)) {
    err <- failing(list("x"), cases[[call]])
    expect_match(conditionMessage(err), sprintf(", in `%s`: ", call), fixed = TRUE)
    trace <- format(err$trace, locals = FALSE)
    expect_match(trace[[length(trace)]], call, fixed = TRUE)
    # Each call once, and as many lists of variables as calls.
    expect_identical(anyDuplicated(sub("^ *[0-9]+[.]", "", trace)), 0L)
    expect_lte(length(err$trace$locals), length(err$trace$calls))
  }
  expect_no_match(conditionMessage(failing(1, function(v) stop("plain"))), ", in `")
  expect_no_match(conditionMessage(failing(1, function(v) stop("no call", call. = FALSE))), ", in `")
})

test_that("every verb leaves out the calls that it makes itself", {
  plain <- list(
    failing(1:2, function(v) stop("plain")),
    failing(1:2, function(v) stop("plain"), 0, verb = par_vapply),
    failing(1:2, function(v) stop("plain"), `+`, verb = par_reduce),
    failing(4, function(range) stop("plain"), verb = shm_fill),
    failing(c(1, 2), function(values) stop("plain"), verb = shm_map),
    expect_error(par_mapply(function(a, b) stop("plain"), 1:2, 1:2, .control = two_workers())),
    expect_error(par_value(par_call(stop("plain"), .control = two_workers())))
  )
  for (err in plain) expect_no_match(conditionMessage(err), ", in `")
})

test_that("a failure reads as it should", {
  # Where a call stands, testthat keeps in some versions and not in others.
  plain <- function(lines) sub("  at <text>#[0-9]+$", "", sub("^[(]It needs a prompt.*", "<script>", lines))
  expect_snapshot(transform = plain, {
    show_failure(failing(list(a = 1, b = "x"), function(v) log(v)))
    show_failure(failing(list(1, "x"), function(v) log(v), control = two_workers(dump = "no")))
    show_failure(failing(list("x", "y"), function(v) log(v), control = two_workers(errors = "finish")))
    show_failure(failing(1, function(v) par_lapply(list("x"), log, .control = two_workers())))
    show_failure(failing(1, function(v) Sys.sleep(300), control = two_workers(timeout = 0.3)))
    show_failure(failing(1, function(v) quit("no", 3)))
  })
})

test_that("what the message says can be pasted", {
  for (way in c("stop", "finish")) {
    err <- failing(
      list(1, "x"), function(v) {
        inside <- paste(v, "kept")
        log(v)
      },
      control = two_workers(dump = "partial", errors = way)
    )
    lines <- sub("^[^:]*: ", "", err$advice)
    again <- grep("par_replay", lines, value = TRUE)
    expect_identical(again, "par_replay(par_last(), 2)")
    replayed <- expect_error(eval(parse(text = again)), "non-numeric argument")
    expect_false(inherits(replayed, "regatta_error"))
    expect_identical(conditionCall(replayed), quote(log(v)))
    expect_true("debugger(par_last()$dump)" %in% lines)
    frames <- Filter(is.environment, unclass(par_last()$dump))
    expect_identical(frames[[length(frames)]]$inside, "x kept")
  }
})

test_that("without the package attached the words to paste have its name", {
  err <- fault_run(function() {
    detach("package:regatta")
    tryCatch(
      regatta::par_lapply(list("x"), function(v) log(v), .control = regatta::par_control(workers = 1)),
      error = function(e) e$advice
    )
  })$value
  expect_match(err, "regatta::par_replay(regatta::par_last(), 1)", fixed = TRUE, all = FALSE)
  expect_match(err, "debugger(regatta::par_last()$dump)", fixed = TRUE, all = FALSE)
})

# A session with a person at its prompt, as far as R can tell.
at_the_prompt <- function(code, env = parent.frame()) {
  dir <- withr::local_tempdir(.local_envir = env)
  writeLines(c("library(regatta)", code), file.path(dir, "input"))
  process <- processx::process$new(
    file.path(R.home("bin"), "R"), c("--interactive", "--vanilla", "--no-echo", "--no-readline"),
    stdin = file.path(dir, "input"), stdout = file.path(dir, "out"), stderr = "2>&1", wd = dir,
    env = c("current", R_LIBS = paste(.libPaths(), collapse = ":"), R_TESTS = ""), cleanup = TRUE
  )
  withr::defer(process$kill())
  wait_until(function() !process$is_alive(), 60, "the end of the session")
  list(out = readLines(file.path(dir, "out"), warn = FALSE), files = list.files(dir))
}

test_that("at the prompt a failure can be run again and looked into", {
  withr::local_preserve_seed()
  got <- at_the_prompt(c(
    "f <- function() par_lapply(list(1, \"x\"), function(v) { w <- 40 + 2; log(v) })",
    "f()",
    "par_replay(par_last(), 2)",
    "debugger(par_last()$dump)",
    "1",
    "cat(\"found\", w, \"\\n\")",
    "Q"
  ))
  text <- paste(got$out, collapse = "\n")
  expect_match(text, "element 2 failed in worker [0-9]+, in `log\\(v\\)`: non-numeric")
  expect_match(text, "Look at its variables: debugger(par_last()$dump)", fixed = TRUE)
  expect_match(text, "Error in log(v) : non-numeric", fixed = TRUE)
  expect_match(text, "found 42", fixed = TRUE)
  expect_no_match(text, "It needs a prompt")
  expect_identical(got$files, c("input", "out"))
})

test_that("the record of a call that has failed has its errors, and a replay needs no number", {
  err <- failing(list(1, "x", 3), function(v) log(v))
  run <- par_last()
  expect_identical(vapply(run$errors, function(e) e$index, 0L), 2L)
  expect_identical(run$dump, err$dump)
  expect_match(format(run), "element 2 failed", all = FALSE)
  expect_error(par_replay(), "non-numeric argument")
  suppressWarnings(par_lapply(list("a", 2, "b"), function(v) log(v),
    .control = two_workers(errors = "collect")))
  expect_identical(vapply(par_last()$errors, function(e) e$index, 0L), c(1L, 3L))
  par_lapply(1:2, identity, .control = two_workers())
  expect_identical(par_last()$errors, list())
  expect_null(par_last()$dump)
  expect_error(par_replay(), "of which none has failed", class = "regatta_error_argument")
  expect_error(par_replay(2), "record of a run", class = "regatta_error_argument")
  expect_error(par_replay(par_last(), "z"), "\"z\"", class = "regatta_error_argument")
})

test_that("language among the arguments is an argument of the replay too", {
  got <- par_lapply(1:2, function(i, code) class(code), quote(a + b), .control = two_workers())
  expect_identical(par_replay(par_last(), 1), got[[1L]])
})

test_that("a call and a stream that fail leave their records to be replayed", {
  first <- par_call(log("a"), .control = two_workers(dump = "partial"))
  second <- par_call(sqrt("b"), .control = two_workers())
  for (k in 1:2) {
    err <- expect_error(par_value(first), "in `log(\"a\")`", fixed = TRUE)
    expect_error(par_replay(par_last(), 1), "mathematical function")
    expect_identical(par_last()$call[[2L]], quote(log("a")))
    expect_error(par_value(second), "in `sqrt(\"b\")`", fixed = TRUE)
    expect_identical(par_last()$call[[2L]], quote(sqrt("b")))
  }
  stream <- par_stream(list(1, "x"), function(v) log(v), .control = two_workers())
  seen <- NULL
  try(withCallingHandlers(
    while (par_more(stream)) par_next(stream),
    error = function(e) seen <<- par_last()$verb
  ), silent = TRUE)
  expect_identical(seen, "par_stream")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
