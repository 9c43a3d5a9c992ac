# Maps on a cluster that go on while a process beside them does something to a random process of those that belong to
# it: kills it, stops it for a moment, interrupts the session once or twice, or cuts the link to one of the hosts.
# Launchers, agents, fork servers and workers are all hit. Every result is compared with that of lapply(), and after
# each map package parallel's own functions must get the values of their own call.

# list(wrong, right, rounds, refused: classes of the errors that calls have ended with, well: whether a map and a call
# of package parallel are right afterwards). `far`, of local_far_host(): the second of two hosts.
storm <- function(kind, shots, pause = 0.1, far = NULL) {
  folder <- withr::local_tempdir("storm-")
  session <- fault_start(function(kind, rscript, env, shell, address, over) {
    f <- function(i) {
      Sys.sleep(0.002)
      i^2 + runif(1)
    }
    control <- par_control(retries = 1000L, retry_on = "death", progress = FALSE, dump = "no", seed = 1L)
    map <- function(cl) par_lapply(1:60, f, .on = cl, .control = control)
    expected <- map(2)
    make <- function() switch(kind,
      ssh = cluster_ssh(
        c("near", "far"), 1, rscript = rscript, env = env, ssh = shell, tunnel = FALSE, address = address,
        deadline = if (address == "127.0.0.1") 20 else 3
      ),
      cluster_local(2L, start = kind)
    )
    cl <- make()
    # A class, or the message of an error that is none of ours, if the call has ended otherwise. A signal that comes
    # late is of the call before.
    call <- function(code) {
      tryCatch(allowInterrupts(suppressWarnings(code)), interrupt = function(e) "interrupt",
        error = function(e) if (inherits(e, "regatta_error")) class(e)[[1L]] else conditionMessage(e))
    }
    wrong <- right <- rounds <- 0
    refused <- character()
    check <- function(got, wanted) {
      if (is.character(got)) {
        refused <<- union(refused, got)
      } else if (identical(got, wanted)) {
        right <<- right + 1
      } else {
        wrong <<- wrong + 1
      }
    }
    # A host that was lost again and again before a value came is given up: there it takes another cluster.
    renew <- function() {
      given_up <- kind == "ssh" && any(vapply(unclass(cl)[[1L]]$pool$hosts, function(host) {
        regatta:::remote_is_final(unclass(cl)[[1L]]$pool, host)
      }, NA))
      if (given_up) {
        call(parallel::stopCluster(cl))
        for (k in 1:20) if (inherits(other <- call(make()), "cluster")) break
        cl <<- other
      }
    }
    suspendInterrupts({
      cat("ready\n")
      while (!file.exists(over)) {
        rounds <- rounds + 1
        renew()
        check(call(map(cl)), expected)
        check(call(parallel::clusterApplyLB(cl, 1:4, identity)), as.list(1:4))
      }
      call(Sys.sleep(0.1))
      # What was lost last may be on its way.
      last <- function() {
        renew()
        got <- list(call(map(cl)), call(parallel::clusterApplyLB(cl, 1:4, identity)))
        check(got[[1L]], expected)
        check(got[[2L]], as.list(1:4))
        c(identical(got[[1L]], expected), identical(got[[2L]], as.list(1:4)))
      }
      until <- Sys.time() + 60
      while (!all(well <- last()) && Sys.time() < until) Sys.sleep(0.2)
      call(parallel::stopCluster(cl))
    })
    list(wrong = wrong, right = right, rounds = rounds, refused = refused, well = well)
  }, list(
    kind = kind, rscript = remote_rscript(), env = remote_env()[c("R_LIBS", "R_TESTS")],
    shell = if (is.null(far)) shell_script() else far_script(far),
    address = if (is.null(far)) "127.0.0.1" else far$address, over = file.path(folder, "over")
  ))
  on.exit(fault_end(session), add = TRUE)
  fault_wait_line(session, "ready")
  withr::local_preserve_seed()
  pid <- session$process$get_pid()
  for (shot in seq_len(shots)) {
    if (!session$process$is_alive()) break
    victims <- setdiff(as.integer(marked_pids(session$mark)), pid)
    victim <- if (length(victims) > 0L) victims[[sample.int(length(victims), 1L)]] else pid
    switch(sample(c("kill", "kill", "stop", "once", "twice", if (!is.null(far)) c("cut", "cut")), 1L),
      kill = if (victim != pid) tools::pskill(victim, tools::SIGKILL),
      stop = {
        tools::pskill(victim, tools::SIGSTOP)
        Sys.sleep(stats::runif(1L, 0, 0.3))
        tools::pskill(victim, tools::SIGCONT)
      },
      once = tools::pskill(pid, tools::SIGINT),
      twice = for (i in 1:2) {
        tools::pskill(pid, tools::SIGINT)
        Sys.sleep(0.02)
      },
      cut = {
        # one in three is longer than the deadline of the host
        cut_off(far, "down")
        Sys.sleep(sample(c(0.3, 1, 4), 1L))
        cut_off(far, "down", undo = TRUE)
      }
    )
    Sys.sleep(stats::runif(1L, 0, 2 * pause))
  }
  file.create(file.path(folder, "over"))
  got <- fault_value(session, timeout = 120)$value
  wait_until(function() length(marked_pids(session$mark)) == 0L, 60, "the end of all")
  got
}

# Errors that say that workers or their server are lost, and nothing else.
storm_words <- c(
  "interrupt", "regatta_error_start", "regatta_error_server", "regatta_error_node", "regatta_error_socket",
  "regatta_error_node_lost", "regatta_error_death"
)

expect_storm_survived <- function(kind, ...) {
  got <- storm(kind, ...)
  expect_identical(got$wrong, 0, label = paste("wrong results on", kind))
  expect_gt(got$right, 0)
  expect_identical(setdiff(got$refused, storm_words), character(), label = paste("other errors on", kind))
  expect_identical(got$well, c(TRUE, TRUE), label = paste("results after the storm on", kind))
}
