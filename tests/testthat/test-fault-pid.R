detritus <- detritus_snapshot()

# The next process of this pid namespace gets the number `pid`, unless another comes between.
pid_taker <- "
while [ ! -s \"$1/wanted\" ]; do sleep 0.01; done
pid=$(cat \"$1/wanted\")
tries=0
while [ $tries -lt 200 ]; do
  tries=$((tries + 1))
  echo $((pid - 1)) > /proc/sys/kernel/ns_last_pid
  sleep 300 &
  if [ $! -eq $pid ]; then echo taken > \"$1/taken\"; wait; exit; fi
  kill $!
done
echo failed > \"$1/taken\"
"

test_that("a process that gets the number of a dead worker is neither killed nor waited for", {
  skip_unless_linux()
  if (!is_root()) skip("only root can choose the number of a process")
  skip_unless_command("unshare")
  in_namespace <- c("unshare", "-p", "-f", "--mount-proc", "--kill-child")
  probe <- suppressWarnings(system2(in_namespace[[1L]], c(
    in_namespace[-1L], "sh", "-c", shQuote("echo 500 > /proc/sys/kernel/ns_last_pid")
  ), stderr = FALSE))
  if (probe != 0L) skip("no pid namespace here, or no ns_last_pid")
  dir <- withr::local_tempdir()
  writeLines(pid_taker, file.path(dir, "take.sh"))
  got <- fault_run(function(dir) {
    script <- file.path(dir, "take.sh")
    system2("sh", c(script, dir), wait = FALSE)
    values <- suppressWarnings(tryCatch(par_lapply(1:6, function(i) {
      if (i == 1L) {
        cat(Sys.getpid(), file = file.path(dir, "dead.part"))
        file.rename(file.path(dir, "dead.part"), file.path(dir, "dead"))
        tools::pskill(Sys.getpid(), tools::SIGKILL)
      }
      if (i == 4L) {
        # Renamed when it is complete: element 1 may begin long after this one.
        while (!file.exists(file.path(dir, "dead"))) Sys.sleep(0.01)
        pid <- readLines(file.path(dir, "dead"), warn = FALSE)
        while (file.exists(file.path("/proc", pid))) Sys.sleep(0.01)
        file.rename(file.path(dir, "dead"), file.path(dir, "wanted"))
        while (!file.exists(file.path(dir, "taken"))) Sys.sleep(0.01)
      }
      if (i == 6L) tools::pskill(Sys.getpid(), tools::SIGKILL)
      i
    }, .control = par_control(workers = 2L, progress = FALSE, errors = "collect", batch = 1L,
      timeout = 60, dump = "no"))))
    try(par_lapply(1:4, function(i) if (i == 2L) stop("x") else Sys.sleep(10),
      .control = par_control(workers = 2L, progress = FALSE, dump = "no")), silent = TRUE)
    gc()
    pid <- readLines(file.path(dir, "wanted"), warn = FALSE)
    list(
      values = values, taken = readLines(file.path(dir, "taken")), pid = as.integer(pid),
      name = readLines(file.path("/proc", pid, "comm"))
    )
  }, list(dir = dir), wrap = in_namespace)$value
  expect_identical(got$taken, "taken")
  expect_identical(got$name, "sleep")
  expect_identical(got$values[[1L]]$pid, got$pid)
  expect_s3_class(got$values[[6L]], "regatta_error_death")
  expect_identical(got$values[2:5], as.list(2:5))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
