detritus <- detritus_snapshot()

test_that("Ctrl-C at random moments leaves nothing, and the next call works", {
  skip_unless_linux()
  withr::local_preserve_seed()
  for (group in c(TRUE, FALSE)) {
    expect_identical(
      interrupt_often("short", 8L, group = group), rep(clean_interrupt, 8L)
    )
  }
})

test_that("Ctrl-C ends elements that sleep, wait for a command, or will not be interrupted", {
  skip_unless_linux()
  withr::local_preserve_seed()
  for (kind in c("long", "grandchild", "stubborn", "catching", "chatty")) {
    expect_identical(interrupt_often(kind, 2L), rep(clean_interrupt, 2L))
  }
  expect_identical(interrupt_often("long", 2L, group = FALSE), rep(clean_interrupt, 2L))
  expect_identical(interrupt_often("grandchild", 2L, group = FALSE), rep(clean_interrupt, 2L))
})

test_that("a second Ctrl-C while the first is handled leaves nothing either", {
  skip_unless_linux()
  withr::local_preserve_seed()
  for (kind in c("short", "stubborn")) {
    expect_identical(interrupt_often(kind, 4L, twice = TRUE), rep(clean_interrupt, 4L))
  }
})

test_that("Ctrl-C in a script that does not catch it ends the script and all its workers", {
  skip_unless_linux()
  session <- local_session(function() {
    par_lapply(1:4, function(i) {
      cat("busy\n")
      system("sleep 300")
    }, .control = par_control(workers = 2L, progress = FALSE, batch = 1L))
  })
  fault_wait_line(session, "busy", times = 2L)
  signal_group(session$process$get_pid(), "INT")
  wait_until(function() !session$process$is_alive(), 20, "the end of the script")
  wait_until(function() length(marked_pids(session$mark)) == 0L, 5, "the end of its children")
  expect_length(marked_pids(session$mark), 0L)
})

test_that("Ctrl-C while a value of par_call() is waited for ends that call", {
  skip_unless_linux()
  session <- local_session(function() {
    suspendInterrupts({
      handle <- par_call(system("sleep 300"), .control = par_control(progress = FALSE))
      first <- tryCatch(allowInterrupts({
        cat("go\n")
        par_value(handle)
      }), interrupt = function(e) "interrupt")
      again <- tryCatch(par_value(handle), error = function(e) class(e)[[1L]])
      list(first, again, par_value(par_call(1 + 1)))
    })
  })
  fault_wait_line(session, "go")
  tools::pskill(session$process$get_pid(), tools::SIGINT)
  expect_identical(fault_value(session)$value, list("interrupt", "regatta_error_lost", 2))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
