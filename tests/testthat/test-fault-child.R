detritus <- detritus_snapshot()

# The code of a fault session, with `control` ready for use in it.
in_session <- function(fun, ..., lines = character(), env = character()) {
  session <- fault_start(fun, list(...), env = env)
  for (line in lines) fault_tell(session, line)
  fault_value(session)
}

test_that("finalizers of the parent run in the parent alone", {
  skip_unless_linux()
  log <- withr::local_tempfile()
  file.create(log)
  got <- in_session(function(log) {
    holder <- new.env()
    reg.finalizer(holder, function(e) cat(Sys.getpid(), "\n", file = log, append = TRUE),
      onexit = TRUE)
    control <- par_control(workers = 2L, progress = FALSE, errors = "collect")
    par_lapply(1:4, function(i) i, .control = control)
    suppressWarnings(par_lapply(1:3, function(i) if (i == 2L) quit("no", 3), .control = control))
    suppressWarnings(par_lapply(1:2, function(i) stop("x"), .control = control))
    assign("holder", holder, globalenv())
    Sys.getpid()
  }, log)
  expect_equal(scan(log, quiet = TRUE), got$value)
})

test_that("a database connection of the parent survives its children", {
  skip_unless_linux()
  skip_if_not_installed("RSQLite")
  skip_if_not_installed("DBI")
  got <- in_session(function() {
    file <- tempfile(fileext = ".sqlite")
    connection <- DBI::dbConnect(RSQLite::SQLite(), file)
    DBI::dbWriteTable(connection, "t", data.frame(x = 1:3))
    DBI::dbBegin(connection)
    DBI::dbExecute(connection, "INSERT INTO t VALUES (4)")
    control <- par_control(workers = 2L, progress = FALSE, errors = "collect")
    par_lapply(1:4, function(i) gc(), .control = control)
    suppressWarnings(par_lapply(1:3, function(i) if (i == 2L) quit("no", 3), .control = control))
    valid <- DBI::dbIsValid(connection)
    DBI::dbCommit(connection)
    x <- DBI::dbGetQuery(connection, "SELECT x FROM t")$x
    DBI::dbDisconnect(connection)
    list(valid = valid, x = x)
  })$value
  expect_identical(got, list(valid = TRUE, x = 1:4))
})

test_that("no end of a child removes the session's temporary folder", {
  skip_unless_linux()
  got <- in_session(function() {
    kept <- tempfile()
    file.create(kept)
    library <- NULL
    control <- par_control(workers = 2L, progress = FALSE, errors = "collect")
    ends <- list(
      function(i) i, function(i) quit("no", 3), function(i) stop("x"), function(i) q("no"),
      function(i) tools::pskill(Sys.getpid(), tools::SIGTERM),
      function(i) unlink(tempfile(), recursive = TRUE)
    )
    vapply(ends, function(end) {
      suppressWarnings(par_lapply(1:2, end, .control = control))
      file.exists(tempdir()) && file.exists(kept)
    }, NA)
  })$value
  expect_identical(got, rep(TRUE, 6L))
})

test_that("temporary files of two workers never have the same name", {
  got <- par_lapply(1:40, function(i) tempfile(), .control = two_workers(workers = 4L, batch = 1L))
  expect_length(unique(unlist(got)), 40L)
})

test_that("plots in a child leave the device of the parent intact", {
  skip_unless_linux()
  got <- in_session(function() {
    page <- function(between) {
      file <- tempfile(fileext = ".pdf")
      grDevices::pdf(file, compress = FALSE)
      graphics::plot(1:3)
      between()
      graphics::lines(3:1)
      grDevices::dev.off()
      lines <- readLines(file, warn = FALSE)
      lines[!grepl("CreationDate|ModDate", lines)]
    }
    ends <- list(
      function() NULL, function() grDevices::dev.off(), function() grDevices::graphics.off(),
      function() quit("no", 3), function() stop("x"),
      function() {
        grDevices::dev.off()
        graphics::plot(10:1)
      }
    )
    untouched <- page(function() NULL)
    vapply(ends, function(end) {
      control <- par_control(workers = 1L, progress = FALSE, errors = "collect")
      identical(untouched, page(function() {
        suppressWarnings(par_lapply(1:4, function(i) {
          graphics::plot(10:1)
          end()
        }, .control = control))
      }))
    }, NA)
  })$value
  expect_identical(got, rep(TRUE, 6L))
})

test_that("a child may open a device of its own", {
  dir <- withr::local_tempdir()
  got <- par_lapply(1:2, function(i) {
    grDevices::pdf(file.path(dir, paste0(i, ".pdf")))
    graphics::plot(i)
    grDevices::dev.off()
    file.size(file.path(dir, paste0(i, ".pdf"))) > 1000
  }, .control = two_workers())
  expect_identical(got, list(TRUE, TRUE))
})

test_that("no child runs .Last, saves history or an image", {
  skip_unless_linux()
  dir <- withr::local_tempdir()
  log <- file.path(dir, "last")
  got <- in_session(function(dir, log) {
    setwd(dir)
    assign(".Last", function() cat(Sys.getpid(), "\n", file = log, append = TRUE), globalenv())
    control <- par_control(workers = 2L, progress = FALSE, errors = "collect", dump = "no")
    par_lapply(1:4, function(i) i, .control = control)
    suppressWarnings(par_lapply(1:3, function(i) if (i == 2L) quit("no", 3), .control = control))
    suppressWarnings(par_lapply(1:3, function(i) if (i == 2L) quit("yes", 3), .control = control))
    list(pid = Sys.getpid(), ran = file.exists(log), files = list.files(dir, all.files = TRUE))
  }, dir, log)
  expect_false(got$value$ran)
  expect_false(any(c(".RData", ".Rhistory") %in% got$value$files))
})

test_that("options(error = ) of the session neither hangs nor runs in a child", {
  skip_unless_linux()
  dir <- withr::local_tempdir()
  got <- in_session(function(dir) {
    setwd(dir)
    control <- par_control(workers = 2L, progress = FALSE, errors = "collect", dump = "no")
    handlers <- list(
      utils::recover, quote(utils::recover()), quote(utils::dump.frames("left", to.file = TRUE)),
      quote(file.create("ran")), quote(q("no", 7))
    )
    lapply(handlers, function(handler) {
      options(error = handler)
      on.exit(options(error = NULL))
      got <- suppressWarnings(
        par_lapply(1:3, function(i) if (i == 2L) stop("plain") else i, .control = control)
      )
      list(got[[1L]], class(got[[2L]]), got[[3L]], list.files(dir))
    })
  }, dir, lines = c("1", "0"))$value
  for (outcome in got) {
    expect_true("regatta_error_element" %in% outcome[[2L]])
    expect_identical(outcome[-2L], list(1L, 3L, character()))
  }
})

test_that("browser() in an element is an error and reads nothing from stdin", {
  skip_unless_linux()
  got <- in_session(function() {
    stdin <- file("stdin", "r")
    values <- suppressWarnings(par_lapply(1:3, function(i) {
      if (i == 2L) browser()
      i
    }, .control = par_control(workers = 2L, progress = FALSE, errors = "collect", dump = "no")))
    list(values = values, line = readLines(stdin, 1L))
  }, lines = c("Q", "second"))$value
  expect_identical(got$values[c(1L, 3L)], list(1L, 3L))
  expect_s3_class(got$values[[2L]], "regatta_error_element")
  expect_match(conditionMessage(got$values[[2L]]), "browser")
  expect_identical(got$line, "Q")
})

test_that("a child that reads stdin gets its end, and the parent's input is untouched", {
  skip_unless_linux()
  got <- in_session(function() {
    values <- par_lapply(1:4, function(i) {
      if (i == 1L) return(readLines(file("stdin")))
      if (i == 2L) return(system("cat", intern = TRUE))
      if (i == 3L) return(readline("prompt"))
      scan(file("stdin"), what = "", quiet = TRUE)
    }, .control = par_control(workers = 2L, progress = FALSE))
    connection <- file("stdin", "r")
    list(values = values, line = readLines(connection, 1L))
  }, lines = "for the parent")$value
  expect_identical(got$values, list(character(), character(), "", character()))
  expect_identical(got$line, "for the parent")
})

test_that("functions that a worker has others for are the session's when they come back as values", {
  skip_unless_linux()
  functions <- function(i) list(stdin = stdin, quit = quit, browser = browser)
  given <- par_lapply(1:2, functions, .control = two_workers())[[1L]]
  expect_identical(attr(given$stdin(), "conn_id"), attr(stdin(), "conn_id"))
  expect_output(withr::with_options(list(browserNLdisabled = TRUE), given$browser(expr = FALSE)), NA)
  got <- fault_start(function(quit) {
    cat("going\n")
    quit(status = 5)
  }, list(given$quit))
  wait_until(!got$process$is_alive())
  expect_identical(got$process$get_exit_status(), 5L)
  fault_end(got)
})

test_that("stdin() is one connection, however often it is asked for, and another when that is closed", {
  before <- nrow(showConnections())
  got <- par_lapply(1, function(i) {
    known <- identical(attr(stdin(), "conn_id"), attr(stdin(), "conn_id"))
    opened <- nrow(showConnections())
    close(stdin())
    other <- file("/dev/zero", "rb") # has its number now
    on.exit(close(other))
    list(known = known, opened = opened, lines = readLines(stdin()), other = readBin(other, "raw", 1L))
  }, .control = two_workers())[[1L]]
  expect_identical(got, list(known = TRUE, opened = before + 1L, lines = character(), other = as.raw(0L)))
})

test_that("on.exit() runs when an element fails, and not when its worker is killed", {
  dir <- withr::local_tempdir()
  suppressWarnings(par_lapply(1:3, function(i) {
    on.exit(file.create(file.path(dir, i)))
    if (i == 1L) stop("x")
    if (i == 2L) tools::pskill(Sys.getpid(), tools::SIGKILL)
  }, .control = two_workers(errors = "collect")))
  expect_setequal(list.files(dir), c("1", "3"))
})

test_that("a child neither inherits sinks nor changes them", {
  file <- withr::local_tempfile()
  sink(file)
  withr::defer(sink())
  depth <- sink.number()
  got <- par_lapply(1:2, function(i) {
    sink.number()
  }, .control = two_workers(stdout = "drop"))
  expect_identical(sink.number(), depth)
  expect_length(got, 2L)
})

test_that("connections opened by the parent are at the same place after the run", {
  path <- withr::local_tempfile(lines = as.character(1:2000))
  connection <- file(path, "r")
  withr::defer(close(connection))
  first <- readLines(connection, 3L)
  par_lapply(1:4, function(i) i, .control = two_workers())
  suppressWarnings(
    par_lapply(1:2, function(i) quit("no", 3), .control = two_workers(errors = "collect"))
  )
  expect_identical(c(first, readLines(connection)), as.character(1:2000))
})

test_that("text the parent has not yet flushed is written once", {
  skip_unless_linux()
  library <- fault_compile(c(
    "#include <stdio.h>",
    "static FILE *out;",
    "void begin(char **path) { out = fopen(*path, \"w\"); fputs(\"once\\n\", out); }",
    "void end(void) { fclose(out); }"
  ), "unflushed")
  path <- withr::local_tempfile()
  in_session(function(library, path) {
    dyn.load(library)
    .C("begin", path)
    control <- par_control(workers = 2L, progress = FALSE, errors = "collect")
    par_lapply(1:4, function(i) i, .control = control)
    suppressWarnings(par_lapply(1:2, function(i) if (i == 2L) quit("no", 3), .control = control))
    .C("end")
    NULL
  }, library, path)
  expect_identical(readLines(path), "once")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
