detritus <- detritus_snapshot()

one <- function(X, FUN, ...) par_lapply(X, FUN, .control = two_workers(workers = 1L, ...))

signal_own <- function(fields, class = "my_error") {
  force(fields)
  force(class)
  function(i) {
    stop(structure(
      class = c(class, "error", "condition"), c(list(message = "mine", call = NULL), fields)
    ))
  }
}

test_that("a handler for the user's own class fires and finds its fields", {
  for (errors in c("stop", "finish")) {
    got <- tryCatch(
      one(1L, signal_own(list(code = 7L, empty = NULL, data = list(1, "two"))), errors = errors),
      my_error = identity
    )
    expect_s3_class(got, c("regatta_error_element", "regatta_error", "my_error", "rlang_error",
      "error", "condition"), exact = TRUE)
    expect_identical(got$code, 7L)
    expect_true("empty" %in% names(got))
    expect_identical(got$data, list(1, "two"))
    expect_match(conditionMessage(got), "element 1 failed in worker [0-9]+: mine")
    expect_identical(conditionCall(got)[[1L]], quote(par_lapply))
    expect_identical(conditionMessage(got$parent), "mine")
  }
  seen <- "none"
  try(silent = TRUE, withCallingHandlers(
    one(1L, signal_own(NULL)), my_error = function(e) seen <<- class(e)[[1L]]
  ))
  expect_identical(seen, "regatta_error_element")
  expect_identical(tryCatch(one(1L, signal_own(NULL)), regatta_error = function(e) "ours"), "ours")
  expect_identical(tryCatch(one(1L, function(i) stop("x")), simpleError = function(e) "R's"), "R's")
})

test_that("fields that are ours stay ours, and the user's are at the parent", {
  fields <- list(index = "i", name = "n", pid = "p", try = "t", parent = "up", trace = "tr",
    body = "b", dump = "d", advice = "a", header = "h", own = "o")
  got <- tryCatch(one(c(a = 1L), signal_own(fields)), my_error = identity)
  expect_identical(got$index, 1L)
  expect_identical(got$name, "a")
  expect_type(got$pid, "integer")
  expect_s3_class(got$trace, "regatta_trace")
  expect_identical(got$own, "o")
  expect_null(got$header)
  expect_identical(unclass(got$parent)[names(fields)], fields)
})

test_that("a field is taken by its whole name, so that none of ours is taken for the user's", {
  got <- tryCatch(one(1L, function(i) stop("plain")), error = identity)
  # Where a user's code is, which does not see the functions of the package.
  for (field in setdiff(names(unclass(got)), c("message", "call"))) {
    for (end in seq_len(nchar(field) - 1L)) expect_null(eval(call("$", got, substr(field, 1L, end)), globalenv()))
    expect_identical(eval(call("$", got, field)), unclass(got)[[field]])
  }
  expect_identical(tryCatch(one(1L, signal_own(list(d = 5))), error = function(e) e$d), 5)
})

test_that("the classes pass through a map in a map, and those of ours do not", {
  got <- tryCatch(
    one(1L, function(i) one(1:2, signal_own(list(code = i)))),
    my_error = identity
  )
  expect_s3_class(got, c("regatta_error_element", "regatta_error", "my_error", "rlang_error",
    "error", "condition"), exact = TRUE)
  expect_identical(got$code, 1L)
  expect_s3_class(got$parent, "my_error")
  expect_s3_class(got$parent$parent, c("my_error", "error", "condition"), exact = TRUE)
  died <- tryCatch(
    one(1L, function(i) one(1L, function(j) quit("no", 3L))),
    regatta_error_death = function(e) "taken for a death of its own", error = identity
  )
  expect_s3_class(died, "regatta_error_element")
  expect_s3_class(died$parent, "regatta_error_death")
  counted <- count_failures(list(died), 1)
  expect_identical(counted, "1 of 1 elements failed: 1 error")
})

test_that("an error that is an environment has its class and its fields, too", {
  fail <- function(i) {
    cnd <- structure(new.env(), class = c("my_error", "error", "condition"))
    cnd$message <- "m"
    cnd$code <- 5
    if (i > 1) makeActiveBinding("now", function() stop("not now"), cnd)
    stop(cnd)
  }
  got <- tryCatch(one(1L, fail), my_error = identity)
  expect_s3_class(got, "regatta_error_element")
  expect_identical(got$code, 5)
  expect_s3_class(got$parent, "my_error")
  expect_match(conditionMessage(got), ": m")
  expect_s3_class(tryCatch(one(2L, fail), my_error = identity), "regatta_error_element")
})

test_that("methods of the user's class are not called for our condition", {
  bad <- function(...) stop("a method of the user's was called")
  for (generic in c("conditionMessage", "conditionCall", "print", "format")) {
    registerS3method(generic, "regatta_test_methods", bad, envir = baseenv())
  }
  registerS3method("cnd_header", "regatta_test_methods", bad, envir = asNamespace("rlang"))
  got <- tryCatch(one(1L, signal_own(list(code = 1), "regatta_own_methods")), error = identity)
  expect_false(inherits(got, "regatta_own_methods")) # named as ours are
  own <- structure(
    class = c("regatta_test_methods", "error", "condition"), list(message = "from the field")
  )
  got <- error_element(list(cnd = own), 1)
  class(got) <- append(class(got), "regatta_test_methods", 2L)
  expect_match(conditionMessage(got), "from the field")
  expect_null(conditionCall(got))
  expect_match(format(got), "from the field", all = FALSE)
  expect_match(rlang::cnd_message(got, inherit = FALSE), "from the field")
  expect_output(print(got), "from the field")
})

test_that("conditions of odd shape keep what can be kept", {
  odd <- list(
    structure(class = c("odd", "error", "condition"), list("unnamed", message = "m")),
    structure(class = c("odd", "error", "condition"), list(message = "m")),
    structure(class = c("odd", "odd", "error", "condition"), list(message = "m", x = 1, x = 2))
  )
  for (user in odd) {
    got <- error_element(list(cnd = user), 1)
    expect_s3_class(got, "odd")
    expect_identical(got$parent, user)
    expect_match(conditionMessage(got), "element 1 failed")
  }
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
