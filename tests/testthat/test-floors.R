detritus <- detritus_snapshot()

# The sources are beside an uninstalled package, and named by the caller when R CMD check runs this.
source_root <- function() {
  candidates <- c(Sys.getenv("REGATTA_SOURCE"), test_path("..", ".."))
  found <- candidates[file.exists(file.path(candidates, "tools", "check-floors.R"))]
  if (length(found) == 0L) skip("the sources of the package are not here")
  found[[1]]
}

checker <- function() {
  skip_if_not_installed("codetools")
  env <- new.env(parent = globalenv())
  sys.source(file.path(source_root(), "tools", "check-floors.R"), env)
  env
}

# A package in miniature: the real table of floors and the files given.
miniature <- function(files, env = parent.frame()) {
  root <- withr::local_tempdir(.local_envir = env)
  for (folder in c("tools", "src", "R", "inst/include/regatta/core")) {
    dir.create(file.path(root, folder), recursive = TRUE)
  }
  file.copy(file.path(source_root(), "tools", "floors.csv"), file.path(root, "tools"))
  for (name in names(files)) writeLines(files[[name]], file.path(root, name))
  root
}

test_that("no file of the package knows a floor above its own", {
  found <- checker()$check_floors(source_root())
  expect_identical(paste(found, collapse = "\n"), "")
})

test_that("an include of a higher floor is found", {
  root <- miniature(list(
    "src/queue.c" = "#include \"shm-vector.h\"", "src/shm-vector.h" = "", "src/sys-fd.h" = ""
  ))
  expect_match(checker()$check_floors(root), "queue.c \\(floor 1\\) includes shm-vector.h")
})

test_that("an R header on the two lowest floors is found, in C++ core headers too", {
  root <- miniature(list(
    "src/sys-fd.c" = c("#include <errno.h>", "#  include <R_ext/Error.h>"),
    "inst/include/regatta/core/pool.hpp" = "#include <Rinternals.h>"
  ))
  found <- checker()$check_floors(root)
  expect_length(found, 2L)
  expect_match(found[[1]], "sys-fd.c \\(floor 0\\) includes R_ext/Error.h")
  expect_match(found[[2]], "core/pool.hpp includes Rinternals.h")
})

test_that("what C calls of R is on its floor or below, is there, and is called in one way", {
  root <- miniature(list(
    "src/encode.c" = c("rg_call_r(\"driver_run\", 1, x);", "rg_call_r(", "\"rng_use\", 0);"),
    "src/shm-view.c" = "rg_call_r(\"nowhere\", 0); SEXP space = R_FindNamespace(package);",
    "src/shm-lock.c" = c("SEXP call = Rf_lang1(Rf_install(\"rng_use\"));", "Rf_install(\"names\");"),
    "R/driver.R" = "driver_run <- function(x) x", "R/rng.R" = "rng_use <- function() 1"
  ))
  found <- checker()$check_floors(root)
  expect_length(found, 4L)
  expect_match(found[[1]], "encode.c \\(floor 2\\) calls driver_run\\(\\) of R/driver.R \\(floor 4\\)")
  expect_match(found[[2]], "shm-lock.c calls R by name, but not by rg_call_r")
  expect_match(found[[3]], "shm-view.c calls nowhere\\(\\), which is no function of R/")
  expect_match(found[[4]], "shm-view.c calls R by name, but not by rg_call_r")
})

test_that("a call to a function of a higher floor is found, by name or as a value", {
  root <- miniature(list(
    "R/par-lapply.R" = "par_lapply <- function(X) driver_run(X)",
    "R/driver.R" = "driver_run <- function(x) lapply(x, evaluate_one)",
    "R/evaluator.R" = c(
      "evaluate_one <- function(x) x",
      "table <- list(start = function(x) par_lapply(x), apply = driver_run)"
    )
  ))
  found <- checker()$check_floors(root)
  expect_length(found, 2L)
  expect_match(found, "^R/evaluator.R \\(floor 2\\) uses (par_lapply|driver_run)\\(\\)")
})

test_that("a file without a floor is found", {
  root <- miniature(list("src/odd.c" = "", "R/odd.R" = "f <- function() 1"))
  expect_match(checker()$check_floors(root), "odd.*no floor")
})

test_that("every row of the table of floors is of some file", {
  expect_identical(checker()$rows_without_files(source_root()), character())
  root <- miniature(list("src/queue.c" = ""))
  found <- checker()$rows_without_files(root)
  expect_match(found, "no file of src/ begins with \"ring\"", all = FALSE, fixed = TRUE)
  expect_false(any(grepl("\"queue\"", found)))
})

test_that("a kind of worker that the driver or a verb names is found, comments and the drop-in's names not", {
  root <- miniature(list(
    "R/driver.R" = c("# forked workers", "drive <- function(on) if (inherits(on, \"cluster\")) 1"),
    "R/par-lapply.R" = "par_lapply <- function(X) is_forked(X)",
    "R/par-call.R" = "par_call <- function(on) if (on$kind == \"pool\") spoolers + 1",
    "R/mclapply.R" = "mclapply <- function(mc.force.fork, ...) mc.force.fork[1, ]",
    "R/executor-fork.R" = "executor_fork <- function(plan) list(kind = \"fork\")"
  ))
  found <- checker()$check_floors(root)
  expect_length(found, 3L)
  expect_match(found[[1]], "driver.R \\(floor 4\\) names a kind of worker: cluster")
  expect_match(found[[2]], "par-call.R \\(floor 5\\) names a kind of worker: pool")
  expect_match(found[[3]], "par-lapply.R \\(floor 5\\) names a kind of worker: is_forked")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
