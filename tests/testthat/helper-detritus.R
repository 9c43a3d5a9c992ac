# What a test file may not leave behind. First lines of a file:
#   detritus <- detritus_snapshot()
# and its last test:
#   test_that("nothing is left behind", {
#     expect_no_detritus(detritus)
#   })
# A test that draws random numbers itself does so under withr::local_preserve_seed().

# Files that other packages cache in tempdir() for the rest of the session.
detritus_foreign_temp <- "^(callr-|callr$|libloc_|worker\\.rank=|repos_|sourceCpp-|downloaded_packages$|\\.NETmanaged)"

# Options that some package makes on first use and never resets. Those of other packages begin with
# the name of one that is loaded; these do not.
detritus_foreign_options <- c("digits.secs", "browserNLdisabled", "stringsAsFactors", "ts.eps")

detritus_is_foreign_option <- function(names) {
  letters_of <- function(x) tolower(gsub("[^[:alnum:]]", "", x))
  packages <- setdiff(loadedNamespaces(), c("regatta", detritus_base_packages))
  # "data.table" has options "datatable.verbose".
  owner <- letters_of(sub("^([[:alnum:]]+).*$", "\\1", names))
  prefixes <- sub("^([[:alnum:]]+).*$", "\\1", packages)
  owner %in% c(letters_of(packages), letters_of(prefixes)) | names %in% detritus_foreign_options
}

# Options of R itself are looked at, whatever they begin with.
detritus_base_packages <- rownames(utils::installed.packages(.Library, priority = "base"))

detritus_readlink <- function(paths) {
  links <- Sys.readlink(paths)
  stats::setNames(links, basename(paths))[!is.na(links) & nzchar(links)]
}

# fd number -> what it is. The fd that lists the folder is gone when its link is read.
detritus_fds <- function() {
  if (!dir.exists("/proc/self/fd")) return(character())
  detritus_readlink(list.files("/proc/self/fd", full.names = TRUE))
}

# pid -> "name state" of every child, zombies included. The fields of /proc/PID/stat are counted
# from the last ")", since the name between the parentheses may hold anything.
detritus_children <- function() {
  if (!dir.exists("/proc/self")) return(character())
  pids <- list.files("/proc", pattern = "^[0-9]+$")
  me <- as.character(Sys.getpid())
  found <- lapply(pids, detritus_child, parent = me)
  unlist(found)
}

detritus_child <- function(pid, parent) {
  line <- proc_line(pid)
  if (!nzchar(line)) return(NULL)
  fields <- strsplit(sub("^.*\\) ", "", line), " ", fixed = TRUE)[[1]]
  if (!identical(fields[2], parent)) return(NULL)
  name <- sub("^[0-9]+ \\((.*)\\) .*$", "\\1", line)
  stats::setNames(sprintf("%s, state %s", name, fields[1]), pid)
}

# Shared memory objects and semaphores that this session and its children have made. Where the
# folder is theirs alone (REGATTA_PRIVATE_SHM, set by tools/leak-watch.sh) these are all of the user's.
# Elsewhere other sessions come and go, and nothing but its name tells who has made an object: the
# tests put the number of their process into it.
detritus_shm <- function(pids = Sys.getpid()) {
  files <- list.files("/dev/shm", all.files = TRUE, no.. = TRUE)
  info <- file.info(file.path("/dev/shm", files), extra_cols = TRUE)
  files <- files[!is.na(info$uid) & info$uid == detritus_uid()]
  if (nzchar(Sys.getenv("REGATTA_PRIVATE_SHM"))) return(files)
  named <- sprintf("(^|[^0-9])(%s)([^0-9]|$)", paste(pids, collapse = "|"))
  files[grepl(named, files)]
}

detritus_uid <- function() {
  file.info(tempdir(), extra_cols = TRUE)$uid
}

# Files in tempdir(), and beside it where the folder above is ours alone (REGATTA_PRIVATE_TMP).
detritus_temp <- function() {
  inside <- list.files(tempdir(), all.files = TRUE, no.. = TRUE)
  inside <- inside[!grepl(detritus_foreign_temp, inside) & !detritus_is_snapshot_pdf(inside)]
  if (!nzchar(Sys.getenv("REGATTA_PRIVATE_TMP"))) return(inside)
  beside <- list.files(dirname(tempdir()), all.files = TRUE, no.. = TRUE)
  c(inside, file.path("..", beside))
}

# testthat opens a PDF device without a name for every snapshot and leaves its file.
detritus_is_snapshot_pdf <- function(files) {
  vapply(files, function(file) {
    path <- file.path(tempdir(), file)
    grepl("^file[0-9a-f]+$", file) && !dir.exists(path) && identical(detritus_head(path), "%PDF")
  }, NA)
}

detritus_head <- function(path) {
  tryCatch(
    rawToChar(suppressWarnings(readBin(path, "raw", 4L))),
    error = function(e) ""
  )
}

detritus_options <- function() {
  all <- options()
  all[!detritus_is_foreign_option(names(all))]
}

# pkgload, which testthat loads on first use, tells its children where the session's temporary folder is.
detritus_environment <- function() {
  all <- as.list(Sys.getenv())
  all[names(all) != "PKGLOAD_PARENT_TEMPDIR"]
}

detritus_session <- function() {
  list(
    `standard stream` = as.list(detritus_fds()[c("0", "1", "2")]),
    option = detritus_options(),
    `environment variable` = detritus_environment(),
    locale = list(all = Sys.getlocale()),
    `working directory` = list(path = getwd()),
    `file mode mask` = list(umask = format(Sys.umask(NA))),
    `sink` = list(output = sink.number(), message = sink.number("message")),
    `graphics device` = as.list(grDevices::dev.list()),
    `attached package` = as.list(stats::setNames(search(), search())),
    `RNG state` = list(
      kind = RNGkind(),
      seed = get0(".Random.seed", globalenv(), inherits = FALSE)
    )
  )
}

detritus_resources <- function() {
  list(
    `file descriptor` = detritus_fds(),
    `child process` = detritus_children(),
    `shared memory object` = detritus_named(detritus_shm()),
    `temporary file` = detritus_named(detritus_temp()),
    connection = detritus_named(rownames(showConnections()))
  )
}

detritus_named <- function(x) {
  x <- as.character(x)
  stats::setNames(x, x)
}

# The first map of a session makes what the session then keeps for all later ones: the arena's file
# descriptor, namespaces that are loaded on first use. None of that is detritus.
detritus_warm <- function() {
  if (!"regatta" %in% loadedNamespaces() || isTRUE(detritus_state$is_warm)) return(invisible())
  detritus_state$is_warm <- TRUE
  withr::with_preserve_seed(
    regatta::par_lapply(1:2, identity, .control = regatta::par_control(workers = 2L))
  )
  invisible()
}

# par_last() holds what the last call was about, shared memory as well: that is to be nothing of note.
detritus_forget_last <- function() {
  if (isTRUE(detritus_state$is_warm)) {
    regatta::par_lapply(1L, identity, .control = regatta::par_control(workers = 1L, seed = FALSE, progress = FALSE))
  }
}

detritus_state <- new.env(parent = emptyenv())

# test_that() itself changes options and environment variables while it runs; a file's top level
# does not. Both readings are right at the end.
detritus_snapshot <- function() {
  detritus_warm()
  gc()
  plain <- detritus_session()
  tested <- local({
    testthat::local_test_context()
    detritus_session()
  })
  list(resources = detritus_resources(), sessions = list(plain, tested))
}

# Resources that are there now and were not at the snapshot, as sentences. Two collections:
# the finalizer of one object can make the next one unreachable.
detritus_new_resources <- function(snapshot) {
  gc()
  gc()
  now <- detritus_resources()
  found <- lapply(names(now), function(kind) {
    before <- snapshot$resources[[kind]]
    # A process is the same one whatever it is at.
    key <- function(found) if (kind == "child process") names(found) else paste(names(found), found)
    fresh <- now[[kind]][!key(now[[kind]]) %in% key(before)]
    if (length(fresh) == 0L) return(NULL)
    same <- names(fresh) == fresh
    sprintf("%s %s", kind, ifelse(same, fresh, sprintf("%s (%s)", names(fresh), fresh)))
  })
  unlist(found)
}

detritus_changed_settings <- function(snapshot) {
  now <- detritus_session()
  found <- lapply(names(now), function(kind) {
    readings <- lapply(snapshot$sessions, `[[`, kind)
    keys <- unique(c(names(now[[kind]]), unlist(lapply(readings, names))))
    # A package that came in between owns what was there before it, too.
    if (kind == "option") keys <- keys[!detritus_is_foreign_option(keys)]
    changed <- Filter(function(key) {
      !any(vapply(readings, function(r) identical(r[[key]], now[[kind]][[key]]), logical(1)))
    }, keys)
    if (length(changed) == 0L) return(NULL)
    sprintf("%s `%s` changed", kind, changed)
  })
  unlist(found)
}

# Processes that were told to end need a moment; everything else is checked once they are gone.
detritus_found <- function(snapshot, timeout = 30, except = NULL) {
  left <- NULL
  look <- function() {
    found <- detritus_new_resources(snapshot)
    left <<- if (is.null(except)) found else found[!grepl(except, found)]
    length(left) == 0L
  }
  tryCatch(wait_until(look, timeout), error = function(e) NULL)
  found <- c(left, detritus_changed_settings(snapshot))
  if (length(found) > 0L) found
}

# `except`: a regular expression for resources that something other than regatta leaves. The one
# known case: once processx has run, zombies of `parallel` stay, since each of the two replaces the
# other's handler of SIGCHLD ("^child process .*state Z").
expect_no_detritus <- function(snapshot, except = NULL) {
  unlink(detritus_state$compiled, recursive = TRUE)
  detritus_state$compiled <- NULL
  detritus_forget_last()
  .Call(regatta:::ffi_trial_end) # which would end with the session
  found <- detritus_found(snapshot, except = except)
  testthat::expect(
    length(found) == 0L,
    paste0("this test file left behind:\n", paste0("* ", found, collapse = "\n"))
  )
  invisible(NULL)
}
