set.seed(23)
detritus <- detritus_snapshot()

# What is signalled here while code runs, as "kind text".
signalled <- function(code) {
  seen <- character()
  note <- function(kind) {
    function(cnd) {
      seen <<- c(seen, paste(kind, sub("\n$", "", conditionMessage(cnd))))
      if (kind != "condition") tryInvokeRestart(paste0("muffle", kind))
    }
  }
  withCallingHandlers(
    code, warning = note("Warning"), message = note("Message"), mine = note("condition")
  )
  seen
}

# What a call of mclapply(1:2, FUN, ...) in a new session writes to stderr.
on_stderr <- function(FUN, ...) {
  lines <- fault_run(function(FUN, args) {
    do.call(regatta::mclapply, c(list(1:2, FUN), args))
    NULL
  }, list(FUN = FUN, args = list(...)))$stderr
  lines[nzchar(lines)]
}

test_that("stdout is shown in the order of the elements, with try and index", {
  for (cores in 1:2) {
    out <- capture.output(invisible(mclapply(3:1, function(i) {
      Sys.sleep(i / 100)
      cat("value", i, "\nsecond line\n")
    }, mc.cores = cores)))
    expect_identical(out, c(
      "0/1: value 3 ", "0/1: second line", "0/2: value 2 ", "0/2: second line",
      "0/3: value 1 ", "0/3: second line"
    ))
  }
})

test_that("output of the first elements does not wait for the last", {
  seen <- withr::local_tempfile()
  got <- withCallingHandlers(
    mclapply(1:2, function(i) {
      if (i == 1L) message("early") else wait_until(file.exists(seen), 60)
    }, mc.preschedule = FALSE),
    message = function(m) {
      file.create(seen)
      invokeRestart("muffleMessage")
    }
  )
  expect_true(got[[2L]])
})

test_that("output may go straight on, or away", {
  out <- capture.output(got <- mclapply(1:2, function(i) print(i), mc.stdout = "output"))
  expect_setequal(out, c("0/1: [1] 1", "0/2: [1] 2"))
  expect_identical(
    capture.output(got <- mclapply(1:2, function(i) print(i), mc.stdout = "output", mc.cores = 1)),
    c("[1] 1", "[1] 2")
  )
  for (cores in 1:2) {
    expect_silent(mclapply(1:2, function(i) print(i), mc.stdout = "ignore", mc.cores = cores))
    expect_silent(mclapply(1:2, function(i) print(i), mc.silent = TRUE, mc.cores = cores))
  }
})

test_that("an element in the session that opens or closes sinks does no harm", {
  before <- sink.number()
  out <- capture.output(got <- mclapply(1:2, function(i) {
    if (i == 1L) sink(file.path(tempdir(), "sunk")) else sink()
    cat("text", i, "\n")
  }, mc.cores = 1))
  unlink(file.path(tempdir(), "sunk"))
  expect_identical(sink.number(), before)
  # The second element has closed the sink of its own output.
  expect_identical(out, "text 2 ")
})

test_that("elements in the session share a sink, also after one that has printed or changed sinks", {
  connection <- function() format(attr(getConnection(unclass(stdout())[[1L]]), "conn_id"))
  got <- unlist(mclapply(1:1000, function(i) connection(), mc.cores = 1))
  expect_lt(length(unique(got)), 500L) # one for a fiftieth of a second
  element <- function(i) {
    if (i %in% c(1, 4)) cat("text", i, "\n")
    if (i == 2) sink()
    if (i == 3) {
      sink()
      sink(file.path(tempdir(), "sunk"))
    }
    cat(if (i > 4) paste("after", i, "\n"))
    if (i == 5) stop("five")
  }
  out <- capture.output(suppressWarnings(invisible(mclapply(1:6, element, mc.cores = 1, mc.allow.error = TRUE))))
  unlink(file.path(tempdir(), "sunk"))
  expect_match(out, "^(0/[1-6]: )?(text [14]|after [56]) $")
  expect_identical(sub(".*: ", "", out), c("text 1 ", "text 4 ", "after 5 ", "after 6 "))
})

test_that("warnings, messages and conditions are signalled again, with class and fields", {
  f <- function(i) {
    warning(structure(
      class = c("my_warning", "warning", "condition"),
      list(message = paste("w", i), call = NULL, data = i)
    ))
    message("m ", i)
    signalCondition(structure(
      class = c("mine", "condition"), list(message = paste("c", i), call = NULL)
    ))
    i
  }
  for (cores in 1:2) {
    seen <- signalled(mclapply(1:2, f, mc.cores = cores))
    expected <- c(
      "Warning 0/1: w 1", "Message 0/1: m 1", "condition c 1",
      "Warning 0/2: w 2", "Message 0/2: m 2", "condition c 2"
    )
    # In the session other conditions are signalled where they arise, and once.
    expect_identical(seen, if (cores == 1L) expected[c(3, 1, 2, 6, 4, 5)] else expected)
  }
  data <- NULL
  withCallingHandlers(mclapply(1:2, f), my_warning = function(w) {
    data <<- c(data, w$data)
    invokeRestart("muffleWarning")
  }, message = function(m) invokeRestart("muffleMessage"))
  expect_identical(data, 1:2)
})

test_that("each kind can be ignored", {
  f <- function(i) {
    warning("w")
    message("m")
    signalCondition(structure(class = c("mine", "condition"), list(message = "c", call = NULL)))
  }
  for (cores in 1:2) {
    seen <- signalled(mclapply(1:2, f, mc.warnings = "m_ignore", mc.messages = "m_ignore",
      mc.conditions = "ignore", mc.cores = cores))
    # In the session a condition that is not noted is signalled where it arises, as any other.
    if (cores == 2L) expect_identical(seen, character())
    expect_false(any(grepl("Warning|Message", seen)))
  }
})

test_that("warnings can be made errors", {
  for (cores in 1:2) {
    got <- mclapply(1:2, function(i) {
      local_value <- i
      warning("too hot")
    }, mc.warnings = "stop", mc.allow.error = NA, mc.cores = cores)
    expect_s3_class(got[[1L]], "etry-error")
    expect_match(got[[1L]], "(converted from warning) too hot", fixed = TRUE)
    expect_s3_class(attr(got[[1L]], "condition"), c("simpleError", "error", "condition"),
      exact = TRUE)
    expect_identical(sub("  at .*", "", attr(got[[1L]], "traceback")), "FUN(X[[i]], ...)")
    coerced <- mclapply(1:2, function(i) as.integer("x"), mc.warnings = "stop",
      mc.allow.error = NA, mc.cores = cores)
    expect_match(coerced[[2L]], "NAs introduced")
  }
})

test_that("in the session, what is not muffled is signalled where it arises as well", {
  seen <- signalled(mclapply(1:2, function(i) message("m ", i), mc.messages = "signal",
    mc.cores = 1))
  expect_identical(seen, c("Message m 1", "Message 0/1: m 1", "Message m 2", "Message 0/2: m 2"))
  seen <- signalled(mclapply(1:2, function(i) warning("w ", i), mc.warnings = "ignore",
    mc.cores = 1))
  expect_identical(seen, c("Warning w 1", "Warning w 2"))
})

test_that("output modes write to stderr at once and signal nothing", {
  skip_unless_linux()
  both <- function(i) {
    message("a note")
    warning("a warning")
  }
  lines <- on_stderr(both, mc.messages = "m_output", mc.warnings = "m_output")
  expect_length(lines, 6L)
  for (index in 1:2) {
    own <- lines[startsWith(lines, sprintf("0/%d: ", index))]
    expect_match(own, "simpleMessage.*a note", all = FALSE)
    expect_match(own, "simpleWarning.*a warning", all = FALSE)
  }
  one <- on_stderr(both, mc.messages = "m_output", mc.warnings = "m_output", mc.cores = 1)
  expect_length(one[startsWith(one, "0/")], 6L)
})

test_that("without m_ a worker shows a message, too", {
  skip_unless_linux()
  lines <- on_stderr(function(i) message("shown"), mc.messages = "ignore")
  expect_setequal(lines, c("0/1: shown", "0/2: shown"))
  twice <- on_stderr(function(i) message("shown"), mc.messages = "signal")
  expect_setequal(twice, rep(c("0/1: shown", "0/2: shown"), 2))
  expect_identical(on_stderr(function(i) message("shown"), mc.messages = "m_ignore"), character())
})

test_that("stderr of C code and of programs has the prefix, too", {
  skip_unless_linux()
  lines <- on_stderr(function(i) system("echo aside >&2"))
  expect_setequal(lines, c("0/1: aside", "0/2: aside"))
})

test_that("a handler around the call may leave it", {
  for (mode in c("m_signal", "signal")) {
    for (cores in 1:2) {
      expect_identical(
        tryCatch(mclapply(1:4, function(i) warning("x"), mc.warnings = mode, mc.cores = cores),
          warning = function(w) "left"),
        "left"
      )
    }
  }
})

test_that("an interrupt of an element in the session leaves nothing changed", {
  skip_unless_linux()
  got <- fault_run(function() {
    set.seed(1)
    before <- list(.Random.seed, sink.number(), Sys.getenv(), nrow(showConnections()))
    caught <- tryCatch(
      mclapply(1:2, function(i) {
        cat("text\n")
        tools::pskill(Sys.getpid(), tools::SIGINT)
        for (k in 1:100) Sys.sleep(0.1)
      }, mc.cores = 1, mc.retry = 1),
      interrupt = function(e) "interrupt"
    )
    after <- list(.Random.seed, sink.number(), Sys.getenv(), nrow(showConnections()))
    list(caught, identical(before, after), identical(mclapply(1:2, identity), list(1L, 2L)))
  })$value
  expect_identical(got, list("interrupt", TRUE, TRUE))
})

test_that("very many warnings stay bounded, with a count", {
  for (cores in 1:2) {
    seen <- signalled(mclapply(1:2, function(i) {
      for (k in 1:1200) warning("again")
    }, mc.cores = cores))
    expect_length(seen, 2002L)
    expect_match(seen[[1001L]], "0/1: 200 more warnings")
  }
})

test_that("messages and warnings that an element captures are its own", {
  withr::local_options(warn = 1)
  for (mode in c("m_signal", "signal", "m_output", "output")) {
    expect_silent(got <- mclapply(1:2, captures_its_messages, mc.messages = mode, mc.warnings = mode))
    expect_identical(got, list(c("hi 1", "Warning: w 1"), c("hi 2", "Warning: w 2")))
    # In this process the handlers of the test would take the warnings.
    hi <- function(i) capture.output(message("hi ", i), type = "message")
    expect_identical(mclapply(1:2, hi, mc.cores = 1, mc.messages = mode), list("hi 1", "hi 2"))
  }
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
