# The floors of the package: a file knows only its own floor and those below it. tools/floors.csv
# gives each file its floor by the longest prefix that fits. For C, what a file knows is what it
# includes and the R functions that it calls by name; for R, the functions of the package that it names.
#   Rscript tools/check-floors.R [ROOT]     prints what breaks the rule, status 1 if anything does

# Floors that forked children and threads may call from anywhere have no R in them.
floors_without_r <- c(0L, 1L)
r_header <- "^(R|Rinternals|Rmath|Rdefines|Rversion|Rconfig|Rembedded|Rinterface|S)\\.h$|^R_ext/"

read_floors <- function(root) {
  utils::read.csv(file.path(root, "tools", "floors.csv"), stringsAsFactors = FALSE)
}

floor_of <- function(file, language, floors) {
  stem <- sub("\\.[A-Za-z]+$", "", basename(file))
  rows <- floors[floors$language == language & startsWith(stem, floors$prefix), ]
  if (nrow(rows) == 0L) return(NA_integer_)
  rows$floor[which.max(nchar(rows$prefix))]
}

without_floor <- function(files, floors_of_files) {
  lost <- files[is.na(floors_of_files)]
  sprintf("%s: no floor; give its prefix a row in tools/floors.csv", lost)
}

# The headers a file includes, as written, comments left out.
includes_of <- function(path) {
  lines <- readLines(path, warn = FALSE)
  pattern <- "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]([^>\"]+)[>\"].*$"
  sub(pattern, "\\1", grep(pattern, lines, value = TRUE))
}

# The R functions of the package that a C file calls. There is one way, whose name is a string.
r_calls_of <- function(path) {
  text <- paste(readLines(path, warn = FALSE), collapse = "\n")
  calls <- regmatches(text, gregexpr("rg_call_r\\(\\s*[^,)]+[,)]", text))[[1L]]
  calls <- calls[!grepl("const char", calls)]
  gsub("\"", "", trimws(sub("[,)]$", "", sub("^rg_call_r\\(", "", calls))))
}

# The names of which it makes symbols: with that of a function it could call it, too.
symbols_of <- function(lines) {
  gsub("^.*\"(.*)\"$", "\\1", unlist(regmatches(lines, gregexpr("Rf_install(Char)?\\(\\s*\"[^\"]*\"", lines))))
}

check_r_calls <- function(path, own, homes) {
  called <- unique(r_calls_of(path))
  theirs <- homes$floor_by_file[homes$home[called]]
  lost <- is.na(theirs)
  up <- !lost & theirs > own
  lines <- readLines(path, warn = FALSE)
  past <- any(grepl("R_FindNamespace", lines)) && basename(path) != "call-r.c" ||
    any(symbols_of(lines) %in% names(homes$home))
  c(
    sprintf("%s calls %s(), which is no function of R/", path, called[lost]),
    sprintf("%s (floor %d) calls %s() of R/%s (floor %d)", path, own, called[up],
      homes$home[called][up], theirs[up]),
    sprintf("%s calls R by name, but not by rg_call_r()", path[past])
  )
}

check_c_file <- function(path, own, floors, known, homes) {
  included <- includes_of(path)
  wrong <- character()
  if (own %in% floors_without_r) {
    bad <- included[grepl(r_header, included)]
    wrong <- sprintf("%s (floor %d) includes %s: no R header down there", path, own, bad)
  }
  ours <- included[basename(included) %in% known]
  theirs <- vapply(ours, floor_of, 0L, language = "C", floors = floors)
  up <- !is.na(theirs) & theirs > own
  c(
    wrong, sprintf("%s (floor %d) includes %s (floor %d)", path, own, ours[up], theirs[up]),
    check_r_calls(path, own, homes)
  )
}

check_c <- function(root, floors) {
  files <- list.files(file.path(root, "src"), "\\.(c|h|cpp|hpp)$")
  own <- vapply(files, floor_of, 0L, language = "C", floors = floors)
  placed <- files[!is.na(own)]
  homes <- r_homes(root, floors)
  wrong <- Map(function(file, floor) {
    check_c_file(file.path(root, "src", file), floor, floors, known = files, homes = homes)
  }, placed, own[!is.na(own)])
  c(without_floor(file.path("src", files), own), unlist(wrong, use.names = FALSE))
}

# core/ of the C++ headers is tested and used without R, and does not know r/.
check_headers <- function(root) {
  core <- file.path(root, "inst", "include", "regatta", "core")
  files <- list.files(core, "\\.(h|hpp)$", full.names = TRUE, recursive = TRUE)
  wrong <- lapply(files, function(path) {
    included <- includes_of(path)
    bad <- included[grepl(r_header, included) | grepl("(^|/)r/", included)]
    sprintf("%s includes %s: core/ stands without R", path, bad)
  })
  unlist(wrong)
}

top_level_names <- function(exprs) {
  is_assignment <- vapply(exprs, function(e) {
    is.call(e) && (identical(e[[1]], as.name("<-")) || identical(e[[1]], as.name("="))) &&
      is.name(e[[2]])
  }, NA)
  vapply(exprs[is_assignment], function(e) as.character(e[[2]]), "")
}

# Names used anywhere in an expression and not bound in it. As the body of a function that is never
# called the expression is read, not run.
names_used <- function(expr) {
  reader <- eval(call("function", NULL, expr), baseenv())
  suppressWarnings(codetools::findGlobals(reader, merge = TRUE))
}

check_r_file <- function(file, exprs, own, home, floor_by_file) {
  used <- unique(unlist(lapply(exprs, names_used)))
  used <- setdiff(intersect(used, names(home)), top_level_names(exprs))
  theirs <- floor_by_file[home[used]]
  up <- !is.na(theirs) & theirs > own
  sprintf(
    "R/%s (floor %d) uses %s() of R/%s (floor %d)", file, own, used[up], home[used][up], theirs[up]
  )
}

# The R files as expressions, the floor of each, and the file of each function.
r_homes <- function(root, floors) {
  files <- list.files(file.path(root, "R"), "\\.[Rr]$")
  parsed <- lapply(file.path(root, "R", files), function(f) as.list(parse(f, keep.source = FALSE)))
  defined <- lapply(parsed, top_level_names)
  list(
    files = files, parsed = parsed,
    home = stats::setNames(rep(files, lengths(defined)), unlist(defined)),
    floor_by_file = vapply(files, floor_of, 0L, language = "R", floors = floors)
  )
}

check_r <- function(root, floors) {
  homes <- r_homes(root, floors)
  own <- homes$floor_by_file
  wrong <- lapply(which(!is.na(own)), function(i) {
    check_r_file(homes$files[i], homes$parsed[[i]], own[[i]], homes$home, own)
  })
  asked <- own %in% floors_without_kinds & !grepl(makers_of_places, homes$files)
  kinds <- lapply(which(asked), function(i) {
    sprintf("R/%s (floor %d) names a kind of worker: %s", homes$files[i], own[[i]], kinds_in(homes$parsed[[i]]))
  })
  c(without_floor(file.path("R", homes$files), own), unlist(c(wrong, kinds), use.names = FALSE))
}

# The driver and the verbs know workers, and no kind of them: another kind is no line there. Names of
# arguments that the drop-in shares with its model are no matter of ours.
kinds_of_workers <- "fork|cluster|ssh|slurm|psock|snow|mirai|\\bmpi\\b|\\bpools?\\b|\\bagents?\\b"
foreign_names <- "mc.force.fork"
floors_without_kinds <- c(4L, 5L)
makers_of_places <- "^cluster-" # what `.on` is given is made by functions that say what it is

# All names and strings of an expression.
words_of <- function(expr) {
  if (is.character(expr)) return(expr)
  if (is.name(expr)) return(as.character(expr))
  if (!is.recursive(expr) || is.environment(expr)) return(character())
  parts <- as.list(expr)
  c(names(parts), unlist(lapply(parts, function(part) {
    if (missing(part)) character() else words_of(part)
  })))
}

kinds_in <- function(exprs) {
  words <- gsub(foreign_names, "", unlist(lapply(exprs, words_of)), fixed = TRUE)
  unique(grep(kinds_of_workers, words, value = TRUE, ignore.case = TRUE))
}

# A row of the table that gives no file its floor tells readers of files that are not there.
rows_without_files <- function(root = ".") {
  floors <- read_floors(root)
  stems <- lapply(c(C = "src", R = "R"), function(folder) {
    sub("\\.[A-Za-z]+$", "", list.files(file.path(root, folder), "\\.(c|h|cpp|hpp|[Rr])$"))
  })
  used <- vapply(seq_len(nrow(floors)), function(i) {
    any(startsWith(stems[[floors$language[[i]]]], floors$prefix[[i]]))
  }, NA)
  sprintf("tools/floors.csv: no file of %s begins with \"%s\"",
    ifelse(floors$language[!used] == "C", "src/", "R/"), floors$prefix[!used])
}

# All that breaks the rule, as sentences.
check_floors <- function(root = ".") {
  floors <- read_floors(root)
  found <- c(check_c(root, floors), check_headers(root), check_r(root, floors))
  gsub(paste0(root, "/"), "", found, fixed = TRUE)
}

if (sys.nframe() == 0L) {
  arguments <- commandArgs(TRUE)
  root <- if (length(arguments) > 0L) arguments[[1]] else "."
  found <- c(check_floors(root), rows_without_files(root))
  writeLines(sprintf("floors: %s", found))
  if (length(found) > 0L) quit(status = 1L)
  cat("floors: no file knows a floor above its own\n")
}
