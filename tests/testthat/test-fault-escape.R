detritus <- detritus_snapshot()

# Code of an element that leaves the worker's process group, or makes sessions and copies of its own.
escapes <- function(frame = parent.frame()) {
  fault_compile(c(
    "#include <sys/types.h>",
    "#include <signal.h>",
    "#include <sys/wait.h>",
    "#include <unistd.h>",
    "#include <stdlib.h>",
    "void join_parent(void) { setpgid(0, getpgid(getppid())); }",
    "/* As daemons do: a child of a child, in a session of its own; no program is started. */",
    "void daemon_copy(int *pid) {",
    "  int ends[2];",
    "  if (pipe(ends) < 0) abort();",
    "  pid_t child = fork();",
    "  if (child == 0) {",
    "    setsid();",
    "    pid_t own = fork();",
    "    if (own == 0) { signal(SIGTERM, SIG_IGN); for (;;) pause(); }",
    "    if (write(ends[1], &own, sizeof own) < 0) abort();",
    "    _exit(0);",
    "  }",
    "  if (read(ends[0], pid, sizeof *pid) < 0) abort();",
    "  close(ends[0]); close(ends[1]);",
    "  waitpid(child, 0, 0);",
    "}"
  ), "escapes", env = frame)
}

# A program in a session of its own that nobody waits for; the file `name` gets its number.
escaped_sleep <- "setsid sh -c 'echo $$ > \"%s.part\"; mv \"%s.part\" \"%s\"; exec sleep 313' &"

test_that("a session whose workers have joined its process group ends and can be interrupted", {
  skip_unless_linux()
  library <- escapes()
  job <- function(library, how) {
    dyn.load(library)
    control <- par_control(workers = 2L, progress = FALSE, dump = "no", batch = 1L)
    caught <- tryCatch(par_lapply(1:8, function(i) {
      .C("join_parent")
      if (how == "error" && i == 5L) stop("x")
      if (how == "interrupt") {
        if (i > 1L) return(i)
        cat("ready\n", file = file.path(dir, "ready"))
        Sys.sleep(300)
      }
      i
    }, .control = control), error = function(e) "error", interrupt = function(e) "interrupt")
    # Idle workers are collected when they are gone, which the call does not wait for.
    patience <- Sys.time() + 20
    repeat {
      children <- readLines(sprintf("/proc/self/task/%d/children", Sys.getpid()), warn = FALSE)
      if (length(children) == 0L || Sys.time() > patience) break
      Sys.sleep(0.01)
    }
    list(caught = caught, children = children)
  }
  ends <- fault_run(job, list(library = library, how = "end"))$value
  expect_identical(ends, list(caught = as.list(1:8), children = character()))
  ends <- fault_run(job, list(library = library, how = "error"))$value
  expect_identical(ends, list(caught = "error", children = character()))
  session <- local_session(job, list(library = library, how = "interrupt"))
  wait_until(file.exists(file.path(session$dir, "ready")))
  tools::pskill(session$process$get_pid(), tools::SIGINT)
  ends <- fault_value(session)$value
  expect_identical(ends, list(caught = "interrupt", children = character()))
})

# What an element leaves behind: `how` the run ends.
escape_job <- function(dir, library, command, how) {
  dyn.load(library)
  fill <- function(i) gsub("%s", file.path(dir, paste0("sleeper.", i)), command, fixed = TRUE)
  control <- par_control(
    workers = 2L, progress = FALSE, dump = "no", batch = 1L,
    timeout = if (how == "limit") 1 else Inf, errors = if (how == "limit") "collect" else "stop"
  )
  body <- function(i) {
    system(fill(i))
    part <- file.path(dir, paste0("copy.", i, ".part"))
    cat(.C("daemon_copy", pid = 0L)$pid, file = part)
    file.rename(part, sub("[.]part$", "", part))
    if (how == "limit") {
      # system() holds interrupts off while it waits: the worker must be killed.
      repeat system(sub(" &$", "", fill(paste0("more.", i))))
    }
    while (length(list.files(dir, "^sleeper[.][12]$")) < 2L) Sys.sleep(0.01)
    while (length(list.files(dir, "^copy[.][12]$")) < 2L) Sys.sleep(0.01)
    if (how == "error" && i == 1L) stop("x")
    if (how == "death" && i == 1L) tools::pskill(Sys.getpid(), tools::SIGKILL)
    if (how == "quit" && i == 1L) quit("no", 3L)
    if (how %in% c("interrupt", "killed")) {
      file.create(file.path(dir, paste0("ready.", i)))
      Sys.sleep(300)
    }
    if (how == "error") Sys.sleep(300)
    i
  }
  ended <- tryCatch(suppressWarnings(par_lapply(1:2, body, .control = control)),
    error = function(e) "error", interrupt = function(e) "interrupt"
  )
  cat("over\n")
  readLines(file("stdin"), 1L)
  ended
}

expect_gone <- function(dir, how, pattern = "^(sleeper|copy)") {
  files <- list.files(dir, pattern, full.names = TRUE)
  files <- files[!grepl("part$", files)]
  pids <- vapply(files, scan, 0, quiet = TRUE, USE.NAMES = FALSE)
  gone <- tryCatch(
    wait_until(function() !any(vapply(pids, is_running, NA)), 60, "the end of what was left"),
    error = function(e) FALSE
  )
  left <- basename(files)[vapply(pids, is_running, NA)]
  for (pid in pids) tools::pskill(pid, tools::SIGKILL)
  expect_gte(length(pids), 4L)
  expect_true(gone, info = paste(how, paste(left, collapse = " ")))
}

for (how in c("end", "error", "limit", "quit", "interrupt", "killed")) {
  test_that(paste("programs and copies in sessions of their own go with a run; its end:", how), {
    skip_unless_linux()
    skip_unless_command("setsid")
    dir <- withr::local_tempdir()
    library <- escapes()
    session <- local_session(escape_job, list(
      dir = dir, library = library, command = escaped_sleep, how = how
    ))
    if (how %in% c("interrupt", "killed")) {
      wait_until(length(list.files(dir, "^ready")) == 2L, 60)
      signal <- if (how == "killed") tools::SIGKILL else tools::SIGINT
      tools::pskill(session$process$get_pid(), signal)
    }
    if (how == "killed") {
      wait_until(!session$process$is_alive())
    } else {
      fault_wait_line(session, "^over")
    }
    expect_gone(dir, how)
  })
}

test_that("programs in sessions of their own go with a worker that somebody kills", {
  skip_unless_linux()
  skip_unless_command("setsid")
  dir <- withr::local_tempdir()
  library <- escapes()
  session <- local_session(escape_job, list(
    dir = dir, library = library, command = escaped_sleep, how = "death"
  ))
  fault_wait_line(session, "^over")
  # A copy that has started no program carries no mark: of a worker that was killed from outside
  # nobody knows it any more.
  copies <- list.files(dir, "^copy", full.names = TRUE)
  for (pid in vapply(copies, scan, 0, quiet = TRUE)) tools::pskill(pid, tools::SIGKILL)
  expect_gone(dir, "death")
  fault_tell(session, "go on")
  expect_identical(fault_value(session, timeout = 60)$value, "error")
})

test_that("what the session has started in a session of its own is left alone", {
  skip_unless_linux()
  skip_unless_command("setsid")
  file <- withr::local_tempfile()
  system(gsub("%s", file, escaped_sleep, fixed = TRUE))
  wait_until(file.exists(file))
  pid <- scan(file, quiet = TRUE)
  withr::defer(tools::pskill(pid, tools::SIGKILL))
  suppressWarnings(par_lapply(1:4, function(i) {
    system("true")
    if (i == 2L) tools::pskill(Sys.getpid(), tools::SIGKILL)
    i
  }, .control = two_workers(errors = "collect")))
  expect_true(is_running(pid))
})

test_that("a copy of a worker that parallel:::mcfork() has made takes no part in the run", {
  skip_unless_linux()
  got <- fault_run(function() {
    control <- par_control(workers = 2L, progress = FALSE, dump = "no", batch = 1L)
    values <- par_lapply(1:60, function(i) {
      copy <- if (i %% 10L == 3L) parallel:::mcfork()
      if (inherits(copy, "masterProcess")) Sys.sleep(0.02)
      rep(i + 0, if (i %% 2L == 0L) 3e4 else 10L)
    }, .control = control)
    errors <- par_lapply(1:20, function(i) {
      copy <- if (i %% 10L == 3L) parallel:::mcfork()
      if (inherits(copy, "masterProcess")) stop("the copy's own affair")
      i
    }, .control = control)
    right <- mapply(function(v, i) identical(v, rep(i + 0, if (i %% 2L == 0L) 3e4 else 10L)),
      values, 1:60)
    list(right = all(right), errors = errors)
  }, timeout = 60)$value
  expect_identical(got, list(right = TRUE, errors = as.list(1:20)))
})

test_that("warnings and messages of a child that an element forks do not disturb the worker", {
  skip_unless_linux()
  got <- fault_run(function() {
    par_lapply(1:4, function(i) {
      unlist(parallel::mclapply(1:2, function(j) {
        for (k in 1:2000) suppressWarnings(warning("w"))
        for (k in 1:300) withCallingHandlers(warning("w"), warning = function(w) NULL)
        j
      }, mc.cores = 2L))
    }, .control = par_control(workers = 2L, progress = FALSE, dump = "no"))
  }, timeout = 120)
  expect_identical(got$value, rep(list(1:2), 4L))
  expect_false(any(grepl("warnings? ", got$stderr)))
})

test_that("a C stack overflow in a worker is an R error, as in the session", {
  skip_unless_linux()
  library <- fault_compile(c(
    "int deep(volatile char *p) {",
    "  volatile char frame[4096]; frame[0] = *p; return deep(frame) + frame[0];",
    "}",
    "void overflow(int *x) { volatile char c = 1; *x = deep(&c); }"
  ), "overflow")
  got <- fault_run(function(library) {
    dyn.load(library)
    values <- suppressWarnings(par_lapply(1:8, function(i) {
      if (i %in% c(2L, 5L)) .C("overflow", 0L)
      c(i, Sys.getpid())
    }, .control = par_control(
      workers = 1L, progress = FALSE, errors = "collect", dump = "no"
    )))
    good <- values[-c(2L, 5L)]
    control <- par_control(workers = 2L, progress = FALSE, errors = "collect", dump = "no")
    nested <- par_lapply(1:2, function(i) {
      par_lapply(1:2, function(j) .C("overflow", 0L), .control = control)
    }, .control = control)
    list(
      classes = lapply(c(values[c(2L, 5L)], unlist(nested, recursive = FALSE)), class), text = conditionMessage(values[[2L]]),
      index = vapply(good, `[[`, 0L, 1L), pids = length(unique(vapply(good, `[[`, 0L, 2L)))
    )
  }, list(library = library))$value
  for (class in got$classes) expect_true("regatta_error_element" %in% class)
  expect_match(got$text, "C stack")
  expect_identical(got$index, c(1L, 3L, 4L, 6L, 7L, 8L))
  expect_identical(got$pids, 1L)
})

# Overrides calls of the C library and notes them, or has a kill take effect only when a file is gone, as that of a
# process does which the system holds up.
spy_on_ends <- function(frame = parent.frame()) {
  fault_compile(c(
    "#define _GNU_SOURCE",
    "#include <dlfcn.h>",
    "#include <pthread.h>",
    "#include <signal.h>",
    "#include <stdint.h>",
    "#include <stdio.h>",
    "#include <stdlib.h>",
    "#include <sys/resource.h>",
    "#include <sys/types.h>",
    "#include <sys/wait.h>",
    "#include <unistd.h>",
    "static void note(const char *what, int pid) {",
    "  const char *path = getenv(\"SPY_LOG\");",
    "  FILE *log = path ? fopen(path, \"a\") : NULL;",
    "  if (log) { fprintf(log, \"%s %d by %d\\n\", what, pid, (int)getpid()); fclose(log); }",
    "}",
    "static int (*real_kill)(pid_t, int);",
    "static int is_held(void) {",
    "  const char *holding = getenv(\"SPY_HOLDING\");",
    "  return holding && access(holding, F_OK) == 0;",
    "}",
    "static void *kill_late(void *pid) {",
    "  while (is_held()) usleep(1000);",
    "  real_kill((pid_t)(intptr_t)pid, SIGKILL);",
    "  return NULL;",
    "}",
    "int kill(pid_t pid, int number) {",
    "  pthread_t late;",
    "  if (!real_kill) real_kill = (int (*)(pid_t, int))dlsym(RTLD_NEXT, \"kill\");",
    "  if (number == SIGKILL) note(\"kill\", (int)pid);",
    "  if (number != SIGKILL || !is_held()) return real_kill(pid, number);",
    "  return pthread_create(&late, NULL, kill_late, (void *)(intptr_t)pid) ? -1 : 0;",
    "}",
    "pid_t wait4(pid_t pid, int *status, int how, struct rusage *usage) {",
    "  static pid_t (*real)(pid_t, int *, int, struct rusage *);",
    "  if (!real) real = (pid_t (*)(pid_t, int *, int, struct rusage *))dlsym(RTLD_NEXT, \"wait4\");",
    "  pid_t got = real(pid, status, how, usage);",
    "  if (got > 0) note(\"collected\", (int)got);",
    "  return got;",
    "}"
  ), "spy", preload = TRUE, env = frame)
}

test_that("no process group is killed after its leader was collected", {
  skip_unless_linux()
  log <- withr::local_tempfile()
  got <- fault_run(function() {
    suppressWarnings(par_lapply(1:12, function(i) {
      if (i %% 4L == 0L) tools::pskill(Sys.getpid(), tools::SIGKILL)
      if (i %% 4L == 1L) quit("no", 3L)
      i
    }, .control = par_control(
      workers = 2L, progress = FALSE, errors = "collect", dump = "no", batch = 1L
    )))
    Sys.getpid()
  }, env = c(LD_PRELOAD = spy_on_ends(), SPY_LOG = log))
  lines <- grep(sprintf(" by %d$", got$value), readLines(log), value = TRUE)
  lines <- sub(" by .*", "", lines)
  collected <- grep("^collected", lines)
  expect_gte(length(collected), 6L)
  for (at in collected) {
    pid <- sub("^collected ", "", lines[[at]])
    group <- which(lines == paste0("kill -", pid))
    expect_gte(length(group), 1L)
    expect_true(all(group < at), info = paste(lines, collapse = "\n"))
    expect_false(any(which(lines == paste0("kill ", pid)) > at))
  }
})

test_that("a worker that a kill does not end holds up the session for some seconds only, and is no zombie later", {
  skip_unless_linux()
  holding <- withr::local_tempfile()
  got <- fault_run(function(holding) {
    control <- par_control(workers = 2L, progress = FALSE, dump = "no", batch = 1L)
    file.create(holding)
    caught <- tryCatch(par_lapply(1:2, function(i) {
      if (i == 1L) stop("x")
      Sys.sleep(300)
    }, .control = control), error = function(e) "error")
    children <- function() {
      scan(sprintf("/proc/self/task/%d/children", Sys.getpid()), 0L, quiet = TRUE)
    }
    fewer_than <- function(count) {
      patience <- Sys.time() + 20
      while (length(children()) >= count && Sys.time() < patience) Sys.sleep(0.01)
      children()
    }
    held <- fewer_than(2L)
    again <- par_lapply(1:2, identity, .control = control)
    still <- identical(fewer_than(2L), held)
    unlink(holding)
    list(caught = caught, held = length(held), again = again, still = still, left = fewer_than(1L))
  }, list(holding = holding), env = c(LD_PRELOAD = spy_on_ends(), SPY_HOLDING = holding),
  timeout = 60)$value
  expect_identical(
    got, list(caught = "error", held = 1L, again = list(1L, 2L), still = TRUE, left = integer())
  )
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
