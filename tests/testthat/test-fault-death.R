detritus <- detritus_snapshot()

collect <- function(X, FUN, ..., workers = 2L) {
  suppressWarnings(
    par_lapply(X, FUN, .control = two_workers(errors = "collect", workers = workers, ...)),
    classes = "regatta_warning_errors"
  )
}

test_that("a worker killed by SIGKILL costs its element alone, whatever the schedule", {
  for (workers in 1:2) {
    for (batch in list(NULL, 1L, 4L)) {
      got <- collect(c(a = 1, b = 2, c = 3, d = 4), function(x) {
        if (x == 2) tools::pskill(Sys.getpid(), tools::SIGKILL)
        x
      }, workers = workers, batch = batch)
      expect_identical(got[c("a", "c", "d")], list(a = 1, c = 3, d = 4))
      err <- got$b
      expect_s3_class(err, c("regatta_error_death", "regatta_error"))
      expect_identical(err$index, 2L)
      expect_identical(err$name, "b")
      expect_identical(err$signal, 9L)
      expect_identical(err$signal_name, "SIGKILL")
      expect_true(is.na(err$status))
      expect_false(isTRUE(err$oom))
    }
  }
})

test_that("the message of a death names index, pid, signal and peak memory", {
  err <- collect(1:2, function(i) {
    if (i == 2L) tools::pskill(Sys.getpid(), tools::SIGKILL)
  })[[2L]]
  text <- conditionMessage(err)
  expect_match(text, paste0("worker ", err$pid, " was killed by SIGKILL \\(9\\)"))
  expect_match(text, "element 2")
  expect_match(text, "peak memory [0-9.]+ [kMG]B")
  expect_gt(err$peak_memory, 1e7)
})

test_that("a dead worker is replaced", {
  got <- collect(1:6, function(i) {
    if (i %in% c(2L, 4L)) tools::pskill(Sys.getpid(), tools::SIGKILL)
    Sys.getpid()
  }, workers = 1L, batch = 1L)
  alive <- unlist(got[c(1L, 3L, 5L, 6L)])
  expect_length(unique(alive), 3L)
  expect_identical(alive[[3L]], alive[[4L]])
  workers <- par_last()$workers
  expect_identical(nrow(workers), 3L)
  expect_identical(sum(grepl("SIGKILL", workers$exit)), 2L)
  expect_setequal(workers$pid, c(alive, got[[2L]]$pid, got[[4L]]$pid))
})

test_that("every worker may die at once, again and again", {
  got <- collect(1:12, function(i) {
    if (i %% 2L == 0L) tools::pskill(Sys.getpid(), tools::SIGKILL)
    i
  }, workers = 4L, batch = 1L)
  died <- vapply(got, inherits, NA, "regatta_error_death")
  expect_identical(died, rep(c(FALSE, TRUE), 6L))
  expect_identical(vapply(got[died], function(e) e$index, 0L), seq(2L, 12L, 2L))
  expect_identical(got[!died], as.list(seq(1L, 11L, 2L)))
})

test_that("a worker killed by another process is told apart from its elements' errors", {
  got <- collect(1:4, function(i) {
    if (i == 1L) {
      system(paste("sleep 0.1; kill -9", Sys.getpid()))
      Sys.sleep(60)
    }
    if (i == 3L) stop("an error")
    i
  })
  expect_s3_class(got[[1L]], "regatta_error_death")
  expect_s3_class(got[[3L]], "regatta_error_element")
  expect_identical(got[c(2L, 4L)], list(2L, 4L))
})

test_that("signals from outside are named, also those for which R has handlers of its own", {
  skip_unless_linux()
  dir <- withr::local_tempdir()
  signals <- c(SIGHUP = 1L, SIGTERM = 15L, SIGUSR1 = 10L, SIGUSR2 = 12L, SIGALRM = 14L)
  got <- fault_run(function(signals, dir) {
    setwd(dir)
    assign(".Last", function() NULL, globalenv())
    kept <- tempfile()
    file.create(kept)
    values <- suppressWarnings(par_lapply(seq_along(signals), function(i) {
      tools::pskill(Sys.getpid(), signals[[i]])
      Sys.sleep(60)
    }, .control = par_control(workers = 2L, progress = FALSE, errors = "collect", dump = "no")))
    list(
      names = vapply(values, function(e) as.character(e$signal_name), ""),
      kept = file.exists(kept), files = list.files(dir, all.files = TRUE, no.. = TRUE)
    )
  }, list(signals = signals, dir = dir))$value
  expect_identical(got$names, names(signals))
  expect_true(got$kept)
  expect_identical(got$files, character())
})

test_that("a segmentation fault is named, with a backtrace of R and of C", {
  skip_unless_linux()
  library <- fault_compile(c(
    "void regatta_test_null(int *x) { *(volatile int *)0 = *x; }"
  ), "null", flags = "-g")
  crash_here <- function(i) {
    dyn.load(library)
    .C("regatta_test_null", i)
  }
  got <- collect(1:4, function(i) if (i == 2L) crash_here(i) else i)
  expect_identical(got[c(1L, 3L, 4L)], list(1L, 3L, 4L))
  err <- got[[2L]]
  expect_s3_class(err, "regatta_error_death")
  expect_identical(err$signal, 11L)
  expect_identical(err$signal_name, "SIGSEGV")
  expect_match(err$backtrace, "crash_here", all = FALSE)
  expect_match(err$backtrace, "regatta_test_null|null\\.so", all = FALSE)
  expect_match(conditionMessage(err), "crash_here")
  expect_false(any(grepl("par_lapply|regatta_test_par|testthat", err$backtrace)))
})

test_that("SIGSEGV sent from outside is named too", {
  got <- collect(1:3, function(i) {
    if (i == 2L) {
      tools::pskill(Sys.getpid(), 11L)
      Sys.sleep(60)
    }
    i
  })
  expect_identical(got[[2L]]$signal_name, "SIGSEGV")
  expect_identical(got[c(1L, 3L)], list(1L, 3L))
})

test_that("a stack overflow in C is a death by SIGSEGV and nothing worse", {
  skip_unless_linux()
  # Where the stack has no limit the machine's memory would be used up instead.
  library <- fault_compile(c(
    "#include <sys/resource.h>",
    "static int deeper(volatile char *p) {",
    "  volatile char block[65536];",
    "  block[0] = p ? *p : 0;",
    "  return deeper(block) + block[0];",
    "}",
    "void overflow(int *x) {",
    "  struct rlimit limit;",
    "  getrlimit(RLIMIT_STACK, &limit);",
    "  limit.rlim_cur = 8 << 20;",
    "  setrlimit(RLIMIT_STACK, &limit);",
    "  *x = deeper(0);",
    "}"
  ), "overflow")
  got <- collect(1:3, function(i) {
    if (i == 2L) {
      dyn.load(library)
      .C("overflow", 1L)
    }
    i
  })
  expect_s3_class(got[[2L]], "regatta_error")
  expect_identical(got[c(1L, 3L)], list(1L, 3L))
})

test_that("quit(), exit() and _exit() are deaths with a status, not NULL", {
  library <- fault_compile(c(
    "#include <stdlib.h>",
    "#include <unistd.h>",
    "void leave(int *s) { exit(*s); }",
    "void leave_now(int *s) { _exit(*s); }"
  ), "leave")
  leave <- function(i) {
    if (i == 1L) quit("no", 3)
    dyn.load(library)
    if (i == 2L) .C("leave", 4L)
    if (i == 3L) .C("leave_now", 0L)
    i
  }
  got <- collect(1:4, leave)
  expect_identical(got[[4L]], 4L)
  for (i in 1:3) {
    expect_s3_class(got[[i]], "regatta_error_death")
    expect_identical(got[[i]]$status, c(3L, 4L, 0L)[[i]])
    expect_true(is.na(got[[i]]$signal))
    expect_match(conditionMessage(got[[i]]), paste("status", got[[i]]$status))
  }
})

test_that("a death under errors = \"stop\" is the error of the run", {
  err <- expect_error(
    par_lapply(1:4, function(i) if (i == 2L) quit("no", 3) else i, .control = two_workers()),
    class = "regatta_error_death"
  )
  expect_identical(err$index, 2L)
  err <- expect_error(
    par_lapply(1:4, function(i) if (i == 2L) quit("no", 3) else i,
      .control = two_workers(errors = "finish")),
    class = "regatta_error"
  )
  expect_match(conditionMessage(err), "status 3")
})

test_that("an error of one element marks that element alone", {
  for (batch in list(NULL, 2L)) {
    got <- collect(1:4, function(i) if (i == 2L) stop("only me") else i, batch = batch)
    expect_identical(got[c(1L, 3L, 4L)], list(1L, 3L, 4L))
    expect_s3_class(got[[2L]], "regatta_error_element")
    expect_match(conditionMessage(got[[2L]]), "only me")
    expect_gt(length(got[[2L]]$trace$calls), 0L)
  }
})

test_that("what a worker had sent before it died is not lost", {
  got <- collect(1:40, function(i) {
    if (i == 30L) tools::pskill(Sys.getpid(), tools::SIGKILL)
    rep(i + 0, 2e4)
  }, workers = 1L, batch = 40L)
  expect_s3_class(got[[30L]], "regatta_error_death")
  for (i in setdiff(1:40, 30L)) expect_identical(got[[i]], rep(i + 0, 2e4))
})

test_that("output written before a death arrives", {
  out <- capture.output(collect(1:2, function(i) {
    cat("last words of", i, "\n")
    if (i == 2L) tools::pskill(Sys.getpid(), tools::SIGKILL)
  }, stdout = "capture"))
  expect_match(paste(out, collapse = "\n"), "last words of 2")
})

test_that("a worker that dies while it sends a large value loses that element alone", {
  skip_unless_linux()
  got <- collect(1:6, function(i) {
    if (i == 3L) {
      system(sprintf("(sleep 0.0%d; kill -9 %d) &", sample(0:9, 1L), Sys.getpid()))
      return(lapply(1:400, function(k) as.character(k + 1:2000)))
    }
    i
  })
  expect_identical(got[c(1L, 2L, 4L, 5L, 6L)], list(1L, 2L, 4L, 5L, 6L))
  expect_true(
    inherits(got[[3L]], "regatta_error_death") ||
      identical(got[[3L]][[400L]], as.character(400 + 1:2000))
  )
})

test_that("when all workers have died nothing stays open, also if nobody looks at the record", {
  skip_unless_linux()
  open_files <- function() {
    gc()
    length(list.files("/proc/self/fd"))
  }
  before <- open_files()
  collect(1:2, function(i) tools::pskill(Sys.getpid(), tools::SIGKILL), workers = 1L)
  expect_identical(open_files(), before)
})

test_that("a worker that dies asleep does not disturb another element's next try", {
  skip_unless_linux()
  session <- Sys.getpid()
  for (round in 1:10) {
    got <- par_lapply(1:2, function(i) {
      if (i == 2L || Sys.getenv("REGATTA_TRY") != "1") return(i)
      Sys.sleep(0.03) # by then the other worker waits for work
      children <- sprintf("/proc/%d/task/%d/children", session, session)
      others <- setdiff(scan(children, quiet = TRUE), Sys.getpid())
      tools::pskill(others, tools::SIGKILL)
      stop("again")
    }, .control = two_workers(retries = 1L, batch = 1L))
    expect_identical(got, list(1L, 2L))
  }
})

test_that("after deaths the next call works", {
  expect_identical(par_lapply(1:8, identity, .control = two_workers()), as.list(1:8))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
