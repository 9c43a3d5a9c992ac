withr::with_preserve_seed(remote_warm())
detritus <- detritus_snapshot()

test_that("one who knows the secret is let in, whoever else stands at the door", {
  pool <- local_gate()
  silent <- lapply(1:5, function(i) visit(pool))
  web <- visit(pool, charToRaw("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
  giant <- visit(pool, as.raw(c(0x58, 0x0a, 0, 0, 0, 3, rep(255, 100))))
  noise <- visit(pool, as.raw((1:2000 * 7919) %% 256))
  reflected <- visit(pool)
  gate_until(pool, function() socket_select(reflected, timeout = 0))
  challenge <- socket_read(reflected, 40)
  expect_identical(rawToChar(challenge[1:7]), "rgchal1")
  socket_write(reflected, challenge)
  gone <- visit(pool)
  close(gone)
  agent <- forked_agent(pool, seconds = 30)
  gate_until(pool, function() length(gate_links(pool)) == 1L)
  gate_until(pool, function() sum(grepl("something else", pool$refused)) == 4L)
  # the silent are still waited for, and have held nobody up
  expect_false(any(grepl("in time", pool$refused)))
  # what the session has said to strangers is the challenge, and that it does not go on
  expect_identical(length(socket_read(web, 1000)), 40L)
  regatta:::link_send(gate_links(pool)[[1L]], list(type = "DONE"))
  expect_identical(par_value(agent), 0L)
})

# Connections wait in a queue of the system before they are taken; of those that do not fit nobody is told.
test_that("a queue of connections that is too short keeps out nobody who knows the secret", {
  skip_without_crypto()
  skip_unless_command("python3")
  listen <- regatta::socket_server
  local_function("socket_server", function(..., backlog) listen(..., backlog = 1))
  pool <- local_gate(3)
  dialled <- withr::local_tempfile()
  crowd <- withr::local_tempfile(lines = c(
    "import socket, sys, time", "ends = []", "for i in range(200):", "    end = socket.socket()",
    "    end.setblocking(False)", "    end.connect_ex((\"127.0.0.1\", int(sys.argv[1])))", "    ends.append(end)",
    "open(sys.argv[2], \"w\").close()", "time.sleep(600)"
  ))
  dialers <- withr::with_preserve_seed(
    processx::process$new("python3", c(crowd, pool$port, dialled), cleanup = TRUE)
  )
  withr::defer({
    dialers$kill()
    dialers$wait(5000)
  })
  wait_until(file.exists(dialled))
  # The queue is full, and nobody is let in yet.
  agents <- lapply(0:2, function(number) forked_agent(pool, number, seconds = 60 * slowness()))
  gate_until(pool, function() length(gate_links(pool)) == 3L)
  for (link in gate_links(pool)) regatta:::link_send(link, list(type = "DONE"))
  expect_identical(lapply(agents, par_value), rep(list(0L), 3L))
})

test_that("wrong, used and replayed proofs are turned away", {
  pool <- local_gate(2)
  wrong <- forked_agent(pool, 0, key = raw(32))
  gate_until(pool, function() sum(grepl("does not know", pool$refused)) == 1L)
  expect_match(par_value(wrong), "peer")
  agent <- forked_agent(pool, 1, seconds = 30)
  gate_until(pool, function() length(gate_links(pool)) == 1L)
  again <- forked_agent(pool, 1) # let in already
  gate_until(pool, function() sum(grepl("does not know", pool$refused)) == 2L)
  expect_match(par_value(again), "peer")
  other <- forked_agent(pool, 2)
  gate_until(pool, function() sum(grepl("none of those", pool$refused)) == 1L)
  expect_match(par_value(other), "peer")
  expect_length(gate_links(pool), 1L)
  # a proof that was overheard: its nonce is another one's
  overhear <- visit(pool)
  socket_write(overhear, c(charToRaw("rgnode1"), as.raw(0), as.raw((1:72 * 31) %% 256)))
  gate_until(pool, function() sum(grepl("does not know", pool$refused)) == 3L)
  regatta:::link_send(gate_links(pool)[[1L]], list(type = "DONE"))
  expect_identical(par_value(agent), 0L)
})

test_that("a node obeys nobody who does not know the secret", {
  skip_without_crypto()
  server <- socket_server(timeout = 20 * slowness())
  withr::defer(close(server))
  key <- link_secret()
  dial <- function() par_call(tryCatch(
    agent_connect("127.0.0.1", socket_port(server), key, 0, 0, link_settings(20, TRUE)),
    error = conditionMessage
  ), .control = two_workers())
  # it proves itself to a challenge, and is thrown its own proof back
  node <- dial()
  peer <- socket_accept(server)
  socket_write(peer, c(charToRaw("rgchal1"), raw(33)))
  answer <- socket_read(peer, 80)
  expect_identical(rawToChar(answer[1:7]), "rgnode1")
  expect_false(any(vapply(1:49, function(i) identical(answer[i + 0:31], key), NA)))
  socket_write(peer, c(charToRaw("rgsess1"), raw(1), answer[49:80]))
  expect_match(par_value(node), "does not know the secret")
  close(peer)
  # it is sent an object at once
  node <- dial()
  peer <- socket_accept(server)
  socket_write(peer, serialize(quote(stop("obeyed")), NULL))
  expect_match(par_value(node), "something else")
  close(peer)
})

test_that("a message that is no plain list is refused before anything in it is looked at", {
  ran <- FALSE
  trap <- new.env()
  delayedAssign("type", ran <<- TRUE, assign.env = trap)
  refuse <- function(x) expect_socket_error(link_open(serialize(x, NULL)), "bad")
  refuse(trap)
  refuse(structure(list(type = "VALUE"), class = "trap"))
  refuse(list(1, 2))
  refuse(list(type = quote(stop("run"))))
  refuse(quote(f(x)))
  refuse("VALUE")
  expect_false(ran)
  expect_identical(link_open(serialize(list(type = "VALUE", value = 1), NULL))$value, 1)
})

# Seconds of a test are long enough for a machine that does other things as well.
on_remote <- function(...) par_control(progress = FALSE, dump = "no", seed = 1L, ...)

# Two workers on a host and one on another, for all tests up to the one that loses them. At the door of others is one who
# says nothing.
started <- NULL
if (.Call(regatta:::ffi_crypto_available) && dir.exists("/proc")) {
  started <- shell_cluster_start(c(2, 1), deadline = 4)
  started$gate <- gate_start()
  started$silent <- socket_connect(started$gate$port, timeout = 20 * slowness())
  regatta:::remote_admit(started$gate)
}
shared_cluster <- function() {
  skip_without_crypto()
  skip_unless_linux()
  wait_until(identical(status_of(started$cluster), rep("idle", 3L)), 60)
  started$cluster
}

test_that("a value that comes while others are looked at is taken", {
  cluster <- shared_cluster()
  pool <- unclass(cluster)[[1L]]$pool
  parallel:::sendCall(cluster[[2L]], function() 7, list())
  pool$turn <- 1L
  # The second is looked at first, then those that have nothing to answer.
  step <- regatta:::remote_step
  local_function("remote_step", function(pool) {
    wait_until(function() {
      if (is.null(pool$seats[[2L]]$value)) step(pool)
      !is.null(pool$seats[[2L]]$value)
    })
  })
  expect_identical(parallel:::recvOneResult(cluster)$value, 7)
})

test_that("an interrupt waits until what has come is noted, for all who use the cluster", {
  cluster <- shared_cluster()
  take <- regatta:::remote_take
  begun <- noted <- 0
  local_function("remote_take", function(pool, host, message) {
    begun <<- begun + 1
    if (begun == 1) {
      tools::pskill(Sys.getpid(), tools::SIGINT)
      until <- Sys.time() + 0.2
      while (Sys.time() < until) NULL
    }
    take(pool, host, message)
    noted <<- noted + 1
  })
  ended <- tryCatch(
    {
      parallel::clusterCall(cluster, identity, 1)
      "not interrupted"
    },
    interrupt = function(e) "interrupted"
  )
  expect_identical(ended, "interrupted")
  expect_gt(begun, 0)
  expect_identical(noted, begun)
  expect_identical(suppressWarnings(parallel::clusterCall(cluster, identity, 2)), rep(list(2), length(cluster)))
})

test_that("workers do what package parallel and the verbs ask for", {
  cluster <- shared_cluster()
  expect_s3_class(cluster, "cluster")
  expect_output(print(cluster), "cluster of 3 nodes")
  expect_output(print(cluster[[2L]]), "node 2: process [0-9]+")
  expect_identical(parallel::parLapply(cluster, 1:7, function(i) i^2), lapply(1:7, function(i) i^2))
  pids <- unlist(parallel::clusterApplyLB(cluster, 1:20, function(i) Sys.getpid()))
  expect_true(all(pids %in% cluster_status(cluster)$pid))
  parallel::clusterExport(cluster, "pids", environment())
  expect_identical(parallel::clusterEvalQ(cluster, length(pids)), rep(list(20L), 3L))
  expect_error(parallel::parLapply(cluster, 1:2, function(i) stop("no")), "no")
  control <- two_workers()
  here <- par_lapply(1:20, function(i) runif(1), .control = control)
  expect_identical(par_lapply(1:20, function(i) runif(1), .on = cluster, .control = on_remote()), here)
  expect_identical(status_of(cluster), rep("idle", 3L))
  # a part of it
  some <- par_lapply(1:20, function(i) Sys.getpid(), .on = cluster[2:3], .control = on_remote())
  expect_true(all(unlist(some) %in% cluster_status(cluster)$pid[2:3]))
  # a large object both ways
  bytes <- as.raw(rep_len(0:255, 3e6))
  expect_identical(parallel::clusterCall(cluster[1L], identity, bytes)[[1L]], bytes)
  expect_identical(par_lapply(1:3, function(i) bytes, .on = cluster, .control = on_remote())[[3L]], bytes)
})

test_that("output and conditions arrive while the element runs, in their order", {
  cluster <- shared_cluster()
  flag <- withr::local_tempfile()
  said <- character()
  got <- withCallingHandlers(
    par_lapply(1:2, function(i) {
      if (i == 1L) {
        message("first")
        while (!file.exists(flag)) Sys.sleep(0.01)
        warning("second")
      }
      cat("third\n")
      structure(list(), class = "mine")
    }, .on = cluster, .control = on_remote(stdout = "capture")),
    message = function(m) {
      said <<- c(said, conditionMessage(m))
      file.create(flag) # the element waits for it
      invokeRestart("muffleMessage")
    },
    warning = function(w) {
      said <<- c(said, conditionMessage(w))
      invokeRestart("muffleWarning")
    }
  )
  expect_match(said[[1L]], "first")
  expect_match(said[[2L]], "second")
  expect_s3_class(got[[2L]], "mine")
})

test_that("an element is ended by its limit, its worker goes on, and one that does not listen is killed", {
  cluster <- shared_cluster()
  marker <- withr::local_tempfile()
  pids <- cluster_status(cluster)$pid
  error <- local({
    patient_limits()
    expect_error(
      par_lapply(1:3, function(i) {
        if (i == 2L) {
          on.exit(file.create(marker))
          Sys.sleep(600)
        }
      }, .on = cluster, .control = on_remote(timeout = 1)),
      class = "regatta_error_timeout"
    )
  })
  expect_identical(error$index, 2L)
  expect_true(file.exists(marker))
  expect_setequal(cluster_status(cluster)$pid, pids)
  got <- suppressWarnings(par_lapply(1:3, function(i) {
    if (i == 2L) suspendInterrupts(repeat sum(1:1000))
    i
  }, .on = cluster, .control = on_remote(cpu_timeout = 0.3, errors = "collect")))
  expect_s3_class(got[[2L]], "regatta_error_timeout")
  expect_identical(got[-2L], list(1L, 3L))
  expect_identical(sum(!cluster_status(cluster)$pid %in% pids), 1L)
  # one that was stopped
  got <- suppressWarnings(par_lapply(1:3, function(i) {
    if (i == 2L) tools::pskill(Sys.getpid(), tools::SIGSTOP)
    i
  }, .on = cluster, .control = on_remote(timeout = 1, errors = "collect")))
  expect_s3_class(got[[2L]], "regatta_error_timeout")
  expect_identical(got[-2L], list(1L, 3L))
  got <- suppressWarnings(par_lapply(1:2, function(i) {
    x <- list()
    while (i == 2L) if (length(x) < 50L) x[[length(x) + 1L]] <- numeric(1e6) + 1 else Sys.sleep(0.01)
    i
  }, .on = cluster, .control = on_remote(memory = "200MB", errors = "collect")))
  expect_s3_class(got[[2L]], "regatta_error_timeout")
  expect_identical(got[[2L]]$kind, "memory")
})

test_that("a death costs one element, says how it was, and the worker is replaced", {
  cluster <- shared_cluster()
  die <- function(i) {
    if (i == 2L) tools::pskill(Sys.getpid(), tools::SIGKILL)
    if (i == 3L) quit("no", 7)
    i
  }
  got <- suppressWarnings(par_lapply(1:6, die, .on = cluster, .control = on_remote(errors = "collect")))
  expect_identical(got[-(2:3)], as.list(c(1L, 4:6)))
  expect_identical(got[[2L]]$signal, 9L)
  expect_identical(got[[3L]]$status, 7L)
  expect_gt(got[[2L]]$peak_memory, 1e6)
  record <- par_last()
  expect_identical(as.character(record$elements$status[2:3]), c("death", "death"))
  expect_setequal(record$workers$exit, c("stopped", "signal 9 (SIGKILL)", "status 7"))
  wait_until(identical(status_of(cluster), rep("idle", 3L)), 60)
  # again, and it does not die the second time
  flag <- withr::local_tempdir()
  once <- function(i) {
    mark <- file.path(flag, i)
    if (!file.exists(mark)) {
      file.create(mark)
      if (i == 2L) tools::pskill(Sys.getpid(), tools::SIGSEGV)
    }
    runif(1)
  }
  got <- par_lapply(1:4, once, .on = cluster, .control = on_remote(retries = 1))
  expect_identical(par_last()$tries$index, 2L)
  control <- two_workers()
  expect_identical(got, par_lapply(1:4, function(i) runif(1), .control = control))
})

test_that("functions of parallel say once that workers are gone that they had given something", {
  cluster <- shared_cluster()
  told_replaced <- function() {
    told <- character()
    withCallingHandlers(parallel::clusterEvalQ(cluster, rg_left <- 1), regatta_warning_replaced = function(w) {
      told <<- c(told, conditionMessage(w))
      invokeRestart("muffleWarning")
    })
    told
  }
  die <- function(i) tools::pskill(Sys.getpid(), tools::SIGKILL)
  told_replaced() # what the tests before have left
  for (k in 1:2) {
    expect_identical(told_replaced(), character())
    before <- cluster_status(cluster)$pid
    expect_error(par_lapply(1L, die, .on = cluster, .control = on_remote()), class = "regatta_error_death")
    wait_until(identical(status_of(cluster), rep("idle", 3L)), 60)
    gone <- which(cluster_status(cluster)$pid != before)
    expect_length(gone, 1L)
    told <- told_replaced()
    expect_match(told, "does not have what functions of parallel had left")
    expect_identical(substr(told, 1, 8), sprintf("worker %d", gone))
  }
  # At a call, which is told of by itself; of what was left in the one that came then it is told again.
  parallel:::sendCall(cluster[[1L]], function() Sys.sleep(600), list())
  told <- told_replaced()
  expect_match(told, "was still at a call that has been interrupted")
  expect_identical(told_replaced(), character())
  expect_error(parallel::clusterCall(cluster[1L], function() quit("no")))
  wait_until(identical(status_of(cluster), rep("idle", 3L)), 60)
  expect_length(told_replaced(), 1L)
  expect_identical(told_replaced(), character())
})

test_that("runs, calls and streams on one cluster take turns", {
  cluster <- shared_cluster()
  flag <- withr::local_tempfile()
  call <- par_call({
    while (!file.exists(flag)) Sys.sleep(0.01)
    "called"
  }, .on = cluster, .control = on_remote())
  stream <- par_stream(1:6, function(i) i * 10, .on = cluster, .control = on_remote())
  expect_identical(par_next(stream), 10)
  expect_identical(par_lapply(1:5, function(i) i, .on = cluster, .control = on_remote()), as.list(1:5))
  file.create(flag)
  expect_identical(par_value(call), "called")
  expect_identical(par_next(stream), 20)
  expect_identical(parallel::clusterCall(cluster, function() 1), list(1, 1, 1))
  expect_identical(par_next(stream), 30)
  rm(stream)
  gc()
  expect_identical(par_lapply(1:2, identity, .on = cluster, .control = on_remote()), list(1L, 2L))
})

test_that("what waits for a worker sees variables and options as they were when it was called", {
  cluster <- shared_cluster()
  one <- cluster[1L]
  flag <- withr::local_tempfile()
  busy <- par_call({
    while (!file.exists(flag)) Sys.sleep(0.01)
    "busy"
  }, .on = one, .control = on_remote())
  k <- 1
  f <- function() k
  assign("rg_k", 1, globalenv())
  withr::defer(rm("rg_k", envir = globalenv()))
  withr::local_options(regatta.test_seen = 1)
  seen <- function(i) c(k, f(), rg_k, getOption("regatta.test_seen"))
  call <- par_call(c(k, f(), rg_k, getOption("regatta.test_seen")), .on = one, .control = on_remote())
  stream <- par_stream(1:2, seen, .on = one, .control = on_remote())
  k <- 2
  f <- function() 2
  assign("rg_k", 2, globalenv())
  options(regatta.test_seen = 2)
  file.create(flag)
  expect_identical(par_value(busy), "busy")
  expect_identical(par_value(call), c(1, 1, 1, 1))
  expect_identical(list(par_next(stream), par_next(stream)), list(c(1, 1, 1, 1), c(1, 1, 1, 1)))
  expect_identical(par_sapply(1, seen, .on = one, .control = on_remote()), matrix(2, 4L))
})

test_that("workers that have a call which nobody can ask for its value any more come free for others", {
  cluster <- shared_cluster()
  uses <- list(
    function() par_lapply(1:3, identity, .on = cluster, .control = on_remote()),
    function() parallel::clusterApply(cluster, 1:3, identity)
  )
  for (use in uses) {
    for (worker in 1:3) par_call(Sys.sleep(600), .on = cluster, .control = on_remote())
    expect_identical(within_seconds(60, use()), list(1L, 2L, 3L))
  }
})

test_that("one who says nothing is turned away in time", {
  skip_without_crypto()
  skip_unless_linux()
  gate_until(started$gate, function() any(grepl("in time", started$gate$refused)))
  expect_length(socket_read(started$silent, 100), 40L)
})

test_that("a host that is lost costs what its workers had, the others go on, and it is started again", {
  cluster <- shared_cluster()
  agents <- agent_pids(cluster)
  flag <- withr::local_tempfile()
  lost <- cluster_status(cluster)$pid[1:2]
  run <- function(...) suppressWarnings(par_lapply(1:12, function(i) {
    if (Sys.getpid() %in% lost) tools::pskill(agents[[1L]], tools::SIGKILL)
    if (Sys.getpid() %in% lost) Sys.sleep(600)
    Sys.sleep(0.05)
    i
  }, .on = cluster, .control = on_remote(batch = 1L, ...)))
  got <- run(errors = "collect")
  failed <- par_failed(got)
  expect_true(sum(failed) %in% 1:2)
  expect_s3_class(got[[which(failed)[[1L]]]], "regatta_error_death")
  expect_match(conditionMessage(got[[which(failed)[[1L]]]]), "was lost .*host1: ")
  expect_identical(got[!failed], as.list(1:12)[!failed])
  wait_until(identical(status_of(cluster), rep("idle", 3L)), 60)
  expect_false(any(lost %in% cluster_status(cluster)$pid))
  expect_identical(run(), as.list(1:12))
  wait_until(!any(vapply(lost, is_running, NA)))
})

# As on a machine that its host does not run for a while: session and agents stop together, and the session is the
# first to go on.
test_that("a pause of the whole machine is nobody's silence", {
  cluster <- shared_cluster()
  pool <- pool_of(cluster)
  flag <- withr::local_tempfile()
  # What is sent then fills the buffers of the system, and is taken when they go on.
  bytes <- withr::with_seed(1, as.raw(sample.int(256L, 2e7, TRUE) - 1L)) # no fewer when they are compressed
  for (agent in agent_pids(cluster)) tools::pskill(agent, tools::SIGSTOP)
  parallel:::sendCall(cluster[[1L]], length, list(bytes))
  agents <- paste(agent_pids(cluster), collapse = " ")
  script <- sprintf(
    "kill -STOP %d; sleep %g; touch %s; kill -CONT %d; sleep 0.5; kill -CONT %s",
    Sys.getpid(), 1.5 * pool$deadline, shQuote(flag), Sys.getpid(), agents
  )
  before <- proc.time()[[3L]] # the script may be the first to go on
  system2("sh", c("-c", shQuote(script)), wait = FALSE)
  while (!file.exists(flag) && proc.time()[[3L]] - before < 60) Sys.sleep(0.01)
  for (host in pool$hosts) regatta:::remote_mind(pool, host)
  expect_gt(proc.time()[[3L]] - before, pool$deadline)
  expect_identical(vapply(pool$hosts, function(host) host$state, ""), c("ready", "ready"))
  expect_identical(parallel:::recvResult(cluster[[1L]]), 20000000L)
  wait_until(identical(status_of(cluster), rep("idle", 3L)), 60)
  expect_identical(par_lapply(1:4, sqrt, .on = cluster, .control = on_remote()), lapply(1:4, sqrt))
})

test_that("a worker that was stopped is silent, one that computes is busy, one of a lost host is gone", {
  cluster <- shared_cluster()
  pool <- pool_of(cluster)
  pids <- cluster_status(cluster)$pid
  parallel::clusterCall(cluster, Sys.getpid)
  parallel:::postNode(cluster[[1L]], "EXEC", list(
    fun = function() suspendInterrupts(repeat sum(1:100)), args = list(), return = TRUE, tag = NULL
  ))
  tools::pskill(pids[[2L]], tools::SIGSTOP)
  withr::defer(tools::pskill(pids[[2L]], tools::SIGCONT))
  pool$keeps <- FALSE # it is not started again
  tools::pskill(agent_pids(cluster)[[2L]], tools::SIGKILL)
  wait_until(identical(status_of(cluster), c("busy", "silent", "gone")), 20)
  status <- cluster_status(cluster)
  expect_gt(status$busy_for[[1L]], 0)
  expect_identical(status$call, c("parallel", NA, NA))
  expect_gt(status$memory[[1L]], 1e6)
  expect_match(status$reason[[3L]], "host2: ")
  expect_error(parallel::clusterCall(cluster[3L], Sys.getpid), class = "regatta_error_socket")
  expect_error(parallel:::recvOneData(cluster[3L]), "node 3 .* is lost")
  tools::pskill(pids[[2L]], tools::SIGCONT)
  wait_until(status_of(cluster)[[2L]] == "idle")
  expect_identical(parallel::clusterCall(cluster[2L], Sys.getpid)[[1L]], pids[[2L]])
  # the worker of an agent that was killed does not outlive it
  wait_until(!is_running(pids[[3L]]))
  tools::pskill(pids[[1L]], tools::SIGKILL)
  expect_error(parallel:::recvResult(cluster[[1L]]), "node 1 .* is lost")
})

if (!is.null(started)) {
  close(started$silent)
  gate_stop(started$gate)
  started$stop()
}

test_that("a worker that has ended and has no successor yet is gone", {
  cluster <- local_shell_cluster(2)
  host <- pool_of(cluster)$hosts[[1L]]
  host$pids[[1L]] <- 0L
  status <- cluster_status(cluster)
  expect_identical(is.na(status$pid), c(TRUE, FALSE))
  expect_identical(status$state, c("gone", "idle"))
  expect_match(status$reason[[1L]], "another takes its place")
})

test_that("agents whose session was killed end, and leave nothing, also while their workers compute", {
  skip_unless_linux()
  skip_without_crypto()
  env <- local_remote_env()
  folder <- env[["TMPDIR"]]
  session <- local_session(function(ssh, rscript, env) {
    cluster <- cluster_ssh("host", 2, rscript, env, ssh, FALSE, "127.0.0.1", timeout = 60, deadline = 4)
    parallel:::postNode(cluster[[1L]], "EXEC", list(
      fun = function() {
        system("sleep 300 &")
        suspendInterrupts(repeat sum(1:100))
      }, args = list(), return = TRUE, tag = NULL
    ))
    pool <- unclass(cluster)[[1L]]$pool
    while (any(is.na(cluster_status(cluster)$cpu)) || cluster_status(cluster)$cpu[[1L]] < 0.1) Sys.sleep(0.05)
    cat("pids", cluster_status(cluster)$pid, pool$hosts[[1L]]$facts$pid, "\n")
    Sys.sleep(300)
  }, list(ssh = shell_script(), rscript = remote_rscript(), env = env))
  fault_wait_line(session, "^pids [0-9]+ [0-9]+ [0-9]+ $")
  pids <- as.integer(strsplit(grep("^pids", fault_text(session, "stdout"), value = TRUE), " ")[[1L]][2:4])
  expect_true(all(vapply(pids, is_running, NA)))
  tools::pskill(session$process$get_pid(), tools::SIGKILL)
  wait_until(!any(vapply(pids, is_running, NA)), 15)
  wait_until(length(list.files(folder, "^Rtmp")) == 0L)
  wait_until(!any_sleepers(session))
})

test_that("a host that is cut off is noticed at both ends", {
  host <- local_far_host()
  cluster <- local_shell_cluster(2, wrap = host$wrap, address = host$address, deadline = 3)
  pool <- pool_of(cluster)
  pool$keeps <- FALSE
  pids <- c(cluster_status(cluster)$pid, agent_pids(cluster))
  parallel:::postNode(cluster[[1L]], "EXEC", list(
    fun = function() Sys.sleep(300), args = list(), return = TRUE, tag = NULL
  ))
  wait_until(status_of(cluster)[[1L]] == "busy")
  cut_off(host, "down")
  wait_until(identical(status_of(cluster), c("gone", "gone")), 20)
  wait_until(!any(vapply(pids, is_running, NA)), 20)
  expect_error(parallel:::recvResult(cluster[[1L]]), class = "regatta_error_socket")
  expect_error(parallel::clusterCall(cluster, Sys.getpid), class = "regatta_error_socket")
})

test_that("a worker that is lost at a call is named, and a cluster that was stopped is told as that", {
  cluster <- local_shell_cluster(1)
  pid <- cluster_status(cluster)$pid
  expect_identical(format(cluster), sprintf("<cluster of 1 node: 1 on %s>", Sys.info()[["nodename"]]))
  lost <- expect_error(parallel::clusterCall(cluster, function() quit("no")), class = "regatta_error_socket")
  expect_identical(lost$pid, pid)
  expect_identical(lost$node, 1L)
  call <- par_call(Sys.sleep(600), .on = cluster, .control = on_remote())
  while (!any(!is.na(cluster_status(cluster)$element))) par_done(call)
  parallel::stopCluster(cluster)
  expect_error(par_value(call), class = "regatta_error_stopped")
  expect_error(cluster_status(cluster), class = "regatta_error_stopped")
  expect_match(format(cluster), ", stopped>$")
  expect_identical(format(cluster[0L]), "<cluster of 0 nodes>")
})

test_that("what fails to start says why", {
  skip_without_crypto()
  bad <- function(...) cluster_ssh("host", tunnel = FALSE, address = "127.0.0.1", timeout = 20, ...)
  script <- withr::local_tempfile(lines = c("#!/bin/sh", "echo no way to host >&2", "exit 255"))
  Sys.chmod(script, "755")
  error <- expect_error(bad(ssh = script), class = "regatta_error_start")
  expect_match(conditionMessage(error), "host: no way to host")
  error <- expect_error(bad(ssh = shell_script(), rscript = "/no/Rscript"), class = "regatta_error_start")
  expect_match(conditionMessage(error), "not found")
  withr::local_envvar(R_LIBS = "", R_LIBS_USER = "", R_LIBS_SITE = "")
  if (!nzchar(system.file(package = "regatta", lib.loc = .Library))) {
    error <- expect_error(bad(ssh = shell_script()), class = "regatta_error_start")
    expect_match(conditionMessage(error), "there is no package called .regatta")
  }
  argument <- function(code) expect_error(code, class = "regatta_error_argument")$argument
  expect_identical(argument(cluster_ssh("-oProxyCommand=x")), "hosts")
  expect_identical(argument(cluster_ssh("a", workers = 1:2)), "workers")
  expect_identical(argument(cluster_ssh("a", tunnel = FALSE)), "address")
  expect_identical(argument(cluster_ssh("a", address = "x")), "address")
  expect_identical(argument(cluster_ssh("a", env = "x")), "env")
  expect_identical(argument(cluster_ssh("a", deadline = 1)), "deadline")
  expect_identical(argument(cluster_ssh("a", workers = Inf)), "workers")
  expect_identical(argument(cluster_ssh(c("a", "b"), workers = 1:2, min_workers = 4)), "min_workers")
  expect_identical(argument(cluster_status("x")), "cl")
})

test_that("nodes come through tunnels of ssh, and their secret is in no list of processes", {
  ssh <- local_sshd()
  cluster <- cluster_ssh(
    c("127.0.0.1", "localhost"), c(2, 1), remote_rscript(), remote_env(), ssh,
    timeout = 60 * slowness()
  )
  withr::defer(stop_remote(cluster))
  expect_length(cluster, 3L)
  expect_identical(
    par_lapply(1:9, function(i) i * 2, .on = cluster, .control = on_remote()),
    lapply(1:9, function(i) i * 2)
  )
  lines <- vapply(list.files("/proc", "^[0-9]+$", full.names = TRUE), function(pid) {
    text <- tryCatch(
      suppressWarnings(readBin(file.path(pid, "cmdline"), "raw", 1e5)), error = function(e) raw()
    )
    rawToChar(text[text != 0])
  }, "", USE.NAMES = FALSE)
  expect_true(any(grepl("127.0.0.1:[0-9]+:127.0.0.1:", lines))) # the tunnel
  expect_false(any(grepl("[0-9a-f]{64}", lines)))
})

test_that("a command that has ended is not running, whether anybody has collected it or not", {
  skip_unless_linux()
  files <- file.path(withr::local_tempdir(), c("ended", "parent"))
  # It ends when its parent has become a program that collects nobody.
  script <- sprintf(
    "(while ! grep -q sleep /proc/$$/comm; do sleep 0.01; done) & echo $! >%s; echo $$ >%s; exec sleep 300",
    files[[1L]], files[[2L]]
  )
  system2("sh", c("-c", shQuote(script)), wait = FALSE)
  wait_until(all_written(files))
  ended <- as.integer(readLines(files[[1L]]))
  parent <- as.integer(readLines(files[[2L]]))
  withr::defer({
    tools::pskill(parent, tools::SIGKILL)
    wait_until(!is_running(parent))
  })
  wait_until(identical(process_state(ended), "Z"))
  launch <- function(at) list(pid_file = files[[at]], begun = .Call(regatta:::ffi_clock))
  expect_false(regatta:::launch_is_running(launch(1L)))
  expect_true(regatta:::launch_is_running(launch(2L)))
})

test_that("what answers a call of parallel that was given up is no answer to the next", {
  cluster <- local_shell_cluster(3)
  pool <- pool_of(cluster)
  # It was on its way when the next call was sent.
  parallel:::sendCall(cluster[[1L]], identity, list("new"))
  before <- list(type = "VALUE", seat = 1L, number = pool$seats[[1L]]$number - 1, reason = "",
    bytes = serialize(list(type = "VALUE", value = "old", success = TRUE, tag = NULL), NULL))
  regatta:::remote_take(pool, pool$hosts[[1L]], before)
  expect_identical(parallel:::recvResult(cluster[[1L]]), "new")
  regatta:::remote_take(pool, pool$hosts[[1L]], before)
  expect_identical(parallel::clusterCall(cluster[1L], identity, 2), list(2))

  for (round in 1:15) {
    expect_error({
      setTimeLimit(elapsed = 0.03 + round / 100, transient = TRUE)
      parallel::clusterApply(cluster, 1:300, function(k) {
        Sys.sleep(0.002)
        k
      })
      Sys.sleep(60)
    })
    setTimeLimit()
    for (again in 1:2) {
      got <- suppressWarnings(parallel::clusterApply(cluster, 1:6, identity), classes = "regatta_warning_replaced")
      expect_identical(got, as.list(1:6))
    }
    expect_identical(par_lapply(1:6, identity, .on = cluster, .control = on_remote()), as.list(1:6))
  }
})

test_that("a call whose worker has gone with its fork server is answered", {
  cluster <- local_shell_cluster(3)
  for (round in 1:4) {
    server <- parent_pid(cluster_status(cluster)$pid[[1L]])
    tools::pskill(server, tools::SIGKILL)
    got <- tryCatch(
      within_seconds(30, suppressWarnings(parallel::clusterCall(cluster, identity, round))),
      regatta_error_socket = function(e) rep(list(round), 3L)
    )
    expect_identical(got, rep(list(round), 3L))
    expect_identical(par_lapply(1:3, identity, .on = cluster, .control = on_remote()), as.list(1:3))
  }
  expect_identical(pool_of(cluster)$hosts[[1L]]$life, 1) # it was the same agent
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
