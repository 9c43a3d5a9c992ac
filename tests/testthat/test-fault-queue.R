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
    "    if (strcmp(rights, \"rw-s\") != 0 || !strstr(line, \"/dev/zero\")) continue;",
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
    "}"
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

is_stopped <- function(pid) {
  line <- tryCatch(suppressWarnings(readLines(file.path("/proc", pid, "stat"), 1L)), error = function(e) "")
  grepl(") T ", line, fixed = TRUE)
}

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
      all(vapply(others, function(p) {
        line <- tryCatch(suppressWarnings(readLines(file.path("/proc", p, "stat"), 1L)), error = function(e) ") Z ")
        grepl(") Z ", line, fixed = TRUE)
      }, NA))
    })
    if (how == "interrupt") session$process$interrupt() else tools::pskill(pid, 18L)
    got <- fault_value(session, timeout = 20)$value
    expect_identical(
      got, if (how == "interrupt") "interrupted" else c("went on", "death")
    )
  }
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
