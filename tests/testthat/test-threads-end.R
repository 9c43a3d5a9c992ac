detritus <- detritus_snapshot()

library_here <- threads_compile("threads-end.cpp", flags = c("-O0", "-g0"))

# The status of a session that has loaded the library, begun its work and quits.
quit_during <- function(kind, how) {
  code <- sprintf("dyn.load('%s'); invisible(.Call('begin_tasks', %dL)); %s", library_here, kind, how)
  log <- withr::local_tempfile()
  status <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", "-e", shQuote(code)),
    stdout = log, stderr = log, timeout = 60, env = "REGATTA_THREADS=3")
  list(status = status, printed = readLines(log, warn = FALSE))
}

test_that("R quits while tasks push, and detached threads are in loops", {
  for (kind in 1:3) {
    expect_identical(quit_during(kind, "q('no', 7)"), list(status = 7L, printed = character()))
    expect_identical(quit_during(kind, "NULL -> x"), list(status = 0L, printed = character()))
  }
})

test_that("a library that was compiled anew is the old one until R is started again", {
  skip_unless_linux()
  got <- fault_run(function(library) {
    bytes <- readBin(library, "raw", file.size(library))
    digit <- grepRaw("this is build 1", bytes, fixed = TRUE) + 14L
    bytes[[digit]] <- charToRaw("2")
    place <- tempfile(fileext = ".so")
    elsewhere <- tempfile(fileext = ".so")
    build <- function(path) {
      dll <- dyn.load(path)
      on.exit(dyn.unload(path))
      .Call(getNativeSymbolInfo("which_build", dll))
    }
    file.copy(library, place)
    first <- build(place)
    unlink(place)
    writeBin(bytes, place)
    writeBin(bytes, elsewhere)
    c(first, build(place), build(elsewhere))
  }, list(library_here))$value
  expect_identical(got, c(1L, 1L, 2L))
})

test_that("nothing is left behind", {
  unlink(dirname(library_here), recursive = TRUE)
  expect_no_detritus(detritus)
})
