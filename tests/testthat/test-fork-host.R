detritus <- detritus_snapshot()

# What is asked of a session in such a host: who has started its workers, and what it says.
look <- function(..., options = list(), code = NULL) {
  if (!is.null(code)) environment(code) <- globalenv()
  fault_run(function(options, code) {
    options(options)
    parent <- function(...) as.integer(strsplit(sub("^.*[)] ", "", readLines("/proc/self/stat")), " ")[[1L]][[2L]])
    quiet <- function(...) regatta::par_control(progress = FALSE, ...)
    told <- list()
    got <- withCallingHandlers(
      if (is.null(code)) {
        list(parents = unlist(regatta::par_lapply(1:4, parent, .control = quiet(workers = 2L))))
      } else {
        code(parent, quiet)
      },
      message = function(m) {
        told <<- c(told, list(class(m)))
        invokeRestart("muffleMessage")
      },
      warning = function(w) {
        told <<- c(told, list(class(w)))
        invokeRestart("muffleWarning")
      }
    )
    c(got, list(told = told, session = Sys.getpid()))
  }, list(options = options, code = code), env = c(REGATTA_WORKER = "", ...))$value
}
is_pool <- function(got) length(got$told) == 1L && "regatta_message_pool" %in% got$told[[1L]]

test_that("the workers of a host that must not be forked are not its children", {
  skip_unless_linux()
  skip_if_not_installed("globals")
  for (host in list(c(RSTUDIO = "1"), c(POSITRON = "1"), c(R_PARALLELLY_FORK_ENABLE = "false"))) {
    got <- look(host)
    expect_true(is_pool(got), info = names(host))
    expect_length(unique(got$parents), 1L)
    expect_false(got$session %in% got$parents)
  }
  got <- look(options = list(regatta.fork = FALSE))
  expect_true(is_pool(got))
  expect_false(got$session %in% got$parents)
})

test_that("its workers are forked where the user says so, or where the host is none", {
  skip_unless_linux()
  forked <- function(got) {
    expect_length(got$told, 0L)
    expect_identical(unique(got$parents), got$session)
  }
  forked(look(RSTUDIO = "1", options = list(regatta.fork = TRUE)))
  forked(look(RSTUDIO = "1", options = list(parallelly.fork.enable = TRUE)))
  forked(look(RSTUDIO = "1", RSTUDIO_TERM = "tty"))
  forked(look(RSTUDIO = ""))
  expect_error(
    withr::with_options(list(regatta.fork = "no"), par_lapply(1:2, identity)),
    class = "regatta_error_argument"
  )
})

test_that("the pool of such a session is kept, is a larger one where more are asked for, and serves all verbs", {
  skip_unless_linux()
  skip_if_not_installed("globals")
  got <- look(RSTUDIO = "1", code = function(parent, quiet) {
    # Each element waits until there are so many workers.
    pids <- function(n) {
      dir <- tempfile("pids-")
      dir.create(dir)
      sort(unique(unlist(regatta::par_lapply(1:20, function(i) {
        file.create(file.path(dir, Sys.getpid()))
        while (length(list.files(dir)) < n) Sys.sleep(0.01)
        Sys.getpid()
      }, .on = n, .control = quiet(batch = 1L)))))
    }
    assign("rg_seen", 3, globalenv())
    in_workspace <- function(code) eval(substitute(code), globalenv())
    first <- pids(2L)
    again <- pids(2L)
    values <- list(
      map = in_workspace(regatta::par_sapply(1:3, function(i) i + rg_seen)),
      reduce = regatta::par_reduce(1:10, identity, `+`, .control = quiet(workers = 2L)),
      call = in_workspace(regatta::par_value(regatta::par_call(rg_seen * 2)))
    )
    # while its workers are at calls there is a worker for another
    gate <- tempfile()
    calls <- lapply(1:3, function(k) regatta::par_call({
      while (!file.exists(gate)) Sys.sleep(0.01)
      k
    }, .on = 2L))
    during <- regatta::par_sapply(1:2, function(i) i, .on = 2L, .control = quiet())
    file.create(gate)
    list(
      first = first, again = again, more = pids(4L), values = values, during = during,
      calls = vapply(calls, regatta::par_value, 1L)
    )
  })
  expect_true(is_pool(got))
  expect_false(got$session %in% c(got$first, got$more))
  expect_length(got$first, 2L)
  expect_identical(got$again, got$first)
  expect_length(got$more, 4L)
  expect_identical(got$values, list(map = c(4, 5, 6), reduce = 55L, call = 6))
  expect_identical(got$during, 1:2)
  expect_identical(got$calls, 1:3)
})

test_that("mclapply() forks, as its name promises, and warns once", {
  skip_unless_linux()
  got <- look(RSTUDIO = "1", code = function(parent, quiet) {
    list(parents = unlist(lapply(1:2, function(k) unlist(regatta::mclapply(1:2, parent, mc.cores = 2L)))))
  })
  expect_identical(unique(got$parents), got$session)
  expect_length(got$told, 1L)
  expect_true("regatta_warning_fork" %in% got$told[[1L]])
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
