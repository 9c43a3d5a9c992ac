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
