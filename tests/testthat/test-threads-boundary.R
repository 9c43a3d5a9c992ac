detritus <- detritus_snapshot()

# What crosses from R to C++ and back is compared with the same thing in R alone: `level` is a
# function of (function, cleanup) which calls both, the cleanup on any way out.

# Runs in a new session. Each event is noted in the order in which it happens.
boundary_outcomes <- function(library, torture) {
  dll <- dyn.load(library)
  call <- function(name, ...) .Call(getNativeSymbolInfo(name, dll), ...)
  log <- character()
  note <- function(...) log <<- c(log, paste0(...))

  in_r <- function(f, cleanup) {
    on.exit(tryCatch(cleanup(), error = function(e) NULL))
    f()
  }
  in_cpp <- lapply(1:3, function(how) {
    function(f, cleanup) call("level", f, cleanup, how)
  })

  inner <- list(
    value = function() list("a value", 1:3),
    error = function() stop("first error"),
    classed = function() stop(structure(class = c("mine", "error", "condition"),
      list(message = "classed", call = NULL, payload = c(3, 1)))),
    warning = function() {
      old <- options(warn = 2)
      on.exit(options(old))
      as.integer("no number")
    },
    warned = function() {
      warning("only a warning")
      "after it"
    },
    restart = function() invokeRestart("escape", list("its", "argument")),
    jump = function() out("out of it"),
    interrupt = function() {
      tools::pskill(Sys.getpid(), tools::SIGINT)
      repeat Sys.sleep(0.01)
    },
    on_exit = function() {
      on.exit(note("on.exit of the innermost"))
      stop("passes on.exit")
    }
  )
  cleanup <- list(
    none = function() note("cleanup"),
    works = function() {
      note("cleanup ", sum(vapply(1:10, function(i) length(rnorm(i)), 1L)))
      tryCatch(stop("inside"), error = function(e) note("caught ", conditionMessage(e)))
      withRestarts(invokeRestart("own", 1), own = function(x) note("own restart ", x))
    },
    fails = function() {
      note("cleanup fails")
      stop("of the cleanup")
    }
  )
  out <- NULL
  outcome <- function(level, f, end, depth) {
    log <<- character()
    nested <- f
    for (i in seq_len(depth)) {
      nested <- local({
        g <- nested
        i <- i
        function() {
          on.exit(note("on.exit ", i))
          level(g, end)
        }
      })
    }
    value <- callCC(function(k) {
      out <<- k
      withRestarts(
        withCallingHandlers(
          tryCatch(nested(),
            interrupt = function(e) "an interrupt",
            error = function(e) list(class(e), conditionMessage(e), e$payload)),
          warning = function(w) {
            note("warned: ", conditionMessage(w))
            invokeRestart("muffleWarning")
          }),
        escape = function(x) list("escaped with", x))
    })
    list(value = value, log = log)
  }

  rows <- expand.grid(inner = names(inner), cleanup = names(cleanup), depth = 1:3,
    stringsAsFactors = FALSE)
  if (torture > 0L) rows <- rows[rows$depth == 2L & rows$cleanup != "none", ]
  different <- character()
  for (i in seq_len(nrow(rows))) {
    row <- rows[i, ]
    wanted <- outcome(in_r, inner[[row$inner]], cleanup[[row$cleanup]], row$depth)
    for (how in 1:3) {
      if (torture > 0L) gctorture2(torture)
      got <- outcome(in_cpp[[how]], inner[[row$inner]], cleanup[[row$cleanup]], row$depth)
      if (torture > 0L) gctorture2(0L)
      if (!identical(got, wanted)) {
        different <- c(different, sprintf("%s, cleanup %s, depth %d, way %d: %s instead of %s",
          row$inner, row$cleanup, row$depth, how,
          paste(deparse(got), collapse = ""), paste(deparse(wanted), collapse = "")))
      }
    }
  }
  options(warning.length = 8170L)
  thrown <- lapply(1:6, function(kind) {
    tryCatch(call("throws", kind, function() sum(1:10)),
      interrupt = function(e) "an interrupt", error = conditionMessage)
  })
  list(tried = 3L * nrow(rows), different = different, thrown = thrown,
    alive = call("counts")[[1L]], swallowed = call("counts")[[2L]] > 0L)
}

expect_boundary <- function(got) {
  expect_identical(got$different, character())
  expect_identical(got$thrown[c(1:3, 5, 6)], list("thrown inside",
    "an exception was thrown that is no std::exception", "an interrupt", "thrown deeper", 7L))
  expect_identical(got$thrown[[4L]], paste(strrep("x", 3000), "end"))
  expect_identical(got$alive, 0L)
  expect_true(got$swallowed)
}

boundary_library <- compiled_once(function(env) threads_compile("threads-boundary.cpp", env = env))

test_that("errors, restarts, jumps and interrupts pass through C++ as through R", {
  library <- boundary_library()
  got <- fault_run(boundary_outcomes, list(library, 0L))$value
  expect_identical(got$tried, 243L)
  expect_boundary(got)
})

# Nothing of R's own handlers is under way then.
test_that("an error that nobody catches goes to top level through C++, in a finalizer and at the prompt", {
  script <- withr::local_tempfile(lines = c(
    sprintf("dll <- dyn.load(\"%s\")", boundary_library()),
    "call <- function(name, ...) .Call(getNativeSymbolInfo(name, dll), ...)",
    "for (way in 1:3) {",
    "  object <- new.env()",
    "  reg.finalizer(object, function(e) call(\"level\", function() stop(\"finalizer \", way), function() 1, way))",
    "  rm(object)",
    "  invisible(gc())",
    "}",
    "cat(\"alive:\", call(\"counts\")[[1L]], \"\\n\")",
    "call(\"level\", function() stop(\"top level\"), function() 1, 1L)"
  ))
  got <- withr::with_preserve_seed(
    processx::run(file.path(R.home("bin"), "Rscript"), c("--vanilla", script), error_on_status = FALSE)
  )
  expect_identical(got$status, 1L)
  expect_match(got$stdout, "alive: 0")
  for (place in c(paste("finalizer", 1:3), "top level")) expect_match(got$stderr, place, fixed = TRUE)
})

test_that("they do with a garbage collection at every few allocations", {
  step <- as.integer(Sys.getenv("GCTORTURE_STEP", "20"))
  library <- boundary_library()
  got <- fault_run(boundary_outcomes, list(library, step), timeout = 600)$value
  expect_boundary(got)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
