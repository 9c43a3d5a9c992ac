detritus <- detritus_snapshot()

# What a worker does with an error of `fun`, without a worker.
capture_of <- function(fun, ..., detail = TRUE, dump = "partial") {
  record <- NULL
  X <- list(...)
  i <- 1L
  below <- sys.nframe()
  run <- function(FUN) {
    withCallingHandlers(FUN(X[[i]]), error = function(cnd) {
      calls <- sys.calls()
      first <- below + match("FUN(X[[i]])", vapply(calls[-seq_len(below)], deparse1, ""))
      shown <- user_frames(calls, sys.frames(), first = first, last = sys.nframe() - 1L)
      record <<- capture_error(cnd, shown$calls, shown$frames, detail = detail, dump = dump)
    })
  }
  tryCatch(run(fun), error = function(e) NULL)
  record
}

calls_of <- function(record) {
  vapply(record$trace$calls, deparse1, "")
}

locals_of <- function(record, frame) {
  record$trace$locals[[frame]]
}

frame_of <- function(record, frame) {
  unclass(record$dump)[[frame]]
}

test_that("the calls are those of the user, whoever signals the error", {
  g <- function(x, how) how(x)
  ways <- list(
    stop = function(x) stop("it"),
    unnamed = function(x) base::stop("it", call. = FALSE),
    condition = function(x) stop(structure(class = c("mine", "error", "condition"), list())),
    internal = function(x) log("a"),
    rlang = function(x) rlang::abort("it"),
    signal = function(x) rlang::cnd_signal(rlang::error_cnd("mine", message = "it"))
  )
  for (way in names(ways)) {
    record <- capture_of(function(x) g(x, ways[[way]]), 1)
    # A primitive has no frame, but its call is what has failed.
    last <- if (way == "internal") "log(\"a\")"
    calls <- c("FUN(X[[i]])", "g(x, ways[[way]])", "how(x)", last)
    expect_identical(calls_of(record), calls, info = way)
  }
})

test_that("a warning that options(warn = 2) makes an error has the calls of the warning", {
  withr::local_options(warn = 2)
  record <- capture_of(function(x) {
    h <- function() warning("careful")
    h()
  }, 1)
  expect_identical(calls_of(record), c("FUN(X[[i]])", "h()"))
})

test_that("variables are told however long the machine is busy with others", {
  frames <- lapply(1:3, function(i) list2env(list(x = i)))
  namespace <- asNamespace("regatta")
  before <- namespace$env_lines
  put <- function(value) {
    unlockBinding("env_lines", namespace)
    assign("env_lines", value, envir = namespace)
    lockBinding("env_lines", namespace)
  }
  withr::defer(put(before))
  put(function(env, width) {
    Sys.sleep(locals_time)
    before(env, width)
  })
  expect_identical(frame_locals(frames), list("x: int 1", "x: int 2", "x: int 3"))
})

test_that("assertions stay, the inside of tryCatch() and local() goes", {
  record <- capture_of(function(x) tryCatch(stopifnot(x > 1), warning = identity), 1)
  expect_identical(
    calls_of(record),
    c("FUN(X[[i]])", "tryCatch(stopifnot(x > 1), warning = identity)", "stopifnot(x > 1)")
  )
  record <- capture_of(function(x) local(stop("in local")), 1)
  expect_length(record$trace$calls, 3L)
  expect_match(calls_of(record)[2:3], "local\\(stop|eval\\(")
})

test_that("the user's condition is kept as it is", {
  thrown <- structure(
    class = c("mine", "error", "condition"),
    list(message = "it", call = quote(f(x)), payload = list(1:3, environment()))
  )
  expect_identical(capture_of(function(x) stop(thrown), 1)$cnd, thrown)
})

test_that("locals are one bounded line each and cover every kind of binding", {
  f <- function(x, unused = never(x), constant = 5, absent, ...) {
    frame <- data.frame(a = 1:3, b = letters[1:3])
    text <- c("one", NA, strrep("long ", 100))
    day <- as.Date("2013-01-02")
    level <- factor(c("u", "v"))
    nothing <- NULL
    many <- as.list(1:1000)
    formula <- y ~ x
    makeActiveBinding("active", function() stop("must not be called"), environment())
    stop("here")
  }
  record <- capture_of(function(x) {
    force(x)
    f(x, more = x + 1)
  }, 2)
  lines <- locals_of(record, 2L)
  expect_true(all(nchar(lines) <= 80L))
  expect_snapshot(writeLines(lines))
  expect_identical(locals_of(record, 1L), "x: num 2")
})

test_that("locals call no method of the user's and force no promise", {
  touched <- FALSE
  touch <- function(...) {
    touched <<- TRUE
    stop("touched")
  }
  generics <- c(
    "length", "print", "format", "names", "dim", "as.character", "as.list", "[", "[[", "$"
  )
  table <- baseenv()[[".__S3MethodsTable__."]]
  methods <- paste0(generics, ".regatta_touchy")
  withr::defer(rm(list = methods, envir = table))
  for (generic in generics) {
    registerS3method(generic, "regatta_touchy", touch, envir = baseenv())
  }
  f <- function(lazy) {
    object <- structure(list(a = 1), class = "regatta_touchy")
    vector <- structure(1:3, class = "regatta_touchy")
    stop("here")
  }
  record <- capture_of(function(x) f(touch()), 1)
  expect_false(touched)
  expect_identical(locals_of(record, 2L), c(
    "lazy: <not evaluated: touch()>", "object: regatta_touchy [1] a",
    "vector: regatta_touchy [3] 1, 2, 3"
  ))
})

test_that("text that is not valid in its encoding can be shown", {
  record <- capture_of(function(x) {
    invalid <- "caf\xe9"
    Encoding(invalid) <- "UTF-8"
    bytes <- "\xff"
    Encoding(bytes) <- "bytes"
    stop("here")
  }, 1)
  expect_match(locals_of(record, 1L), "^(bytes|invalid): chr \"", all = FALSE)
  expect_length(locals_of(record, 1L), 3L)
})

test_that("a frame with many variables and a deep recursion are bounded", {
  record <- capture_of(function(x) {
    for (i in 1:500) assign(paste0("v", i), i)
    stop("here")
  }, 1)
  lines <- locals_of(record, 1L)
  expect_length(lines, 41L)
  expect_identical(lines[[41L]], "(and 462 more variables)")

  deep <- function(k) if (k == 0) stop("deep") else deep(k - 1)
  record <- capture_of(function(x) deep(150), 1)
  expect_length(record$trace$calls, 100L)
  expect_identical(record$trace$omitted, c(after = 25L, frames = 52L))
  text <- format(record$trace, locals = FALSE)
  expect_length(text, 101L)
  expect_match(text[[26L]], "(52 calls not kept)", fixed = TRUE)
  expect_match(text[[27L]], "78. deep(k - 1)", fixed = TRUE)
  expect_match(text[[101L]], "152. deep(k - 1)", fixed = TRUE)
})

test_that("calls carry no data, function or source file with them", {
  big <- sin(1:1e5)
  hidden <- function(a, b) stop("in do.call")
  record <- capture_of(function(x) do.call(hidden, list(a = big, b = hidden)), 1, dump = "no")
  expect_lt(length(serialize(record, NULL)), 2e4)
  expect_match(calls_of(record)[[3L]], "<num [100000]>", fixed = TRUE)
  expect_match(deparse1(record$cnd$call), "<num [100000]>", fixed = TRUE)

  code <- parse(
    text = "function(x) {\n  g <- function() stop('here')\n  g()\n}",
    keep.source = TRUE, srcfile = srcfilecopy("script.R", "")
  )
  record <- capture_of(eval(code[[1L]]), 1)
  expect_identical(attr(record$trace$calls[[2L]], "srcref"), "script.R#3")
  expect_match(format(record$trace, locals = FALSE), "g\\(\\)  at script.R#3", all = FALSE)
  expect_identical(names(record$dump)[[2L]], "script.R#3: g()")
})

test_that("without detail there are the calls only", {
  record <- capture_of(function(x) stop("here"), 1, detail = FALSE, dump = "no")
  expect_identical(calls_of(record), "FUN(X[[i]])")
  expect_identical(record$trace$locals, list())
  expect_null(record$dump)
  expect_match(format(record$trace), "^ 1. FUN\\(X\\[\\[i\\]\\]\\)")
})

test_that("a capture that cannot see the frames still returns the condition", {
  cnd <- simpleError("it")
  record <- capture_error(cnd, list(quote(f(x))), list("not a frame"), TRUE, "partial")
  expect_identical(record$cnd, cnd)
  expect_identical(calls_of(record), "f(x)")
  expect_null(record$dump)
  record <- capture_error(cnd, list(), list(), TRUE, "full")
  expect_identical(record$cnd, cnd)
  expect_output(print(record$trace), "<regatta_trace> no calls", fixed = TRUE)
})

test_that("a partial dump holds copies that lead nowhere", {
  session <- sin(1:1e5)
  f <- function(x) {
    inner <- function() x + session
    model <- list(terms = y ~ x, call = quote(lm(y)))
    large <- numeric(2e5)
    small <- 1:10
    outside <- environment(capture_of)
    stop("here")
  }
  record <- capture_of(function(x) f(x), 7)
  dump <- unserialize(serialize(record$dump, NULL))
  expect_s3_class(dump, "dump.frames")
  expect_identical(attr(dump, "error.message"), "here\n")
  expect_lt(length(serialize(record$dump, NULL)), 1e5)
  frame <- frame_of(list(dump = dump), 2L)
  expect_identical(parent.env(frame), globalenv())
  expect_identical(frame$small, 1:10)
  expect_identical(environment(frame$inner), frame)
  expect_identical(environment(frame$model$terms), frame)
  expect_match(frame$large, "<num [200000] of 1.6 MB, not kept by dump = \"partial\"", fixed = TRUE)
  expect_match(frame$outside$.left_out, "not kept by dump")
  expect_identical(frame$x, "<not evaluated: x>")
})

test_that("a partial dump is bounded as a whole, the innermost frames first", {
  fill <- function(k) {
    held <- rep(as.double(k), 1e5)
    if (k == 0) stop("full") else fill(k - 1)
  }
  record <- capture_of(function(x) fill(30), 1)
  expect_lt(length(serialize(record$dump, NULL)), 2.1e7)
  frames <- unclass(record$dump)
  expect_identical(frames[[length(frames)]]$held, numeric(1e5))
  expect_match(frames[[2L]]$held, "the other variables are large")
})

test_that("a full dump holds the frames themselves and the session's variables", {
  withr::defer(rm("regatta_test_global", envir = globalenv()))
  assign("regatta_test_global", 42, envir = globalenv())
  record <- capture_of(function(x) {
    large <- numeric(2e5)
    stop("here")
  }, 1, dump = "full")
  expect_length(record$dump, 2L)
  expect_identical(names(record$dump)[[1L]], ".GlobalEnv")
  expect_identical(frame_of(record, 1L)$regatta_test_global, 42)
  expect_identical(frame_of(record, 2L)$large, numeric(2e5))
})

test_that("debugger() opens a dump that was written to a file", {
  file <- withr::local_tempfile(fileext = ".rds")
  f <- function(value) stop("look")
  record <- capture_of(function(x) {
    here <- 41 + x
    f(here)
  }, 1)
  error <- error_element(record, 1L, "a", 1L)
  expect_identical(write_dump(list(simpleError("no dump"), error), file), file)
  held <- readRDS(file)
  expect_length(attr(held, "errors"), 2L)
  # debugger() reads its answers from the terminal.
  script <- withr::local_tempfile(lines = c(
    sprintf("x <- readRDS(\"%s\")", file), "options(warn = 1)", "debugger(x)", "1",
    "cat(\"value:\", here + 1, \"\\n\")", "Q"
  ))
  r <- file.path(R.home("bin"), "R")
  shown <- system2(
    r, c("--vanilla", "--quiet", "--interactive"),
    stdin = script, stdout = TRUE, stderr = TRUE, env = c("TERM=dumb", "R_TESTS="), timeout = 120
  )
  expect_match(shown, "value: 43", fixed = TRUE, all = FALSE)
})

test_that("a dump that cannot be written is a warning, not an error", {
  record <- capture_of(function(x) stop("here"), 1)
  error <- error_element(record, 1L, "a", 1L)
  expect_null(write_dump(list(simpleError("it")), "never.rds"))
  expect_warning(
    expect_null(write_dump(list(error), file.path(tempdir(), "no", "such", "folder.rds"))),
    "cannot write the crash dump .*folder.rds", class = "regatta_warning_dump"
  )
})

test_that("an error in a worker brings what was captured there", {
  f <- function(x, unused = never(x)) {
    doubled <- 2 * x
    stop("in the worker")
  }
  control <- par_control(workers = 1L, progress = FALSE, seed = 1L, errors = "collect")
  value <- suppressWarnings(par_lapply(list(a = 21), function(x) f(x), .control = control))
  error <- value[["a"]]
  expect_identical(calls_of(error), c("FUN(X[[i]], ...)", "f(x)"))
  expect_identical(locals_of(error, 2L), c(
    "doubled: num 42", "unused: <not evaluated: never(x)>", "x: num 21"
  ))
  expect_identical(frame_of(error, 2L)$doubled, 42)
})

test_that("a nested parallel call is one frame of the traceback", {
  control <- par_control(workers = 1L, progress = FALSE, seed = 1L, dump = "no")
  nested <- function(x) par_lapply(x, function(y) stop("far inside"), .control = control)
  error <- expect_error(
    par_lapply(1L, function(x) nested(x), .control = control),
    class = "regatta_error_element"
  )
  calls <- calls_of(error)
  expect_length(calls, 3L)
  expect_identical(calls[1:2], c("FUN(X[[i]], ...)", "nested(x)"))
  expect_match(calls[[3L]], "^par_lapply")
  expect_s3_class(error$parent, "regatta_error_element")
})

test_that("an infinite recursion is the error of its element, not the death of its worker", {
  endless <- function(x) endless(x + 1)
  control <- par_control(
    workers = 1L, progress = FALSE, seed = 1L, errors = "collect", dump = "no"
  )
  for (expressions in c(500, 5000)) {
    withr::local_options(expressions = expressions)
    value <- suppressWarnings(
      par_lapply(1:3, function(x) if (x == 2L) endless(x) else x, .control = control)
    )
    expect_s3_class(value[[2L]], "regatta_error_element")
    expect_match(conditionMessage(value[[2L]]), "infinite recursion|C stack")
    expect_identical(value[[3L]], 3L)
  }
})

test_that("an environment whose class is that of an error is looked into like any other", {
  mine <- function() structure(new.env(), class = c("mine", "error", "condition"))
  assign("[[.mine", function(x, i) stop("not to be called"), envir = globalenv())
  withr::defer(rm("[[.mine", envir = globalenv()))
  where <- mine()
  assign("size", 42, envir = where)
  expect_silent(error <- capture_of(function(x) evalq(stop("it"), where), 1, dump = "partial"))
  expect_true("size: num 42" %in% unlist(error$trace$locals))
  signalled <- function(x) {
    cnd <- mine()
    assign("message", "it", envir = cnd)
    assign("method", local(function() 1, envir = cnd), envir = cnd)
    stop(cnd)
  }
  expect_silent(error <- capture_of(signalled, 1, dump = "partial"))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
