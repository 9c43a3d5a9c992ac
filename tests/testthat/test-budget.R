withr::with_preserve_seed(remote_warm())
detritus <- detritus_snapshot()

# One budget of cores for runs of several sessions. Each test has a file of its own for it.

local_budget <- function(frame = parent.frame()) {
  folder <- withr::local_tempdir("budget-", .local_envir = frame)
  withr::local_envvar(REGATTA_BUDGET = folder, .local_envir = frame)
  folder
}

budgeted <- function(..., core_budget = 1) two_workers(core_budget = core_budget, ...)

# What processes have of it: "READ" at 0 waits, "WRITE" is a core.
budget_locks <- function(folder = Sys.getenv("REGATTA_BUDGET")) {
  file <- list.files(folder, full.names = TRUE)
  lines <- if (length(file) == 1L) readLines("/proc/locks")
  if (length(lines) == 0L) return(data.frame(kind = character(), pid = integer()))
  inode <- system2("stat", c("-c", "%i", file), stdout = TRUE)
  fields <- strsplit(trimws(lines), " +")
  fields <- fields[vapply(fields, function(f) f[[2L]] == "POSIX" && endsWith(f[[6L]], paste0(":", inode)), NA)]
  data.frame(kind = vapply(fields, `[[`, "", 4L), pid = as.integer(vapply(fields, `[[`, "", 5L)))
}

holders <- function(locks = budget_locks()) locks$pid[locks$kind == "WRITE"]
waiters <- function(locks = budget_locks()) locks$pid[locks$kind == "READ"]

skip_unless_locks_seen <- function() {
  skip_unless_linux()
  if (!file.exists("/proc/locks")) testthat::skip("no /proc/locks")
}

call_pid <- function(handle) handle$run$workers$rows[[1L]]$pid

# Begins a call that has a core until the file `end` is there; returns when it has it.
hold_core <- function(end, control = budgeted()) {
  handle <- par_call(while (!file.exists(end)) Sys.sleep(0.01), .control = control)
  wait_until(function() call_pid(handle) %in% holders(), what = "a core that is held")
  handle
}

# Elements tell in one file when they are at work and when not. How many at most were at a time:
most_at_once <- function(path) max(cumsum(ifelse(readLines(path) == "on", 1L, -1L)))
tell <- function(path, word) cat(paste0(word, "\n"), file = path, append = TRUE) # one write for a line

# How often a process has gone to sleep, and its processor time in seconds.
sleeps <- function(pid) {
  line <- grep("^voluntary_ctxt_switches", readLines(file.path("/proc", pid, "status")), value = TRUE)
  as.numeric(sub(".*:", "", line))
}
processor_time <- function(pid) {
  fields <- strsplit(sub("^.*\\) ", "", proc_line(pid)), " ", fixed = TRUE)[[1L]]
  sum(as.numeric(fields[12:13])) / 100
}

# What sessions of their own run; `at` is a folder that they have in common.
session_of_elements <- function(at, name, kind, n = 60) {
  library(regatta)
  on <- if (kind == "pool") cluster_local(2)
  file.create(file.path(at, paste0("ready-", name)))
  while (length(list.files(at, "^ready-")) < 2L) Sys.sleep(0.01)
  work <- function(i, path) {
    cat("on\n", file = path, append = TRUE)
    Sys.sleep(0.002)
    cat("off\n", file = path, append = TRUE)
    i
  }
  control <- par_control(workers = 2, progress = FALSE, dump = "no", core_budget = 1)
  value <- par_lapply(seq_len(n), work, path = file.path(at, "log"), .on = on, .control = control)
  if (!is.null(on)) parallel::stopCluster(on)
  value
}

test_that("workers of two sessions never run more elements at once than the budget has cores", {
  folder <- local_budget()
  at <- withr::local_tempdir()
  sessions <- list(
    local_session(session_of_elements, list(at, "a", "fork")),
    local_session(session_of_elements, list(at, "b", "pool"))
  )
  for (session in sessions) expect_identical(fault_value(session)$value, as.list(1:60))
  expect_length(readLines(file.path(at, "log")), 240L)
  expect_identical(most_at_once(file.path(at, "log")), 1L)
  file <- file.info(list.files(folder, full.names = TRUE))
  expect_identical(c(file$size, as.integer(file$mode)), c(0, strtoi("600", 8L)))
})

test_that("workers of other hosts are part of the budget there", {
  local_budget()
  path <- withr::local_tempfile()
  remote <- local_shell_cluster(2)
  work <- function(i, path) {
    cat("on\n", file = path, append = TRUE)
    Sys.sleep(0.002)
    cat("off\n", file = path, append = TRUE)
    i
  }
  stream <- par_stream(1:60, work, path = path, .control = budgeted())
  expect_identical(par_lapply(1:60, work, path = path, .on = remote, .control = budgeted()), as.list(1:60))
  while (par_more(stream)) par_next(stream)
  expect_length(readLines(path), 240L)
  expect_identical(most_at_once(path), 1L)
})

test_that("all cores of a budget are used", {
  local_budget()
  begun <- withr::local_tempdir()
  got <- par_lapply(1:4, function(i) {
    file.create(file.path(begun, Sys.getpid()))
    wait_until(length(list.files(begun)) == 2L)
    i
  }, .control = budgeted(core_budget = 2, batch = 1))
  expect_identical(got, as.list(1:4))
})

test_that("without a budget no file is made, looked for or opened", {
  folder <- local_budget()
  links <- function(i) Sys.readlink(list.files("/proc/self/fd", full.names = TRUE))
  opened <- c(
    par_lapply(1:4, links, .control = two_workers()),
    par_lapply(1:2, function(i) unlist(par_lapply(1:2, links)), .control = two_workers()),
    list(par_value(par_call(links(1), .control = two_workers(core_budget = FALSE))))
  )
  expect_identical(list.files(folder), character())
  expect_false(any(grepl(folder, unlist(opened), fixed = TRUE)))
  opened <- par_lapply(1:2, links, .control = budgeted())
  expect_length(list.files(folder), 1L)
  skip_unless_linux()
  expect_true(all(vapply(opened, function(x) any(grepl(folder, x, fixed = TRUE)), NA)))
  expect_false(any(grepl(folder, links(), fixed = TRUE)))
})

test_that("a core comes back from a worker that is killed", {
  skip_unless_locks_seen()
  local_budget()
  first <- hold_core("never")
  second <- par_call("there", .control = budgeted())
  wait_until(function() call_pid(second) %in% waiters())
  expect_identical(holders(), call_pid(first))
  tools::pskill(call_pid(first), tools::SIGKILL)
  expect_identical(par_value(second), "there")
  expect_error(par_value(first), class = "regatta_error_death")
  expect_identical(nrow(budget_locks()), 0L)
})

test_that("cores come back from a session that is killed, with those of its workers", {
  skip_unless_locks_seen()
  local_budget()
  session <- local_session(function() {
    control <- par_control(workers = 2, progress = FALSE, core_budget = 2)
    par_lapply(1:2, function(i) repeat Sys.sleep(0.01), .control = control)
  })
  wait_until(function() length(holders()) == 2L)
  handle <- par_call("there", .control = budgeted(core_budget = 2))
  wait_until(function() call_pid(handle) %in% waiters())
  tools::pskill(session$process$get_pid(), tools::SIGKILL)
  expect_identical(par_value(handle), "there")
})

test_that("maps inside of elements share the cores with their elements, and one core is enough", {
  local_budget()
  path <- withr::local_tempfile()
  got <- par_lapply(1:5, function(i) {
    tell(path, "on")
    Sys.sleep(0.002)
    tell(path, "off")
    inner <- par_lapply(1:3, function(j) {
      tell(path, "on")
      Sys.sleep(0.002)
      tell(path, "off")
      if (j < 3) return(i * 10 + j)
      tell(path, "on")
      tell(path, "off")
      sum(unlist(par_lapply(1:2, function(k) {
        tell(path, "on")
        tell(path, "off")
        k
      }, .control = two_workers())))
    }, .control = two_workers())
    tell(path, "on")
    Sys.sleep(0.002)
    tell(path, "off")
    unlist(inner)
  }, .control = budgeted())
  expect_identical(got, lapply(1:5, function(i) c(i * 10 + 1:2, 3)))
  expect_identical(most_at_once(path), 1L)
})

test_that("an element has a core but while it waits for a map of its own", {
  skip_unless_locks_seen()
  local_budget()
  got <- par_lapply(1:3, function(i) {
    me <- Sys.getpid()
    has <- function(pid) pid %in% holders()
    before <- has(me)
    within <- par_sapply(1:2, function(j) c(has(me), has(Sys.getpid())), .control = two_workers())
    failed <- tryCatch(
      par_lapply(1, function(j) stop("on purpose"), .control = two_workers()),
      error = function(e) has(me)
    )
    handle <- par_call(has(me), .control = two_workers())
    meanwhile <- has(me)
    asked <- par_value(handle)
    c(before, within, failed, meanwhile, asked, has(me))
  }, .control = budgeted())
  expect_identical(got, rep(list(c(TRUE, FALSE, TRUE, FALSE, TRUE, TRUE, TRUE, FALSE, TRUE)), 3))
})

test_that("calls and streams inside of elements end with one core, also when they are asked again and again", {
  local_budget()
  for (priority in c("normal", "low")) {
    got <- par_lapply(1:3, function(i) {
      handle <- par_call(i * 10, .control = two_workers())
      wait_until(par_done(handle))
      stream <- par_stream(1:3, function(j) i + j, .control = two_workers())
      taken <- numeric()
      while (par_more(stream)) taken <- c(taken, par_next(stream))
      later <- par_call(i, .control = two_workers())
      c(par_value(handle), taken, par_value(later))
    }, .control = budgeted(core_priority = priority))
    expect_identical(got, lapply(1:3, function(i) c(i * 10, i + 1:3, i)))
  }
})

test_that("an inner map that fails, while others of its elements have the cores, is over for the element", {
  local_budget()
  begun <- withr::local_tempfile()
  got <- par_lapply(1:2, function(i) {
    inner <- tryCatch(
      par_lapply(1:2, function(j) {
        if (j == 1) {
          wait_until(file.exists(begun))
          stop("on purpose")
        }
        file.create(begun)
        repeat Sys.sleep(0.01)
      }, .control = two_workers(batch = 1)),
      error = function(e) "failed"
    )
    unlink(begun)
    inner
  }, .control = budgeted(workers = 1, core_budget = 2))
  expect_identical(got, list("failed", "failed"))
})

test_that("a stream of an element that fails is over while others of its elements have the cores", {
  local_budget()
  begun <- withr::local_tempfile()
  got <- par_lapply(1, function(i) {
    stream <- par_stream(1:2, function(j) {
      if (j == 1) {
        wait_until(file.exists(begun))
        stop("on purpose")
      }
      file.create(begun)
      repeat Sys.sleep(0.01)
    }, .control = two_workers(batch = 1))
    tryCatch(par_next(stream), error = function(e) "failed")
  }, .control = budgeted(core_budget = 2))
  expect_identical(got, list("failed"))
})

test_that("an element that a limit ends, while it waits for a map of its own, leaves the core to the others", {
  local_budget()
  work <- function(i) {
    endless <- function(j) repeat Sys.sleep(0.01)
    if (i == 1) tryCatch(par_lapply(1:2, endless, .control = two_workers()), interrupt = function(e) "caught")
    i
  }
  got <- suppressWarnings(par_lapply(1:4, work, .control = budgeted(timeout = 1, errors = "collect")))
  expect_s3_class(got[[1L]], "regatta_error_timeout")
  expect_identical(got[2:4], as.list(2:4))
})

test_that("who waits for a core uses no processor time, and no limit counts it", {
  skip_unless_locks_seen()
  local_budget()
  end <- withr::local_tempfile()
  first <- hold_core(end)
  second <- par_call("there", .control = budgeted(timeout = 1))
  pid <- call_pid(second)
  wait_until(function() pid %in% waiters())
  before <- c(sleeps(pid), processor_time(pid))
  wait_until(function() sleeps(pid) >= before[[1L]] + 200)
  looks <- sleeps(pid) - before[[1L]]
  expect_lt(processor_time(pid) - before[[2L]], looks * 0.001 * slowness())
  file.create(end)
  expect_identical(par_value(second), "there")
  par_value(first)
})

test_that("Ctrl-C ends a map that waits for a core", {
  skip_unless_locks_seen()
  local_budget()
  end <- withr::local_tempfile()
  first <- hold_core(end)
  session <- local_session(function() {
    control <- par_control(workers = 2, progress = FALSE, core_budget = 1)
    cat("begins\n")
    tryCatch(par_lapply(1:4, identity, .control = control), interrupt = function(e) "interrupted")
  })
  wait_until(function() length(waiters()) == 2L)
  session$process$interrupt()
  expect_identical(fault_value(session)$value, "interrupted")
  wait_until(function() length(waiters()) == 0L)
  file.create(end)
  par_value(first)
})

test_that("a worker whose results nobody takes has no core while it waits for room", {
  local_budget()
  first <- par_call(rep(c(1.5, 2), 1e6), .control = budgeted(shm = FALSE))
  second <- par_call("there", .control = budgeted())
  expect_identical(par_value(second, 60 * slowness()), "there")
  expect_identical(par_value(first), rep(c(1.5, 2), 1e6))
})

test_that("what an inner map tells finds no room, and the map has the core all the same", {
  skip_unless_linux()
  local_budget()
  heard <- withr::local_tempfile()
  first <- par_call(
    par_sapply(1:2, function(i) {
      if (i == 1) {
        for (k in 1:40) message(strrep("x", 1e5))
        wait_until(file.exists(heard))
      }
      i
    }, .control = two_workers()),
    .control = budgeted(shm = FALSE)
  )
  # Nobody takes what it passes on: it sleeps until somebody does.
  asleep <- 0
  before <- -1
  wait_until(function() {
    now <- sleeps(call_pid(first))
    asleep <<- if (now == before) asleep + 1 else 0
    before <<- now
    asleep == 20
  })
  count <- 0
  value <- withCallingHandlers(par_value(first, 60 * slowness()), message = function(m) {
    count <<- count + 1
    if (count == 40) file.create(heard)
    invokeRestart("muffleMessage")
  })
  expect_identical(value, 1:2)
})

test_that("low priority has a core only while nobody else waits for one", {
  skip_unless_locks_seen()
  local_budget()
  end <- withr::local_tempfile()
  order <- withr::local_tempfile()
  first <- hold_core(end)
  low <- par_call(tell(order, "low"), .control = budgeted(core_priority = "low"))
  wait_until(function() any(grepl("budget-", Sys.readlink(list.files(
    file.path("/proc", call_pid(low), "fd"), full.names = TRUE
  )))))
  normal <- par_call(tell(order, "normal"), .control = budgeted())
  wait_until(function() call_pid(normal) %in% waiters())
  file.create(end)
  lapply(list(low, normal, first), par_value)
  expect_identical(readLines(order), c("normal", "low"))
})

test_that("who has a core gives it up between elements to those who wait", {
  local_budget()
  for (priority in c("normal", "low")) {
    end <- withr::local_tempfile()
    begun <- withr::local_tempfile()
    session <- local_session(function(priority, begun, end) {
      control <- par_control(workers = 2, progress = FALSE, core_budget = 1, core_priority = priority)
      par_lapply(1:2e4, function(i) {
        if (i == 1) file.create(begun)
        if (!file.exists(end)) Sys.sleep(0.02)
        i
      }, .control = control)
    }, list(priority, begun, end))
    wait_until(file.exists(begun))
    expect_identical(par_value(par_call("there", .control = budgeted()), 60 * slowness()), "there")
    expect_true(session$process$is_alive())
    file.create(end)
    expect_identical(fault_value(session)$value, as.list(1:2e4))
  }
})

test_that("a budget that is an option holds for all calls, and a call can go without", {
  folder <- local_budget()
  withr::local_preserve_seed()
  withr::local_options(regatta.core_budget = 1)
  expect_identical(par_control()$core_budget, 1L)
  expect_null(par_control(core_budget = FALSE)$core_budget)
  path <- withr::local_tempfile()
  work <- function(i) {
    tell(path, "on")
    Sys.sleep(0.002)
    tell(path, "off")
  }
  par_lapply(1:20, work, .on = 2)
  mclapply(1:20, work, mc.cores = 2)
  expect_identical(most_at_once(path), 1L)
  expect_length(list.files(folder), 1L)
  options(regatta.core_budget = "some")
  expect_error(par_lapply(1:2, identity), "`options(regatta.core_budget = )` must be", fixed = TRUE)
  expect_error(par_control(core_budget = "all"), "`core_budget` must be", fixed = TRUE)
  options(regatta.core_budget = NULL)
  expect_null(par_control()$core_budget)
})

test_that("elements that run in this process wait for no core", {
  skip_unless_locks_seen()
  withr::local_preserve_seed()
  local_budget()
  end <- withr::local_tempfile()
  first <- hold_core(end)
  expect_identical(mclapply(1:2, identity, mc.cores = 1), list(1L, 2L))
  file.create(end)
  par_value(first)
})

test_that("a file that cannot be used is an error that says so", {
  folder <- local_budget()
  name <- sprintf("regatta-cores-%s", system2("id", "-u", stdout = TRUE))
  file.create(file.path(folder, name))
  Sys.chmod(file.path(folder, name), "0644", use_umask = FALSE)
  e <- expect_error(par_lapply(1:2, identity, .control = budgeted()), class = "regatta_error_start")
  expect_match(conditionMessage(e), file.path(folder, name), fixed = TRUE)
  expect_match(conditionMessage(e), "call without `core_budget`", fixed = TRUE)
  expect_identical(par_lapply(1:2, identity, .control = two_workers()), list(1L, 2L))
})

test_that("a worker of a budget has one thread, whatever its share of the cores, unless it is told otherwise", {
  withr::local_preserve_seed()
  local_budget()
  withr::local_envvar(REGATTA_THREADS = NA, REGATTA_SHARE = NA)
  withr::local_options(regatta.core_budget = NULL)
  cluster <- cluster_local(1)
  withr::defer(parallel::stopCluster(cluster))
  threads <- function(i) as.integer(Sys.getenv("REGATTA_THREADS"))
  control <- function(...) par_control(workers = 1, progress = FALSE, dump = "no", ...)
  for (on in list(NULL, cluster)) {
    of <- function(...) unique(unlist(par_lapply(1:2, threads, .on = on, .control = control(...))))
    share <- of()
    expect_identical(of(core_budget = 2), 1L)
    expect_identical(of(core_budget = 2, threads = 3), 3L)
    expect_identical(of(), share)
  }
  skip_if(share == 1L, "one core")
  expect_identical(unlist(par_lapply(1, function(i) {
    unlist(regatta::par_lapply(1, function(j) as.integer(Sys.getenv("REGATTA_THREADS")), .on = 1))
  }, .control = control(core_budget = 2))), 1L)
})

test_that("threads of the session are as many as cores are free, and give them back", {
  skip_unless_locks_seen()
  withr::local_preserve_seed()
  local_budget()
  withr::local_options(regatta.core_budget = 3)
  with_cores <- regatta:::with_cores
  take <- function(most) with_cores(most, NULL, function(n) list(n, Sys.getpid() %in% holders()))
  expect_identical(take(2L), list(2L, TRUE))
  expect_identical(take(8L), list(3L, TRUE))
  expect_identical(with_cores(2L, NULL, function(n) take(8L)[[1L]]), 8L) # it has its cores
  expect_false(Sys.getpid() %in% holders())
  expect_error(with_cores(2L, NULL, function(n) stop("inside")), "inside")
  expect_false(Sys.getpid() %in% holders())
  end <- withr::local_tempfile()
  handle <- hold_core(end, budgeted(core_budget = 3))
  expect_identical(take(8L)[[1L]], 2L)
  file.create(end)
  par_value(handle)
  wait_until(function() length(holders()) == 0L, what = "the end of the worker")
  expect_identical(take(8L)[[1L]], 3L)
  withr::local_options(regatta.core_budget = NULL)
  expect_identical(take(8L), list(8L, FALSE))
  withr::local_options(regatta.core_budget = "two")
  expect_error(take(8L), "regatta.core_budget", class = "regatta_error_argument")
})

test_that("functions for HDF5 wait for a core of the session's budget", {
  skip_unless_locks_seen()
  skip_if_not(h5_available(), "built without libhdf5")
  withr::local_preserve_seed()
  local_budget()
  path <- withr::local_tempfile(fileext = ".h5")
  h5_write(matrix(1:40 + 0, 8), path, "x")
  withr::local_options(regatta.core_budget = 1)
  m <- h5_matrix(path, "x")
  for (code in expression(h5_col_sums(m), m[2:3, ])) {
    expected <- eval(code)
    end <- withr::local_tempfile()
    handle <- hold_core(end)
    waiting <- parallel::mcparallel(eval(code), silent = TRUE)
    wait_until(function() waiting$pid %in% waiters(), what = "a session that waits for a core")
    file.create(end)
    par_value(handle)
    expect_identical(parallel::mccollect(waiting)[[1L]], expected)
  }
})

test_that("a core of a call that nobody can ask for its value any more comes free for who waits", {
  skip_unless_locks_seen()
  withr::local_preserve_seed()
  withr::local_options(regatta.core_budget = 1)
  local_budget()
  uses <- list(
    function() par_lapply(1:2, identity, .control = two_workers()),
    function() regatta:::with_cores(2, NULL, function(threads) list(1L, 2L))
  )
  for (use in uses) {
    begun <- withr::local_tempfile()
    gc() # so that none comes by itself soon
    par_call({
      file.create(begun)
      Sys.sleep(600)
    })
    wait_until(file.exists(begun))
    expect_identical(within_seconds(60, use()), list(1L, 2L))
  }
})

test_that("a worker's core comes back from a call of its element that nobody can ask for its value any more", {
  local_budget()
  waits <- function(i) {
    begun <- withr::local_tempfile()
    regatta:::with_core_lent({
      gc() # so that none comes by itself soon
      par_call({
        file.create(begun)
        Sys.sleep(600)
      }, .control = two_workers())
      wait_until(file.exists(begun))
    })
    i
  }
  expect_identical(within_seconds(60, par_lapply(1:2, waits, .control = budgeted())), list(1L, 2L))
})

test_that("nothing is left behind", {
  end_servers()
  expect_no_detritus(detritus)
})
