skip_if_not_installed("promises")
skip_if_not_installed("later")
later::later(function() NULL)
later::run_now() # newer versions make a state of the generator where there is none
detritus <- detritus_snapshot()

# Runs later's loop until the promise is settled: list(value) or list(error).
settled <- function(promise, loop_timeout = 20) {
  out <- NULL
  promises::then(promise, function(value) out <<- list(value = value), function(e) out <<- list(error = e))
  wait_until(function() {
    later::run_now(0.05)
    !is.null(out)
  }, loop_timeout, "the promise is settled")
  out
}

call_of <- function(code, ...) {
  eval(substitute(par_call(code, .control = two_workers(...))), parent.frame())
}

test_that("a call is a promise, and what follows it is done with its value", {
  expect_identical(settled(call_of(6 * 7))$value, 42)
  expect_null(settled(call_of(NULL))$value)
  next_one <- promises::then(call_of(1:3), function(x) promises::as.promise(call_of(rev(x))))
  expect_identical(settled(next_one)$value, 3:1)
  both <- promises::promise_all(a = call_of("a"), b = call_of(c(b = 2)))
  expect_identical(settled(both)$value, list(a = "a", b = c(b = 2)))
})

test_that("a handler may return a call, where promises asks what is one", {
  generic <- any(all.names(body(promises::is.promising)) == "UseMethod")
  skip_if_not(generic, "is.promising() of this version of promises has no methods")
  expect_identical(settled(promises::then(call_of(1:3), function(x) call_of(rev(x))))$value, 3:1)
})

test_that("a call that is over when it becomes a promise has its value in the same turn", {
  handle <- call_of(5)
  expect_identical(par_value(handle), 5)
  expect_identical(settled(handle)$value, 5)
  expect_identical(settled(promises::as.promise(handle))$value, 5)
})

test_that("other callbacks of the loop go on meanwhile, and few looks are taken", {
  gate <- withr::local_tempfile()
  handle <- call_of({
    while (!file.exists(gate)) Sys.sleep(0.005)
    "open"
  })
  looks <- 0
  poll <- handle$run$executor$poll
  handle$run$executor$poll <- function(timeout) {
    looks <<- looks + 1
    poll(timeout)
  }
  promise <- promises::as.promise(handle)
  expect_identical(looks, 1)
  ticks <- 0
  tick <- function() {
    ticks <<- ticks + 1
    if (ticks < 200) later::later(tick, 0.001) else file.create(gate)
  }
  tick()
  expect_identical(settled(promise)$value, "open")
  expect_identical(ticks, 200)
  expect_lt(looks, 150)
  expect_identical(poll_pause(0), 0.002)
  expect_identical(poll_pause(1), 0.05)
  expect_identical(poll_pause(3600), 0.1)
})

test_that("errors and deaths reach catch()", {
  got <- settled(promises::catch(call_of(stop("over there")), identity))$value
  expect_s3_class(got, "regatta_error_element")
  expect_identical(conditionMessage(got$parent), "over there")
  expect_s3_class(settled(call_of(quit("no", 3)))$error, "regatta_error_death")
  expect_s3_class(settled(call_of(Sys.sleep(300), timeout = 0.2))$error, "regatta_error_timeout")
})

test_that("a call that was cancelled is one whose promise is rejected", {
  handle <- call_of(Sys.sleep(300))
  promise <- promises::as.promise(handle)
  run_close(handle$run)
  expect_s3_class(settled(promise)$error, "regatta_error_lost")
})

test_that("an interrupt while a call is looked at ends it and rejects its promise", {
  handle <- call_of(Sys.sleep(300))
  pid <- handle$run$workers$rows[[1L]]$pid
  handle$run$executor$poll <- function(timeout) rlang::interrupt()
  rejected <- NULL
  # Not in a turn of the loop: later raises the interrupt again when it is no longer waited for here.
  ended <- tryCatch(promise_watch(handle, stop, function(e) rejected <<- e), interrupt = function(i) "interrupted")
  expect_identical(ended, "interrupted")
  expect_s3_class(rejected, "regatta_error_lost")
  wait_until(!pid %in% names(detritus_children()))
  expect_false(pid %in% names(detritus_children()))
})

test_that("with the loop that waits for it a call ends", {
  pid <- NULL
  later::with_temp_loop({
    handle <- call_of(Sys.sleep(300))
    promises::as.promise(handle)
    pid <- handle$run$workers$rows[[1L]]$pid
    later::run_now(0)
  })
  expect_true(pid %in% names(detritus_children()))
  rm(handle)
  wait_until(function() {
    gc()
    !pid %in% names(detritus_children())
  })
  expect_false(pid %in% names(detritus_children()))
})

# The app of vignettes/neighbours.Rmd, in a process of its own; the address it serves at. In the place of its function
# `slow` is one that waits, where it is called with 7, until it was called with 5.
start_app <- function(lines, gate, env = parent.frame()) {
  dir <- withr::local_tempdir(.local_envir = env)
  place <- file.path(dir, "address")
  writeLines(c(
    "app <- {", lines, "}",
    sprintf("gate <- %s", deparse(gate)),
    "slow <- function(n) {", "  if (n == 5) file.create(gate)",
    "  while (n == 7 && !file.exists(gate)) Sys.sleep(0.01)", "  n^2", "}",
    "port <- httpuv::randomPort()",
    "later::later(function() {", sprintf("  writeLines(sprintf('http://127.0.0.1:%%d/', port), %s)", deparse(paste0(place, "-"))),
    sprintf("  file.rename(%s, %s)", deparse(paste0(place, "-")), deparse(place)), "}, 0.1)",
    "runApp(app, port = port, launch.browser = FALSE, quiet = TRUE)"
  ), file.path(dir, "app.R"))
  app <- processx::process$new(
    file.path(R.home("bin"), "Rscript"), c("--vanilla", file.path(dir, "app.R")), stdout = file.path(dir, "log"),
    stderr = "2>&1", env = c("current", R_LIBS = paste(.libPaths(), collapse = ":"), TMPDIR = dir), cleanup_tree = TRUE
  )
  withr::defer(app$kill_tree(), envir = env)
  wait_until(function() file.exists(place) || !app$is_alive(), 60, "the app serves")
  expect_true(app$is_alive(), info = paste(readLines(file.path(dir, "log")), collapse = "\n"))
  readLines(place)
}

test_that("the lines of the page keep an app of shiny responsive, as a browser sees it", {
  withr::local_preserve_seed()
  for (package in c("shiny", "httpuv", "processx")) skip_if_not_installed(package)
  page <- file.path(Sys.getenv("REGATTA_SOURCE", "."), "vignettes", "neighbours.Rmd")
  skip_if_not(file.exists(page), "no vignettes here")
  lines <- readLines(page, encoding = "UTF-8")
  begin <- grep("^```\\{r shiny,", lines)
  expect_length(begin, 1L)
  lines <- lines[seq(begin + 1L, begin + which(lines[-seq_len(begin)] == "```")[[1L]] - 1L)]
  url <- start_app(lines, withr::local_tempfile())
  # Two visitors, the second in a frame of the page. While the answer of the first is waited for the second is served.
  got <- browse(url, c(
    "const until = async test => {",
    "  for (;;) {",
    "    try { const value = test(); if (value) return value; } catch (e) { }",
    "    await new Promise(done => setTimeout(done, 20));",
    "  }",
    "};",
    "const answer = visitor => visitor.document.getElementById('answer').textContent;",
    "const waits = () => document.getElementById('answer').classList.contains('recalculating');",
    "await until(() => answer(window) === '9');",
    "Shiny.setInputValue('n', 7);",
    "await until(waits);",
    "const frame = document.body.appendChild(document.createElement('iframe'));",
    "frame.src = location.href + '?second';",
    "const second = await until(() => answer(frame.contentWindow) === '9' && frame.contentWindow);",
    "const meanwhile = {waits: waits(), first: answer(window), second: answer(second)};",
    "second.Shiny.setInputValue('n', 5);",
    "await until(() => answer(window) === '49');",
    "await until(() => answer(second) === '25');",
    "return {meanwhile, after: {first: answer(window), second: answer(second)}};"
  ))
  expect_identical(got$meanwhile, list(waits = TRUE, first = "9", second = "9"))
  expect_identical(got$after, list(first = "49", second = "25"))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
