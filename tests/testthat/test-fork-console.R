detritus <- detritus_snapshot()

# With it, as newer versions of testthat set it, R itself makes an error of browser().
local_browser <- function(frame = parent.frame()) {
  withr::local_envvar("_R_CHECK_BROWSER_NONINTERACTIVE_" = NA, .local_envir = frame)
}

# Runs `lines` as a script of a session, as `Rscript file` or as `R < file`. The script is longer than what a
# stream reads at a time, so that a worker could take lines from its buffer or from the file. Each line behind
# `lines` that is carried out leaves the number of its process.
run_script <- function(lines, redirected = FALSE, frame = parent.frame()) {
  dir <- withr::local_tempdir(.local_envir = frame)
  script <- file.path(dir, "script.R")
  trail <- file.path(dir, "trail")
  mark <- sprintf("cat(Sys.getpid(), '', file = '%s', append = TRUE)", trail)
  padding <- rep(paste0("invisible('", strrep("padding ", 100L), "')"), 20L)
  writeLines(c("library(regatta)", lines, mark, padding, mark, "cat('process', Sys.getpid(), '\\n')"), script)
  command <- c(if (redirected) "R" else "Rscript", "--vanilla", if (redirected) c("--no-echo", "-s") else script)
  got <- processx::run(
    file.path(R.home("bin"), command[[1L]]), command[-1L], stdin = if (redirected) script,
    env = c("current", R_LIBS = paste(.libPaths(), collapse = ":"), R_TESTS = ""), timeout = 120,
    error_on_status = FALSE
  )
  session <- sub(".*process ([0-9]+).*", "\\1", got$stdout)
  list(
    status = got$status, out = paste(got$stdout, got$stderr),
    trail = scan(trail, "", quiet = TRUE) == session
  )
}

expect_script_unread <- function(got) {
  expect_identical(got$status, 0L, info = got$out)
  expect_identical(got$trail, c(TRUE, TRUE), info = got$out)
}

test_that("the debugger ends an element and reads nothing of the session's script", {
  skip_unless_linux()
  local_browser()
  withr::local_preserve_seed() # processx draws the number of a process
  lines <- c(
    "control <- par_control(workers = 2L, progress = FALSE, errors = 'collect', dump = 'no', stdout = 'drop')",
    "say <- function(x) for (e in x) cat(if (inherits(e, 'error')) conditionMessage(e) else e, '\\n')",
    "f <- function(i) { j <- i + 1; j }",
    "debug(f)",
    "say(suppressWarnings(par_lapply(1:2, f, .control = control)))",
    "undebug(f)",
    "say(par_lapply(1:2, f, .control = control))",
    "b <- browser",
    "say(suppressWarnings(par_lapply(1:2, function(i) { if (i == 2) b(); 'went on' }, .control = control)))",
    "h <- par_call({ debugonce(f); f(1) }, .control = control)",
    "say(list(tryCatch(par_value(h), error = identity)))",
    # Nothing is there for others that ask the console.
    "kept <- stdin",
    "say(par_lapply(1:2, function(i) length(if (i == 1) scan('', '', quiet = TRUE) else readLines(kept())),",
    "  .control = control))"
  )
  for (redirected in c(FALSE, TRUE)) {
    got <- run_script(lines, redirected)
    expect_script_unread(got)
    text <- strsplit(got$out, "\n")[[1L]]
    said <- grep("the debugger, .*, cannot be used in a worker.*par_replay\\(\\)", text, value = TRUE)
    expect_identical(sub(" failed.*", "", said), paste("element", c(1, 2, 2, 1)), info = got$out)
    expect_length(grep("^ *[23] $", text), 2L)
    expect_length(grep("^ *went on $", text), 1L)
    expect_length(grep("^ *0 $", text), 2L)
  }
})

test_that("the debugger ends an element of a worker that stands ready", {
  skip_unless_linux()
  local_browser()
  pool <- local_pool(1L)
  got <- suppressWarnings(par_lapply(1:2, function(i) {
    g <- function() i
    if (i == 1L) debugonce(g)
    g()
  }, .on = pool, .control = par_control(progress = FALSE, errors = "collect", dump = "no", stdout = "drop",
    seed = 1L)))
  expect_match(conditionMessage(got[[1L]]), "the debugger, .*, cannot be used in a worker")
  expect_identical(got[[2L]], 2L)
})

test_that("the debugger ends an element whatever errors its code takes", {
  skip_unless_linux()
  local_browser()
  f <- function(i) i
  debug(f)
  got <- tryCatch(
    par_lapply(1L, function(i) try(f(i)), .control = par_control(
      workers = 2L, progress = FALSE, dump = "no", stdout = "drop", seed = 1L
    )),
    error = identity
  )
  expect_s3_class(got, "regatta_error_element")
  expect_match(conditionMessage(got), "undebug\\(\\)")
})

end_servers()
expect_no_detritus(detritus)
