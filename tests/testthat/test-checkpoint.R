# Maps that go on where an earlier call has stopped.
detritus <- detritus_snapshot()

# Functions that are sent to other sessions and hold nothing of this file. Each call of an element leaves a line
# outside of all that is tested.
counted <- function(i, runs) {
  cat(sprintf("%d\n", as.integer(i)), file = runs, append = TRUE)
  c(i, runif(1))
}
environment(counted) <- globalenv()
runs_of <- function(path) if (file.exists(path)) as.integer(readLines(path)) else integer()

going <- function(dir, ..., seed = 1L) two_workers(checkpoint = dir, seed = seed, ...)
folder <- function(env = parent.frame()) file.path(withr::local_tempdir("log-", .local_envir = env), "run")
log_path <- function(dir) file.path(dir, "regatta.log")
# What the code of a test defines in the workspace goes with it.
local_workspace <- function(env = parent.frame()) {
  before <- regatta:::workspace_take()
  withr::defer(regatta:::workspace_reset(before, character()), envir = env)
}
quiet <- function(code) suppressMessages(code, "regatta_message_checkpoint")

test_that("a call that is made again gives the same values and runs nothing; what failed runs again", {
  dir <- folder()
  runs <- withr::local_tempfile()
  X <- c(a = 1, b = 2, c = 3, d = 4)
  expected <- par_lapply(X, counted, runs = runs, .control = two_workers(seed = 7L))
  unlink(runs)
  fails <- function(i, runs) {
    value <- counted(i, runs)
    if (i == 3 && !file.exists(paste0(runs, ".mended"))) stop("on purpose")
    value
  }
  expect_error(
    par_lapply(X, fails, runs = runs, .control = going(dir, seed = 7L, errors = "finish")), "on purpose"
  )
  expect_identical(sort(runs_of(runs)), 1:4)
  withr::local_file(paste0(runs, ".mended"), file.create(paste0(runs, ".mended")))
  expect_message(
    got <- par_lapply(X, fails, runs = runs, .control = going(dir, seed = 7L)),
    "3 of 4 elements are done", class = "regatta_message_checkpoint"
  )
  expect_identical(got, expected)
  expect_identical(sort(runs_of(runs)), c(1:3, 3L, 4L))
  expect_message(got <- par_sapply(X, fails, runs = runs, .control = going(dir, seed = 7L)), "4 of 4 elements")
  expect_identical(got, simplify2array(expected))
  expect_length(runs_of(runs), 5L)
  expect_identical(as.character(par_last()$elements$status), rep("done", 4L))
  expect_output(print(par_last()), "par_sapply")
  expect_no_error(format(summary(par_last())))

  log <- par_log(dir)
  expect_identical(log$index[order(log$index)], c(1, 2, 3, 4))
  expect_identical(log$name[order(log$index)], names(X))
  expect_true(all(log$bytes > 0 & log$seconds >= 0 & log$try == 1 & log$warnings == 0))
  expect_s3_class(log$when, "POSIXct")
  expect_identical(attr(log, "damaged"), 0)

  # More elements, and those that have moved with their content where the seed does not count.
  expect_message(par_lapply(c(X, 5), fails, runs = runs, .control = going(dir, seed = 7L)), "4 of 5 elements")
  free <- folder()
  par_lapply(1:3, function(i) i, .control = going(free, seed = FALSE))
  expect_message(got <- par_lapply(c(9L, 3:1), function(i) i, .control = going(free, seed = FALSE)), "3 of 4 elements")
  expect_identical(got, list(9L, 3L, 2L, 1L))
})

test_that("the streams of the session's generator go on from those of the first call", {
  withr::local_preserve_seed()
  draw <- function(i) {
    if (i == 2 && !file.exists(mended)) stop("on purpose")
    runif(2)
  }
  mended <- withr::local_tempfile()
  dir <- folder()
  set.seed(1)
  expect_error(par_lapply(1:4, draw, .control = going(dir, seed = TRUE, errors = "finish")))
  file.create(mended)
  set.seed(2) # as in a session that begins
  got <- quiet(par_lapply(1:4, draw, .control = going(dir, seed = TRUE)))
  set.seed(1)
  expect_identical(got, par_lapply(1:4, draw, .control = two_workers(seed = TRUE)))
  # What is drawn after the call does not depend on how much of it was done before.
  after <- runif(1)
  for (n in c(4, 5)) {
    set.seed(1)
    quiet(par_lapply(seq_len(n), draw, .control = going(dir, seed = TRUE)))
    expect_identical(runif(1), after)
  }
  set.seed(1)
  stream <- quiet(par_stream(1:4, draw, .control = going(dir, seed = TRUE)))
  expect_identical(par_next(stream), got[[1L]])
  expect_identical(runif(1), after)
  while (par_more(stream)) par_next(stream)
  expect_error(par_lapply(1:4, draw, .control = going(dir, seed = 3L)), "the seed has changed")
  local({
    numbered <- folder()
    first <- par_lapply(1:4, draw, .control = going(numbered, seed = 3L))
    local_rng("Wichmann-Hill")
    for (control in list(going(numbered, seed = 3L), going(dir, seed = TRUE))) {
      expect_error(par_lapply(1:4, draw, .control = control), "the setting `RNGkind` has changed")
    }
  })
})

test_that("values come back as they were: names, NULL, NA, objects, shared and large ones", {
  dir <- folder()
  Thing <- methods::setClass("CheckpointThing", representation(x = "numeric"), where = globalenv())
  withr::defer(methods::removeClass("CheckpointThing", where = globalenv()))
  make <- list(
    null = function() NULL, na = function() NA_character_, names = function() c(a = 1, b = NA),
    s4 = function() methods::new("CheckpointThing", x = 1:3 / 7),
    frame = function() data.frame(x = 1:3, y = letters[1:3]),
    large = function() seq_len(4e5) / 3, shared = function() as.character(1:1e4), f = function() quote(a + b)
  )
  expected <- lapply(make, function(f) f())
  control <- going(dir)
  first <- par_lapply(make, function(f) f(), .control = control)
  expect_identical(first, expected)
  expect_length(list.files(dir, "[.]value$"), 1L)
  expect_message(again <- par_lapply(make, function(f) f(), .control = control), "8 of 8")
  expect_identical(again, expected)
  rm(first, again)

  # A file of a value that is damaged costs this value.
  path <- list.files(dir, "[.]value$", full.names = TRUE)
  bytes <- readBin(path, "raw", 5e6)
  bytes[[2e6]] <- xor(bytes[[2e6]], as.raw(16L))
  writeBin(bytes, path)
  messages <- testthat::capture_messages(again <- par_lapply(make, function(f) f(), .control = control))
  expect_match(messages, "damaged, those of 6", all = FALSE)
  expect_identical(again, expected)
  unlink(path)
  expect_identical(quiet(par_lapply(make, function(f) f(), .control = control)), expected)
})

test_that("warnings belong to a value and are given again; messages and output are not", {
  dir <- folder()
  talk <- function(i) {
    message("m", i)
    cat("o", i, "\n")
    for (k in seq_len(i)) warning("w", k)
    i
  }
  said <- function(control) {
    told <- character()
    out <- utils::capture.output(
      withCallingHandlers(
        value <- par_lapply(1:3, talk, .control = control),
        warning = function(w) {
          told <<- c(told, conditionMessage(w))
          invokeRestart("muffleWarning")
        },
        message = function(m) {
          if (!inherits(m, "regatta_message_checkpoint")) told <<- c(told, conditionMessage(m))
          invokeRestart("muffleMessage")
        }
      )
    )
    list(value = value, told = sort(told), out = sort(out))
  }
  first <- said(going(dir, max_conditions = 2L))
  expect_length(first$out, 3L)
  again <- said(going(dir, max_conditions = 2L))
  expect_identical(again$value, first$value)
  expect_identical(again$told, grep("^[0-9]: m", first$told, invert = TRUE, value = TRUE))
  expect_length(again$told, 6L)
  expect_identical(again$out, character())
  log <- par_log(dir)
  expect_identical(log$warnings[order(log$index)], c(1, 2, 3))
})

test_that("warnings that a call drops are kept, and those that were too many are counted as they were", {
  dir <- folder()
  talk <- function(i) for (k in 1:5) warning("w", k)
  told <- function(...) {
    control <- going(dir, workers = 1L, ...)
    suppressMessages(testthat::capture_warnings(par_lapply(1L, talk, .control = control)))
  }
  expect_identical(told(warnings = "drop", max_conditions = 2L), character())
  expected <- c("1: w1", "1: w2", "1: 3 more warnings (`max_conditions` is 2)")
  expect_identical(told(max_conditions = 4L), expected)
  expect_identical(told(warnings = "drop"), character())
  expect_identical(told(), expected)
})

test_that("a folder that is removed while a call writes to it is told of", {
  dir <- folder()
  one <- function(i, dir) {
    if (i == 2) unlink(dir, recursive = TRUE)
    i
  }
  w <- expect_warning(
    got <- par_lapply(1:3, one, dir = dir, .control = going(dir, workers = 1L)),
    "its files have been removed", class = "regatta_warning_checkpoint"
  )
  expect_identical(w$errno, 2L)
  expect_identical(got, as.list(1:3))
  stream <- par_stream(1:2, function(i) i, .control = going(folder2 <- folder(), workers = 1L))
  par_next(stream)
  wait_until(nrow(par_log(folder2)) >= 1L)
  unlink(folder2, recursive = TRUE)
  expect_warning(par_next(stream), "its files have been removed", class = "regatta_warning_checkpoint")
})

test_that("warnings that are given again name the element as it stands in the later call", {
  dir <- folder()
  warn_of <- function(X) {
    told <- character()
    control <- going(dir, seed = FALSE)
    withCallingHandlers(
      par_lapply(X, function(i) if (i == 7) warning("seven"), .control = control),
      warning = function(w) {
        told <<- c(told, conditionMessage(w))
        invokeRestart("muffleWarning")
      },
      message = function(m) invokeRestart("muffleMessage")
    )
    sort(told)
  }
  expect_identical(warn_of(c(7, 1, 7)), c("1: seven", "3: seven"))
  expect_identical(warn_of(c(1, 7, 7, 7)), c("2: seven", "3: seven", "4: seven"))
  expect_identical(warn_of(c(z = 7, y = 1)), "z: seven")
})

test_that("what has changed is noticed, named and not mixed", {
  dir <- folder()
  k <- 1
  helper <- function(i) i + k
  run <- function(FUN, ..., seed = 1L) par_lapply(1:3, FUN, ..., .control = going(dir, seed = seed))
  run(function(i, add) helper(i) + add, add = 0)
  changed <- function(code, what) {
    e <- expect_error(code, class = "regatta_error_checkpoint")
    expect_match(conditionMessage(e), what)
    expect_match(conditionMessage(e), "3 of them.*unlink")
    expect_identical(e$reason, "changed")
  }
  changed(run(function(i, add) helper(i) - add, add = 0), "the code of the function has changed")
  changed(run(function(i, add) helper(i) + add, add = 1), "its further arguments have changed")
  changed(run(function(i, add) helper(i) + add, add = 0, seed = 2L), "the seed has changed")
  k <- 2
  changed(run(function(i, add) helper(i) + add, add = 0), "the variable `helper` has changed")
  k <- 1
  expect_message(got <- run(function(i, add) helper(i) + add, add = 0), "3 of 3")
  expect_identical(got, list(2, 3, 4))
  # In what a function has got from one around it, and behind the name of a function in a string.
  around <- function(...) list(
    function(i) i * ..1, function(i) i * ...elt(1), function(i) i + ...length(), function(i) sum(i, ...)
  )
  for (k in 1:4) {
    other <- folder()
    first <- function(...) par_lapply(1:2, around(...)[[k]], .control = going(other, seed = FALSE))
    first(1)
    expect_error(first(10, 20), "the variable `...` has changed", class = "regatta_error_checkpoint", fixed = TRUE)
  }
  other <- folder()
  assign("rg_named", function(x) x, globalenv())
  withr::defer(rm("rg_named", envir = globalenv()))
  by_name <- function() par_lapply(1:2, function(i) sapply(i, "rg_named"), .control = going(other))
  by_name()
  assign("rg_named", function(x) -x, globalenv())
  expect_error(by_name(), "the variable `rg_named` has changed", class = "regatta_error_checkpoint")
  # All that was refused has left nothing locked and nothing written.
  expect_identical(nrow(par_log(dir)), 3L)
})

test_that("names that code may take from outside count, and those that are certainly its own do not", {
  local_workspace()
  in_workspace <- function(f) {
    environment(f) <- globalenv()
    f
  }
  variables <- function(f) {
    assign("rg_k", 1, globalenv())
    assign("rg_f", function(x) x + 1, globalenv())
    before <- regatta:::key_parts(in_workspace(f), list())$variables
    assign("rg_k", 100, globalenv())
    assign("rg_f", function(x) x + 100, globalenv())
    after <- regatta:::key_parts(in_workspace(f), list())$variables
    expect_identical(names(after), names(before))
    as.character(names(before)[before != after])
  }
  outside <- alist(
    local({rg_k <- rg_k * 2; rg_k}), # nolint
    sapply(1:2, function(j) {rg_k <- rg_k + j; rg_k}), # nolint
    tryCatch(stop("x"), error = function(e) {rg_k <- rg_k; rg_k}), # nolint
    (function() {if (i > 5) rg_k <- 0; rg_k})(), # nolint
    (\(i) {rg_k <- rg_k; rg_k})(1), # nolint
    {for (rg_k in rg_k) NULL; rg_k}, # nolint
    (function(q = rg_k) q)(),
    (function() {rg_k[2] <- i; sum(rg_k)})(), # nolint
    {g <- function() {rg_k <- 5; rg_k}; g() + rg_k}, # nolint
    {rg_k <- 5; rm(rg_k); rg_k}, # nolint
    {if (i == 3) assign("rg_k", 0); rg_k}, # nolint
    {rg_k <<- rg_k; rg_k}, # nolint
    {f(rg_k <- 3); rg_k}, # nolint
    {for (j in seq_len(i)) rg_k <- j; rg_k}, # nolint
    {if (i) rg_k <- 1 else if (i > 2) stop("never"); rg_k}, # nolint
    eval(quote(rg_k)), eval(bquote(rg_k + .(i))), eval(substitute(rg_k + z, list(z = i))), eval(expression(rg_k)[[1L]]),
    rlang::eval_tidy(rlang::quo(rg_k)), globalenv()$rg_k, .GlobalEnv[["rg_k"]], environment(sys.function())$rg_k,
    {n <- "rg_k"; get(n)}, mget(c("rg_k", "i"), inherits = TRUE), eval(parse(text = "rg_k + i")), # nolint
    glue::glue("value {rg_k + i}"), stats::as.formula("i ~ rg_k")
  )
  for (code in outside) expect_identical(variables(as.function(list(i = NULL, code))), "rg_k", label = deparse1(code))
  functions <- alist(
    {rg_f <- rg_f(i); rg_f}, {rg_f <- 3; rg_f(rg_f)}, (function(rg_f) rg_f(rg_f))(i), sapply(i, "rg_f"), # nolint
    sapply(i, rg_f), Reduce("rg_f", list(i)), do.call("rg_f", list(i)), i |> rg_f(), match.fun("rg_f")(i), # nolint
    (function(x, FUN = "rg_f") sapply(x, FUN))(i)
  )
  for (code in functions) {
    expect_identical(variables(as.function(list(i = NULL, code))), "rg_f", label = deparse1(code))
  }
  own <- alist(
    {rg_k <- i; rg_k}, {rg_k = i; sapply(1:3, function(j) rg_k + j)}, (function(rg_k) rg_k + 1)(i), # nolint
    {if (i > 2) rg_k <- 1 else rg_k <- 2; rg_k}, {if (i > 2) rg_k <- 1 else stop("no"); rg_k}, # nolint
    {for (rg_k in 1:3) print(rg_k); i}, {if ((rg_k <- i) > 3) rg_k}, i$rg_k, base::rg_k, # nolint
    {rg_f <- function(n) if (n == 0) 1 else rg_f(n - 1); rg_f(3)}, {g <- function(rg_f) rg_f; g(i)}, # nolint
    {sum(rg_k <- i); rg_k}, {rg_k <- numeric(3); rg_k[[2]] <- i; names(rg_k) <- letters[1:3]; rg_k} # nolint
  )
  for (code in own) expect_identical(variables(as.function(list(i = NULL, code))), character(), label = deparse1(code))

  # Code and names that are given to the function.
  given <- list(
    quote(rg_k + 1), quote(rg_f(1)), expression(rg_k), "rg_f", list("rg_f", 1), y ~ rg_k, as.name("rg_k"),
    list(quote(rg_k), 1)
  )
  keys <- function() vapply(given, regatta:::key_given, "", regatta:::key_context(identity))
  assign("rg_k", 1, globalenv())
  environment(given[[6L]]) <- globalenv()
  before <- keys()
  expect_identical(keys(), before)
  assign("rg_k", 2, globalenv())
  assign("rg_f", identity, globalenv())
  expect_identical(which(keys() == before), integer())
  # Arguments that are empty, and code that is a variable.
  expect_no_error(regatta:::key_parts(`[`, list(quote(expr = ), 1)))
  assign("rg_code", quote(rg_k + 1), globalenv())
  expect_identical(variables(function(i) eval(rg_code)), "rg_k")
})

test_that("a word in data that is the name of a variable counts, wherever it stands", {
  local_workspace()
  in_workspace <- function(code) eval(code, globalenv())
  withr::local_options(contrasts = getOption("contrasts"))
  # list(what there is, the function, what changes, how the change is called)
  f1 <- quote(rg_f1 <- function(x) x)
  f2 <- quote(rg_f1 <- function(x) -x)
  k1 <- quote(rg_k <- 1)
  k2 <- quote(rg_k <- 2)
  d1 <- quote(rg_d <- data.frame(y = c(1, 3, 2, 5), x = 1:4))
  d2 <- quote(rg_d <- data.frame(y = c(1, 3, 2, 6), x = 1:4))
  cases <- list(
    list(quote({rg_cfg <- "rg_f1"}), f1, function(i) do.call(rg_cfg, list(i)), f2, "rg_f1"),
    list(quote({rg_cfg <- "rg_f1"}), f1, function(i) match.fun(rg_cfg)(i), f2, "rg_f1"),
    list(quote({rg_cfg <- "rg_f1"}), f1, function(i) get(rg_cfg)(i), f2, "rg_f1"),
    list(quote({rg_cfg <- "rg_f1"}), f1, function(i) sapply(i, rg_cfg), f2, "rg_f1"),
    list(quote({rg_cfg <- "rg_f1"}), f1, function(i) eval(call(rg_cfg, i)), f2, "rg_f1"),
    list(quote(rg_grid <- data.frame(fn = "rg_f1", n = 1)), f1, function(i) get(rg_grid$fn[i])(i), f2, "rg_f1"),
    list(quote(rg_grid <- list(list(list(fn = "rg_f1")))), f1, function(i) get(rg_grid[[1]][[1]]$fn)(i), f2, "rg_f1"),
    list(quote(rg_fac <- factor("rg_f1")), f1, function(i) match.fun(as.character(rg_fac))(i), f2, "rg_f1"),
    list(quote(rg_nms <- c(rg_f1 = 1)), f1, function(i) match.fun(names(rg_nms))(i), f2, "rg_f1"),
    list(quote(rg_tab <- data.frame(rg_k = 0)), k1, function(i) get(colnames(rg_tab)) + i, k2, "rg_k"),
    list(quote(rg_tab <- rep(c(LETTERS, "rg_k"), 1e4)), k1, function(i) get(rg_tab[[27]]) + i, k2, "rg_k"),
    list(quote(rg_tab <- matrix(0, dimnames = list("rg_k", NULL))), k1, function(i) get(rownames(rg_tab)), k2, "rg_k"),
    # one leads to another
    list(quote({rg_a <- "rg_b"; rg_b <- "rg_k"}), k1, function(i) get(get(rg_a)) + i, k2, "rg_k"), # nolint
    list(d1, quote(rg_m <- lm(y ~ x, rg_d)), function(i) coef(update(rg_m, . ~ .))[[1]] + i, d2, "rg_d"),
    list(d1, quote(rg_m <- lm(y ~ x, rg_d)), function(i) add1(rg_m, ~ . + I(x^2)), d2, "rg_d"),
    list(d1, quote(rg_m <- lm(y ~ x, rg_d, model = FALSE)), function(i) nrow(model.frame(rg_m)), d2, "rg_d"),
    list(quote(rg_ms <- list(a = quote(rg_k * x))), k1, function(x) eval(rg_ms$a, list(x = x)), k2, "rg_k"),
    list(quote(rg_ms <- list(a = quote(rg_k))), k1, function(x) eval(rg_ms$a), k2, "rg_k"),
    list(quote(rg_ms <- alist(a = , b = rg_k + x)), k1, function(x) eval(rg_ms$b), k2, "rg_k"),
    list(quote(rg_ms <- expression(rg_k)), k1, function(x) sapply(rg_ms, eval), k2, "rg_k"),
    list(quote(rg_ms <- list(quote(rg_k), 2)), k1, function(x) do.call("sum", rg_ms), k2, "rg_k"),
    list(
      quote(rg_ms <- list(expr = substitute(z + x, list(z = as.name("rg_k"))))), k1, function(x) eval(rg_ms$expr), k2,
      "rg_k"
    ),
    list(
      quote(rg_gen <- function(x) UseMethod("rg_gen")),
      quote(registerS3method("rg_gen", "rg_bar", function(x) 1, envir = globalenv())),
      function(i) rg_gen(structure(i, class = "rg_bar")),
      quote(registerS3method("rg_gen", "rg_bar", function(x) 2, envir = globalenv())), "method.*rg_gen.rg_bar"
    ),
    list(
      quote(rg_gen <- function(x) UseMethod("rg_gen")), quote(rg_gen.default <- function(x) 0),
      function(i) rg_gen(structure(i, class = "rg_foo")),
      quote(registerS3method("rg_gen", "rg_foo", function(x) 2, envir = globalenv())), "method.*rg_gen.rg_foo"
    ),
    list(quote(rg_fs <- "y ~ rg_k"), k1, function(i) lm(rg_fs, data.frame(y = i)), k2, "rg_k"),
    list(k1, NULL, function(i) lm("y~rg_k", data.frame(y = i)), k2, "rg_k"),
    list(quote(rg_form <- y ~ rg_k), k1, function(i) lm(rg_form, data.frame(y = i)), k2, "rg_k"),
    list(quote(rg_cod <- "rg_k+1"), k1, function(i) eval(parse(text = rg_cod)), k2, "rg_k"),
    list(quote(assign("rg k", 1)), quote(rg_cod <- "2 * `rg k`"), function(i) eval(str2lang(rg_cod)),
      quote(assign("rg k", 2)), "rg k"),
    # `f<-`, and names that are no words
    list(quote(rg_code <- quote(rg_s(v) <- 9)), quote(`rg_s<-` <- function(x, value) value),
      function(i) { v <- i; eval(rg_code); v }, quote(`rg_s<-` <- function(x, value) -value), "rg_s<-"), # nolint
    list(quote(rg_code <- quote(rg_s(v$a) <- 9)), quote(`rg_s<-` <- function(x, value) value),
      function(i) { v <- list(a = i); eval(rg_code) }, quote(`rg_s<-` <- function(x, value) -value), "rg_s<-"), # nolint
    list(quote(rg_code <- "rg_s(v) <- 9"), quote(`rg_s<-` <- function(x, value) value),
      function(v) eval(parse(text = rg_code)), quote(`rg_s<-` <- function(x, value) -value), "rg_s<-"),
    list(quote(`%rg%` <- function(a, b) a), NULL, function(i) eval(parse(text = "1 %rg% 2")),
      quote(`%rg%` <- function(a, b) b), "%rg%"),
    list(quote(`%rg%` <- function(a, b) a), quote(rg_cfg <- "y ~ I(x %rg% x^2)"), function(i) rg_cfg,
      quote(`%rg%` <- function(a, b) b), "%rg%"),
    # functions that options name
    list(quote(rg_contr <- function(...) stats::contr.sum(...)),
      quote(options(contrasts = c("rg_contr", "contr.poly"))), function(i) i,
      quote(rg_contr <- function(...) stats::contr.treatment(...)), "rg_contr"),
    # methods that no workspace has
    list(quote(rg_area <- function() {
      area <- function(s) UseMethod("area")
      area.rg_sq <- function(s) s$r * rg_k
      format.rg_sq <- function(x, ...) "square"
      function(i) area(structure(list(r = i), class = "rg_sq"))
    }), quote({rg_k <- 1; rg_code <- rg_area()}), NULL, k2, "rg_k|area.rg_sq"), # nolint
    list(quote(rg_code <- local({
      format.rg_sq <- function(x, ...) "square"
      function(i) format(structure(i, class = "rg_sq"))
    })), NULL, NULL, quote(assign("format.rg_sq", function(x, ...) "?", environment(rg_code))), "format.rg_sq"),
    # classes and other attributes of environments
    list(quote(rg_e <- structure(new.env(), class = "rg_a")), NULL, function(i) summary(rg_e),
      quote(class(rg_e) <- "rg_b"), "rg_e"),
    list(quote(rg_e <- structure(new.env(), rate = function() rg_k)), k1, function(i) attr(rg_e, "rate")(), k2, "rg_e"),
    list(k1, NULL, function(i) eval(as.name("rg_k")), k2, "rg_k"),
    list(k1, NULL, function(i) eval(as.symbol("rg_k")), k2, "rg_k"),
    list(k1, NULL, function(i) eval(rlang::sym("rg_k")), k2, "rg_k"),
    list(k1, NULL, function(i) eval(as.call(list(as.name("sum"), as.name("rg_k"), i))), k2, "rg_k"),
    list(
      quote(rg_code <- function(i) 1), quote(body(rg_code) <- call("get", c("a", "rg_k"))), NULL, k2, "rg_k"
    ),
    # Written as others do: \xe9 is one byte.
    list(quote(assign("rg_\u00e9", 1)), quote(rg_cfg <- iconv("rg_\u00e9", "UTF-8", "latin1")), function(i) get(rg_cfg),
      quote(assign("rg_\u00e9", 2)), "rg_\u00e9"),
    list(
      quote(rg_e <- new.env(parent = list2env(list(rg_q = 1), parent = globalenv()))), quote(rg_cfg <- "rg_q"),
      function(i) get(rg_cfg, rg_e), quote(assign("rg_q", 2, parent.env(rg_e))), "rg_q"
    ),
    list(
      quote(rg_e <- new.env(parent = list2env(list(rg_q = 1), parent = globalenv()))), NULL,
      function(i) get("rg_q", rg_e), quote(assign("rg_q", 2, parent.env(rg_e))), "rg_q"
    ),
    list(
      quote(rg_code <- local({
        rg_q <- 1
        cfg <- "rg_q"
        function(i) get(cfg) + i
      })), NULL, NULL, quote(assign("rg_q", 2, environment(rg_code))), "rg_q"
    ),
    list(
      quote(attach(list(rg_in = 1), name = "rg_list")), quote(rg_cfg <- "rg_in"), function(i) get(rg_cfg),
      quote(assign("rg_in", 2, as.environment("rg_list"))), "rg_in"
    )
  )
  clean <- function() if ("rg_list" %in% search()) detach("rg_list", character.only = TRUE)
  withr::defer(clean())
  for (case in cases) {
    clean()
    rm(list = setdiff(ls(globalenv(), pattern = "^rg_", all.names = TRUE), ".Random.seed"), envir = globalenv())
    for (code in case[1:2]) in_workspace(code)
    FUN <- case[[3L]]
    label <- deparse1(case)
    if (is.null(FUN)) FUN <- get("rg_code", globalenv()) else environment(FUN) <- globalenv()
    before <- regatta:::key_parts(FUN, list())
    expect_identical(regatta:::key_parts(FUN, list()), before, label = label)
    # Names of attributes, and those in code that are certainly its own, are none.
    in_workspace(quote(rg_other <- i <- names <- levels <- code <- vector <- environment <- 1))
    expect_null(regatta:::key_changes(before, regatta:::key_parts(FUN, list())), label = label)
    in_workspace(quote(rm(rg_other, i, names, levels, code, vector, environment)))
    in_workspace(case[[4L]])
    changes <- regatta:::key_changes(before, regatta:::key_parts(FUN, list()))
    expect_match(changes, case[[5L]], all = FALSE, label = label)
  }
})

test_that("which package has a name counts, and elements go by what they name", {
  local_workspace()
  FUN <- function(i) union(i, 1)
  environment(FUN) <- globalenv()
  before <- regatta:::key_parts(FUN, list())
  withr::defer(detach("package:rgMask", character.only = TRUE))
  attach(list(union = function(x, y) 0, rg_not = 1), name = "package:rgMask", warn.conflicts = FALSE)
  expect_identical(regatta:::key_changes(before, regatta:::key_parts(FUN, list())), "the package that has `union`")

  assign("rg_f1", function(x) x, globalenv())
  assign("rg_f2", function(x) x, globalenv())
  X <- list(list(fn = "rg_f1", x = 1), list(fn = "rg_f2", x = 2), list(fn = "sqrt", x = 9))
  FUN <- function(s) do.call(s$fn, list(s$x))
  environment(FUN) <- globalenv()
  control <- going(folder(), seed = FALSE)
  expect_identical(par_sapply(X, FUN, .control = control), c(1, 2, 3))
  assign("rg_f1", function(x) -x, globalenv())
  expect_message(got <- par_sapply(X, FUN, .control = control), "2 of 3 elements")
  expect_identical(got, c(-1, 2, 3))
  # An active binding may be another environment each time.
  makeActiveBinding("rg_new", function() local(function() 1), globalenv())
  FUN <- function(i) rg_new()
  environment(FUN) <- globalenv()
  expect_identical(regatta:::key_parts(FUN, list()), regatta:::key_parts(FUN, list()))
  # An argument that is missing has a name, too.
  around <- function(rg_missing, rg_k) regatta:::key_parts(function(i) c("rg_missing", "rg_k"), list())
  expect_false(identical(around(rg_k = 1), around(rg_k = 2)))
  FUN <- function(s) do.call(s$fn, list(s$x))
  environment(FUN) <- globalenv()
  # What an environment inherits is an element's that it is in; its class is, too.
  context <- regatta:::key_context(FUN)
  around <- list2env(list(rg_v = 1), parent = globalenv())
  X <- list(list(e = new.env(parent = around)), new.env(parent = around), quote(rg_v))
  before <- vapply(X, regatta:::key_given, "", context)
  assign("rg_v", 2, around)
  expect_identical(vapply(X, regatta:::key_given, "", context) == before, c(FALSE, FALSE, TRUE))
  assign("rg_v", 1, around)
  expect_identical(vapply(X, regatta:::key_given, "", context), before)
  class(X[[2L]]) <- "rg_a"
  expect_false(identical(regatta:::key_given(X[[2L]], context), before[[2L]]))
  # Methods around an element that is a function.
  closure <- local({
    format.rg_sq <- function(x, ...) "square"
    function(i) format(structure(i, class = "rg_sq"))
  })
  before <- regatta:::key_given(closure, context)
  expect_identical(regatta:::key_given(closure, context), before)
  assign("format.rg_sq", function(x, ...) "?", environment(closure))
  expect_false(identical(regatta:::key_given(closure, context), before))
  X <- list(list(fn = "rg_f1", x = 1), list(fn = "rg_f2", x = 2), list(fn = "sqrt", x = 9))
  # An environment around one element is none of another.
  context <- regatta:::key_context(FUN)
  closure <- local({
    rg_f2 <- 1
    function() "rg_f2"
  })
  key <- regatta:::key_given(X[[2L]], context)
  regatta:::key_given(closure, context)
  expect_identical(regatta:::key_given(X[[2L]], context), key)
  expect_identical(regatta:::key_given(X[[2L]], regatta:::key_context(FUN)), key)
})

test_that("words are found in strings alone, and as a whole", {
  names <- c("rg_k", "z", "names", "a.b", "rg k", "\u00e9")
  words <- function(x) {
    slots <- .Call(regatta:::ffi_encode_table, names)
    stream <- serialize(x, NULL, xdr = FALSE, version = 2L)
    names[.Call(regatta:::ffi_encode_words, list(stream), names, slots, 10L, match("rg k", names))]
  }
  expect_identical(words(c("2 * rg_k+1", NA, "")), "rg_k")
  expect_identical(words("z"), "z")
  expect_identical(words(list(c("x", "(z)"), structure(1, names = "a.b"))), c("z", "a.b"))
  expect_identical(words(c("rg_k1", "xrg_k", "z2 2z 0z", "a.b.c")), character())
  expect_identical(words("2*`rg k`"), "rg k")
  expect_identical(words("rg k"), "rg k")
  expect_identical(words(iconv("1+\u00e9", "UTF-8", "latin1")), "\u00e9")
  expect_identical(words(c(rg = 1)), character())
  expect_identical(words(list(1:3e5 + 0L, (1:3e5) / 7, as.raw(0:255), quote(z), quote(names))), character())
  expect_identical(.Call(regatta:::ffi_encode_words, list(raw(100)), character(), integer(), 0L, integer()), integer())
})

test_that("names that are not ASCII are names as others are", {
  skip_if_not(l10n_info()[["UTF-8"]], "no UTF-8 here")
  local_workspace()
  eval(parse(text = "`gr\u00f6\u00dfe` <- 1; FUN <- function(i) `gr\u00f6\u00dfe` + i"), globalenv())
  control <- going(folder())
  expect_identical(par_lapply(1:2, globalenv()$FUN, .control = control), list(2, 3))
  expect_identical(quiet(par_lapply(1:2, globalenv()$FUN, .control = control)), list(2, 3))
  eval(parse(text = "`gr\u00f6\u00dfe` <- 2"), globalenv())
  expect_error(par_lapply(1:2, globalenv()$FUN, .control = control), "variable `gr\u00f6\u00dfe` has changed")
})

test_that("what a class inherits from, a memoised function calls and an environment has around it counts", {
  local_workspace()
  skip_if_not_installed("R6")
  define <- function(name, value) assign(name, eval(value, globalenv()), globalenv())
  key <- function(f) {
    environment(f) <- globalenv()
    regatta:::key_parts(f, list())$variables
  }
  changed <- function(f, change) {
    before <- key(f)
    expect_identical(key(f), before)
    change()
    after <- key(f)
    as.character(names(before)[before != after])
  }
  define("RgBase", quote(getExportedValue("R6", "R6Class")("RgBase", public = list(m = function() 1))))
  define("RgMore", quote(getExportedValue("R6", "R6Class")("RgMore", inherit = RgBase)))
  expect_identical(changed(function(i) RgMore$new()$m(), function() {
    define("RgBase", quote(getExportedValue("R6", "R6Class")("RgBase", public = list(m = function() 2))))
  }), "RgBase")
  make <- function(k) {
    inner <- new.env()
    inner$f <- 1
    inner
  }
  define("rg_env", make(1))
  expect_identical(changed(function(i) eval(quote(k + f), rg_env), function() define("rg_env", make(2))), "k")
  # Nothing evaluates code in it.
  expect_identical(changed(function(i) rg_env$f + 1, function() define("rg_env", make(3))), character())
  skip_if_not_installed("memoise")
  define("rg_memo", quote(getExportedValue("memoise", "memoise")(function(x) x + 1)))
  expect_identical(changed(function(i) rg_memo(i), function() get("rg_memo", globalenv())(3)), character())
  expect_identical(changed(function(i) rg_memo(i), function() {
    define("rg_memo", quote(getExportedValue("memoise", "memoise")(function(x) x + 2)))
  }), "rg_memo")
})

test_that("lists, code and chains of functions of any depth have keys", {
  key <- regatta:::key_of
  nest <- function(x, n) {
    for (k in seq_len(n)) x <- list(x)
    x
  }
  first <- key(nest(1, 5000))
  expect_identical(key(nest(1, 5000)), first)
  expect_false(key(nest(2, 5000)) == first)
  expect_false(key(nest(1, 4999)) == first)
  marked <- function(x, n, make) {
    for (k in seq_len(n)) x <- make(x)
    x
  }
  for (make in list(function(x) structure(1, a = x), function(x) structure(quote(f(i)), a = x))) {
    first <- key(marked(1, 3000, make))
    expect_identical(key(marked(1, 3000, make)), first)
    expect_false(key(marked(2, 3000, make)) == first)
  }
  # Where a function in an attribute of code was written does not matter.
  written <- function(text) structure(quote(f(i)), a = eval(parse(text = text, keep.source = TRUE), globalenv()))
  expect_identical(key(written("function(x) x")), key(written("function(x)   x")))
  frame <- new.env(parent = globalenv())
  chain <- function(last) {
    for (k in 1:300) {
      assign(paste0("f", k), as.function(list(i = NULL, call(paste0("f", k + 1), quote(i))), frame), frame)
    }
    frame$f301 <- as.function(list(i = NULL, last), frame)
    key(frame$f1)
  }
  expect_false(chain(1) == chain(2))
  long <- function(last) {
    sum <- Reduce(function(a, b) call("+", a, b), c(last, rep(list(quote(i)), 3000)))
    as.function(list(i = NULL, sum), globalenv())
  }
  expect_false(key(long(1)) == key(long(2)))
  local_workspace()
  assign("rg_k", 1, globalenv())
  before <- key(long(quote(rg_k)))
  assign("rg_k", 2, globalenv())
  expect_false(key(long(quote(rg_k))) == before)
  # Functions and formulas that lead to themselves.
  form <- y ~ form
  expect_type(key(form), "character")
  # One that is held twice is one.
  two <- list(chain, chain)
  expect_identical(key(unserialize(serialize(two, NULL))), key(two))
  # An environment of a package is told of by its name.
  expect_silent(key(list(as.environment("package:stats"))))
})

test_that("keys do not depend on how R holds a value", {
  key <- regatta:::key_of
  parts <- regatta:::key_parts
  expect_identical(key(1:10), key(c(1L, 2:9, 10L)))
  expect_identical(key(shm_share(1:1e5 + 0, min = 0)), key(1:1e5 + 0))
  expect_false(key(1:10) == key(c(1, 2:9, 10)))
  text <- "function(x, n = {2}) { g <- function(y) { y + n }; g(x) }"
  plain <- eval(parse(text = text, keep.source = FALSE))
  marked <- eval(parse(text = paste0("\n\n ", text), keep.source = TRUE))
  expect_identical(key(plain), key(marked))
  expect_identical(parts(plain, list()), parts(marked, list()))
  compiled <- compiler::cmpfun(plain)
  expect_identical(key(compiled), key(marked))
  expect_identical(key(list(f = plain)), key(list(f = compiled)))
  one <- list2env(list(a = 1, b = 2), new.env(hash = TRUE))
  two <- new.env(hash = FALSE)
  two$b <- 2
  two$a <- 1
  expect_identical(key(one), key(two))
  one$self <- one
  two$self <- two
  expect_identical(key(list(one, 1)), key(list(two, 1)))
  two$a <- 3
  expect_false(key(one) == key(two))
  make <- function(x) function(i) i + x
  expect_identical(parts(make(5), list()), parts(make(2 + 3), list()))
  expect_false(identical(parts(make(5), list()), parts(make(6), list())))
  dots <- function(...) function(i) sum(i, ...)
  expect_false(identical(parts(dots(5), list()), parts(dots(6), list())))
  # Functions that call each other.
  even <- function(n) if (n == 0) TRUE else odd(n - 1)
  odd <- function(n) if (n == 0) FALSE else even(n - 1)
  before <- key(even)
  odd <- function(n) if (n == 0) FALSE else even(n - 1L)
  expect_false(key(even) == before)
  # What the session has and the function does not use.
  unrelated <- Sys.time()
  f <- function(i) i
  before <- key(f)
  unrelated <- 1
  expect_identical(key(f), before)
})

test_that("each verb that returns the values of elements goes on, and others say why they do not", {
  dir <- folder()
  X <- list(1, 2, 3)
  Y <- c(x = 4, y = 5, z = 6)
  twice <- function(code) {
    control <- going(folder(parent.frame()))
    first <- code(control)
    expect_message(again <- code(control), "3 of 3", class = "regatta_message_checkpoint")
    expect_identical(again, first)
    first
  }
  expect_identical(twice(function(control) par_mapply(function(a, b, c) a + b + c, Y, X, MoreArgs = list(c = 1),
    .control = control)), mapply(function(a, b, c) a + b + c, Y, X, MoreArgs = list(c = 1)))
  expect_identical(twice(function(control) par_vapply(Y, function(i) i + numeric(2e5), numeric(2e5),
    .control = control)), vapply(Y, function(i) i + numeric(2e5), numeric(2e5)))
  expect_identical(twice(function(control) {
    stream <- par_stream(Y, sqrt, .control = control)
    values <- list()
    while (par_more(stream)) values[[length(values) + 1L]] <- par_next(stream)
    values
  }), lapply(unname(Y), sqrt))
  control <- going(dir)
  refused <- function(code) {
    e <- expect_error(code, "cannot go on from a checkpoint", class = "regatta_error_checkpoint")
    expect_identical(e$reason, "verb")
  }
  refused(par_call(1 + 1, .control = control))
  refused(par_reduce(1:3, sqrt, `+`, .control = control))
  refused(shm_fill(10, function(i) i, "integer", .control = control))
  expect_false(file.exists(dir))
  expect_error(par_control(checkpoint = ""), class = "regatta_error_argument")
  expect_error(par_log(dir), class = "regatta_error_argument")
})

test_that("a log goes with workers of any kind", {
  dir <- folder()
  pool <- local_pool()
  runs <- withr::local_tempfile()
  expected <- par_lapply(1:4, counted, runs = runs, .control = two_workers())
  expect_identical(par_lapply(1:2, counted, runs = runs, .on = pool, .control = going(dir)), expected[1:2])
  nodes <- local_cluster(1L)
  expect_message(
    got <- par_lapply(1:3, counted, runs = runs, .on = nodes, .control = going(dir, workers = 1L)), "2 of 3"
  )
  expect_identical(got, expected[1:3])
  expect_message(got <- par_lapply(1:4, counted, runs = runs, .control = going(dir)), "3 of 4")
  expect_identical(got, expected)
  expect_identical(sort(runs_of(runs)), rep(1:4, each = 2L))
})

test_that("a log that ends anywhere has lost the last record alone", {
  dir <- folder()
  one <- function(i) i
  par_lapply(1:3, one, .control = going(dir, workers = 1L))
  log <- regatta:::log_open(dir, FALSE)
  offset <- log$records$offset
  regatta:::log_close(log)
  bytes <- readBin(log_path(dir), "raw", 1e6)
  found <- function(bytes) {
    writeBin(bytes, log_path(dir))
    log <- regatta:::log_open(dir, FALSE)
    on.exit(regatta:::log_close(log))
    log$records$index
  }
  last <- length(offset)
  for (size in seq(offset[[last]], length(bytes) - 1)) {
    if (!identical(found(utils::head(bytes, size)), as.numeric(0:2))) fail(sprintf("cut at byte %.0f", size))
  }
  expect_identical(found(bytes), as.numeric(0:3))
  # What is appended after a tail that was cut off can be read.
  writeBin(utils::head(bytes, -7L), log_path(dir))
  expect_message(got <- par_lapply(1:3, one, .control = going(dir)), "2 of 3 elements.*damaged")
  expect_identical(got, list(1L, 2L, 3L))
  expect_identical(attr(par_log(dir), "damaged"), 0)
  expect_message(par_lapply(1:3, one, .control = going(dir)), "3 of 3")
})

test_that("damage costs the record that has it, wherever it is", {
  dir <- folder()
  # A value that holds what looks like records.
  par_lapply(1:3, function(i) i, .control = going(dir, workers = 1L))
  inner <- readBin(log_path(dir), "raw", 1e6)
  dir <- folder()
  make <- function(i) list(i, if (i == 2L) inner)
  par_lapply(1:3, make, .control = going(dir, workers = 1L))
  log <- regatta:::log_open(dir, FALSE)
  records <- log$records
  regatta:::log_close(log)
  expect_identical(records$index, as.numeric(0:3))
  bytes <- readBin(log_path(dir), "raw", 1e6)
  ends <- c(records$offset[-1L], length(bytes))
  # All of the header of each record and of its last bytes, and every seventh byte between.
  for (row in seq_len(nrow(records))) {
    from <- records$offset[[row]]
    at <- c(0:63, seq(64, ends[[row]] - from - 1, by = 7), ends[[row]] - from - 1:8)
    for (k in unique(at)) {
      damaged <- bytes
      damaged[[from + k + 1]] <- xor(damaged[[from + k + 1]], as.raw(bitwShiftL(1L, k %% 8)))
      writeBin(damaged, log_path(dir))
      log <- regatta:::log_open(dir, FALSE)
      regatta:::log_close(log)
      if (!identical(log$records$offset, records$offset[-row])) fail(sprintf("record %d, byte %.0f", row, k))
      if (!identical(log$damaged, ends[[row]] - from)) fail(sprintf("record %d, byte %.0f: count", row, k))
    }
  }
  # Without the record of the call the values tell what they are of.
  damaged <- bytes
  damaged[[100]] <- xor(damaged[[100]], as.raw(1L))
  writeBin(damaged, log_path(dir))
  expect_error(par_lapply(1:3, function(i) i + 1, .control = going(dir)), "what it computes has changed")
  writeBin(damaged, log_path(dir))
  expect_message(par_lapply(1:3, make, .control = going(dir)), "3 of 3 elements.*damaged")
})

test_that("a session that is killed at any moment has lost nothing that was in the log", {
  skip_if_not_installed("parallel")
  dir <- folder()
  runs <- withr::local_tempfile()
  n <- 200L
  element <- function(i, runs) {
    Sys.sleep(0.001)
    cat(sprintf("%d\n", as.integer(i)), file = runs, append = TRUE)
    # Some have a file of their own.
    c(i, runif(1), if (i %% 25 == 0) numeric(2^17))
  }
  environment(element) <- globalenv()
  call <- function(dir) {
    suppressMessages(par_lapply(seq_len(n), element, runs = runs, .control = going(dir)))
  }
  logged <- function() if (file.exists(log_path(dir))) as.integer(par_log(dir)$index) else integer()
  times <- as.integer(Sys.getenv("REGATTA_CHECKPOINT_KILLS", "24"))
  safe <- integer()
  most <- 0L
  withr::with_preserve_seed({
    set.seed(1)
    for (k in seq_len(times)) {
      # What has become of many elements is enough.
      if (length(safe) > n - 20L) {
        unlink(dir, recursive = TRUE)
        unlink(runs)
        safe <- integer()
      }
      before <- length(runs_of(runs))
      session <- parallel::mcparallel(call(dir), silent = TRUE)
      # At any moment after so many more elements have begun, or while the log is opened.
      more <- sample(0:12, 1L)
      wait_until(length(runs_of(runs)) >= before + more, 60)
      # Where all is slow none of these would be in the log yet.
      if (k %% 4L == 0L) wait_until(length(logged()) > length(safe), 60)
      Sys.sleep(stats::runif(1L, 0, 0.02))
      # As the system kills it, and as Slurm, or a reboot, ends it first.
      tools::pskill(session$pid, if (k %% 3L == 0L) tools::SIGTERM else tools::SIGKILL)
      suppressWarnings(parallel::mccollect(session))
      # Its workers end with it.
      Sys.sleep(0.01)
      again <- utils::tail(runs_of(runs), -before)
      expect_identical(intersect(again, safe), integer())
      now <- logged()
      expect_identical(setdiff(safe, now), integer())
      expect_identical(anyDuplicated(now), 0L)
      safe <- now
      most <- max(most, length(safe))
    }
  })
  expect_gt(most, 0L)
  before <- length(runs_of(runs))
  got <- call(dir)
  expect_identical(sort(utils::tail(runs_of(runs), -before)), setdiff(seq_len(n), safe))
  unlink(dir, recursive = TRUE)
  expect_identical(got, call(dir))
})

test_that("Ctrl-C leaves what has arrived, and the call goes on", {
  dir <- folder()
  runs <- withr::local_tempfile()
  element <- function(i, runs, session, dir) {
    cat(sprintf("%d\n", as.integer(i)), file = runs, append = TRUE)
    if (i == 4L && sum(readLines(runs) == "4") == 1L) {
      while (nrow(regatta::par_log(dir)) < 3L) Sys.sleep(0.01)
      tools::pskill(session, tools::SIGINT)
      repeat Sys.sleep(0.01)
    }
    i
  }
  environment(element) <- globalenv()
  call <- function() par_lapply(1:6, element, runs = runs, session = Sys.getpid(), dir = dir,
    .control = going(dir, workers = 1L))
  expect_identical(tryCatch(call(), interrupt = function(e) "interrupt"), "interrupt")
  expect_identical(sort(par_log(dir)$index), c(1, 2, 3))
  expect_message(got <- call(), "3 of 6")
  expect_identical(got, as.list(1:6))
  expect_identical(sort(runs_of(runs)), c(1:4, 4:6))
})

test_that("a checkpoint that is a session's default is none of calls inside of elements", {
  f <- function(i) sum(regatta::par_sapply(1:3, function(j) i * j))
  expected <- lapply(1:4, function(i) 6L * i)
  cluster <- cluster_local(2)
  withr::defer(parallel::stopCluster(cluster))
  for (on in list(2, cluster, structure(list(), class = "regatta_session"))) {
    dir <- folder()
    withr::local_options(regatta.on = on, regatta.control = going(dir))
    expect_identical(par_lapply(1:4, f), expected)
    expect_identical(sort(par_log(dir)$index), as.numeric(1:4))
    expect_message(expect_identical(par_lapply(1:4, f), expected), "4 of 4")
    expect_identical(getOption("regatta.control")$checkpoint, dir)
    # what an element asks for itself counts
    inner <- folder()
    g <- function(i) {
      options(regatta.control = regatta::par_control(checkpoint = file.path(inner, i), progress = FALSE))
      f(i)
    }
    withr::local_options(regatta.control = going(folder()))
    expect_identical(par_lapply(1:2, g), expected[1:2])
    expect_identical(sort(par_log(file.path(inner, 2))$index), as.numeric(1:3))
  }
})

test_that("a call that names the folder of one that it is inside of is told so", {
  call <- function(control) {
    tryCatch(
      regatta::par_lapply(1:2, sqrt, .control = control),
      regatta_error_checkpoint = function(e) conditionMessage(e)
    )
  }
  cluster <- cluster_local(1)
  withr::defer(parallel::stopCluster(cluster))
  for (on in list(1, cluster, structure(list(), class = "regatta_session"))) {
    dir <- folder()
    control <- going(dir, workers = 1L)
    said <- par_lapply(1, function(i) call(control), .on = on, .control = control)[[1L]]
    expect_match(said, "in use by the call that this one is inside of", fixed = TRUE)
    expect_match(said, "without `checkpoint`", fixed = TRUE)
    # two calls further out
    dir <- folder()
    control <- going(dir, workers = 1L)
    between <- function(i) regatta::par_lapply(1, function(j) call(control), .on = 1)[[1L]]
    expect_match(par_lapply(1, between, .on = on, .control = control)[[1L]], "this one is inside of", fixed = TRUE)
  }
})

test_that("a log that nobody has any more, as after Ctrl-C while it was opened, holds up no call", {
  dir <- folder()
  regatta:::log_open(dir, TRUE)
  expect_identical(par_lapply(1:3, function(i) i, .control = going(dir)), as.list(1:3))
})

test_that("two calls on one folder exclude each other, in one session, in its workers and elsewhere", {
  dir <- folder()
  control <- going(dir)
  taken <- function(code, who) {
    e <- expect_error(code, class = "regatta_error_checkpoint")
    expect_identical(e$reason, "locked")
    expect_match(conditionMessage(e), who)
  }
  stream <- par_stream(1:3, function(i) i, .control = control)
  taken(par_lapply(1:3, sqrt, .control = control), "in use by another call of this session")
  # To look into it, or to copy it, gives no lock back.
  par_log(dir)
  copied <- file.copy(list.files(dir, full.names = TRUE), withr::local_tempdir())
  expect_true(all(copied))
  expect_identical(format(file.info(list.files(dir, full.names = TRUE))$mode), rep("600", length(copied)))
  other <- local_session(function(dir) {
    tryCatch(
      par_lapply(1:3, sqrt, .control = par_control(checkpoint = dir, progress = FALSE)),
      regatta_error_checkpoint = conditionMessage
    )
  }, list(dir))
  said <- fault_value(other)$value
  expect_match(said, sprintf("in use by process %d", Sys.getpid()))
  while (par_more(stream)) par_next(stream)
  # A worker of a call is another process.
  dir2 <- folder()
  got <- par_lapply(1, function(i) {
    tryCatch(
      regatta::par_lapply(1:2, sqrt, .control = regatta::par_control(checkpoint = dir2)),
      regatta_error_checkpoint = conditionMessage
    )
  }, .control = going(dir2, workers = 1L))
  expect_match(got[[1L]], "in use by the call that this one is inside of")
  # The lock goes with its process, also where workers and what they have started outlive it.
  dir3 <- folder()
  killed <- local_session(function(dir) {
    par_lapply(1:2, function(i) {
      if (i == 2) {
        system("sleep 60 &")
        cat("sleeps\n", file = stdout())
        repeat Sys.sleep(0.1)
      }
      i
    }, .control = par_control(workers = 2, checkpoint = dir, progress = FALSE))
  }, list(dir3))
  fault_wait_line(killed, "sleeps")
  taken(par_lapply(1:2, sqrt, .control = going(dir3)), sprintf("process %d", killed$process$get_pid()))
  killed$process$signal(tools::SIGKILL)
  killed$process$wait()
  e <- expect_error(par_lapply(1:2, sqrt, .control = going(dir3)), class = "regatta_error_checkpoint")
  expect_identical(e$reason, "changed")
})

test_that("where the log cannot be written the map goes on and says so, and a later one goes on from what is there", {
  dir <- folder()
  large <- function(i) rep(as.double(i), 900)
  environment(large) <- globalenv()
  limited <- function(dir, large) {
    # as testthat has them
    Sys.setlocale("LC_COLLATE", "C")
    options(useFancyQuotes = FALSE)
    values <- list()
    told <- character()
    values <- withCallingHandlers(
      par_lapply(1:20, large, .control = par_control(
        workers = 1, progress = FALSE, checkpoint = dir, seed = 1L, shm = FALSE, batch = 20L
      )),
      regatta_warning_checkpoint = function(w) {
        told <<- c(told, conditionMessage(w))
        invokeRestart("muffleWarning")
      }
    )
    list(values = values, told = told)
  }
  session <- local_session(limited, list(dir, large), wrap = c("sh", "-c", "ulimit -f 128; exec \"$@\"", "sh"))
  got <- fault_value(session)$value
  expect_identical(got$values, lapply(1:20, function(i) rep(as.double(i), 900)))
  expect_length(got$told, 1L)
  expect_match(got$told, "could not take the value of element.*File too large")
  some <- par_log(dir)
  # Of those that arrived together, too, as many as there was room for: 64 KiB.
  expect_true(nrow(some) >= 6L && nrow(some) < 9L)
  expect_identical(attr(some, "damaged"), 0)
  expect_message(
    again <- par_lapply(1:20, large, .control = going(dir, workers = 1L)),
    sprintf("%d of 20", nrow(some))
  )
  expect_identical(again, got$values)
})

test_that("a folder that cannot be used is refused before anything runs", {
  refused <- function(dir, reason, words) {
    e <- expect_error(par_lapply(1:2, sqrt, .control = going(dir)), class = "regatta_error_checkpoint")
    expect_identical(e$reason, reason)
    expect_match(conditionMessage(e), words)
  }
  file <- withr::local_tempfile(lines = "a file")
  refused(file.path(file, "below"), "open", "Not a directory|No such file")
  refused(file, "open", "Not a directory")
  open <- withr::local_tempdir()
  Sys.chmod(open, "0777", use_umask = FALSE)
  refused(open, "mode", "other users may write to it")
  foreign <- withr::local_tempdir()
  writeLines("something else", log_path(foreign))
  refused(foreign, "foreign", "is no log")
  expect_identical(readLines(log_path(foreign)), "something else")
  if (Sys.getenv("USER") == "root" || Sys.info()[["effective_user"]] == "root") {
    other <- withr::local_tempdir()
    expect_identical(system2("chown", c("12345", other)), 0L)
    refused(other, "owner", "belongs to another user")
  } else {
    closed <- withr::local_tempdir()
    Sys.chmod(closed, "0555")
    refused(closed, "open", "Permission denied")
    Sys.chmod(closed, "0755")
  }
})

test_that("methods and classes of the workspace belong to what is computed", {
  local_workspace()
  expect_changed <- function(run, change, what) {
    run()
    expect_message(run(), "3 of 3 elements", class = "regatta_message_checkpoint")
    change()
    e <- expect_error(run(), class = "regatta_error_checkpoint")
    expect_match(conditionMessage(e), what)
  }
  in_workspace <- function(code) eval(code, globalenv())
  calls <- function(FUN, X) {
    dir <- folder(parent.frame())
    force(X)
    function() par_lapply(X, FUN, .control = going(dir))
  }
  # by its name
  things <- lapply(1:3, structure, class = "rg_foo")
  in_workspace(quote(format.rg_foo <- function(x, ...) "old"))
  expect_changed(
    calls(function(x) format(x), things),
    function() in_workspace(quote(format.rg_foo <- function(x, ...) "new")), "method.*`format.rg_foo`"
  )
  # what a method uses, and where the function is one of a package
  in_workspace(quote(rg_word <- "old"))
  in_workspace(quote(format.rg_foo <- function(x, ...) rg_word))
  expect_changed(calls(format, things), function() in_workspace(quote(rg_word <- "new")), "`format.rg_foo`")
  # registered
  register <- function(word) registerS3method("format", "rg_bar", eval(bquote(function(x, ...) .(word)), globalenv()))
  register("old")
  withr::defer(rm("format.rg_bar", envir = get(".__S3MethodsTable__.", baseenv())))
  expect_changed(calls(format, lapply(1:3, structure, class = "rg_bar")), function() register("new"), "`format.rg_bar`")
  # S4
  in_workspace(quote({
    setClass("RgShape", representation(r = "numeric"))
    setGeneric("rg_area", function(s) standardGeneric("rg_area"))
    setMethod("rg_area", "RgShape", function(s) s@r)
  }))
  shapes <- lapply(1:3, function(i) methods::new("RgShape", r = i))
  run <- calls(function(s) rg_area(s), shapes)
  expect_changed(run, function() in_workspace(quote(setMethod("rg_area", "RgShape", function(s) -s@r))), "`rg_area`")
  made <- function(i) if (i > 3) 0 else methods::is(methods::new("RgShape"))
  expect_changed(
    calls(made, 1:3),
    function() in_workspace(quote(setClass("RgShape", representation(r = "numeric"), prototype(r = 2)))), "`RgShape`"
  )
  # a method of a reference class
  account <- function(sign) {
    in_workspace(bquote(RgAccount <- setRefClass("RgAccount", fields = list(sum = "numeric"), methods = list(
      add = function(x) sum <<- sum + .(sign) * x
    ))))
  }
  suppressMessages(account(1))
  expect_changed(
    calls(function(i) { a <- methods::new("RgAccount", sum = 0); a$add(i); a$sum }, 1:3), # nolint
    function() suppressMessages(account(-1)), "`RgAccount`"
  )
})

test_that("functions count wherever they stand in arguments, elements and variables", {
  local_workspace()
  assign("rg_helper", function(x) x, globalenv())
  uses <- function(x) rg_helper(x)
  environment(uses) <- globalenv()
  Holder <- methods::setClass("RgHolder", representation(f = "ANY"), where = globalenv())
  Numbers <- methods::setClass("RgNumbers", contains = "numeric", representation(f = "function"), where = globalenv())
  holders <- list(
    attribute = structure(1, f = uses), slot = Holder(f = uses), data = Numbers(1, f = uses),
    environment = list2env(list(f = uses), new.env()), deep = list(list(structure(list(), f = list(uses)))),
    of_function = structure(function(x) x, f = uses), long = structure(numeric(3e6), f = uses)
  )
  active <- new.env()
  makeActiveBinding("f", function() rg_helper(1), active)
  holders$active <- active
  before <- vapply(holders, regatta:::key_of, "")
  expect_identical(vapply(holders, regatta:::key_of, ""), before)
  assign("rg_helper", function(x) -x, globalenv())
  after <- vapply(holders, regatta:::key_of, "")
  expect_identical(names(before)[before == after], character())
})

test_that("settings that values go by, and `retry_seed`, are part of a call", {
  dir <- folder()
  run <- function(...) par_lapply(c(1 / 3, 2 / 3), function(x) paste(format(x), runif(1)), .control = going(dir, ...))
  run()
  changed <- function(code, what) {
    e <- expect_error(code, class = "regatta_error_checkpoint")
    expect_match(conditionMessage(e), what)
  }
  changed(withr::with_options(list(digits = 3), run()), "the setting `digits` has changed")
  changed(withr::with_options(list(OutDec = ","), run()), "the setting `OutDec` has changed")
  zone <- if (identical(format(.POSIXct(0), "%H"), "09")) "UTC" else "Asia/Tokyo"
  changed(withr::with_timezone(zone, run()), "the setting `TZ` has changed")
  if (capabilities("ICU")) {
    in_ascii <- function() {
      before <- Sys.getlocale("LC_COLLATE")
      on.exit(Sys.setlocale("LC_COLLATE", before)) # which brings back how strings are compared there
      icuSetCollate(locale = "ASCII")
      run()
    }
    changed(in_ascii(), "the setting `collation` has changed")
  }
  changed(run(retries = 1L, retry_seed = "new"), "`retry_seed` has changed")
  expect_message(withr::with_options(list(width = 33), run()), "2 of 2")
})

test_that("a key needs no memory for what R computes when it is asked", {
  key <- regatta:::key_of
  size <- 3e6
  expanded <- seq_len(size) + 0L
  expect_identical(key(seq_len(size)), key(expanded))
  expect_identical(key(list(a = seq_len(size))), key(list(a = expanded)))
  expect_identical(key(c(a = 1, b = 2)), key(c(a = 1, b = 2)))
  changed <- expanded
  changed[[size]] <- 0L
  expect_false(key(changed) == key(expanded))
  expect_false(key(expanded + 0) == key(expanded))
  expect_false(key(structure(expanded, class = "rg_x")) == key(expanded))
  before <- gc(reset = TRUE)
  key(list(1:1e8)) # 400 MB
  expect_lt(sum((gc() - before)[, 6L]), 200)
})

end_servers()

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
