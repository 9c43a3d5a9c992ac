# Breaks the code on purpose: does any test notice? Each record of tools/mutants.dcf is a fault (a mutant)
# that could slip in. It is put into a copy of the tree, which is built, and the test files that should
# notice are run, until one fails.
#   tools/mutate.sh [--check]
# --check looks at the list alone. Variables of the environment:
#   MUTANTS  regular expression on Id or File (all)    MUTATE_MOST  at most so many, of those without a result
#   MUTATE_JOBS  how many at a time (cores / 2)        MUTATE_SECONDS  none is begun after so many
#   MUTATE_FRESH=yes  forgets what earlier runs have found
# Results stay in .build/mutate/results until the mutant, the file it is in or a test file of it changes.
# Status 1: fewer than 19 of 20 mutants that are not equivalent are noticed (one that no test can be sure of is not),
# a mutant does not build, or some have no result though neither MUTATE_MOST nor MUTATE_SECONDS is given. Status 2:
# the list is wrong.
#
# Fields of a record:
#   Id, Breaks  a name, and what goes wrong then
#   File        of the tree
#   In          a line at which a function begins, where Find alone is not unique: Find is looked for from
#               there to the next line that is "}" (or "};")
#   Find        text that occurs exactly once; Replace  what is put into its place, nothing if it is empty
#   Tests       names of test files, as run-files.R takes them; "c" or "c:NAME" is the program of tests/c,
#               whole or the tests with this name; "cpp:NAME" the file tests/cpp/test-NAME.cpp
#   Equivalent  why nobody could notice; such a mutant is not run

list_file <- "tools/mutants.dcf"
out <- ".build/mutate"
fields <- c("Id", "File", "In", "Find", "Replace", "Breaks", "Tests", "Equivalent")

setting <- function(name, default) {
  value <- Sys.getenv(name)
  if (nzchar(value)) as.numeric(value) else default
}

fail_list <- function(problems) {
  writeLines(paste("mutate:", problems), stderr())
  quit(status = 2L)
}

read_mutants <- function() {
  lines <- readLines(list_file)
  connection <- textConnection(lines[!startsWith(lines, "#")])
  on.exit(close(connection))
  table <- as.data.frame(read.dcf(connection), stringsAsFactors = FALSE)
  unknown <- setdiff(names(table), fields)
  if (length(unknown) > 0L) fail_list(sprintf("there is no field %s", unknown))
  for (field in setdiff(fields, names(table))) table[[field]] <- NA_character_
  table[] <- lapply(table, function(column) ifelse(is.na(column), "", column))
  table
}

positions <- function(text, what) {
  at <- gregexpr(what, text, fixed = TRUE)[[1L]]
  at[at > 0L]
}

# The text of the file with the fault in it, or an error that says why there is none.
mutated <- function(mutant, folder = ".") {
  path <- file.path(folder, mutant$File)
  if (!file.exists(path)) stop("there is no file ", mutant$File)
  text <- paste0(paste(readLines(path), collapse = "\n"), "\n")
  from <- 1L
  to <- nchar(text)
  if (nzchar(mutant$In)) {
    at <- positions(text, paste0("\n", mutant$In))
    if (length(at) != 1L) stop(sprintf("%d lines begin with \"%s\"", length(at), mutant$In))
    end <- regexpr("\n}(;|)\n", substr(text, at, to))
    if (end < 0L) stop("the function does not end")
    from <- at
    to <- at + end
  }
  part <- substr(text, from, to)
  at <- positions(part, mutant$Find)
  if (length(at) != 1L) stop(sprintf("\"%s\" is there %d times", mutant$Find, length(at)))
  if (identical(mutant$Find, mutant$Replace)) stop("it changes nothing")
  at <- from + at - 1L
  paste0(substr(text, 1L, at - 1L), mutant$Replace, substr(text, at + nchar(mutant$Find), nchar(text)))
}

test_names <- function(mutant) strsplit(mutant$Tests, "[ ,]+")[[1L]]

test_path <- function(name) {
  if (name == "c" || startsWith(name, "c:")) {
    "tests/c"
  } else if (startsWith(name, "cpp:")) {
    sprintf("tests/cpp/test-%s.cpp", substring(name, 5L))
  } else {
    sprintf("tests/testthat/test-%s.R", name)
  }
}

check_mutants <- function(table) {
  problems <- unlist(lapply(seq_len(nrow(table)), function(i) {
    mutant <- table[i, ]
    missing <- c("Id", "File", "Find", "Breaks", "Tests")
    missing <- missing[!nzchar(unlist(mutant[missing]))]
    tests <- test_names(mutant)
    c(
      sprintf("%s has no %s", mutant$Id, missing),
      tryCatch(
        {
          mutated(mutant)
          NULL
        },
        error = function(e) sprintf("%s (%s): %s", mutant$Id, mutant$File, conditionMessage(e))
      ),
      sprintf("%s: there is no test %s", mutant$Id, tests[!file.exists(vapply(tests, test_path, ""))])
    )
  }))
  double <- unique(table$Id[duplicated(table$Id)])
  problems <- c(problems, sprintf("%s is there twice", double))
  if (length(problems) > 0L) fail_list(problems)
}

# Copies of the tree. Each job has one, with what has been compiled in it and a library of its own.

run <- function(command, arguments, log, env = character(), limit = 600) {
  suppressWarnings(system2("timeout", c("-k", "10", format(limit), command, shQuote(arguments)),
    stdout = log, stderr = log, stdin = "/dev/null", env = env))
}

# After the settings of the user. Compiling is most of the time; what a mutant changes shows without
# the last optimizations of C++ as well.
write_makevars <- function() {
  given <- Sys.getenv("R_MAKEVARS_USER", path.expand("~/.R/Makevars"))
  lines <- if (file.exists(given)) readLines(given)
  names <- c("CXX", "CXX11", "CXX14", "CXX17", "CXX20")
  if (nzchar(Sys.which("ccache"))) lines <- c(lines, "CC = ccache gcc", paste(names, "= ccache g++"))
  writeLines(c(lines, "CFLAGS = -O2", paste0(names, "FLAGS = -O1")), file.path(out, "Makevars"))
}

# How deep calls may be nested depends on whether they are byte code, as they are for users. Tests that look at that:
of_byte_code <- "settings"

# Byte code is made where one of `tests` needs it: it takes longer than it saves.
install <- function(place, log, configure = FALSE, tests = character()) {
  run(file.path(R.home("bin"), "R"), c("CMD", "INSTALL", "--no-multiarch", "--no-docs",
    if (!any(tests %in% of_byte_code)) "--no-byte-compile", "--no-test-load", "--no-staged-install", "--no-lock",
    if (!configure) "--no-configure", paste0("--library=", place$lib), place$tree), log,
    env = c(sprintf("R_MAKEVARS_USER=%s", file.path(normalizePath(out), "Makevars")), "MAKEFLAGS=-j1", "CCACHE_NOHASHDIR=1"))
}

# The files of the package and their tests as they are now, and as far as git would see them.
sources <- function() {
  system2("git", c("ls-files", "--cached", "--others", "--exclude-standard"), stdout = TRUE)
}

md5 <- function(...) {
  path <- tempfile()
  on.exit(unlink(path))
  writeLines(c(...), path)
  unname(tools::md5sum(path))
}

tree_version <- function() {
  files <- grep("^(R|src|inst|tests|DESCRIPTION|NAMESPACE)", sources(), value = TRUE)
  md5(files, tools::md5sum(files))
}

copy_sources <- function(tree) {
  unlink(tree, recursive = TRUE)
  dir.create(tree, recursive = TRUE)
  list <- tempfile()
  on.exit(unlink(list))
  files <- sources()
  writeLines(files[file.exists(files)], list)
  status <- system(sprintf("tar -cf - -T %s | tar -xf - -C %s", shQuote(list), shQuote(tree)))
  if (status != 0L) stop("cannot copy the tree to ", tree)
}

new_place <- function(name) {
  folder <- file.path(normalizePath(out), name)
  list(folder = folder, tree = file.path(folder, "regatta"), lib = file.path(folder, "lib"),
    stamp = file.path(folder, "version"))
}

# The first place is built, if a test needs the package; the others are copies of it.
make_places <- function(count, version, build) {
  write_makevars()
  places <- lapply(sprintf("place-%d", seq_len(count)), new_place)
  first <- places[[1L]]
  known <- if (file.exists(first$stamp)) readLines(first$stamp)
  if (!identical(known, version) && (build || !identical(known, c(version, "sources")))) {
    unlink(first$stamp)
    copy_sources(first$tree)
    unlink(first$lib, recursive = TRUE)
    dir.create(first$lib)
    log <- file.path(out, "install.log")
    if (build && install(first, log, configure = TRUE) != 0L) stop("the tree does not install: see ", log)
    writeLines(c(version, if (!build) "sources"), first$stamp)
  }
  for (place in places[-1L]) {
    unlink(place$folder, recursive = TRUE)
    dir.create(place$folder)
    status <- system2("cp", shQuote(c("-a", first$tree, first$lib, first$stamp, place$folder)))
    if (status != 0L) stop("cannot copy ", first$folder)
  }
  places
}

is_header <- function(file) grepl("[.](h|hpp)$", file)

# What make would not build anew by itself: R's rules know nothing of headers.
stale <- function(place, file) {
  if (startsWith(file, "src/") && is_header(file)) {
    unlink(Sys.glob(file.path(place$tree, "src", "*.o")))
  }
}

put <- function(place, file, text) {
  writeLines(text, file.path(place$tree, file), sep = "")
  stale(place, file)
}

# Tests.

run_test <- function(name, place, limit, log) {
  started <- proc.time()[["elapsed"]]
  found <- if (startsWith(name, "cpp:") || name == "c" || startsWith(name, "c:")) {
    run_program(name, place, limit, log)
  } else {
    run_file_of(name, place, limit, log)
  }
  c(found, seconds = round(proc.time()[["elapsed"]] - started))
}

compiler <- function(name) if (nzchar(Sys.which("ccache"))) paste("ccache", name) else name

run_program <- function(name, place, limit, log) {
  part <- sub(":.*", "", name)
  only <- if (grepl(":", name)) sub("^[^:]*:", "", name) else ""
  folder <- file.path(place$tree, "tests", part)
  arguments <- c("-s", "-C", folder, "WARNINGS=", paste0("CC=", compiler("gcc")), paste0("CXX=", compiler("g++")))
  if (part == "cpp") {
    arguments <- c(arguments, sprintf("SOURCES=test-%s.cpp main.cpp", only), sprintf("OUT=build/%s", only))
    program <- file.path("build", only, "plain/tests")
  } else {
    program <- "build/plain/tests"
  }
  if (run("make", c(arguments, program), log) != 0L) {
    return(list(state = "unbuilt", what = utils::tail(readLines(log, warn = FALSE), 1L)))
  }
  status <- run(file.path(folder, program), if (part == "c" && nzchar(only)) only, log, limit = limit)
  if (status == 0L) return(list(state = "passed", what = ""))
  lines <- grep("FAILED|not true", readLines(log, warn = FALSE), value = TRUE)
  what <- if (status == 124L) "did not end in time" else c(lines, sprintf("status %d", status))[[1L]]
  list(state = "failed", what = what)
}

run_file_of <- function(name, place, limit, log) {
  results <- dirname(log)
  row <- run_in_session("regatta", file.path(place$tree, "tests/testthat"), name, results, limit,
    file.path(place$tree, "tools/leak-watch.sh"))
  file.rename(file.path(results, paste0(name, ".log")), log)
  if (row$failed == 0L && row$passed + row$skipped > 0L) return(list(state = "passed", what = ""))
  failures <- file.path(results, paste0(name, "-failures.txt"))
  lines <- if (file.exists(failures)) readLines(failures)
  list(state = "failed", what = c(if (nzchar(row$problem)) row$problem, lines, "it failed")[[1L]])
}

# Without a fault the test must pass, or that it fails says nothing. Asked when it has failed.
passes_without <- function(name, place, version) {
  folder <- file.path(out, "baseline", version)
  dir.create(folder, recursive = TRUE, showWarnings = FALSE)
  known <- file.path(folder, gsub(":", "-", name, fixed = TRUE))
  if (!file.exists(known)) {
    found <- run_test(name, place, limit_of(name), paste0(known, ".log"))
    if (found$state == "failed") found <- run_test(name, place, limit_of(name), paste0(known, ".log"))
    writeLines(c(found$state, found$what), known)
  }
  readLines(known)[[1L]] == "passed"
}

known_times <- utils::read.csv("tools/quick.csv", comment.char = "#")

# Seconds. The table of times is that of a machine without other load; a file that is missing there counts
# as slow, or one that takes longer than the least limit would notice every fault.
limit_of <- function(name) {
  usual <- known_times$seconds[match(name, known_times$file)]
  if (is.na(usual)) usual <- if (needs_package(name)) Inf else 0
  min(600, max(120, 8 * usual))
}

key_of <- function(mutant) {
  tests <- vapply(test_names(mutant), test_path, "")
  folders <- dir.exists(tests)
  files <- c(mutant$File, tests[!folders], list.files(tests[folders], full.names = TRUE, pattern = "[.][ch]$"))
  md5(unlist(mutant), tools::md5sum(files))
}

result_file <- function(mutant) file.path(out, "results", paste0(mutant$Id, ".csv"))

known_result <- function(mutant) {
  path <- result_file(mutant)
  if (!file.exists(path)) return(NULL)
  row <- utils::read.csv(path, colClasses = "character")
  if (identical(row$key, key_of(mutant))) row
}

needs_package <- function(name) !grepl("^(c$|c:|cpp:)", name)

try_mutant <- function(mutant, place, version) {
  logs <- file.path(normalizePath(out), "logs", mutant$Id)
  unlink(logs, recursive = TRUE)
  dir.create(logs, recursive = TRUE)
  original <- file.path(place$folder, "original")
  file.copy(file.path(place$tree, mutant$File), original, overwrite = TRUE)
  text <- mutated(mutant, place$tree)
  # This may be killed at any moment. What then stays behind with a fault in it has no stamp, and is made anew.
  aside <- paste0(place$stamp, ".aside")
  file.rename(place$stamp, aside)
  on.exit({
    put(place, mutant$File, paste0(paste(readLines(original), collapse = "\n"), "\n"))
    file.rename(aside, place$stamp)
  })
  put(place, mutant$File, text)
  state <- "missed"
  by <- what <- ""
  installed <- FALSE
  for (name in test_names(mutant)) {
    if (needs_package(name) && !installed) {
      if (install(place, file.path(logs, "install.log"), tests = test_names(mutant)) != 0L) {
        return(c(state = "unbuilt", by = "", what = "see install.log"))
      }
      installed <- TRUE
    }
    log <- file.path(logs, paste0(gsub(":", "-", name, fixed = TRUE), ".log"))
    found <- run_test(name, place, limit_of(name), log)
    if (found$state == "passed") next
    state <- c(failed = "noticed", unbuilt = "unbuilt")[[found$state]]
    by <- name
    what <- found$what
    break
  }
  c(state = state, by = by, what = what)
}

one_mutant <- function(mutant, place, version) {
  Sys.setenv(R_LIBS = paste(c(place$lib, Sys.getenv("R_LIBS")), collapse = ":"),
    REGATTA_SOURCE = place$tree, NOT_CRAN = "true", REGATTA_LIB = place$lib)
  started <- proc.time()[["elapsed"]]
  key <- key_of(mutant)
  found <- tryCatch(try_mutant(mutant, place, version),
    error = function(e) c(state = "error", by = "", what = conditionMessage(e)))
  if (found[["state"]] == "noticed") {
    # The tree of this place is whole again, and its library is made so.
    if (needs_package(found[["by"]])) install(place, file.path(place$folder, "install.log"), tests = found[["by"]])
    if (!passes_without(found[["by"]], place, version)) found[["state"]] <- "unsure"
  }
  row <- data.frame(id = mutant$Id, state = found[["state"]], by = found[["by"]],
    seconds = round(proc.time()[["elapsed"]] - started), key = key,
    what = substr(gsub("[[:space:]]+", " ", found[["what"]]), 1L, 160L))
  # Whole or not at all: this may be ended at any moment.
  part <- paste0(result_file(mutant), ".part")
  utils::write.csv(row, part, row.names = FALSE)
  file.rename(part, result_file(mutant))
  cat(sprintf("mutate: %-8s %-28s %s\n", row$state, row$id,
    if (nzchar(row$by)) sprintf("by %s: %s", row$by, row$what) else row$what))
  NULL
}

run_mutants <- function(table, jobs, version) {
  tests <- unlist(lapply(seq_len(nrow(table)), function(i) test_names(table[i, ])))
  places <- make_places(jobs, version, any(needs_package(tests)))
  until <- proc.time()[["elapsed"]] + setting("MUTATE_SECONDS", Inf)
  # A job takes every so-manyth mutant, in its own place. Forking is safe: this process does nothing else.
  share <- function(job) {
    for (i in seq_len(nrow(table))[seq_len(nrow(table)) %% jobs == job - 1L]) {
      if (proc.time()[["elapsed"]] > until) break
      one_mutant(table[i, ], places[[job]], version)
    }
  }
  parallel::mclapply(seq_len(jobs), share, mc.cores = jobs, mc.preschedule = FALSE)
  invisible()
}

results_of <- function(table) {
  rows <- lapply(seq_len(nrow(table)), function(i) {
    mutant <- table[i, ]
    row <- known_result(mutant)
    state <- if (nzchar(mutant$Equivalent)) "equivalent" else if (is.null(row)) "not run" else row$state
    data.frame(id = mutant$Id, file = mutant$File, state = state, by = if (is.null(row)) "" else row$by,
      breaks = mutant$Breaks, what = if (is.null(row)) "" else row$what)
  })
  do.call(rbind, rows)
}

# `whole`: all of the mutants were to be run.
report <- function(results, whole) {
  utils::write.csv(results, file.path(out, "results.csv"), row.names = FALSE)
  missed <- results[results$state == "missed", ]
  if (nrow(missed) > 0L) {
    cat("\nWhat no test has noticed:\n")
    cat(sprintf("  %-28s %-26s %s\n", missed$id, missed$file, missed$breaks), sep = "")
  }
  count <- function(state) sum(results$state == state)
  states <- c("noticed", "missed", "equivalent", "unbuilt", "unsure", "error", "not run")
  counts <- vapply(states, count, 0L)
  cat(sprintf("\nmutate: %d mutants: %s\n", nrow(results),
    paste(counts[counts > 0L], states[counts > 0L], collapse = ", ")))
  if (counts[["unsure"]] > 0L) cat("mutate: unsure: the test that failed does so without the fault, too\n")
  if (whole && counts[["not run"]] > 0L) cat("mutate: a whole run has to run all of them\n")
  asked <- nrow(results) - counts[["equivalent"]] - if (whole) 0L else counts[["not run"]]
  cat(sprintf("mutate: the table is %s\n", file.path(out, "results.csv")))
  asked > 0L && counts[["noticed"]] >= 0.95 * asked && counts[["unbuilt"]] + counts[["error"]] == 0L &&
    !(whole && counts[["not run"]] > 0L)
}

main <- function() {
  table <- read_mutants()
  check_mutants(table)
  if ("--check" %in% commandArgs(TRUE)) {
    cat(sprintf("mutate: %d mutants, each in its place\n", nrow(table)))
    return(TRUE)
  }
  pattern <- Sys.getenv("MUTANTS")
  if (nzchar(pattern)) table <- table[grepl(pattern, table$Id) | grepl(pattern, table$File), ]
  if (nrow(table) == 0L) fail_list(sprintf("MUTANTS=%s chooses none", pattern))
  for (folder in c("results", "logs")) dir.create(file.path(out, folder), recursive = TRUE, showWarnings = FALSE)
  if (identical(Sys.getenv("MUTATE_FRESH"), "yes")) {
    unlink(vapply(seq_len(nrow(table)), function(i) result_file(table[i, ]), ""))
  }
  open <- vapply(seq_len(nrow(table)), function(i) {
    !nzchar(table$Equivalent[[i]]) && is.null(known_result(table[i, ]))
  }, NA)
  open <- which(open)
  open <- open[seq_len(min(length(open), setting("MUTATE_MOST", Inf)))]
  jobs <- setting("MUTATE_JOBS", max(1, parallel::detectCores() %/% 2))
  jobs <- min(jobs, length(open))
  if (jobs > 0) run_mutants(table[open, ], jobs, tree_version())
  report(results_of(table), whole = !any(nzchar(Sys.getenv(c("MUTATE_MOST", "MUTATE_SECONDS")))))
}

source("tests/testthat/report-results.R")
source("tests/testthat/run-files.R")
if (!main()) quit(status = 1L)
