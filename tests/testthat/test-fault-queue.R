detritus <- detritus_snapshot()

# Code that writes to what the processes of a run share. The control block is the shared mapping without a
# name that begins with the number of workers, which is two; the lock of its queue stands at 16.
queue_code <- function(frame = parent.frame()) {
  fault_compile(c(
    "#include <pthread.h>",
    "#include <signal.h>",
    "#include <stdint.h>",
    "#include <stdio.h>",
    "#include <string.h>",
    "#include <sys/types.h>",
    "#include <unistd.h>",
    "static char *find(void) {",
    "  char line[512], *found = NULL;",
    "  FILE *maps = fopen(\"/proc/self/maps\", \"r\");",
    "  while (fgets(line, sizeof line, maps)) {",
    "    unsigned long from, to;",
    "    char rights[8];",
    "    if (sscanf(line, \"%lx-%lx %7s\", &from, &to, rights) != 3) continue;",
    "    if (strcmp(rights, \"rw-s\") != 0 || !strstr(line, \"regatta-run\")) continue;",
    "    if (to - from <= (2 << 20) || *(int32_t *)from != 2) continue;",
    "    found = (char *)from;",
    "  }",
    "  fclose(maps);",
    "  return found;",
    "}",
    "void stop_with_lock(char **file) {",
    "  pthread_mutex_t *lock = (pthread_mutex_t *)(find() + 16);",
    "  pthread_mutex_lock(lock);",
    "  fclose(fopen(file[0], \"w\"));",
    "  raise(SIGSTOP);",
    "  pthread_mutex_unlock(lock);",
    "}",
    # Where the numbers of elements wait, and those that a worker has claimed: see control.h.
    "static size_t up(size_t n) { return (n + 63) / 64 * 64; }",
    "void overwrite_number(int *elements, int *place, double *number, int *claimed) {",
    "  size_t capacity = 1, slot = up(1065064);",
    "  while (capacity < (size_t)*elements) capacity *= 2;",
    "  char *order = find() + up(104) + up(32 * (size_t)*elements), *slots = order + up(8 * capacity);",
    "  if (!*claimed) ((int64_t *)order)[*place] = (int64_t)*number;",
    "  for (int w = 0; *claimed && w < 2; w++) {",
    "    ((int64_t *)(slots + w * slot + 88))[*place] = (int64_t)*number;",
    "  }",
    "}",
    "void overwrite_lock(int *number) { *(int32_t *)(find() + 16) = *number; }"
  ), "queue", env = frame)
}

# A session whose first element stops its worker while that has the lock, and whose second dies.
stopped_in_lock <- function(library, folder) {
  fault_start(function(library, folder) {
    dyn.load(library)
    stopped <- file.path(folder, "stopped")
    got <- tryCatch(
      allowInterrupts({
        cat("go\n")
        suppressWarnings(par_lapply(1:2, function(i) {
          if (i == 1L) {
            writeLines(as.character(Sys.getpid()), file.path(folder, "pid"))
            while (!file.exists(file.path(folder, "begun"))) Sys.sleep(0.01)
            .C("stop_with_lock", stopped)
            return("went on")
          }
          file.create(file.path(folder, "begun"))
          while (!file.exists(stopped)) Sys.sleep(0.01)
          tools::pskill(Sys.getpid(), 9L)
        }, .control = par_control(
          workers = 2L, progress = FALSE, errors = "collect", dump = "no", batch = 1L
        )))
      }),
      interrupt = function(e) "interrupted"
    )
    if (is.list(got)) c(got[[1L]], if (inherits(got[[2L]], "regatta_error_death")) "death") else got
  }, list(library = library, folder = folder))
}

is_stopped <- function(pid) grepl(") T ", proc_line(pid), fixed = TRUE)

test_that("a session is interrupted, or goes on, whose worker was stopped with the lock of the queue", {
  skip_unless_linux()
  library <- queue_code()
  for (how in c("interrupt", "continue")) {
    folder <- withr::local_tempdir()
    session <- stopped_in_lock(library, folder)
    withr::defer(fault_end(session))
    fault_wait_line(session, "^go")
    wait_until(function() file.exists(file.path(folder, "stopped")))
    pid <- as.integer(readLines(file.path(folder, "pid")))
    wait_until(function() is_stopped(pid))
    # The death of the other has been seen when nobody is left who could wake the session.
    children <- function() readLines(sprintf("/proc/%1$d/task/%1$d/children", session$process$get_pid()), warn = FALSE)
    wait_until(function() {
      others <- setdiff(strsplit(paste(children(), collapse = " "), " +")[[1L]], c("", pid))
      all(vapply(others, function(p) !is_running(p), NA))
    })
    if (how == "interrupt") session$process$interrupt() else tools::pskill(pid, 18L)
    got <- fault_value(session)$value
    expect_identical(
      got, if (how == "interrupt") "interrupted" else c("went on", "death")
    )
  }
})

test_that("a number that was overwritten costs neither its element nor another one the value", {
  skip_unless_linux()
  library <- queue_code()
  # Numbers of the queue begin with 0. That of the third element is one that runs twice then.
  cases <- list(
    list(place = 11L, number = 2, claimed = 0L, batch = 1L), list(place = 11L, number = 1e9, claimed = 0L, batch = 1L),
    list(place = 11L, number = -5, claimed = 0L, batch = 1L), list(place = 3L, number = 2, claimed = 1L, batch = 4L),
    list(place = 2L, number = -5, claimed = 1L, batch = 4L)
  )
  got <- fault_run(function(library, cases) {
    dyn.load(library)
    lapply(cases, function(case) {
      written <- tempfile()
      unclass(suppressWarnings(par_lapply(1:12, function(i) {
        if (i == 1L) {
          .C("overwrite_number", 12L, case$place, case$number, case$claimed)
          file.create(written)
        }
        while (!file.exists(written)) Sys.sleep(0.01)
        if (i == 3L) as.double(1:1e4) else i
      }, .control = par_control(
        workers = 2L, progress = FALSE, errors = "collect", dump = "no", batch = case$batch
      ))))
    })
  }, list(library = library, cases = cases))$value
  right <- as.list(1:12)
  right[[3L]] <- as.double(1:1e4)
  for (k in seq_along(cases)) expect_identical(got[[!!k]], right)
})

test_that("a lock that was overwritten is an error, whatever is written there, and the next run has another", {
  skip_unless_linux()
  library <- queue_code()
  got <- fault_run(function(library) {
    dyn.load(library)
    control <- par_control(workers = 2L, progress = FALSE, errors = "collect", dump = "no", batch = 1L)
    written <- tempfile()
    ended <- tryCatch(par_lapply(1:20, function(i) {
      if (i == 1L) {
        .C("overwrite_lock", 0x3abcdeL)
        file.create(written)
      }
      while (!file.exists(written)) Sys.sleep(0.01)
    }, .control = control), error = identity)
    list(class = class(ended), text = conditionMessage(ended), after = par_lapply(1:4, function(i) i, .control = control))
  }, list(library = library))$value
  expect_true("regatta_error_damage" %in% got$class)
  expect_match(got$text, "was overwritten")
  expect_identical(got$after, as.list(1:4))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
