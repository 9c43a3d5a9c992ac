# What many errors of the same line have in common is described once. That is to be noticed in the time it takes
# alone: every field is what it is when each error is described by itself.
detritus <- detritus_snapshot()

control <- two_workers(workers = 1L, errors = "collect")

# As seen by the session, without what differs from run to run.
errors_of <- function(n, f, ..., control) {
  value <- suppressWarnings(par_lapply(seq_len(n), f, ..., .control = control), classes = "regatta_warning_errors")
  lapply(value, function(cnd) {
    if (!inherits(cnd, "condition")) {
      return(cnd)
    }
    fields <- unclass(cnd)
    fields$message <- gsub("worker [0-9]+", "worker PID", cnd$message)
    fields$body <- gsub("worker [0-9]+", "worker PID", cnd$body)
    fields$pid <- NULL
    fields$parent <- if (inherits(cnd$parent, "regatta_error")) class(cnd$parent) else cnd$parent
    list(class = class(cnd), type = typeof(cnd), pid = typeof(cnd$pid), fields = fields)
  })
}

# Until `envir` is left the package has `value` by this name, a function with what was there before as
# `before`. Workers are forked from it.
local_value <- function(name, value, envir = parent.frame()) {
  namespace <- asNamespace("regatta")
  put <- function(value) {
    unlockBinding(name, namespace)
    assign(name, value, envir = namespace)
    lockBinding(name, namespace)
  }
  before <- get(name, envir = namespace)
  withr::defer(put(before), envir = envir)
  if (is.function(value)) environment(value) <- list2env(list(before = before), parent = environment(value))
  put(value)
}

# Expects the same of `f` whether or not descriptions are used again; returns how often the worker did. No
# error has its variables told, which those of the first errors are as far as there is time.
expect_same <- function(f, ..., n = 20L, .control = control, mark = function() "x", counted = nchar) {
  hits <- withr::local_tempfile()
  keep_counted <- function(cnd) {
    cat(mark(), file = hits, append = TRUE)
    before(cnd)
  }
  replaced <- list(
    alone = list(error_key = function(...) NULL, detailed_errors_max = 0L),
    like = list(keep_like = keep_counted, detailed_errors_max = 0L)
  )
  # Both by one call, since calls below the element's are seen by some errors.
  found <- lapply(replaced, function(values) {
    for (name in names(values)) local_value(name, values[[name]], environment())
    errors_of(n, f, ..., control = .control)
  })
  expect_identical(found$like, found$alone)
  if (file.exists(hits)) counted(readLines(hits, warn = FALSE)) else counted("")
}

# The same of several functions, by one worker: each is called n times, one after the other. Only the last error is
# one that the next can be like. How often that was so for each.
expect_each_same <- function(..., n = 20L) {
  all <- list(...)
  at <- new.env()
  run <- function(i) {
    at$k <- (i - 1L) %/% n + 1L
    each <- all[[at$k]]
    each((i - 1L) %% n + 1L)
  }
  count <- function(said) vapply(seq_along(all), function(k) sum(strsplit(said, "")[[1L]] == letters[[k]]), 0L)
  expect_same(run, n = length(all) * n, mark = function() letters[[at$k]], counted = count)
}

test_that("errors that differ in their message alone are described once, whatever they say", {
  f <- function(i) stop("no ", i, call. = FALSE)
  g <- function(i) stop("no ", i)
  expect_identical(expect_same(f), 19L)
  expect_identical(expect_same(g), 19L)
  hits <- expect_each_same(
    function(i) g(i),
    function(i) log("a"),
    function(i) no_such_function(i),
    function(i) stopifnot(i < 0),
    function(i) match.arg("a", c("b", "c")),
    function(i) rlang::abort(paste("no", i)),
    n = 5L
  )
  expect_identical(hits, rep(4L, 6L))
})

test_that("each of a thousand errors has its own message, index, name and parent", {
  names <- paste0("n", 1:1000)
  names[c(3, 500:520)] <- ""
  x <- stats::setNames(1:1000, names)
  value <- suppressWarnings(par_lapply(x, function(i) stop("no ", i), .control = two_workers(errors = "collect")))
  expect_length(value, 1000L)
  pids <- par_last()$workers$pid
  one <- suppressWarnings(par_lapply(c(a = 1L), function(i) stop("no ", i), .control = control))[[1L]]
  for (i in 1:1000) {
    cnd <- value[[i]]
    label <- if (nzchar(names[[i]])) sprintf("element %d (\"%s\")", i, names[[i]]) else paste("element", i)
    same <- identical(class(cnd), class(one)) && setequal(names(cnd), names(one)) && identical(cnd$index, i) &&
      identical(cnd[["name"]], if (nzchar(names[[i]])) names[[i]]) && cnd$pid %in% pids &&
      identical(cnd$try, 1L) && identical(cnd$body, one$body) && identical(cnd$trace$calls, one$trace$calls) &&
      is.null(cnd$dump) && identical(cnd$parent, simpleError(paste("no", i), quote(FUN(X[[i]], ...)))) &&
      identical(cnd$message, sprintf("%s failed in worker %d: no %d", label, cnd$pid, i))
    if (!same) break
  }
  expect_true(same, info = paste("element", i))
  expect_identical(value[[1L]]$trace$locals, list("i: int 1"))
  expect_lte(sum(lengths(lapply(value, function(cnd) cnd$trace$locals)) > 0L), 20L)
})

test_that("locals of the first errors are those of each", {
  found <- errors_of(12L, function(i) stop("no"), control = control)
  locals <- lapply(found, function(error) error$fields$trace$locals)
  expect_identical(locals[1:10], lapply(1:10, function(i) list(sprintf("i: int %d", i))))
  expect_identical(locals[11:12], list(list(), list()))
})

test_that("the same words by another way, of another call or class are another error", {
  a <- function(i) stop("no")
  b <- function(i) stop("no")
  throw <- function(cnd) stop(cnd)
  hits <- expect_each_same(
    function(i) if (i %% 2) a(i) else b(i),
    function(i) if (i %% 4 < 2) a(i) else b(i),
    function(i) {
      class <- c(if (i %% 3) "mine", "error", "condition")
      throw(structure(class = class, list(message = "no", call = NULL, payload = i, parent = simpleError("p"))))
    },
    function(i) stop(simpleError("no", if (i %% 3) quote(a(1)) else quote(a(2)))),
    function(i) stop(simpleError("no", if (i %% 3) quote(a(1)))),
    function(i) if (i %% 3) stop("no") else stop("no", call. = FALSE),
    function(i) stop("no", call. = i %% 3 == 0),
    function(i) stop(simpleError(list("no"), "not a call")),
    function(i) {
      throw(structure(class = c("error", "condition"), list(message = "no", call = NULL, index = i, name = "it")))
    },
    function(i) throw(structure(class = c("error", "condition"), if (i %% 2) list() else list("no"))),
    function(i) throw(structure(simpleError("no"), held = i)),
    function(i) throw(errorCondition("no", class = "mine", call = quote(f(x)), at = i)),
    function(i) {
      cnd <- simpleError("no")
      if (i %% 3 == 0) cnd$pointer <- new("externalptr")
      throw(cnd)
    },
    n = 12L
  )
  expect_identical(hits[1:3], c(0L, 5L, 11L))
})

test_that("whether a call has a frame is asked of each error", {
  hits <- expect_same(function(i) {
    inner <- function(cnd) {
      if (i %% 4 < 2) helper <- function(x) x
      stop(cnd)
    }
    inner(simpleError("no", quote(helper(1))))
  })
  expect_identical(hits, 9L)
})

test_that("no argument is evaluated to find out which errors are alike", {
  inner <- function(inner) stop("no")
  counted <- withr::local_tempfile()
  hits <- expect_same(function(i, counted) inner(cat("x", file = counted, append = TRUE)), counted)
  expect_identical(hits, 19L)
  expect_false(file.exists(counted))
})

inner <- function() stop("no")

test_that("functions of another package by the same name are other calls", {
  expect_each_same(
    function(i) {
      tryCatch <- if (i %% 3) base::tryCatch else function(code, ...) code
      tryCatch(stop("no"), warning = identity)
    },
    function(i) {
      environment(inner) <- if (i %% 3) globalenv() else baseenv()
      tryCatchList <- inner
      tryCatchList()
    }
  )
})

test_that("frames of evaluated code are told apart", {
  hits <- expect_each_same(
    function(i) {
      env <- if (i %% 3) environment() else new.env()
      eval(quote(stop("no")), env)
    },
    function(i) local(stop("no"))
  )
  expect_identical(hits, c(0L, 0L))
})

test_that("deep, endless and changing recursion is described by itself", {
  deep <- function(k) if (k == 0) stop("deep") else deep(k - 1)
  expect_same(function(i) deep(if (i %% 3) 5 else 6))
  expect_identical(expect_same(function(i) deep(150 + i %/% 2), n = 4L), 0L)
  # It is enclosed as a user's function is: whether thousands of frames below the package's namespace are those of
  # a test is a long search.
  endless <- local(function(x) endless(x + 1), new.env(parent = globalenv()))
  environment(endless)$endless <- endless
  # One that is described like the one before comes before the endless one.
  found <- errors_of(14L, function(i) if (i == 13L) endless(i) else stop("no ", i), control = control)
  said <- vapply(found, function(error) error$fields$parent$message, "")
  own <- seq_len(14L) != 13L
  expect_identical(said[own], paste("no", which(own)))
  expect_match(said[!own], "infinite recursion|C stack|nested too deeply")
})

test_that("errors in handlers and in code that runs while frames go are not mixed up", {
  expect_each_same(
    function(i) tryCatch(stop("first"), error = function(e) stop("second ", i)),
    function(i) withCallingHandlers(stop("first ", i), error = function(e) stop("second")),
    function(i) {
      on.exit(stop("while leaving"))
      stop("no ", i)
    },
    function(i) tryCatch(stop("no ", i), finally = if (i %% 3 == 0) stop("finally")),
    function(i) {
      try(stop("caught"), silent = TRUE)
      tryCatch(stop("caught"), error = identity)
      if (i %% 3) i else stop("no ", i)
    }
  )
})

test_that("warnings that are errors, and conditions among errors, stay as they were", {
  withr::local_options(warn = 2)
  expect_same(function(i) {
    h <- function() warning("careful ", i %/% 2)
    h()
  })
  withr::local_options(warn = 0)
  warned <- 0
  withCallingHandlers(
    par_lapply(1:40, function(i) {
      warning("w", i)
      if (i %% 2) stop("no")
    }, .control = control),
    warning = function(w) {
      warned <<- warned + grepl("w[0-9]+", conditionMessage(w))
      tryInvokeRestart("muffleWarning")
    }
  )
  expect_identical(warned, 40)
})

test_that("methods of the user's condition are not called for likeness", {
  touched <- function(...) stop("touched")
  table <- baseenv()[[".__S3MethodsTable__."]]
  withr::defer(rm(list = "[[.regatta_touchy", envir = table))
  registerS3method("[[", "regatta_touchy", touched, envir = baseenv())
  found <- errors_of(20L, function(i) {
    stop(structure(class = c("regatta_touchy", "error", "condition"), list(message = paste("no", i), call = NULL)))
  }, control = control)
  for (error in found) {
    expect_identical(unclass(error$fields$parent)$message, sprintf("no %d", error$fields$index))
  }
})

test_that("a nested parallel call fails as itself", {
  inside <- two_workers(workers = 1L)
  expect_same(function(i) par_lapply(i, function(j) stop("far ", j), .control = inside), n = 4L)
})

test_that("a function without a name and arguments of any size are not kept", {
  hidden <- function(a) stop("no")
  hits <- expect_each_same(
    function(i) do.call(hidden, list(a = as.double(1:100))),
    function(i) do.call("hidden", list(a = y ~ x))
  )
  expect_identical(hits, c(0L, 0L))
  expect_false(is_light(bquote(f(.(1:100)))))
  expect_false(is_light(bquote(f(.(y ~ x)))))
  expect_false(is_light(bquote(f(g(.(sum))))))
  expect_false(is_light(bquote(f(.(environment())))))
  expect_true(is_light(quote(f(x[, 1], "a", function(a, b = 2) a))))
  code <- parse(text = "f(function(a) {\n  a\n})", keep.source = TRUE)[[1L]]
  expect_true(is_light(code))
})

test_that("lines of the same words are told apart by their place", {
  code <- parse(
    text = "function(i) {\n  g <- function() stop('no')\n  if (i %% 3)\n    g()\n  else {\n    g()\n  }\n}",
    keep.source = TRUE, srcfile = srcfilecopy("script.R", "")
  )
  f <- eval(code[[1L]])
  expect_same(f)
})

test_that("each try has its own error, whatever the seed", {
  tried <- two_workers(workers = 1L, errors = "collect", retries = 2L)
  expect_same(function(i) stop("no ", i, " ", Sys.getenv("REGATTA_TRY")), .control = tried)
  for (i in 1:3) {
    expect_same(function(i) stop("no ", i), .control = two_workers(workers = 1L, errors = "collect", seed = i))
  }
})

test_that("a dump is of its own error", {
  found <- suppressWarnings(par_lapply(1:14, function(i) {
    own <- i * 10
    stop("no")
  }, .control = two_workers(workers = 1L, errors = "collect", dump = "partial")))
  held <- lapply(found, function(cnd) if (!is.null(cnd$dump)) unclass(cnd$dump)[[length(cnd$dump)]]$own)
  expect_identical(held, c(as.list(1:10 * 10), list(NULL, NULL, NULL, NULL)))
})

test_that("what the session makes of messages alone is what it makes of whole errors", {
  long <- function(i) switch(i %% 5 + 1, "a", strrep("b", 9000), "c\n", "\u00fc", NA_character_)
  names <- stats::setNames(1:20, rep_len(c("", "a", "b\"", strrep("c", 80)), 20))
  for (f in list(
    function(i) stop(long(i)), function(i) stop(long(i), call. = FALSE), function(i) stop(simpleError(long(i), quote(f(x))))
  )) {
    expect_same(f)
    alone <- list(asked_one_by_one = function(run) TRUE)
    found <- lapply(list(list(), alone), function(values) {
      for (name in names(values)) local_value(name, values[[name]], environment())
      local_value("detailed_errors_max", 0L, environment())
      lapply(
        suppressWarnings(par_lapply(names, f, .control = two_workers(workers = 1L, errors = "collect"))),
        function(cnd) {
          fields <- unclass(cnd)
          fields$message <- gsub("worker [0-9]+", "worker PID", cnd$message)
          fields$pid <- typeof(fields$pid)
          list(class(cnd), fields)
        }
      )
    })
    expect_identical(found[[1L]], found[[2L]])
  }
})

test_that("failures are counted and marked by their classes, however many of these there are", {
  kinds <- c("regatta_error_element", "regatta_error_death", "regatta_error_timeout")
  errors <- lapply(1:300, function(i) {
    structure(list(message = "no"), class = c(kinds[[i %% 3 + 1]], paste0("c", i %/% 2 %% 100), "condition"))
  })
  expect_identical(all_as_failed(errors), lapply(errors, as_failed))
  expect_identical(
    count_failures(errors, 300), "300 of 300 elements failed: 100 errors, 100 deaths, 100 timeouts"
  )
  expect_identical(all_as_failed(list()), list())
})

test_that("an error that is like one which the session has not is a damaged one", {
  run <- list2env(list(
    n = 2L, status = c(0L, 0L), done = 0, failed = 0, told = list(list(number = "1")), tasks = tasks_new(2L),
    control = par_control(errors = "collect"), ending = list(), turned = list(), stopping = FALSE,
    workers = list(rows = list(list(pid = 7L))), task = list(), relay = relay_new(par_control(), NULL)
  ))
  ended <- list(worker = 1L, index = 2, try = 1L, start = 1, end = 2, bytes = 8, alike = list(c("2", "no")))
  take_alike(run, ended)
  expect_identical(run$status, c(0L, element_states[["error"]]))
  expect_s3_class(run$errors[[2L]], "regatta_error_damage")
  expect_null(run$errors[[1L]])
})

test_that("values and failures come in any order, and each stands in its place", {
  for (control in list(two_workers(errors = "collect"), two_workers(errors = "collect", retries = 1L))) {
    value <- suppressWarnings(par_lapply(1:210, function(i) {
      if (i %% 7 == 0) stop("seven ", i)
      if (i %% 5 == 0) log(-1:1, "a")
      if (i %% 3 == 0) warning("three")
      i
    }, .control = control))
    failed <- 1:210 %% 7 == 0 | 1:210 %% 5 == 0
    expect_identical(unname(par_failed(value)), failed)
    expect_identical(unlist(value[!failed]), which(!failed))
    expect_identical(vapply(value[failed], `[[`, 0L, "index"), which(failed))
    seven <- which(1:210 %% 7 == 0)
    said <- vapply(value[seven], function(cnd) cnd$parent$message, "")
    expect_identical(said, paste("seven", seven))
    run <- par_last()
    expect_identical(run$elements$status == "error", failed)
    expect_identical(length(run$errors), sum(failed))
    expect_true(all(run$elements$bytes > 0 & run$elements$end >= run$elements$start))
  }
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
