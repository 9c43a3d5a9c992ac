detritus <- detritus_snapshot()

custom_stop <- function(i) {
  stop(structure(
    class = c("my_error", "error", "condition"),
    list(message = paste("custom", i), call = NULL, payload = list(i))
  ))
}

test_that("an error stops the run and carries what is needed to find it", {
  err <- expect_error(
    par_lapply(c(a = 1, b = 2, c = 3), function(x) if (x == 2) stop("went wrong") else x,
      .control = two_workers()),
    class = "regatta_error_element"
  )
  expect_s3_class(err, c("regatta_error_element", "regatta_error", "simpleError", "rlang_error",
    "error", "condition"), exact = TRUE)
  expect_identical(err$index, 2L)
  expect_identical(err$name, "b")
  expect_identical(err$try, 1L)
  expect_true(err$pid %in% par_last()$workers$pid)
  expect_false(err$pid == Sys.getpid())
  expect_s3_class(err$parent, "simpleError")
  expect_identical(conditionMessage(err$parent), "went wrong")
  expect_match(conditionMessage(err), "element 2 \\(\"b\"\\) failed in worker [0-9]+: went wrong")
})

test_that("the user's own condition keeps class and fields, as a parent", {
  err <- expect_error(
    par_lapply(1:2, custom_stop, .control = two_workers(workers = 1L)),
    class = "regatta_error_element"
  )
  expect_s3_class(err$parent, c("my_error", "error", "condition"), exact = TRUE)
  expect_identical(err$parent$payload, list(1L))
  chained <- expect_error(
    par_lapply(1L, function(i) {
      tryCatch(custom_stop(i), error = function(e) rlang::abort("outer", parent = e))
    }, .control = two_workers(workers = 1L)),
    class = "regatta_error_element"
  )
  expect_s3_class(chained$parent, "rlang_error")
  expect_s3_class(chained$parent$parent, "my_error")
})

test_that("the traceback has the user's frames with their locals, and none of ours", {
  inner <- function(v) {
    secret <- v * 1000
    stop("deep")
  }
  outer <- function(x) {
    label <- "in outer"
    inner(x + 1)
  }
  err <- expect_error(
    par_lapply(1L, function(i) outer(i), .control = two_workers(workers = 1L)),
    class = "regatta_error_element"
  )
  calls <- vapply(err$trace$calls, function(call) deparse(call)[[1L]], "")
  expect_match(calls, "inner\\(x \\+ 1\\)", all = FALSE)
  expect_match(calls, "outer\\(i\\)", all = FALSE)
  expect_false(any(grepl("rg_|ffi_|withCallingHandlers|tryCatch|capture_error|par_lapply", calls)))
  locals <- paste(unlist(err$trace$locals), collapse = "\n")
  expect_match(locals, "secret.*2000")
  expect_match(locals, "label.*in outer")
  expect_match(conditionMessage(err), "inner\\(x \\+ 1\\)")
})

test_that("the dump opens in debugger() and holds the frames", {
  withr::local_dir(withr::local_tempdir())
  f <- function(x) {
    here <- x + 41
    stop("look inside")
  }
  for (dump in c("partial", "full")) {
    err <- expect_error(
      par_lapply(1L, function(i) f(i), .control = two_workers(workers = 1L, dump = dump)),
      class = "regatta_error_element"
    )
    expect_s3_class(err$dump, "dump.frames")
    frames <- Filter(is.environment, unclass(err$dump))
    values <- lapply(frames, function(frame) get0("here", frame, inherits = FALSE))
    expect_identical(Filter(Negate(is.null), unname(values)), list(42))
  }
  err <- expect_error(
    par_lapply(1L, function(i) f(i), .control = two_workers(workers = 1L, dump = "no")),
    class = "regatta_error_element"
  )
  expect_null(err$dump)
})

test_that("a script's failure writes nothing unless a file is named", {
  skip_unless_linux()
  dir <- withr::local_tempdir()
  got <- fault_run(function(dir) {
    setwd(dir)
    fail <- function(...) {
      err <- tryCatch(par_lapply(1:2, function(i) {
        local_value <- i * 10
        stop("dumped")
      }, .control = par_control(workers = 1L, progress = FALSE, ...)), error = identity)
      list(files = list.files(dir), advice = err$advice)
    }
    value_in <- function(dump) {
      frames <- Filter(is.environment, unclass(dump))
      list(class = class(dump), value = unlist(lapply(frames, function(frame) {
        get0("local_value", frame, inherits = FALSE)
      })))
    }
    silent <- fail()
    options(regatta.dump_file = "by-option.rds")
    optional <- fail()
    named <- fail(dump_file = "named.rds")
    last <- value_in(par_last()$dump)
    collected <- NULL
    withCallingHandlers(
      fail(errors = "collect", dump_file = "collected.rds"),
      warning = function(w) {
        collected <<- conditionMessage(w)
        invokeRestart("muffleWarning")
      }
    )
    list(
      silent = silent, optional = optional, named = named, last = last, collected = collected,
      read = lapply(c("by-option.rds", "named.rds", "collected.rds"), function(file) {
        value_in(readRDS(file))
      }),
      dir = normalizePath(dir)
    )
  }, list(dir = dir))$value
  kept <- list(class = "dump.frames", value = c("FUN(X[[i]], ...)" = 10))
  expect_identical(got$silent$files, character())
  expect_identical(got$optional$files, "by-option.rds")
  expect_identical(got$named$files, c("by-option.rds", "named.rds"))
  names(got$last$value) <- names(kept$value)
  expect_identical(got$last, kept)
  for (read in got$read) {
    names(read$value) <- names(kept$value)
    expect_identical(read, kept)
  }
  expect_match(got$silent$advice, "dump_file", all = FALSE)
  where <- sprintf("debugger(readRDS(\"%s/named.rds\"))", got$dir)
  expect_match(got$named$advice, where, fixed = TRUE, all = FALSE)
  expect_match(got$collected, "collected.rds\"))", fixed = TRUE)
})

test_that("where a dump cannot be written that of an earlier failure is not taken for it", {
  path <- withr::local_tempfile()
  saveRDS("earlier", path)
  # What it is written to before it gets its name.
  part <- sprintf("%s.%d.part", path, Sys.getpid())
  dir.create(part)
  withr::defer(unlink(part, recursive = TRUE))
  expect_warning(
    failed <- tryCatch(
      par_lapply(1:2, function(i) stop("later"), .control = two_workers(dump = "partial", dump_file = path)),
      error = identity
    ),
    "cannot write the crash dump", class = "regatta_warning_dump"
  )
  expect_no_match(conditionMessage(failed), basename(path), fixed = TRUE)
  expect_identical(readRDS(path), "earlier")
})

test_that("an error cancels what has not been run and what is running", {
  dir <- withr::local_tempdir()
  err <- expect_error(
    par_lapply(1:200, function(i) {
      file.create(file.path(dir, i))
      if (i == 1L) stop("early")
      Sys.sleep(300)
    }, .control = two_workers(batch = 1L)),
    class = "regatta_error_element"
  )
  expect_identical(err$index, 1L)
  # Each of the two workers may have begun one before the end of the call was told to it.
  expect_lte(length(list.files(dir)), 3L)
  status <- par_last()$elements$status
  expect_identical(as.character(status[[1L]]), "error")
  expect_true(all(status[-1L] %in% c("cancelled", "pending")))
})

# How long the driver waits for elements before one that has failed.
local_stop_wait <- function(seconds, env = parent.frame()) {
  space <- asNamespace("regatta")
  old <- space$stop_wait
  rlang::env_binding_unlock(space, "stop_wait")
  assign("stop_wait", seconds, envir = space)
  withr::defer({
    assign("stop_wait", old, envir = space)
    rlang::env_binding_lock(space, "stop_wait")
  }, envir = env)
}

test_that("the error that is reported is the first in the order of the elements", {
  # However late the first one fails, as far as the driver waits for it.
  local_stop_wait(300)
  for (k in 1:30) {
    err <- expect_error(
      par_lapply(1:1000, function(i) stop("all fail"), .control = two_workers(workers = 3L)),
      class = "regatta_error_element"
    )
    expect_identical(err$index, 1L)
  }
  gate <- withr::local_tempfile()
  err <- expect_error(
    par_lapply(1:200, function(i) {
      if (i == 1L) while (!file.exists(gate)) Sys.sleep(0.01)
      if (i == 2L) on.exit(file.create(gate))
      stop("all fail")
    }, .control = two_workers(batch = 1L)),
    class = "regatta_error_element"
  )
  expect_identical(err$index, 1L)
  err <- expect_error(
    par_lapply(1:3, function(i) if (i != 2) stop("fails") else Sys.sleep(0.2),
      .control = two_workers(workers = 3L)),
    class = "regatta_error_element"
  )
  expect_identical(err$index, 1L)
})

test_that("while an earlier element is waited for no later one begins, and the wait ends", {
  dir <- withr::local_tempdir()
  known <- withr::local_tempfile()
  stop_run <- regatta:::run_stop
  local_function("run_stop", function(run, index) {
    stop_run(run, index)
    file.create(known)
  })
  err <- expect_error(
    par_lapply(1:500, function(i) {
      file.create(file.path(dir, i))
      if (i == 1L) Sys.sleep(300)
      if (i == 2L) stop("now")
      # One may have begun before the session knew of the error.
      while (!file.exists(known)) Sys.sleep(0.01)
    }, .control = two_workers(batch = 1L)),
    class = "regatta_error_element"
  )
  expect_identical(err$index, 2L)
  expect_lte(length(list.files(dir)), 3L)
  # What has a priority of its own begins before elements of a lower index: these are not waited for.
  local_stop_wait(300)
  err <- expect_error(
    par_lapply(1:3, function(i) if (i == 3L) stop("first") else Sys.sleep(300),
      .control = two_workers(workers = 1L, priority = 1:3)),
    class = "regatta_error_element"
  )
  expect_identical(err$index, 3L)
})

test_that("a long element is ended promptly when another fails", {
  marker <- withr::local_tempfile()
  expect_error(
    par_lapply(1:2, function(i) {
      if (i == 2L) stop("now")
      Sys.sleep(300)
      file.create(marker)
    }, .control = two_workers(batch = 1L)),
    class = "regatta_error_element"
  )
  expect_false(file.exists(marker))
})

test_that("collect puts conditions in place of values and warns with a count", {
  seen <- NULL
  got <- withCallingHandlers(
    par_lapply(c(a = 1, b = 2, c = 3, d = 4), function(x) {
      if (x %% 2 == 0) custom_stop(x)
      x
    }, .control = two_workers(errors = "collect")),
    regatta_warning_errors = function(w) {
      seen <<- c(seen, conditionMessage(w))
      invokeRestart("muffleWarning")
    }
  )
  expect_length(seen, 1L)
  expect_match(seen, "2 of 4 elements failed: 2 errors")
  expect_named(got, c("a", "b", "c", "d"))
  expect_identical(got[c("a", "c")], list(a = 1, c = 3))
  expect_s3_class(got$b, "regatta_error_element")
  expect_s3_class(got$d$parent, "my_error")
  expect_identical(got$d$index, 4L)
})

test_that("finish runs everything, then stops with a list of all", {
  dir <- withr::local_tempdir()
  err <- expect_error(
    par_lapply(1:6, function(i) {
      file.create(file.path(dir, i))
      if (i %in% c(2L, 5L)) stop("bad ", i)
    }, .control = two_workers(errors = "finish")),
    class = "regatta_error_elements"
  )
  expect_length(list.files(dir), 6L)
  expect_identical(vapply(err$errors, function(e) e$index, 0L), c(2L, 5L))
  expect_match(conditionMessage(err), "2 of 6 elements failed.*bad 2.*bad 5")
})

test_that("finish with more than twenty failures names twenty and counts the rest", {
  err <- expect_error(
    par_lapply(1:30, function(i) stop("bad"), .control = two_workers(errors = "finish")),
    class = "regatta_error_elements"
  )
  expect_length(err$errors, 30L)
  expect_match(conditionMessage(err), "and 10 more")
})

test_that("an error of odd shape is still an error of its element", {
  shapes <- list(
    function(i) stop(),
    function(i) stop(strrep("long ", 1e5)),
    function(i) stop("caf\u00e9 \u4e2d"),
    function(i) rlang::abort("info", class = "odd", data = new.env()),
    function(i) stop(structure(class = c("bare", "error", "condition"), list())),
    function(i) base::.subset2(list(), 5)
  )
  for (shape in shapes) {
    err <- expect_error(
      par_lapply(1L, shape, .control = two_workers(workers = 1L)),
      class = "regatta_error_element"
    )
    expect_identical(err$index, 1L)
  }
})

test_that("infinite recursion in an element is an error of that element", {
  recurse <- function(i) if (i == 1L) recurse(i) else i
  got <- suppressWarnings(
    par_lapply(1:3, function(i) if (i == 2L) recurse(1L) else i,
      .control = two_workers(errors = "collect"))
  )
  expect_identical(got[c(1L, 3L)], list(1L, 3L))
  expect_s3_class(got[[2L]], "regatta_error")
})

test_that("an error that is only signalled, and not handled, ends nothing", {
  got <- par_lapply(1:2, function(i) {
    list(signalCondition(simpleError("just a signal")), withCallingHandlers(
      signalCondition(simpleError("seen")), error = function(e) i
    ), i)
  }, .control = two_workers(conditions = "drop")) # handlers of the test would be asked
  expect_identical(got, list(list(NULL, NULL, 1L), list(NULL, NULL, 2L)))
})

test_that("an error of the machinery is no error of an element", {
  err <- expect_error(par_control(workers = "two"), class = "regatta_error_argument")
  expect_false(inherits(err, "regatta_error_element"))
  expect_identical(err$argument, "workers")
  expect_identical(err$value, "two")
})

test_that("on.exit() code of a failed element has run when the call returns, whatever it takes", {
  for (errors in c("stop", "collect", "finish")) {
    left <- withr::local_tempfile()
    try(silent = TRUE, suppressWarnings(par_lapply(1, function(i) {
      on.exit({
        Sys.sleep(0.1)
        file.create(left)
      })
      stop("cleaned up after this")
    }, .control = par_control(workers = 1, dump = "no", seed = 1, errors = errors))))
    expect_true(file.exists(left), label = errors)
    unlink(left)
  }
})

test_that("after an error the next call works", {
  try(par_lapply(1:4, function(i) stop("x"), .control = two_workers()), silent = TRUE)
  expect_identical(par_lapply(1:4, identity, .control = two_workers()), as.list(1:4))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
