detritus <- detritus_snapshot()

settings <- par_control(progress = FALSE, seed = 1L, batch = 1L)

# The same maps on one worker, on forks and on workers that stand ready.
on_all <- function(code) lapply(list(one = 1, forks = 2, pool = local_pool(2)), code)

test_that("an argument that nobody has used yet has one value for all elements, that of the session", {
  withr::local_preserve_seed()
  slowly <- function(i) Sys.sleep(0.02)
  direct <- function(x, verb, ...) verb(1:6, function(i) {
    slowly(i)
    x
  }, ...)
  maker <- function(x) function(i) {
    slowly(i)
    x
  }
  through <- function(y, verb, ...) direct(y, verb, ...)
  dots <- function(..., verb, more) do.call(verb, c(list(1:6, function(i) {
    slowly(i)
    c(...)
  }), more))
  cases <- list(
    function(verb, ...) direct(runif(1), verb, ...),
    function(verb, ...) through(runif(1), verb, ...),
    function(verb, ...) verb(1:6, maker(runif(1)), ...),
    function(verb, ...) {
      made <- maker(runif(1))
      verb(1:6, function(i) made(i), ...)
    },
    function(verb, ...) dots(runif(1), verb = verb, more = list(...))
  )
  for (case in cases) {
    set.seed(11)
    expected <- case(sapply)
    got <- on_all(function(on) {
      set.seed(11)
      case(par_sapply, .on = on, .control = settings)
    })
    expect_identical(unname(got), rep(list(expected), 3L))
  }
})

test_that("it is evaluated once, with its warnings, and what fails fails where it is used", {
  withr::local_preserve_seed()
  count <- 0
  f <- function(x, on) par_sapply(1:4, function(i) x + i, .on = on, .control = settings)
  got <- on_all(function(on) {
    count <<- 0
    warned <- character()
    values <- withCallingHandlers(f({
      count <<- count + 1
      warning("of x")
      1
    }, on), warning = function(w) {
      warned <<- c(warned, conditionMessage(w))
      invokeRestart("muffleWarning")
    })
    list(values, count, warned)
  })
  expect_identical(unname(got), rep(list(list(c(2, 3, 4, 5), 1, "of x")), 3L))
  failing <- on_all(function(on) {
    g <- function(x) par_sapply(1:2, function(i) if (i > 5) x else i, .on = on, .control = settings)
    list(g(stop("never used")), g(sqrt("never used")))
  })
  expect_identical(unname(failing), rep(list(list(1:2, 1:2)), 3L))
})

test_that("what would leave the functions around the map is not evaluated for it", {
  withr::local_preserve_seed()
  got <- on_all(function(on) {
    early <- function(x, otherwise = return("early")) {
      par_sapply(x, function(i) if (i > 5) otherwise else i, .on = on, .control = settings)
    }
    outer <- function(x) early(1:2, x)
    list(
      callCC(function(k) par_sapply(1:2, function(i) if (i > 5) k("out") else i, .on = on, .control = settings)),
      early(1:2),
      (function() outer(return("left")))(),
      callCC(function(k) par_value(par_call(if (FALSE) k("out") else 1:2, .on = on)))
    )
  })
  expect_identical(unname(got), rep(list(rep(list(1:2), 4L)), 3L))
})

end_servers()

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
