detritus <- detritus_snapshot()

test_that("when the parent is killed at one of a hundred moments nothing survives", {
  skip_unless_linux()
  withr::local_preserve_seed()
  for (k in 1:100) {
    session <- fault_start(function() {
      cat("ready\n")
      repeat {
        par_lapply(1:50, function(i) {
          if (i %% 10L == 0L) system("sleep 60 &")
          rep(i + 0, 2e4)
        }, .control = par_control(workers = 3L, progress = FALSE))
      }
    })
    fault_wait_line(session, "ready")
    Sys.sleep(stats::runif(1, 0, 0.3))
    tools::pskill(session$process$get_pid(), tools::SIGKILL)
    gone <- tryCatch(
      wait_until(function() length(marked_pids(session$mark)) == 0L, 5, "the end of all"),
      error = function(e) FALSE
    )
    fault_end(session)
    expect_true(gone)
  }
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
