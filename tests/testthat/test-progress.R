detritus <- detritus_snapshot()

fake_clock <- function() {
  now <- 100
  list(read = function() now, set = function(t) now <<- 100 + t)
}

stderr_of <- function(code) {
  capture.output(code, type = "message")
}

test_that("a log gets plain lines, at most one in ten seconds or ten percent", {
  clock <- fake_clock()
  lines <- stderr_of({
    p <- progress_start(500, TRUE, clock$read)
    for (i in 1:30) {
      clock$set(i / 100)
      progress_update(p, i)
    }
    clock$set(30)
    progress_update(p, 120)
    clock$set(35)
    progress_update(p, 160)
    clock$set(36)
    progress_update(p, 170, 1)
    clock$set(36.5)
    progress_update(p, 300, 1)
    clock$set(41)
    progress_update(p, 210, 2)
    clock$set(50)
    progress_update(p, 211, 2)
    clock$set(125)
    progress_update(p, 500, 2)
    progress_done(p)
  })
  expect_identical(lines, c(
    "120 of 500 done, about 95 s left",
    "170 of 500 done, 1 failed, about 70 s left",
    "211 of 500 done, 2 failed, about 68 s left",
    "500 of 500 done, 2 failed",
    "500 of 500 done in 2 min 5 s, 2 failed"
  ))
})

test_that("a short run is one line of a log", {
  lines <- stderr_of({
    p <- progress_start(1e4, TRUE, fake_clock()$read)
    for (i in 1:1e4) progress_update(p, i)
    progress_done(p)
    progress_done(p)
    progress_update(p, 1)
  })
  expect_identical(lines, "10000 of 10000 done in 0 s")
})

test_that("a run that ends early says how far it came", {
  clock <- fake_clock()
  lines <- stderr_of({
    p <- progress_start(10, TRUE, clock$read)
    progress_update(p, 3, 1)
    clock$set(0.5)
    progress_done(p)
  })
  expect_identical(lines, "3 of 10 done in 0.5 s, 1 failed")
})

test_that("the bar is drawn ten times a second at most, however often it is told", {
  clock <- fake_clock()
  shown <- 0
  p <- progress_start(1e5, clock = clock$read, backend = list(show = function(p, now) shown <<- shown + 1, delay = 0))
  for (i in 0:9999) {
    clock$set(i / 1000)
    progress_update(p, i)
  }
  expect_gt(shown, 90)
  expect_lte(shown, 100)
})

test_that("a bar nobody asked for comes after a second and leaves nothing", {
  clock <- fake_clock()
  bar <- progress_bar(FALSE)
  out <- stderr_of({
    p <- progress_start(10, clock = clock$read, backend = bar)
    clock$set(0.9)
    progress_update(p, 5)
    progress_done(p)
  })
  expect_identical(out, character())
  expect_identical(progress_bar(TRUE)$delay, 0)
})

test_that("a line fits any terminal and says what there is to say", {
  withr::local_options(cli.unicode = FALSE, cli.num_colors = 1L)
  p <- list(total = 500, given = 0, done = 120, failed = 3, start = 100)
  expect_snapshot({
    writeLines(bar_line(p, 130, 79L))
    writeLines(bar_line(p, 130, 55L))
    writeLines(bar_line(p, 130, 30L))
    writeLines(bar_line(list(total = 3, given = 0, done = 0, failed = 0, start = 100), 130, 79L))
    writeLines(bar_line(list(total = 3, given = 0, done = 3, failed = 0, start = 100), 130, 79L))
    writeLines(bar_line(list(total = 3, given = 0, done = 5, failed = 0, start = 100), 130, 200L))
  })
  withr::local_options(cli.unicode = TRUE, cli.num_colors = 256L)
  widths <- 1:200
  lines <- vapply(widths, function(width) bar_line(p, 130, width), "")
  expect_identical(widths[cli::ansi_nchar(lines, "width") > widths], integer())
})

test_that("what was done before the run begins tells nothing of the time to go", {
  p <- progress_start(100, TRUE, fake_clock()$read, given = 50)
  p$done <- 60
  expect_match(progress_text(p, 110), "60 of 100 done, about 40 s left")
})

test_that("no progress is shown when it is not wanted", {
  expect_null(progress_start(10, FALSE))
  expect_null(progress_start(0, TRUE))
  withr::local_options(rlang_interactive = FALSE)
  expect_null(progress_start(10))
  withr::local_options(rlang_interactive = TRUE)
  withr::local_envvar(REGATTA_SHARE = NA)
  expect_false(is.null(progress_start(10)$backend))
  withr::local_envvar(REGATTA_SHARE = "1")
  expect_null(progress_start(10))
  expect_false(is.null(progress_start(10, TRUE)$backend))
})

test_that("a knitr document has no progress in it", {
  skip_if_not_installed("knitr")
  source <- c("```{r}", "p <- progress_start(3, TRUE)", "is.null(p$backend)",
              "progress_update(p, 3)", "progress_done(p)", "```")
  env <- new.env(parent = environment(progress_start))
  kept <- options()
  withr::defer(options(kept))
  out <- NULL
  log <- stderr_of(out <- knitr::knit(text = source, envir = env, quiet = TRUE))
  expect_identical(log, character())
  expect_match(out, "TRUE", fixed = TRUE)
  expect_false(grepl("done in", out, fixed = TRUE))
  expect_false(is.null(progress_start(3, TRUE)$backend))
})

in_terminal <- function(code) {
  withr::local_preserve_seed()
  skip_if_not(file.access("/dev/ptmx", 2L) == 0L, "a pseudo-terminal (/dev/ptmx) can be opened")
  env <- c(
    "current",
    R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep), R_TESTS = "", TERM = "xterm",
    R_CLI_DYNAMIC = "", R_CLI_NUM_COLORS = "1", NO_COLOR = "1"
  )
  process <- processx::process$new(
    file.path(R.home("bin"), "Rscript"), c("--vanilla", "-e", code),
    pty = TRUE, pty_options = list(rows = 25L, cols = 80L, echo = FALSE), env = env
  )
  withr::defer(process$kill())
  text <- ""
  wait_until({
    process$poll_io(100)
    # The master of a terminal whose other end is closed gives EIO where a pipe gives an end.
    part <- tryCatch(process$read_output(), error = function(e) NULL)
    text <- paste0(text, part)
    !process$is_alive() && (is.null(part) || !nzchar(part))
  }, timeout = 60, what = "the end of the session in a terminal")
  expect_identical(process$get_exit_status(), 0L)
  text
}

test_that("a terminal shows a bar that gives way to output and is gone at the end", {
  skip_if_not_installed("processx")
  skip_if(nchar(system.file(package = "regatta")) == 0, "regatta is not installed")
  text <- in_terminal(paste(
    "f <- function(x) utils::getFromNamespace(x, \"regatta\")",
    "t <- 0; p <- f(\"progress_start\")(50, TRUE, function() t)",
    "for (i in 1:50) { t <- i; f(\"progress_update\")(p, i, i %/% 20)",
    "if (i %% 25 == 0) { f(\"progress_clear\")(p); cat(\"output of\", i, \"\\n\") } }",
    "f(\"progress_done\")(p)",
    sep = "\n"
  ))
  expect_match(text, "24 of 50 done, 1 failed, about 26 s left", fixed = TRUE)
  expect_match(text, "]  48%", fixed = TRUE)
  expect_match(text, "] 100%", fixed = TRUE)
  expect_identical(
    terminal_screen(text)[1:3],
    c("output of 25", "output of 50", "50 of 50 done in 50 s, 2 failed")
  )
})

test_that("the same session without a terminal writes lines and no control characters", {
  skip_if_not_installed("processx")
  skip_if(nchar(system.file(package = "regatta")) == 0, "regatta is not installed")
  withr::local_preserve_seed()
  result <- processx::run(
    file.path(R.home("bin"), "Rscript"),
    c("--vanilla", "-e", paste(
      "f <- function(x) utils::getFromNamespace(x, \"regatta\")",
      "t <- 0; p <- f(\"progress_start\")(50, TRUE, function() t)",
      "for (i in 1:50) { t <- i; f(\"progress_update\")(p, i) }",
      "f(\"progress_done\")(p)",
      sep = "\n"
    )),
    env = c("current", R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep), R_TESTS = "")
  )
  lines <- strsplit(result$stderr, "\n", fixed = TRUE)[[1L]]
  expect_identical(lines[[1L]], "5 of 50 done, about 45 s left")
  expect_length(lines, 11L)
  expect_identical(lines[[11L]], "50 of 50 done in 50 s")
  expect_false(grepl("[\r\033]", result$stderr))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
