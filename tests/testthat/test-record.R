# What the record of a run says of processor time and memory.

detritus <- detritus_snapshot()

quiet <- function(...) par_control(progress = FALSE, dump = "no", seed = FALSE, ...)

# Busy until so much processor time is used, whatever else the machine does.
use_cpu <- function(seconds) {
  begun <- sum(proc.time()[1:2])
  while (sum(proc.time()[1:2]) - begun < seconds) sum(sqrt(seq_len(1e4)))
}

test_that("processor time is that of the element, not of what was before or beside it", {
  par_lapply(c(0.3, 0, 0.05, 0), function(seconds) {
    use_cpu(seconds)
    if (seconds == 0) Sys.sleep(0.3)
  }, .control = quiet(workers = 1L))
  cpu <- par_last()$elements$cpu
  expect_gte(cpu[[1L]], 0.29)
  expect_lt(cpu[[2L]], 0.2)
  expect_gte(cpu[[3L]], 0.04)
  expect_lt(cpu[[3L]], 0.25)
  expect_lt(cpu[[4L]], 0.2)
})

test_that("peak memory is that of the element, also after one that has needed more", {
  skip_unless_linux()
  skip_if(file.access("/proc/self/clear_refs", 2L) != 0L, "the peak of a process cannot be forgotten here")
  par_lapply(c(0, 2e8, 0, 0), function(bytes) {
    x <- numeric(bytes / 8)
    x[] <- 1
    rm(x)
    gc()
    Sys.sleep(0.01)
  }, .control = quiet(workers = 1L))
  run <- par_last()
  peak <- run$elements$peak_memory
  expect_gt(peak[[2L]], peak[[1L]] + 1.8e8)
  expect_lt(peak[[4L]], peak[[2L]] - 1.5e8)
  # A worker has had what its elements have.
  expect_gte(run$workers$peak_memory, max(peak) * 0.999)
})

test_that("elements that are too short to be measured are not", {
  par_lapply(1:2000, identity, .control = quiet(workers = 2L))
  elements <- par_last()$elements
  short <- elements$end - elements$start < 1e-3
  expect_true(all(is.na(elements$cpu[short])))
  expect_true(all(is.na(elements$peak_memory[short])))
})

test_that("of an element that was lost with its worker the peak is known", {
  skip_unless_linux()
  expect_warning(par_lapply(1:2, function(i) {
    x <- numeric(1e7)
    x[] <- 1
    if (i == 2L) tools::pskill(Sys.getpid(), tools::SIGKILL)
    Sys.sleep(0.01)
  }, .control = quiet(workers = 2L, errors = "collect")))
  elements <- par_last()$elements
  expect_identical(as.character(elements$status), c("done", "death"))
  expect_gt(elements$peak_memory[[2L]], 8e7)
})

test_that("errors and failed tries have theirs, too", {
  par_lapply(1:2, function(i) {
    use_cpu(0.05)
    if (i == 2L && Sys.getenv("REGATTA_TRY") == "1") stop("once")
  }, .control = quiet(workers = 1L, retries = 1L))
  run <- par_last()
  expect_gte(run$tries$cpu, 0.04)
  expect_gt(run$tries$peak_memory, 1e6)
  expect_true(all(run$elements$cpu >= 0.04))
})

test_that("summaries tell of both", {
  run <- record_of(c(1, 2))
  run$elements$cpu <- c(0.5, NA)
  run$elements$peak_memory <- c(3e8, NA)
  summary <- summary(run)
  expect_equal(summary$cpu, 0.5)
  expect_equal(summary$memory[["largest"]], 3e8)
  expect_match(format(summary), "processor time: 500 ms", all = FALSE, fixed = TRUE)
  expect_match(format(summary), "peak memory of one: median 300 MB, largest 300 MB", all = FALSE, fixed = TRUE)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
