detritus <- detritus_snapshot()

nonapi_checker <- function() {
  candidates <- c(Sys.getenv("REGATTA_SOURCE"), test_path("..", ".."))
  found <- candidates[file.exists(file.path(candidates, "tools", "check-nonapi.R"))]
  if (length(found) == 0L) skip("the sources of the package are not here")
  if (Sys.which("nm") == "") skip("no command nm")
  if (Sys.info()[["sysname"]] != "Linux") skip("nm is asked as on Linux")
  env <- new.env(parent = globalenv())
  sys.source(file.path(found[[1]], "tools", "check-nonapi.R"), env)
  env$api <- file.path(found[[1]], "tools", "r-api.txt")
  env
}

test_that("the libraries take from R only what is API", {
  checker <- nonapi_checker()
  libraries <- list.files(dirname(getLoadedDLLs()[["regatta"]][["path"]]), "[.]so$", full.names = TRUE)
  expect_setequal(basename(libraries), c("regatta.so", "regatta_h5.so"))
  for (library in libraries) expect_identical(checker$check_nonapi(library, checker$api), character())
})

test_that("what R no longer offers is found", {
  checker <- nonapi_checker()
  exported <- checker$read_symbols(checker$r_library(), "defined")
  gone <- c("DATAPTR", "Rf_allocVector3", "SET_ATTRIB", "SET_S4_OBJECT")
  used <- c(gone, "Rf_allocVector", "R_CheckUserInterrupt", "REFCNT", "memcpy")
  expect_identical(
    checker$nonapi_symbols(used, exported, checker$read_api(checker$api)), sort(gone)
  )
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
