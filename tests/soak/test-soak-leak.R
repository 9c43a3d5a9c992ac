detritus <- detritus_snapshot()

test_that("a thousand runs of every kind leave descriptors, threads and memory as they were", {
  skip_unless_linux()
  got <- fault_run(function() {
    control <- par_control(workers = 2L, progress = FALSE, dump = "no", errors = "collect")
    kinds <- list(
      function(i) i,
      function(i) rep(i + 0, 1e5),
      function(i) if (i == 2L) stop("x") else i,
      function(i) if (i == 2L) quit("no", 3) else i,
      function(i) message("note"),
      function(i) as.character(seq_len(20000))
    )
    state <- function() {
      gc()
      status <- readLines("/proc/self/status")
      value <- function(name) {
        as.numeric(gsub("[^0-9]", "", grep(paste0("^", name), status, value = TRUE)))
      }
      maps <- readLines("/proc/self/maps")
      c(descriptors = length(list.files("/proc/self/fd")), threads = value("Threads:"),
        megabytes = value("VmRSS:") / 1024, maps = length(maps))
    }
    round <- function(k) {
      # Garbage that waits for R's own next collection is no leak.
      if (k %% 10L == 0L) gc()
      f <- kinds[[k %% length(kinds) + 1L]]
      suppressMessages(suppressWarnings(par_lapply(1:4, f, .control = control)))
    }
    for (k in 1:200) round(k)
    before <- state()
    for (k in 1:1000) round(k)
    rbind(before = before, after = state())
  }, timeout = 600)$value
  grown <- got["after", ] - got["before", ]
  expect_identical(grown[["descriptors"]], 0)
  expect_identical(grown[["threads"]], 0)
  expect_lt(grown[["megabytes"]], 20)
  expect_lt(grown[["maps"]], 20)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
