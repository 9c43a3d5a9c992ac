detritus <- detritus_snapshot()

round_trip <- function(value, ...) {
  par_lapply(1L, function(i) value, .control = two_workers(workers = 1L, ...))[[1L]]
}

test_that("a result over 2 GiB, with more than 2^31 elements, is right", {
  skip_on_cran()
  skip_unless_linux()
  size <- 3 * 2^30
  if (memory_available() < 4.5 * size) skip("less than 13.5 GiB of memory available")
  got <- fault_run(function(size) {
    values <- par_lapply(1:2, function(i) {
      if (i == 2L) return("small")
      x <- raw(size)
      x[c(1, 2^31 - 1, 2^31, 2^31 + 1, 2^32 %% size, size)] <- as.raw(1:6)
      x
    }, .control = par_control(workers = 2L, progress = FALSE))
    x <- values[[1L]]
    list(
      length = length(x),
      at = x[c(1, 2^31 - 1, 2^31, 2^31 + 1, 2^32 %% size, size)],
      between = x[c(2, 2^31 - 2, 2^31 + 2, size - 1)],
      other = values[[2L]]
    )
  }, list(size = size), timeout = 300)$value
  expect_identical(got$length, size)
  expect_identical(got$at, as.raw(1:6))
  expect_identical(got$between, as.raw(c(0, 0, 0, 0)))
  expect_identical(got$other, "small")
})

# R's unserialize() went one level deeper for each argument of a call, and did not look whether there was any stack
# left: such a value is an error where it still does.
reads_long_calls <- function() {
  code <- "invisible(unserialize(serialize(as.pairlist(as.list(seq_len(1e5))), NULL)))"
  rscript <- file.path(R.home("bin"), "Rscript")
  suppressWarnings(system2(rscript, c("--vanilla", "-e", shQuote(code)), stderr = FALSE)) == 0L
}

test_that("calls of very many arguments end nobody: errors and warnings come with short ones, a value or an error", {
  got <- fault_run(function() {
    many <- as.list(seq_len(1e5))
    control <- par_control(workers = 2L, progress = FALSE, errors = "collect")
    fail <- function(...) stop("after all")
    warn <- function(...) warning("not quite")
    errors <- suppressWarnings(par_lapply(1:2, function(i) do.call(fail, many), .control = control))
    warned <- list()
    values <- withCallingHandlers(
      par_lapply(1:2, function(i) do.call(warn, many), .control = control),
      warning = function(w) {
        warned <<- c(warned, list(w))
        invokeRestart("muffleWarning")
      }
    )
    end_of_value <- function(on, control) {
      got <- tryCatch(par_lapply(1:2, function(i) as.pairlist(many), .on = on, .control = control), error = identity)
      if (inherits(got, "error")) class(got)[[1L]] else identical(got, rep(list(as.pairlist(many)), 2))
    }
    cl <- parallel::makePSOCKcluster(1L)
    on.exit(parallel::stopCluster(cl))
    list(
      errors = vapply(errors, function(e) conditionMessage(e$parent), ""),
      arguments = max(lengths(lapply(errors, function(e) conditionCall(e$parent)))),
      warned = vapply(warned, conditionMessage, ""), values = values,
      long = end_of_value(NULL, control),
      long_on_node = end_of_value(cl, par_control(errors = "collect", progress = FALSE)),
      after = par_lapply(1:2, identity, .control = control)
    )
  })$value
  expect_identical(got$errors, rep("after all", 2))
  expect_lt(got$arguments, 1000)
  expect_length(got$warned, 2L)
  expect_match(got$warned, "not quite", all = TRUE)
  expect_identical(got$values, list("not quite", "not quite"))
  end <- if (reads_long_calls()) TRUE else "regatta_error_stack"
  expect_identical(got$long, end)
  expect_identical(got$long_on_node, end)
  expect_identical(got$after, list(1L, 2L))
})

test_that("a result that is not a value outside its process is an error that says so", {
  connection <- textConnection("text")
  on.exit(close(connection))
  pointer <- attr(connection, "conn_id")
  values <- list(connection, pointer, list(1, list(pointer)))
  for (value in values) {
    err <- expect_error(round_trip(value), class = "regatta_error_element")
    expect_match(conditionMessage(err), "connection|external pointer")
    expect_identical(err$index, 1L)
  }
})

test_that("a condition arrives with its class, without the fields that are nothing elsewhere", {
  connection <- textConnection("text")
  on.exit(close(connection))
  pointer <- attr(connection, "conn_id")
  as_condition <- function(...) {
    fields <- list(
      message = "m", call = NULL, handle = pointer, deep = list(connection), status = 404L
    )
    structure(fields, class = c(..., "condition"))
  }
  failing <- function(i) {
    local <- pointer
    stop(as_condition("http_404", "error"))
  }
  err <- tryCatch(par_lapply(1:2, failing, .control = two_workers(dump = "partial")), http_404 = identity)
  expect_s3_class(err, c("regatta_error_element", "http_404"))
  expect_identical(err[c("status", "handle", "deep")], list(status = 404L, handle = NULL, deep = list(NULL)))
  expect_match(conditionMessage(err), "cnd$handle (an external pointer), cnd$deep[[1]]", fixed = TRUE)
  expect_length(err$trace$calls, 1L)
  expect_false(is.null(err$dump))

  seen <- list()
  note <- function(cnd) seen <<- c(seen, list(cnd))
  values <- withCallingHandlers(
    par_lapply(1L, function(i) {
      warning(as_condition("own_warning", "warning"))
      message(as_condition("own_message", "message"))
      signalCondition(as_condition("own_other"))
      i
    }, .control = two_workers(workers = 1L)),
    own_warning = function(w) {
      note(w)
      tryInvokeRestart("muffleWarning")
    },
    own_message = function(m) {
      note(m)
      tryInvokeRestart("muffleMessage")
    },
    own_other = note
  )
  expect_identical(values, list(1L))
  expect_setequal(vapply(seen, function(cnd) class(cnd)[[1L]], ""), c("own_warning", "own_message", "own_other"))
  for (cnd in seen) expect_identical(unclass(cnd)[c("status", "handle")], list(status = 404L, handle = NULL))
})

test_that("connections and pointers that only a function's environment holds do no harm", {
  connection <- textConnection("text")
  on.exit(close(connection))
  value <- par_lapply(1:2, function(i) is.null(connection), .control = two_workers())
  expect_identical(value, list(FALSE, FALSE))
})

test_that("a pointer that is the attribute of a value is left out, not refused", {
  connection <- textConnection("text")
  on.exit(close(connection))
  expect_warning(
    got <- round_trip(structure(1, cache = attr(connection, "conn_id"), note = "kept")),
    "attr(value, \"cache\") (an external pointer)", fixed = TRUE,
    class = "regatta_warning_foreign"
  )
  expect_identical(as.numeric(got), 1)
  expect_identical(attr(got, "note"), "kept")
})

test_that("a pointer inside a value is told with the place where it stands", {
  connection <- textConnection("text")
  on.exit(close(connection))
  pointer <- attr(connection, "conn_id")
  with_slot <- methods::setClass("RegattaTestPointer", representation(ptr = "externalptr"),
    where = globalenv()
  )
  withr::defer(methods::removeClass("RegattaTestPointer", where = globalenv()))
  inside <- function(name, x) {
    env <- new.env(parent = globalenv())
    assign(name, x, envir = env)
    env
  }
  lazy <- new.env(parent = globalenv())
  delayedAssign("later", stop("forced"), assign.env = lazy)
  makeActiveBinding("live", function() stop("called"), lazy)
  lazy$con <- connection
  places <- list(
    "value@ptr (an external pointer)" = with_slot(ptr = pointer),
    "value[[2]]@ptr" = list(1, with_slot(ptr = pointer)),
    "value$x (an external pointer)" = inside("x", pointer),
    "value$a$inner$`odd name`" = list(a = inside("inner", inside("odd name", list(pointer)))),
    "environment(value)$q" = rlang::new_function(NULL, quote(q), inside("q", pointer)),
    "value$con (a connection)" = lazy,
    "value$odd (an external pointer)" = structure(inside("odd", pointer), class = c("odd", "error", "condition")),
    "attr(value, \"problems\")" = structure(list(x = 1:3), problems = pointer, class = "data.frame"),
    "value$`caf\\xe9`$p" = stats::setNames(list(inside("p", pointer)), "caf\xe9"), # no text where that is UTF-8
    "value[[1]]$p" = stats::setNames(list(inside("p", pointer)), NA)
  )
  for (place in names(places)) {
    value <- places[[place]]
    expect_warning(round_trip(value), place, fixed = TRUE, class = "regatta_warning_foreign")
    expect_warning(round_trip(value, shm = FALSE), place, fixed = TRUE)
  }
  cluster <- local_cluster(1L)
  expect_warning(
    par_lapply(1:2, function(i) {
      env <- new.env(parent = globalenv())
      env$con <- textConnection("text")
      if (i == 2L) env
    }, .on = cluster, .control = on_cluster()),
    "value$con (a connection)", fixed = TRUE
  )
})

test_that("null pointers, and the mark that data.table makes, are told to nobody", {
  env <- new.env(parent = globalenv())
  env$gone <- methods::new("externalptr")
  expect_silent(round_trip(env))
  counter <- methods::setRefClass("RegattaTestKey", fields = list(n = "numeric"),
    where = globalenv())
  withr::defer(methods::removeClass("RegattaTestKey", where = globalenv()))
  expect_silent(round_trip(counter$new(n = 1)))
  skip_if_not_installed("data.table")
  expect_silent(round_trip(data.table::data.table(a = 1:3)))
  f <- rlang::new_function(NULL, 1, globalenv())
  expect_identical(
    capture_warnings(round_trip(list(data.table::data.table(a = sqrt(1:1e5)), f))), character()
  )
})

test_that("a data.table is a value", {
  skip_if_not_installed("data.table")
  value <- data.table::data.table(x = 1:3, y = c("a", "b", "c"))
  got <- round_trip(value)
  expect_s3_class(got, "data.table")
  expect_identical(as.data.frame(got), as.data.frame(value))
})

test_that("columns are added in place to data.tables from workers, checkpoints, shared memory and copies", {
  skip_if_not_installed("data.table")
  in_place <- function(table) {
    add <- rlang::new_function(alist(d = ), quote(invisible(d[, z := 2L])), globalenv()) # where `[` is data.table's
    add(table)
    expect_named(table, c("a", "z"))
  }
  withr::local_preserve_seed() # the port of a cluster is drawn
  make <- function(i) data.table::data.table(a = as.numeric(seq_len(i)))
  for (control in list(two_workers(), two_workers(share_min = 8))) {
    lapply(par_lapply(c(2, 1e5), make, .control = control), in_place)
    in_place(par_lapply(1, function(i) list(b = list(make(i))), .control = control)[[1L]]$b[[1L]])
    in_place(par_value(par_call(make(1), .control = control)))
  }
  cluster <- parallel::makePSOCKcluster(1L)
  withr::defer(parallel::stopCluster(cluster))
  lapply(par_lapply(c(2, 1e5), make, .on = cluster), in_place)
  in_place(shm_share(make(1e5)))
  in_place(shm_copy(shm_share(make(1e5))))
  folder <- withr::local_tempdir()
  for (k in 1:2) { # the second time from the log: of the larger a file of its own
    lapply(suppressMessages(par_lapply(c(2, 1e6), make, .control = two_workers(checkpoint = folder))), in_place)
  }
  expect_identical(par_lapply(1:2, make, .control = two_workers()), lapply(1:2, make))
})

test_that("strings keep their bytes and their encodings", {
  latin1 <- "caf\xe9"
  Encoding(latin1) <- "latin1"
  bytes <- "\xff\xfe"
  Encoding(bytes) <- "bytes"
  strings <- c(latin1, bytes, "caf\u00e9", NA, "", "ascii", "\u4e2d\u6587")
  for (value in list(strings, rep_len(strings, 3e4L), list(strings, list(strings)))) {
    got <- round_trip(value)
    expect_identical(got, value)
    expect_identical(Encoding(unlist(got)), Encoding(unlist(value)))
  }
  expect_identical(lapply(round_trip(strings)[c(1:3, 5:7)], charToRaw),
    lapply(strings[c(1:3, 5:7)], charToRaw))
  expect_identical(round_trip(stats::setNames(1:7, strings)), stats::setNames(1:7, strings))
})

test_that("a compact sequence stays compact", {
  skip_unless_linux()
  value <- round_trip(1:1e9)
  expect_lt(par_last()$elements$bytes, 1e6)
  expect_identical(length(value), 1000000000L)
  expect_lt(length(serialize(value, NULL)), 1000)
  expect_identical(value[c(1, 5e8, 1e9)], c(1L, 500000000L, 1000000000L))
})

test_that("strings that R has not made yet are not made to be sent", {
  got <- par_lapply(1:2, function(i) as.character(1:3e6 + 0.5), .control = two_workers())
  sizes <- par_last()$elements$bytes
  expect_lt(max(sizes), 3e6 * 8.1) # the numbers
  expect_identical(got[[2]][c(1, 3e6)], c("1.5", "3000000.5"))
  expect_identical(got[[1]], as.character(1:3e6 + 0.5))
})

test_that("S4 objects, reference classes and R6 objects arrive whole", {
  methods::setClass("RegattaTestS4", representation(x = "numeric"), where = globalenv())
  on.exit(methods::removeClass("RegattaTestS4", where = globalenv()))
  value <- round_trip(methods::new("RegattaTestS4", x = c(1, 2)))
  expect_true(methods::is(value, "RegattaTestS4"))
  expect_identical(value@x, c(1, 2))

  Counter <- methods::setRefClass("RegattaTestCounter",
    fields = list(n = "numeric"), methods = list(add = function() n <<- n + 1),
    where = globalenv())
  on.exit(methods::removeClass("RegattaTestCounter", where = globalenv()), add = TRUE)
  counter <- round_trip(Counter$new(n = 1))
  counter$add()
  expect_identical(counter$n, 2)

  skip_if_not_installed("R6")
  Stack <- R6::R6Class("Stack", public = list(x = NULL, push = function(v) self$x <- c(self$x, v)))
  stack <- round_trip(Stack$new())
  stack$push(3)
  expect_identical(stack$x, 3)
})

test_that("environments are shared within an element's value and copied from the session's", {
  env <- new.env()
  env$x <- 1
  got <- round_trip(list(env, env))
  expect_identical(got[[1L]], got[[2L]])
  expect_false(identical(got[[1L]], env))
  got[[1L]]$x <- 2
  expect_identical(got[[2L]]$x, 2)
  expect_identical(env$x, 1)
  holder <- new.env()
  holder$self <- holder
  expect_identical(round_trip(holder)$self$self$self |> class(), "environment")
})

test_that("functions work with their environments and byte code", {
  make <- function(n) compiler::cmpfun(function(x) x + n)
  add <- round_trip(make(5))
  expect_identical(add(1), 6)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
