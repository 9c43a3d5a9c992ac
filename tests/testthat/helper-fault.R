# What the fault tests share: making a fault for real, and finding what it left behind.

# A number as seed leaves the session's RNG alone, and without a dump no file is written.
two_workers <- function(..., workers = 2L, seed = 1L, dump = "no") {
  par_control(workers = workers, progress = FALSE, seed = seed, dump = dump, ...)
}

# An element whose value is what it writes as messages: with options(warn = 1) both lines.
captures_its_messages <- function(i) {
  capture.output({
    message("hi ", i)
    warning("w ", i, call. = FALSE)
  }, type = "message")
}

# Calls `fun` in a new R session with regatta attached. The session and everything it starts carry
# a mark in their environment, by which survivors are found. `wrap` is a command that is put
# before Rscript, such as c("unshare", "-m"); `base` a folder that another user can reach.
fault_start <- function(fun, args = list(), wrap = character(), env = character(),
                        base = tempdir()) {
  list(args, wrap, env) # which may skip the test: not when the folder is there
  # processx draws the number of a process from the session's generator.
  withr::local_preserve_seed()
  dir <- tempfile("fault-", tmpdir = base)
  dir.create(dir)
  if (base != tempdir()) Sys.chmod(dir, "1777", use_umask = FALSE)
  environment(fun) <- globalenv()
  saveRDS(list(fun = fun, args = args), file.path(dir, "job.rds"))
  writeLines(c(
    "suppressPackageStartupMessages(library(regatta))",
    "dir <- commandArgs(TRUE)",
    "job <- readRDS(file.path(dir, \"job.rds\"))",
    "run <- job$fun",
    "value <- do.call(\"run\", job$args)",
    "saveRDS(value, file.path(dir, \"value.part\"))",
    "file.rename(file.path(dir, \"value.part\"), file.path(dir, \"value.rds\"))"
  ), file.path(dir, "job.R"))
  mark <- paste0("REGATTA_TEST_MARK=", basename(dir), "-", Sys.getpid())
  command <- c(
    wrap, file.path(R.home("bin"), "Rscript"), "--vanilla", file.path(dir, "job.R"), dir
  )
  variables <- c(
    "current",
    # Where a killed session leaves its temporary files, they go with the folder.
    R_LIBS = paste(.libPaths(), collapse = ":"), R_TESTS = "", TMPDIR = dir,
    stats::setNames(sub("^[^=]*=", "", mark), sub("=.*", "", mark)), env
  )
  process <- processx::process$new(
    command[[1L]], command[-1L],
    stdin = "|", stdout = file.path(dir, "stdout"), stderr = file.path(dir, "stderr"),
    env = variables, wd = dir, cleanup = TRUE
  )
  structure(list(process = process, mark = mark, dir = dir), class = "fault_session")
}

# What to wrap a session in, so that it has a disk of `size` (as mount takes it) at the folder `at`.
small_disk <- function(size, at) {
  skip_unless_command("unshare")
  wrap <- c("unshare", "-m", "sh", "-c", sprintf("mount -t tmpfs -o size=%s tmpfs %s && exec \"$@\"", size, at), "sh")
  status <- suppressWarnings(system2(wrap[[1L]], shQuote(c(wrap[-1L], "true")), stdout = FALSE, stderr = FALSE))
  if (status != 0L) testthat::skip("no rights to mount a small disk")
  wrap
}

# A session that is ended, with all its descendants, at the end of the caller.
local_session <- function(..., frame = parent.frame()) {
  session <- fault_start(...)
  withr::defer(fault_end(session), envir = frame)
  session
}

fault_text <- function(session, stream) {
  path <- file.path(session$dir, stream)
  if (file.exists(path)) readLines(path, warn = FALSE) else character()
}

# Waits for a line of stdout that matches `pattern` for the `times`-th time.
fault_wait_line <- function(session, pattern, times = 1L, timeout = 60) {
  seen <- function() sum(grepl(pattern, fault_text(session, "stdout"))) >= times
  wait_until(function() seen() || !session$process$is_alive(), timeout, pattern)
  if (!seen()) {
    stop("the session ended before it printed \"", pattern, "\":\n", fault_story(session))
  }
  invisible(TRUE)
}

fault_tell <- function(session, line) {
  session$process$write_input(paste0(line, "\n"))
}

fault_story <- function(session) {
  paste(c(
    utils::tail(fault_text(session, "stdout"), 20L),
    utils::tail(fault_text(session, "stderr"), 20L)
  ), collapse = "\n")
}

# The value of the session's function. A session that does not end in time is killed, with all its
# descendants, and that is an error.
fault_value <- function(session, timeout = 120) {
  force(session)
  on.exit(fault_end(session))
  wait_until(function() !session$process$is_alive(), timeout, "the end of the session")
  path <- file.path(session$dir, "value.rds")
  if (!file.exists(path)) {
    stop("the session gave no value, exit status ", session$process$get_exit_status(), ":\n",
      fault_story(session))
  }
  list(
    value = readRDS(path), status = session$process$get_exit_status(),
    stdout = fault_text(session, "stdout"), stderr = fault_text(session, "stderr")
  )
}

fault_end <- function(session) {
  for (pid in marked_pids(session$mark)) {
    tools::pskill(pid, tools::SIGKILL)
  }
  # What it cannot end, the check for detritus finds.
  try(session$process$kill(), silent = TRUE)
  unlink(session$dir, recursive = TRUE)
}

fault_run <- function(fun, args = list(), ..., timeout = 120) {
  fault_value(fault_start(fun, args, ...), timeout)
}

# An error if it takes longer.
within_seconds <- function(seconds, code) {
  setTimeLimit(elapsed = seconds * slowness())
  on.exit(setTimeLimit())
  code
}

parent_pid <- function(pid) {
  as.integer(sub("^.*\\) [A-Za-z] ([0-9]+) .*$", "\\1", readLines(file.path("/proc", pid, "stat"))))
}

# The environment that a process was given at exec, as "NAME=value". Zombies have none.
environ_of <- function(pid) {
  path <- file.path("/proc", pid, "environ")
  bytes <- tryCatch(suppressWarnings(readBin(path, "raw", 262144L)), error = function(e) raw())
  bytes[bytes == as.raw(0L)] <- as.raw(10L)
  strsplit(rawToChar(bytes), "\n", fixed = TRUE)[[1L]]
}

# Processes, however related, whose environment at exec held `mark`.
marked_pids <- function(mark) {
  has_mark <- function(pid) mark %in% environ_of(pid)
  pids <- list.files("/proc", pattern = "^[0-9]+$")
  as.integer(pids[vapply(pids, has_mark, NA)])
}

# tools::pskill() takes no process group.
signal_group <- function(pid, signal, times = 1L, gap = 0) {
  one <- sprintf("kill -s %s -- -%d", signal, pid)
  system(paste(rep(one, times), collapse = sprintf("; sleep %s; ", gap)), ignore.stderr = TRUE)
}

# A signal to a process as soon as this session waits for something, which it does not before it is asked to.
signal_when_waiting <- function(pid, signal, frame = parent.frame()) {
  begun <- file.path(withr::local_tempdir(.local_envir = frame), "begun")
  # If the session ends meanwhile nobody waits for it.
  waits <- sprintf("[ ! -e /proc/%1$d ] || grep -q '^State:.S' /proc/%1$d/status", Sys.getpid())
  system(sprintf(
    "(until [ -e %s ]; do sleep 0.05; done; sleep 0.3; until %s; do sleep 0.05; done; kill -%s %d) &",
    shQuote(begun), waits, signal, pid
  ))
  file.create(begun)
}

is_running <- function(pid) {
  stat <- proc_line(pid)
  nzchar(stat) && !grepl("\\) [ZX] ", stat)
}

# A condition among `cnd` and its parents that has `class`, or NULL.
find_condition <- function(cnd, class) {
  while (inherits(cnd, "condition") && !inherits(cnd, class)) {
    cnd <- cnd$parent
  }
  if (inherits(cnd, class)) cnd
}

# Compiles C for R's .C() or .Call(), or, with `preload`, for LD_PRELOAD.
fault_compile <- function(code, name, preload = FALSE, flags = character(),
                          env = parent.frame()) {
  dir <- withr::local_tempdir("compile-", .local_envir = env)
  source <- file.path(dir, paste0(name, ".c"))
  library <- file.path(dir, paste0(name, .Platform$dynlib.ext))
  writeLines(code, source)
  config <- function(what) {
    scan(text = system2(file.path(R.home("bin"), "R"), c("CMD", "config", what), stdout = TRUE),
      what = "", quiet = TRUE)
  }
  cc <- config("CC")
  if (Sys.which(cc[[1L]]) == "") {
    testthat::skip("no C compiler")
  }
  headers <- if (preload) character() else config("--cppflags")
  arguments <- c(
    cc[-1L], "-O0", "-shared", "-fPIC", headers, flags, source, "-o", library, if (preload) "-ldl"
  )
  log <- suppressWarnings(system2(cc[[1L]], arguments, stdout = TRUE, stderr = TRUE))
  if (!file.exists(library)) {
    testthat::skip(paste("the C compiler refuses this:", paste(log, collapse = " ")))
  }
  library
}

# The flag by which C code of a test includes headers of src/: what it overwrites has the places that the package gives
# it. Skips the test where the sources are not.
source_headers <- function() {
  candidates <- file.path(c(Sys.getenv("REGATTA_SOURCE"), testthat::test_path("..", "..")), "src")
  found <- candidates[file.exists(file.path(candidates, "control.h"))]
  if (length(found) == 0L) testthat::skip("not in the tree of the sources")
  paste0("-I", normalizePath(found[[1L]]))
}

# C code that finds shared mappings of the package by their label, and the control block of the run of so many workers,
# to be compiled with source_headers().
find_shared <- c(
  "#include <stdio.h>",
  "#include <string.h>",
  "#include \"control.h\"",
  "/* The mapping after `last`, NULL: the first; NULL: there is none. */",
  "static void *next_shared(const char *label, void *last, size_t *size) {",
  "  char line[512], rights[8];",
  "  unsigned long from, to;",
  "  void *found = NULL;",
  "  FILE *maps = fopen(\"/proc/self/maps\", \"r\");",
  "  while (!found && fgets(line, sizeof line, maps)) {",
  "    if (sscanf(line, \"%lx-%lx %7s\", &from, &to, rights) != 3 || (void *)from <= last) continue;",
  "    if (strcmp(rights, \"rw-s\") != 0 || !strstr(line, label)) continue;",
  "    found = (void *)from;",
  "    *size = to - from;",
  "  }",
  "  fclose(maps);",
  "  return found;",
  "}",
  "static rg_control_shared *find_control(int workers) {",
  "  size_t size;",
  "  rg_control_shared *found = NULL;",
  "  while ((found = next_shared(RG_CONTROL_LABEL, found, &size))) {",
  "    if (found->layout && found->workers == workers &&",
  "        size >= (size_t)rg_control_slot_at(found->elements, workers)) return found;",
  "  }",
  "  return NULL;",
  "}",
  "static int64_t *order_of(rg_control_shared *shared) {",
  "  return (int64_t *)((char *)shared + rg_control_order_at(shared->elements));",
  "}",
  "static rg_slot *slot_of(rg_control_shared *shared, int worker) {",
  "  return (rg_slot *)((char *)shared + rg_control_slot_at(shared->elements, worker));",
  "}"
)

# Where members of a structure of a header of src/ stand in it, by the compiler.
offsets_of <- function(header, structure, members) {
  library <- fault_compile(c(
    "#include <stddef.h>",
    sprintf("#include \"%s\"", header),
    "void offsets(int *at) {",
    sprintf("  *at++ = (int)offsetof(%s, %s);", structure, members),
    "}"
  ), "offsets", flags = source_headers())
  code <- dyn.load(library)
  on.exit(dyn.unload(library), add = TRUE)
  stats::setNames(.C(getNativeSymbolInfo("offsets", code), integer(length(members)))[[1L]], members)
}

# A function that returns the library which `compile(env)` makes, for all tests of a file: it is made
# when it is first asked for, and goes when the file looks for what it has left behind.
compiled_once <- function(compile) {
  folder <- NULL
  function() {
    if (is.null(folder)) {
      folder <<- tempfile("compiled-")
      dir.create(folder)
      detritus_state$compiled <- c(detritus_state$compiled, folder)
      file.copy(compile(environment()), folder)
    }
    list.files(folder, full.names = TRUE)
  }
}

skip_unless_linux <- function() {
  if (!file.exists("/proc/self/environ")) testthat::skip("no Linux /proc")
}

skip_unless_command <- function(command) {
  if (Sys.which(command) == "") testthat::skip(paste("no command", command))
}

is_root <- function() {
  identical(system2("id", "-u", stdout = TRUE), "0")
}

# Bytes that could be taken without harm to others, 0 where the system does not say.
memory_available <- function() {
  if (!file.exists("/proc/meminfo")) return(0)
  line <- grep("^MemAvailable:", readLines("/proc/meminfo"), value = TRUE)
  1024 * as.numeric(gsub("[^0-9]", "", line))
}
