# Keys of a checkpoint: what differs has another one, what is the same has the same.
detritus <- detritus_snapshot()

key <- regatta:::key_of
parts <- regatta:::key_parts
given <- function(x, f = identity) regatta:::key_given(x, regatta:::key_context(f))
control <- function(dir, ...) two_workers(checkpoint = dir, seed = FALSE, ...)
folder <- function(env = parent.frame()) file.path(withr::local_tempdir("log-", .local_envir = env), "run")
counters <- function() {
  n <- 0
  list(step = function() n <<- n + 1, read = function() n)
}
environment(counters) <- globalenv()
new_env <- function(parent = globalenv()) new.env(parent = parent)
together <- counters
apart <- function() list(step = counters()$step, read = counters()$read)
# Of two counters: which of them the function in the middle reads.
beside <- function(which) {
  two <- list(counters(), counters())
  list(two[[1L]]$step, two[[which]]$read, two[[2L]]$step)
}
in_place <- function(env, f = eval(quote(function() 1))) {
  environment(f) <- env
  f
}

test_that("values of other kinds have other keys, whatever else is alike", {
  pairs <- list(
    list(expression(a + b), list(quote(a + b))), list(quote(f(x)), list(quote(f), quote(x))),
    list(quote(x), list("0symbol", "x")), list(pairlist(a = quote(x)), list(a = quote(x))),
    list(as.call(list(quote(f), pairlist(1))), as.call(list(quote(f), list(1)))),
    list(as.call(list(quote(f), expression(g(x)))), as.call(list(quote(f), quote(g(x))))),
    list(expression(a + b), pairlist(quote(a + b))),
    list(as.call(list(quote(f), expression(g(x)))), as.call(list(quote(f), pairlist(quote(g(x)))))),
    list(asS4(1), 1), list(asS4(1:3), 1:3), list(asS4(list(1)), list(1)),
    list(asS4(list(f = identity, g = quote(x))), list(f = identity, g = quote(x))),
    list(asS4(in_place(globalenv())), in_place(globalenv())), list(asS4(new_env()), new_env()),
    list(asS4(quote(f(x))), quote(f(x))), list(asS4(structure(1, f = quote(x))), structure(1, f = quote(x))),
    list(asS4(expression(a)), expression(a)), list(list(quote(a)), structure(list(quote(a)), class = "rg"))
  )
  for (pair in pairs) {
    label <- deparse1(pair[[1L]])
    expect_identical(key(pair[[1L]]), key(pair[[1L]]), label = label)
    # Alone, in a list, in an attribute, as an argument, as an element.
    wrapped <- list(identity, list, function(x) structure(1, a = list(x)), function(x) parts(sum, list(x)), given)
    for (wrap in wrapped) expect_false(identical(key(wrap(pair[[1L]])), key(wrap(pair[[2L]]))), label = label)
  }
})

test_that("what functions share counts, and where they look for names", {
  pairs <- list(
    list(together(), apart()), list(lapply(together(), list), lapply(apart(), list)),
    list(structure(1, a = together()), structure(1, a = apart())), list(beside(1L), beside(2L)),
    list(
      in_place(new_env(parent = baseenv())), in_place(new_env(parent = globalenv()))
    ),
    list(new_env(parent = baseenv()), new_env(parent = globalenv())),
    list(in_place(globalenv()), in_place(new_env(parent = globalenv()))),
    list({e <- new_env(); list(e, in_place(e))}, list(new_env(), in_place(new_env()))), # nolint
    list({e <- new_env(); list(new_env(parent = e), new_env(parent = e))}, # nolint
      list(new_env(parent = new_env()), new_env(parent = new_env())))
  )
  for (pair in pairs) {
    label <- paste(utils::capture.output(utils::str(pair[[1L]])), collapse = " ")
    expect_identical(key(pair[[1L]]), key(unserialize(serialize(pair[[1L]], NULL))), label = label)
    expect_false(key(pair[[1L]]) == key(pair[[2L]]), label = label)
    for (wrap in list(function(x) parts(sum, list(x)), given)) {
      expect_identical(wrap(pair[[1L]]), wrap(unserialize(serialize(pair[[1L]], NULL))), label = label)
      expect_false(identical(wrap(pair[[1L]]), wrap(pair[[2L]])), label = label)
    }
  }
  # A chain of environments, each around the next, needs no stack.
  chain <- Reduce(function(env, k) new_env(parent = env), seq_len(3000), globalenv())
  expect_identical(key(in_place(chain)), key(in_place(chain)))
})

test_that("what variables, arguments and elements share counts, and is named", {
  make <- function(pair, argument = pair$read) {
    step <- pair$step
    read <- pair$read
    list(fun = function(i, ...) read() + step(), args = list(argument))
  }
  of <- function(call) parts(call$fun, call$args)
  changes <- function(a, b) regatta:::key_changes(of(a), of(b))
  one <- together()
  expect_null(changes(make(one), make(together())))
  expect_match(changes(make(one), make(apart(), together()$read)), "the environments.*of", all = FALSE)
  # between the arguments and what the function uses
  expect_match(changes(make(one, one$read), make(one, together()$read)), "the environments.*of", all = FALSE)
  # between an element and these, and that alone
  FUN <- function(f, g) f() + g()
  key_one <- function(element, argument) {
    context <- regatta:::key_context(FUN)
    regatta:::key_parts(FUN, list(g = argument), context)
    regatta:::key_given(element, regatta:::key_context(FUN, context$met))
  }
  expect_identical(key_one(one$step, one$read), key_one(one$step, one$read))
  expect_false(key_one(one$step, one$read) == key_one(one$step, together()$read))
  expect_identical(key_one(one$step, together()$read), key_one(together()$step, one$read))
  # what moves to another place is not called a change of code
  before <- parts(in_place(new_env(parent = globalenv())), list())
  after <- parts(in_place(new_env(parent = baseenv())), list())
  expect_match(regatta:::key_changes(before, after), "the environments.*of")
})

test_that("calls that give their elements in another way have values of their own", {
  describe <- function(...) names(list(...))
  X <- list(list(a = 1, b = 2), list(a = 3, b = 4))
  dir <- folder()
  par_mapply(describe, a = c(1, 3), b = c(2, 4), SIMPLIFY = FALSE, .control = control(dir))
  e <- expect_error(par_lapply(X, describe, .control = control(dir)), class = "regatta_error_checkpoint")
  expect_match(conditionMessage(e), "how the function is called")
  dir <- folder()
  par_lapply(X, describe, .control = control(dir))
  expect_error(
    par_mapply(describe, a = c(1, 3), b = c(2, 4), .control = control(dir)), class = "regatta_error_checkpoint"
  )
  # Those that call it in the same way go on for each other.
  expect_message(par_sapply(X, describe, .control = control(dir)), "2 of 2")
  expect_message(par_vapply(X, function(x) list(NULL), list(1), .control = control(folder())), NA)
})

test_that("what is only reached from one environment after another counts, or the call is refused", {
  # The name of the next function is a word in data, and that of an environment which the one before leads to.
  chain <- function(n, last) {
    name <- function(k) paste0("rg_link", k)
    for (k in n:1) {
      env <- list2env(stats::setNames(list(last), name(k)), parent = globalenv())
      env$rg_next <- name(k)
      last <- in_place(env, function() rg_next)
    }
    last
  }
  of <- function(n, last) parts(chain(n, last), list())
  expect_identical(of(15, 1), of(15, 1))
  expect_false(identical(of(15, 1), of(15, 2)))
  e <- expect_error(of(150, 1), "led to.*other variables", class = "regatta_error_checkpoint")
  expect_identical(e$reason, "search")
})

test_that("functions that one place of code has made share what is known of it, and nothing else", {
  # The function in the code has variables of its own.
  inner <- in_place(list2env(list(rg_v = 1), parent = globalenv()), eval(quote(function() rg_v)))
  outer <- as.function(list(as.call(list(inner))), globalenv())
  before <- key(outer)
  expect_identical(key(outer), before)
  assign("rg_v", 2, environment(inner))
  expect_false(key(outer) == before)
  made <- lapply(1:3, function(k) in_place(list2env(list(rg_v = k %% 2), parent = globalenv()), inner))
  keys <- vapply(made, given, "")
  expect_identical(keys[[1L]], keys[[3L]])
  expect_false(keys[[1L]] == keys[[2L]])
  # Wherever in a value it stands, and whatever was looked at before.
  deep <- Reduce(function(x, k) list(x), 1:60, made[[1L]])
  expect_identical(key(deep), key(Reduce(function(x, k) list(x), 1:60, made[[3L]])))
})

test_that("small values are written together, and all of them before a stream gives the next", {
  gather <- regatta:::checkpoint_gather
  utils::assignInNamespace("checkpoint_gather", 3600, "regatta")
  withr::defer(utils::assignInNamespace("checkpoint_gather", gather, "regatta"))
  dir <- folder()
  rows <- function(i, dir) nrow(regatta::par_log(dir))
  expect_identical(par_sapply(1:5, rows, dir = dir, .control = control(dir)), rep(0L, 5L))
  expect_identical(nrow(par_log(dir)), 5L)
  dir <- folder()
  stream <- par_stream(1:3, function(i) i, .control = control(dir))
  par_next(stream)
  expect_gte(nrow(par_log(dir)), 1L)
  while (par_more(stream)) par_next(stream)
})

test_that("a variable that only a word names is told of as that", {
  withr::defer(rm(list = intersect(c("rg_data", "rg_used"), ls(globalenv())), envir = globalenv()))
  assign("rg_data", 1, globalenv())
  assign("rg_used", 1, globalenv())
  FUN <- in_place(globalenv(), function(i) {
    message("reading rg_data")
    i + rg_used
  })
  dir <- folder()
  run <- function() par_lapply(1:2, FUN, .control = control(dir, messages = "drop"))
  run()
  assign("rg_data", 2, globalenv())
  e <- expect_error(run(), class = "regatta_error_checkpoint")
  expect_match(conditionMessage(e), "the variable `rg_data` (as a word in strings or names", fixed = TRUE)
  expect_match(conditionMessage(e), "its old value")
  assign("rg_data", 1, globalenv())
  assign("rg_used", 2, globalenv())
  e <- expect_error(run(), "the variable `rg_used` has changed", class = "regatta_error_checkpoint")
  expect_no_match(conditionMessage(e), "word")
})

test_that("a matrix in a file is the same with a cache, in this session and the next", {
  skip_if_not(h5_available(), "the package was built without libhdf5")
  path <- withr::local_tempfile(fileext = ".h5")
  m <- h5_fill(path, "m", c(6L, 4L), function(rows, columns) {
    matrix(1, length(rows), length(columns))
  }, .control = two_workers())
  cached <- h5_cache(m, "1MB")
  for (wrap in list(identity, list, function(x) parts(sum, list(x)), given)) {
    expect_identical(key(wrap(cached)), key(wrap(m)))
    expect_identical(key(wrap(h5_cache(m, "2MB"))), key(wrap(cached)))
  }
  expect_false(key(t(cached)) == key(cached))
  h5_cache_drop(cached)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
