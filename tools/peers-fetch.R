# Gets R packages that are peers: unpacks the sources into DIR/src and installs them, with what they
# need, into DIR/lib.
#   Rscript tools/peers-fetch.R [--sources] DIR PACKAGE[=VERSION] ...
# With --sources nothing is installed.
# A version is looked for among the current packages of CRAN and then in its archive. What is there
# already is not fetched again; the status is 1 if something cannot be had.
arguments <- commandArgs(TRUE)
installs <- arguments[[1L]] != "--sources"
if (!installs) arguments <- arguments[-1L]
dir <- arguments[[1L]]
src <- file.path(dir, "src")
lib <- file.path(dir, "lib")
for (path in c(src, lib)) dir.create(path, showWarnings = FALSE, recursive = TRUE)
.libPaths(c(.libPaths(), lib))
repository <- getOption("repos")[["CRAN"]]
if (identical(repository, "@CRAN@")) {
  repository <- sub("/$", "", utils::getCRANmirrors(local.only = TRUE)$URL[[1L]])
}
options(repos = c(CRAN = repository), timeout = 60)
quiet <- function(code) suppressWarnings(suppressMessages(code))

fetch <- function(name, version) {
  folder <- file.path(src, name)
  if (dir.exists(folder)) return(TRUE)
  file <- if (is.na(version)) {
    tryCatch(quiet(utils::download.packages(name, src, type = "source", quiet = TRUE))[1L, 2L],
      error = function(e) NA)
  } else {
    fetch_version(sprintf("%s_%s.tar.gz", name, version), name)
  }
  if (is.na(file)) return(FALSE)
  # The folder appears whole: an unpacking that was broken off is begun again.
  part <- tempfile("unpack-", src)
  utils::untar(file, exdir = part)
  file.rename(file.path(part, name), folder)
  unlink(c(part, file), recursive = TRUE)
  dir.exists(folder)
}

fetch_version <- function(file, name) {
  base <- utils::contrib.url(repository, "source")
  path <- file.path(src, file)
  for (url in c(file.path(base, file), file.path(base, "Archive", name, file))) {
    got <- tryCatch(quiet(utils::download.file(url, path, quiet = TRUE)), error = function(e) 1L)
    if (identical(got, 0L)) return(path)
  }
  NA
}

needs <- function(name) {
  record <- read.dcf(file.path(src, name, "DESCRIPTION"), c("Depends", "Imports", "LinkingTo"))
  names <- trimws(sub("[(].*", "", unlist(strsplit(record[!is.na(record)], ","))))
  setdiff(names[nzchar(names)], "R")
}

is_there <- function(name) nzchar(system.file(package = name))

install <- function(name) {
  if (is_there(name)) return(TRUE)
  missing <- Filter(function(need) !is_there(need), needs(name))
  if (length(missing) > 0L) quiet(utils::install.packages(missing, lib, quiet = TRUE))
  quiet(utils::install.packages(file.path(src, name), lib, repos = NULL, type = "source",
    quiet = TRUE))
  is_there(name)
}

for (wanted in arguments[-1L]) {
  name <- sub("=.*", "", wanted)
  version <- if (grepl("=", wanted)) sub(".*=", "", wanted) else NA
  if (!fetch(name, version) || (installs && !install(name))) {
    message("peers: ", wanted, " cannot be had from ", repository)
    quit(status = 1L)
  }
}
