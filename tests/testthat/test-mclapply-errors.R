set.seed(21)
detritus <- detritus_snapshot()

die <- function(signal = tools::SIGKILL) tools::pskill(Sys.getpid(), signal)

# Without a dump: no file and no entry in crash_dumps.
map <- function(X, FUN, ..., mc.dump.frames = "no") {
  mclapply(X, FUN, ..., mc.dump.frames = mc.dump.frames)
}

test_that("an error is an error of the call, with the first one's text and calls", {
  for (cores in 1:2) {
    inner <- function(x) stop("went wrong")
    error <- expect_error(
      map(1:4, function(i) if (i == 2L) inner(i) else i, mc.cores = cores),
      class = "regatta_error_elements"
    )
    expect_match(conditionMessage(error), "1 of 4 elements failed; the first:")
    expect_match(conditionMessage(error), "element 2 failed")
    expect_match(conditionMessage(error), "inner(i)", fixed = TRUE)
    expect_identical(conditionCall(error)[[1L]], quote(mclapply))
    expect_identical(error$errors[[1L]]$index, 2L)
  }
})

test_that("allowed errors are objects in the places of their elements", {
  seen <- NULL
  got <- withCallingHandlers(
    map(c(a = 1, b = 2, c = 3), function(x) if (x == 2) stop("my reason") else NULL,
      mc.allow.error = TRUE),
    warning = function(w) {
      seen <<- c(seen, class(w)[[1L]], conditionMessage(w))
      invokeRestart("muffleWarning")
    }
  )
  expect_length(seen, 2L)
  expect_identical(seen[[1L]], "regatta_warning_errors")
  expect_match(seen[[2L]], "1 of 3 elements failed.*my reason")
  expect_identical(got[c("a", "c")], list(a = NULL, c = NULL))
  expect_identical(class(got$b), c("etry-error", "try-error"))
  expect_identical(as.character(unclass(got$b)), "Error: my reason")
  expect_s3_class(attr(got$b, "condition"), "simpleError")
  expect_identical(conditionMessage(attr(got$b, "condition")), "my reason")
  expect_length(attr(got$b, "dump.frames"), 0L)
  expect_silent(map(1:2, function(i) stop("x"), mc.allow.error = NA))
})

test_that("the object has the calls of the user and their variables, and nothing of ours", {
  for (cores in 1:2) {
    deep <- function(v) {
      secret <- v * 1000
      stop("deep down")
    }
    got <- map(1:2, function(i) deep(i + 1), mc.allow.error = NA, mc.cores = cores)
    trace <- sub("  at .*", "", attr(got[[1L]], "traceback"))
    expect_identical(trace, c("deep(i + 1)", "FUN(X[[i]], ...)"))
    locals <- attr(got[[1L]], "locals")
    expect_match(locals[[1L]], "secret: num 2000", all = FALSE)
    expect_output(print(got[[1L]]), "Error: deep down.*2: deep\\(i \\+ 1\\).*secret.*1: FUN")
  }
})

test_that("a custom condition keeps class and fields", {
  cnd <- structure(
    class = c("my_error", "error", "condition"), list(message = "m", call = NULL, payload = 7)
  )
  for (cores in 1:2) {
    got <- map(1:2, function(i) stop(cnd), mc.allow.error = NA, mc.cores = cores)
    expect_identical(attr(got[[2L]], "condition"), cnd)
  }
})

test_that("a death is told from NULL and from an error", {
  expect_warning(
    got <- map(1:4, function(i) if (i == 2L) die() else NULL, mc.allow.fatal = TRUE),
    "1 of 4 elements died", class = "regatta_warning_errors"
  )
  expect_identical(class(got[[2L]]), c("fatal-error", "try-error"))
  expect_match(got[[2L]], "SIGKILL")
  expect_s3_class(attr(got[[2L]], "condition"), "regatta_error_death")
  expect_identical(got[-2L], list(NULL, NULL, NULL))
  expect_silent(
    again <- map(1:4, function(i) if (i == 2L) die() else NULL, mc.allow.fatal = NA)
  )
  expect_s3_class(again[[2L]], "fatal-error")
  expect_warning(none <- map(1:4, function(i) if (i == 2L) die() else i, mc.allow.fatal = NULL))
  expect_identical(none, list(1L, NULL, 3L, 4L))
})

test_that("a death ends the call by default, with signal and element", {
  error <- expect_error(
    map(1:4, function(i) if (i == 2L) die(tools::SIGTERM) else i),
    class = "regatta_error_elements"
  )
  expect_match(conditionMessage(error), "1 of 4 elements died with their worker")
  expect_match(conditionMessage(error), "SIGTERM.*element 2")
})

test_that("quit() in an element is a death", {
  got <- map(1:2, function(i) if (i == 1L) quit("no", 3) else i, mc.allow.fatal = NA)
  expect_match(got[[1L]], "status 3")
})

test_that("a death loses its own element and no other, however many a worker takes", {
  got <- map(1:20, function(i) if (i %in% c(3, 4, 11)) die() else i, mc.allow.fatal = NA,
    mc.cores = 2)
  fatal <- vapply(got, inherits, NA, "fatal-error")
  expect_identical(which(fatal), c(3L, 4L, 11L))
  expect_identical(unlist(got[!fatal]), setdiff(1:20, c(3L, 4L, 11L)))
})

test_that("deaths and errors are reported together", {
  both <- function(i) if (i == 1L) die() else if (i == 2L) stop("an error") else i
  error <- expect_error(
    map(1:3, both, mc.fail.early = FALSE), class = "regatta_error_elements"
  )
  expect_match(conditionMessage(error), "died.*SIGKILL.*\n\n--- AND ---\n\n.*failed.*an error")
  expect_length(error$errors, 2L)
  # either may be allowed
  expect_error(
    expect_warning(map(1:3, both, mc.fail.early = FALSE, mc.allow.error = TRUE), "an error"),
    "SIGKILL"
  )
  expect_error(
    expect_warning(map(1:3, both, mc.fail.early = FALSE, mc.allow.fatal = TRUE), "SIGKILL"),
    "an error"
  )
  seen <- character()
  got <- withCallingHandlers(
    map(1:3, both, mc.allow.error = TRUE, mc.allow.fatal = NULL),
    warning = function(w) {
      seen <<- c(seen, conditionMessage(w))
      invokeRestart("muffleWarning")
    }
  )
  expect_length(seen, 2L)
  expect_null(got[[1L]])
  expect_s3_class(got[[2L]], "etry-error")
  expect_identical(got[[3L]], 3L)
})

test_that("after the first error the rest is not run, and says so", {
  for (cores in 1:2) {
    dir <- withr::local_tempdir()
    got <- suppressWarnings(map(1:100, function(i) {
      file.create(file.path(dir, i))
      if (i == 1L) stop("early")
      Sys.sleep(300)
    }, mc.allow.error = TRUE, mc.fail.early = TRUE, mc.preschedule = FALSE, mc.cores = cores))
    expect_s3_class(got[[1L]], "etry-error")
    late <- vapply(got, inherits, NA, "fail-early-error")
    # A worker may have begun one before the end of the call was told to it.
    expect_gt(sum(late), 100L - 2L * cores)
    expect_identical(class(got[late][[1L]]), c("fail-early-error", "try-error"))
    expect_lte(length(list.files(dir)), 1L + cores)
  }
  # which is the default when errors are not allowed
  dir <- withr::local_tempdir()
  expect_error(map(1:100, function(i) {
    file.create(file.path(dir, i))
    if (i == 1L) stop("early")
    Sys.sleep(300)
  }, mc.preschedule = FALSE))
  expect_lte(length(list.files(dir)), 3L)
})

test_that("without prescheduling no element waits behind another one of its worker", {
  dir <- withr::local_tempdir()
  got <- mclapply(1:40, function(i) {
    others <- file.path(dir, 22:40)
    if (i == 21L) {
      # After twenty fast ones a worker would have taken some of these as well.
      until <- Sys.time() + 30
      while (!all(file.exists(others)) && Sys.time() < until) Sys.sleep(0.01)
      return(all(file.exists(others)))
    }
    file.create(file.path(dir, i))
  }, mc.preschedule = FALSE, mc.cores = 2, mc.progress = FALSE)
  expect_identical(unlist(got), rep(TRUE, 40L))
})

test_that("a long element is ended when another has failed", {
  marker <- withr::local_tempfile()
  expect_error(map(1:2, function(i) {
    if (i == 2L) stop("now")
    Sys.sleep(300)
    file.create(marker)
  }, mc.preschedule = FALSE), "now")
  expect_false(file.exists(marker))
})

test_that("a death does not end the others early", {
  got <- map(1:6, function(i) if (i == 1L) die() else i, mc.allow.fatal = NA, mc.fail.early = TRUE)
  expect_identical(got[-1L], as.list(2:6))
})

test_that("the dump is in crash_dumps, with the whole result, and debugger() opens it", {
  for (cores in 1:2) {
    inside <- function(x) {
      here <- x + 41
      stop("look")
    }
    expect_message(
      expect_error(map(c(a = 1, b = 2), function(x) if (x == 1) inside(x) else x,
        mc.dump.frames = "partial", mc.dumpto = "my dump", mc.fail.early = FALSE,
        mc.cores = cores)),
      "crash_dumps[[\"my dump\"]][[1]]", fixed = TRUE
    )
    kept <- crash_dumps[["my dump"]]
    expect_identical(kept$b, 2)
    dump <- attr(kept$a, "dump.frames")
    expect_s3_class(dump, "dump.frames")
    expect_identical(dump[[length(dump)]]$here, 42)
    expect_match(names(dump)[[length(dump)]], "inside(x)", fixed = TRUE)
    rm("my dump", envir = crash_dumps)
  }
})

test_that("without a person the dump is in a file, which debugger() opens in another session", {
  dir <- withr::local_tempdir()
  withr::local_dir(dir)
  expect_message(
    expect_error(mclapply(1:2, function(i) {
      value <- i * 10
      stop("dumped")
    }, mc.fail.early = FALSE)),
    "last.dump.rds"
  )
  last.dump <- readRDS("last.dump.rds")
  first <- attr(last.dump[[1L]], "dump.frames")
  expect_identical(first[[length(first)]]$value, 10)
  expect_identical(list.files(dir), "last.dump.rds")
  # A new session, which answers the question for a number by 0.
  code <- "utils::debugger(attr(readRDS('last.dump.rds')[[1L]], 'dump.frames'))"
  shown <- system2(
    file.path(R.home("bin"), "R"), c("--vanilla", "--no-echo"), stdout = TRUE, stderr = FALSE,
    input = c(code, "0"), timeout = 60, env = "R_TESTS="
  )
  expect_match(shown, "Message:  dumped", all = FALSE)
  expect_match(shown, "FUN(X[[i]], ...)", fixed = TRUE, all = FALSE)
  expect_message(
    expect_error(map(1:2, function(i) stop("x"), mc.dump.frames = "partial",
      mc.dumpto = "file:///no/such/folder/dump.rds")),
    "could not be written"
  )
})

test_that("what is dumped can be chosen", {
  withr::defer(rm(list = ls(crash_dumps), envir = crash_dumps))
  big <- function(x) {
    much <- numeric(5e5)
    stop("big")
  }
  for (cores in 1:2) {
    frames <- lapply(c("partial", "full", "full_global", "no"), function(dump) {
      suppressMessages(expect_error(map(1:2, function(i) big(i), mc.dump.frames = dump,
        mc.dumpto = dump, mc.cores = cores)))
      # The first error in time stops the call, which need not be that of the first element.
      failed <- Filter(function(x) inherits(x, "etry-error"), crash_dumps[[dump]])
      if (length(failed) > 0L) attr(failed[[1L]], "dump.frames")
    })
    expect_type(frames[[1L]][[length(frames[[1L]])]]$much, "character")
    expect_identical(frames[[2L]][[length(frames[[2L]])]]$much, numeric(5e5))
    expect_identical(names(frames[[3L]])[[1L]], ".GlobalEnv")
    expect_false(".GlobalEnv" %in% names(frames[[2L]]))
    expect_null(frames[[4L]])
  }
})

test_that("there is no dump where errors are allowed", {
  withr::local_dir(withr::local_tempdir())
  got <- mclapply(1:2, function(i) stop("x"), mc.allow.error = NA)
  expect_length(list.files(), 0L)
  expect_s3_class(attr(got[[1L]], "dump.frames"), "dump.frames")
  expect_gt(length(attr(got[[1L]], "dump.frames")), 0L)
})

test_that("infinite recursion is an error of its element", {
  recurse <- function(i) recurse(i + 1)
  for (cores in 1:2) {
    got <- map(1:2, function(i) if (i == 1L) recurse(i) else i, mc.allow.error = NA,
      mc.fail.early = FALSE, mc.cores = cores)
    expect_s3_class(got[[1L]], "etry-error")
    expect_identical(got[[2L]], 2L)
  }
})

test_that("an error that FUN handles is none", {
  for (cores in 1:2) {
    got <- map(1:2, function(i) tryCatch(stop("x"), error = function(e) "handled"),
      mc.cores = cores)
    expect_identical(got, list("handled", "handled"))
    signalled <- map(1:2, function(i) {
      signalCondition(simpleError("only a signal"))
      i
    }, mc.cores = cores, mc.conditions = "ignore") # handlers of the test would be asked
    expect_identical(signalled, list(1L, 2L))
  }
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
