skip_unless_compiles_with("Rcpp")

paper <- compiled_by_rcpp("listings_rcpp.cpp")

test_that("a plain thread may look for interrupts", {
  expect_false(paper$check_from_plain_thread())
})

test_that("all lines of plain threads are printed whole", {
  lines <- utils::capture.output(paper$print_from_plain_threads(100L))
  expect_identical(sort(lines), rep(c("line of first", "line of second"), each = 100L))
})

test_that("threads print while they are joined, each in its own order", {
  lines <- utils::capture.output(paper$print_from_threads())
  expect_setequal(lines, paste("thread", c(1, 1, 2, 2), c("begins", "ends")))
  for (id in 1:2) {
    own <- grep(paste("thread", id), lines, value = TRUE)
    expect_identical(own, paste("thread", id, c("begins", "ends")))
  }
})

test_that("an interrupt ends the threads and their join, and leaves nothing behind", {
  for (i in 1:3) {
    caught <- tryCatch(paper$run_until_interrupted(), condition = identity)
    expect_match(conditionMessage(caught), "interrupt", ignore.case = TRUE)
    expect_false(paper$check_from_plain_thread())
  }
})

test_that("a pool runs every pushed job, with and without workers", {
  for (workers in c(0L, 1L, 3L)) {
    expect_identical(paper$fill_by_push(100L, workers), 0:99)
  }
  expect_true(paper$stays_in_caller())
})

test_that("jobs return values by futures", {
  expect_identical(paper$halve_by_futures(10L), 0:9 / 2)
})

test_that("a pool can be used again after wait()", {
  expect_identical(paper$reuse_pool(50L), as.double(49:0))
})

test_that("the free loops visit every index once, whatever their threads and batches", {
  for (size in c(0L, 1L, 7L, 100L, 10000L)) {
    expect_identical(paper$fill_by_loop(size), seq_len(size) + 1L)
    expect_identical(paper$double_each(seq_len(size)), seq_len(size) * 8L)
  }
})

test_that("the loops of a pool run one after the other", {
  expect_identical(paper$loops_of_pool(1:100), (1:100 + 1L) * 2L)
})

test_that("nested loops of a pool are complete", {
  for (i in 1:20) expect_identical(paper$nested_loops(100L, 100L), 20000)
})

test_that("an exception of a body is an R error", {
  expect_error(paper$throw_from_loop(), "index 42 is not wanted", fixed = TRUE)
  expect_identical(paper$fill_by_loop(3L), 2:4)
})

test_that("cppFunction() takes the library by `depends`", {
  sum_of_squares <- Rcpp::cppFunction("
    double sum_of_squares(int n) {
      std::vector<double> x(n);
      regatta::parallelFor(0, n, [&x](int i) { x[i] = 1.0 * i * i; });
      return std::accumulate(x.begin(), x.end(), 0.0);
    }", depends = "regatta", plugins = "cpp11", env = new.env(),
    includes = c("#include <regatta/regatta.hpp>", "#include <numeric>"))
  expect_identical(sum_of_squares(11L), 385)
})

test_that("the override macros port code that prints and starts threads", {
  ported <- compiled_by_rcpp("listings_override.cpp")
  expect_output(same <- ported$ported_code(), "printed by ported code", fixed = TRUE)
  expect_true(same)
})
