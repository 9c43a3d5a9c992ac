# The parts of code, against what R says of it by its own functions.

code_leaves <- function(x) regatta:::code_leaves(x)

# In the order of their depth.
leaves_by_r <- function(x) {
  leaves <- list()
  level <- list(x)
  while (length(level) > 0L) {
    inner <- vapply(level, function(part) is.call(part) || is.pairlist(part) || is.expression(part), NA)
    leaves <- c(leaves, level[!inner])
    level <- do.call(c, lapply(level[inner], function(part) {
      attributes(part) <- NULL
      parts <- as.list(part)
      unname(parts[!vapply(parts, identical, NA, quote(expr = ))])
    }))
  }
  leaves
}

test_that("leaves are those that R finds, in the same order", {
  codes <- list(
    NULL, quote(a), 1L, "a", quote(f()), quote(x[, 1, drop = ]), y ~ x + (~z),
    quote(function(a, b = a + 1) NULL), expression(a + 1, , "b", f(g(h(NULL)))),
    pairlist(a = 1, b = quote(c + d)), list(quote(a + b)), list, mean,
    as.call(list(function(x) x, list(1), quote(expr = ), globalenv())), as.name("..1"),
    structure(quote(f(x, structure(1, class = "a"))), class = "mine", of = quote(g))
  )
  for (code in codes) expect_identical(code_leaves(code), leaves_by_r(code))
  functions <- Filter(is.function, mget(ls(asNamespace("stats")), envir = asNamespace("stats")))
  of_functions <- unlist(lapply(functions, function(f) list(formals(f), body(f))), recursive = FALSE, use.names = FALSE)
  expect_identical(lapply(of_functions, code_leaves), lapply(of_functions, leaves_by_r))
})

test_that("code may be as deep and as long as it likes", {
  deep <- quote(x)
  for (k in 20000:1) deep <- call("f", deep, k)
  before <- unlist(lapply(1:19999, function(k) list(quote(f), k)), recursive = FALSE)
  expect_identical(code_leaves(deep), c(before, list(quote(f), quote(x), 20000L)))
  expect_identical(code_leaves(as.call(c(quote(f), as.list(1:1e5)))), c(quote(f), as.list(1:1e5)))
})
