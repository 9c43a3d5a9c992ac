detritus <- detritus_snapshot()

test_that("a good argument comes back in its one form", {
  expect_identical(check_count(3, "workers"), 3L)
  expect_null(check_count(NULL, "workers", null = TRUE))
  expect_identical(check_count(0, "retries", min = 0), 0L)
  expect_identical(check_seconds(2L, "timeout"), 2)
  expect_identical(check_seconds(Inf, "timeout"), Inf)
  expect_identical(check_bytes("64KB", "shm_min"), 64000)
  expect_identical(check_bytes(Inf, "memory"), Inf)
  expect_identical(check_bytes(0, "shm_min", zero = TRUE), 0)
  expect_identical(check_flag(c(a = TRUE), "shm"), TRUE)
  expect_null(check_flag(NULL, "progress", null = TRUE))
  expect_identical(check_choice(c("stop", "go"), "errors", c("stop", "go")), "stop")
  expect_identical(check_choice("go", "errors", c("stop", "go")), "go")
  expect_identical(check_subset(c("b", "a"), "retry_on", c("a", "b", "c")), c("a", "b"))
  expect_identical(check_seed(-7, "seed"), -7L)
  expect_identical(check_seed(FALSE, "seed"), FALSE)
  expect_identical(check_priority(3:1, "priority"), c(3, 2, 1))
  expect_null(check_priority(NULL, "priority"))
  expect_identical(check_string("a", "name"), "a")
  expect_null(check_string(NULL, "name", null = TRUE))
})

test_that("a bad argument is named, with what it must be and what it was", {
  f <- function(check, ...) check(...)
  retry <- c("error", "death", "timeout")
  expect_snapshot(error = TRUE, {
    f(check_count, "two", "workers")
    f(check_count, 2.5, "workers")
    f(check_count, NA, "workers", null = TRUE)
    f(check_count, -1, "retries", min = 0)
    f(check_count, 3e+09, "batch")
    f(check_count, 1:3, "workers")
    f(check_count, factor(2), "workers")
    f(check_seconds, 0, "timeout")
    f(check_seconds, NaN, "timeout")
    f(check_seconds, "1 h", "timeout")
    f(check_bytes, "2 parsecs", "memory")
    f(check_bytes, -1, "memory")
    f(check_bytes, 0, "memory")
    f(check_bytes, -1, "shm_min", zero = TRUE)
    f(check_flag, NA, "shm")
    f(check_flag, "yes", "progress", null = TRUE)
    f(check_choice, "halt", "errors", c("stop", "collect", "finish"))
    f(check_choice, c("relay", "drop"), "stdout", c("relay", "capture", "drop"))
    f(check_choice, "x", "kind", "only")
    f(check_subset, c("error", "boredom"), "retry_on", retry)
    f(check_subset, character(), "retry_on", retry)
    f(check_seed, NA, "seed")
    f(check_seed, 1e+10, "seed")
    f(check_priority, c(1, NA), "priority")
    f(check_priority, "high", "priority")
    f(check_string, 1, "name")
    f(check_string, NA_character_, "name", null = TRUE)
  })
})

test_that("the error carries the argument, its value and the function that was called", {
  outer <- function(workers) check_count(workers, "workers")
  e <- expect_error(outer(list(1, 2)), class = "regatta_error_argument")
  expect_s3_class(e, "regatta_error")
  expect_identical(e$argument, "workers")
  expect_identical(e$value, list(1, 2))
  expect_identical(as.list(e$call)[[1L]], quote(outer))
})

test_that("a value of any kind is described in few words", {
  described <- vapply(
    list(
      NULL, NA, TRUE, 1L, 1e6, 0.1, 1i, "text", "a \"quoted\"\nline", strrep("x", 100L),
      NA_character_, character(), letters, c("a", "b"), 1:10, c(0.5, 1), raw(3), list(),
      list(1, 2), pairlist(1), mean, sum, globalenv(), quote(x), quote(f(x + y)), y ~ x,
      data.frame(a = 1), Sys.Date(), factor("a"), expression(a, b)
    ),
    describe_value, ""
  )
  expect_snapshot(writeLines(described))
})

test_that("strings that cannot be converted are described too", {
  bytes <- "caf\xe9"
  Encoding(bytes) <- "bytes"
  expect_match(describe_value(bytes), "xe9", fixed = TRUE)
  broken <- "caf\xe9"
  Encoding(broken) <- "UTF-8"
  expect_match(describe_value(broken), "caf", fixed = TRUE)
  latin1 <- "caf\xe9"
  Encoding(latin1) <- "latin1"
  expect_identical(describe_value(latin1), "\"caf\u00e9\"")
})

test_that("sizes are read with decimal, binary and bare units", {
  expect_identical(parse_bytes("2GB"), 2e9)
  expect_identical(parse_bytes("500 MB"), 5e8)
  expect_identical(parse_bytes("64KiB"), 65536)
  expect_identical(parse_bytes("64k"), 65536)
  expect_identical(parse_bytes("1.5g"), 1.5 * 1024^3)
  expect_identical(parse_bytes(" .5 gb "), 5e8)
  expect_identical(parse_bytes("3TiB"), 3 * 1024^4)
  expect_identical(parse_bytes("1e9"), 1e9)
  expect_identical(parse_bytes("10B"), 10)
  expect_identical(parse_bytes("10"), 10)
  expect_identical(parse_bytes("Inf"), Inf)
  expect_identical(parse_bytes(7L), 7)
  for (bad in list("", "GB", "2 XB", "2iB", "-1", "1,5GB", "2 GB of it", NA_character_, c("1", "2"),
                   NULL, TRUE, NA, list(1), factor(1))) {
    expect_identical(parse_bytes(bad), NA_real_)
  }
})

test_that("sizes do not depend on how the session writes numbers", {
  withr::local_options(scipen = -5, digits = 3, OutDec = ",")
  expect_identical(par_control(memory = "1.5GB")$memory, 1.5e9)
})

# What stands for arguments that are given, by their names.
usual_arguments <- function(path) {
  m <- h5_write(matrix(0, 2, 2), path, "a", .control = par_control(workers = 1L, seed = FALSE))
  list(
    X = 1:2, FUN = identity, f = identity, combine = `+`, FUN.VALUE = 1, x = matrix(0, 2, 2), y = 1, v = 1:2, n = 1,
    system = "sge", address = "localhost", m = m, margin = 1, path = path, name = "b", dim = c(2, 2), lock = shm_lock(),
    socket = structure(list(), class = c("socket_connection", "regatta_socket")),
    pq = structure(list(nprio = 1L), class = "prio_queue")
  )
}

test_that("an argument that is missing is told by its name, in the call of the user, with what it is to be", {
  skip_without_h5()
  usual <- usual_arguments(withr::local_tempfile(fileext = ".h5"))
  # Without `init` a fold begins with its first element; etry() tells what is missing as try() does.
  optional <- c("par_reduce init", "etry expr")
  checked <- character()
  for (name in getNamespaceExports("regatta")) {
    arguments <- formals(getExportedValue("regatta", name))
    needed <- setdiff(names(arguments)[vapply(arguments, is_empty_argument, NA)], "...")
    needed <- needed[!sprintf("%s %s", name, needed) %in% optional]
    for (argument in needed) {
      given <- usual[intersect(setdiff(needed, argument), names(usual))]
      if (name == "trace_write") given$run <- structure(list(), class = "regatta_run")
      error <- tryCatch(eval(as.call(c(as.name(name), given))), error = identity)
      told <- paste(name, argument)
      expect_s3_class(error, "regatta_error_argument")
      expect_identical(error$argument, argument, info = told)
      expect_match(conditionMessage(error), sprintf("^`%s` is missing: it must be .{5}", argument), info = told)
      expect_identical(as.character(conditionCall(error)[[1L]]), name, info = told)
      checked <- c(checked, told)
    }
  }
  expect_true(all(c("par_lapply X", "h5_annotation margin", "cluster_jobs n") %in% checked))
})

test_that("what a function hands on that was not given to it is missing, and a default is not", {
  wrapper <- function(values, name = "a") list(check_string(name, "name"), check_count(values, "values"))
  expect_error(wrapper(), "`values` is missing: it must be a positive whole number.", fixed = TRUE)
  expect_identical(wrapper(2), list("a", 2L))
})

test_that("a function is found by its name as match.fun() does", {
  verb <- function(FUN) check_function(FUN, "FUN")
  local <- function(x) x
  sqrt <- 3
  expect_identical(verb(local), local)
  expect_identical(verb("local"), local)
  expect_identical(verb(sqrt), base::sqrt)
  must <- "`FUN` must be a function, or the name of one, not"
  for (bad in list("no such", 3, NULL, 1:3)) {
    error <- expect_error(verb(bad), class = "regatta_error_argument")
    expect_match(conditionMessage(error), must, fixed = TRUE)
  }
  expect_error(verb(stop("of the user")), "of the user", class = "simpleError")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
