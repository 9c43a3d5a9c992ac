detritus <- detritus_snapshot()

closer <- compiled_once(function(env) {
  fault_compile(c(
    "#include <unistd.h>",
    "void close_all(void) { for (int i = 3; i < 200; i++) close(i); }"
  ), "closer", env = env)
})

test_that("nothing is written to a file that got the number of a descriptor of ours", {
  skip_unless_linux()
  library <- closer()
  got <- fault_run(function(library) {
    dyn.load(library)
    folder <- tempfile("files-")
    dir.create(folder)
    values <- suppressWarnings(par_lapply(1:6, function(i) {
      if (i == 2L) {
        .C("close_all")
        # Files of the user take the numbers that have become free.
        for (k in 1:60) {
          assign(paste0("con", k), file(file.path(folder, k), "w+b"), envir = globalenv())
        }
        Sys.sleep(0.05)
      }
      rep(i + 0, 1e5)
    }, .control = par_control(
      workers = 2L, progress = FALSE, errors = "collect", dump = "no", batch = 1L
    )))
    list(values = values, sizes = file.size(list.files(folder, full.names = TRUE)))
  }, list(library = library))$value
  expect_identical(got$sizes, rep(0, 60))
  expect_identical(got$values[-2L], lapply(c(1, 3:6), rep, 1e5))
  expect_s3_class(got$values[[2L]], "regatta_error_element")
  expect_s3_class(got$values[[2L]]$parent, "regatta_error_descriptor")
  expect_match(conditionMessage(got$values[[2L]]), "file descriptor was closed")
})

test_that("a worker without its pipes is replaced, and small values arrive", {
  skip_unless_linux()
  library <- closer()
  got <- fault_run(function(library) {
    dyn.load(library)
    unlist(par_lapply(1:40, function(i) {
      .C("close_all")
      i
    }, .control = par_control(workers = 2L, progress = FALSE, batch = 1L, dump = "no")))
  }, list(library = library))$value
  expect_identical(got, 1:40)
})

test_that("elements that all close descriptors end as their errors, not as a failed start", {
  skip_unless_linux()
  library <- closer()
  got <- fault_run(function(library) {
    dyn.load(library)
    values <- suppressWarnings(par_lapply(1:20, function(i) {
      .C("close_all")
      rep(i + 0, 1e5)
    }, .control = par_control(
      workers = 2L, progress = FALSE, batch = 1L, dump = "no", errors = "collect"
    )))
    vapply(values, function(v) class(v$parent)[[1L]], "")
  }, list(library = library))$value
  expect_identical(got, rep("regatta_error_descriptor", 20L))
})

test_that("the session's own arena is given up when its descriptor is lost", {
  skip_unless_linux()
  library <- closer()
  got <- fault_run(function(library) {
    dyn.load(library)
    control <- par_control(workers = 2L, progress = FALSE, dump = "no")
    kept <- par_lapply(1:2, function(i) rep(i + 0, 1e5), .control = control)
    own <- showConnections()
    .C("close_all")
    path <- tempfile()
    files <- lapply(1:30, function(k) file(paste0(path, k), "w+b"))
    rm(kept)
    gc()
    after <- par_lapply(1:2, function(i) rep(i + 10, 1e5), .control = control)
    list(after = after, sizes = file.size(paste0(path, 1:30)))
  }, list(library = library))$value
  expect_identical(got$after, list(rep(11, 1e5), rep(12, 1e5)))
  expect_identical(got$sizes, rep(0, 30))
})

test_that("a session without stdin, stdout or stderr gets large results and output", {
  skip_unless_linux()
  script <- withr::local_tempfile(fileext = ".R")
  for (without in c("<&- 2>&-", "<&-", ">&-", "<&- >&- 2>&-")) {
    result <- withr::local_tempfile()
    writeLines(c(
      "library(regatta)",
      "got <- par_lapply(1:4, function(i) { cat('x'); rep(i + 0, 1e5) },",
      "  .control = par_control(workers = 2L, progress = FALSE, dump = 'no'))",
      "shared <- shm_share(as.character(1:1e5))",
      sprintf("saveRDS(list(got, shared[[7]]), '%s')", result)
    ), script)
    system(paste(
      "R_TESTS=", paste0("R_LIBS=", shQuote(paste(.libPaths(), collapse = ":"))),
      shQuote(file.path(R.home("bin"), "Rscript")), "--vanilla", shQuote(script),
      if (grepl("[^2]>&-", paste0(" ", without))) "" else ">/dev/null",
      if (grepl("2>&-", without)) "" else "2>/dev/null", without
    ))
    expect_true(file.exists(result), info = without)
    expect_identical(readRDS(result), list(lapply(1:4, function(i) rep(i + 0, 1e5)), "7"))
  }
})

test_that("workers of one run hold nothing of another that is under way", {
  skip_unless_linux()
  held <- function() {
    links <- Sys.readlink(list.files("/proc/self/fd", full.names = TRUE))
    maps <- grep("/dev/zero|regatta-run", readLines("/proc/self/maps"), value = TRUE)
    # A mapping by what tells it from others: every worker has the one of its own run.
    maps <- sub("regatta-run", "mapped", sub("^[^ ]+ +[^ ]+ +", "", maps))
    c(grep("^pipe:|pidfd|regatta-run|regatta-code", links, value = TRUE), maps)
  }
  of_run <- function(before) setdiff(held()[!grepl("pidfd", held())], before)
  gate <- withr::local_tempfile()
  wait <- quote(while (!file.exists(gate)) Sys.sleep(0.01))
  before <- held()
  pool <- local_pool(1L)
  withr::defer(end_servers())
  first <- par_stream(1:4, function(i) eval(wait), .control = two_workers())
  pooled <- par_call(eval(wait), .on = pool, .control = two_workers(workers = NULL))
  theirs <- of_run(before)
  expect_gt(length(theirs), 5L)
  call <- par_call(list(
    own = held(),
    nested = par_lapply(1:2, function(i) held(), .control = two_workers())[[1L]]
  ), .control = two_workers())
  expect_gt(length(of_run(c(before, theirs))), 3L)
  got <- par_value(call)
  expect_identical(intersect(got$own, theirs), character())
  expect_identical(intersect(got$nested, theirs), character())
  expect_false(any(grepl("pidfd|regatta-(run|code)", got$own)))
  # Of the run that the worker itself works for there are at most its output and the ends that tell how far it is.
  expect_lte(length(intersect(got$nested, grep("^pipe:", setdiff(got$own, before), value = TRUE))), 2L)
  file.create(gate)
  par_value(pooled)
  while (par_more(first)) par_next(first)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
