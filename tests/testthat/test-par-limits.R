withr::with_preserve_seed(remote_warm())
detritus <- detritus_snapshot()

collect <- function(X, FUN, ..., workers = 2L) {
  suppressWarnings(
    par_lapply(X, FUN, .control = two_workers(errors = "collect", workers = workers, ...)),
    classes = "regatta_warning_errors"
  )
}

test_that("an element over its time is ended and marked, and the rest go on", {
  got <- collect(c(a = 1, b = 2, c = 3, d = 4), function(i) {
    if (i == 2) Sys.sleep(300)
    i
  }, timeout = 0.5)
  expect_identical(got[c("a", "c", "d")], list(a = 1, c = 3, d = 4))
  err <- got$b
  expect_s3_class(err, "regatta_error_timeout")
  expect_identical(err$kind, "elapsed")
  expect_identical(err$index, 2L)
  expect_identical(err$name, "b")
  expect_equal(err$limit, 0.5)
  expect_gte(err$used, 0.5)
  expect_match(conditionMessage(err), "timeout")
  expect_identical(as.character(par_last()$elements$status), c("done", "timeout", "done", "done"))
})

test_that("an interruptible element is ended gently: on.exit runs and the worker lives", {
  marker <- withr::local_tempfile()
  got <- collect(1:3, function(i) {
    on.exit(if (i == 1L) file.create(marker))
    if (i == 1L) Sys.sleep(300)
    Sys.getpid()
  }, timeout = 0.5, workers = 1L)
  expect_s3_class(got[[1L]], "regatta_error_timeout")
  expect_true(file.exists(marker))
  expect_identical(got[[2L]], got[[1L]]$pid)
})

test_that("an element that suspends interrupts is ended all the same", {
  got <- collect(1:3, function(i) {
    if (i == 1L) suspendInterrupts(repeat Sys.sleep(1))
    i
  }, timeout = 0.5, workers = 1L)
  expect_s3_class(got[[1L]], "regatta_error_timeout")
  expect_identical(got[2:3], list(2L, 3L))
})

test_that("an element that is stuck in C code, or catches interrupts, is killed and replaced", {
  library <- fault_compile(c(
    "#include <signal.h>",
    "#include <unistd.h>",
    "void stuck(int *x) {",
    "  signal(SIGINT, SIG_IGN); signal(SIGTERM, SIG_IGN);",
    "  for (;;) pause();",
    "}"
  ), "stuck")
  got <- collect(1:3, function(i) {
    if (i == 1L) {
      dyn.load(library)
      .C("stuck", 1L)
    }
    if (i == 2L) repeat tryCatch(Sys.sleep(300), interrupt = function(e) NULL)
    Sys.getpid()
  }, timeout = 0.5)
  expect_s3_class(got[[1L]], "regatta_error_timeout")
  expect_s3_class(got[[2L]], "regatta_error_timeout")
  expect_false(got[[3L]] %in% c(got[[1L]]$pid, got[[2L]]$pid))
})

test_that("an element that catches the interrupt of its limit has reached the limit, whatever it returns", {
  caught <- function(i) if (i == 2L) tryCatch(Sys.sleep(300), interrupt = function(e) "a part") else i
  for (on in list(1L, local_pool(1L), local_cluster(1L))) {
    control <- two_workers(workers = 1L, errors = "collect", timeout = 0.5)
    got <- suppressWarnings(
      par_lapply(1:3, caught, .on = on, .control = control), classes = "regatta_warning_errors"
    )
    expect_s3_class(got[[2L]], "regatta_error_timeout")
    expect_identical(got[c(1L, 3L)], list(1L, 3L))
  }
})

# What code may make of the interrupt of its limit. The last one costs its worker.
ends_of_interrupt <- list(
  error = function() stop("stopped"),
  "error as of C++" = function() stop(errorCondition("stopped", class = c("std::runtime_error", "C++Error"))),
  "warning and value" = function() {
    warning("stopped")
    1
  },
  jump = function() invokeRestart("abort"),
  death = function() quit("no", status = 3)
)

interrupted_to <- function(end, code = Sys.sleep(300)) tryCatch(code, interrupt = function(e) end())

expect_limits_reached <- function(on) {
  # The first error that a worker describes takes so long that it may be killed meanwhile.
  testthat::expect_error(
    par_lapply(1L, function(i) stop("an earlier one"), .on = on, .control = two_workers(workers = 1L)), "earlier"
  )
  got <- suppressWarnings(par_lapply(
    ends_of_interrupt, interrupted_to, .on = on,
    .control = two_workers(workers = 1L, errors = "collect", timeout = 0.3, retries = 1)
  ))
  testthat::expect_identical(vapply(got, inherits, NA, "regatta_error_timeout", USE.NAMES = FALSE), rep(TRUE, 5L))
  testthat::expect_identical(vapply(got, function(cnd) cnd$try, 1L, USE.NAMES = FALSE), rep(1L, 5L))
}

test_that("whatever an element makes of the interrupt of its limit, it has reached the limit", {
  for (on in list(1L, local_pool(1L), local_cluster(1L))) expect_limits_reached(on)
})

test_that("so it has on another host", {
  expect_limits_reached(local_shell_cluster(1))
})

test_that("an error made of the interrupt of a limit is tried again where that of a limit is", {
  err <- expect_error(
    par_lapply(ends_of_interrupt["error"], interrupted_to, .on = 1L, .control = two_workers(
      workers = 1L, timeout = 0.3, retries = 1, retry_on = "timeout"
    )), class = "regatta_error_timeout"
  )
  expect_identical(err$try, 2L)
  expect_identical(as.character(par_last()$tries$status), "timeout")
})

test_that("an error made of the interrupt of another limit is that limit as well", {
  skip_unless_linux()
  busy <- function(i) interrupted_to(ends_of_interrupt$error, repeat sqrt(i))
  grows <- function(i) {
    held <- list()
    interrupted_to(ends_of_interrupt$error, repeat {
      if (length(held) < 100L) held <- c(held, list(stats::runif(5e5)))
      Sys.sleep(0.002)
    })
  }
  for (on in list(1L, local_pool(1L))) {
    failure <- function(FUN, ...) {
      control <- two_workers(workers = 1L, ...)
      expect_error(par_lapply(1L, FUN, .on = on, .control = control), class = "regatta_error_timeout")
    }
    expect_identical(failure(busy, cpu_timeout = 0.3, retries = 1)$kind, "cpu")
    expect_identical(failure(grows, memory = "100MB", retries = 1)$kind, "memory")
  }
})

test_that("an error before the limit is what it is", {
  got <- collect(1:2, function(i) {
    if (i == 1L) stop("by itself")
    Sys.sleep(300)
  }, timeout = 0.5)
  expect_s3_class(got[[1L]], "regatta_error_element")
  expect_s3_class(got[[2L]], "regatta_error_timeout")
})

test_that("a stopped element is ended by its time limit", {
  got <- collect(1:2, function(i) {
    if (i == 1L) tools::pskill(Sys.getpid(), tools::SIGSTOP)
    i
  }, timeout = 0.5)
  expect_s3_class(got[[1L]], "regatta_error_timeout")
  expect_identical(got[[2L]], 2L)
})

test_that("cpu_timeout counts work and not sleep", {
  got <- collect(1:3, function(i) {
    if (i == 1L) repeat sqrt(i)
    if (i == 2L) Sys.sleep(1.5)
    i
  }, cpu_timeout = 1)
  expect_s3_class(got[[1L]], "regatta_error_timeout")
  expect_identical(got[[1L]]$kind, "cpu")
  expect_gte(got[[1L]]$used, 1)
  expect_identical(got[2:3], list(2L, 3L))
})

test_that("each element has the whole of its limit", {
  got <- collect(1:20, function(i) {
    Sys.sleep(0.1)
    i
  }, timeout = 1, workers = 1L)
  # All of them, but for one in which the machine did not run for so long; of a limit for all half were over it.
  expect_gte(sum(!par_failed(got)), 18L)
})

test_that("the time a worker needs to start counts for no element", {
  got <- collect(1:2, identity, timeout = 0.4, workers = 2L)
  expect_identical(got, as.list(1:2))
})

test_that("an element over its memory is ended and marked, and the rest go on", {
  skip_unless_linux()
  if (memory_available() < 2e9) skip("less than 2 GB of memory available")
  got <- collect(1:4, function(i) {
    if (i == 2L) {
      held <- list()
      repeat if (length(held) < 100L) held[[length(held) + 1L]] <- stats::runif(5e5) else Sys.sleep(0.01)
    }
    i
  }, memory = "300MB")
  err <- got[[2L]]
  expect_s3_class(err, "regatta_error_timeout")
  expect_identical(err$kind, "memory")
  expect_equal(err$limit, 3e8)
  expect_gt(err$used, 3e8)
  expect_match(conditionMessage(err), "memory")
  expect_identical(got[c(1L, 3L, 4L)], list(1L, 3L, 4L))
})

test_that("what an element leaves behind is no memory that the next one needs", {
  skip_unless_linux()
  if (memory_available() < 2e9) skip("less than 2 GB of memory available")
  one <- function(i) {
    if (i %in% c(2L, 4L)) z <- numeric(if (i == 2L) 1.5e7 else 8e7) + 1
    Sys.sleep(0.1)
    i
  }
  for (batch in list(NULL, 6L)) {
    got <- par_lapply(1:8, one, .control = two_workers(workers = 1L, errors = "collect", memory = "300MB", batch = batch))
    expect_identical(which(par_failed(got)), 4L)
    expect_identical(got[-4L], as.list(c(1:3, 5:8)))
  }
})

test_that("memory below its limit ends nothing", {
  skip_unless_linux()
  got <- collect(1:4, function(i) sum(rep(1, 5e6)), memory = "500MB")
  expect_identical(got, rep(list(5e6), 4L))
})

test_that("what the session holds itself counts for no element", {
  skip_unless_linux()
  if (memory_available() < 2e9) skip("less than 2 GB of memory available")
  held <- rep(1, 4e7) # 320 MB
  got <- collect(1:4, function(i) {
    Sys.sleep(0.2) # so that it is looked at
    length(held)
  }, memory = "200MB")
  expect_identical(got, rep(list(40000000L), 4L))
})

test_that("a limit reached under errors = \"stop\" is the error of the run", {
  err <- expect_error(
    par_lapply(1:4, function(i) if (i == 1L) Sys.sleep(300) else i,
      .control = two_workers(timeout = 0.5)),
    class = "regatta_error_timeout"
  )
  expect_s3_class(err, "regatta_error")
  expect_identical(err$index, 1L)
})

test_that("an interrupt for one try of an element is not that of the next", {
  # The first try takes its interrupt for itself: the second has some of its own, on the same worker. One of them may
  # be taken for that of the first try, which could have come so late.
  of_two_tries <- function(on) {
    got <- suppressWarnings(classes = "regatta_warning_errors", par_lapply(1L, function(i) {
      if (Sys.getenv("REGATTA_TRY") == "1") tryCatch(Sys.sleep(300), interrupt = function(e) stop("the first"))
      repeat {
        tools::pskill(Sys.getpid(), tools::SIGINT)
        Sys.sleep(0.01)
      }
    }, .on = on, .control = two_workers(
      workers = 1L, errors = "collect", timeout = 1, retries = 1, retry_on = "timeout"
    )))
    conditionMessage(got[[1L]])
  }
  expect_match(of_two_tries(1L), "it was interrupted, by its own code")
  pool <- local_pool(1)
  expect_match(of_two_tries(pool), "it was interrupted, by its own code")
  cluster <- local_cluster(1)
  expect_match(of_two_tries(cluster), "it was interrupted, by its own code")
})

test_that("a time limit that an element sets itself is its own error", {
  got <- collect(1:2, function(i) {
    if (i == 1L) {
      setTimeLimit(elapsed = 0.3, transient = TRUE)
      repeat Sys.sleep(0.01)
    }
    i
  }, timeout = 60)
  expect_s3_class(got[[1L]], "regatta_error_element")
  expect_match(conditionMessage(got[[1L]]), "elapsed time limit")
  expect_identical(got[[2L]], 2L)
})

test_that("nothing is left behind", {
  end_servers()
  expect_no_detritus(detritus)
})
