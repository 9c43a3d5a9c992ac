# The R packages of a goal, from the fields of DESCRIPTION.
#   setup.R missing GOAL   what is not installed, or too old: "name version" lines
#   setup.R closure GOAL   the same, with all that those depend on
#   setup.R wanted GOAL    all of them, there or not
#   setup.R install GOAL   installs them from the configured repositories into the tree's library
# Goals: run, demo, test, peers, bench, site. Peers, those of a benchmark or the site, and Config/Needs/test may stay
# missing; all else may not.

# "a, b (>= 1.2)" -> c(a = "0", b = "1.2")
parse_field <- function(text) {
  parts <- trimws(strsplit(gsub("[[:space:]]+", " ", text), ",", fixed = TRUE)[[1]])
  parts <- parts[nzchar(parts)]
  names <- sub("[ (].*$", "", parts)
  versions <- ifelse(
    grepl(">", parts, fixed = TRUE), gsub("^.*>=? *|[ )].*$", "", sub("\\)$", "", parts)), "0"
  )
  stats::setNames(versions, names)
}

parse_fields <- function(record, fields) {
  text <- record[intersect(fields, names(record))]
  text <- text[!is.na(text)]
  out <- unlist(lapply(unname(text), parse_field))
  out[!names(out) %in% c("R", "regatta")]
}

read_description <- function(path) {
  read.dcf(path, keep.white = character())[1, ]
}

wanted_packages <- function(goal) {
  strong <- c("Depends", "Imports", "LinkingTo")
  fields <- switch(goal,
    run = strong,
    demo = c(strong, "Config/Needs/demo"),
    test = c(strong, "Suggests", "Config/Needs/demo", "Config/Needs/test"),
    peers = c(strong, "Suggests", "Enhances", "Config/Needs/peers"),
    bench = c(strong, "Suggests", "Config/Needs/bench"),
    site = c(strong, "Suggests", "Config/Needs/website"),
    stop("no such goal: ", goal)
  )
  wanted <- parse_fields(read_description("DESCRIPTION"), fields)
  if (goal == "test") {
    examples <- Sys.glob("examples/*/DESCRIPTION")
    more <- lapply(examples, function(path) {
      parse_fields(read_description(path), c(strong, "Suggests"))
    })
    wanted <- c(wanted, unlist(more))
  }
  wanted[!duplicated(names(wanted))]
}

# What of these may stay missing.
spared_packages <- function(goal) {
  if (goal %in% c("bench", "peers", "site")) {
    names(wanted_packages(goal))
  } else {
    names(parse_fields(read_description("DESCRIPTION"), "Config/Needs/test"))
  }
}

is_satisfied <- function(name, version, installed) {
  have <- installed[rownames(installed) == name, "Version"]
  length(have) > 0L && package_version(have[[1]]) >= version
}

missing_packages <- function(wanted, installed) {
  ok <- vapply(seq_along(wanted), function(i) {
    is_satisfied(names(wanted)[i], wanted[[i]], installed)
  }, NA)
  wanted[!ok]
}

# A repository must be chosen before anything can be asked of it; the first entry of R's own list
# of mirrors is the one that finds a near server by itself.
choose_repository <- function() {
  if (identical(unname(getOption("repos")["CRAN"]), "@CRAN@") || is.null(getOption("repos"))) {
    mirrors <- utils::getCRANmirrors(local.only = TRUE)
    options(repos = c(CRAN = sub("/$", "", mirrors$URL[[1]])))
  }
}

# Everything that has to be installed for `missing`, at the versions asked for: install.packages()
# looks at names only, and an old version found elsewhere would make the newer package fail.
with_dependencies <- function(missing, installed, available) {
  out <- missing
  queue <- names(missing)
  while (length(queue) > 0L) {
    name <- queue[[1]]
    queue <- queue[-1]
    if (!name %in% rownames(available)) next
    needs <- parse_fields(available[name, ], c("Depends", "Imports", "LinkingTo"))
    needs <- missing_packages(needs, installed)
    needs <- needs[!names(needs) %in% names(out)]
    out <- c(out, needs)
    queue <- c(queue, names(needs))
  }
  out
}

print_packages <- function(packages) {
  writeLines(sprintf("%s %s", names(packages), packages))
}

install_from_repository <- function(goal, packages, available) {
  lib <- Sys.getenv("REGATTA_LIB")
  if (!nzchar(lib)) stop("REGATTA_LIB is not set: run this through tools/with-lib.sh")
  there <- intersect(names(packages), rownames(available))
  if (length(there) > 0L) {
    message("set-up: installing from CRAN into ", lib, ": ", toString(there))
    utils::install.packages(
      there, lib,
      dependencies = FALSE, available = available, quiet = TRUE,
      Ncpus = max(1L, parallel::detectCores(), na.rm = TRUE)
    )
  }
  install_from_archive(packages[setdiff(names(packages), there)], lib, available)
  still <- names(missing_packages(wanted_packages(goal), utils::installed.packages()))
  if (length(still) == 0L) return(invisible())
  text <- paste0("set-up: cannot be had here: ", toString(still))
  if (nrow(available) == 0L) {
    text <- paste0(text, ". No list of packages could be read from ", toString(getOption("repos")))
  }
  if (!all(still %in% spared_packages(goal))) stop(text, call. = FALSE)
  message(text, ". What needs these is skipped by name.")
}

# What a repository no longer lists, or lists only for a newer R, it may still keep under the
# version that DESCRIPTION names.
install_from_archive <- function(packages, lib, available) {
  packages <- packages[packages != "0"]
  for (name in names(packages)) {
    file <- sprintf("%s_%s.tar.gz", name, packages[[name]])
    url <- paste(utils::contrib.url(getOption("repos")[["CRAN"]]), "Archive", name, file, sep = "/")
    path <- file.path(tempdir(), file)
    got <- suppressWarnings(try(utils::download.file(url, path, quiet = TRUE), silent = TRUE))
    if (!identical(got, 0L)) next
    message("set-up: installing from the archive of CRAN into ", lib, ": ", file)
    install_needs(path, name, lib, available)
    utils::install.packages(path, lib, repos = NULL, type = "source", quiet = TRUE)
  }
}

install_needs <- function(tarball, name, lib, available) {
  inner <- file.path(name, "DESCRIPTION")
  utils::untar(tarball, inner, exdir = tempdir())
  record <- read_description(file.path(tempdir(), inner))
  installed <- utils::installed.packages()
  needs <- missing_packages(parse_fields(record, c("Depends", "Imports", "LinkingTo")), installed)
  needs <- names(with_dependencies(needs, installed, available))
  if (length(needs) > 0L) {
    utils::install.packages(needs, lib, dependencies = FALSE, available = available, quiet = TRUE)
  }
}

main <- function(action, goal) {
  if (action == "wanted") return(print_packages(wanted_packages(goal)))
  installed <- utils::installed.packages()
  missing <- missing_packages(wanted_packages(goal), installed)
  if (action == "missing" || length(missing) == 0L) {
    print_packages(missing)
    return(invisible())
  }
  choose_repository()
  available <- utils::available.packages()
  packages <- with_dependencies(missing, installed, available)
  if (action == "closure") print_packages(packages)
  if (action == "install") install_from_repository(goal, packages, available)
}

arguments <- commandArgs(TRUE)
if (length(arguments) != 2L || !arguments[[1]] %in% c("missing", "closure", "wanted", "install")) {
  stop("usage: setup.R missing|closure|wanted|install run|demo|test|peers|bench|site", call. = FALSE)
}
main(arguments[[1]], arguments[[2]])
