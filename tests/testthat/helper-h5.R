# Files for the tests of HDF5: all kinds where a Python with h5py writes them, else those kept in h5/.

skip_without_h5 <- function() {
  testthat::skip_if(!h5_available(), "the package was built without libhdf5")
}

h5_state <- new.env(parent = emptyenv())

# A Python that has h5py, or "".
h5_python <- function() {
  if (is.null(h5_state$python)) {
    found <- Filter(nzchar, unique(c(Sys.which("python3"), "/usr/bin/python3")))
    works <- vapply(found, function(python) {
      identical(suppressWarnings(
        system2(python, c("-c", shQuote("import h5py")), stdout = FALSE, stderr = FALSE)
      ), 0L)
    }, NA)
    h5_state$python <- c(found[works], "")[[1L]]
  }
  h5_state$python
}

# Changes a file, or makes it, by lines of Python about the h5py.File `f`. A test that needs it begins with the skip.
skip_without_h5py <- function() {
  testthat::skip_if(!nzchar(h5_python()), "no Python with h5py")
}

h5_by_python <- function(path, lines, mode = "w") {
  open <- sprintf("f = h5py.File(sys.argv[1], '%s')", mode)
  script <- c("import h5py, sys, numpy as np", open, lines, "f.close()")
  status <- system2(h5_python(), c("-c", shQuote(paste(script, collapse = "\n")), shQuote(path)))
  if (status != 0L) stop("Python has failed")
}

# The numbers that `lines` write in a session of their own, which has regatta attached, `path`, and peak(): the most
# memory that it had, in MB. What a call needs is at most the difference of two, since the first is at least what the
# session has by then.
h5_measured <- function(path, lines) {
  script <- withr::local_tempfile(fileext = ".R", lines = c(
    "suppressWarnings(library(regatta))",
    "path <- commandArgs(TRUE)[[1L]]",
    "peak <- function() {",
    "  as.numeric(gsub('[^0-9]', '', grep('VmHWM', readLines('/proc/self/status'), value = TRUE))) / 1024",
    "}",
    lines
  ))
  result <- processx::run(file.path(R.home("bin"), "Rscript"), c("--vanilla", script, path),
    error_on_status = FALSE, timeout = 300 * slowness(),
    env = c("current", R_LIBS = paste(.libPaths(), collapse = ":"), R_TESTS = "")
  )
  testthat::expect_identical(result$status, 0L, info = result$stderr)
  scan(text = result$stdout, quiet = TRUE)
}

# In MB. A sanitizer has memory of its own beside each block.
expect_memory_below <- function(needed, most) {
  if (identical(Sys.getenv("REGATTA_SANITIZER"), "")) testthat::expect_lt(needed, most)
}

# A folder with the files, those that h5py makes or the few that are kept. `which` of make.py, if not the usual ones.
local_h5_files <- function(which = character(), env = parent.frame()) {
  folder <- withr::local_tempdir("h5-", .local_envir = env)
  python <- h5_python()
  if (nzchar(python)) {
    status <- system2(python, shQuote(c(testthat::test_path("h5", "make.py"), folder, which)))
    if (status != 0L) stop("make.py has failed")
  } else {
    file.copy(Sys.glob(testthat::test_path("h5", "*.h5")), folder)
  }
  folder
}

h5_file <- function(folder, name) {
  path <- file.path(folder, name)
  if (!file.exists(path)) testthat::skip(sprintf("no Python with h5py has written %s", name))
  path
}

# What make.py writes, as R sees it: the last index of the file runs along a column.
h5_values_of <- function(rows, columns) {
  outer(seq_len(rows) - 1, seq_len(columns) - 1, function(j, i) (37 * i + 11 * j) %% 113)
}

datasets_of <- function(path) {
  found <- h5_ls(path)
  found$name[found$kind == "dataset"]
}

h5_error <- function(code) {
  testthat::expect_error(code, class = "regatta_error_h5")
}
