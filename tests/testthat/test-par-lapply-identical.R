detritus <- detritus_snapshot()

expect_same_map <- function(X, FUN, ..., control = two_workers()) {
  expect_identical(par_lapply(X, FUN, ..., .control = control), lapply(X, FUN, ...))
}

test_that("every atomic vector is mapped as lapply maps it", {
  expect_same_map(1:5, function(x) x * 2L)
  expect_same_map(c(a = 1.5, b = NA, c = -Inf), function(x) x)
  expect_same_map(c(TRUE, NA, FALSE), identity)
  expect_same_map(c(one = "a", two = NA, three = ""), identity)
  expect_same_map(complex(real = 1:3, imaginary = 3:1), Conj)
  expect_same_map(as.raw(0:9), xor, as.raw(1))
})

test_that("names are kept as lapply keeps them", {
  expect_same_map(stats::setNames(1:3, c("a", NA, "")), identity)
  expect_same_map(stats::setNames(1:3, c("dup", "dup", "dup")), identity)
  expect_same_map(stats::setNames(list(), character()), identity)
  expect_same_map(c("x", "y"), toupper)
  latin1 <- "caf\xe9"
  Encoding(latin1) <- "latin1"
  expect_same_map(stats::setNames(1:2, c(latin1, "\u00e9")), identity)
})

test_that("lists, data frames, pairlists, calls, expressions and environments are mapped", {
  expect_same_map(list(1, "b", NULL, sum), identity)
  expect_same_map(data.frame(a = 1:3, b = letters[1:3]), class)
  expect_same_map(pairlist(a = 1, b = 2), identity)
  expect_same_map(quote(f(x, y = 2)), class)
  expect_same_map(expression(a + b, c), identity)
  expect_same_map(matrix(1:6, 2L), identity)
  env <- list2env(list(a = 1, b = 2))
  by_name <- function(x) x[order(names(x))]
  expect_identical(
    by_name(par_lapply(env, identity, .control = two_workers())), by_name(lapply(env, identity))
  )
})

test_that("classed vectors go through as.list() as with lapply", {
  expect_same_map(factor(c("u", "v", "u")), as.character)
  expect_same_map(as.Date("2013-01-01") + 0:3, format)
  expect_same_map(as.POSIXct("2013-01-01", tz = "UTC") + 0:3, identity)
  expect_same_map(as.difftime(c(1, 2), units = "mins"), identity)
  expect_same_map(numeric_version(c("1.2", "3.4.5")), identity)
})

test_that("empty input gives what lapply gives, and starts nothing", {
  for (X in list(NULL, integer(), list(), character(), data.frame())) {
    expect_same_map(X, identity)
  }
  started <- FALSE
  expect_identical(
    par_lapply(integer(), function(x) started <<- TRUE, .control = two_workers()), list()
  )
  expect_false(started)
})

test_that("one element, one worker, and more workers than elements", {
  expect_same_map(1, sqrt)
  expect_same_map(1:7, sqrt, control = two_workers(workers = 1L))
  expect_same_map(1:3, sqrt, control = two_workers(workers = 5L))
})

test_that("FUN may be a name, a primitive, a lambda or found where the caller is", {
  local_only <- function(x) x + 100
  expect_same_map(1:3, "sqrt")
  expect_identical(par_lapply(1:3, "local_only", .control = two_workers()), list(101, 102, 103))
  expect_same_map(1:3, "-")
  expect_same_map(1:3, `[`, 1L)
  expect_same_map(list(1:3, 4:6), `[[`, 2L)
  expect_same_map(1:3, \(x) x^2)
  expect_identical(
    par_lapply(FUN = sqrt, X = 1:3, .control = two_workers()), lapply(FUN = sqrt, X = 1:3)
  )
})

test_that("further arguments reach FUN by name and position", {
  expect_same_map(1:3, function(x, a, b) c(x, a, b), 10L, b = 20L)
  expect_same_map(1:3, function(x, ...) ...length(), 1, 2, 3)
  expect_same_map(1:3, function(x, y) missing(y))
  expect_same_map(1:2, function(x, n) n, n = NULL)
})

test_that("FUN sees the call that lapply makes", {
  expect_same_map(c(a = 1, b = 2), function(x) deparse(substitute(x)))
  expect_same_map(1:3, function(x) match.call())
  expect_same_map(1:3, function(x) nargs())
})

test_that("functions that look where they are called find what they find under lapply()", {
  withr::local_preserve_seed()
  head <- lag <- `environment<-`(function(x, ...) "mine", globalenv())
  withr::defer(rm(list = c("head", "lag"), envir = globalenv()))
  assign("head", head, envir = globalenv())
  assign("lag", lag, envir = globalenv())
  lists <- list(list(1:3), list(4:6))
  cluster <- local_cluster(1L)
  for (on in list(1L, 2L, cluster)) {
    map <- function(X, FUN, ...) par_lapply(X, FUN, ..., .on = on, .control = par_control(seed = 1L, progress = FALSE))
    expect_identical(map(lists, do.call, what = "head"), lapply(lists, do.call, what = "head"))
    expect_identical(map(expression(head(1:3)), eval), list("mine"))
    expect_identical(map(list(quote(lag(1))), eval), list("mine"))
    expect_error(map(list("or_else"), get), "or_else")
    expect_identical(map(list("head"), get)[[1L]](1), "mine")
    expect_identical(map(list(1), function(x) exists("evaluator", parent.frame())), list(FALSE))
  }
  control <- two_workers()
  expect_identical(par_sapply(list(1:2), sapply, "head", .control = control), sapply(list(1:2), sapply, "head"))
  expect_identical(par_vapply(lists, do.call, "", what = "head", .control = control), c("mine", "mine"))
  expect_identical(
    par_mapply(do.call, "head", lists, .control = control), mapply(do.call, "head", lists)
  )
  expect_identical(unname(unlist(mcmapply(do.call, "head", lists, mc.cores = 2L))), c("mine", "mine"))
  for (cores in 1:2) {
    expect_identical(mclapply(lists, do.call, what = "head", mc.cores = cores), list("mine", "mine"))
  }
  wide <- par_vapply(1:200, function(i) rep(exists("is_vapply_value", parent.frame()), 2000), logical(2000),
    .control = control)
  expect_false(any(wide))
  wide <- par_vapply(rep(list(list(1)), 200), do.call, character(1), what = "head", .control = control)
  expect_identical(unique(wide), "mine")
  expect_identical(par_reduce("head", match.fun, list, .control = control)(1), "mine")
  seen <- shm_fill(3, function(at) exists("evaluator", parent.frame()) + 0 * at, .control = control)
  expect_identical(seen[], numeric(3))
  par_lapply(lists, do.call, what = "head", .control = control)
  expect_identical(par_replay(i = 1), "mine")
})

test_that("further arguments may have any name that the verb has not", {
  control <- two_workers()
  wide <- par_vapply(1:200, function(x, i, value, n) rep(x * i + value + n, 1000), numeric(1000),
    i = 2, value = 3, n = 4, .control = control)
  expect_identical(wide[1L, ], 1:200 * 2 + 7)
  expect_identical(
    par_reduce(1:4, function(x, start, n, size) x + start + n + size, `+`, start = 1, n = 2, size = 3, .control = control),
    34
  )
  filled <- shm_fill(3, function(at, range, x, k) at * 0 + range + x + k, range = 1, x = 2, k = 3, .control = control)
  expect_identical(filled[], c(6, 6, 6))
  stream <- par_stream(c(4, 9), function(x, FUN, i) FUN(x) + i, FUN = sqrt, i = 1, .control = control)
  expect_identical(c(par_next(stream), par_next(stream)), c(3, 4))
})

test_that("values of every kind arrive, NULL and invisible among them", {
  values <- list(
    NULL, 1L, NA_character_, quote(a + b), as.name("x"), expression(1), list(), list(NULL),
    structure(1:4, dim = c(2L, 2L), dimnames = list(c("a", "b"), NULL)),
    structure(list(1), class = c("p", "q"), note = "kept"), globalenv(), baseenv(), emptyenv(),
    sum, asNamespace("stats"), y ~ x + z, pairlist(a = 1), numeric(), character()
  )
  attr(values[[16L]], ".Environment") <- globalenv()
  expect_same_map(values, identity)
  expect_same_map(1:3, function(x) invisible(x))
  expect_same_map(1:6, function(i) if (i %% 2L) NULL else i)
})

test_that("condition objects and try-errors returned as values are values", {
  values <- list(
    simpleError("not raised"), simpleWarning("nor this"), try(stop("x"), silent = TRUE)
  )
  warned <- FALSE
  got <- withCallingHandlers(
    par_lapply(values, identity, .control = two_workers(errors = "collect")),
    warning = function(w) warned <<- TRUE
  )
  expect_false(warned)
  expect_identical(got, lapply(values, identity))
})

test_that("many elements arrive in order with any batch size", {
  X <- seq_len(20000L)
  expect_same_map(X, function(i) i * 2L)
  for (batch in c(1L, 7L, 20000L)) {
    expect_same_map(X[1:500], function(i) -i, control = two_workers(batch = batch))
  }
})

test_that("elements of very different length come back in order", {
  expect_same_map(c(30, 0, 0, 20, 0, 0, 10, 0), function(ms) {
    Sys.sleep(ms / 1000)
    ms
  })
})

test_that("an element that takes long holds up no other", {
  withr::local_preserve_seed()
  folder <- withr::local_tempdir()
  got <- par_vapply(1:8, function(i) {
    if (i == 1L) wait_until(function() length(list.files(folder)) == 7L) else file.create(file.path(folder, i))
    Sys.getpid()
  }, 0L, .control = two_workers(batch = 1L))
  expect_length(unique(got[-1L]), 1L)
  expect_false(got[[1L]] %in% got[-1L])
})

test_that("an element that fails or kills its worker is tried again before those that wait", {
  for (fail in list(function() stop("once"), function() tools::pskill(Sys.getpid(), tools::SIGKILL))) {
    again <- withr::local_tempfile()
    got <- par_lapply(1:200, function(i) {
      if (i == 2L && Sys.getenv("REGATTA_TRY") == "1") fail()
      if (i == 2L) file.create(again) else if (!file.exists(again)) Sys.sleep(0.05)
      i
    }, .control = two_workers(retries = 1L, priority = c(1, 9, rep(1, 198))))
    expect_identical(got, as.list(1:200))
    expect_lt(sum(par_last()$elements$start < par_last()$elements$start[[2L]]), 100)
  }
})

test_that("what a worker that dies had taken and not begun comes before what waits", {
  begun <- withr::local_tempfile()
  got <- par_lapply(1:200, function(i) {
    if (i == 1L && Sys.getenv("REGATTA_TRY") == "1") tools::pskill(Sys.getpid(), tools::SIGKILL)
    if (i == 5L) file.create(begun) else if (i > 5L && !file.exists(begun)) Sys.sleep(0.05)
    i
  }, .control = two_workers(retries = 1L, batch = 5L))
  expect_identical(got, as.list(1:200))
  expect_lt(sum(par_last()$elements$start < par_last()$elements$start[[5L]]), 100)
})

test_that("a function that always fails ends the run after some elements, with retries too", {
  expect_error(
    par_lapply(1:200, function(i) {
      Sys.sleep(0.05)
      stop("always")
    }, .control = two_workers(retries = 1L)),
    "always", class = "regatta_error"
  )
  expect_lt(max(par_last()$tries$index), 100)
})

test_that("priority changes the order of the runs, not of the values", {
  order_file <- withr::local_tempfile()
  got <- par_lapply(1:6, function(i) {
    cat(i, "\n", file = order_file, append = TRUE)
    i
  }, .control = two_workers(workers = 1L, priority = c(1, 5, 2, 6, 3, 4), batch = 1L))
  expect_identical(got, as.list(1:6))
  expect_identical(scan(order_file, quiet = TRUE), c(4, 2, 6, 5, 3, 1))
})

test_that("what lapply refuses is refused before anything starts", {
  withr::local_preserve_seed()
  marker <- withr::local_tempfile()
  touch <- function(x) file.create(marker)
  expect_error(par_lapply(1:2, "no_such_function_anywhere"), "no_such_function_anywhere")
  expect_error(par_lapply(1:2, 3), class = "error")
  expect_error(par_lapply(1:2, touch, .control = list()), class = "regatta_error_argument")
  expect_error(
    par_lapply(1:2, touch, .control = two_workers(priority = 1)),
    class = "regatta_error_argument"
  )
  expect_error(par_lapply(1:2, touch, .on = "nowhere"), class = "regatta_error_argument")
  expect_false(file.exists(marker))
})

test_that("a map changes nothing of the session", {
  before <- list(options(), Sys.getenv(), getwd(), search(), loadedNamespaces(), RNGkind())
  par_lapply(1:4, function(i) {
    options(digits = 3)
    Sys.setenv(REGATTA_TEST_CHANGED = "yes")
    setwd(tempdir())
    assign("regatta_test_global", i, globalenv())
    i
  }, .control = two_workers())
  after <- list(options(), Sys.getenv(), getwd(), search(), loadedNamespaces(), RNGkind())
  expect_identical(after, before)
  expect_false(exists("regatta_test_global", globalenv()))
})

test_that("a class has a say in what an element is, but not in how many there are", {
  withr::local_preserve_seed()
  registerS3method("length", "regatta_odd", function(x) 5L, envir = baseenv())
  registerS3method("[[", "regatta_odd", function(x, i) i * 100, envir = baseenv())
  withr::defer(rm("length.regatta_odd", "[[.regatta_odd", envir = get(".__S3MethodsTable__.", baseenv())))
  X <- structure(list(a = 1, b = 2), class = "regatta_odd")
  expect_identical(par_lapply(X, identity, .on = 2L), lapply(X, identity))
  expect_identical(par_sapply(X, identity, .on = 2L), c(a = 100, b = 200))
  expect_identical(par_vapply(X, identity, 0, .on = 2L), vapply(X, identity, 0))
  expect_identical(par_reduce(X, identity, `+`, .on = 2L), 300)
  expect_identical(mclapply(X, identity), lapply(X, identity))
  stream <- par_stream(X, identity, .on = 2L)
  expect_identical(list(par_next(stream), par_next(stream), par_more(stream)), list(100, 200, FALSE))
})

test_that("a further argument may be left empty", {
  withr::local_preserve_seed()
  m <- list(matrix(1:4, 2L), matrix(5:8, 2L))
  expect_identical(par_lapply(m, "[", , 1, .on = 2L), lapply(m, "[", , 1))
  expect_identical(par_sapply(m, "[", 1, , .on = 2L), sapply(m, "[", 1, ))
  expect_identical(par_vapply(m, "[", 1:2, , 1, .on = 2L), vapply(m, "[", 1:2, , 1))
  stream <- par_stream(m, "[", , 2, .on = 2L)
  expect_identical(list(par_next(stream), par_next(stream)), lapply(m, "[", , 2))
})

test_that("what an element only signals is only signalled, and message() says what it is given", {
  withr::local_preserve_seed()
  signals <- function(i) {
    signalCondition(simpleWarning("bare"))
    signalCondition(simpleMessage("bare\n"))
    message(simpleWarning("said\n"))
    i
  }
  heard <- function(code) {
    classes <- character()
    shown <- capture.output(
      values <- withCallingHandlers(code, condition = function(c) classes <<- c(classes, class(c)[[1L]])),
      type = "message"
    )
    list(values, grep("^simple", classes, value = TRUE), length(shown))
  }
  withr::local_options(warn = 2)
  expected <- heard(lapply(1, signals))
  for (workers in 1:2) {
    expect_identical(heard(par_lapply(1, signals, .control = par_control(workers = workers, seed = 1L))), expected)
  }
})

test_that("a further argument may be called `.`, and a value may be the empty symbol", {
  withr::local_preserve_seed()
  first <- function(x, ...) c(...)[[1L]]
  for (workers in 1:2) {
    control <- par_control(workers = workers, seed = 1L)
    expect_identical(par_lapply(1:2, first, . = 7, .control = control), list(7, 7))
    expect_identical(par_reduce(1:3, function(i, ...) i, `+`, .rg_start = 7, .control = control), 6L)
    empty <- function(i) quote(expr = )
    expect_identical(par_lapply(1:2, empty, .control = control), lapply(1:2, empty))
    expect_identical(mclapply(1:2, empty, mc.cores = workers), lapply(1:2, empty))
    stream <- par_stream(1:2, empty, .control = control)
    got <- list()
    while (par_more(stream)) got <- c(got, list(par_next(stream)))
    expect_identical(got, lapply(1:2, empty))
  }
  got <- shm_map(c(1, 2, 3), function(v, ...) rep(c(...)[[1L]], length(v)), .rg_x = 7, .control = par_control(seed = 1L))
  expect_identical(got[], c(7, 7, 7))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
