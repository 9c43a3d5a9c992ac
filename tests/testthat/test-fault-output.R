detritus <- detritus_snapshot()

to_dev_null <- c("sh", "-c", "exec \"$@\" >/dev/null", "sh")

test_that("a flood of stdout never blocks, whether it is relayed, captured or dropped", {
  skip_unless_linux()
  megabytes <- c(relay = 60L, capture = 20L, drop = 100L)
  for (mode in names(megabytes)) {
    got <- fault_run(function(mode, megabytes) {
      line <- paste0(strrep("x", 1023L), "\n")
      par_lapply(1:2, function(i) {
        for (k in seq_len(megabytes)) cat(rep(line, 1024L), sep = "")
        i
      }, .control = par_control(workers = 2L, progress = FALSE, stdout = mode))
    }, list(mode = mode, megabytes = megabytes[[mode]] %/% 2L), wrap = to_dev_null)
    expect_identical(got$value, list(1L, 2L))
  }
})

test_that("a flood on stderr and stdout at once, from a grandchild, never blocks", {
  skip_unless_linux()
  got <- fault_run(function() {
    par_lapply(1:2, function(i) {
      flood <- "head -c 5000000 /dev/zero | tr '\\0' 'x'"
      system(paste(flood, ";", flood, ">&2"))
      i
    }, .control = par_control(workers = 2L, progress = FALSE, stdout = "drop", stderr = "drop"))
  })
  expect_identical(got$value, list(1L, 2L))
})

test_that("a hundred thousand warnings stay bounded, with a count of the rest", {
  seen <- 0
  lost <- character()
  got <- withCallingHandlers(
    par_lapply(1:2, function(i) {
      if (i == 1L) for (k in seq_len(1e5)) as.integer("x")
      i
    }, .control = two_workers(max_conditions = 100L)),
    warning = function(w) {
      if (grepl("coercion", conditionMessage(w))) seen <<- seen + 1 else {
        lost <<- c(lost, conditionMessage(w))
      }
      invokeRestart("muffleWarning")
    },
    message = function(m) {
      lost <<- c(lost, conditionMessage(m))
      invokeRestart("muffleMessage")
    }
  )
  expect_identical(got, list(1L, 2L))
  expect_identical(seen, 100)
  expect_equal(par_last()$conditions[["suppressed"]], 1e5 - 100)
  expect_match(paste(lost, collapse = " "), "99,?900")
})

test_that("max_conditions = 0 lets none through and still counts", {
  seen <- 0
  withCallingHandlers(
    par_lapply(1:2, function(i) message("note"), .control = two_workers(max_conditions = 0L)),
    message = function(m) {
      if (grepl("^([12]: )?note", conditionMessage(m))) seen <<- seen + 1
      invokeRestart("muffleMessage")
    },
    warning = function(w) invokeRestart("muffleWarning")
  )
  expect_identical(seen, 0)
  expect_equal(par_last()$conditions[["suppressed"]], 2)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
