# Compares the symbols that built libraries take from R with the entry points that packages may
# use (tools/r-api.txt): what R exports today without promising it is gone in a later version.
#   Rscript tools/check-nonapi.R LIBRARY...     prints the names that are no API, status 1 if any

# In the headers of R < 4.4 the API's MAYBE_SHARED() and NO_REFERENCES() are macros over this one.
symbols_of_macros <- "REFCNT"

# R < 4.6 has no API that looks at a variable without forcing a promise, or at the attributes of an object, R < 4.5 none
# for the environment of a closure and what encloses it.
symbols_of_older_r <- c("ATTRIB", "CLOENV", "ENCLOS", "PRENV", "PRVALUE", "R_PromiseExpr", "Rf_findVarInFrame")

unmapped <- function(names) sub("^Rf_", "", sub("_$", "", sub("^_", "", names)))

read_symbols <- function(library, which) {
  lines <- suppressWarnings(
    system2("nm", c("-D", "-P", paste0("--", which, "-only"), shQuote(library)), stdout = TRUE)
  )
  if (length(lines) == 0L) stop("nm finds no ", which, " symbols in ", library, call. = FALSE)
  sub("@.*$", "", sub(" .*$", "", lines))
}

r_library <- function() {
  shared <- file.path(R.home("lib"), "libR.so")
  if (file.exists(shared)) shared else file.path(R.home("bin"), "exec", "R")
}

read_api <- function(path) {
  lines <- readLines(path)
  lines[nzchar(lines) & !startsWith(lines, "#")]
}

# Names among `used` that R exports and does not offer.
nonapi_symbols <- function(used, exported, api) {
  from_r <- intersect(used, exported)
  known <- c(symbols_of_macros, if (getRversion() < "4.6") symbols_of_older_r)
  sort(from_r[!unmapped(from_r) %in% api & !from_r %in% known])
}

check_nonapi <- function(library, api = "tools/r-api.txt") {
  used <- read_symbols(library, "undefined")
  exported <- read_symbols(r_library(), "defined")
  if (length(intersect(used, exported)) == 0L) {
    stop(library, " takes nothing from R: is it the right file?", call. = FALSE)
  }
  nonapi_symbols(used, exported, read_api(api))
}

if (sys.nframe() == 0L) {
  arguments <- commandArgs(TRUE)
  if (length(arguments) == 0L || !all(file.exists(arguments))) {
    stop("usage: check-nonapi.R path/to/library.so [...]", call. = FALSE)
  }
  found <- unique(unlist(lapply(arguments, check_nonapi)))
  writeLines(sprintf("entry points: %s is not in R's API", found))
  if (length(found) > 0L) quit(status = 1L)
  cat("entry points: nothing outside R's API\n")
}
