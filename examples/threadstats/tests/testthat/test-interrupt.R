# The computations take minutes when nobody interrupts them, so that an end within the time that
# wait_until() allows, without the word "finished", is the work of the interrupt.
expect_interruptible <- function(call) {
  output <- tempfile(fileext = ".txt")
  pid <- start_r(c(
    "outcome <- tryCatch({", call, "\"finished\"", "},",
    "error = function(caught) paste(\"caught:\", conditionMessage(caught)),",
    "interrupt = function(caught) \"caught: an interrupt\")",
    "tau <- kendall_matrix(cbind(1:9, 9:1), threads = 2)",
    "cat(\"\\noutcome\", outcome, \"\\nafterwards\", tau[2, 1], \"\\n\")"), output)
  ended <- FALSE
  on.exit(if (!ended) tools::pskill(pid, tools::SIGKILL))

  # The bar shows that the loop is running.
  wait_until(function() grepl("%", printed_in(output), fixed = TRUE))
  tools::pskill(pid, tools::SIGINT)
  wait_until(function() grepl("afterwards|halted", printed_in(output)))
  ended <- TRUE
  expect_match(printed_in(output), "outcome caught: .*interrupt")
  expect_match(printed_in(output), "afterwards -1", fixed = TRUE)
}

test_that("an interrupt ends kendall_matrix(), and the next call works", {
  expect_interruptible(
    "kendall_matrix(matrix(sin(seq_len(2e4 * 600)^2), 2e4), threads = 2, progress = TRUE)")
})

test_that("an interrupt ends kde(), and the next call works", {
  expect_interruptible(
    "kde(matrix(sin(seq_len(2e6 * 20)), 2e6), bandwidth = 1, threads = 2, progress = TRUE)")
})
