# Builds packages of CRAN that link to RcppThread against the headers of this package, and runs their
# tests, or where they have none their examples.
#   Rscript tools/peers-rcppthread-users.R DIR PACKAGE[=VERSION] ...
# Sources go to DIR/src, what they need and they themselves to DIR/lib and DIR/rcppthread-users.
# Prints a line for each case: PACKAGE: what<tab>passed|failed|skipped<tab>why.
arguments <- commandArgs(TRUE)
dir <- normalizePath(arguments[[1L]])
src <- file.path(dir, "src")
needed <- file.path(dir, "lib")
own <- file.path(dir, "rcppthread-users")
for (path in c(src, needed, own)) dir.create(path, showWarnings = FALSE, recursive = TRUE)
.libPaths(c(.libPaths(), needed))
Sys.setenv(R_LIBS = paste(c(own, .libPaths()), collapse = ":"))
Sys.unsetenv("R_TESTS")
if (identical(getOption("repos")[["CRAN"]], "@CRAN@")) {
  options(repos = c(CRAN = sub("/$", "", utils::getCRANmirrors(local.only = TRUE)$URL[[1L]])))
}
options(timeout = 60)
# After R's and the user's own settings: where RcppThread's headers are looked for, and less work for the
# compiler than there is to do for users.
settings <- file.path(own, "Makevars")
compat <- system.file("include", "regatta", "compat", package = "regatta")
before <- Sys.getenv("R_MAKEVARS_USER", path.expand("~/.R/Makevars"))
flags <- paste0(c("CXX", "CXX11", "CXX14", "CXX17", "CXX20"), "FLAGS = -O1 -g0")
writeLines(c(
  if (file.exists(before)) readLines(before), paste0("CPPFLAGS += -pthread -I", compat), flags
), settings)
Sys.setenv(R_MAKEVARS_USER = settings)
rscript <- file.path(R.home("bin"), "Rscript")
limit <- 1200

case <- function(package, what, result, why = "") {
  why <- substr(gsub("[[:space:]]+", " ", paste(why, collapse = " ")), 1L, 200L)
  cat(sprintf("%s: %s\t%s\t%s\n", package, what, result, why))
}

fetch <- function(wanted) {
  status <- system2(rscript, c("--vanilla", "tools/peers-fetch.R", "--sources", shQuote(dir), wanted),
    stderr = FALSE)
  status == 0L
}

field_names <- function(text) {
  trimws(sub("[(].*", "", strsplit(paste(text, collapse = ","), ",")[[1L]]))
}

# One that was built here before is there for those that need it.
is_there <- function(name) nzchar(system.file(package = name, lib.loc = c(own, .libPaths())))

# What has to be there to build it; what is missing and can be had is installed.
missing_needs <- function(record) {
  fields <- record[1L, intersect(colnames(record), c("Depends", "Imports", "LinkingTo"))]
  needs <- setdiff(field_names(fields[!is.na(fields)]), c("R", "", "RcppThread"))
  missing <- Filter(Negate(is_there), needs)
  if (length(missing) > 0L && nzchar(Sys.getenv("PEERS_INSTALL"))) {
    suppressWarnings(utils::install.packages(missing, needed, quiet = TRUE))
    missing <- Filter(Negate(is_there), missing)
  }
  missing
}

# The folder with RcppThread's place in DESCRIPTION and on the include path taken by regatta.
redirect <- function(package) {
  folder <- file.path(tempfile("redirect-"), package)
  dir.create(dirname(folder))
  file.copy(file.path(src, package), dirname(folder), recursive = TRUE)
  path <- file.path(folder, "DESCRIPTION")
  record <- read.dcf(path, keep.white = character())
  linked <- field_names(record[1L, "LinkingTo"])
  record[1L, "LinkingTo"] <- paste(sub("^RcppThread$", "regatta", linked), collapse = ", ")
  if ("Imports" %in% colnames(record) && !is.na(record[1L, "Imports"])) {
    imports <- strsplit(record[1L, "Imports"], ",")[[1L]]
    imports <- imports[!grepl("^\\s*RcppThread\\b", imports)]
    record[1L, "Imports"] <- paste(imports, collapse = ",")
  }
  write.dcf(record[, nzchar(record[1L, ]), drop = FALSE], path)
  # An import of the namespace is there for the headers' sake, or for a function that R has as well.
  path <- file.path(folder, "NAMESPACE")
  lines <- readLines(path)
  lines <- sub("importFrom\\(RcppThread, *detectCores\\)", "importFrom(parallel, detectCores)", lines)
  writeLines(grep("import(From)?\\(\"?RcppThread", lines, value = TRUE, invert = TRUE), path)
  # What CRAN builds with by default since R 4.3.
  makevars <- file.path(folder, "src", "Makevars")
  lines <- if (file.exists(makevars)) readLines(makevars, warn = FALSE)
  if (getRversion() < "4.3" && !any(grepl("^CXX_STD", lines))) {
    writeLines(c(lines, "", "CXX_STD = CXX17"), makevars)
  }
  folder
}

run <- function(command, arguments, log) {
  status <- suppressWarnings(system2(command, arguments, stdout = log, stderr = log, timeout = limit))
  if (identical(status, 124L)) "over its time" else if (status != 0L) utils::tail(readLines(log), 3L)
}

tell_tests <- function(package, got) {
  got$name <- make.unique(paste0("tests, ", sub("\\.R$", "", got$file), ": ", got$test))
  bad <- got$failed > 0L | got$error
  for (i in which(bad)) case(package, got$name[[i]], "failed")
  for (i in which(!bad & got$skipped)) case(package, got$name[[i]], "skipped")
  case(package, sprintf("tests, %d expectations", sum(got$passed[!bad])), "passed")
}

run_tests <- function(package, folder) {
  tests <- file.path(folder, "tests", "testthat")
  log <- tempfile()
  if (dir.exists(tests)) {
    result <- tempfile(fileext = ".rds")
    code <- sprintf(paste(
      "options(warn = 1); library(testthat);",
      "r <- as.data.frame(test_dir('%s', package = '%s', load_package = 'installed',",
      "reporter = 'silent', stop_on_failure = FALSE));",
      "saveRDS(r[c('file', 'test', 'passed', 'failed', 'skipped', 'error')], '%s')"),
      tests, package, result)
    why <- run(rscript, c("--vanilla", "-e", shQuote(code)), log)
    if (!file.exists(result)) return(case(package, "tests", "failed", why))
    got <- readRDS(result)
    # Files whose expectations are in no test have no row.
    if (nrow(got) > 0L) return(tell_tests(package, got))
  }
  code <- sprintf(paste(
    "library('%s'); db <- tools::Rd_db('%s'); file <- tempfile();",
    "for (page in db) { unlink(file); tools::Rd2ex(page, file);",
    "if (file.exists(file)) source(file, local = new.env()) }"
  ), package, package)
  why <- run(rscript, c("--vanilla", "-e", shQuote(code)), log)
  case(package, "examples", if (is.null(why)) "passed" else "failed", why)
}

for (wanted in arguments[-1L]) {
  package <- sub("=.*", "", wanted)
  if (!fetch(wanted)) {
    case(package, "build", "skipped", "it cannot be had")
    next
  }
  record <- read.dcf(file.path(src, package, "DESCRIPTION"))
  missing <- missing_needs(record)
  if (length(missing) > 0L) {
    case(package, "build", "skipped", paste("it needs", toString(missing)))
    next
  }
  folder <- redirect(package)
  log <- file.path(own, paste0(package, ".log"))
  why <- run(file.path(R.home("bin"), "R"), c("CMD", "INSTALL", "--no-multiarch", "--install-tests",
    "-l", shQuote(own), shQuote(folder)), log)
  version <- record[1L, "Version"]
  if (is.null(why)) {
    case(package, paste("build of", version), "passed")
    run_tests(package, folder)
  } else {
    case(package, paste("build of", version), "failed", why)
  }
  unlink(dirname(folder), recursive = TRUE)
}
