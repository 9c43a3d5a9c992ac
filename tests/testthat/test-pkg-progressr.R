skip_if_not_installed("progressr", "0.10.0")
detritus <- detritus_snapshot()

# A handler of progressr's that notes every state it is told of.
noting <- function() {
  seen <- list()
  note <- function(config, state, progression, ...) {
    seen[[length(seen) + 1L]] <<- list(
      type = progression$type, step = state$step, steps = config$max_steps,
      message = paste(state$message, collapse = "")
    )
  }
  handler <- progressr::make_progression_handler(
    "regatta_noting",
    reporter = list(initiate = note, update = note, finish = note),
    enable = TRUE, interval = 0, times = Inf, intrusiveness = 0
  )
  list(
    handler = function(...) handler,
    field = function(name) sapply(Filter(function(s) s$type != "shutdown", seen), `[[`, name)
  )
}

run <- function(total, enabled = NULL, each = NULL, upto = total) {
  now <- 0
  p <- progress_start(total, enabled, function() now)
  for (i in seq_len(upto)) {
    now <- now + 1
    if (!is.null(each)) {
      each()
      progress_yield(p)
    }
    progress_update(p, i, failed = i %/% 4)
  }
  progress_done(p)
}

test_that("within with_progress() the user's handler is told, and no bar is drawn", {
  notes <- noting()
  out <- capture.output(
    progressr::with_progress(run(5, TRUE), handlers = list(notes$handler()), enable = TRUE),
    type = "message"
  )
  expect_identical(out, character())
  expect_identical(unique(notes$field("steps")), 5)
  expect_identical(unique(notes$field("step")), c(0, 1, 2, 3, 4, 5))
  expect_true("1 failed" %in% notes$field("message"))
  expect_true("finish" %in% notes$field("type"))
})

test_that("progress = FALSE is silent there too", {
  notes <- noting()
  progressr::with_progress(run(5, FALSE), handlers = list(notes$handler()), enable = TRUE)
  expect_length(notes$field("step"), 0L)
})

test_that("a progressor of the user's own is left alone", {
  notes <- noting()
  progressr::with_progress(
    {
      step <- progressr::progressor(3)
      run(3, NULL, each = step)
    },
    handlers = list(notes$handler()), enable = TRUE
  )
  expect_identical(unique(notes$field("steps")), 3)
  expect_identical(unique(notes$field("step")), c(0, 1, 2, 3))
  expect_identical(sum(notes$field("type") == "initiate"), 1L)
})

test_that("a run that ends early is not shown as finished", {
  notes <- noting()
  progressr::with_progress(run(9, upto = 2), handlers = list(notes$handler()), enable = TRUE)
  expect_identical(max(notes$field("step")), 2)
  expect_false("finish" %in% notes$field("type"))
})

test_that("global handlers are used, in a session of their own", {
  skip_if_not_installed("processx")
  skip_if(nchar(system.file(package = "regatta")) == 0, "regatta is not installed")
  withr::local_preserve_seed()
  result <- processx::run(
    file.path(R.home("bin"), "Rscript"),
    c("--vanilla", "-e", paste(
      "options(progressr.enable = TRUE)",
      "progressr::handlers(\"debug\")",
      "progressr::handlers(global = TRUE)",
      "f <- function(x) utils::getFromNamespace(x, \"regatta\")",
      "t <- 0; p <- f(\"progress_start\")(4, NULL, function() t)",
      "for (i in 1:4) { t <- i; f(\"progress_update\")(p, i) }",
      "f(\"progress_done\")(p)",
      sep = "\n"
    )),
    env = c("current", R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep), R_TESTS = "")
  )
  expect_match(result$stderr, "initiate: 0/4", fixed = TRUE)
  expect_match(result$stderr, "update: 4/4", fixed = TRUE)
})

test_that("without progressr's handlers nobody listens", {
  expect_false(progressr_listens())
  expect_null(progressr_backend(10))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
