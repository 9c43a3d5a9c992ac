detritus <- detritus_snapshot()

columns <- c("host", "pid", "state", "call", "element", "element_for", "busy_for", "cpu", "memory", "heard", "reason")
session_columns <- c("session", setdiff(columns, c("heard", "reason")))

# A session that runs `fun(gate)`, whose elements wait for that file.
local_watched <- function(fun, frame = parent.frame()) {
  gate <- withr::local_tempfile(.local_envir = frame)
  session <- local_session(fun, list(gate = gate), frame = frame)
  pid <- session$process$get_pid()
  list(gate = gate, session = session, pid = pid, status = function() cluster_status(pid))
}

maps_behind <- function(gate) {
  wait <- function(i) {
    while (!file.exists(gate)) Sys.sleep(0.01)
    i
  }
  par_lapply(1:4, wait, .control = par_control(workers = 3L, progress = FALSE))
  cat("done\n")
  readLines(file("stdin"), n = 1L)
}

# What `watch` has written, without the times of its tables.
frames <- function(lines) {
  starts <- grep("^[0-9:]{8}  ", lines)
  split(sub("^[0-9:]{8}  ", "", lines), cumsum(seq_along(lines) %in% starts))
}

test_that("another session of the user sees what the workers of a map are at, and ends when that is gone", {
  skip_unless_linux()
  map <- local_watched(maps_behind)
  wait_until(identical(sort(map$status()$element), c(1, 2, 3)))
  seen <- map$status()
  expect_named(seen, session_columns)
  expect_identical(seen$session, rep(map$pid, 3L))
  parents <- vapply(seen$pid, function(pid) strsplit(proc_line(pid), " ")[[1L]][[4L]], "")
  expect_identical(parents, rep(as.character(map$pid), 3L))
  expect_identical(c(seen$state, seen$call), rep(c("busy", "par_lapply"), each = 3L))
  expect_true(all(seen$memory > 1e6 & seen$cpu >= 0 & seen$element_for <= seen$busy_for))
  tools::pskill(seen$pid[[2L]], tools::SIGSTOP)
  wait_until(identical(map$status()$state, c("busy", "silent", "busy")))
  tools::pskill(seen$pid[[2L]], tools::SIGCONT)
  all <- cluster_status()
  expect_named(all, session_columns)
  expect_identical(all[all$session == map$pid, "element"], seen$element)

  file.create(map$gate)
  fault_wait_line(map$session, "^done")
  expect_identical(nrow(map$status()), 0L) # the map is over
  tools::pskill(map$pid, tools::SIGKILL)
  wait_until(!map$session$process$is_alive())
  error <- expect_error(map$status(), class = "regatta_error_look")
  expect_identical(error$pid, map$pid)
})

test_that("a call of this session on a cluster is seen in both ways", {
  skip_unless_linux()
  cl <- local_pool(2L)
  gate <- withr::local_tempfile()
  call <- par_call(while (!file.exists(gate)) Sys.sleep(0.01), .on = cl, .control = on_local())
  wait_until(identical(cluster_status(cl)$element, c(1, NA)))
  seen <- cluster_status(cl)
  expect_named(seen, columns)
  expect_identical(seen$call, c("par_call", NA))
  mine <- cluster_status(Sys.getpid())
  expect_identical(mine[c("session", "pid", "call", "element")], data.frame(
    session = Sys.getpid(), pid = seen$pid[[1L]], call = "par_call", element = 1
  ))
  # A copy of this process has the file of the call, too.
  copy <- parallel::mcparallel(while (!file.exists(gate)) Sys.sleep(0.01), mc.set.seed = FALSE)
  expect_identical(nrow(cluster_status(copy$pid)), 0L)
  file.create(gate)
  parallel::mccollect(copy)
  # Its element has ended, and nobody has asked for the value.
  wait_until(!regatta:::stand_status(cl)$active)
  watched <- capture.output(last <- cluster_status(cl, watch = TRUE, interval = 0.01, until_idle = TRUE))
  expect_identical(last$element, c(NA_real_, NA))
  par_value(call)
  expect_identical(nrow(cluster_status(Sys.getpid())), 0L)
})

test_that("only who may look into a process sees what it is at", {
  skip_unless_linux()
  if (!is_root()) skip("acting as another user needs root")
  skip_unless_command("setpriv")
  withr::local_preserve_seed()
  folder <- withr::local_tempdir(tmpdir = "/tmp")
  Sys.chmod(folder, "1777", use_umask = FALSE)
  become <- c("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
  skip_unless_reachable(become, folder)
  map <- local_watched(maps_behind)
  wait_until(nrow(map$status()) == 3L)
  code <- sprintf(
    "said <- tryCatch(regatta::cluster_status(%d), regatta_error_look = conditionMessage); cat(said, %s)",
    map$pid, "nrow(regatta::cluster_status())"
  )
  got <- processx::run(become[[1L]], c(become[-1L], file.path(R.home("bin"), "Rscript"), "--vanilla", "-e", code),
    env = c("current", R_LIBS = paste(.libPaths(), collapse = ":"), TMPDIR = folder))
  expect_match(got$stdout, "Permission denied\\..* 0$")
})

test_that("without a terminal a table is written when a worker is at something else, and no escape code", {
  skip_unless_linux()
  map <- local_watched(maps_behind)
  wait_until(identical(sort(map$status()$element), c(1, 2, 3)))
  once <- capture.output(last <- withVisible(cluster_status(map$pid, watch = TRUE, interval = 0.01, times = 5)))
  expect_false(last$visible)
  expect_identical(last$value$element, map$status()$element)
  expect_length(frames(once), 1L)
  expect_identical(frames(once)[[1L]][[1L]], "3 busy")
  expect_match(once[[2L]], sprintf("^par_lapply\\(\\) of process %d: 0 of 4 done in ", map$pid))
  expect_match(once[[3L]], "^ *pid +state +call +element +for +cpu +memory$")
  expect_match(once[[4L]], "^ *[0-9]+ +busy +par_lapply +[123] ")

  watcher <- local_session(function(pid) {
    regatta::cluster_status(pid, watch = TRUE, interval = 0.01)
  }, list(map$pid))
  fault_wait_line(watcher, "3 busy")
  file.create(map$gate)
  fault_wait_line(map$session, "^done")
  fault_wait_line(watcher, "no worker has a call")
  fault_tell(map$session, "end")
  wait_until(!watcher$process$is_alive())
  lines <- fault_text(watcher, "stdout")
  expect_true("The process has ended." %in% lines)
  expect_false(any(grepl("\033", lines, fixed = TRUE)))
  expect_identical(nrow(readRDS(file.path(watcher$dir, "value.rds"))), 0L)
})

test_that("a terminal shows one table, drawn in place, until Ctrl-C, which returns what was seen last", {
  skip_unless_linux()
  skip_if_not_installed("processx")
  skip_if_not(file.access("/dev/ptmx", 2L) == 0L, "a pseudo-terminal (/dev/ptmx) can be opened")
  map <- local_watched(maps_behind)
  wait_until(identical(sort(map$status()$element), c(1, 2, 3)))
  withr::local_preserve_seed()
  # A terminal of five lines has place for one of the workers.
  process <- processx::process$new(
    file.path(R.home("bin"), "Rscript"), c("--vanilla", "-e", sprintf(
      "last <- regatta::cluster_status(%d, watch = TRUE, interval = 0.05); cat(\"kept\", nrow(last), \"\\n\")", map$pid
    )),
    pty = TRUE, pty_options = list(rows = 5L, cols = 40L, echo = FALSE),
    env = c("current", R_LIBS = paste(.libPaths(), collapse = ":"), R_TESTS = "", TERM = "xterm", NO_COLOR = "1")
  )
  withr::defer(process$kill())
  text <- ""
  read <- function() {
    process$poll_io(100)
    part <- tryCatch(process$read_output(), error = function(e) NULL)
    text <<- paste0(text, part)
    text
  }
  drawings <- function() lengths(regmatches(text, gregexpr("\033[4A", text, fixed = TRUE)))
  wait_until({
    read()
    drawings() >= 3L
  })
  process$interrupt() # not typed: with that a terminal throws away what nobody has read yet
  wait_until({
    before <- nchar(text)
    read()
    !process$is_alive() && nchar(text) == before
  })
  expect_identical(process$get_exit_status(), 0L)
  lines <- strsplit(gsub("\r", "", text, fixed = TRUE), "\n", fixed = TRUE)[[1L]]
  expect_identical(sum(grepl("and 2 more", lines, fixed = TRUE)), drawings() + 1L)
  plain <- gsub("\033\\[[?0-9]*[A-Za-z]", "", lines)
  expect_true(all(nchar(plain) < 40L))
  expect_match(utils::tail(plain[nzchar(plain)], 1L), "kept 3", fixed = TRUE)
})

test_that("a table of many workers says how many are left out", {
  worker <- function(k) {
    data.frame(host = if (k == 1) "a" else "b", pid = k, state = "busy", call = "par_map", element = k * 1e6,
      element_for = NA_real_, busy_for = 1, cpu = 60, memory = 2e9, heard = 0.5, reason = NA_character_)
  }
  seen <- list(table = do.call(rbind, lapply(1:20, worker)), active = TRUE)
  text <- regatta:::status_text(seen, 6)
  expect_length(text, 6L)
  expect_match(text[[1L]], "  20 busy$")
  expect_identical(text[2:6], c(
    "host  pid  state  call        element   cpu  memory  heard",
    "a       1  busy   par_map   1,000,000  60 s    2 GB  0.5 s ago",
    "b       2  busy   par_map   2,000,000  60 s    2 GB  0.5 s ago",
    "b       3  busy   par_map   3,000,000  60 s    2 GB  0.5 s ago",
    "and 17 more"
  ))
  expect_length(regatta:::status_text(seen, Inf), 22L)
})

test_that("arguments are checked", {
  argument <- function(code) expect_error(code, class = "regatta_error_argument")$argument
  expect_identical(argument(cluster_status("1")), "cl")
  expect_identical(argument(cluster_status(0)), "cl")
  expect_identical(argument(cluster_status(structure(list(), class = c("regatta_cluster", "cluster")))), "cl")
  expect_identical(argument(cluster_status(watch = NA)), "watch")
  expect_identical(argument(cluster_status(interval = 0)), "interval")
  expect_identical(argument(cluster_status(interval = Inf)), "interval")
  expect_identical(argument(cluster_status(times = 0)), "times")
  expect_identical(argument(cluster_status(until_idle = 1)), "until_idle")
})

test_that("nothing is left behind", {
  end_servers()
  expect_no_detritus(detritus)
})
