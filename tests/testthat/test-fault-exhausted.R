detritus <- detritus_snapshot()

# Runs `attempt` in a session once for each of `limits`, a number of resources that are left, with
# prlimit's `what` set meanwhile. The session prints what it has left and what came of it. The limit
# of descriptors is one of their numbers: with none left, the lowest free number is the limit.
# `become` is the command that makes root another user.
under_limits <- function(what, limits, become = character(), ...) {
  skip_unless_command("prlimit")
  session <- fault_start(function(limits) {
    input <- file("stdin", "r")
    # The one that lists the folder is gone when its link is read.
    descriptors <- function() {
      paths <- list.files("/proc/self/fd", full.names = TRUE)
      as.integer(basename(paths[nzchar(Sys.readlink(paths))]))
    }
    lowest_free <- function() min(setdiff(0:1000, descriptors()))
    children <- function() {
      path <- sprintf("/proc/%d/task/%d/children", Sys.getpid(), Sys.getpid())
      length(scan(path, quiet = TRUE))
    }
    control <- par_control(workers = 4L, progress = FALSE, batch = 1L, dump = "no")
    f <- function(i) {
      Sys.sleep(0.01)
      c(i, Sys.getpid())
    }
    attempt <- function() {
      tryCatch({
        got <- par_lapply(1:8, f, .control = control)
        right <- identical(vapply(got, `[`, 0L, 1L), 1:8)
        list(class = if (right) "values" else "wrong values", text = "")
      }, error = function(e) list(class = class(e)[[1L]], text = conditionMessage(e)))
    }
    attempt()
    gc()
    used <- length(descriptors())
    outcomes <- list()
    for (limit in limits) {
      cat(sprintf("lower %d.\n", as.integer(lowest_free() + limit)))
      readLines(input, 1L)
      outcome <- suppressWarnings(attempt())
      cat("raise\n")
      readLines(input, 1L)
      gc()
      # Idle workers are collected when they are gone, which nobody waits for.
      patience <- Sys.time() + 20
      while (children() > 0L && Sys.time() < patience) Sys.sleep(0.01)
      outcome$left <- c(length(descriptors()) - used, children())
      outcome$next_call <- attempt()$class
      outcomes <- c(outcomes, list(outcome))
    }
    outcomes
  }, list(limits = limits), wrap = become, ...)
  pid <- session$process$get_pid()
  set <- function(to) {
    command <- c(become, "prlimit", "--pid", pid, sprintf("--%s=%s:", what, to))
    if (system2(command[[1L]], command[-1L]) != 0L) {
      fault_end(session)
      stop("prlimit cannot set the limit")
    }
  }
  for (k in seq_along(limits)) {
    whole <- "^lower ([0-9]+)\\.$"
    fault_wait_line(session, whole, times = k)
    lines <- grep(whole, fault_text(session, "stdout"), value = TRUE)
    used <- as.integer(sub(whole, "\\1", lines[[k]]))
    set(if (what == "nofile") used else limits[[k]])
    fault_tell(session, "lowered")
    fault_wait_line(session, "^raise", times = k)
    set(1000L)
    fault_tell(session, "raised")
  }
  fault_value(session)$value
}

expect_clean_outcomes <- function(outcomes) {
  for (outcome in outcomes) {
    expect_identical(outcome$left, c(0L, 0L))
    expect_identical(outcome$next_call, "values")
    if (outcome$class != "values") {
      expect_identical(outcome$class, "regatta_error_start")
      expect_match(outcome$text, "open files|processes|Resource temporarily|memory")
    }
  }
  vapply(outcomes, function(outcome) outcome$class, "")
}

test_that("with few descriptors left there are fewer workers or a clear error, and no leak", {
  skip_unless_linux()
  classes <- expect_clean_outcomes(under_limits("nofile", 0:40))
  expect_identical(classes[[1L]], "regatta_error_start")
  expect_identical(classes[[41L]], "values")
})

test_that("with few processes left there are fewer workers or a clear error, and no leak", {
  skip_unless_linux()
  if (!is_root()) skip("only root can be another user for this")
  skip_unless_command("setpriv")
  withr::local_preserve_seed()
  # A number nobody else has: the limit counts all processes of a user.
  user <- 50000L + Sys.getpid() %% 10000L
  become <- c("setpriv", paste0("--reuid=", user), paste0("--regid=", user), "--clear-groups")
  dir <- tempfile("home-", tmpdir = dirname(tempdir()))
  dir.create(dir)
  withr::defer(unlink(dir, recursive = TRUE))
  Sys.chmod(dir, "1777", use_umask = FALSE)
  skip_unless_reachable(become, dir)
  classes <- expect_clean_outcomes(under_limits(
    "nproc", 1:6, become = become, env = c(TMPDIR = dir, HOME = dir), base = dir
  ))
  expect_identical(classes[[1L]], "regatta_error_start")
  expect_true("values" %in% classes[2:6])
})

test_that("workers that die before they begin are an error, not a loop", {
  skip_unless_linux()
  shim <- fault_compile(c(
    "#include <signal.h>",
    "#include <stdlib.h>",
    "#include <sys/prctl.h>",
    "int prctl(int option, ...) {",
    "  if (option == PR_SET_PDEATHSIG && getenv(\"REGATTA_TEST_DIE\")) raise(SIGKILL);",
    "  return 0;",
    "}"
  ), "stillborn", preload = TRUE)
  got <- fault_run(function() {
    control <- par_control(workers = 2L, progress = FALSE, dump = "no")
    failed <- tryCatch(par_lapply(1:4, identity, .control = control), error = identity)
    Sys.unsetenv("REGATTA_TEST_DIE")
    list(class = class(failed)[[1L]], after = par_lapply(1:4, identity, .control = control))
  }, env = c(LD_PRELOAD = shim, REGATTA_TEST_DIE = "1"), timeout = 60)$value
  expect_identical(got, list(class = "regatta_error_start", after = as.list(1:4)))
})

test_that("the limit of a file's size is an error that names it, and ends nothing", {
  skip_unless_linux()
  skip_unless_command("prlimit")
  got <- fault_run(function() {
    message_of <- function(code) tryCatch(code, error = conditionMessage)
    list(
      small = par_lapply(1:2, identity, .on = 2L),
      shared = message_of(shm_share(numeric(1e6))),
      result = message_of(par_lapply(1:2, function(i) numeric(1e6), .on = 2L)),
      again = unlist(par_lapply(1:2, identity, .on = 2L))
    )
  }, wrap = c("prlimit", "--fsize=1000000"))$value
  expect_identical(got$small, list(1L, 2L))
  expect_match(got$shared, "more than 1 MB (RLIMIT_FSIZE)", fixed = TRUE)
  expect_match(got$result, "more than 1 MB (RLIMIT_FSIZE)", fixed = TRUE)
  expect_identical(got$again, 1:2)
  start <- fault_run(function() {
    tryCatch(par_lapply(1:2, identity, .on = 2L), error = conditionMessage)
  }, wrap = c("prlimit", "--fsize=10000"))$value
  expect_match(start, "10000 bytes (RLIMIT_FSIZE)", fixed = TRUE)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
