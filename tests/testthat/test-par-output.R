detritus <- detritus_snapshot()

# What a session prints to its real stdout and stderr.
printed_by <- function(fun, ...) {
  fault_run(fun, list(...))[c("stdout", "stderr")]
}

test_that("relayed stdout carries the element's index, from R, C and grandchildren", {
  skip_unless_linux()
  library <- fault_compile(c(
    "#include <stdio.h>",
    "void speak(int *i) { printf(\"from C %d\\n\", *i); fflush(stdout); }"
  ), "speak")
  printed <- printed_by(function(library) {
    dyn.load(library)
    par_lapply(1:2, function(i) {
      cat("from R", i, "\n")
      print(i)
      .C("speak", i)
      system(paste("echo from sh", i))
      NULL
    }, .control = par_control(workers = 2L, progress = FALSE))
    NULL
  }, library)
  for (i in 1:2) {
    mine <- grep(paste0("^", i, ": "), printed$stdout, value = TRUE)
    expect_setequal(trimws(mine), paste0(i, ": ", c(
      paste("from R", i), paste("[1]", i), paste("from C", i), paste("from sh", i)
    )))
  }
})

test_that("a name stands in the place of the index", {
  out <- capture.output(invisible(par_lapply(c(alpha = 1, beta = 2), function(x) {
    cat("value", x, "\n")
  }, .control = two_workers(stdout = "capture"))))
  expect_identical(out, c("alpha: value 1 ", "beta: value 2 "))
  skip_unless_linux()
  printed <- printed_by(function() {
    par_lapply(c(alpha = 1, beta = 2), function(x) {
      cat("value", x, "\n")
      message("note ", x)
    }, .control = par_control(workers = 2L, progress = FALSE))
    NULL
  })
  expect_true(all(c("alpha: value 1 ", "beta: value 2 ") %in% printed$stdout))
  expect_true(all(c("alpha: note 1", "beta: note 2") %in% printed$stderr))
})

test_that("output is relayed while the element still runs", {
  skip_unless_linux()
  gate <- withr::local_tempfile()
  session <- local_session(function(gate) {
    par_lapply(1:2, function(i) {
      cat("waiting", i, "\n")
      while (!file.exists(gate)) Sys.sleep(0.01)
      i
    }, .control = par_control(workers = 2L, progress = FALSE))
  }, list(gate = gate))
  fault_wait_line(session, "^1: waiting 1")
  fault_wait_line(session, "^2: waiting 2")
  file.create(gate)
  expect_identical(fault_value(session)$value, list(1L, 2L))
})

test_that("an unfinished line is not lost and lines of two elements do not mix", {
  skip_unless_linux()
  printed <- printed_by(function() {
    par_lapply(1:2, function(i) {
      for (k in 1:200) {
        cat(strrep(letters[i], 50))
        cat(strrep(letters[i], 50), "\n")
      }
      cat("no newline")
    }, .control = par_control(workers = 2L, progress = FALSE, batch = 1L))
    NULL
  })
  lines <- grep("^[12]: [ab]+ $", printed$stdout, value = TRUE)
  expect_identical(sort(unique(lines)), paste0(1:2, ": ", strrep(c("a", "b"), 100), " "))
  expect_length(lines, 400L)
  expect_identical(sum(grepl("^[12]: no newline$", printed$stdout)), 2L)
})

test_that("half a line of an element that the error of another one stops is told", {
  skip_unless_linux()
  for (mode in c("relay", "capture")) {
    begun <- withr::local_tempfile()
    out <- capture.output(failed <- tryCatch(
      par_lapply(1:2, function(i) {
        if (i == 2L) {
          while (!file.exists(begun)) Sys.sleep(0.01)
          stop("no")
        }
        cat("half")
        file.create(begun)
        Sys.sleep(300)
      }, .control = two_workers(stdout = mode)),
      error = identity
    ))
    expect_s3_class(failed, "regatta_error_element")
    expect_identical(out, "1: half")
  }
})

test_that("captured stdout is re-emitted in the order of the elements, each one's lines together", {
  out <- capture.output(invisible(par_lapply(1:4, function(i) {
    cat("begin", i, "\n")
    Sys.sleep((5 - i) / 50)
    cat("end", i, "\n")
  }, .control = two_workers(stdout = "capture", batch = 1L))))
  expect_identical(trimws(out), paste0(rep(1:4, each = 2L), ": ", c("begin ", "end "),
    rep(1:4, each = 2L)))
})

test_that("dropped output and conditions go nowhere", {
  control <- two_workers(
    stdout = "drop", stderr = "drop", messages = "drop", warnings = "drop", conditions = "drop"
  )
  seen <- list()
  out <- capture.output(withCallingHandlers(
    got <- par_lapply(1:2, function(i) {
      cat("out\n")
      message("note")
      warning("careful")
      signalCondition(structure(class = c("special", "condition"), list(message = "m")))
      i
    }, .control = control),
    condition = function(c) seen <<- c(seen, list(class(c)))
  ))
  expect_identical(got, list(1L, 2L))
  expect_identical(out, character())
  expect_length(Filter(function(k) any(c("message", "warning", "special") %in% k), seen), 0L)
  skip_unless_linux()
  printed <- printed_by(function() {
    par_lapply(1:2, function(i) {
      system("echo on stdout; echo on stderr >&2")
      i
    }, .control = par_control(workers = 2L, progress = FALSE, stdout = "drop", stderr = "drop"))
    NULL
  })
  expect_false(any(grepl("on stdout|on stderr", unlist(printed))))
})

# The conditions of `class` that reach a handler of the caller, in order.
conditions_of <- function(expr, class) {
  seen <- list()
  handlers <- stats::setNames(list(function(c) {
    seen <<- c(seen, list(c))
    if (inherits(c, "warning")) invokeRestart("muffleWarning")
    if (inherits(c, "message")) invokeRestart("muffleMessage")
  }), class)
  eval(as.call(c(quote(withCallingHandlers), quote(force(expr)), handlers)))
  seen
}

custom <- function(class, i) {
  structure(
    class = c(paste0("custom_", class), class, "condition"),
    list(message = paste0("text ", i, if (class == "message") "\n"), call = NULL, field = i)
  )
}

test_that("messages, warnings and other conditions reach handlers with class and fields", {
  for (mode in c("relay", "capture")) {
    for (class in c("message", "warning", "progression")) {
      raise <- switch(class, message = message, warning = warning, signalCondition)
      control <- two_workers(messages = mode, warnings = mode, conditions = mode)
      seen <- conditions_of(
        par_lapply(1:4, function(i) raise(custom(class, i)), .control = control), class
      )
      expect_length(seen, 4L)
      expect_true(all(vapply(seen, inherits, NA, paste0("custom_", class))))
      fields <- vapply(seen, function(c) c$field, 0L)
      expect_setequal(fields, 1:4)
      if (mode == "capture") expect_identical(fields, 1:4)
      texts <- vapply(seen, conditionMessage, "")
      expect_match(texts, "text [1-4]")
    }
  }
})

test_that("a message is relayed to stderr with its prefix, a warning is a warning of the call", {
  skip_unless_linux()
  printed <- printed_by(function() {
    par_lapply(1:2, function(i) {
      message("note ", i)
      warning("careful ", i)
      write(paste("raw", i), stderr())
      system(paste("echo grandchild", i, ">&2"))
    }, .control = par_control(workers = 2L, progress = FALSE))
    NULL
  })
  for (i in 1:2) {
    expect_true(paste0(i, ": note ", i) %in% printed$stderr)
    expect_true(paste0(i, ": raw ", i) %in% printed$stderr)
    expect_true(paste0(i, ": grandchild ", i) %in% printed$stderr)
    expect_true(any(grepl(paste("careful", i), printed$stderr)))
  }
})

test_that("a handler in FUN takes a condition before it is relayed", {
  expect_no_condition_seen <- conditions_of(
    got <- par_lapply(1:2, function(i) suppressWarnings(as.integer("x")), .control = two_workers()),
    "warning"
  )
  expect_length(expect_no_condition_seen, 0L)
  expect_identical(got, list(NA_integer_, NA_integer_))
  got <- par_lapply(1:2, function(i) {
    tryCatch(stop("mine"), error = function(e) conditionMessage(e))
  }, .control = two_workers())
  expect_identical(got, list("mine", "mine"))
})

test_that("options(warn = 2) turns a warning of an element into its error", {
  withr::local_options(warn = 2)
  err <- expect_error(
    par_lapply(1:2, function(i) as.integer("x"), .control = two_workers()),
    class = "regatta_error_element"
  )
  expect_match(conditionMessage(err), "NAs introduced by coercion")
  # The element has not gone on, and what led to the warning is known.
  err <- expect_error(
    par_lapply(1L, function(i) {
      here <- 5
      warning("careful")
      Sys.sleep(600)
    }, .control = two_workers()),
    class = "regatta_error_element"
  )
  expect_match(conditionMessage(err$parent), "(converted from warning) careful", fixed = TRUE)
  expect_true("here: num 5" %in% unlist(err$trace$locals))
  got <- suppressWarnings(classes = "regatta_warning_errors", par_lapply(1:3, function(i) {
    if (i == 2L) as.integer("x") else i
  }, .control = two_workers(errors = "collect")))
  expect_identical(vapply(got, inherits, NA, "regatta_error_element"), c(FALSE, TRUE, FALSE))
  got <- par_lapply(1L, function(i) {
    if (Sys.getenv("REGATTA_TRY") == "1") as.integer("x") else 2
  }, .control = two_workers(retries = 1))
  expect_identical(got, list(2))
  # Nor has a try that is followed by another one.
  got <- par_lapply(1L, function(i) {
    if (Sys.getenv("REGATTA_TRY") == "1") {
      warning("careful")
      Sys.sleep(600)
    }
    2
  }, .control = two_workers(retries = 1))
  expect_identical(got, list(2))
})

test_that("handlers in the session come before its options(warn = 2)", {
  withr::local_preserve_seed()
  withr::local_options(warn = 2)
  f <- function(i) as.integer("x")
  na <- list(NA_integer_, NA_integer_)
  for (mode in c("relay", "capture")) {
    expect_identical(suppressWarnings(par_lapply(1:2, f, .control = two_workers(warnings = mode))), na)
  }
  expect_identical(par_lapply(1:2, f, .control = two_workers(warnings = "drop")), na)
  muffle <- function(w) tryInvokeRestart("muffleWarning")
  expect_identical(withCallingHandlers(par_lapply(1:2, f, .control = two_workers()), warning = muffle), na)
  expect_identical(tryCatch(par_lapply(1:2, f, .control = two_workers()), warning = function(w) "W"), "W")
  expect_identical(suppressWarnings(par_value(par_call(as.integer("x")))), NA_integer_)
  expect_identical(mclapply(1:2, f, mc.cores = 2, mc.warnings = "m_ignore"), na)
  expect_identical(suppressWarnings(mclapply(1:2, f, mc.cores = 2)), na)
  with_signal <- function() mclapply(1:2, f, mc.cores = 2, mc.warnings = "signal", mc.dump.frames = "no")
  expect_error(suppressWarnings(with_signal()), "converted from warning")
})

test_that("an element's own option `warn` is that of its warnings", {
  printed <- printed_by(function() {
    two <- par_control(workers = 2L)
    silent <- function(i) {
      options(warn = -1)
      as.integer("x")
    }
    for (warn in 0:2) {
      options(warn = warn)
      heard <- 0
      got <- withCallingHandlers(par_lapply(1:2, silent, .control = two), warning = function(w) heard <<- heard + 1)
      stopifnot(identical(got, list(NA_integer_, NA_integer_)), heard == 2, identical(getOption("warn"), warn))
      stopifnot(identical(par_lapply(1:2, silent, .control = two), got))
      stopifnot(identical(mclapply(1:2, silent, mc.cores = 2), got))
    }
    # An error that is merely signalled ends nothing either.
    f <- function(i) {
      signalCondition(simpleError("sig"))
      i
    }
    stopifnot(identical(par_lapply(1:2, f, .control = two), list(1L, 2L)))
    options(warn = 0)
    cat("done\n")
    NULL
  })
  expect_identical(printed$stdout[[1L]], "done")
  expect_identical(printed$stderr, character())
  own_error <- function(i) {
    withr::local_options(warn = 3)
    tryCatch(as.integer("x"), error = function(e) "error")
  }
  expect_identical(suppressWarnings(par_lapply(1:2, own_error, .control = two_workers())), list("error", "error"))
})

test_that("an error that is merely signalled gets to handlers in the session", {
  f <- function(i) signalCondition(simpleError("sig"))
  expect_identical(tryCatch(par_lapply(1:2, f, .control = two_workers()), error = conditionMessage), "sig")
})

test_that("sink() and capture.output() inside an element work", {
  got <- par_lapply(1:2, function(i) capture.output(print(i)), .control = two_workers())
  expect_identical(got, list("[1] 1", "[1] 2"))
})

test_that("what many elements write and signal is each one's own, whole lines or halves", {
  speak <- function(i) {
    halves <- list("whole\n", c("no newline", ""), c("two\nli", "nes\n"), c("\n", "more"), "a\nb\nc\n")
    for (half in halves[[i %% 5L + 1L]]) cat(half)
    message("note", appendLF = i %% 2L == 0L)
  }
  expected <- function(i) {
    lines <- list("whole", "no newline", c("two", "lines"), c("", "more"), c("a", "b", "c"))
    paste0(i, ": ", lines[[i %% 5L + 1L]])
  }
  n <- 600L
  for (names in list(NULL, ifelse(seq_len(n) %% 3L == 0L, "", paste0("n", seq_len(n))))) {
    prefixes <- if (is.null(names)) seq_len(n) else ifelse(names == "", seq_len(n), names)
    lines <- unlist(lapply(seq_len(n), function(i) sub("^[0-9]+", prefixes[[i]], expected(i))))
    heard <- character()
    said <- function(mode) {
      heard <<- character()
      capture.output(invisible(withCallingHandlers(
        par_lapply(stats::setNames(seq_len(n), names), speak, .control = two_workers(stdout = mode)),
        message = function(m) {
          heard[[length(heard) + 1L]] <<- conditionMessage(m)
          invokeRestart("muffleMessage")
        }
      )))
    }
    expect_identical(said("capture"), lines)
    # Lines of one element stay in their order.
    relayed <- said("relay")
    if (.Platform$OS.type == "unix") {
      of <- function(lines) match(sub(": .*", "", lines), prefixes)
      expect_identical(relayed[order(of(relayed))], lines)
    }
    expect_setequal(heard, paste0(prefixes, ": note", ifelse(seq_len(n) %% 2L == 0L, "\n", "")))
  }
})

test_that("a handler that muffles a message leaves those that come with it", {
  mine <- function(i) structure(class = c("mine", "message", "condition"), list(message = NULL, call = NULL, i = i))
  registerS3method("conditionMessage", "mine", function(c) paste0("mine ", c$i, "\n"), baseenv())
  withr::defer(rm("conditionMessage.mine", envir = get(".__S3MethodsTable__.", baseenv())))
  printed <- capture.output(type = "message", withCallingHandlers(
    par_lapply(1:60, function(i) message(if (i %% 3L == 0L) mine(i) else paste("note", i)), .control = two_workers()),
    message = function(m) if (grepl("[05]\n", conditionMessage(m))) invokeRestart("muffleMessage")
  ))
  i <- setdiff(1:60, seq(5, 60, 5))
  expect_setequal(printed, ifelse(i %% 3L == 0L, paste("mine", i), sprintf("%d: note %d", i, i)))
})

test_that("the record counts the conditions", {
  suppressMessages(suppressWarnings(par_lapply(1:5, function(i) {
    message("note")
    warning("careful")
    if (i == 1L) warning("again")
  }, .control = two_workers())))
  counts <- par_last()$conditions
  expect_equal(counts[["message"]], 5)
  expect_equal(counts[["warning"]], 6)
  expect_equal(counts[["condition"]], 0)
  expect_equal(counts[["suppressed"]], 0)
})

test_that("stdout of UTF-8 and embedded long lines is relayed byte for byte", {
  skip_unless_linux()
  long <- strrep("x", 200000L)
  printed <- printed_by(function(long) {
    par_lapply(1L, function(i) cat(long, "\n\u4e2d\u6587\n", sep = ""),
      .control = par_control(workers = 1L, progress = FALSE))
    NULL
  }, long)
  expect_true(paste0("1: ", long) %in% printed$stdout)
})

test_that("bytes that no string can hold are left out, and each line stays its element's", {
  skip_unless_linux()
  write <- function(i) {
    system("printf 'a\\000b\\nc\\000'")
    i
  }
  for (mode in c("relay", "capture")) {
    out <- capture.output(got <- par_lapply(1:4, write, .control = two_workers(stdout = mode, batch = 1L)))
    expect_identical(got, as.list(1:4))
    expect_identical(sort(out), sort(paste0(rep(1:4, each = 2L), c(": ab", ": c"))))
  }
})

test_that("messages that an element captures are its own, and so are warnings that R writes at once", {
  cl <- local_cluster(1L)
  withr::local_options(warn = 1)
  expected <- list(c("hi 1", "Warning: w 1"), c("hi 2", "Warning: w 2"))
  for (mode in c("relay", "capture", "drop")) {
    control <- two_workers(messages = mode, warnings = mode)
    expect_silent(got <- par_lapply(1:2, captures_its_messages, .control = control))
    expect_identical(got, expected)
  }
  expect_identical(par_value(par_call(captures_its_messages(1L), .control = two_workers())), expected[[1L]])
  hi <- function(i) capture.output(message("hi ", i), type = "message")
  expect_identical(par_lapply(1:2, hi, .on = cl, .control = two_workers()), list("hi 1", "hi 2"))
  # R keeps warnings for later otherwise: they are those of the element.
  options(warn = 0)
  expect_warning(got <- par_lapply(1, captures_its_messages, .control = two_workers()), "w 1")
  expect_identical(got, list("hi 1"))
  # Afterwards messages are the session's again.
  expect_message(par_lapply(1, function(i) {
    captures_its_messages(i)
    message("told")
  }, .control = two_workers(warnings = "drop")), "told")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
