# Compiles a C++ file of this folder, or `code`, against R and the headers of regatta, into a library
# for dyn.load(). `flags` come last and win.
threads_compile <- function(file, name = sub("[.]cpp$", "", basename(file)), compiler = NULL,
                            flags = character(), env = parent.frame()) {
  dir <- withr::local_tempdir("threads-", .local_envir = env)
  library <- file.path(dir, paste0(name, .Platform$dynlib.ext))
  config <- function(what) {
    scan(text = system2(file.path(R.home("bin"), "R"), c("CMD", "config", what), stdout = TRUE),
      what = "", quiet = TRUE)
  }
  compile <- if (is.null(compiler)) config("CXX") else compiler
  if (Sys.which(compile[[1L]]) == "") {
    testthat::skip(paste("no C++ compiler", compile[[1L]]))
  }
  if (nzchar(Sys.getenv("REGATTA_SANITIZER"))) {
    flags <- c("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", flags)
  }
  log <- suppressWarnings(system2(compile[[1L]], c(
    compile[-1L], "-g", "-O1", "-shared", "-fPIC", "-pthread", "-Wall", config("--cppflags"),
    paste0("-I", system.file("include", package = "regatta")), flags,
    shQuote(testthat::test_path(file)), "-o", library
  ), stdout = TRUE, stderr = TRUE))
  if (!file.exists(library)) {
    stop(compile[[1L]], " refuses ", file, ":\n", paste(log, collapse = "\n"), call. = FALSE)
  }
  library
}

# Installs the package in threads-package/ as `name` into `lib`, with `makevars` after R's own settings
# and `src` in the package's Makevars. Which symbols are shared does not depend on optimization, which
# takes most of the time of compiling.
threads_install <- function(name, lib, makevars = character(), src = character()) {
  dir <- withr::local_tempdir("threads-package-")
  file.copy(testthat::test_path("threads-package"), dir, recursive = TRUE)
  root <- file.path(dir, "threads-package")
  for (file in file.path(root, c("DESCRIPTION", "NAMESPACE", "src/init.cpp"))) {
    writeLines(gsub("NAME", name, readLines(file), fixed = TRUE), file)
  }
  writeLines(c("PKG_CPPFLAGS = -pthread", "PKG_LIBS = -pthread", src), file.path(root, "src/Makevars"))
  settings <- Sys.getenv("R_MAKEVARS_USER", path.expand("~/.R/Makevars"))
  own <- file.path(dir, "Makevars")
  flags <- paste0(c("CXX", "CXX11", "CXX14", "CXX17"), "FLAGS = -O0")
  writeLines(c(if (file.exists(settings)) readLines(settings), flags, makevars), own)
  log <- suppressWarnings(system2(
    file.path(R.home("bin"), "R"),
    c("CMD", "INSTALL", "--no-multiarch", "--no-docs", "--no-byte-compile", "--no-test-load",
      "-l", shQuote(lib), shQuote(root)),
    stdout = TRUE, stderr = TRUE,
    env = c(paste0("R_MAKEVARS_USER=", own), "MAKEFLAGS=-j2", "R_TESTS=",
      paste0("R_LIBS=", shQuote(paste(.libPaths(), collapse = ":"))))
  ))
  if (!dir.exists(file.path(lib, name))) {
    stop("package ", name, " cannot be installed:\n", paste(log, collapse = "\n"), call. = FALSE)
  }
}

clang_here <- function() {
  found <- Sys.which(c("clang++", paste0("clang++-", 20:14)))
  unname(found[nzchar(found)])[1L]
}
