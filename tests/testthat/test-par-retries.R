detritus <- detritus_snapshot()

# Counts the runs of each element in files, so that the count survives the death of a worker.
counter <- function(dir) {
  force(dir)
  function(i) {
    cat("x", file = file.path(dir, i), append = TRUE)
    file.size(file.path(dir, i))
  }
}

test_that("an element that fails at first is run again and its value arrives", {
  count <- counter(withr::local_tempdir())
  got <- par_lapply(1:6, function(i) {
    try <- count(i)
    if (i %% 2L == 0L && try < 3) stop("not yet")
    c(i, try)
  }, .control = two_workers(retries = 2L))
  expect_equal(got, lapply(1:6, function(i) c(i, if (i %% 2L) 1 else 3)))
  tries <- par_last()$tries
  expect_equal(sort(tries$index), c(2, 2, 4, 4, 6, 6))
  expect_true(all(tries$status == "error"))
  expect_equal(par_last()$elements$try, c(1, 3, 1, 3, 1, 3))
})

test_that("deaths are retried, and timeouts only when asked for", {
  count <- counter(withr::local_tempdir())
  got <- par_lapply(1:4, function(i) {
    if (i == 3L && count(i) == 1) tools::pskill(Sys.getpid(), tools::SIGKILL)
    i
  }, .control = two_workers(retries = 1L))
  expect_identical(got, as.list(1:4))

  count <- counter(withr::local_tempdir())
  slow_first <- function(i) {
    if (count(i) == 1) Sys.sleep(120)
    i
  }
  expect_identical(
    par_lapply(1L, slow_first, .control = two_workers(
      workers = 1L, retries = 1L, retry_on = "timeout", timeout = 0.5
    )),
    list(1L)
  )
  count <- counter(withr::local_tempdir())
  expect_error(
    par_lapply(1L, slow_first, .control = two_workers(
      workers = 1L, retries = 1L, timeout = 0.5
    )),
    class = "regatta_error_timeout"
  )
})

test_that("an element that fails and then kills its worker is run again", {
  skip_unless_linux()
  for (first in c("error", "death")) {
    got <- fault_run(function(first) {
      # One element: its worker begins it again at once.
      par_lapply(1L, function(i) {
        try <- Sys.getenv("REGATTA_TRY")
        kind <- if (try == "1") first else setdiff(c("error", "death"), first)
        if (try == "3") return(i)
        if (kind == "error") stop("failed") else tools::pskill(Sys.getpid(), tools::SIGKILL)
      }, .control = par_control(workers = 1L, retries = 2L, progress = FALSE, dump = "no"))
    }, list(first = first))$value
    expect_identical(got, list(1L))
  }
})

test_that("retry_on keeps to what it names", {
  dir <- withr::local_tempdir()
  count <- counter(dir)
  expect_error(
    par_lapply(1L, function(i) {
      count(i)
      stop("always")
    }, .control = two_workers(workers = 1L, retries = 3L, retry_on = "death")),
    class = "regatta_error_element"
  )
  expect_equal(file.size(file.path(dir, 1L)), 1)
  expect_error(
    par_lapply(2L, function(i) {
      count(i)
      quit("no", 3)
    }, .control = two_workers(workers = 1L, retries = 3L, retry_on = "error")),
    class = "regatta_error_death"
  )
  expect_equal(file.size(file.path(dir, 2L)), 1)
})

test_that("an element that always fails is run retries + 1 times and reports its last try", {
  dir <- withr::local_tempdir()
  count <- counter(dir)
  err <- expect_error(
    par_lapply(1L, function(i) stop("try ", count(i)), .control = two_workers(
      workers = 1L, retries = 2L
    )),
    class = "regatta_error_element"
  )
  expect_equal(file.size(file.path(dir, 1L)), 3)
  expect_identical(err$try, 3L)
  expect_match(conditionMessage(err$parent), "try 3")
})

test_that("the number of the try is visible to FUN, and only there", {
  got <- par_lapply(1:4, function(i) {
    try <- Sys.getenv("REGATTA_TRY")
    if (i == 2L && try == "1") stop("again")
    try
  }, .control = two_workers(retries = 1L))
  expect_identical(got, list("1", "2", "1", "1"))
  expect_identical(Sys.getenv("REGATTA_TRY", NA), NA_character_)
})

test_that("a retry does not wait for the end of a round", {
  dir <- withr::local_tempdir()
  second_try <- file.path(dir, "second-try")
  got <- par_lapply(1:2, function(i) {
    if (i == 1L) {
      for (k in 1:6000) {
        if (file.exists(second_try)) return("saw the retry while still running")
        Sys.sleep(0.01)
      }
      return("waited in vain")
    }
    if (Sys.getenv("REGATTA_TRY") == "1") stop("again")
    file.create(second_try)
    "retried"
  }, .control = two_workers(retries = 1L))
  expect_identical(got, list("saw the retry while still running", "retried"))
})

test_that("only what failed is run again", {
  dir <- withr::local_tempdir()
  count <- counter(dir)
  par_lapply(1:20, function(i) {
    if (count(i) == 1 && i == 7L) stop("once")
    i
  }, .control = two_workers(retries = 1L))
  sizes <- file.size(file.path(dir, 1:20))
  expect_equal(sizes, replace(rep(1, 20), 7, 2))
})

test_that("a retry draws the same numbers, or new ones when asked", {
  draw <- function(seed_policy) {
    count <- counter(withr::local_tempdir())
    par_lapply(1:4, function(i) {
      x <- stats::runif(1)
      if (count(i) == 1 && i %% 2L == 0L) stop("again")
      x
    }, .control = two_workers(seed = 42L, retries = 1L, retry_seed = seed_policy))
  }
  without <- par_lapply(1:4, function(i) stats::runif(1), .control = two_workers(seed = 42L))
  expect_identical(draw("same"), without)
  fresh <- draw("new")
  expect_identical(fresh[c(1L, 3L)], without[c(1L, 3L)])
  expect_false(fresh[[2L]] == without[[2L]])
  expect_false(fresh[[4L]] == without[[4L]])
  expect_identical(draw("new"), fresh)
})

test_that("with fewer workers the retries run on fewer, down to one", {
  dir <- withr::local_tempdir()
  known <- withr::local_tempfile()
  failures <- 0L
  again <- regatta:::try_again
  local_function("try_again", function(...) {
    again(...)
    failures <<- failures + 1L
    if (failures == 4L) file.create(known)
  })
  pids <- par_sapply(1:16, function(i) {
    if (i <= 4L && Sys.getenv("REGATTA_TRY") == "1") {
      file.create(file.path(dir, i))
      while (length(list.files(dir)) < 4L) Sys.sleep(0.01)
      stop("too many at once")
    }
    # Every worker may have begun one more before the session knew of all four.
    while (!file.exists(known)) Sys.sleep(0.01)
    Sys.sleep(0.02)
    Sys.getpid()
  }, .control = two_workers(workers = 4L, retries = 1L, retry_workers = "fewer", batch = 1L))
  expect_identical(failures, 4L)
  expect_identical(sum(table(pids) > 1L), 1L)
})

test_that("what a try has written without a newline is a line of its own", {
  count <- counter(withr::local_tempdir())
  printed <- capture.output(par_lapply(1:2, function(i) {
    if (count(i) == 1) {
      cat("half")
      stop("not yet")
    }
    cat("whole\n")
  }, .control = two_workers(retries = 1L, stdout = "capture")))
  expect_identical(grep("^[12]: ", printed, value = TRUE), c("1: half", "1: whole", "2: half", "2: whole"))
})

test_that("a retried success is no failure in collect and finish", {
  count <- counter(withr::local_tempdir())
  warned <- FALSE
  got <- withCallingHandlers(
    par_lapply(1:3, function(i) if (count(i) == 1) stop("once") else i,
      .control = two_workers(retries = 1L, errors = "collect")),
    warning = function(w) warned <<- TRUE
  )
  expect_identical(got, as.list(1:3))
  expect_false(warned)
})

test_that("a try that is cancelled has nothing of the try before in the run's record", {
  for (on in list(2L, on_pipes(2L))) {
    under_way <- withr::local_tempfile()
    expect_error(
      par_lapply(1:2, function(i) {
        if (i == 1) {
          if (Sys.getenv("REGATTA_TRY") == "1") stop("once")
          file.create(under_way)
          Sys.sleep(600)
        }
        while (!file.exists(under_way)) Sys.sleep(0.01)
        tools::pskill(Sys.getpid(), tools::SIGKILL)
        Sys.sleep(600)
      }, .on = on, .control = par_control(retries = 1L, retry_on = "error", batch = 1L, seed = FALSE)),
      class = "regatta_error_death"
    )
    first <- par_last()$elements[1L, ]
    expect_identical(as.character(first$status), "cancelled")
    expect_identical(first$try, 2L)
    expect_identical(first$end, NA_real_)
    expect_identical(first$bytes, 0)
  }
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
