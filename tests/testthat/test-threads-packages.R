detritus <- detritus_snapshot()

# Two packages of one session, compiled in different ways, each inside the other's loops and tasks.

packages_meet <- function(lib) {
  .libPaths(c(lib, .libPaths()))
  one <- asNamespace(loadNamespace("partone"))
  two <- asNamespace(loadNamespace("parttwo"))
  outcome <- function(expr) {
    tryCatch(expr, error = function(e) paste("error:", conditionMessage(e)),
      interrupt = function(e) "interrupt")
  }
  list(
    compilers = c(one$compiler(), two$compiler()),
    one = unlist(one$meet("parttwo")), two = unlist(two$meet("partone")),
    value = outcome(one$work(function() two$work(function() 7))),
    error = outcome(one$work(function() two$work(function() stop("of the inner")))),
    restart = withRestarts(one$work(function() two$work(function() invokeRestart("r", 8))),
      r = function(x) x),
    interrupt = outcome(one$work(function() two$work(function() {
      tools::pskill(Sys.getpid(), tools::SIGINT)
      repeat Sys.sleep(0.01)
    }))),
    afterwards = outcome(two$work(function() 9))
  )
}

expect_packages_meet <- function(lib, share, compilers = NULL) {
  got <- fault_run(packages_meet, list(lib), env = c(REGATTA_THREADS = "4"))$value
  # All complete, 4 times 1000 bodies, regatta::Error, cancelled early.
  wanted <- c(0L, 0L, 0L, 0L, 4000L, 2L, 1L, as.integer(share))
  expect_identical(got$one, wanted)
  expect_identical(got$two, wanted)
  if (!is.null(compilers)) expect_identical(got$compilers, compilers)
  expect_identical(got[c("value", "error", "restart", "interrupt", "afterwards")], list(
    value = 7, error = "error: of the inner", restart = 8, interrupt = "interrupt", afterwards = 9
  ))
}

# A library with "partone" as R builds it; it is built once.
library_of_one <- withr::local_tempdir("threads-lib-")
local_library <- function(frame = parent.frame()) {
  if (!dir.exists(file.path(library_of_one, "partone"))) threads_install("partone", library_of_one)
  lib <- withr::local_tempdir("threads-lib-", .local_envir = frame)
  file.copy(file.path(library_of_one, "partone"), lib, recursive = TRUE)
  lib
}

test_that("a package whose symbols are hidden shares threads with one whose are not", {
  lib <- local_library()
  threads_install("parttwo", lib, src = "PKG_CXXFLAGS = $(CXX_VISIBILITY)")
  expect_packages_meet(lib, share = TRUE)
})

test_that("packages built by gcc and by clang share threads", {
  clang <- clang_here()
  skip_if(is.na(clang), "clang++ is not installed")
  skip_if(Sys.which("g++") == "", "g++ is not installed")
  lib <- withr::local_tempdir("threads-lib-")
  # Whatever R and the user build by.
  by <- function(command) c(paste(c("CXX", "CXX11", "CXX14", "CXX17"), "=", command), "LTO =")
  threads_install("partone", lib, by(clang), src = "PKG_CXXFLAGS = $(CXX_VISIBILITY)")
  threads_install("parttwo", lib, by("g++"), src = "PKG_CXXFLAGS = -fno-gnu-unique")
  expect_packages_meet(lib, share = TRUE, compilers = c("clang", "gcc"))
})

# What is loaded for all is what the program itself seems to have.
test_that("libraries share threads in whatever order and for whomever they are loaded", {
  hidden <- "-fvisibility=hidden"
  libraries <- list(
    threads_compile("threads-process.cpp", "first", flags = hidden),
    threads_compile("threads-process.cpp", "second", flags = "-fno-gnu-unique"),
    threads_compile("threads-process.cpp", "third", flags = hidden)
  )
  for (global in list(c(FALSE, TRUE, FALSE), c(TRUE, FALSE, FALSE), c(FALSE, FALSE, TRUE))) {
    found <- fault_run(function(libraries, global) {
      loaded <- Map(function(path, all) dyn.load(path, local = !all), libraries, global)
      vapply(loaded, function(dll) .Call(getNativeSymbolInfo("process_at", dll)), "")
    }, list(libraries, global))$value
    expect_length(unique(found), 1L)
  }
})

test_that("a package with other forms of the standard classes has threads of its own", {
  lib <- local_library()
  threads_install("parttwo", lib, src = "PKG_CXXFLAGS = -D_GLIBCXX_DEBUG")
  expect_packages_meet(lib, share = FALSE)
})

test_that("nothing is left behind", {
  unlink(library_of_one, recursive = TRUE)
  expect_no_detritus(detritus)
})
