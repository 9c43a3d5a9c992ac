detritus <- detritus_snapshot()

# What plot() drew, as the calls of the graphics engine's display list: name of the primitive and
# its arguments.
drawn <- function(run, ..., width = 8, height = 4) {
  grDevices::pdf(NULL, width = width, height = height)
  device <- grDevices::dev.cur()
  on.exit(grDevices::dev.off(device))
  grDevices::dev.control(displaylist = "enable")
  value <- withVisible(plot(run, ...))
  expect_false(value$visible)
  expect_identical(value$value, run)
  calls <- grDevices::recordPlot()[[1L]]
  lapply(calls, function(entry) {
    arguments <- entry[[2L]]
    list(name = arguments[[1L]]$name, arguments = arguments[-1L])
  })
}

drawn_by <- function(calls, primitive) {
  Filter(function(call) identical(call$name, primitive), calls)
}

rectangles <- function(calls) {
  do.call(rbind, lapply(drawn_by(calls, "C_rect"), function(call) {
    data.frame(
      left = call$arguments[[1L]], right = call$arguments[[3L]],
      lane = (call$arguments[[2L]] + call$arguments[[4L]]) / 2,
      colour = as.character(call$arguments[[5L]])
    )
  }))
}

texts <- function(calls) {
  unlist(c(
    lapply(drawn_by(calls, "C_text"), function(call) call$arguments[[2L]]),
    lapply(drawn_by(calls, "C_mtext"), function(call) call$arguments[[1L]]),
    lapply(drawn_by(calls, "C_title"), function(call) call$arguments[3:4]),
    lapply(drawn_by(calls, "C_axis"), function(call) call$arguments[[3L]])
  ))
}

test_that("every element is a bar in the lane of its worker, at its time, in its colour", {
  run <- record_of(c(1, 2, 0.5, 0.25, 3), failed = 3L)
  bars <- rectangles(drawn(run))
  colours <- status_colours()
  done <- bars[bars$colour %in% c(colours[["done"]], done_tint) & bars$lane >= 1, ]
  ok <- run$elements[run$elements$status == "done", ]
  ok <- ok[order(ok$worker, ok$start), ]
  expect_equal(done$left, ok$start)
  expect_equal(done$right, ok$end)
  expect_equal(done$lane, as.double(ok$worker))
  error <- bars[bars$colour == colours[["error"]] & bars$lane >= 1, ]
  expect_equal(error$left, run$elements$start[[3L]])
  expect_equal(error$right, run$elements$end[[3L]])
})

test_that("title, axes, legend and names say what is seen", {
  run <- record_of(c(1, 2, 0.5, 0.25, 3), names = letters[1:5], failed = 3L, retried = 5L)
  text <- texts(drawn(run))
  expect_true(all(c(
    "par_lapply: 5 elements", "seconds since the start of the run", "worker",
    "done 4", "error 1", "error, run again 1", "idle", letters[1:5]
  ) %in% text))
  expect_match(text, "^2 workers, .* busy [0-9]+% of the time$", all = FALSE)
  expect_match(text, "^[0-9]+%$", all = FALSE)
  text <- texts(drawn(run, labels = FALSE, main = "Title", sub = "Below"))
  expect_true(all(c("Title", "Below") %in% text))
  expect_false(any(letters[1:5] %in% text))
})

test_that("start-up, transfer and idle are seen apart, and in the legend", {
  run <- record_of(c(1, 2, 0.5, 0.25, 3), lag = 0.4)
  run$attended <- TRUE
  calls <- drawn(run)
  expect_true(all(c("start-up", "transfer", "idle") %in% texts(calls)))
  bars <- rectangles(calls)
  bars <- bars[bars$lane >= 1, ]
  start <- bars[bars$colour == phase_colours[["start-up"]], ]
  expect_equal(start$left, c(0, 0))
  expect_equal(start$lane, c(1, 2))
  expect_equal(start$right, c(0.4, 0.4))
  between <- bars[bars$colour == phase_colours[["transfer"]], ]
  expect_equal(between$right - between$left, rep(0.4, 3))
  # What is not there is not explained.
  run$attended <- FALSE
  expect_false("transfer" %in% texts(drawn(run)))
})

test_that("the axis is as long as the run, and the legend no wider than the picture", {
  run <- record_of(c(1, 2, 0.5, 0.25, 3.35), failed = 2:3, retried = 4L, lag = 0.1)
  for (width in c(4, 8)) {
    calls <- drawn(run, width = width, height = 3)
    # Lines of hatches are segments, too.
    ends <- lapply(drawn_by(calls, "C_segments"), function(call) unname(unlist(call$arguments[c(1L, 3L)])))
    expect_true(any(vapply(ends, identical, NA, c(0, run$elapsed))))
    # The keys are the last of all.
    keys <- utils::tail(drawn_by(calls, "C_text"), 1L)[[1L]]$arguments
    expect_match(keys[[2L]], "^(done|error|start-up|transfer|idle)")
    left <- if (is.list(keys[[1L]])) keys[[1L]]$x else keys[[1L]]
    expect_lt(max(left), run$elapsed)
  }
})

test_that("a failure too short to be seen is drawn wide enough", {
  run <- record_of(c(rep(1, 10), 1e-6, rep(1, 10)), failed = 11L, how = "death")
  bars <- rectangles(drawn(run))
  bar <- bars[bars$colour == status_colours()[["death"]] & bars$lane >= 1, ]
  expect_identical(nrow(bar), 1L)
  expect_gt(bar$right - bar$left, 1e-3 * run$elapsed)
})

test_that("a try that failed is a bar of its own beside the one that succeeded", {
  run <- record_of(c(1, 2, 0.5), workers = 1L, retried = 2L)
  bars <- rectangles(drawn(run))
  white <- bars[bars$colour == "white" & bars$lane >= 1, ]
  expect_equal(white$left, run$tries$start)
  expect_equal(white$right, run$tries$end)
})

test_that("each way in which tries ended that were made again has a key and its colour", {
  run <- record_of(c(1, 2, 0.5, 1), retried = c(1L, 2L, 4L))
  run$tries$status[] <- c("put back", "timeout", "put back")
  calls <- drawn(run)
  expect_true(all(c("done 4", "timeout, run again 1", "put back, run again 2") %in% texts(calls)))
  # Hatched keys are white, above the lanes, with borders of their colours.
  keys <- utils::tail(drawn_by(calls, "C_rect"), 1L)[[1L]]$arguments
  expect_true(all(status_colours()[c("timeout", "put back")] %in% keys[[6L]][keys[[5L]] == "white"]))
})

test_that("a worker that died is crossed at its end", {
  run <- record_of(c(1, 1, 1), workers = 1L, failed = 1L, how = "death")
  run$workers <- rbind(run$workers, run$workers)
  run$workers$pid <- c(1001L, 2001L)
  run$workers$end <- c(1.001, run$elapsed)
  run$workers$start <- c(0, 1.2)
  run$workers$exit <- c("signal 9 (SIGKILL)", "stopped")
  points <- drawn_by(drawn(run), "C_plotXY")
  # The second is the key.
  expect_length(points, 2L)
  expect_equal(points[[1L]]$arguments[[1L]]$x, 1.001)
  expect_true("worker ended 1" %in% texts(drawn(run)))
  expect_false(any(grepl("worker ended", texts(drawn(record_of(1, workers = 1L))))))
  lanes <- rectangles(drawn(run))
  lanes <- lanes[lanes$colour == idle_colour & lanes$lane >= 1, ]
  expect_equal(lanes$left, c(0, 1.2))
  expect_equal(lanes$lane, c(1, 1))
})

test_that("a hundred thousand elements are few shapes, and cover the same time", {
  lengths <- rep(c(1, 3, 2, 5), 25000) / 1000
  colours <- c(status_colours()[["done"]], done_tint)
  for (workers in c(2L, 64L)) {
    run <- record_of(lengths, workers = workers, failed = 500L)
    bars <- rectangles(drawn(run, height = 8))
    # A lane of 8 inches has 864 columns and can hold two bars for each at most.
    expect_lt(nrow(bars), workers * 8 * 216)
    done <- bars[bars$colour %in% colours & bars$lane >= 1, ]
    covered <- sum(done$right - done$left)
    work <- sum(run$elements$end - run$elements$start)
    expect_gt(covered, 0.99 * work)
    expect_lt(covered, workers * run$elapsed)
    expect_identical(sum(bars$colour == status_colours()[["error"]] & bars$lane >= 1), 1L)
  }
})

test_that("bars are joined only where all of them and their gaps are narrow", {
  spans <- data.frame(
    lane = c(1, 1, 1, 1, 2, 2), status = c("done", "done", "done", "done", "done", "error"),
    start = c(0, 0.1, 5, 5.1, 0, 0.1), end = c(0.1, 0.2, 5.1, 9, 0.1, 0.2)
  )
  expect_identical(merge_spans(spans, 1e-6), spans)
  merged <- merge_spans(spans, 1)
  expect_equal(merged$start, c(0, 5, 5.1, 0, 0.1))
  expect_equal(merged$end, c(0.2, 5.1, 9, 0.1, 0.2))
})

test_that("runs of any size can be drawn on any device, and par() stays as it was", {
  none <- record_of(numeric(), workers = 1L)
  none$elapsed <- 0
  none$workers <- none$workers[0L, ]
  expect_true("no worker was started" %in% texts(drawn(none)))
  pending <- record_of(c(1, 1), workers = 1L)
  pending$elements[c("worker", "pid", "start", "end")] <- NA
  pending$elements$status[] <- "pending"
  expect_true("idle" %in% texts(drawn(pending)))
  expect_true("done 1" %in% texts(drawn(record_of(1, workers = 1L))))
  sparse <- record_of(rep(1, 3), workers = 64L)
  expect_true("done 3" %in% texts(drawn(sparse, width = 4, height = 3)))

  grDevices::pdf(NULL)
  withr::defer(grDevices::dev.off())
  before <- graphics::par(no.readonly = TRUE)
  plot(record_of(c(1, 2)))
  after <- graphics::par(no.readonly = TRUE)
  kept <- c("mar", "mgp", "las", "xpd", "cex", "mfrow", "oma")
  expect_identical(after[kept], before[kept])
})

test_that("the timeline of a real run can be written as a picture", {
  skip_if_not(capabilities("png"), "this R cannot write PNG files")
  control <- par_control(workers = 2L, progress = FALSE, seed = 1L)
  par_lapply(1:20, function(i) i, .control = control)
  file <- withr::local_tempfile(fileext = ".png")
  grDevices::png(file, width = 600, height = 300)
  plot(par_last())
  grDevices::dev.off()
  expect_identical(readBin(file, "raw", 4L), as.raw(c(0x89, 0x50, 0x4e, 0x47)))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
