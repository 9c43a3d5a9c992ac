detritus <- detritus_snapshot()

# What the code of a test defines in the workspace goes with it. Functions are made there.
local_workspace <- function(env = parent.frame()) {
  before <- regatta:::workspace_take()
  withr::defer(regatta:::workspace_reset(before, character()), envir = env)
}
unseeded <- two_workers(seed = FALSE)
in_workspace <- function(code) eval(substitute(code), globalenv())

test_that("a name that is assigned somewhere, or an argument within, is a global where it is neither", {
  withr::defer(rm(list = c("rg_one", "rg_two"), envir = globalenv()))
  assign("rg_one", data.frame(a = 1:3), globalenv())
  assign("rg_two", 2, globalenv())
  names_of <- function(f) {
    environment(f) <- globalenv()
    sort(as.character(names(regatta:::globals_of(list(f))$variables)))
  }
  expect_identical(names_of(function(i) { h <- function(rg_one) nrow(rg_one); c(h(i), nrow(rg_one)) }), "rg_one")
  expect_identical(names_of(function(i) sapply(1:2, function(rg_two) rg_two) + rg_two), "rg_two")
  expect_identical(names_of(function(i) { if (i == 1) rg_two <- 0; rg_two }), "rg_two")
  expect_identical(names_of(function(i) { lapply(1, function(j) rg_two <- j); rg_two }), "rg_two")
  expect_identical(names_of(function(i) { tryCatch({ stop(); rg_two <- 1 }, error = identity); rg_two }), "rg_two")
  expect_identical(names_of(function(i) { rg_two <- 2; rm(rg_two); rg_two }), "rg_two")
  expect_identical(names_of(function(i, k = rg_two) { rg_two <- 2; k }), "rg_two")
  # its own before anything is read
  expect_identical(names_of(function(i) { rg_two <- i; rg_one <- rg_two; rg_one }), character())
  expect_identical(names_of(function(rg_one) rg_one), character())
})

test_that("code among elements, arguments and variables counts, and what is not certainly the code's own", {
  local_workspace()
  in_workspace({
    rg_k <- 2
    rg_code <- quote(rg_k)
    rg_models <- list(a = quote(rg_k * 1))
    rg_twice <- function(i) i * rg_k
  })
  expect_sent <- function(FUN, X = 1, args = list()) {
    environment(FUN) <- globalenv()
    code <- regatta:::code_of(list(FUN = FUN, X = X, args = args))
    expect_true("rg_k" %in% names(regatta:::globals_of(code)$variables), label = deparse(body(FUN))[[1L]])
  }
  expect_sent(function(e) eval(e), expression(rg_k, 1))
  expect_sent(function(e) eval(e), list(quote(rg_k)))
  late <- quote((function(i) { h <- function() { v <- rg_k; rg_k <- 3; v }; h() })(1))
  expect_sent(function(e) do.call(with, list(list(), e)), list(late))
  expect_sent(function(i, e) eval(e), args = list(e = quote(rg_k)))
  expect_sent(function(i) eval(rg_code))
  expect_sent(function(i) eval(rg_models$a))
  expect_sent(function(i) { h <- function() { v <- rg_k; rg_k <- 3; v }; h() })
  expect_sent(function(i, a = { rg_k <- 9; 1 }) rg_k + i)
  expect_sent(function(i, rg_twice = 1) rg_twice(i))
  # Classes of the workspace go with all code, and what they need with them: nothing else is seen beside them.
  in_workspace(RgField <- setRefClass("RgField", fields = list(a = function() rg_k)))
  expect_sent(function(i) RgField$new()$a)
  in_workspace({
    removeClass("RgField")
    RgProto <- setClass("RgProto", representation(f = "function"), prototype(f = function() rg_k))
  })
  expect_sent(function(i) RgProto()@f())
})

test_that("each word in data may be the name of a variable that stands for a function on workers", {
  local_workspace()
  in_workspace({
    df <- data.frame(y = as.double(1:2e4), x = rep(1:4, 5e3)) # more than is sent for nothing
    dt <- data.frame(y = as.double(1:4), x = 1:4)
    rg_small <- 3
    rg_large <- numeric(1e5)
    rg_function <- function() rg_small
    rg_identity <- function(x, ...) x
  })
  sent <- function(x, FUN = get("rg_identity", globalenv())) {
    sort(as.character(names(regatta:::globals_of(regatta:::code_of(list(FUN = FUN, X = x, args = list())))$variables)))
  }
  holders <- list(
    call = structure(list(call = quote(lm(y ~ x, data = df))), class = "rg_fit"), fit = in_workspace(lm(y ~ x, df)),
    text = "nrow(df)", braces = "{nrow(df)}", piece = "nrow(df", name = "df", factor = factor("y ~ df"),
    names = list(df = 1), column = data.frame(a = "df$y"), marked = structure(1, of = "df"),
    dotted = structure(list(call = quote(b[, ..df])), class = "rg_fit"),
    symbol = structure(list(quote(df)), class = "rg_spec"), code = structure(list(expression(df)), class = "rg_spec"),
    within = list2env(list(a = "df")), slot = new("className", "df")
  )
  for (name in names(holders)) {
    expect_identical(sent(list(holders[[name]])), c("df", "dt"), label = name)
  }
  expect_identical(sent("df"), c("df", "dt"))
  expect_identical(sent(factor("df")), c("df", "dt"))
  expect_identical(sent(1), "dt")
  # What masks nothing is sent where a call names it, or code looks up, or it is small; else it is an error.
  expect_identical(sent("head(rg_large)"), "dt")
  expect_identical(sent(list(structure(list(quote(rg_large)), class = "rg_spec"))), c("dt", "rg_large"))
  expect_identical(sent("rg_large", in_workspace(function(s) eval(parse(text = s)))), c("dt", "rg_large"))
  expect_identical(sent(1, in_workspace(function(i) { s <- "sum(rg_large)"; eval(str2lang(s)) })), c("dt", "rg_large"))
  expect_identical(sent("rg_small + 1"), c("dt", "rg_small"))
  expect_identical(sent("rg_function()"), c("dt", "rg_function", "rg_small"))
  # Not for nothing: what needs a package, and what has to be evaluated.
  in_workspace({
    var <- structure(list(f = testthat::expect_true), class = "rg_needing")
    delayedAssign("range", stop("evaluated"))
    makeActiveBinding("beta", function() 42, globalenv())
  })
  expect_identical(sent(1), c("beta", "dt"))
})

test_that("what is not evaluated yet is not evaluated to see whether it masks something", {
  local_workspace()
  attach(NULL, name = "rg_lazy")
  withr::defer(detach("rg_lazy"))
  for (place in list(globalenv(), as.environment("rg_lazy"))) {
    delayedAssign("F", stop("evaluated"), globalenv(), place)
    delayedAssign("mean", stop("evaluated"), globalenv(), place)
  }
  f <- function(i) i + 1
  environment(f) <- globalenv()
  expect_identical(names(regatta:::globals_of(list(f))$attached), NULL)
  g <- function(mean = 1) mean(mean)
  environment(g) <- globalenv()
  expect_no_error(regatta:::globals_of(list(g)))
})

test_that("a list with an empty argument is looked into", {
  used <- function(x) rg_within
  environment(used) <- globalenv()
  assign("rg_empty", c(alist(a = ), list(used)), globalenv())
  assign("rg_within", 1, globalenv())
  withr::defer(rm("rg_empty", "rg_within", envir = globalenv()))
  f <- function(i) length(rg_empty)
  environment(f) <- globalenv()
  expect_setequal(names(regatta:::globals_of(list(f))$variables), c("rg_empty", "rg_within"))
})

test_that("code is found wherever it stands in what a worker is sent", {
  local_workspace()
  in_workspace({
    rg_helper <- function(x) x + 1
    rg_uses <- function(x) rg_helper(x)
    RgBox <- setClass("RgBox", representation(f = "ANY"))
  })
  uses <- get("rg_uses", globalenv())
  lazy <- active <- cyclic <- new.env(parent = emptyenv())
  lazy <- new.env()
  delayedAssign("f", rg_uses, globalenv(), lazy)
  active <- new.env()
  makeActiveBinding("f", in_workspace(function() rg_helper(1)), active)
  cyclic$self <- cyclic
  cyclic$deep <- list(list(list(list(list(uses)))))
  holders <- list(
    environment = list2env(list(f = uses), new.env()), attribute = structure(1, f = uses),
    slot = methods::new("RgBox", f = list(uses)), of_function = structure(in_workspace(function(x) x), f = uses),
    cyclic = cyclic, lazy = lazy, active = active, pairs = as.pairlist(list(f = uses)), long = c(as.list(1:500), uses)
  )
  found <- function(...) names(regatta:::globals_of(regatta:::code_of(list(...)))$variables)
  identity_there <- in_workspace(function(x) x)
  for (name in names(holders)) {
    expect_true("rg_helper" %in% found(FUN = identity_there, X = 1:2, args = holders[name]), label = name)
    expect_true("rg_helper" %in% found(FUN = identity_there, X = holders[name], args = list()), label = name)
    captured <- local({
      held <- holders[[name]]
      function(i) held
    })
    expect_true("rg_helper" %in% found(FUN = captured, X = 1:2, args = list()), label = name)
  }
  # A pool has it, too.
  pool <- local_pool()
  run <- function(x, box) box$f(x)
  environment(run) <- globalenv()
  expect_identical(par_lapply(1:2, run, box = holders$environment, .on = pool, .control = unseeded), list(2, 3))
})

test_that("names that R has, too, mean what they mean in the workspace, also where code does not show them", {
  local_workspace()
  in_workspace({
    sd <- function(x) "mine"
    pi <- 3
    letters <- function() NULL
  })
  there <- in_workspace(function(i) list(do.call(paste0("s", "d"), list(1:3)), get(paste0("p", "i"))))
  expect_identical(par_lapply(1:2, there, .on = local_pool(), .control = unseeded), lapply(1:2, there))
  expect_setequal(names(regatta:::globals_of(list(there))$variables), c("sd", "pi", "letters"))
  # Large data that stands for a function is not sent for nothing, but where not all was looked into all such names are,
  # and others are an error that says what to do.
  in_workspace(df <- numeric(1e5))
  expect_setequal(names(regatta:::globals_of(list(there))$variables), c("sd", "pi", "letters"))
  in_workspace(rg_far <- function(x) rg_farther(x))
  in_workspace(rg_farther <- function(x) x)
  many <- c(lapply(1:6000, function(i) list(i)), list(list(get("rg_far", globalenv()))))
  first <- in_workspace(function(x) x[[6001]][[1]](1))
  sent <- names(regatta:::globals_of(list(first, many))$variables)
  expect_true(all(c("sd", "pi", "letters", "df") %in% sent) && !"rg_farther" %in% sent)
  run <- function() par_lapply(1, function(i, f) f(many), first, .on = local_pool(), .control = unseeded)
  e <- expect_error(run(), class = "regatta_error_element")
  expect_match(conditionMessage(e), "force.rg_farther")
})

test_that("methods that a package has registered may register others when they are evaluated", {
  table <- asNamespace("stats")[[".__S3MethodsTable__."]]
  others <- sprintf("print.rg_other_%d", 1:2000)
  withr::defer(rm(list = intersect(c("print.rg_promised", others), ls(table)), envir = table))
  delayedAssign("print.rg_promised", {
    for (name in others) assign(name, stats::sd, envir = table)
    stats::var
  }, assign.env = table)
  expect_length(regatta:::registered_methods(), 0L)
  taken <- regatta:::tables_take()$stats
  expect_identical(taken$print.rg_promised, stats::var)
  expect_true(all(others %in% ls(table)))
})

test_that("a table of methods is listed again when anything in it has changed, and else not", {
  table <- new.env()
  beside <- list2env(list(print.rg_beside = function(x) 0))
  known <- NULL
  take <- function() {
    tables <- list(beside = beside, home = table)
    if (is.null(known) || !.Call(regatta:::ffi_methods_hold, tables, known$held)) {
      before <- known$held$beside
      known <<- regatta:::methods_look(tables, known)
      if (!is.null(before)) expect_true(rlang::is_reference(known$held$beside, before))
    }
    as.list(known$held$home)
  }
  same <- function() {
    before <- known
    take()
    rlang::is_reference(known, before)
  }
  expect_changed <- function(change) {
    take()
    before <- known
    force(change)
    expect_false(.Call(regatta:::ffi_methods_hold, list(table), before$held["home"]))
    expect_mapequal(take(), as.list(table))
    expect_true(same())
  }
  expect_length(take(), 0L)
  expect_true(same())
  f <- function(x) 1
  g <- function(x) 1
  expect_changed(assign("print.rg_a", f, envir = table))
  expect_changed(assign("print.rg_a", g, envir = table)) # the same code, another function
  expect_changed(assign("print.rg_b", f, envir = table))
  expect_changed({
    rm("print.rg_b", envir = table)
    assign("print.rg_c", f, envir = table)
  })
  expect_changed(rm("print.rg_c", envir = table))
  expect_changed(delayedAssign("print.rg_a", f, assign.env = table))
  expect_changed(delayedAssign("print.rg_a", {
    assign("print.rg_d", g, envir = table)
    g
  }, assign.env = table))
  expect_named(take(), c("print.rg_a", "print.rg_d"), ignore.order = TRUE)
  expect_changed({
    rm("print.rg_d", envir = table)
    makeActiveBinding("print.rg_d", function() f, table)
  })
  # A function of base R is no closure.
  expect_changed(assign("print.rg_e", base::sum, envir = table))
})

# Without the text of this file, which is more than is kept.
in_workspace <- function(code) eval(parse(text = deparse(substitute(code)), keep.source = FALSE), globalenv())

test_that("what code needs is found anew when anything has changed that it depends on, and else not", {
  local_workspace()
  in_workspace({
    rg_k <- 2
    rg_env <- new.env()
    rg_env$f <- function() 1
    rg_made <- function(x) x
    rg_made.rg_class <- function(x) x
    rg_data <- 1
    rg_beside <- 3
    rg_fun <- local({
      inner <- 1
      function(i) c(rg_k, rg_env$f(), inner, rg_data(i), var(i))
    })
  })
  code <- function() list(get("rg_fun", globalenv()))
  sorted_parts <- function(found) {
    found$variables <- found$variables[order(names(found$variables))]
    found$unsent <- sort(found$unsent)
    found
  }
  expect_found <- function(change) {
    regatta:::globals_of(code())
    before <- regatta:::the$globals
    expect_false(is.null(before))
    regatta:::globals_of(code())
    expect_true(rlang::is_reference(regatta:::the$globals, before))
    force(change)
    now <- regatta:::globals_of(code())
    expect_false(rlang::is_reference(regatta:::the$globals, before), label = deparse(substitute(change))[[1L]])
    expect_identical(sorted_parts(now), sorted_parts(regatta:::globals_find(code(), NULL)))
  }
  expect_found(in_workspace(rg_k <- 3))
  expect_found(in_workspace(rg_env$f <- function() rg_beside))
  expect_found(in_workspace(rg_env$f <- function() 1))
  expect_found(in_workspace(assign("inner", function() rg_beside, environment(rg_fun))))
  expect_found(in_workspace(body(rg_fun)[[2]] <- quote(rg_beside)))
  expect_found(in_workspace(rg_data <- function(i) i)) # of a variable that was none of the code's
  expect_found(in_workspace(sd <- 1))
  expect_found(in_workspace(sd <- function(x) "mine")) # which the code does not name, and may put together
  expect_found(in_workspace(var <- function(x) "mine"))
  expect_found(in_workspace(rm(var)))
  in_workspace(df <- numeric(1e5)) # too large to be sent for nothing, and then small
  expect_found(in_workspace(df <- 1))
  expect_found(in_workspace(df <- numeric(1e5)))
  expect_found(in_workspace(rm(df)))
  expect_found(in_workspace(rg_made <- function(x) UseMethod("rg_made")))
  expect_found(in_workspace({
    rm(rg_beside)
    makeActiveBinding("rg_beside", function() 4, globalenv())
  }))
  in_workspace({
    rm(rg_beside)
    rg_beside <- 3
  })
  expect_found(in_workspace(delayedAssign("rg_late", 1, globalenv(), globalenv())))
  table <- get(".__S3MethodsTable__.", baseenv())
  withr::defer(rm("format.rg_kept", envir = table))
  expect_found(registerS3method("format", "rg_kept", in_workspace(function(x, ...) "")))
  withr::defer(detach("package:splines"))
  expect_found(library(splines))
  # Not kept: attached variables, active bindings that are used, and much.
  is_kept <- function() {
    regatta:::globals_of(code())
    !is.null(regatta:::the$globals)
  }
  expect_true(is_kept())
  attach(list(rg_attached = 1), name = "rg_list")
  expect_false(is_kept())
  detach("rg_list")
  expect_true(is_kept())
  last <- geterrmessage()
  in_workspace(rg_beside <- numeric(1e5))
  expect_false(is_kept())
  expect_identical(geterrmessage(), last)
  in_workspace({
    rm(rg_beside)
    makeActiveBinding("rg_beside", function() 4, globalenv())
  })
  expect_false(is_kept())
  in_workspace(rg_fun <- function(i) i)
  expect_true(is_kept())
  # A string names a variable where that is a function.
  naming <- list(in_workspace(function(i) sapply(i, "rg_named")))
  in_workspace(rg_named <- 1)
  expect_false("rg_named" %in% names(regatta:::globals_of(naming)$variables))
  expect_false(is.null(regatta:::the$globals))
  in_workspace(rg_named <- function(i) i)
  expect_true("rg_named" %in% names(regatta:::globals_of(naming)$variables))
  in_workspace(setClass("RgKept", representation(x = "numeric")))
  expect_true(".__C__RgKept" %in% names(regatta:::globals_of(code())$variables))
})

test_that("what has been found for code is not taken for the same code around which an argument is not evaluated yet", {
  local_workspace()
  cluster <- cluster_local(2L)
  withr::defer(parallel::stopCluster(cluster))
  # df is a function of R's, too, and large enough not to be sent for nothing; rg_k is small.
  assign("df", data.frame(x = numeric(20000)), globalenv())
  assign("rg_k", 3, globalenv())
  assign("rg_same", in_workspace(function(x) x), globalenv())
  maps <- in_workspace(list(
    call = function(apply) (function(d) apply(1:2, function(i) NROW(d) * i))(rg_same(df)),
    name = function(apply) (function(d) apply(1:2, function(i) NROW(d) * i))(df),
    arithmetic = function(apply) (function(v) apply(1:2, function(i) v * i))(rg_k + 1),
    factory = function(apply) apply(1:2, (function(d) function(i) NROW(d) * i)(df)),
    dots = function(apply) apply(1:2, (function(...) function(i) NROW(..1) * i)(df)),
    default = function(apply) (function(x, y = x * rg_k) apply(1:2, function(i) y * i))(2)
  ))
  assign("rg_cluster", cluster, globalenv())
  here <- in_workspace(function(X, FUN) par_sapply(X, FUN, .on = rg_cluster, .control = par_control(seed = FALSE)))
  for (name in names(maps)) {
    for (call in 1:4) expect_identical(maps[[name]](here), maps[[name]](sapply), label = paste(name, call))
  }
})

test_that("an argument that stays code reaches workers with what it needs, whatever it is that names it", {
  local_workspace()
  cluster <- cluster_local(2L)
  withr::defer(parallel::stopCluster(cluster))
  assign("df", data.frame(x = numeric(20000)), globalenv())
  maps <- eval(quote(list(
    quoted = function(apply, d) {
      code <- quote(NROW(d))
      apply(1:2, function(i) eval(code))
    },
    string = function(apply, d) {
      name <- "d"
      apply(1:2, function(i) NROW(get(name)))
    },
    field = function(apply, d) {
      here <- environment()
      apply(1:2, function(i) NROW(here$d))
    },
    method = function(apply, d) {
      print.rg_own <- function(x, ...) NROW(d)
      apply(1:2, function(i) print(structure(i, class = "rg_own")))
    },
    free = function(apply, d) {
      force(d) # `df` is not sent for its code
      print.rg_own <- function(x, ...) NROW(df)
      apply(1:2, function(i) print(structure(i, class = "rg_own")))
    },
    generic = function(apply, d) {
      rg_size <- function(x) UseMethod("rg_size")
      rg_size.default <- function(x) NROW(d)
      apply(1:2, function(i) rg_size(i))
    },
    element = function(apply, d) apply(list(quote(NROW(d))), function(code) eval(code, parent.env(environment()))),
    dots = function(apply, ...) {
      text <- "NROW(..1)"
      apply(1:2, function(i) eval(parse(text = text)))
    },
    local = function(apply, d) {
      force(d)
      apply(list((function(own) y ~ own())(function() NROW(df))), function(f) eval(f[[3L]], environment(f)))
    },
    formula = function(apply, d) apply(list((function(w) y ~ w)(d)), function(f) NROW(eval(f[[3L]], environment(f)))),
    argument = function(apply, d) apply(1:2, function(i, f) NROW(environment(f)$w), f = (function(w) y ~ w)(d))
  )), globalenv())
  here <- function(X, FUN, ...) par_sapply(X, FUN, ..., .on = cluster, .control = par_control(seed = FALSE))
  for (name in names(maps)) {
    found <- eval(quote(function(map, apply) map(apply, df)), globalenv())(maps[[name]], here)
    expect_identical(found, rep(20000L, length(found)), label = name)
  }
})

test_that("an environment that is around code, and is a value too, is looked into as both", {
  local_workspace()
  cluster <- cluster_local(1L)
  withr::defer(parallel::stopCluster(cluster))
  eval(quote({
    rg_x <- 5
    rg_object <- new.env()
    rg_object$use <- function() rg_x
    rg_map <- evalq(function(i, self) self$use(), rg_object)
  }), globalenv())
  workspace <- globalenv()
  control <- par_control(seed = FALSE)
  expect_identical(par_sapply(1, workspace$rg_map, workspace$rg_object, .on = cluster, .control = control), 5)
  held <- list(self = workspace$rg_object)
  expect_identical(par_sapply(1, workspace$rg_map, held$self, .on = cluster, .control = control), 5)
})

test_that("the workspace as an object is sent, and what code takes from it", {
  local_workspace()
  cluster <- cluster_local(1L)
  withr::defer(parallel::stopCluster(cluster))
  eval(quote({
    rg_env <- globalenv()
    rg_list <- list(env = globalenv())
    rg_formula <- y ~ x
    rg_x <- 5
    rg_maps <- list(
      function(i) rg_env$rg_x, function(i) rg_list$env$rg_x, function(i) get("rg_x", envir = rg_env),
      function(i) attr(rg_formula, ".Environment")$rg_x
    )
    rg_held <- (function(e) {
      force(e)
      function(i) e$rg_x
    })(globalenv())
    rg_given <- function(e) e$rg_x
  }), globalenv())
  here <- function(...) par_sapply(..., .on = cluster, .control = par_control(seed = FALSE))
  workspace <- globalenv()
  for (map in c(workspace$rg_maps, workspace$rg_held)) expect_identical(here(1, map), 5, label = deparse1(body(map)))
  expect_identical(here(list(globalenv()), workspace$rg_given), 5)
  expect_identical(here(1, eval(quote(function(i, e) e$rg_x), globalenv()), e = globalenv()), 5)
})

test_that("methods that were registered in the session are registered in a worker for the time of a call", {
  local_workspace()
  in_workspace(rg_word <- function() "mine")
  registerS3method("format", "rg_sent", in_workspace(function(x, ...) rg_word()))
  withr::defer(rm("format.rg_sent", envir = get(".__S3MethodsTable__.", baseenv())))
  there <- in_workspace(function(i) format(structure(i, class = "rg_sent")))
  pool <- local_pool(1L)
  expect_identical(par_lapply(1:2, there, .on = pool, .control = unseeded), list("mine", "mine"))
  left <- in_workspace(function(i) exists("format.rg_sent", envir = get(".__S3MethodsTable__.", baseenv())))
  rm("format.rg_sent", envir = get(".__S3MethodsTable__.", baseenv()))
  withr::defer(registerS3method("format", "rg_sent", function(x, ...) "")) # the handler above removes it
  expect_identical(par_lapply(1, left, .on = pool, .control = unseeded), list(FALSE))
})

test_that("a class of R6 brings the one that it inherits from", {
  skip_if_not_installed("R6")
  local_workspace()
  in_workspace({
    RgBase <- R6::R6Class("RgBase", public = list(n = 1))
    RgDerived <- R6::R6Class("RgDerived", inherit = RgBase)
  })
  there <- in_workspace(function(i) RgDerived$new()$n)
  expect_setequal(names(regatta:::globals_of(list(there))$variables), c("RgBase", "RgDerived"))
})

test_that("active bindings are sent as what they are, and nothing calls them before an element does", {
  local_workspace()
  in_workspace({
    rg_radius <- 1
    makeActiveBinding("rg_area", function() rg_radius^2, globalenv())
    makeActiveBinding("rg_limit", function(x) if (missing(x)) stop("called") else stop("read-only"), globalenv())
    makeActiveBinding("sd", function() stop("called"), globalenv())
  })
  there <- in_workspace(function(i) {
    rg_radius <<- i
    c(rg_area, tryCatch({ rg_limit <<- i; 0 }, error = function(e) nchar(conditionMessage(e))))
  })
  pool <- local_pool(1L)
  # What stands there, active or not, is there again after the run.
  parallel::clusterEvalQ(pool, {
    rg_area <- "mine"
    makeActiveBinding("rg_radius", function(x) if (missing(x)) "called" else stop("assigned"), globalenv())
  })
  expect_identical(par_lapply(1:3, there, .on = pool, .control = unseeded), list(c(1, 9), c(4, 9), c(9, 9)))
  expect_identical(parallel::clusterEvalQ(pool, list(rg_area, rg_radius))[[1L]], list("mine", "called"))
})

test_that("where code looks variables up by name all names and strings in it may be theirs", {
  local_workspace()
  in_workspace({
    rg_far <- 10
    rg_deep <- "rg_far"
  })
  sent <- function(f, ...) {
    names(regatta:::globals_of(regatta:::code_of(list(FUN = f, X = 1, args = list(...))))$variables)
  }
  in_workspace(rg_asks <- list(
    function(i) globalenv()$rg_far, function(i) .GlobalEnv[["rg_far"]], function(i) as.list(globalenv())$rg_far,
    function(i) environment(sys.function())$rg_far, function(i) eval(quote(rg_far)),
    function(i) { n <- "rg_far"; get0(n, ifnotfound = 1) }, function(i) { n <- "rg_far"; if (exists(n)) get(n) },
    function(i) { n <- c("rg_far", "no"); mget(n, envir = globalenv(), ifnotfound = list(1)) },
    function(i) get0(get0("rg_deep"))
  ))
  asks <- get("rg_asks", globalenv())
  for (f in asks) expect_true("rg_far" %in% sent(f), label = deparse(body(f)))
  expect_identical(
    par_lapply(1:9, function(i, asks) asks[[i]](1), asks = asks, .on = local_pool(), .control = unseeded),
    lapply(1:9, function(i) asks[[i]](1))
  )
  # Names that are data of the call count as well; where nothing is looked up an element of a list is one of a list.
  looks <- in_workspace(function(n) get0(n))
  expect_identical(par_lapply("rg_far", looks, .on = local_pool(), .control = unseeded), list(10))
  expect_identical(sent(in_workspace(function(i) i$rg_far + i[["rg_far"]])), NULL)
})

test_that("what code names by rlang's `.env` is a variable, in functions and in quosures", {
  local_workspace()
  in_workspace({
    rg_env <- 7
    # As a verb of a package, into which nobody looks: no name in it says that it evaluates code.
    rg_verb <- function(code) getExportedValue("rlang", paste0("eval_", "tidy"))(rlang::enquo(code), list(rg_n = 2))
    rg_takes <- function(code) getExportedValue("rlang", paste0("eval_", "tidy"))(code, list(rg_n = 2))
    rg_uses <- list(
      function(i) rg_verb(rg_n * .env$rg_env), function(i) rg_verb(rg_n * .env[["rg_env"]]),
      function(i) rg_verb(.data$rg_n * .env$`rg_env`), function(i) rg_takes(rlang::quo(rg_n * .env$rg_env))
    )
  })
  pool <- local_pool()
  expected <- list(14)
  for (f in get("rg_uses", globalenv())) {
    expect_identical(par_lapply(1, f, .on = pool, .control = unseeded), expected, label = deparse1(body(f)))
  }
  takes <- get("rg_takes", globalenv())
  given <- in_workspace(function(i, code) rg_takes(code))
  for (code in c(quote(rg_n * .env$rg_env), quote(rg_n * .env[["rg_env"]]))) {
    code <- rlang::new_quosure(code, globalenv())
    expect_identical(par_lapply(list(code), takes, .on = pool, .control = unseeded), expected, label = deparse1(code))
    expect_identical(par_lapply(1, given, code, .on = pool, .control = unseeded), expected, label = deparse1(code))
  }
})

test_that("an interrupt while methods are looked at leaves no half-evaluated promise of a package behind", {
  skip_unless_linux()
  table <- new.env()
  told <- FALSE
  slow <- function() {
    if (!told) tools::pskill(Sys.getpid(), tools::SIGINT)
    told <<- TRUE
    for (k in 1:1e5) sqrt(k) # R hears of it here; Sys.sleep() takes interrupts that are suspended
    identity
  }
  delayedAssign("print.rg_slow", slow(), assign.env = table)
  got <- suspendInterrupts(tryCatch(
    {
      suppressWarnings(allowInterrupts({
        regatta:::methods_held(table)
        for (k in 1:6000) Sys.sleep(0.01) # another thread may have been given the signal, and come late
      }))
      "done"
    },
    interrupt = function(e) "interrupted"
  ))
  expect_identical(got, "interrupted")
  expect_silent(found <- regatta:::methods_held(table))
  expect_identical(found, pairlist(print.rg_slow = identity))
})

test_that("a name with two dots before it, as data.table has them, is a use of the variable", {
  local_workspace()
  in_workspace({
    rg_columns <- c("b", "c")
    rg_dotted <- function(x) eval(as.name(sub("^[.][.]", "", deparse(substitute(x)))), parent.frame())
  })
  sent <- function(f) names(regatta:::globals_of(list(f))$variables)
  expect_setequal(sent(in_workspace(function(i) rg_dotted(..rg_columns))), c("rg_columns", "rg_dotted"))
  expect_identical(sent(in_workspace(function(i, ...) i[, ..rg_columns])), "rg_columns")
  expect_identical(sent(in_workspace(function(i, ...) c(..1, ...elt(2), ...length(), ..))), NULL)
  # One of a package that is attached, which a worker attaches.
  withr::local_package("tools")
  expect_identical(regatta:::globals_of(list(in_workspace(function(i) i[, ..toTitleCase])))$packages, "tools")
  there <- in_workspace(function(i) rg_dotted(..rg_columns)[[i]])
  expect_identical(par_lapply(1:2, there, .on = local_pool(), .control = unseeded), list("b", "c"))
})

test_that("what stands in code as a value is looked into", {
  local_workspace()
  in_workspace({
    rg_k <- 2
    rg_uses <- function(i) rg_k + i
    rg_formula <- local({
      rg_inner <- function() rg_k
      y ~ rg_inner()
    })
  })
  uses <- get("rg_uses", globalenv())
  expect_used <- function(code) {
    in_body <- as.function(c(alist(i = ), code), globalenv())
    in_default <- as.function(c(list(i = code), quote(i)), globalenv())
    for (fun in list(in_body, in_default)) {
      expect_identical(names(regatta:::globals_of(list(fun))$variables), "rg_k")
    }
    expect_identical(names(regatta:::globals_of(list(code))$variables), "rg_k")
  }
  expect_used(bquote(.(uses)(i)))
  expect_used(bquote(.(in_workspace(function() rg_k))()))
  expect_used(bquote(sapply(1, .(uses))))
  expect_used(bquote({ g <- function(x, f = .(uses)) f(x); g(i) }))
  expect_used(bquote(.(list(a = uses))$a(i)))
  expect_used(bquote(.(list2env(list(a = uses)))$a(i)))
  expect_used(bquote(eval(.(get("rg_formula", globalenv()))[[2]])))
  held <- as.call(list(uses, 1))
  expect_used(bquote(eval(.(list2env(list(a = held)))$a)))
  expect_used(bquote(eval(.(structure(list(held), class = "rg_held"))[[1]])))
  there <- in_workspace(eval(bquote(function(i) tryCatch(.(rg_uses)(i), error = function(e) NA))))
  expect_identical(par_lapply(1:2, there, .on = local_pool(), .control = unseeded), list(3, 4))
})

end_servers()

test_that("what stands in braces in a string is code that may use variables", {
  local_workspace()
  in_workspace({
    rg_k <- 2
    rg_twice <- function(x) 2 * x
    rg_other <- 1
  })
  found <- function(FUN) {
    environment(FUN) <- globalenv()
    sort(as.character(names(regatta:::globals_of(list(FUN))$variables)))
  }
  expect_identical(found(function(i) glue::glue("{i} of {rg_k}")), "rg_k")
  expect_identical(found(function(i) glue::glue("no {", "a {rg_twice(i):.2f} or {rg_twice(i)}: rg_other")), "rg_twice")
  expect_identical(found(function(i) c("{rg_k)}", "\xff{rg_twice} {rg_k}", "{}", "\u00e9 {\u00e9}", NA)), c("rg_k", "rg_twice"))
  long <- paste(c(rep("a", 1e4), "{rg_k}"), collapse = " ")
  expect_identical(found(rlang::new_function(alist(i = ), long)), "rg_k")
})

test_that("an object that stands in code as it is keeps its attributes", {
  held <- structure(new.env(), class = "rg_held")
  f <- eval(bquote(function(i) class(.(held))))
  expect_length(regatta:::globals_of(list(f))$variables, 0L)
  expect_s3_class(held, "rg_held")
})

test_that("code of an environment from which nothing of R is found is code as any other", {
  formula <- y ~ x
  f <- function(i) 1
  environment(formula) <- environment(f) <- emptyenv()
  found <- regatta:::globals_of(list(f, formula, datasets::CO2))
  expect_length(found$variables, 0L)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
