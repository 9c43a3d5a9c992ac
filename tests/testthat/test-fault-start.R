# Workers that never come: what is to be their start hangs, or they were stopped before they have said a word.
withr::with_preserve_seed(remote_warm())
detritus <- detritus_snapshot()

test_that("nodes that do not say who they are keep nobody waiting, and are nodes again when they go on", {
  cl <- local_cluster(3L)
  pids <- cluster_pids(cl)
  withr::defer(for (pid in pids) tools::pskill(pid, tools::SIGCONT))
  asked <- integer()
  ask <- regatta:::cluster_hello
  local_function("cluster_hello", function(pool, new) {
    asked <<- c(asked, vapply(pool$wires[new], `[[`, 1L, "number"))
    ask(pool, new)
  })
  local_constant("cluster_hello_seconds", c(first = 1, rest = 0.3))
  run <- function() par_lapply(1:6, function(i) Sys.getpid(), .on = cl, .control = on_cluster(batch = 1))
  for (pid in pids) tools::pskill(pid, tools::SIGSTOP)
  none <- expect_error(run(), class = "regatta_error_start")
  expect_match(conditionMessage(none), "node 1 (localhost): it has not said who it is within", fixed = TRUE)
  tools::pskill(pids[[1L]], tools::SIGCONT)
  tools::pskill(pids[[3L]], tools::SIGCONT)
  local_constant("cluster_hello_seconds", c(first = 3600, rest = 0.3 * slowness()))
  wait_until(
    {
      # of which the first is named, on a busy machine one of those that go on
      expect_warning(got <- run(), "node [123].*not said who it is", class = "regatta_warning_workers")
      setequal(unlist(got), pids[c(1L, 3L)])
    },
    60
  )
  tools::pskill(pids[[2L]], tools::SIGCONT)
  wait_until(setequal(unlist(suppressWarnings(run())), pids), 60)
  expect_identical(par_lapply(1:4, identity, .on = cl, .control = on_cluster()), as.list(1:4))
  expect_identical(cluster_pids(cl), pids)
  # No call asks what another has asked: it would wait as long as that again, and not take the answer to it.
  expect_identical(sort(asked), 1:3)
})

# A map on the first two nodes, of which the first dies. Each next step is taken when the one before it is seen: the
# other is at element 2 until node 3 has been asked who it is, and at element 3, in which it calls `then`, until node
# `newcomer` is at work, or till the end if that is NULL.
map_with_newcomer <- function(cl, pids, newcomer, then = function() NULL) {
  folder <- withr::local_tempdir()
  here <- function(name) file.path(folder, name)
  ask <- regatta:::cluster_hello
  local_function("cluster_hello", function(pool, new) {
    ask(pool, new)
    if (length(new) > 0L) file.create(here("asked"))
  })
  most <- 60 * slowness()
  await <- function(name) {
    until <- Sys.time() + most
    while (!file.exists(here(name))) if (Sys.time() > until) stop("nobody has come") else Sys.sleep(0.01)
  }
  element <- function(i) {
    if (i == 1L && file.create(here("begun")) && Sys.getpid() == pids[[1L]]) tools::pskill(Sys.getpid(), tools::SIGKILL)
    if (!is.null(newcomer) && Sys.getpid() == newcomer) file.create(here("came"))
    if (i == 2L) await("asked")
    if (i == 3L) {
      then()
      if (!is.null(newcomer)) await("came")
    }
    Sys.getpid()
  }
  # What the session has asked before the map began was not node 3, however long the first two need.
  local({
    local_constant("cluster_hello_seconds", c(first = 60, rest = 60) * slowness())
    par_lapply(1:2, identity, .on = cl, .control = on_cluster(workers = 2))
  })
  unlink(here("asked"))
  par_lapply(1:8, element, .on = cl, .control = on_cluster(workers = 2, batch = 1, retries = 1))
}

test_that("a node that takes the place of another keeps nobody waiting until it has said who it is", {
  cl <- local_cluster(3L)
  pids <- cluster_pids(cl)
  withr::defer(tools::pskill(pids[[3L]], tools::SIGCONT))
  local_constant("cluster_hello_seconds", c(first = 60, rest = 20 * slowness()))
  tools::pskill(pids[[3L]], tools::SIGSTOP)
  got <- map_with_newcomer(cl, pids, pids[[3L]], function() tools::pskill(pids[[3L]], tools::SIGCONT))
  expect_setequal(unlist(got), pids[2:3])
})

test_that("a node that does not say who it is makes room for the next, and the run goes on without if there is none", {
  cl <- local_cluster(4L)
  pids <- cluster_pids(cl)
  withr::defer(tools::pskill(pids[[3L]], tools::SIGCONT))
  tools::pskill(pids[[3L]], tools::SIGSTOP)
  local_constant("cluster_hello_seconds", c(first = 60, rest = 3 * slowness()))
  # The fourth is asked after the third has not answered.
  expect_setequal(unlist(map_with_newcomer(cl, pids, pids[[4L]])), pids[c(2L, 4L)])
  tools::pskill(pids[[3L]], tools::SIGCONT)
  rest <- cl[c(2L, 3L)]
  wait_until(length(unique(unlist(suppressWarnings(par_lapply(1:4, function(i) {
    Sys.sleep(0.1)
    Sys.getpid()
  }, .on = rest, .control = on_cluster(batch = 1)))))) == 2L, 60)

  others <- local_cluster(3L)
  pids <- cluster_pids(others)
  withr::defer(tools::pskill(pids[[3L]], tools::SIGCONT))
  tools::pskill(pids[[3L]], tools::SIGSTOP)
  local_constant("cluster_hello_seconds", c(first = 60, rest = 0.1))
  expect_identical(unlist(map_with_newcomer(others, pids, NULL)), rep(pids[[2L]], 8L))
})

# The next process that the server of a cluster starts, or each until `file` is gone, is stopped before it has said a
# word; their pids come to be in `file`.
stop_next <- function(cl, file, all = FALSE) {
  server <- server_pid(cl)
  children <- sprintf("/proc/%d/task/%d/children", server, server)
  known <- scan(children, quiet = TRUE)
  file.create(file)
  # One that is not the program yet has the words of the server, which waits for it.
  look <- sprintf(
    paste(
      "case \"%s $(tr '\\n' ' ' <%s)\" in *\" $p \"*) ;;",
      "*) cmp -s /proc/$p/cmdline /proc/%d/cmdline || [ ! -e %s ] || { kill -STOP $p; echo $p >>%s; %s; } ;; esac"
    ),
    paste0(" ", known, collapse = ""), shQuote(file), server, shQuote(file), shQuote(file), if (all) ":" else "exit"
  )
  system(sprintf(
    "(for i in $(seq 6000); do [ -e %s ] || exit; for p in $(cat %s); do %s; done; sleep 0.01; done) &",
    shQuote(file), children, look
  ))
}

test_that("a worker whose start hangs is ended, and another takes its place", {
  skip_unless_linux()
  cl <- cluster_local(1, start = "parallel", timeout = 60 * slowness())
  withr::defer(parallel::stopCluster(cl))
  expect_gte(regatta:::start_patience(60), 180)
  # what a loaded machine needs for a worker that does not hang
  local_constant("start_patience", function(timeout) 3 * slowness())
  pid <- cluster_pids(cl)
  map <- function() {
    par_lapply(1:3, function(i) if (Sys.getpid() == pid) tools::pskill(pid, tools::SIGKILL) else i,
      .on = cl, .control = on_cluster(retries = 2)
    )
  }
  hung <- withr::local_tempfile()
  stop_next(cl, hung)
  expect_identical(map(), as.list(1:3))
  hung_pid <- as.integer(readLines(hung))
  expect_length(hung_pid, 1L)
  wait_until(!is_running(hung_pid))
  # and if all starts hang
  local_constant("start_patience", function(timeout) 0.3)
  pid <- cluster_pids(cl)
  stop_next(cl, hung, all = TRUE)
  error <- expect_error(map(), "it did not answer within 0.3 s", class = "regatta_error_start")
  hung_pids <- as.integer(readLines(hung))
  unlink(hung)
  expect_gt(length(hung_pids), 2L)
  wait_until(!any(vapply(hung_pids, is_running, NA)))
})

test_that("a host whose command hangs is started again, then given up, and who waits for it is told", {
  skip_without_crypto()
  hangs <- withr::local_tempfile()
  script <- shell_script(before = sprintf("if [ -e %s ]; then exec sleep 600; fi", hangs))
  env <- local_remote_env()
  cluster <- cluster_ssh(
    "host", 1, remote_rscript(), env, script, tunnel = FALSE, address = "127.0.0.1", timeout = 60 * slowness()
  )
  withr::defer(stop_remote(cluster))
  pool <- pool_of(cluster)
  expect_gte(pool$patience, 180)
  pool$patience <- 0.5
  local_constant("remote_pauses", c(0, 0))
  local_constant("workers_told_after", 0.3)
  file.create(hangs)
  agent <- agent_pids(cluster)
  told <- character()
  error <- expect_error(
    withCallingHandlers(
      par_lapply(1:2, function(i) tools::pskill(agent, tools::SIGKILL), .on = cluster,
        .control = on_cluster(retries = 3)),
      regatta_message_waiting = function(m) {
        told <<- c(told, conditionMessage(m))
        invokeRestart("muffleMessage")
      }
    ),
    class = "regatta_error"
  )
  expect_match(conditionMessage(error), "host: its command has brought nobody within 0.5 s", fixed = TRUE)
  expect_match(told[[1L]], "^No worker has been there for .* (host was launched|host is gone).*Ctrl-C ends it")
  expect_length(pool$launches, 0L)
})

test_that("a worker that was stopped is waited for with a word, wherever it is", {
  skip_unless_linux()
  # longer than a host is silent: that it lives is no news of what it runs
  local_constant("workers_told_after", 1.2)
  places <- list(fork = 2, pool = local_pool(2L), cluster = local_cluster(2L))
  if (.Call(regatta:::ffi_crypto_available)) places$remote <- local_shell_cluster(2)
  for (kind in names(places)) {
    told <- list()
    got <- withCallingHandlers(
      par_lapply(1:4, function(i) {
        if (i == 2L) tools::pskill(Sys.getpid(), tools::SIGSTOP)
        i
      }, .on = places[[kind]], .control = on_cluster(batch = 1)),
      regatta_message_stopped = function(m) {
        told <<- c(told, list(m))
        tools::pskill(m$pid, tools::SIGCONT)
        invokeRestart("muffleMessage")
      }
    )
    expect_identical(got, as.list(1:4))
    expect_gte(length(told), 1L)
    expect_match(conditionMessage(told[[1L]]), "^Worker [12] \\(pid [0-9]+.* was stopped by a signal")
  }
})

test_that("Ctrl-C while a cluster is stopped ends the waiting, and leaves nothing behind", {
  skip_without_crypto()
  lingers <- withr::local_tempfile()
  script <- shell_script(before = c(sprintf("echo $$ >%s", shQuote(lingers)), "sh -c \"$last\"", "exec sleep 600"))
  env <- local_remote_env()
  cluster <- cluster_ssh(
    "host", 1, remote_rscript(), env, script, tunnel = FALSE, address = "127.0.0.1", timeout = 60 * slowness()
  )
  pids <- c(cluster_status(cluster)$pid, agent_pids(cluster), as.integer(readLines(lingers)))
  # when the agent has ended, which its command does not do
  local_function("launches_await", function(launches, seconds) {
    wait_until(!is_running(pids[[2L]]))
    tools::pskill(Sys.getpid(), tools::SIGINT)
    .Call(regatta:::ffi_sleep, 60)
  })
  ended <- tryCatch(allowInterrupts(parallel::stopCluster(cluster)), interrupt = function(e) "interrupted")
  expect_identical(ended, "interrupted")
  expect_length(pool_of(cluster)$launches, 0L)
  wait_until(!any(vapply(pids, is_running, NA)))
})

test_that("where interrupts are suspended no waiting is left by one", {
  # of a command of which nobody knows yet what has become
  launch <- list(
    folder = withr::local_tempdir(), pid_file = withr::local_tempfile(), begun = .Call(regatta:::ffi_clock) - 9.8
  )
  pq <- prio_queue_create(1L, 1L, seconds2block = 0.1)
  withr::defer(prio_queue_destroy(pq))
  for (wait in list(function() regatta:::launch_end(launch), function() prio_queue_insert(pq, 1))) {
    finished <- FALSE
    ended <- tryCatch(
      {
        suspendInterrupts({
          tools::pskill(Sys.getpid(), tools::SIGINT)
          wait()
          finished <- TRUE
        })
        allowInterrupts(Sys.sleep(5))
      },
      interrupt = function(e) "interrupted"
    )
    expect_true(finished)
    expect_identical(ended, "interrupted")
  }
})

test_that("a node on another host that cannot be reached any more is lost, not waited for", {
  host <- local_far_host()
  local_constant("wire_deadline", 3)
  folder <- local_node_folder()
  withr::local_envvar(R_LIBS = paste(.libPaths(), collapse = ":"), R_TESTS = "", TMPDIR = folder)
  cl <- withr::with_preserve_seed(parallel::makePSOCKcluster(
    c("localhost", "far"), master = host$address, rshcmd = far_script(host), rscript = remote_rscript()[[1L]]
  ))
  pids <- cluster_pids(cl)
  withr::defer({
    try(parallel::stopCluster(cl[1L]), silent = TRUE)
    close(cl[[2L]]$con)
    tools::pskill(pids[[2L]], tools::SIGKILL)
    wait_until(!any(vapply(pids, is_running, NA)))
  })
  expect_identical(par_lapply(1:4, identity, .on = cl, .control = on_cluster()), as.list(1:4))
  begun <- withr::local_tempfile()
  far <- pids[[2L]]
  cut <- FALSE
  got <- withCallingHandlers(
    par_lapply(1:6, function(i) {
      if (Sys.getpid() == far && !file.exists(begun)) {
        file.create(begun)
        message("begun")
        Sys.sleep(600)
      }
      i
    }, .on = cl, .control = on_cluster(batch = 1, retries = 1)),
    message = function(m) {
      if (!cut) cut_off(host, "drop")
      cut <<- TRUE
      invokeRestart("muffleMessage")
    }
  )
  expect_identical(got, as.list(1:6))
  expect_true(cut)
  expect_error(parallel::clusterCall(cl, function() 7), class = "regatta_error_node")
})

test_that("nothing is left behind", {
  end_servers()
  expect_no_detritus(detritus)
})
