# Ends of an element that are neither a value nor an error that R has signalled: on forked workers, on those
# that stand ready and on nodes.

detritus <- detritus_snapshot()

pool <- cluster_local(1L)
nodes <- parallel::makeCluster(1L)
places <- list(forked = NULL, pool = pool, nodes = nodes)

# Element 2 of 4 evaluates `f()`, and the others are what they are: so the worker goes on with them.
second <- function(f, on, ..., errors = "collect") {
  environment(f) <- globalenv()
  element <- eval(bquote(function(i) if (i == 2L) .(f)() else i), globalenv())
  control <- par_control(
    workers = if (is.null(on)) 1L, progress = FALSE, seed = FALSE, dump = "no", errors = errors, stderr = "drop", ...
  )
  suppressWarnings(par_lapply(1:4, element, .on = on, .control = control))
}

expect_fails <- function(f, message, where = names(places), class = NULL) {
  for (place in where) {
    got <- second(f, places[[place]])
    expect_identical(got[-2L], list(1L, 3L, 4L), info = place)
    expect_s3_class(got[[2L]], "regatta_error_element")
    expect_match(conditionMessage(got[[2L]]), message, info = place)
    if (!is.null(class)) expect_s3_class(got[[2L]], class)
  }
}

test_that("a jump to the top level is the failure of its element, not the end of its worker", {
  expect_fails(function() invokeRestart("abort"), "element 2 failed in worker [0-9]+: it has jumped to the top level")
  # That of R itself.
  last <- function() {
    all <- computeRestarts()
    invokeRestart(all[[length(all)]])
  }
  expect_fails(last, "it has jumped to the top level")
  # And that of compiled code, twice in one batch.
  library <- fault_compile("
    extern void Rf_jump_to_toplevel(void);
    void jump(int *x) { Rf_jump_to_toplevel(); }
  ", "jump")
  compiled <- eval(bquote(function() {
    dyn.load(.(library))
    .C("jump", 1L)
  }))
  expect_fails(compiled, "it has jumped to the top level")
  for (on in places) {
    control <- two_workers(workers = if (is.null(on)) 1L, batch = 3L, errors = "collect")
    got <- suppressWarnings(par_lapply(1:3, function(i) if (i < 3L) compiled() else i, .on = on, .control = control))
    expect_identical(par_failed(got), c(TRUE, TRUE, FALSE))
  }
  # In the code of handlers and of on.exit(), too.
  expect_fails(function() tryCatch(stop("a"), error = function(e) invokeRestart("abort")), "it has jumped")
  expect_fails(function() {
    on.exit(invokeRestart("abort"))
    stop("first")
  }, "element 2 failed in worker [0-9]+: first")
})

test_that("stop() of a condition that is no error is an error with its message", {
  withr::local_preserve_seed()
  expect_fails(function() tryCatch(as.integer("x"), warning = function(w) stop(w)), "NAs introduced by coercion")
  expect_fails(function() stop(simpleMessage("said")), "said")
  own <- function() stop(structure(list(message = "of its own", call = NULL, field = 1), class = c("rg_own", "condition")))
  expect_fails(own, "of its own", class = "rg_own")
  expect_identical(tryCatch(mclapply(1:2, function(i) stop(simpleWarning("w")), mc.cores = 1L, mc.allow.error = NA),
    warning = function(w) "a warning")[[2L]][[1L]], "Error: w")
  # Handlers of the element come first.
  taken <- function() tryCatch(stop(simpleWarning("w")), warning = function(w) 2L)
  expect_identical(second(taken, NULL), as.list(1:4))
})

test_that("a condition that is no error and is given to stop() keeps its class, fields and attributes", {
  withr::local_preserve_seed()
  fails <- function(i) {
    if (i == 2L) {
      stop(structure(
        list(message = "own", call = quote(f(x)), best = c(1.5, 2.5), from = "field"),
        class = c("rg_own", "condition"), more = 1L
      ))
    }
    i
  }
  # Handlers for errors are not for it, in the element.
  handles <- function(i) tryCatch(try(fails(i), silent = TRUE), error = function(e) "taken for an error")
  environment(fails) <- globalenv()
  environment(handles) <- list2env(list(fails = fails), parent = globalenv())
  session <- structure(list(), class = "regatta_session")
  for (on in c(places, list(session = session))) {
    control <- par_control(
      workers = if (is.null(on)) 1L, progress = FALSE, seed = FALSE, dump = "no", errors = "collect"
    )
    collected <- suppressWarnings(par_lapply(1:3, fails, .on = on, .control = control))[[2L]]
    control$errors <- "stop"
    for (got in list(
      collected, tryCatch(par_lapply(1:3, fails, .on = on, .control = control), rg_own = identity),
      tryCatch(par_lapply(1:3, handles, .on = on, .control = control), rg_own = identity)
    )) {
      expect_s3_class(got, c("regatta_error_element", "rg_own", "error"))
      expect_match(conditionMessage(got), "in `f(x)`: own", fixed = TRUE)
      expect_identical(got$best, c(1.5, 2.5))
      expect_s3_class(got$parent, c("rg_own", "simpleError", "error", "condition"), exact = TRUE)
      expect_identical(unclass(got$parent)[c("best", "from")], list(best = c(1.5, 2.5), from = "field"))
      expect_identical(conditionMessage(got$parent), "own")
      expect_identical(conditionCall(got$parent), quote(f(x)))
      expect_identical(attr(got$parent, "more"), 1L)
    }
  }
  # A warning that a handler gives to stop() is none for those outside.
  again <- function(i) withCallingHandlers(
    warning(warningCondition("w", field = 1, class = "rg_warned")), warning = function(w) stop(w)
  )
  got <- tryCatch(
    par_lapply(1L, again, .control = two_workers(workers = 1L)),
    warning = function(w) "a warning", rg_warned = identity
  )
  expect_identical(got$field, 1)
})

test_that("a jump in an element that has the session's own process is the session's", {
  control <- par_control(progress = FALSE, seed = FALSE)
  on <- structure(list(), class = "regatta_session")
  jumped <- withRestarts(
    par_lapply(1:2, function(i) invokeRestart("abort"), .on = on, .control = control),
    abort = function() "the session"
  )
  expect_identical(jumped, "the session")
})

test_that("an element that allows too few nested calls fails, and those after it have as many as before", {
  few <- function() {
    options(expressions = 25)
    f <- function(n) if (n == 0) 0 else f(n - 1)
    f(60)
  }
  expect_fails(few, "evaluation nested too deeply", class = "expressionStackOverflowError")
})

test_that("no condition of an element names a call that is not the element's", {
  # As exceptions of Rcpp do, which take one of the calls that are active.
  signals_each <- function(signal, make) {
    # frame 1, which is the session's or what runs a worker, to that of the element
    last <- sys.nframe() - 2L
    for (k in seq_len(last)) signal(make(sprintf("of %d", k), sys.call(k)))
    last
  }
  fails_with <- function(k) stop(simpleError("too large", sys.call(k)))
  quiet <- two_workers(workers = 1L)
  for (on in list(1L, local_pool(1L), local_cluster(1L))) {
    for (k in 1:3) {
      got <- expect_error(
        par_lapply(1L, function(i) fails_with(k), .on = on, .control = quiet), "worker [0-9]+: too large"
      )
      expect_null(conditionCall(got$parent))
    }
    called <- list()
    keep <- function(cnd) called <<- c(called, list(conditionCall(cnd)))
    withCallingHandlers(
      last <- par_lapply(1L, function(i) {
        signals_each(warning, simpleWarning)
        signals_each(message, simpleMessage)
        signals_each(signalCondition, simpleCondition)
      }, .on = on, .control = quiet),
      warning = function(w) {
        keep(w)
        tryInvokeRestart("muffleWarning")
      },
      message = function(m) {
        keep(m)
        tryInvokeRestart("muffleMessage")
      },
      simpleCondition = keep
    )
    expect_gte(length(called), 3L * last[[1L]])
    # The element itself has this one, which may stand below it as well.
    own <- vapply(called, identical, NA, quote(FUN(X[[i]], ...)))
    expect_identical(unique(called[!own]), list(NULL))
  }
})

test_that("a call of the element stays that of its condition, whoever has made the same call", {
  quiet <- two_workers(workers = 1L)
  calls_itself <- function(i, outside = FALSE) {
    if (outside) par_lapply(1L, function(i) calls_itself(i), .control = quiet) else stop("in here")
  }
  got <- expect_error(calls_itself(1L, outside = TRUE), "in `calls_itself(i)`: in here", fixed = TRUE)
  expect_identical(conditionCall(got$parent), quote(calls_itself(i)))
  # The same call is also outside of the map.
  again <- function(n) if (n == 0) stop("in here") else par_lapply(0, function(n) again(n), .control = quiet)
  same <- function(n) again(n)
  got <- expect_error(same(1), "in `again(n)`: in here", fixed = TRUE)
  expect_identical(conditionCall(got$parent), quote(again(n)))
})

test_that("an interrupt that the session has not sent is the failure of its element", {
  expect_fails(
    function() {
      rlang::interrupt()
      "went on"
    }, "it was interrupted, by its own code or by SIGINT from elsewhere", class = "interrupt"
  )
  expect_fails(function() {
    tools::pskill(Sys.getpid(), tools::SIGINT)
    for (i in 1:1000) Sys.sleep(0.01)
    "went on"
  }, "it was interrupted")
  # As lapply() would be left.
  caught <- tryCatch(second(function() rlang::interrupt(), NULL, errors = "stop"), interrupt = function(e) "caught")
  expect_identical(caught, "caught")
  # A handler of the element's own comes first; a mere condition ends nothing.
  got <- second(function() tryCatch(rlang::interrupt(), interrupt = function(e) "own"), NULL)
  expect_identical(got[[2L]], "own")
})

test_that("a condition of class \"interrupt\" that is merely signalled arrives like others, and ends nothing", {
  signal <- function() {
    signalCondition(structure(class = c("interrupt", "condition"), list()))
    signalCondition(structure(class = c("mine", "interrupt", "condition"), list(message = "m", call = NULL, data = 1)))
    "went on"
  }
  for (place in places) {
    seen <- list()
    got <- withCallingHandlers(second(signal, place), interrupt = function(cnd) seen[[length(seen) + 1L]] <<- cnd)
    expect_identical(got, list(1L, "went on", 3L, 4L))
    expect_identical(lapply(seen, class), list(c("interrupt", "condition"), c("mine", "interrupt", "condition")))
    expect_identical(seen[[2L]]$data, 1)
    # As lapply() would be left.
    expect_identical(tryCatch(second(signal, place), interrupt = function(cnd) "left"), "left")
  }
})

test_that("a worker that cannot tell of an error ends, and does not try for ever", {
  untold <- function() {
    home <- asNamespace("regatta")
    get("unlockBinding")("send_kept", home)
    assign("send_kept", function() stop("not told"), envir = home)
    stop("the element's own")
  }
  own <- cluster_local(1L)
  withr::defer(parallel::stopCluster(own))
  for (place in list(NULL, own)) {
    got <- second(untold, place)
    expect_identical(got[-2L], list(1L, 3L, 4L))
    expect_s3_class(got[[2L]], "regatta_error_death")
    words <- conditionMessage(got[[2L]])
    expect_match(words, "could not go on, and has ended itself, while it ran element 2")
    expect_match(words, "kept it from going on:\n.*cannot report how an element has ended: the element's own")
    expect_no_match(words, "quit|status")
  }
})

test_that("a worker that fails before its first element says why", {
  code <- function() {
    library(regatta)
    home <- asNamespace("regatta")
    get("unlockBinding")("fork_worker_share", home)
    assign("fork_worker_share", function(...) stop("no share of anything"), envir = home)
    tryCatch(par_lapply(1:2, identity, .control = par_control(workers = 2L)), error = conditionMessage)
  }
  expect_match(fault_run(code)$value, "before they began an element [(]Error.*no share of anything")
})

test_that("a status of the element's own is not that of a worker that cannot go on", {
  own <- cluster_local(1L)
  withr::defer(parallel::stopCluster(own))
  for (place in list(NULL, own)) {
    got <- second(function() quit(status = 125L), place)
    expect_match(conditionMessage(got[[2L]]), "ended with status 125 .quit.. or _exit.. was called. while it ran")
    expect_identical(got[[2L]]$status, 125L)
  }
})

test_that("a worker that jumps to the top level before its first element says so", {
  code <- function() {
    library(regatta)
    home <- asNamespace("regatta")
    get("unlockBinding")("fork_worker_share", home)
    assign("fork_worker_share", function(...) invokeRestart("abort"), envir = home)
    tryCatch(par_lapply(1:2, identity, .control = par_control(workers = 2L)), error = conditionMessage)
  }
  expect_match(fault_run(code)$value, "before they began an element [(]it has jumped to the top level of R")
})

test_that("an interrupt for a limit is no other element's, and one of the element's own stays its own", {
  slow <- function(i) {
    if (i == 2L) for (k in 1:1000) Sys.sleep(0.05)
    if (i == 3L) rlang::interrupt()
    i
  }
  control <- par_control(
    workers = 1L, progress = FALSE, seed = FALSE, dump = "no", errors = "collect", timeout = 0.3
  )
  got <- suppressWarnings(par_lapply(1:4, slow, .control = control))
  expect_identical(got[c(1L, 4L)], list(1L, 4L))
  expect_s3_class(got[[2L]], "regatta_error_timeout")
  expect_s3_class(got[[3L]], "interrupt")
})

test_that("a value that is nested too deeply is the failure of its element, in words", {
  deep <- function() {
    x <- NULL
    for (k in 1:1e5) x <- list(x)
    x
  }
  expect_fails(deep, "what the element has returned is nested too deeply to be sent", class = "CStackOverflowError")
  expect_fails(function() {
    f <- function(n) f(n + 1)
    f(1)
  }, "element 2 failed in worker [0-9]+: (C stack|evaluation nested|infinite)")
})

parallel::stopCluster(pool)
parallel::stopCluster(nodes)
end_servers()

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
