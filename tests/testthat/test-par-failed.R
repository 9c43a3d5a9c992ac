detritus <- detritus_snapshot()

collected <- function(FUN, X = list(a = 1, b = "x", c = 3)) {
  suppressWarnings(par_lapply(X, FUN, .control = two_workers(errors = "collect")))
}

test_that("failed elements can be told from values", {
  got <- collected(function(v) log(v))
  expect_identical(par_failed(got), c(a = FALSE, b = TRUE, c = FALSE))
  expect_identical(got[!par_failed(got)], list(a = 0, c = log(3)))
  expect_true(is_par_error(got$b))
  expect_false(is_par_error(got$a))
  # What a function returns is a value, whatever it is.
  returned <- par_lapply(1, function(i) {
    tryCatch(par_lapply("x", log, .control = two_workers()), error = identity)
  }, .control = two_workers())
  expect_identical(par_failed(returned), FALSE)
  expect_identical(par_failed(list()), logical())
  expect_error(par_failed(got$b), "is_par_error", class = "regatta_error_argument")
  died <- collected(function(i) if (i == 2) quit("no", 1) else i, 1:3)
  expect_identical(par_failed(died), c(FALSE, TRUE, FALSE))
  stream <- par_stream(list("x", 1), log, .control = two_workers(errors = "collect"))
  expect_true(is_par_error(par_next(stream)))
  expect_false(is_par_error(par_next(stream)))
})

test_that("code that takes a failed element for a value is told which one has failed", {
  frames <- collected(function(v) data.frame(x = log(v)))
  rows <- collected(function(v) c(log(v), 1))
  bad <- frames$b
  uses <- list(
    function() do.call(rbind, frames), function() do.call(rbind, frames[3:2]),
    function() do.call(cbind, frames), function() do.call(rbind, rows),
    function() do.call(cbind, rows), function() do.call(rbind, rows[3:2]),
    function() do.call(c, rows[2:3]), function() Reduce(`+`, rows), function() bad + 1,
    function() -bad, function() 1 < bad, function() sqrt(bad), function() sum(bad),
    function() mean(bad), function() as.numeric(bad),
    function() as.integer(bad), function() as.data.frame(bad), function() data.frame(bad),
    function() bad$coef, function() bad[["coef"]], function() bad[[99]], function() bad[1, ],
    function() vapply(frames, function(d) d$x, 0)
  )
  for (use in uses) {
    err <- expect_error(use(), class = "regatta_error_missing", label = deparse1(body(use)))
    expect_match(conditionMessage(err), "element 2 (\"b\") failed in worker", fixed = TRUE)
    expect_match(conditionMessage(err), "result[!par_failed(result)]", fixed = TRUE)
    expect_identical(err$index, 2L)
    expect_s3_class(err$parent, "regatta_error_element")
  }
})

test_that("a failed element can be looked at, copied and signalled", {
  got <- collected(function(v) log(v))
  expect_output(print(got), "element 2 (\"b\") failed", fixed = TRUE)
  expect_output(str(got), "regatta_failed")
  expect_output(print(summary(got)), "regatta_failed")
  expect_identical(got$b$index, 2L)
  expect_identical(got$b[["name"]], "b")
  expect_null(got$b$footer)
  expect_identical(names(got$b["index"]), "index")
  expect_true(all.equal(got, got))
  expect_identical(unserialize(serialize(got$b$message, NULL)), got$b$message)
  expect_gt(length(capture.output(dput(got$b$parent))), 0L)
  expect_gt(nchar(rlang::cnd_message(got$b)), 0L)
  expect_error(stop(got$b), class = "regatta_error_element")
  expect_identical(tryCatch(stop(got$b), simpleError = function(e) "caught"), "caught")
  expect_match(paste(format(got$b), collapse = " "), "<regatta_error_element in", fixed = TRUE)
})

test_that("the words about a failed element read as they should", {
  bad <- collected(function(v) log(v))$b
  expect_snapshot(error = TRUE, transform = function(x) gsub("worker [0-9]+", "worker PID", x), {
    bad + 1
    bad$coef
    rbind(1:2, bad)
    par_failed(bad)
  })
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
