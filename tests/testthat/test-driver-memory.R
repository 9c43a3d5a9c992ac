# Elements are handed out with an eye on memory: the decision, what the driver makes of it, and real shortage.

detritus <- detritus_snapshot()

on_test <- function(...) par_control(progress = FALSE, dump = "no", seed = FALSE, ...)

decide <- function(room, used, need = max(used, 0), seconds = rev(seq_along(used)), idle = numeric(), most = 4L,
                   places = 4L, ended = TRUE, stalls = FALSE, reserve = 100) {
  regatta:::memory_decide(room, reserve, need, used, seconds, idle, most, places, ended, stalls)
}

test_that("with room for all of them all go on", {
  expect_identical(decide(5000, c(800, 800, 800, 800)), list(most = 4L, put_back = 0L))
  expect_identical(decide(5000, numeric(), need = 0, most = 4L), list(most = 4L, put_back = 0L))
})

test_that("when it is short the youngest is put back, and so many fewer are under way", {
  expect_identical(decide(99, c(500, 400, 300)), list(most = 2L, put_back = 3L))
  expect_identical(decide(99, c(500, 400, 300), seconds = c(2, 1, 3)), list(most = 2L, put_back = 2L))
  expect_identical(decide(-50, c(500, 400)), list(most = 1L, put_back = 2L))
  expect_identical(decide(100, c(1, 1), need = 0)$put_back, 0L)
})

test_that("one always runs", {
  expect_identical(decide(0, 900), list(most = 1L, put_back = 0L))
  expect_identical(decide(0, numeric(), need = 900), list(most = 1L, put_back = 0L))
  expect_identical(decide(150, numeric(), need = 900), list(most = 1L, put_back = 0L))
})

test_that("what workers without an element have not given back goes first", {
  expect_identical(decide(50, c(500, 400), idle = c(0, 600)), list(most = 2L, put_back = 0L))
  expect_identical(decide(50, c(500, 400), idle = c(0, 10)), list(most = 1L, put_back = 2L))
})

test_that("fewer begin before it is short, as far as those under way may still grow", {
  # 1000 are left, 100 of it a reserve; both may grow by 300 more: that leaves room for none but them.
  expect_identical(decide(1000, c(500, 500), need = 800), list(most = 2L, put_back = 0L))
  expect_identical(decide(1500, c(500, 500), need = 800), list(most = 3L, put_back = 0L)) # one more, and no further
  expect_identical(decide(600, c(800, 100), need = 800), list(most = 1L, put_back = 0L))
})

test_that("more begin one at a time, and only after an element has ended", {
  expect_identical(decide(5000, 800, most = 1L)$most, 2L)
  expect_identical(decide(5000, 800, most = 1L, ended = FALSE)$most, 1L)
  expect_identical(decide(5000, c(800, 800), most = 4L, places = 4L)$most, 4L)
})

test_that("no more begin while processes wait for memory", {
  expect_identical(decide(5000, 800, most = 1L, stalls = TRUE)$most, 1L)
  expect_identical(decide(5000, c(800, 800), most = 4L, stalls = TRUE), list(most = 2L, put_back = 0L))
  stalls <- function(from, to, seconds) regatta:::memory_stalls(list(stalled = from, at = 1), to, 1 + seconds)
  expect_true(stalls(3, 3.2, 1))
  expect_false(stalls(3, 3.05, 1))
  expect_false(stalls(NA, 3, 1))
  expect_false(stalls(3, NA, 1))
})

test_that("what is left is that of the machine or of the group, whichever is less; the group says who waits", {
  meminfo <- c("MemTotal: 8000000 kB", "MemAvailable: 6000000 kB")
  pressure <- paste(c("some", "full"), "avg10=0.00 avg60=0.00 avg300=0.00", c("total=2500000", "total=1"))
  at <- function(...) regatta:::available_here(fake_machine(...))
  machine <- list("/proc/meminfo" = meminfo, "/proc/pressure/memory" = pressure)
  expect_equal(at(files = machine), c(available = 6e6 * 1024, total = 8e6 * 1024, stalled = 2.5))
  expect_identical(at(files = machine[1L])[["stalled"]], NA_real_)
  group <- list(
    "/sys/fs/cgroup/a/memory.max" = "2000000000", "/sys/fs/cgroup/a/memory.current" = "500000000",
    "/sys/fs/cgroup/a/memory.stat" = c("inactive_file 100000000", "active_file 0"),
    "/sys/fs/cgroup/a/memory.pressure" = sub("2500000", "4000000", pressure)
  )
  mounts <- list(c("2", "", "/", "/sys/fs/cgroup"))
  expect_equal(at("0::/a", mounts, c(machine, group)), c(available = 1.6e9, total = 2e9, stalled = 4))
  expect_identical(at("0::/a", mounts, c(machine, group[-4L]))[["stalled"]], 2.5)
})

test_that("there is an end to it: between two ends of elements no more than workers are put back", {
  # The worst that can be: it is always short, whatever runs.
  most <- 8L
  put_back <- 0
  repeat {
    got <- decide(0, rep(1, most), most = most, places = 8L, ended = FALSE)
    if (got$put_back == 0L) break
    put_back <- put_back + 1
    most <- got$most
  }
  expect_identical(most, 1L)
  expect_identical(put_back, 7)
})

# The driver, by workers that are only told of. There is a lot of memory, but for the first look at which both are at
# an element.
short_once <- function(place) {
  is_first <- is.null(place$short) && sum(lengths(place$given) > 0L) == 2L
  if (is_first) place$short <- TRUE
  c(available = if (is_first) 9e7 else 9e9, total = 1e10, stalled = 0)
}

both_joined <- function(place) list(script_joined(1L), script_joined(2L))

later <- function(place) {
  Sys.sleep(0.03)
  list()
}

# The driver looks by the clock, whenever the workers have come to their elements. Bounded, for one that never does.
until_signal <- function(place) {
  place$waits <- c(place$waits, 1)
  if (!any(startsWith(place$log, "signal")) && length(place$waits) < 300L) {
    place$steps <- c(list(later, until_signal), place$steps)
  }
  list()
}

test_that("the youngest element is put back with the number of its try, and is told of", {
  on <- on_script(2L, both_joined, until_signal,
    function(place) {
      # Worker 2 has the element that began last.
      expect_match(place$log, "^signal 2 9$", all = FALSE)
      expect_match(place$log, "^hold 2$", all = FALSE)
      given <- place$given[[2L]]
      place$given[2L] <- list(NULL)
      list(script_left(2L, index = given$elements[[1L]], start = .Call(regatta:::ffi_clock), element_peak = 3e8))
    },
    available = short_once
  )
  on$place$bytes <- c(0, 0)
  expect_message(
    got <- par_lapply(1:6, identity, .on = on, .control = on_test(batch = 1L)),
    class = "regatta_message_put_back"
  )
  expect_identical(got, as.list(-as.numeric(1:6)))
  # Its place is filled when there is room, and not before.
  log <- on$place$log
  filled <- match("start 3", log)
  expect_true(is.na(filled) || isTRUE(filled > match("hold ", log)))
  run <- par_last()
  expect_identical(as.character(run$tries$status), "put back")
  expect_identical(run$elements$try, rep(1L, 6L))
  expect_identical(as.character(run$elements$status), rep("done", 6L))
  expect_identical(summary(run)$retried, 0L)
  expect_identical(summary(run)$put_back, 1L)
  expect_match(format(run), "1 try put back for want of memory", all = FALSE)
})

test_that("an element that the system has ended for want of memory is put back unless it was alone", {
  dies_of_oom <- function(place, w, kills = 1) {
    given <- place$given[[w]]
    place$given[w] <- list(NULL)
    left <- script_left(w, index = given$elements[[1L]], start = .Call(regatta:::ffi_clock), element_peak = 3e8)
    left$oom <- kills
    list(left)
  }
  plenty <- function(place) c(available = 9e9, total = 1e10, stalled = 0)
  on <- on_script(2L, both_joined, function(place) dies_of_oom(place, 2L), available = plenty)
  on$place$kills <- 0
  got <- par_lapply(1:4, identity, .on = on, .control = on_test(batch = 1L))
  expect_identical(got, as.list(-as.numeric(1:4)))
  expect_identical(as.character(par_last()$tries$status), "put back")

  # Both at once, of which the counter tells when the first is collected.
  on <- on_script(3L,
    function(place) lapply(1:3, script_joined),
    function(place) {
      left <- c(dies_of_oom(place, 2L), dies_of_oom(place, 3L))
      left[[1L]]$oom <- left[[2L]]$oom <- 2
      left
    },
    available = plenty
  )
  on$place$kills <- 0
  got <- par_lapply(1:6, identity, .on = on, .control = on_test(batch = 1L))
  expect_identical(got, as.list(-as.numeric(1:6)))
  expect_identical(as.character(par_last()$tries$status), rep("put back", 2L))

  # Both of two: the one that is collected last was not alone when it ended, though it is now.
  both_die <- function(place) {
    left <- lapply(1:2, function(w) dies_of_oom(place, w)[[1L]])
    left[[1L]]$oom <- left[[2L]]$oom <- 2
    left
  }
  on <- on_script(2L, both_joined, both_die, function(place) list(script_joined(3L)), available = plenty)
  on$place$kills <- 0
  got <- par_lapply(1:4, identity, .on = on, .control = on_test(batch = 1L))
  expect_identical(got, as.list(-as.numeric(1:4)))
  expect_identical(as.character(par_last()$tries$status), rep("put back", 2L))

  # Alone, but in a worker that has had an element before: what that has left may have been in the way. In a worker
  # that has had none it is a death. There is room for one at a time.
  alone <- function(last) {
    on <- on_script(2L, both_joined,
      function(place) dies_of_oom(place, 2L),
      function(place) list(script_done(place, 1L)),
      function(place) dies_of_oom(place, 1L, kills = 2),
      function(place) list(script_joined(3L)),
      last,
      available = function(place) c(available = 7e8, total = 1e10, stalled = 0)
    )
    on$place$kills <- 0
    on
  }
  dies_again <- function(place) dies_of_oom(place, 3L, kills = 3)
  got <- par_lapply(1:4, identity, .on = alone(function(place) list()), .control = on_test(batch = 1L))
  expect_identical(got, as.list(-as.numeric(1:4)))
  expect_identical(as.character(par_last()$tries$status), rep("put back", 2L))
  expect_error(
    par_lapply(1:4, identity, .on = alone(dies_again), .control = on_test(batch = 1L)), class = "regatta_error_death"
  )

  # Without a watch it is a death.
  on <- on_script(2L, both_joined, function(place) dies_of_oom(place, 2L), available = plenty)
  on$place$kills <- 0
  expect_error(
    par_lapply(1:4, identity, .on = on, .control = on_test(batch = 1L, memory_budget = Inf)),
    class = "regatta_error_death"
  )

  # One death is counted for one that the system has ended: when the next is collected the counter stands as it did.
  on <- on_script(3L,
    function(place) lapply(1:3, script_joined),
    function(place) dies_of_oom(place, 2L),
    function(place) dies_of_oom(place, 3L),
    available = plenty
  )
  on$place$kills <- 0
  control <- on_test(batch = 1L, memory_budget = Inf, errors = "collect")
  got <- suppressWarnings(par_lapply(1:6, identity, .on = on, .control = control))
  expect_identical(c(got[[2L]]$oom, got[[3L]]$oom), c(TRUE, FALSE))
})

test_that("memory is not looked at by a run that is told not to, and workers are not while there is plenty", {
  plenty <- function(place) {
    place$looks <- c(place$looks, 1)
    c(available = 9e9, total = 1e10, stalled = 0)
  }
  slow <- rep(list(later), 10)
  on <- do.call(on_script, c(2L, both_joined, slow, available = plenty))
  par_lapply(1:4, identity, .on = on, .control = on_test(memory_budget = Inf))
  expect_null(on$place$looks)
  on <- do.call(on_script, c(2L, both_joined, slow, available = plenty))
  seconds <- system.time(par_lapply(1:4, identity, .on = on, .control = on_test()))[["elapsed"]]
  expect_lte(length(on$place$looks), 1 + seconds / 0.5)
  expect_false(any(grepl("hold|signal", on$place$log)))
})

# Grows to so many megabytes in steps, which takes a while, and returns a number of its own.
grow <- function(i, megabytes, steps = 10) {
  held <- list()
  for (k in seq_len(steps)) {
    held[[k]] <- rep(i + 0, megabytes * 2^20 / 8 / steps)
    Sys.sleep(0.03)
  }
  i + runif(1) + 0 * length(held)
}

test_that("elements that do not fit beside each other all arrive in a cgroup", {
  skip_unless_linux()
  group <- local_cgroup(600 * 2^20)
  ran <- function(on = NULL) {
    fault_run(function(grow, on) {
      if (on) on <- regatta::cluster_local(4L) else on <- NULL
      control <- par_control(workers = 4L, progress = FALSE, seed = 1)
      got <- suppressMessages(par_lapply(1:8, grow, megabytes = 200, .on = on, .control = control))
      list(values = unlist(got), tries = par_last()$tries, elements = par_last()$elements)
    }, list(grow, !is.null(on)), wrap = in_cgroup(group))$value
  }
  expected <- unlist(par_lapply(1:8, grow, megabytes = 0.01, .control = par_control(seed = 1, progress = FALSE)))
  for (on in list(NULL, "local")) {
    got <- ran(on)
    expect_identical(got$values, expected)
    # None, where workers come to their elements one after another and are held back.
    expect_true(all(got$tries$status == "put back"))
    expect_identical(got$elements$try, rep(1L, 8L))
  }
})

test_that("a budget holds where the system has plenty", {
  skip_unless_linux()
  expect_message(
    got <- par_lapply(1:6, grow, megabytes = 100, .control = on_test(workers = 3L, memory_budget = "240MB")),
    class = "regatta_message_put_back"
  )
  expect_identical(floor(unlist(got)), as.numeric(1:6))
  expect_true(all(par_last()$tries$status == "put back"))
})

test_that("a budget may be small: elements that need next to nothing are not put back", {
  skip_unless_linux()
  expect_silent(par_lapply(1:6, function(i) Sys.sleep(0.1), .control = on_test(workers = 3L, memory_budget = "20MB")))
  expect_identical(summary(par_last())$put_back, 0L)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
