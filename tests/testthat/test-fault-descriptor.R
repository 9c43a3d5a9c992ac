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

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
