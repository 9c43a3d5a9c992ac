detritus <- detritus_snapshot()

# A session whose workers are busy, each with a grandchild where asked for.
busy_session <- function(grandchildren = FALSE, workers = 3L, frame = parent.frame()) {
  session <- local_session(function(workers, grandchildren) {
    par_lapply(seq_len(workers), function(i) {
      if (grandchildren) system("sleep 300 &")
      held <- rep(i + 0, 1e5)
      cat("busy\n")
      Sys.sleep(300)
      held
    }, .control = par_control(workers = workers, progress = FALSE, batch = 1L))
  }, list(workers = workers, grandchildren = grandchildren), frame = frame)
  fault_wait_line(session, "busy", times = workers)
  session
}

expect_all_gone <- function(session, timeout = 60) {
  gone <- tryCatch(
    wait_until(function() length(marked_pids(session$mark)) == 0L, timeout, "the end of all"),
    error = function(e) FALSE
  )
  expect_true(gone)
}

test_that("when the parent is killed its workers are gone", {
  skip_unless_linux()
  session <- busy_session()
  expect_gte(length(marked_pids(session$mark)), 4L)
  tools::pskill(session$process$get_pid(), tools::SIGKILL)
  expect_all_gone(session)
})

test_that("no process of a map uses shared memory that has a name to leave behind", {
  skip_unless_linux()
  session <- busy_session()
  used <- lapply(marked_pids(session$mark), function(pid) {
    links <- Sys.readlink(list.files(file.path("/proc", pid, "fd"), full.names = TRUE))
    c(links, sub("^[^/]*", "", readLines(file.path("/proc", pid, "maps"))))
  })
  expect_match(unlist(used), "memfd", all = FALSE)
  expect_identical(grep("^/dev/shm", unlist(used), value = TRUE), character())
})

test_that("when the parent is killed its grandchildren are gone", {
  skip_unless_linux()
  session <- busy_session(grandchildren = TRUE)
  wait_until(function() length(marked_pids(session$mark)) >= 7L, 60, "the grandchildren")
  tools::pskill(session$process$get_pid(), tools::SIGKILL)
  expect_all_gone(session)
})

test_that("when the parent crashes or ends without a word its workers are gone", {
  skip_unless_linux()
  for (signal in c(tools::SIGTERM, tools::SIGHUP, 11L)) {
    session <- busy_session()
    tools::pskill(session$process$get_pid(), signal)
    expect_all_gone(session)
  }
})

test_that("when the parent is killed a worker that ignores signals is gone, too", {
  skip_unless_linux()
  library <- fault_compile(c(
    "#include <signal.h>",
    "#include <stdio.h>",
    "#include <unistd.h>",
    "void deaf(void) {",
    "  signal(SIGINT, SIG_IGN); signal(SIGTERM, SIG_IGN); signal(SIGHUP, SIG_IGN);",
    "  puts(\"busy\"); fflush(stdout);",
    "  for (;;) pause();",
    "}"
  ), "deaf")
  session <- local_session(function(library) {
    dyn.load(library)
    par_lapply(1:2, function(i) .C("deaf"), .control = par_control(workers = 2L, progress = FALSE))
  }, list(library = library))
  fault_wait_line(session, "busy", times = 2L)
  tools::pskill(session$process$get_pid(), tools::SIGKILL)
  expect_all_gone(session)
})

test_that("a worker whose parent dies before it can ask to die with it ends by itself", {
  skip_unless_linux()
  marker <- withr::local_tempfile()
  shim <- fault_compile(c(
    "#define _GNU_SOURCE",
    "#include <dlfcn.h>",
    "#include <fcntl.h>",
    "#include <signal.h>",
    "#include <stdarg.h>",
    "#include <stdlib.h>",
    "#include <sys/prctl.h>",
    "#include <unistd.h>",
    "int prctl(int option, ...) {",
    "  va_list ap; va_start(ap, option);",
    "  unsigned long a = va_arg(ap, unsigned long), b = va_arg(ap, unsigned long);",
    "  unsigned long c = va_arg(ap, unsigned long), d = va_arg(ap, unsigned long);",
    "  va_end(ap);",
    "  int (*real)(int, ...) = (int (*)(int, ...))dlsym(RTLD_NEXT, \"prctl\");",
    "  const char *marker = getenv(\"REGATTA_TEST_RACE\");",
    "  if (option == PR_SET_PDEATHSIG && marker) {",
    "    pid_t parent = getppid();",
    "    close(open(marker, O_CREAT | O_WRONLY, 0600));",
    "    kill(parent, SIGKILL);",
    "    for (int i = 0; i < 10000 && getppid() == parent; i++) usleep(1000);",
    "  }",
    "  return real(option, a, b, c, d);",
    "}"
  ), "race", preload = TRUE)
  session <- local_session(function(shim) {
    par_lapply(1:4, function(i) Sys.sleep(300),
      .control = par_control(workers = 2L, progress = FALSE))
  }, list(shim = shim), env = c(LD_PRELOAD = shim, REGATTA_TEST_RACE = marker))
  wait_until(function() !session$process$is_alive(), 60, "the death of the parent")
  expect_true(file.exists(marker))
  expect_all_gone(session)
})

test_that("when the parent is killed at a random moment nothing survives", {
  skip_unless_linux()
  withr::local_preserve_seed()
  for (i in 1:5) {
    session <- local_session(function() {
      cat("ready\n")
      repeat {
        par_lapply(1:50, function(i) rep(i + 0, 2e4),
          .control = par_control(workers = 3L, progress = FALSE))
      }
    })
    fault_wait_line(session, "ready")
    Sys.sleep(stats::runif(1, 0, 0.1))
    tools::pskill(session$process$get_pid(), tools::SIGKILL)
    expect_all_gone(session)
  }
})

test_that("quit() while workers of par_call() run takes them along", {
  skip_unless_linux()
  session <- local_session(function() {
    handle <- par_call({
      cat("busy\n")
      Sys.sleep(300)
    }, .control = par_control(progress = FALSE))
    quit("no", 0)
  })
  wait_until(function() !session$process$is_alive(), 60, "the end of the session")
  expect_all_gone(session)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
