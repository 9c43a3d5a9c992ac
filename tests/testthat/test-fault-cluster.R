detritus <- detritus_snapshot()

# The numbers that tests draw are not the session's.
draw <- function(code) withr::with_preserve_seed({
  set.seed(NULL)
  code
})

# A file that a process beside the session makes, maybe after the test: in a folder of its own.
flag_file <- function(frame = parent.frame()) {
  file.path(withr::local_tempdir(.local_envir = frame), "flag")
}

# Two nodes for the tests that leave them in service.
common <- NULL
common_cluster <- function() {
  if (is.null(common)) common <<- cluster_start(2L)
  common$cluster
}

# By parallel's own calls: values of this call, and of no other.
expect_in_step <- function(cl) {
  for (k in 1:2) {
    mark <- draw(stats::runif(1))
    expect_identical(
      parallel::clusterCall(cl, function(x) x, mark), rep(list(mark), length(cl))
    )
  }
  expect_identical(parallel::parLapply(cl, 1:4, function(i) -i), as.list(-(1:4)))
  expect_identical(par_lapply(1:4, identity, .on = cl, .control = on_cluster()), as.list(1:4))
}

# The same, or it says that a node is out of service.
expect_in_step_or_out <- function(cl) {
  mark <- draw(stats::runif(1))
  got <- tryCatch(
    parallel::clusterCall(cl, function(x) x, mark),
    regatta_error_node = function(e) "out"
  )
  if (!identical(got, "out")) expect_identical(got, rep(list(mark), length(cl)))
  got
}

# After each of `seconds`, in the order of their coming; `file` is there when all have been sent.
interrupt_at <- function(seconds, file) {
  kills <- paste(sprintf("sleep %.3f; kill -INT %d;", seconds, Sys.getpid()), collapse = " ")
  system(sprintf("(%s touch %s) &", kills, shQuote(file)))
}

# `times` interrupts as soon as the file is there.
interrupt_once <- function(file, times = 1L) {
  kill <- paste(rep(sprintf("kill -INT %d", Sys.getpid()), times), collapse = "; sleep 0.3; ")
  system(sprintf("(while [ ! -e %s ]; do sleep 0.02; done; %s) &", shQuote(file), kill))
}

# No condition gets to handlers of testthat: while one of those runs nobody would catch an interrupt.
outcome <- function(code) {
  tryCatch(
    {
      suppressWarnings(suppressMessages(allowInterrupts(code)))
      "done"
    },
    interrupt = function(e) "interrupted", error = function(e) e
  )
}

# Interrupts that are under way come now.
settle <- function(file = NULL) {
  repeat {
    if (outcome(for (i in 1:5) Sys.sleep(0.01)) == "done" && (is.null(file) || file.exists(file))) {
      break
    }
  }
  outcome(for (i in 1:5) Sys.sleep(0.01))
}

test_that("a map in which every element fails ends, again and again", {
  cl <- common_cluster()
  for (k in 1:8) {
    expect_error(
      par_lapply(1:4, function(i) stop("wrong"), .on = cl, .control = on_cluster()), "wrong"
    )
  }
  expect_in_step(cl)
})

test_that("a stream that is given up leaves the cluster in step", {
  cl <- common_cluster()
  slow <- function(i) {
    Sys.sleep(0.03)
    i
  }
  stream <- par_stream(1:40, slow, .on = cl, .control = on_cluster())
  for (k in 1:3) par_next(stream)
  rm(stream)
  gc()
  expect_in_step(cl)
  # left by the consumer's error, and gone on with
  stream <- par_stream(1:8, slow, .on = cl, .control = on_cluster())
  expect_error(if (par_next(stream) == 1) stop("consumer"), "consumer")
  expect_in_step(cl)
  left <- list()
  while (par_more(stream)) left[[length(left) + 1L]] <- par_next(stream)
  expect_identical(left, as.list(2:8))
  # by Ctrl-C
  begun <- flag_file()
  stream <- par_stream(1:4, function(i) if (i > 1) {
    file.create(begun)
    Sys.sleep(300)
  }, .on = cl, .control = on_cluster())
  par_next(stream)
  wait_until(function() file.exists(begun), 60, "the element that takes long")
  waiting <- flag_file()
  interrupt_once(waiting)
  expect_identical(
    outcome({
      file.create(waiting)
      par_next(stream)
    }),
    "interrupted"
  )
  rm(stream)
  expect_in_step(cl)
})

test_that("calls, maps and streams on one cluster take turns", {
  cl <- common_cluster()
  gate <- shm_counter(0)
  begun <- shm_counter(0)
  call <- function() {
    par_call({
      shm_add(begun, 1)
      while (shm_value(gate) == 0) Sys.sleep(0.01)
      "called"
    }, .on = cl, .control = on_cluster())
  }
  first <- call()
  wait_until(function() shm_value(begun) == 1, 60, "the first call to begin")
  # a map has the other node
  pids <- par_lapply(1:6, function(i) Sys.getpid(), .on = cl, .control = on_cluster())
  expect_length(unique(pids), 1L)
  second <- call()
  wait_until(function() shm_value(begun) == 2, 60, "the second call to begin")
  # and one that finds no node waits for one
  expect_false(par_done(first) || par_done(second))
  shm_add(gate, 1)
  expect_identical(par_lapply(1:6, identity, .on = cl, .control = on_cluster()), as.list(1:6))
  stream <- par_stream(1:10, function(i) i * 2, .on = cl, .control = on_cluster())
  got <- list(par_next(stream), par_next(stream))
  expect_identical(par_lapply(1:6, identity, .on = cl, .control = on_cluster()), as.list(1:6))
  third <- par_call("third", .on = cl, .control = on_cluster())
  while (par_more(stream)) got[[length(got) + 1L]] <- par_next(stream)
  expect_identical(got, as.list(2 * (1:10)))
  expect_identical(
    lapply(list(third, second, first), par_value), list("third", "called", "called")
  )
  expect_in_step(cl)
})

test_that("an interrupt while an error is described costs no reply", {
  cl <- common_cluster()
  patient_limits()
  # a condition whose message takes its time is asked for it in a handler
  slow_message <- function(i) {
    .S3method("conditionMessage", "rg_slow", function(c) {
      for (k in 1:100) Sys.sleep(0.01)
      "slow"
    })
    stop(structure(class = c("rg_slow", "error", "condition"), list(message = "m", call = NULL)))
  }
  got <- suppressWarnings(par_lapply(1:2, slow_message, .on = cl,
    .control = on_cluster(timeout = 0.3, errors = "collect")))
  expect_s3_class(got[[1L]], "regatta_error")
  expect_in_step(cl)
})

test_that("an interrupt while a handler looks at a condition ends its element alone", {
  cl <- common_cluster()
  slow_field <- function(kind) {
    .S3method("[[", "rg_slow", function(x, i) {
      for (k in 1:3000) Sys.sleep(0.01)
      unclass(x)[[i]]
    })
    fields <- list(message = "m", call = quote(f()))
    signalled <- structure(fields, class = c("rg_slow", kind, "condition"))
    if (kind == "error") stop(signalled) else message(signalled)
  }
  patient_limits()
  for (kind in c("error", "message")) {
    got <- par_lapply(rep(kind, 2), slow_field, .on = cl,
      .control = on_cluster(timeout = 0.3, errors = "collect"))
    for (one in got) expect_s3_class(one, "regatta_error_timeout")
    expect_in_step(cl)
  }
})

test_that("a node that does not come back is out of service, and everybody is told", {
  cl <- local_cluster()
  begun <- flag_file()
  stubborn <- function(i) {
    if (i == 1) {
      suspendInterrupts({
        file.create(begun)
        repeat tryCatch(Sys.sleep(0.05), interrupt = function(e) NULL)
      })
    }
    i
  }
  interrupt_once(begun, times = 2L)
  expect_identical(
    outcome(par_lapply(1:2, stubborn, .on = cl, .control = on_cluster(batch = 1))), "interrupted"
  )
  settle()
  for (call in list(
    function() parallel::clusterCall(cl, function() 7),
    function() parallel::parLapply(cl, 1:4, identity),
    function() parallel::clusterApplyLB(cl, 1:4, identity),
    function() parallel::clusterExport(cl, "common_cluster", environment(common_cluster))
  )) {
    told <- expect_error(call(), class = "regatta_error_node")
    expect_match(conditionMessage(told), "^node [12] \\(localhost, pid [0-9]+\\) of the cluster")
    expect_match(conditionMessage(told), "stopCluster")
    expect_identical(conditionCall(told), body(call))
  }
  warned <- expect_warning(
    got <- par_lapply(1:4, identity, .on = cl, .control = on_cluster()),
    class = "regatta_warning_workers"
  )
  expect_match(conditionMessage(warned), "out of service")
  expect_identical(got, as.list(1:4))
  wait_until(function() !is_running(told$pid), 60, "the end of the node")
})

test_that("a pause of the session while nodes come back is no time that they had", {
  cl <- common_cluster()
  wait <- regatta:::wires_wait
  recall <- regatta:::wires_recall
  paused <- NA
  local_function("cluster_patience", c(near = 4, far = 4))
  local_function("wires_recall", function(...) {
    if (is.na(paused)) paused <<- FALSE
    recall(...)
  })
  local_function("wires_wait", function(wires, timeout) {
    if (!identical(paused, FALSE)) {
      return(wait(wires, timeout))
    }
    paused <<- TRUE
    Sys.sleep(4.5)
  })
  expect_error(par_lapply(1:2, function(i) {
    if (i == 1) stop("no")
    for (k in 1:3000) Sys.sleep(0.01)
  }, .on = cl, .control = on_cluster(batch = 1)), "no")
  expect_true(paused)
  expect_in_step(cl)
})

test_that("after the death of a node calls wait for those that are left", {
  cl <- local_cluster(3L)
  dies <- function(i) quit(status = 3)
  one <- on_cluster(workers = 1L)
  expect_error(par_lapply(1, dies, .on = cl, .control = one), class = "regatta_error_death")
  # One that nobody has looked at since it died.
  pids <- unlist(parallel::clusterCall(cl[2:3], Sys.getpid))
  tools::pskill(pids[[1L]], 9L)
  wait_until(function() !is_running(pids[[1L]]))
  flag <- flag_file()
  waits <- function(k) {
    while (!file.exists(flag)) Sys.sleep(0.01)
    k
  }
  calls <- lapply(1:3, function(k) par_call(waits(k), .on = cl, .control = one))
  file.create(flag)
  expect_identical(lapply(calls, par_value), list(1L, 2L, 3L))
})

test_that("a node that dies is replaced by one that the call does not use, as long as there is one", {
  skip_unless_linux()
  cl <- local_cluster(3L)
  pids <- unlist(parallel::clusterCall(cl, Sys.getpid))
  one <- function(...) on_cluster(workers = 1L, ...)
  # What the call said when it was made goes to a node that it had not met; the element is lost with the first.
  begun <- flag_file()
  flag <- flag_file()
  withr::local_options(rg_said = "then")
  withr::local_envvar(RG_SAID = "then")
  told <- "then"
  call <- par_call({
    if (Sys.getenv("REGATTA_TRY") == "1") {
      file.create(begun)
      while (!file.exists(flag)) Sys.sleep(0.01)
      quit(status = 3)
    }
    c(told, getOption("rg_said"), Sys.getenv("RG_SAID"), Sys.getpid())
  }, .on = cl, .control = one(retries = 1L))
  options(rg_said = "now")
  Sys.setenv(RG_SAID = "now")
  told <- "now"
  wait_until(function() file.exists(begun))
  file.create(flag)
  expect_identical(par_value(call), c("then", "then", "then", pids[[2L]]))
  # One that has died before it began, which is seen when it has been given its element; the other is at work.
  tools::pskill(pids[[2L]], tools::SIGSTOP)
  first <- par_call(Sys.getpid(), .on = cl[2L], .control = one())
  flag <- flag_file()
  busy <- par_call(
    {
      while (!file.exists(flag)) Sys.sleep(0.01)
      Sys.getpid()
    },
    .on = cl[3L], .control = one()
  )
  waits <- par_call(Sys.getpid(), .on = cl[c(2L, 3L, 1L)], .control = one())
  tools::pskill(pids[[2L]], 9L)
  expect_false(par_done(waits))
  file.create(flag)
  expect_error(par_value(first), "the last worker has died", class = "regatta_error_start")
  expect_identical(par_value(waits), pids[[3L]])
  expect_identical(par_value(busy), pids[[3L]])
})

test_that("a call has no more nodes at a time than it was to have, and limits hold on those that come later", {
  skip_unless_linux()
  patient_limits()
  cl <- local_cluster(3L)
  pids <- unlist(parallel::clusterCall(cl, Sys.getpid))
  dies <- function(i) {
    if (i == 1) quit(status = 3)
    if (i == 3) Sys.sleep(60)
    Sys.getpid()
  }
  expect_warning(
    got <- par_lapply(1:4, dies, .on = cl,
      .control = on_cluster(workers = 1L, batch = 1L, errors = "collect", timeout = 1)),
    "2 of 4 elements failed: 1 death, 1 timeout"
  )
  expect_s3_class(got[[1L]], "regatta_error_death")
  expect_s3_class(got[[3L]], "regatta_error_timeout")
  expect_identical(got[c(2L, 4L)], list(pids[[2L]], pids[[2L]]))
  # With the last of them it is over.
  told <- expect_error(
    par_lapply(1:4, function(i) quit(status = 3), .on = cl,
      .control = on_cluster(workers = 1L, errors = "collect", batch = 1L)),
    class = "regatta_error_start"
  )
  expect_match(conditionMessage(told), "the last worker has died and no other can be started")
})

test_that("a node that is stopped in the middle of a message holds nobody up", {
  skip_unless_linux()
  cl <- local_cluster()
  stopped <- flag_file()
  # The session is held while the node sends, until a part of the message waits in the node's buffer, since the
  # session's is full, and the node has been stopped by a process beside it. No buffers hold the whole message.
  session <- Sys.getpid()
  port <- sprintf(":%04X$", as.integer(sub("^.*:", "", summary(cl[[1L]]$con)$description)))
  large <- function(i) {
    if (i == 1) {
      tools::pskill(session, tools::SIGSTOP)
      waits <- sprintf("awk '$3 ~ /%s/ && substr($5, 1, 8) > \"00010000\" { found = 1 } END { exit !found }'", port)
      system(sprintf(
        "(for i in $(seq 1500); do %s /proc/net/tcp && how=within && break; sleep 0.01; done;
          kill -STOP %d; kill -CONT %d; echo $how >%s) &",
        waits, Sys.getpid(), session, shQuote(stopped)
      ))
      return(rep(1, 1e7))
    }
    i
  }
  got <- suppressWarnings(par_lapply(1:2, large, .on = cl,
    .control = on_cluster(timeout = 4, errors = "collect", batch = 1)))
  expect_identical(readLines(stopped), "within")
  expect_s3_class(got[[1L]], "regatta_error_timeout")
  expect_identical(got[[2L]], 2L)
  expect_error(parallel::clusterCall(cl, function() 7), class = "regatta_error_node")
  # by Ctrl-C, on the node that is left
  unlink(stopped)
  interrupt_once(stopped)
  ended <- suppressWarnings(
    outcome(par_lapply(1L, large, .on = cl, .control = on_cluster()))
  )
  expect_identical(ended, "interrupted")
  expect_identical(readLines(stopped), "within")
  expect_error(parallel::clusterCall(cl, function() 7), class = "regatta_error_node")
})

test_that("the death of a node is seen although a program of it holds the socket", {
  skip_unless_linux()
  cl <- local_cluster()
  sleepers <- flag_file()
  withr::defer(for (pid in readLines(sleepers)) tools::pskill(as.integer(pid), tools::SIGKILL))
  # Without the mark by which what the node has started is ended with it.
  f <- function(i) {
    if (i == 1) system(sprintf("echo $$ >> %s; exec env -u REGATTA_RUN sleep 300", shQuote(sleepers)))
    i
  }
  limits_from(function(i) i == 1 && all_written(sleepers) && proc_line(readLines(sleepers), "comm") == "sleep")
  got <- suppressWarnings(
    par_lapply(1:3, f, .on = cl, .control = on_cluster(timeout = 0.5, errors = "collect"))
  )
  expect_s3_class(got[[1L]], "regatta_error_timeout")
  expect_identical(got[-1L], list(2L, 3L))
  expect_true(is_running(as.integer(readLines(sleepers)))) # so that it was not waited for
  expect_error(parallel::clusterCall(cl, function() 7), class = "regatta_error_node")
})

test_that("a node that has half a message of parallel's is out of service", {
  skip_unless_linux()
  cl <- local_cluster()
  expect_identical(par_lapply(1:2, identity, .on = cl, .control = on_cluster()), as.list(1:2))
  pid <- parallel::clusterCall(cl, Sys.getpid)[[1L]]
  tools::pskill(pid, tools::SIGSTOP)
  signal_when_waiting(Sys.getpid(), "INT")
  expect_identical(outcome(parallel::clusterCall(cl[1L], length, raw(2^26))), "interrupted")
  tools::pskill(pid, tools::SIGCONT)
  expect_warning(
    expect_identical(par_lapply(1:4, identity, .on = cl, .control = on_cluster()), as.list(1:4)),
    "in the middle of what it sent it",
    class = "regatta_warning_workers"
  )
  expect_error(parallel::clusterCall(cl, function() 7), "node 1 .* out of service", class = "regatta_error_node")
  expect_in_step(cl[2L])
})

test_that("an element that takes no signal but the last is ended by that", {
  cl <- local_cluster()
  library <- fault_compile("
    #include <signal.h>
    #include <unistd.h>
    void deaf(void) { signal(SIGINT, SIG_IGN); signal(SIGTERM, SIG_IGN); for (;;) usleep(10000); }
  ", "deaf")
  f <- function(i) {
    if (i == 1) {
      dyn.load(library)
      .C("deaf")
    }
    i
  }
  got <- suppressWarnings(
    par_lapply(1:3, f, .on = cl, .control = on_cluster(timeout = 0.3, errors = "collect"))
  )
  expect_s3_class(got[[1L]], "regatta_error_timeout")
  expect_identical(got[-1L], list(2L, 3L))
})

test_that("interrupts in storms leave the cluster in step or out of service", {
  rounds <- as.integer(Sys.getenv("REGATTA_STORMS", "30"))
  cl <- common_cluster()
  outs <- 0L
  tasks <- list(
    function(i) i, function(i) {
      Sys.sleep(0.004)
      i
    },
    function(i) rep(i, 2e5), function(i) {
      message("m")
      i
    },
    function(i) if (i == 7) stop("seven") else i
  )
  for (round in seq_len(rounds)) {
    f <- tasks[[round %% length(tasks) + 1L]]
    sent <- flag_file()
    got <- ended <- NULL
    suspendInterrupts({
      interrupt_at(draw(stats::runif(sample(4L, 1L), 0, 0.06)), sent)
      ended <- outcome(got <- par_lapply(1:12, f, .on = cl, .control = on_cluster()))
      settle(sent)
    })
    if (!is.null(got)) expect_identical(got, suppressMessages(lapply(1:12, f)))
    expect_true(
      inherits(ended, "regatta_error_element") || ended %in% c("done", "interrupted")
    )
    if (identical(expect_in_step_or_out(cl), "out")) {
      outs <- outs + 1L
      common$stop()
      common <<- NULL
      cl <- common_cluster()
    }
  }
  # It may be, on a machine that is busy; the rule would be another.
  expect_lt(outs, max(2, rounds / 4))
})

test_that("nothing is left behind", {
  if (!is.null(common)) common$stop()
  expect_no_detritus(detritus)
})
