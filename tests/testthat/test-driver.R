# What the driver decides, by workers that are only told of.

detritus <- detritus_snapshot()

on_test <- function(...) par_control(progress = FALSE, dump = "no", seed = FALSE, ...)

run_script <- function(n, on, ...) {
  par_lapply(seq_len(n), identity, .on = on, .control = on_test(...))
}

numbers_of <- function(n) as.list(-as.numeric(seq_len(n)))

test_that("work begins with the first worker; who joins late takes part", {
  on <- on_script(3L,
    function(place) list(script_joined(2L)),
    function(place) {
      expect_identical(place$log, c("start 1 2 3", "give 2 1"))
      list(script_done(place, 2L), script_joined(1L))
    },
    function(place) {
      expect_match(place$log, "^give 1 ", all = FALSE)
      list(script_done(place, 2L), script_done(place, 1L), script_joined(3L))
    }
  )
  expect_identical(run_script(20, on), numbers_of(20))
  expect_match(on$place$log, "^give 3 ", all = FALSE)
  expect_identical(sort(par_last()$workers$pid), 1001:1003)
})

test_that("all elements may be done before the last worker has joined", {
  on <- on_script(2L, function(place) list(script_joined(1L)))
  expect_silent(got <- run_script(5, on))
  expect_identical(got, numbers_of(5))
  expect_identical(par_last()$workers$pid, 1001L)
})

test_that("those that leave while starting are missed once, by number", {
  on <- on_script(3L,
    function(place) {
      list(script_joined(2L), regatta:::event_not_started(1L, "no room", "east"))
    },
    function(place) list(regatta:::event_not_started(3L, "no room", "west"))
  )
  warned <- expect_warning(
    got <- run_script(9, on),
    "only 1 of 3 workers could be started: worker 1 (east): no room", fixed = TRUE,
    class = "regatta_warning_workers"
  )
  expect_identical(warned$started, 1L)
  expect_identical(got, numbers_of(9))
  expect_false(any(grepl("start 4", on$place$log)))
})

test_that("none that starts, or fewer than must, is an error with the reason", {
  none <- on_script(2L,
    function(place) {
      list(
        regatta:::event_not_started(1L, "no room"), regatta:::event_not_started(2L, "no room")
      )
    }
  )
  failed <- expect_error(run_script(3, none), class = "regatta_error_start")
  expect_match(conditionMessage(failed), "cannot start any of 2 workers: no room.", fixed = TRUE)
  expect_identical(utils::tail(none$place$log, 1L), "stop")
  few <- on_script(3L, min_workers = 2L,
    function(place) {
      list(
        script_joined(1L), regatta:::event_not_started(2L, "no room"),
        regatta:::event_not_started(3L, "no room")
      )
    }
  )
  expect_error(run_script(30, few), class = "regatta_error_start")
})

test_that("a worker that says nothing is not waited for longer than the executor asks", {
  on <- on_script(2L, patience = 0.05, function(place) list(script_joined(2L)))
  place <- on$place
  slow <- function(place) {
    Sys.sleep(0.02)
    list()
  }
  place$steps <- c(place$steps, rep(list(slow), 5))
  expect_warning(got <- run_script(4, on), "did not answer within", class = "regatta_warning_workers")
  expect_identical(got, numbers_of(4))
  expect_error(
    run_script(4, on_script(1L, patience = 0.02)), "did not answer", class = "regatta_error_start"
  )
})

test_that("a lost worker loses one element; the rest of its batch goes to others at once", {
  on <- on_script(2L,
    function(place) list(script_joined(1L), script_joined(2L)),
    function(place) list(script_done(place, 1L, 1), script_left(1L)),
    function(place) {
      place$given[1L] <- list(NULL)
      list(script_joined(3L))
    }
  )
  got <- suppressWarnings(run_script(12, on, batch = 3, errors = "collect"))
  # of elements 1 to 3 the first has ended, so that the worker was at the second
  expect_s3_class(got[[2L]], "regatta_error_death")
  expect_identical(got[-2L], numbers_of(12)[-2L])
  expect_true("start 3" %in% on$place$log)
  workers <- par_last()$workers
  expect_identical(workers$worker, c(1L, 2L, 1L)) # the third has the place of the first
  expect_identical(workers$exit[[1L]], "signal 9 (SIGKILL)")
  expect_match(on$place$log, "^give [23] 3 7( |$)", all = FALSE)
})

test_that("a worker that leaves between elements costs none, but not without end", {
  on <- on_script(1L,
    function(place) list(script_joined(1L)),
    function(place) {
      place$given[1L] <- list(NULL)
      list(script_left(1L, index = numeric(), start = numeric()), script_joined(2L))
    }
  )
  expect_identical(run_script(3, on), numbers_of(3))
  dying <- function(place) {
    w <- length(grep("^start", place$log))
    place$given[w] <- list(NULL)
    list(script_joined(w), script_left(w, index = numeric(), start = numeric()))
  }
  on <- do.call(on_script, c(list(1L), rep(list(dying), 20), function(place) stop("it goes on")))
  expect_error(run_script(3, on), "in a row ended before they began", class = "regatta_error_start")
})

test_that("when the last has gone and no other comes the run ends with an error", {
  on <- on_script(1L,
    function(place) list(script_joined(1L)),
    function(place) {
      place$given[1L] <- list(NULL)
      list(script_left(1L), regatta:::event_not_started(2L, NULL))
    }
  )
  expect_error(
    run_script(3, on, errors = "collect"), "last worker has died", class = "regatta_error_start"
  )
})

test_that("a worker that keeps no promise is silent, then given up; what it says later is not heard", {
  # It is given up after ten heartbeats, on a busy machine after more steps.
  quiet <- function(place) {
    if (!"signal 1 9" %in% place$log) Sys.sleep(0.05)
    list()
  }
  late <- NULL
  on <- on_script(2L,
    function(place) list(script_joined(1L, heartbeat = 0.04), script_joined(2L)),
    function(place) {
      late <<- script_done(place, 1L) # on its way, and the last that is heard
      list(script_done(place, 2L))
    }
  )
  on$place$steps <- c(on$place$steps, rep(list(quiet), 100), function(place) list(late))
  got <- run_script(8, on, retries = 1)
  expect_identical(got, numbers_of(8))
  expect_true("signal 1 9" %in% on$place$log)
  tries <- par_last()$tries
  expect_identical(tries$index, 1L)
  expect_identical(as.character(tries$status), "death")
  expect_identical(par_last()$elements$try, c(2L, rep(1L, 7)))
})

test_that("a silent worker that is heard of again goes on", {
  local_function("given_up_after", Inf)
  quiet <- function(place) {
    Sys.sleep(0.3)
    list()
  }
  on <- on_script(1L,
    function(place) list(script_joined(1L, heartbeat = 0.2)),
    function(place) list(script_done(place, 1L)),
    quiet, quiet,
    function(place) {
      Sys.sleep(0.3) # it is silent when this is over, and has had nothing to do
      place$given[1L] <- list(NULL)
      list(list(type = "heartbeat", worker = 1L))
    },
    function(place) {
      place$given[[1L]] <- list(elements = c(2, 3, 4), tries = rep(1L, 3))
      list()
    }
  )
  expect_identical(run_script(4, on, batch = 3), numbers_of(4))
  expect_false(any(grepl("signal", on$place$log)))
  expect_identical(nrow(par_last()$workers), 1L)
})

test_that("nobody is silent for a session that was stopped itself", {
  on <- on_script(1L,
    function(place) list(script_joined(1L, heartbeat = 0.05)),
    function(place) list(script_done(place, 1L)),
    function(place) {
      Sys.sleep(1)
      list()
    },
    function(place) list(script_done(place, 1L))
  )
  expect_identical(run_script(4, on), numbers_of(4))
  expect_false(any(grepl("signal", on$place$log)))
})

test_that("nobody is late at the start of a session that was stopped itself", {
  on <- on_script(1L, patience = 1,
    function(place) {
      Sys.sleep(1.5)
      list()
    },
    function(place) list(script_joined(1L))
  )
  expect_identical(run_script(4, on), numbers_of(4))
  expect_false(any(grepl("signal", on$place$log)))
})

test_that("a worker that was stopped is told of once, also while the heartbeats of its host go on", {
  local_function("workers_told_after", 0)
  heartbeat <- function(place) list(list(type = "heartbeat", worker = 1L))
  on <- do.call(on_script, c(
    list(1L, function(place) list(script_joined(1L, heartbeat = 60)), function(place) {
      place$stopped <- 1L
      list(script_done(place, 1L, 1))
    }),
    rep(list(heartbeat), 4)
  ))
  told <- 0L
  got <- withCallingHandlers(run_script(4, on, batch = 4), regatta_message_stopped = function(m) {
    told <<- told + 1L
    invokeRestart("muffleMessage")
  })
  expect_identical(got, numbers_of(4))
  expect_identical(told, 1L)
})

test_that("batches grow as those of the shared queue do, or have the size that was asked for", {
  # the setting, the batch before and its seconds, elements left, workers
  size <- function(...) .Call(get("ffi_driver_batch", asNamespace("regatta")), ...)
  expect_identical(size(0, 0, 0, 200, 1), 1L)
  expect_identical(size(0, 4, 1e-5, 200, 1), 16L) # four times as many
  expect_identical(size(0, 16, 0.016, 200, 1), 10L) # what takes 10 ms
  expect_identical(size(0, 16, 1e-5, 20, 2), 6L) # half of an equal share, and one
  expect_identical(size(5, 1, 1, 200, 2), 5L)
  on <- on_script(1L, function(place) list(script_joined(1L)))
  run_script(200, on)
  sizes <- lengths(strsplit(grep("^give", on$place$log, value = TRUE), " ")) - 2L
  expect_identical(sizes[[1L]], 1L)
  expect_true(all(sizes[-1L] <= 4L * sizes[-length(sizes)]))
  expect_identical(sum(sizes), 200L)
  on <- on_script(1L, function(place) list(script_joined(1L)))
  run_script(10, on, batch = 2)
  sizes <- lengths(strsplit(grep("^give", on$place$log, value = TRUE), " ")) - 2L
  expect_identical(unique(sizes), 2L)
})

test_that("the most important begin first, those of the same priority in their order", {
  on <- on_script(1L, function(place) list(script_joined(1L)))
  expect_identical(run_script(5, on, batch = 1, priority = c(1, 3, 2, 3, 2)), numbers_of(5))
  expect_identical(grep("^give", on$place$log, value = TRUE), sprintf("give 1 %d", c(2, 4, 3, 5, 1)))
})

test_that("a run that stops waits for the elements before the first that has failed, for none after it", {
  later <- 0L
  on <- on_script(4L,
    function(place) lapply(1:4, script_joined),
    function(place) list(script_failed(place, 2L)),
    function(place) list(script_failed(place, 4L)),
    function(place) list(script_done(place, 1L)),
    function(place) {
      later <<- later + 1L
      list()
    }
  )
  failed <- expect_error(run_script(9, on, batch = 1), class = "regatta_error_element")
  expect_identical(failed$index, 2L)
  expect_identical(later, 0L)
  expect_identical(grep("^give", on$place$log, value = TRUE), sprintf("give %d %d", 1:4, 1:4))
})

test_that("with fewer workers for retries the last places are given nothing more", {
  failing <- function(place) list(script_failed(place, 2L))
  on <- on_script(2L, function(place) list(script_joined(1L), script_joined(2L)), failing)
  expect_identical(
    run_script(6, on, batch = 1, retries = 1, retry_workers = "fewer"), numbers_of(6)
  )
  expect_identical(grep("^give 2", on$place$log, value = TRUE), "give 2 2")
})

test_that("what is tried again is next, those that fail together in their order", {
  failing <- function(place) list(script_failed(place, 2L), script_failed(place, 1L))
  on <- on_script(2L, function(place) list(script_joined(1L), script_joined(2L)), failing)
  expect_identical(run_script(6, on, batch = 1, retries = 1), numbers_of(6))
  expected <- sprintf("give %d %d", c(1:2, 1:2, 1), c(1:2, 1:2, 3))
  expect_identical(grep("^give", on$place$log, value = TRUE)[1:5], expected)
})

test_that("a limit interrupts by element, then the worker is asked, then ended", {
  held <- function(place) {
    Sys.sleep(0.02)
    list()
  }
  limit_grace <- get("limit_grace", asNamespace("regatta"))
  local_function("limit_grace", limit_grace / 100)
  on <- on_script(1L, function(place) list(script_joined(1L)))
  on$place$steps <- c(on$place$steps, rep(list(held), 8), function(place) {
    place$given[1L] <- list(NULL)
    list(script_left(1L))
  })
  expect_error(run_script(1, on, timeout = 0.5, errors = "stop"), class = "regatta_error_timeout")
  steps <- grep("^(interrupt|signal)", on$place$log, value = TRUE)
  expect_identical(steps, c("interrupt 1 1", "signal 1 15", "signal 1 9"))
})

test_that("a worker that is gone and has not been told of yet is over no limit", {
  on <- on_script(1L,
    function(place) list(script_joined(1L)),
    function(place) {
      place$measured <- NA_real_
      list()
    },
    function(place) {
      place$measured <- NULL
      place$given[1L] <- list(NULL)
      list(script_left(1L))
    },
    function(place) list(script_joined(2L))
  )
  got <- suppressWarnings(run_script(3, on, batch = 1, memory = 5e6, errors = "collect"))
  expect_s3_class(got[[1L]], "regatta_error_death")
  expect_identical(got[2:3], numbers_of(3)[2:3])
})

test_that("who has told the end of a try and still looks as if it were at it spoils no other try", {
  interrupted <- function(place) list(script_failed(place, 1L, interrupted = TRUE))
  # as a slot does that is looked at between the end of an element and the next; it never ends here
  stays <- function(place) {
    list(worker = 1L, element = 1, try = 1L, seconds = 9, cpu_seconds = 9)
  }
  grown <- function(place) {
    place$bytes[[1L]] <- 9e6
    list()
  }
  for (elements in c(1L, 3L)) { # the next try is with the same worker, or with the other
    for (limit in list(list(timeout = 5), list(cpu_timeout = 5), list(memory = 5e6))) {
      workers <- min(2L, elements)
      on <- on_script(workers, function(place) lapply(seq_len(workers), script_joined), grown, interrupted,
        running = stays
      )
      on$place$bytes <- c(0, 0)
      got <- do.call(run_script, c(
        list(elements, on, batch = 1, retries = 1, retry_on = "timeout", errors = "collect"), limit
      ))
      expect_identical(got, numbers_of(elements))
      expect_identical(par_last()$tries$index, 1L)
      expect_identical(as.character(par_last()$tries$status), "timeout")
      expect_identical(grep("^interrupt", on$place$log, value = TRUE), "interrupt 1 1")
    }
  }
})

test_that("what a try has used in a worker that is withdrawn says nothing of it in another", {
  at <- function(place) {
    list(worker = 1L, element = 1, try = 1L, seconds = 9, cpu_seconds = 0)
  }
  on <- on_script(2L,
    function(place) list(script_joined(1L), script_joined(2L)),
    function(place) {
      place$running <- script_idle
      expect_true("interrupt 1 1" %in% place$log)
      place$given[1L] <- list(NULL)
      list(regatta:::event_not_started(1L, "it cannot begin"))
    },
    running = at
  )
  expect_warning(got <- run_script(2, on, batch = 1, timeout = 5), class = "regatta_warning_workers")
  expect_identical(got, numbers_of(2))
})

test_that("an end of an earlier try that comes late is not that of the one under way", {
  late <- NULL
  on <- on_script(2L,
    function(place) list(script_joined(1L), script_joined(2L)),
    function(place) {
      late <<- script_done(place, 1L)
      late$values <<- list("late")
      place$given[1L] <- list(NULL)
      list(script_left(1L, index = late$index, start = late$start))
    },
    function(place) {
      expect_false(is.null(place$given[[2L]]))
      list(script_done(place, 2L))
    },
    function(place) {
      expect_identical(place$given[[2L]][["tries"]], 2L)
      list(late)
    },
    function(place) list(script_done(place, 2L), late)
  )
  expect_identical(run_script(2, on, batch = 1, retries = 1), numbers_of(2))
})

test_that("a pause of the session is no time that an interrupted element had to end in", {
  local_function("limit_grace", 0.2)
  paused <- FALSE
  step <- function(place) {
    if (!"interrupt 1 1" %in% place$log) {
      return(list())
    }
    if (paused) {
      return(list(script_done(place, 1L)))
    }
    paused <<- TRUE
    Sys.sleep(0.5)
    list()
  }
  on <- do.call(on_script, c(list(1L, function(place) list(script_joined(1L))), rep(list(step), 20)))
  suppressWarnings(run_script(1, on, timeout = 0.5, errors = "collect"))
  expect_true(paused)
  expect_false(any(grepl("^signal", on$place$log)))
})

test_that("what a worker cannot do is said by the driver, and such a worker gets nothing", {
  far <- function(place) list(script_joined(1L, host = "east", shares = FALSE, watched = FALSE))
  expect_error(
    run_script(2, on_script(1L, far), timeout = 5),
    "worker 1 (east): it shares no memory with this session, which a limit of time or memory needs",
    fixed = TRUE
  )
  near <- function(place) list(script_joined(1L, watched = FALSE))
  expect_error(
    run_script(2, on_script(1L, near), memory = "1GB"),
    "what it does cannot be watched from here, which a limit of time or memory needs"
  )
  expect_error(
    shm_fill(10, sqrt, .on = on_script(1L, far), .control = on_test()),
    "it shares no memory with this session, which shm_fill() needs", fixed = TRUE
  )
})

test_that("a worker is ready when it has taken what the run needs, with its part of its host's cores", {
  east <- function(w) script_joined(w, host = "east", cores = 8L, shares = FALSE, watched = FALSE)
  west <- function(w) script_joined(w, host = "west", cores = 6L, shares = FALSE, watched = FALSE)
  ready <- function(w) list(type = "ready", worker = w)
  on <- on_script(3L, admit = TRUE,
    function(place) list(east(1L), west(2L), east(3L)),
    function(place) {
      expect_false(any(grepl("give", place$log)))
      list(ready(2L))
    },
    function(place) {
      expect_true("give 2 1" %in% place$log)
      list(ready(1L), regatta:::event_not_started(3L, "a package is missing", "east"))
    }
  )
  expect_warning(got <- run_script(6, on), "worker 3 (east): a package is missing", fixed = TRUE)
  expect_identical(got, numbers_of(6))
  # of those that have not joined it is not known where they are
  expect_identical(
    grep("^admit", on$place$log, value = TRUE), c("admit 1 2", "admit 2 3", "admit 3 4")
  )
})

test_that("the death of an element stays the error of the run when all workers die", {
  die <- function(w) {
    function(place) {
      list(script_left(w, index = place$given[[w]]$elements[[1L]], start = .Call(regatta:::ffi_clock)))
    }
  }
  on <- on_script(2L,
    function(place) list(script_joined(1L), script_joined(2L)),
    die(2L), die(1L)
  )
  expect_error(run_script(9, on), class = "regatta_error_death")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
