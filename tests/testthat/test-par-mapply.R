detritus <- detritus_snapshot()

expect_same_mapply <- function(FUN, ...) {
  expect_identical(par_mapply(FUN, ..., .control = two_workers()), mapply(FUN, ...))
}

test_that("values, simplification and names are those of mapply", {
  expect_same_mapply(rep, 1:4, 4:1)
  expect_same_mapply(function(x, y) x + y, c(a = 1, b = 2), c(A = 10, B = 20))
  expect_same_mapply(function(x, y) c(x, y), 1:3, 4:6)
  expect_same_mapply(identity, c("p", "q"))
  expect_same_mapply(identity, c("p", "q"), USE.NAMES = FALSE)
  expect_same_mapply(function(x, y) x * y, 1:3, 2, SIMPLIFY = FALSE)
  expect_same_mapply(function(a, b) paste(a, b), b = c("x", "y"), a = 1:2)
  expect_same_mapply(function(x, y) NULL, 1:2, 1:2)
  expect_same_mapply("+", 1:3, 3:1)
})

test_that("FUN sees the calls that mapply makes, and keeps no more of the arguments than its own", {
  seen <- list(
    function(x, y) deparse(substitute(x)), function(x, y) deparse(match.call()[-1L]),
    function(x, y) deparse(sys.call()[-1L]), function(x, ...) deparse(substitute(list(...)))
  )
  for (f in seen) expect_same_mapply(f, 1:4, y = c(a = 5, b = 6))
  expect_same_mapply(function(x, ...) deparse(substitute(list(...))), 1:2, MoreArgs = list(7, more = "a"))
  expect_same_mapply(function(n, i) n + i, n = 1:2, i = 3:4)
  withr::local_preserve_seed()
  large <- rep(list(numeric(1e5)), 3L)
  keep <- function(x, y) function() y
  kept <- c(
    par_mapply(keep, large, 1:3, .control = two_workers()), mcmapply(keep, large, 1:3, mc.cores = 2),
    mcmapply(keep, large, 1:3, mc.cores = 1)
  )
  for (f in kept) expect_false(any(rlang::env_binding_are_lazy(environment(f))))
  expect_identical(unname(lapply(kept, function(f) f())), as.list(rep(1:3, 3)))
})

# Of the condition that `code` signals first: its call, and those that led to it if it is an error of an element.
signalled <- function(code) {
  cnd <- tryCatch(code, condition = identity)
  own <- if (is.null(cnd$parent)) cnd else cnd$parent
  list(call = conditionCall(own), trace = cnd$trace$calls)
}

test_that("what is told of an element names no call but the user's and that of mapply()", {
  withr::defer(end_servers())
  pool <- local_pool(1L)
  nodes <- local_cluster(1L)
  fails <- function(x, y) {
    inner <- function() stop("deep")
    inner()
  }
  warns <- function(x, y) as.integer("no")
  for (on in list(1L, pool, nodes)) {
    quiet <- two_workers(workers = if (is.numeric(on)) 1L)
    ours <- function(...) signalled(par_mapply(..., .on = if (!is.numeric(on)) on, .control = quiet))
    got <- ours(fails, 1:2, 3:4)
    expect_length(got$trace, 2L)
    expect_identical(got$trace[[1L]][-1L], quote(f(dots[[1L]][[1L]], dots[[2L]][[1L]]))[-1L])
    expect_identical(got$trace[[2L]], quote(inner()))
    expect_identical(got$call, quote(inner()))
    # A function in a call is a name, by its arguments.
    expect_identical(ours(warns, 1:2, 3:4)$call[-1L], signalled(mapply(warns, 1:2, 3:4))$call[-1L])
    expect_identical(ours(sqrt, -1)$call[-1L], signalled(mapply(sqrt, -1))$call[-1L])
    expect_identical(ours(log, "a")$call[-1L], signalled(mapply(log, "a"))$call[-1L])
    # Here mapply() has its own.
    expect_identical(ours(log, -1, 2), list(call = NULL, trace = NULL))
    # A forked worker has the session's calls below it, of which this may be one.
    if (!is.numeric(on)) {
      expect_identical(ours(function(x) lapply(-1, sqrt), 1)$call, quote(FUN(X[[i]], ...)))
    }
  }
})

test_that("a value may be the empty argument, a promise's own, or invisible", {
  empty <- function(x) quote(expr = )
  expect_identical(
    par_mapply(empty, 1:2, SIMPLIFY = FALSE, .control = two_workers()), mapply(empty, 1:2, SIMPLIFY = FALSE)
  )
  expect_same_mapply(function(x) invisible(x), 1:2)
  expect_same_mapply(function(value, i, picked) value + i + picked, value = 1:2, i = 3:4, picked = 5:6)
})

test_that("short arguments are recycled, with mapply's warning", {
  expect_identical(
    par_mapply(function(x, y) x + y, 1:6, 1:3, .control = two_workers()),
    mapply(function(x, y) x + y, 1:6, 1:3)
  )
  expect_warning(
    got <- par_mapply(function(x, y) x + y, 1:4, 1:3, .control = two_workers()),
    "longer argument not a multiple"
  )
  expect_identical(got, suppressWarnings(mapply(function(x, y) x + y, 1:4, 1:3)))
})

test_that("MoreArgs go to every call", {
  expect_same_mapply(function(x, y, z) x + y * z, 1:3, 4:6, MoreArgs = list(z = 10))
  expect_same_mapply(function(x, data) nrow(data) + x, 1:2,
    MoreArgs = list(data = data.frame(a = 1:5)))
})

test_that("zero-length arguments are treated as mapply treats them", {
  expect_same_mapply(function(x, y) x, integer(), integer())
  expect_same_mapply(function(x) x, character())
  ours <- tryCatch(
    par_mapply(function(x, y) x, 1:2, integer(), .control = two_workers()),
    error = function(e) "error"
  )
  expect_identical(ours, tryCatch(mapply(function(x, y) x, 1:2, integer()),
    error = function(e) "error"))
})

test_that("classed arguments are subset by their own methods", {
  dates <- as.Date("2013-01-01") + 0:2
  expect_same_mapply(function(d, f) paste(format(d), f), dates, factor(c("u", "v", "u")))
  expect_same_mapply(function(p) nchar(as.character(p)), numeric_version(c("1.2", "10.3")))
})

test_that("an object whose length() is no number of elements is refused by name", {
  length.rg_lost <- function(x) attr(x, "n")
  registerS3method("length", "rg_lost", length.rg_lost)
  lost <- function(n, data = list(1, 2)) structure(data, n = n, class = "rg_lost")
  for (n in list(NA_integer_, -1L, "a", 1:2, Inf, NULL)) {
    expect_refused <- function(code, argument) {
      err <- expect_error(code, class = "regatta_error_argument")
      expect_identical(err$argument, argument)
      expect_match(conditionMessage(err), "`[xy.2]+` must be something whose length.*rg_lost.*length[(][)] of it is .*Mend")
      expect_match(format_call(conditionCall(err), 60L), "^(par|shm|mc)_?(mapply|map|map2|Map)[(]")
    }
    expect_refused(par_mapply(function(a, b) a, 1:2, lost(n)), "..2")
    expect_refused(par_mapply(function(a, y) a, 1:2, y = lost(n)), "y")
    expect_refused(mcmapply(function(a, y) a, 1:2, y = lost(n), mc.cores = 2), "y")
    expect_refused(mcMap(function(a, y) a, 1:2, lost(n)), "..2")
    expect_refused(shm_map(lost(n, 1:2), identity, "integer"), "x")
    expect_refused(shm_map2(1:2, lost(n, 1:2), `+`, "integer"), "y")
  }
  # What its method says counts, as for mapply().
  two <- lost(2, list(5, 6, 7))
  expect_identical(par_mapply(`+`, 1:2, two, .control = two_workers()), mapply(`+`, 1:2, two))
  length.rg_lost <- function(x) stop("no length")
  registerS3method("length", "rg_lost", length.rg_lost)
  expect_error(par_mapply(function(a) a, lost(1)), "no length")
})

test_that("more names than values are refused before anything runs", {
  names.rg_named <- function(x) letters
  registerS3method("names", "rg_named", names.rg_named)
  x <- structure(list(1, 2), class = "rg_named")
  for (map in list(quote(par_mapply), quote(mcmapply))) {
    err <- expect_error(eval(call(as.character(map), quote(function(v) stop("ran")), x)), class = "regatta_error_argument")
    expect_match(conditionMessage(err), "`..1` must be .* at most 2 names, one for each value, not.*rg_named.*\nIt has 26")
    expect_identical(conditionCall(err)[[1L]], map)
  }
  expect_identical(unname(par_mapply(identity, x, USE.NAMES = FALSE, .control = two_workers())), c(1, 2))
})

test_that("errors carry index and name", {
  err <- expect_error(
    par_mapply(function(x, y) if (y == 20) stop("bad pair") else x, c(a = 1, b = 2), c(10, 20),
      .control = two_workers()),
    class = "regatta_error_element"
  )
  expect_identical(err$index, 2L)
  expect_identical(err$name, "b")
  expect_error(par_mapply(3, 1:2), class = "error")
})

test_that("par_replay() runs the pair of an element", {
  got <- par_mapply(function(x, y) x + y + stats::runif(1), 1:3, 4:6,
    .control = two_workers(seed = 4L))
  expect_identical(par_replay(par_last(), 2L), got[[2L]])
})

test_that("names are the first argument's as it was given", {
  for (first in list(matrix(c("p", "q"), 1), I(c("p", "q")), structure(c("p", "q"), foo = 1))) {
    expect_same_mapply(nchar, first)
  }
  expect_same_mapply(function(x, y) y, c(a = "p"), 1:3)
  expect_same_mapply(function(x, y) y, I("p"), 1:3)
  expect_same_mapply(function(x, y) y, c("p", "q"), integer())
})

test_that("elements are those of length() and `[[`, not of as.list()", {
  withr::local_preserve_seed() # which mcmapply() moves
  shown <- function(x) paste(class(x), format(x))
  expect_same_mapply(shown, as.difftime(1:2, units = "secs"))
  expect_same_mapply(shown, Sys.time() + 0:2)
  expect_same_mapply(shown, factor(c(a = "u", b = "v")))
  expect_same_mapply(function(x) x, as.POSIXlt(as.Date("2013-01-01") + 0:1))
  expect_same_mapply(function(x, n) mean(x) + n, data.frame(u = 1:2, v = 3:4), 2:1)
  expect_same_mapply(deparse, quote(a + b))
  expect_same_mapply(function(x) x, pairlist(a = 1, b = 2))
  registerS3method("[[", "of_tenfolds", function(x, i) 10 * i)
  registerS3method("length", "of_tenfolds", function(x) 3)
  registerS3method("as.list", "of_tenfolds", function(x, ...) list("not these"))
  tenfolds <- structure(list(), class = "of_tenfolds")
  expect_same_mapply(function(x, y) x + y, tenfolds, 1:3)
  expect_identical(mcmapply(function(x, y) x + y, tenfolds, 1:3), c(11, 22, 33))
  for (bad in list(mean, quote(a), globalenv())) {
    expect_error(par_mapply(identity, bad, .control = two_workers()), "subset")
  }
})

test_that("an argument may be left empty, and elements that are code are values", {
  withr::local_preserve_seed()
  f <- function(a, b) list(missing(b), deparse(substitute(a)))
  # Code among them is part of the call, as there.
  frames <- list(data.frame(x = 1:5), data.frame(x = 6:10))
  for (more in list(list(quote(sum(x))), list(quote(x > 3 & x < 9)), list(expr = quote(x)))) {
    want <- mapply(with, frames, MoreArgs = more)
    expect_identical(par_mapply(with, frames, MoreArgs = more, .control = two_workers()), want)
    expect_identical(mcmapply(with, frames, MoreArgs = more, mc.cores = 2), want)
    expect_identical(mcMap(with, frames, MoreArgs = more, mc.cores = 2), Map(with, frames, MoreArgs = more))
  }
  expect_identical(
    par_mapply(function(i, e) class(e), 1:2, MoreArgs = list(e = quote(letters)), .control = two_workers()),
    mapply(function(i, e) class(e), 1:2, MoreArgs = list(e = quote(letters)))
  )
  more <- list(b = quote(expr = ))
  expect_same_mapply(f, 1:2, MoreArgs = more, SIMPLIFY = FALSE)
  g <- function(a) class(a)
  words <- alist(x, f(x), 1)
  expect_identical(par_mapply(g, words, .on = 2), mapply(g, words))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
