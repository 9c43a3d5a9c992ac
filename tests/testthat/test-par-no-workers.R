# Maps that get no worker at all.
detritus <- detritus_snapshot()

# A place none of whose workers can be started, and says so or fails before anything is asked of it.
on_nothing <- function(at_once = FALSE) {
  space <- asNamespace("regatta")
  registerS3method("new_executor", "test_nothing", function(on, plan) {
    if (on$at_once) regatta:::signal_error(regatta:::error_start(2L, "nobody is at home"))
    waiting <- integer()
    list(
      kind = "nothing", start = function(workers, places) waiting <<- workers,
      poll = function(timeout) {
        events <- lapply(waiting, regatta:::event_not_started, "nobody is at home")
        waiting <<- integer()
        events
      },
      give = function(...) FALSE, interrupt = function(...) FALSE, signal = function(...) FALSE,
      measure = function(...) NA_real_,
      running = function() list(worker = integer(), element = numeric(), seconds = numeric(), cpu_seconds = numeric()),
      guard = function(code) code,
      stop = function() list(worker = integer(), peak = numeric())
    )
  }, envir = space)
  registerS3method("workers_offered", "test_nothing", function(on) list(usual = 2L, most = 2L), envir = space)
  structure(list(at_once = at_once), class = "test_nothing")
}

here <- function(..., seed = 1L) par_control(progress = FALSE, dump = "no", no_workers = "here", seed = seed, ...)

test_that("without a worker a map is an error, or runs here with the same values and says so", {
  draw <- function(i) c(i, runif(1))
  expected <- par_lapply(1:5, draw, .control = two_workers(seed = 3L))
  for (at_once in c(TRUE, FALSE)) {
    nothing <- on_nothing(at_once)
    expect_error(
      par_lapply(1:5, draw, .on = nothing, .control = two_workers(workers = NULL)), class = "regatta_error_start"
    )
    expect_warning(
      got <- par_lapply(1:5, draw, .on = nothing, .control = here(seed = 3L)),
      class = "regatta_warning_here", regexp = "nobody is at home.*one after the other"
    )
    expect_identical(got, expected)
  }
})

test_that("without a free descriptor it runs here, too", {
  skip_unless_command("prlimit")
  skip_unless_linux()
  got <- fault_run(function() {
    system2("prlimit", c("--nofile=64:64", "--pid", Sys.getpid()))
    taken <- list()
    repeat {
      one <- suppressWarnings(tryCatch(file("/dev/null", "r"), error = function(e) NULL))
      if (is.null(one)) break
      taken <- c(taken, list(one))
    }
    control <- par_control(workers = 2L, progress = FALSE, no_workers = "here")
    value <- suppressWarnings(tryCatch(par_lapply(1:3, function(i) i, .control = control), error = conditionMessage))
    for (one in taken) close(one)
    value
  })$value
  expect_identical(got, list(1L, 2L, 3L))
})

test_that("the session's random numbers move as with workers", {
  withr::local_preserve_seed()
  draw <- function(i) runif(1)
  set.seed(5)
  expected <- list(par_lapply(1:3, draw, .control = two_workers(seed = TRUE)), runif(1))
  set.seed(5)
  got <- list(suppressWarnings(par_lapply(1:3, draw, .on = on_nothing(), .control = here(seed = TRUE))), runif(1))
  expect_identical(got, expected)
})

test_that("all verbs that map do so", {
  quietly <- function(code) suppressWarnings(code, classes = "regatta_warning_here")
  nothing <- on_nothing()
  expect_identical(
    quietly(par_vapply(1:4, function(i) i / 2, 0, .on = nothing, .control = here())), (1:4) / 2
  )
  expect_identical(quietly(par_sapply(1:3, function(i) c(i, 1L), .on = nothing, .control = here())), rbind(1:3, 1L))
  expect_identical(
    quietly(par_mapply(function(a, b) a + b, 1:3, 4:6, .on = nothing, .control = here())), c(5L, 7L, 9L)
  )
  expect_identical(
    quietly(par_reduce(1:100, function(i) i, `+`, 0, .on = nothing, .control = here())), 5050
  )
  filled <- quietly(shm_fill(10, function(r) r * 2, .on = nothing, .control = here()))
  expect_identical(filled[], (1:10) * 2)
})

test_that("shared arrays come back from there as from workers, and so does the generator", {
  withr::local_preserve_seed()
  x <- shm_array(4, fill = 1:4)
  seen <- function(value) {
    x[1] <- 1
    before <- lapply(value, function(v) unclass(shm_copy(v)))
    x[1] <- 9
    list(before, lapply(value, function(v) unclass(shm_copy(v))), lapply(value, class))
  }
  returned <- function(i) {
    own <- shm_array(2, fill = c(i, i))
    list(x, unclass(x), own, attr(structure(1, a = unclass(x)), "a"), as.list(pairlist(unclass(x)))[[1L]],
      quote(f())[[1L]], as.list(bquote(f(.(unclass(x)))))[[2L]], eval(expression(unclass(x))))
  }
  for (copy in c(FALSE, TRUE)) {
    x[1] <- 1
    forked <- par_lapply(1:2, returned, .control = two_workers(copy = copy))
    x[1] <- 1
    near <- suppressWarnings(par_lapply(1:2, returned, .on = on_nothing(), .control = here(copy = copy)))
    for (i in 1:2) {
      is_array <- vapply(forked[[i]], regatta:::is_shm_array, NA)
      expect_identical(is_array, c(!copy, rep(FALSE, 7L)))
      expect_identical(vapply(near[[i]], regatta:::is_shm_array, NA), is_array)
      forked[[i]][[6L]] <- near[[i]][[6L]] <- NULL
      expect_identical(seen(near[[i]]), seen(forked[[i]]))
    }
  }
  counter <- shm_counter()
  got <- par_lapply(1:2, function(i) counter, .control = two_workers(copy = TRUE))
  shm_add(got[[2L]], 3)
  expect_identical(shm_value(counter), 3)
  set.seed(8)
  state <- .Random.seed
  drawn <- suppressWarnings(par_lapply(1:2, function(i) {
    RNGkind("Wichmann-Hill")
    runif(1)
  }, .on = on_nothing(), .control = here(seed = FALSE)))
  expect_identical(.Random.seed, state)
  expect_false(drawn[[1L]] == drawn[[2L]])
})

test_that("errors, retries and output there are as in workers", {
  nothing <- on_nothing()
  expect_warning(
    error <- tryCatch(
      par_lapply(1:3, function(i) if (i == 2L) stop("two") else i, .on = nothing, .control = here()),
      regatta_error_element = identity
    ), class = "regatta_warning_here"
  )
  expect_identical(error$index, 2L)
  tries <- 0L
  expect_warning(got <- par_lapply(1:2, function(i) {
    tries <<- tries + 1L
    if (tries == 1L) stop("once") else i
  }, .on = nothing, .control = here(retries = 1L)), class = "regatta_warning_here")
  expect_identical(list(got, tries), list(list(1L, 2L), 3L))
  expect_warning(
    printed <- capture.output(got <- par_lapply(c(a = 1L, b = 2L), function(i) {
      cat("number", i, "\n")
      i
    }, .on = nothing, .control = here(stdout = "drop"))), class = "regatta_warning_here"
  )
  expect_identical(list(printed, got), list(character(), list(a = 1L, b = 2L)))
})

test_that("with limits it is the error, and a refused fork is a worker that cannot be started", {
  expect_error(
    par_lapply(1:2, identity, .on = on_nothing(), .control = here(timeout = 5)), class = "regatta_error_start"
  )
  skip_unless_linux()
  shim <- fault_compile(c(
    "#include <errno.h>", "#include <stdlib.h>", "#include <sys/types.h>", "#include <unistd.h>",
    "extern pid_t __libc_fork(void);",
    "pid_t fork(void) {",
    "  if (getenv(\"REGATTA_TEST_REFUSE\")) { errno = EAGAIN; return -1; }",
    "  return __libc_fork();",
    "}"
  ), "refused", preload = TRUE)
  got <- fault_run(function() {
    control <- par_control(workers = 2L, progress = FALSE, dump = "no", no_workers = "here", seed = 1L)
    file <- tempfile()
    begun <- tryCatch(par_lapply(1:4, function(i) {
      cat("x", file = file, append = TRUE)
      i
    }, .control = par_control(workers = 2L, seed = 1L)), error = identity)
    Sys.setenv(REGATTA_TEST_REFUSE = "1")
    here <- NULL
    values <- withCallingHandlers(par_lapply(1:4, function(i) c(i, runif(1), Sys.getpid()), .control = control),
      warning = function(w) {
        here <<- class(w)[[1L]]
        invokeRestart("muffleWarning")
      })
    list(here, unique(vapply(values, `[[`, 0, 3)) == Sys.getpid(), begun)
  }, env = c(LD_PRELOAD = shim), timeout = 60)$value
  expect_identical(got, list("regatta_warning_here", TRUE, as.list(1:4)))
})

test_that("an element that a worker has begun is not run again here", {
  skip_unless_linux()
  cl <- cluster_local(1L)
  withr::defer(parallel::stopCluster(cl))
  file <- withr::local_tempfile()
  session <- Sys.getpid()
  error <- tryCatch(par_lapply(1:3, function(i) {
    cat("x", file = file, append = TRUE)
    if (Sys.getpid() == session) return("again")
    # With the server all workers have gone.
    tools::pskill(as.integer(sub(" .*", "", sub("^.*[)] . ", "", readLines("/proc/self/stat")))), 9L)
    Sys.sleep(60)
  }, .on = cl, .control = here()), error = identity)
  expect_false(inherits(error, "simpleError"))
  expect_identical(readLines(file, warn = FALSE), "x")
})

test_that("nothing is left behind", {
  end_servers()
  expect_no_detritus(detritus)
})
