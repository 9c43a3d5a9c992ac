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

test_that("numbers are told apart by their bits", {
  complex_of <- function(re) complex(real = re, imaginary = 1)
  pairs <- list(
    list(0, -0), list(c(0, 1), c(-0, 1)), list(complex_of(0), complex_of(-0)), list(NA_real_, NaN), list(1, 1L),
    list(1, 1 + .Machine$double.eps), list(structure(0, a = 1), structure(-0, a = 1)),
    list(structure(1, a = 0), structure(1, a = -0)), list(quote(f(0)), as.call(list(quote(f), -0)))
  )
  for (pair in pairs) {
    label <- deparse1(pair)
    for (wrap in list(identity, list, function(x) list(a = list(x)), function(x) parts(sum, list(x)), given)) {
      expect_false(identical(key(wrap(pair[[1L]])), key(wrap(pair[[2L]]))), label = label)
    }
  }
  dir <- folder()
  map <- function(X) unlist(par_lapply(X, function(x) 1 / x, .control = control(dir)))
  expect_identical(map(c(0, 1)), c(Inf, 1))
  expect_identical(suppressMessages(map(c(-0, 1))), c(-Inf, 1))
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

# What the code of a test defines in the workspace goes with it.
in_workspace <- function(code) eval(code, globalenv())
local_workspace <- function(env = parent.frame()) {
  before <- regatta:::workspace_take()
  withr::defer(regatta:::workspace_reset(before, character()), envir = env)
}
# In words, what `change` in the workspace changes in a call.
changes <- function(f, change, args = list()) {
  before <- parts(f, args)
  expect_identical(parts(f, args), before)
  in_workspace(change)
  now <- parts(f, args)
  regatta:::key_changes(before, now)
}

test_that("a name with two dots before it is the name, too, as in data.table", {
  local_workspace()
  pick <- function(code) in_place(globalenv(), as.function(c(alist(i = ), list(code))))
  codes <- list(
    quote(dt[, ..rg_cc]), quote(dt[, sum(..rg_cc)]), quote(local(dt[, ..rg_cc])),
    Reduce(function(x, k) call("(", x), 1:150, quote(..rg_cc)),
    quote({rg_f <- function() dt[, ..rg_cc]; rg_f()}) # nolint
  )
  for (code in codes) {
    in_workspace(quote(rg_cc <- "a"))
    said <- changes(pick(code), quote(rg_cc <- "b"))
    expect_match(paste(said, ""), "`rg_cc`", label = deparse1(code))
  }
  # A variable of such a name of its own, and code that is data or text.
  in_workspace(quote(..rg_cc <- "a"))
  said <- changes(pick(quote(..rg_cc)), quote(..rg_cc <- "b"))
  expect_match(paste(said, ""), "`..rg_cc`", fixed = TRUE)
  for (arg in list(quote(dt[, ..rg_cc]), "dt[, ..rg_cc]", "..rg_cc", ~..rg_cc)) {
    in_workspace(quote(rg_cc <- "a"))
    said <- changes(pick(quote(i)), quote(rg_cc <- "b"), list(arg))
    expect_match(paste(said, ""), "`rg_cc`", label = deparse1(arg))
  }
  # Around the function, where its own variable is not meant.
  local_f <- in_place(list2env(list(rg_cc = "a"), parent = globalenv()), pick(quote(dt[, ..rg_cc])))
  before <- parts(local_f, list())
  assign("rg_cc", "b", environment(local_f))
  expect_match(regatta:::key_changes(before, parts(local_f, list())), "variable `rg_cc`")
  said <- changes(pick(quote({rg_cc <- 1; dt[, ..rg_cc]})), quote(rg_cc <- "d")) # nolint
  expect_null(said)
})

test_that("what code names by rlang's `.env` counts", {
  local_workspace()
  uses <- function(code) in_place(globalenv(), as.function(c(alist(i = , pick = ), list(code))))
  for (code in list(quote(pick(n < .env$rg_cc)), quote(pick(n < .env[["rg_cc"]])), quote(pick(~ .env$rg_cc)))) {
    in_workspace(quote(rg_cc <- "a"))
    expect_match(paste(changes(uses(code), quote(rg_cc <- "b")), ""), "`rg_cc`", label = deparse1(code))
    in_workspace(quote(rg_cc <- "a"))
    said <- changes(uses(quote(pick(i))), quote(rg_cc <- "b"), list(rlang::new_quosure(code, globalenv())))
    expect_match(paste(said, ""), "`rg_cc`", label = deparse1(code))
  }
})

test_that("an argument that is taken as code counts as its code and what that names, and stays code", {
  local_workspace()
  in_workspace(quote(rg_cc <- 1L))
  over <- function(quo, d) sum(rlang::eval_tidy(quo, d))
  dots <- function(...) function(d) over(rlang::enquos(...)[[1L]], d)
  embraced <- function(v) function(d) over(rlang::quos({{ v }})[[1L]], d)
  taking <- list(
    dots = dots, embraced = embraced,
    enquo = function(v) function(d) over(rlang::enquo(v), d),
    `dots handed on` = function(...) dots(...), `embraced twice` = function(v) embraced({{ v }}),
    `function of the user` = function(...) function(d) nrow(subset(d, ...))
  )
  data <- rep(list(data.frame(x = 1:4)), 2L)
  pool <- local_pool(2)
  here <- environment()
  is_other <- function(a, b) length(regatta:::key_changes(parts(a, list()), parts(b, list()))) > 0L
  for (kind in names(taking)) {
    take <- taking[[kind]]
    expect_false(is_other(take(x > 1L), take(x > 1L)), info = kind)
    expect_true(is_other(take(x > 1L), take(x > 2L)), info = kind)
    expect_match(paste(changes(take(x > rg_cc), quote(rg_cc <- 2L)), ""), "variable", info = kind)
    in_workspace(quote(rg_cc <- 1L))
    for (on in list(2, pool)) {
      # The second names no column: to evaluate it would take the code.
      for (checkpoint in list(FALSE, TRUE)) {
        use <- function() if (checkpoint) control(folder(here)) else two_workers(seed = FALSE)
        expect_identical(par_sapply(data, take(x > rg_cc), .on = on, .control = use()), c(3L, 3L), info = kind)
        taken <- par_sapply(data, take(rg_cc == 1L), .on = on, .control = use())
        expect_identical(taken, if (kind == "function of the user") c(4L, 4L) else c(1L, 1L), info = kind)
      }
    }
  }
  # What is not taken as code, or fails, is the value, or the code that fails.
  plain <- function(n) function(i) i * n
  two <- 2
  expect_false(is_other(plain(two), plain(1 + 1)))
  expect_true(is_other(plain(stop("one")), plain(stop("two"))))
  left <- function(n) {
    regatta:::key_parts(function(i) n, list())
    "went on"
  }
  expect_identical((function() left(return("left")))(), "went on")
})

test_that("what code takes from the workspace as an object counts, wherever that stands", {
  local_workspace()
  in_workspace(quote({
    rg_env <- globalenv()
    rg_list <- list(env = globalenv())
    rg_formula <- y ~ x
  }))
  holding <- (function(e) {
    force(e)
    function(i) e$rg_cc
  })(globalenv())
  uses <- function(code) in_place(globalenv(), as.function(c(alist(i = ), list(code))))
  funs <- list(
    uses(quote(rg_env$rg_cc)), uses(quote(rg_list$env$rg_cc)), uses(quote(attr(rg_formula, ".Environment")$rg_cc)), holding
  )
  for (fun in funs) {
    in_workspace(quote(rg_cc <- "a"))
    expect_match(paste(changes(fun, quote(rg_cc <- "b")), ""), "`rg_cc`", label = deparse1(body(fun)))
  }
  # as an argument or an element
  taking <- in_place(globalenv(), function(e) e$rg_cc)
  in_workspace(quote(rg_cc <- "a"))
  expect_match(paste(changes(taking, quote(rg_cc <- "b"), list(globalenv())), ""), "`rg_cc`")
  element <- function() {
    context <- regatta:::key_context(taking)
    regatta:::key_parts(taking, list(), context)
    regatta:::key_given(globalenv(), regatta:::key_context(taking, context$met, context$fields))
  }
  before <- element()
  expect_identical(element(), before)
  in_workspace(quote(rg_cc <- "c"))
  expect_false(element() == before)
  # a field of anything else is none of its variables
  in_workspace(quote(rg_cc <- "a"))
  expect_null(changes(uses(quote(i$rg_cc)), quote(rg_cc <- "b")))
})

test_that("an element of a class that packages alone have methods for has a key, without a warning", {
  expect_silent(given(rlang::quo(1 + 1), rlang::eval_tidy))
})

test_that("what belongs to a class union, and how a class becomes another, counts", {
  local_workspace()
  f <- in_place(globalenv(), function(x) methods::is(x, "RgCell"))
  expect_refused <- function(before, change) {
    in_workspace(before)
    said <- changes(f, change)
    expect_match(paste(said, ""), "class.* of the workspace `Rg", label = deparse1(change))
  }
  cell <- quote(setClassUnion("RgCell", c("numeric", "character")))
  expect_refused(cell, quote(setClassUnion("RgCell", c("numeric", "character", "logical"))))
  expect_refused(cell, quote({removeClass("RgCell"); setClassUnion("RgCell", "numeric")})) # nolint
  expect_refused(quote(setClassUnion("RgOther", "numeric")), quote(setIs("character", "RgOther")))
  classes <- quote({
    setClass("RgP", representation(x = "numeric"))
    setClass("RgQ", representation(y = "numeric"))
    setIs("RgP", "RgQ", coerce = function(from) new("RgQ", y = from@x), replace = function(from, value) from)
  })
  expect_refused(classes, quote(setIs("RgP", "RgQ",
    coerce = function(from) new("RgQ", y = -from@x), replace = function(from, value) from
  )))
  expect_refused(classes, quote(setIs("RgP", "RgQ",
    coerce = function(from) new("RgQ", y = from@x), replace = function(from, value) stop()
  )))
  condition <- function(size) {
    bquote(setIs("RgP", "RgAny", test = function(object) length(object@x) > .(size),
      coerce = function(from) from, replace = function(from, value) value))
  }
  in_workspace(quote(setClass("RgAny", representation("VIRTUAL"))))
  expect_refused(condition(1), condition(2))
  # Through all of it, as a user meets it.
  in_workspace(quote({removeClass("RgCell"); setClassUnion("RgCell", c("numeric", "character"))})) # nolint
  dir <- folder()
  par_sapply(list(1, "a", TRUE), f, .control = control(dir))
  in_workspace(quote(setClassUnion("RgCell", c("numeric", "character", "logical"))))
  expect_error(
    par_sapply(list(1, "a", TRUE, FALSE), f, .control = control(dir)), "`RgCell`",
    class = "regatta_error_checkpoint"
  )
})

test_that("keys of classes are those of another session, whatever was done with them there", {
  withr::local_preserve_seed()
  code <- quote({
    setClassUnion("RgCell", c("numeric", "character"))
    setClass("RgP", representation(x = "numeric"))
    setClass("RgQ", representation(y = "numeric"))
    setIs("RgP", "RgQ", coerce = function(from) new("RgQ", y = from@x), replace = function(from, value) from)
    setClass("RgR", contains = "RgP")
    setClass("RgN", contains = "numeric", representation(unit = "character"))
    setClass("RgL", contains = c("list", "RgCell"))
    setOldClass(c("rg_new", "rg_old"))
    setClass("RgS", contains = "rg_new")
    RgAccount <- setRefClass("RgAccount", fields = list(sum = "RgCell"), methods = list(add = function(x) sum + x))
    setGeneric("rg_area", function(s) standardGeneric("rg_area"))
    setMethod("rg_area", "RgCell", function(s) 1)
  })
  use <- quote({
    is(1L, "RgCell"); is(factor("a"), "RgCell"); is(TRUE, "RgCell") # nolint
    as(new("RgR", x = 1), "RgQ")
    r <- new("RgR", x = 1)
    as(r, "RgQ") <- new("RgQ", y = 2)
    as(new("RgN", 1, unit = "m"), "RgCell")
    lapply(list(1L, "a", new("RgN", 1), new("RgL", list())), rg_area)
    RgAccount$new(sum = 1)$add(2)
    as(1L, "RgCell")
    library(stats4)
    # As a package does that is loaded, of a class that it makes a number: R adds the class to the union.
    package <- new.env(parent = globalenv())
    assign(".packageName", ".GlobalEnv", envir = package)
    setClass("RgOutside", representation(x = "numeric"), where = package)
    setIs("RgOutside", "numeric", coerce = function(from) from@x, replace = function(from, value) from, where = package)
    stopifnot("RgOutside" %in% names(getClass("RgCell")@subclasses))
    rm(package)
    x <- "workspace"
  })
  keys <- function(use) {
    callr::r(function(code, use) {
      suppressMessages(eval(code, globalenv()))
      eval(use, globalenv())
      regatta:::key_parts(identity, list())[c("methods", "environments")]
    }, list(code, use), libpath = .libPaths())
  }
  expect_identical(keys(use), keys(NULL))
})

test_that("packages that alone have methods for a class of the data count", {
  skip_if_not_installed("bit64")
  got <- fault_run(function(folder) {
    control <- par_control(workers = 2L, seed = 1L, progress = FALSE, dump = "no", checkpoint = folder)
    ids <- structure(c(5e-324, 1e-323), class = "integer64") # 1 and 2, as a file has them
    changed <- function(f) tryCatch(f(), regatta_error_checkpoint = function(e) conditionMessage(e))
    variable <- function() unlist(par_lapply(1:2, function(i) format(ids[i]), .control = control))
    argument <- function() unlist(par_lapply(1:2, function(i, x) format(x[i]), x = ids, .control = control))
    element <- function() unlist(par_lapply(list(ids, list(ids)), function(x) format(if (is.list(x)) x[[1L]] else x), .control = control))
    calls <- list(variable = variable, argument = argument, element = element)
    run <- function(name) {
      control$checkpoint <<- file.path(folder, name)
      suppressMessages(changed(calls[[name]]))
    }
    before <- lapply(names(calls), run)
    again <- lapply(names(calls), run)
    loadNamespace("bit64")
    list(before = before, again = again, after = stats::setNames(lapply(names(calls), run), names(calls)))
  }, list(withr::local_tempdir()))$value
  expect_identical(got$again, got$before)
  for (name in c("variable", "argument")) {
    expect_match(got$after[[name]], "the methods that packages have for the class `integer64` have changed", label = name)
  }
  expect_identical(got$after$element, c("1", "2", "1", "2"))
})

test_that("nothing is left behind", {
  end_servers()
  expect_no_detritus(detritus)
})
