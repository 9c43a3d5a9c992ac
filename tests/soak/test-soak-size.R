detritus <- detritus_snapshot()

to_dev_null <- c("sh", "-c", "exec \"$@\" >/dev/null", "sh")

test_that("a gigabyte of stdout is relayed, captured or dropped", {
  skip_unless_linux()
  for (mode in c("relay", "drop")) {
    got <- fault_run(function(mode) {
      line <- paste0(strrep("x", 1023L), "\n")
      par_lapply(1:2, function(i) {
        for (k in seq_len(512L)) cat(rep(line, 1024L), sep = "")
        i
      }, .control = par_control(workers = 2L, progress = FALSE, stdout = mode))
    }, list(mode = mode), wrap = to_dev_null, timeout = 600)
    expect_identical(got$value, list(1L, 2L))
  }
})

test_that("a million warnings are bounded and counted", {
  seen <- 0
  withCallingHandlers(
    par_lapply(1:2, function(i) if (i == 1L) for (k in seq_len(1e6)) as.integer("x"),
      .control = two_workers()),
    warning = function(w) {
      if (grepl("coercion", conditionMessage(w))) seen <<- seen + 1
      invokeRestart("muffleWarning")
    }
  )
  expect_identical(seen, 1000)
  expect_equal(par_last()$conditions[["suppressed"]], 999000)
})

test_that("a result over 2 GiB arrives without shared vectors, too, and in many pieces", {
  skip_unless_linux()
  if (memory_available() < 14e9) skip("less than 14 GB of memory available")
  got <- fault_run(function() {
    control <- par_control(workers = 1L, progress = FALSE, shm = FALSE)
    x <- par_lapply(1L, function(i) {
      x <- raw(2.2 * 2^30)
      x[c(1, 2^31, length(x))] <- as.raw(1:3)
      x
    }, .control = control)[[1L]]
    list(length(x), x[c(1, 2^31, length(x))])
  }, timeout = 600)$value
  expect_identical(got, list(floor(2.2 * 2^30), as.raw(1:3)))
  got <- fault_run(function() {
    values <- par_lapply(1:40, function(i) rep(i + 0, 1e7),
      .control = par_control(workers = 2L, progress = FALSE))
    vapply(values, function(x) x[[1e7]], 0)
  }, timeout = 600)$value
  expect_identical(got, as.double(1:40))
})

test_that("a hundred thousand elements, half of them failing, take a bounded time", {
  got <- suppressWarnings(par_lapply(1:1e5, function(i) if (i %% 2L) stop("odd") else i,
    .control = two_workers(errors = "collect")))
  expect_identical(unlist(got[seq(2, 1e5, 2)]), seq(2L, 100000L, 2L))
  failed <- vapply(got, inherits, NA, "regatta_error_element")
  expect_identical(which(failed), seq(1L, 99999L, 2L))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
