detritus <- detritus_snapshot()

test_that("a worker that dies in a run is told of as a forked one, and another takes its place", {
  skip_unless_linux()
  cl <- local_pool(2L)
  before <- cluster_pids(cl)
  cnd <- expect_error(
    par_lapply(1:4, function(i) if (i == 3L) tools::pskill(Sys.getpid(), 9L) else i,
      .on = cl, .control = on_local()),
    class = "regatta_error_death"
  )
  expect_equal(cnd$signal, 9)
  expect_gt(cnd$peak_memory, 1e6)
  expect_true(cnd$pid %in% before)
  got <- par_lapply(1:3, function(i) {
    if (i == 2L && Sys.getenv("REGATTA_TRY") == "1") quit("no", 3L)
    i
  }, .on = cl, .control = on_local(retries = 1, retry_on = "death"))
  expect_identical(got, list(1L, 2L, 3L))
  expect_length(unique(cluster_pids(cl)), 2L)
  expect_false(cnd$pid %in% cluster_pids(cl))
  expect_false(is_process(cnd$pid))
})

test_that("what an element has started ends with the run", {
  skip_unless_linux()
  cl <- local_pool(2L)
  before <- cluster_pids(cl)
  pids <- par_vapply(1:2, function(i) {
    system("sleep 300 > /dev/null 2>&1 & echo $!", intern = TRUE)
  }, "", .on = cl, .control = on_local())
  wait_until(!any(is_process(pids)))
  expect_identical(cluster_pids(cl), before)
})

test_that("a worker that dies between runs is replaced without a word", {
  skip_unless_linux()
  cl <- local_pool(2L)
  pid <- cluster_pids(cl)[[1L]]
  tools::pskill(pid, tools::SIGKILL)
  wait_until(has_ended(pid))
  expect_identical(par_lapply(1:4, identity, .on = cl, .control = on_local()), as.list(1:4))
  expect_false(pid %in% cluster_pids(cl))
})

test_that("workers that a function of parallel has left at calls are taken back by the next map, or replaced", {
  skip_unless_linux()
  wait <- function(gate) {
    while (!file.exists(gate)) Sys.sleep(0.01)
    7
  }
  squares <- function(cl) par_lapply(1:4, function(i) i^2, .on = cl, .control = on_local())
  squares_of <- as.list(c(1, 4, 9, 16))
  for (start in c("forkserver", "parallel")) {
    cl <- local_pool(3L, start = start, timeout = 60 * slowness())
    parallel::clusterEvalQ(cl, rg_mine <- 1)
    before <- cluster_pids(cl)
    # What is left when parallel is interrupted as it waits: calls that are answered later.
    gate <- withr::local_tempfile()
    for (k in 1:2) parallel:::sendCall(cl[[k]], wait, list(gate))
    expect_no_warning(expect_identical(squares(cl), squares_of)) # by the third
    expect_identical(cluster_status(cl)$state, c("busy", "busy", "idle"))
    file.create(gate)
    wait_until({
      squares(cl)
      all(cluster_status(cl)$state == "idle")
    })
    # Who has sent a call may ask for its value after a map, too.
    expect_identical(parallel:::recvResult(cl[[1L]]), 7)
    expect_identical(parallel::clusterEvalQ(cl, rg_mine), list(1, 1, 1))
    expect_identical(cluster_pids(cl), before)

    expect_error(parallel::clusterApply(cl, 1:3, function(i) if (i == 1L) quit("no") else i))
    wait_until({
      squares(cl)
      all(cluster_status(cl)$state == "idle")
    })
    expect_identical(cluster_pids(cl)[2:3], before[2:3])

    before <- cluster_pids(cl)
    unlink(gate)
    for (k in 1:3) parallel:::sendCall(cl[[k]], wait, list(gate))
    told <- testthat::capture_warnings(expect_identical(squares(cl), squares_of))
    expect_match(told, "was still at a call that has been interrupted")
    expect_length(told, 3L)
    expect_false(any(before %in% cluster_pids(cl)))
  }
})

# Warnings by which a function of parallel says that workers were replaced.
told_replaced <- function(cl) {
  told <- character()
  withCallingHandlers(parallel::clusterEvalQ(cl, rg_left <- 1), regatta_warning_replaced = function(w) {
    told <<- c(told, conditionMessage(w))
    invokeRestart("muffleWarning")
  })
  told
}

# Ways in which the worker of the second of two elements, or the first worker, comes to its end.
ends_of_workers <- list(
  "error of another" = function(cl, ready) {
    try(par_lapply(1:2, function(i) {
      if (i == 2L) {
        file.create(ready)
        Sys.sleep(600)
      }
      while (!file.exists(ready)) Sys.sleep(0.01)
      stop("boom")
    }, .on = cl, .control = on_local()), silent = TRUE)
  },
  "signal" = function(cl, ready) {
    try(par_lapply(1L, function(i) tools::pskill(Sys.getpid(), 9L), .on = cl, .control = on_local()), silent = TRUE)
  },
  "dropped stream" = function(cl, ready) {
    stream <- par_stream(1:2, function(i) {
      if (i == 2L) {
        file.create(ready)
        Sys.sleep(600)
      }
      i
    }, .on = cl, .control = on_local())
    par_next(stream)
    wait_until(file.exists(ready))
    rm(stream)
    gc()
  },
  "idle" = function(cl, ready) {
    pid <- cluster_status(cl)$pid[[1L]]
    tools::pskill(pid, tools::SIGKILL)
    wait_until(has_ended(pid))
  },
  "server" = function(cl, ready) {
    tools::pskill(server_pid(cl), tools::SIGKILL)
    wait_until(!server_is_alive(cl))
  }
)

test_that("functions of parallel say once that workers are gone that they had given something", {
  skip_unless_linux()
  for (end in names(ends_of_workers)) {
    ready <- withr::local_tempfile()
    cl <- local_pool(2L)
    ends_of_workers[[end]](cl, ready)
    expect_identical(told_replaced(cl), character(), label = paste(end, "of a worker that has nothing"))
    unlink(ready)
    before <- cluster_status(cl)$pid
    ends_of_workers[[end]](cl, ready)
    expect_no_warning(par_lapply(1:2, identity, .on = cl, .control = on_local())) # has all that it needs
    told <- told_replaced(cl)
    gone <- which(cluster_status(cl)$pid != before)
    expect_gte(length(gone), 1L)
    expect_match(told, "does not have what functions of parallel had left", label = end)
    expect_identical(substr(told, 1, 8), sprintf("worker %d", gone), label = end)
    expect_identical(told_replaced(cl), character(), label = paste(end, "told already"))
    parallel::stopCluster(cl)
  }
})

test_that("a worker that ends while it is sent a call is told of", {
  skip_unless_linux()
  cl <- local_pool(1L)
  pid <- cluster_status(cl)$pid
  tools::pskill(pid, tools::SIGSTOP) # it reads nothing
  wait_until(process_state(pid) == "T")
  signal_when_waiting(pid, "KILL")
  withr::local_options(regatta.shm_max = 1) # there is no handle in the place of what does not fit into its socket
  expect_error(
    parallel::clusterCall(cl, length, raw(2^25)),
    "it has ended while it was sent a call; another takes its place with the next call", class = "regatta_error_node"
  )
  expect_identical(parallel::clusterCall(cl, length, 1:3), list(3L))
})

test_that("a fork server that is interrupted starts workers as before", {
  skip_unless_linux()
  cl <- local_pool(1L)
  server <- server_pid(cl)
  # What it reads while it is idle hears of none that R has heard: after that one stays.
  for (k in 1:16) {
    tools::pskill(server, tools::SIGINT)
    Sys.sleep(0.1)
    more <- local_pool(1L)
    expect_identical(server_pid(more), server)
    expect_identical(par_lapply(1:2, identity, .on = more, .control = on_local()), list(1L, 2L))
    parallel::stopCluster(more)
  }
})

test_that("a worker that ends while a call for it is packed is told of before another gets the call", {
  skip_unless_linux()
  pack <- regatta:::to_bytes
  for (victim in c("server", "idle")) {
    cl <- local_pool(1L)
    parallel::clusterEvalQ(cl, rg_left <- 1)
    pid <- cluster_pids(cl)
    is_there <- TRUE
    local_function("to_bytes", function(x, ...) {
      if (is_there) {
        ends_of_workers[[victim]](cl)
        wait_until(has_ended(pid))
      }
      is_there <<- FALSE
      pack(x, ...)
    })
    error <- expect_error(withr::with_options(list(warn = 2L), parallel::clusterEvalQ(cl, exists("rg_left"))))
    expect_match(conditionMessage(error), "does not have what functions of parallel had left", label = victim)
    expect_false(is_there)
    expect_no_warning(got <- parallel::clusterEvalQ(cl, exists("rg_left")))
    expect_identical(got, list(FALSE))
  }
})

test_that("of a worker that was replaced at a call it is told once", {
  skip_unless_linux()
  cl <- local_pool(1L)
  expect_identical(told_replaced(cl), character())
  parallel:::sendCall(cl[[1L]], function() Sys.sleep(600), list())
  told <- told_replaced(cl)
  expect_match(told, "was still at a call that has been interrupted")
  expect_identical(told_replaced(cl), character())
  expect_error(parallel::clusterCall(cl, function() quit("no")), class = "regatta_error_node")
  expect_length(told_replaced(cl), 1L)
  expect_identical(told_replaced(cl), character())
})

test_that("the end of the server is an error that says so, and the next run has another", {
  skip_unless_linux()
  cl <- local_pool(2L)
  pids <- cluster_pids(cl)
  server <- server_pid(cl)
  expect_error(
    par_lapply(1:2, function(i) {
      tools::pskill(server, 9L)
      Sys.sleep(60)
    }, .on = cl, .control = on_local()),
    "fork server.*has ended", class = "regatta_error_server"
  )
  wait_until(!any(is_process(pids)))
  expect_identical(par_lapply(1:4, identity, .on = cl, .control = on_local()), as.list(1:4))
  expect_false(identical(server_pid(cl), server))
  tools::pskill(server_pid(cl), tools::SIGKILL)
  wait_until(!server_is_alive(cl))
  expect_identical(par_lapply(1:4, identity, .on = cl, .control = on_local()), as.list(1:4))
})

test_that("a server that ends while it is asked for a worker is followed by another, but for a run that has begun", {
  skip_unless_linux()
  cl <- local_pool(2L)
  end_server <- function() {
    tools::pskill(server_pid(cl), tools::SIGKILL)
    wait_until(!server_is_alive(cl))
  }
  end_server()
  regatta:::stand_fill(regatta:::stand_state(cl))
  expect_true(all(vapply(cluster_pids(cl), is_running, NA)))
  end_server()
  # seen to be alive just now
  local_function("stand_ready", function(state) NULL)
  expect_error(par_lapply(1:4, identity, .on = cl, .control = on_local()), class = "regatta_error_server")
})

test_that("a call or stream that has been stopped by a failure is not waited for", {
  skip_unless_linux()
  cl <- local_pool(2L)
  call <- par_call(Sys.sleep(300), .on = cl, .control = on_local())
  tools::pskill(server_pid(cl), tools::SIGKILL)
  wait_until(par_done(call))
  for (k in 1:2) expect_error(par_value(call, timeout = 20), class = "regatta_error_server")
  expect_true(par_done(call))

  call <- par_call(warning("out"), .on = cl, .control = on_local())
  wait_until(tryCatch(is.na(par_done(call)), warning = function(w) TRUE))
  expect_error(par_value(call, timeout = 20), class = "regatta_error_lost")

  stream <- par_stream(1:4, function(i) Sys.sleep(300), .on = cl, .control = on_local(workers = 2L))
  tools::pskill(server_pid(cl), tools::SIGKILL)
  expect_true(par_more(stream))
  for (k in 1:2) {
    expect_error(within_seconds(20, par_next(stream)), class = "regatta_error_server")
    expect_false(par_more(stream))
  }

  stream <- par_stream(1:4, function(i) message(i), .on = cl, .control = on_local(workers = 2L))
  tryCatch(par_next(stream), message = function(m) NULL)
  # Nobody has been told yet.
  expect_true(par_more(stream))
  for (k in 1:2) {
    expect_error(within_seconds(20, par_next(stream)), "par_stream", class = "regatta_error_lost")
    expect_false(par_more(stream))
  }
})

test_that("what a call has by handle is there until its worker has read it", {
  skip_unless_linux()
  cl <- local_pool(2L)
  pids <- cluster_pids(cl)
  f <- function() {
    x <- shm_share(rep(1, 1e5))
    first <- par_call(TRUE, .on = cl, .control = on_local())
    slow <- setdiff(pids, first$run$workers$rows[[1L]]$pid)
    tools::pskill(slow, tools::SIGSTOP)
    second <- par_call(sum(x), .on = cl, .control = on_local())
    # What the code of the second has of it is only its handle, and so it is with what the first has sent.
    par_value(first)
    rm(x, first)
    gc()
    tools::pskill(slow, tools::SIGCONT)
    par_value(second, timeout = 60)
  }
  expect_identical(f(), 1e5)
})

test_that("when the session is killed its server and its workers are gone", {
  skip_unless_linux()
  kinds <- list(list("forkserver", TRUE), list("forkserver", FALSE), list("parallel", TRUE))
  for (kind in kinds) {
    session <- local_session(function(start, busy) {
      cl <- cluster_local(2L, start = start)
      par_lapply(1:2, identity, .on = cl)
      if (busy) {
        par_lapply(1:2, function(i) {
          tools::pskill(Sys.getpid(), 0L)
          cat("busy\n")
          system("sleep 300 &")
          Sys.sleep(300)
        }, .on = cl, .control = par_control(progress = FALSE))
      }
      cat("busy\nbusy\n")
      Sys.sleep(300)
    }, list(start = kind[[1L]], busy = kind[[2L]]))
    fault_wait_line(session, "busy", times = 2L)
    expect_gte(length(marked_pids(session$mark)), 4L)
    tools::pskill(session$process$get_pid(), tools::SIGKILL)
    gone <- tryCatch(
      wait_until(function() length(marked_pids(session$mark)) == 0L, 60, "the end of all"),
      error = function(e) FALSE
    )
    expect_true(gone)
  }
})

test_that("Ctrl-C ends a run at once, and the cluster can be used", {
  skip_unless_linux()
  session <- local_session(function() {
    cl <- cluster_local(2L)
    got <- tryCatch(
      par_lapply(1:2, function(i) {
        cat("busy\n")
        Sys.sleep(300)
      }, .on = cl, .control = par_control(progress = FALSE)),
      interrupt = function(e) "interrupted"
    )
    list(got = got, after = par_lapply(1:3, identity, .on = cl))
  })
  fault_wait_line(session, "busy", times = 2L)
  tools::pskill(session$process$get_pid(), tools::SIGINT)
  got <- fault_value(session)$value
  expect_identical(got, list(got = "interrupted", after = list(1L, 2L, 3L)))
  wait_until(function() length(marked_pids(session$mark)) == 0L, 60, "the end of all")
  expect_length(marked_pids(session$mark), 0L)
})

# Evaluates `code`, a function of a cluster, in another session that says "go" first, and returns what came
# of it, with what a next map on the cluster gives. Ctrl-C comes when `ready(session, pids)` returns, and
# must be heard well before the limits of src/fork-server.c (20 s) and src/fork-attach.c (10 s).
interrupt_pool <- function(code, ready, most = 7) {
  session <- local_session(function(code) {
    cl <- cluster_local(2L)
    pids <- unlist(parallel::clusterCall(cl, Sys.getpid))
    server <- .Call(regatta:::ffi_fork_server_state, regatta:::stand_state(cl)$server)$pid
    got <- suspendInterrupts(tryCatch(
      allowInterrupts({
        cat("go", pids, server, "\n")
        code(cl)
      }),
      interrupt = function(e) "interrupted", error = function(e) class(e)[[1L]]
    ))
    cat("back\n")
    list(got = got, after = par_lapply(1:3, identity, .on = cl))
  }, list(code = code))
  fault_wait_line(session, "^go ")
  told <- strsplit(grep("^go ", fault_text(session, "stdout"), value = TRUE), " ")[[1L]]
  pids <- as.integer(told[2:4])
  ready(session, pids)
  tools::pskill(session$process$get_pid(), tools::SIGINT)
  fault_wait_line(session, "^back", timeout = most)
  tools::pskill(pids[1:2], tools::SIGCONT) # the next map would wait for a worker that is stopped
  value <- fault_value(session)$value
  wait_until(function() length(marked_pids(session$mark)) == 0L, 60, "the end of all")
  value
}

test_that("Ctrl-C is heard at the end of a run while the server is stopped", {
  skip_unless_linux()
  got <- interrupt_pool(
    function(cl) {
      par_lapply(1:2, function(i) {
        if (i == 1L) {
          while (!file.exists("fail")) Sys.sleep(0.01)
          stop("no")
        }
        Sys.sleep(300)
      }, .on = cl, .control = par_control(progress = FALSE, batch = 1L))
    },
    function(session, pids) {
      # The worker that sleeps is killed at the end of the run, and nobody tells how it ended.
      tools::pskill(pids[[3L]], tools::SIGSTOP)
      wait_until(identical(process_state(pids[[3L]]), "T"))
      file.create(file.path(session$dir, "fail"))
      wait_until(any(vapply(pids[1:2], process_state, "") %in% "Z"))
    }
  )
  expect_true(got$got %in% c("interrupted", "regatta_error_element"))
  expect_identical(got$after, list(1L, 2L, 3L))
})

test_that("Ctrl-C is heard while a worker does not leave its run", {
  skip_unless_linux()
  got <- interrupt_pool(
    function(cl) {
      while (!file.exists("run")) Sys.sleep(0.01)
      cat("running\n")
      par_lapply(1:4, identity, .on = cl, .control = par_control(progress = FALSE))
      Sys.sleep(300)
    },
    function(session, pids) {
      # It has begun nothing, and does not learn that the run is over.
      tools::pskill(pids[[1L]], tools::SIGSTOP)
      wait_until(identical(process_state(pids[[1L]]), "T"))
      file.create(file.path(session$dir, "run"))
      fault_wait_line(session, "running")
      Sys.sleep(1) # it does not matter whether the run has ended by then
    }
  )
  expect_identical(got, list(got = "interrupted", after = list(1L, 2L, 3L)))
})

test_that("Ctrl-C is heard while a worker does not read what it is sent, and while that is packed", {
  skip_unless_linux()
  for (seconds in c(0, 1)) {
    got <- interrupt_pool(
      function(cl) {
        wait <- raw(5e7)
        while (!file.exists("send")) Sys.sleep(0.01)
        cat("sending\n")
        parallel::clusterCall(cl, length, wait)
      },
      function(session, pids) {
        tools::pskill(pids[[1L]], tools::SIGSTOP)
        wait_until(identical(process_state(pids[[1L]]), "T"))
        file.create(file.path(session$dir, "send"))
        fault_wait_line(session, "sending")
        Sys.sleep(seconds) # wherever it is by then, R hears it
      }, most = 15
    )
    expect_identical(got, list(got = "interrupted", after = list(1L, 2L, 3L)))
  }
})

for (start in c("forkserver", "parallel")) test_that(paste("nobody can connect to server and workers:", start), {
  skip_unless_linux()
  cl <- local_pool(2L, start = start)
  unix <- utils::read.table("/proc/net/unix", fill = TRUE, skip = 1L, col.names = paste0("V", 1:8),
    colClasses = "character")
  for (pid in c(server_pid(cl), cluster_pids(cl))) {
    links <- Sys.readlink(list.files(file.path("/proc", pid, "fd"), full.names = TRUE))
    sockets <- sub("^socket:\\[(.*)\\]$", "\\1", grep("^socket:", links, value = TRUE))
    expect_length(sockets, 1L)
    line <- unix[unix$V7 == sockets, ]
    expect_identical(nrow(line), 1L) # of the kernel's list of local sockets: none of TCP
    expect_identical(line$V4, "00000000") # it does not listen
    expect_identical(line$V8, "") # it has no name
    arguments <- readBin(file.path("/proc", pid, "cmdline"), "raw", 4096L)
    words <- strsplit(rawToChar(replace(arguments, arguments == 0, charToRaw(" "))), " ")[[1L]]
    is_program <- start == "parallel" && pid != server_pid(cl)
    main <- if (is_program) "regatta:::fork_member_main()" else "regatta:::fork_server_main()"
    expect_identical(words[-1L], c("--vanilla", "--no-echo", "-e", main))
  }
})

test_that("nothing is left behind", {
  end_servers()
  expect_no_detritus(detritus)
})
