skip_unless_compiles_with(c("cpp11", "brio", "callr", "decor", "desc", "glue", "tibble", "vctrs"))

compiled <- compiled_by_cpp11("listings_cpp11.cpp")

test_that("a loop fills a cpp11 vector", {
  expect_identical(compiled$square_in_threads(as.double(1:1000)), as.double(1:1000)^2)
  expect_identical(compiled$square_in_threads(double()), double())
})

test_that("a loop prints whole lines", {
  lines <- utils::capture.output(compiled$print_from_loop(50L))
  expect_setequal(lines, paste("line", 0:49))
})

test_that("an exception of a pushed job is an R error", {
  expect_error(compiled$throw_from_pool(), "a pushed job failed", fixed = TRUE)
})
