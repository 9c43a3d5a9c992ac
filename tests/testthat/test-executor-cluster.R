detritus <- detritus_snapshot()

# Two nodes for all tests that leave them as they were, started by the first; a node takes longer to
# start than most tests to run.
common <- NULL
common_cluster <- function(n = 2L) {
  if (is.null(common)) common <<- cluster_start(2L)
  common$cluster[seq_len(n)]
}

numbers <- function(n) seq_len(n) + 0.5

# `code` is interrupted, or this is soon after it, and the cluster can be used at once.
# No warning gets to handlers of testthat: while one of those runs nobody would catch an interrupt.
expect_interrupted <- function(cl, code) {
  got <- tryCatch(
    {
      suppressWarnings(code)
      for (i in 1:2000) Sys.sleep(0.01)
      "done"
    },
    interrupt = function(e) "interrupted"
  )
  expect_identical(got, "interrupted")
  expect_identical(par_lapply(1:3, identity, .on = cl, .control = on_cluster()), as.list(1:3))
  expect_identical(parallel::clusterCall(cl, function() 7), list(7, 7))
}

test_that("a function that calls compiled code by its address is named before anything is sent", {
  cl <- common_cluster(1L)
  address <- getNativeSymbolInfo("R_alloc")$address
  compiled <- function(i, j) NULL
  body(compiled) <- call("{", call(".Call", address, quote(x[i, ])))
  told <- expect_error(
    par_lapply(1:2, function(i) compiled(i), .on = cl, .control = on_cluster()), class = "regatta_error_address"
  )
  expect_match(conditionMessage(told), "^compiled: calls compiled code by its address .* package")
  expect_error(par_lapply(1:2, compiled, .on = cl, .control = on_cluster()), class = "regatta_error_address")
  # One that is only there may be.
  expect_identical(
    par_lapply(1:2, function(i, at) typeof(at), at = address, .on = cl, .control = on_cluster()),
    list("externalptr", "externalptr")
  )
})

test_that("a connection of the session is named before anything is sent that uses it", {
  path <- withr::local_tempfile()
  # The nodes have a connection of that number, the one to the session, since these are there before the nodes.
  kept <- list(file(path, "w"), file(path, "w"))
  withr::defer(for (con in kept) close(con))
  con <- kept[[2L]]
  cl <- common_cluster(1L)
  control <- on_cluster()
  use <- function(i) {
    cat("text\n", file = con)
    i
  }
  told <- expect_error(par_lapply(1:2, use, .on = cl, .control = control), class = "regatta_error_connection")
  expect_match(conditionMessage(told), "^con: a connection is open in the process alone")
  expect_error(par_lapply(kept, isOpen, .on = cl, .control = control), class = "regatta_error_connection")
  expect_error(par_call(close(con), .on = cl, .control = control), class = "regatta_error_connection")
  # One that nobody uses may be there, and those of every process may be used.
  out <- stdout()
  expect_identical(
    par_lapply(1:2, function(i, to) inherits(to, "connection"), to = out, .on = cl, .control = control), list(TRUE, TRUE)
  )
  expect_identical(par_lapply(1:2, function(i) i, .on = cl, .control = control), list(1L, 2L))
})

test_that("large objects that FUN has captured are shared, once for all workers", {
  cl <- common_cluster() # which has brought no memory of its own so far
  big <- numbers(5e5)
  table <- data.frame(n = numbers(2e5), s = rep(c("a", "b"), 1e5))
  small <- 1:1000
  inode <- function(i, more) {
    region <- regatta::shm_info()$regions
    links <- Sys.readlink(list.files("/proc/self/fd", full.names = TRUE))
    list(
      value = sum(big) + sum(table$n) + sum(small) + sum(more),
      shared = c(
        regatta::is_shm(big), regatta::is_shm(table$s), regatta::is_shm(small), regatta::is_shm(more)
      ),
      own = sum(region$bytes[region$owner == Sys.getpid()]), pid = Sys.getpid()
    )
  }
  more <- as.integer(numbers(1e6))
  got <- par_lapply(1:4, inode, more = more, .on = cl, .control = on_cluster(batch = 1))
  for (one in got) {
    expect_identical(one$value, sum(big) + sum(table$n) + sum(small) + sum(more))
    expect_identical(one$shared, c(TRUE, TRUE, FALSE, TRUE))
    expect_identical(one$own, 0) # the pages are the session's
  }
  # elements of X too
  X <- list(numbers(2e5), numbers(2e5))
  got <- par_lapply(X, function(x) c(sum(x), regatta::is_shm(x)), .on = cl, .control = on_cluster())
  expect_identical(got, lapply(X, function(x) c(sum(x), 1)))
  # and neither with another threshold, nor without shared memory
  size <- function(...) {
    par_lapply(1, function(i) regatta::is_shm(big), .on = cl, .control = on_cluster(...))[[1L]]
  }
  expect_true(size(share_min = "4MB"))
  expect_false(size(share_min = "5MB"))
  expect_false(size(shm = FALSE))
  expect_false(is_shm(big))
})

test_that("every verb gives on a cluster what it gives on forked workers", {
  cl <- common_cluster()
  two <- on_cluster(workers = 2L)
  both <- function(call) {
    call <- substitute(call)
    env <- parent.frame()
    expect_identical(eval(call, list(.on = cl), env), eval(call, list(.on = NULL), env))
  }
  X <- list(a = 1, b = NULL, c = "x")
  both(par_lapply(X, function(x, y) list(x, y, rnorm(1)), y = 2, .on = .on, .control = two))
  both(par_vapply(1:7, function(i) c(m = i, s = runif(1)), numeric(2), .on = .on, .control = two))
  both(par_vapply(1:4, function(i) rep(i, 1e5), numeric(1e5), .on = .on, .control = two))
  both(par_mapply(function(a, b) a + b, c(u = 1, v = 2), 3:4, .on = .on, .control = two))
  both(par_reduce(1:1000, sqrt, `+`, 5, .on = .on, .control = two))
  both(par_value(par_call(sum(X$a, 4), .on = .on, .control = two)))
  both(as.vector(shm_fill(c(30, 40), sqrt, .on = .on, .control = two)))
  both(as.vector(shm_map(shm_array(500, fill = 4), function(v, d) v / d, d = 2, .on = .on,
    .control = two)))
  stream <- par_stream(1:5, function(i) i * 10, .on = cl, .control = two)
  taken <- list()
  while (par_more(stream)) taken[[length(taken) + 1L]] <- par_next(stream)
  expect_identical(taken, as.list(c(10, 20, 30, 40, 50)))
  run <- par_last()
  expect_identical(run$executor, "cluster")
  expect_true(all(run$elements$status == "done" & run$elements$end >= run$elements$start))
})

test_that("what is sent for an object in shared memory is a handle, both ways", {
  cl <- common_cluster(1L)
  shared <- shm_share(numbers(1e6))
  got <- par_lapply(1:2, function(i) if (i == 1) shared else shared + 0, .on = cl,
    .control = on_cluster())
  expect_true(is_shm(got[[1L]]))
  expect_lt(par_last()$elements$bytes[[1L]], 2000)
  expect_identical(got[[1L]], got[[2L]])
  # what a worker has shared by itself may be gone by then
  got <- par_lapply(1, function(i) regatta::shm_share(rep(1, 1e5)), .on = cl,
    .control = on_cluster())
  expect_identical(got[[1L]], rep(1, 1e5))
  expect_false(is_shm(got[[1L]]))
  copied <- par_lapply(1, function(i) shared, .on = cl, .control = on_cluster(copy = TRUE))
  expect_false(is_shm(copied[[1L]]))
})

test_that("an array is written in place by the nodes", {
  cl <- common_cluster()
  x <- shm_array(c(4, 3))
  count <- shm_counter(0)
  par_lapply(1:3, function(j) {
    x[, j] <- j
    shm_add(count, 1)
    NULL
  }, .on = cl, .control = on_cluster())
  expect_identical(as.vector(x), rep(c(1, 2, 3), each = 4))
  expect_identical(shm_value(count), 3)
})

test_that("output and conditions arrive in their order, while the element runs", {
  cl <- common_cluster(1L)
  seen <- character()
  note <- function(text) seen <<- c(seen, text)
  flag <- shm_counter(0)
  out <- capture.output(
    done <- withCallingHandlers(
      par_lapply(1:2, function(i) {
        cat("first ", i, "\n", sep = "")
        message("second ", i)
        if (i == 1) while (shm_value(flag) == 0) Sys.sleep(0.01) # until the message has arrived
        system(paste("echo third", i))
        warning("fourth ", i)
        signalCondition(structure(class = c("own", "condition"), list(message = "m", call = NULL)))
        cat("last")
        NULL
      }, .on = cl, .control = on_cluster()),
      message = function(m) {
        note(conditionMessage(m))
        shm_add(flag, 1)
        tryInvokeRestart("muffleMessage")
      },
      warning = function(w) {
        note(conditionMessage(w))
        tryInvokeRestart("muffleWarning")
      },
      own = function(c) note("own")
    )
  )
  expect_identical(seen, c("1: second 1\n", "1: fourth 1", "own", "2: second 2\n", "2: fourth 2", "own"))
  expect_identical(out, c(
    "1: first 1", "1: third 1", "1: last", "2: first 2", "2: third 2", "2: last"
  ))
  expect_silent(par_lapply(1, function(i) cat("x"), .on = cl, .control = on_cluster(stdout = "drop")))
  expect_output(
    par_lapply(2:1, function(i) cat("x", i), .on = cl, .control = on_cluster(stdout = "capture")),
    "1: x 2\n2: x 1", fixed = TRUE
  )
  expect_message(
    expect_message(
      par_lapply(1, function(i) for (k in 1:3) message("m"), .on = cl,
        .control = on_cluster(max_conditions = 1)),
      "1: m"
    ),
    "2 more messages", fixed = TRUE
  )
})

test_that("errors carry index, pid, class and calls; the other elements are there", {
  cl <- common_cluster()
  f <- function(i) {
    inner <- function(secret) rlang::abort("wrong", class = "mine", secret = secret)
    if (i == 2) inner(42) else i
  }
  failed <- expect_error(
    par_lapply(1:3, f, .on = cl, .control = on_cluster()), class = "regatta_error_element"
  )
  expect_identical(failed$index, 2L)
  expect_s3_class(failed$parent, "mine")
  expect_identical(failed$parent$secret, 42)
  expect_match(conditionMessage(failed), "inner(42)", fixed = TRUE)
  got <- suppressWarnings(
    par_lapply(1:3, f, .on = cl, .control = on_cluster(errors = "collect"))
  )
  expect_identical(got[c(1, 3)], list(1L, 3L))
  expect_s3_class(got[[2L]], "regatta_error_element")
  tried <- par_lapply(1:3, function(i) as.integer(Sys.getenv("REGATTA_TRY")), .on = cl,
    .control = on_cluster(retries = 2))
  expect_identical(tried, list(1L, 1L, 1L))
  tried <- par_lapply(1:3, function(i) {
    try <- Sys.getenv("REGATTA_TRY")
    if (i == 2 && try != "3") stop("again") else try
  }, .on = cl, .control = on_cluster(retries = 2))
  expect_identical(tried, list("1", "3", "1"))
  expect_error(
    par_lapply(1, function(i) stdin(), .on = cl, .control = on_cluster()), "cannot leave the process"
  )
})

test_that("an error ends what the other nodes do, and the cluster can be used at once", {
  cl <- common_cluster()
  begun <- shm_counter(0)
  expect_error(
    par_lapply(1:2, function(i) {
      shm_add(begun, 1)
      while (shm_value(begun) < 2) Sys.sleep(0.01)
      if (i == 1) stop("enough")
      while (TRUE) Sys.sleep(0.05)
    }, .on = cl, .control = on_cluster(batch = 1)),
    "enough"
  )
  expect_identical(parallel::clusterCall(cl, function() 7), list(7, 7))
  expect_identical(par_lapply(1:4, identity, .on = cl, .control = on_cluster()), as.list(1:4))
})

test_that("Ctrl-C ends a run and leaves the cluster usable, again and again", {
  cl <- common_cluster()
  session <- Sys.getpid()
  for (round in 1:5) {
    expect_interrupted(cl, {
      par_lapply(1:50, function(i) {
        if (i == 7) tools::pskill(session, 2L)
        Sys.sleep(if (i > 7) 0.02 else 0.001)
      }, .on = cl, .control = on_cluster())
    })
  }
})

test_that("an interrupt that comes at any moment leaves no half message behind", {
  cl <- common_cluster()
  for (delay in seq(0, 0.12, by = 0.01)) {
    # While system() starts the shell R does not hear of an interrupt.
    started <- withr::local_tempfile()
    expect_interrupted(cl, {
      wait <- sprintf("while [ ! -e %s ]; do sleep 0.002; done", shQuote(started))
      system(sprintf("(%s; sleep %.3f; kill -INT %d) &", wait, delay, Sys.getpid()))
      file.create(started)
      par_lapply(1:60, function(i) if (i %% 7 == 0) Sys.sleep(0.003), .on = cl,
        .control = on_cluster())
    })
  }
})

test_that("an element over its limit is interrupted, then its node is ended", {
  cl <- local_cluster()
  f <- function(i) {
    if (i == 2) tryCatch(while (TRUE) Sys.sleep(0.01), finally = message("left"))
    i
  }
  messages <- got <- NULL
  local({
    patient_limits()
    messages <<- capture_messages(suppressWarnings(
      got <<- par_lapply(1:4, f, .on = cl, .control = on_cluster(timeout = 1, errors = "collect"))
    ))
  })
  expect_identical(messages, "2: left\n")
  expect_s3_class(got[[2L]], "regatta_error_timeout")
  expect_identical(got[-2L], list(1L, 3L, 4L))
  spin <- function(i) if (i == 1) while (TRUE) i else i
  local({
    patient_limits()
    got <<- suppressWarnings(
      par_lapply(1:3, spin, .on = cl, .control = on_cluster(cpu_timeout = 0.2, errors = "collect"))
    )
  })
  expect_identical(got[[1L]]$kind, "cpu")
  # one that does not listen
  deaf <- function(i) {
    if (i == 1) {
      suspendInterrupts(repeat tryCatch(Sys.sleep(0.01), interrupt = function(e) NULL))
    }
    i
  }
  got <- suppressWarnings(
    par_lapply(1:3, deaf, .on = cl, .control = on_cluster(timeout = 1, errors = "collect"))
  )
  expect_s3_class(got[[1L]], "regatta_error_timeout")
  expect_identical(got[-1L], list(2L, 3L))
})

test_that("an element that waits for a program at its limit is ended with that, and its node goes on", {
  cl <- common_cluster(1L)
  node <- parallel::clusterCall(cl, Sys.getpid)
  # R hears no interrupt in system(), and what follows it is over the limit, too.
  waits <- list(
    function(i) if (i == 2L) system("sleep 300") else i,
    function(i) if (i == 2L && system("sleep 300") != 0) stop("nobody slept") else i
  )
  for (f in waits) {
    got <- suppressWarnings(par_lapply(1:3, f, .on = cl, .control = on_cluster(timeout = 0.5, errors = "collect")))
    expect_s3_class(got[[2L]], "regatta_error_timeout")
    expect_identical(got[-2L], list(1L, 3L))
  }
  expect_identical(parallel::clusterCall(cl, Sys.getpid), node)
})

test_that("a node that dies loses its element and no other", {
  cl <- local_cluster(3L)
  f <- function(i) {
    if (i == 4) tools::pskill(Sys.getpid(), 9L)
    i
  }
  got <- suppressWarnings(
    par_lapply(1:40, f, .on = cl, .control = on_cluster(errors = "collect"))
  )
  expect_s3_class(got[[4L]], "regatta_error_death")
  expect_identical(got[-4L], as.list((1:40)[-4L]))
  # the dead node is left out, with a warning
  expect_warning(
    got <- par_lapply(1:6, identity, .on = cl, .control = on_cluster()),
    class = "regatta_warning_workers"
  )
  expect_identical(got, as.list(1:6))
  # tried again by another
  once <- shm_counter(0)
  got <- suppressWarnings(par_lapply(1:6, function(i) {
    if (i == 3 && shm_add(once, 1) == 1) quit("no")
    i
  }, .on = cl, .control = on_cluster(retries = 1)))
  expect_identical(got, as.list(1:6))
  expect_error(
    suppressWarnings(par_lapply(1:6, function(i) quit("no"), .on = cl, .control = on_cluster())),
    class = "regatta_error"
  )
  expect_error(
    par_lapply(1:6, identity, .on = cl, .control = on_cluster()), class = "regatta_error_start"
  )
})

test_that("an element after which its node ends is lost with it, and not run again on the others", {
  cl <- local_cluster(2L)
  runs <- shm_counter()
  expect_warning(
    got <- par_lapply(1:4, function(i) {
      if (i == 2L) {
        shm_add(runs)
        closeAllConnections()
      }
      i
    }, .on = cl, .control = on_cluster(errors = "collect", batch = 1)),
    class = "regatta_warning_errors"
  )
  expect_s3_class(got[[2L]], "regatta_error_death")
  expect_identical(got[-2L], list(1L, 3L, 4L))
  expect_identical(shm_value(runs), 1)
})

test_that("random numbers are those of forked workers and the node's own go on", {
  cl <- common_cluster()
  set <- function() assign(".Random.seed", c(10407L, 1:6), envir = globalenv())
  parallel::clusterCall(cl, set)
  expected <- parallel::clusterCall(cl, function() runif(2))
  parallel::clusterCall(cl, set)
  for (seed in list(3L, 4L)) {
    control <- par_control(seed = seed, progress = FALSE, workers = 2L)
    expect_identical(
      par_lapply(1:5, function(i) rnorm(2), .on = cl, .control = control),
      par_lapply(1:5, function(i) rnorm(2), .control = control)
    )
  }
  expect_identical(parallel::clusterCall(cl, function() runif(2)), expected)
})

test_that("a node has the variables of the workspace for the run and is then as it was", {
  skip_if_not_installed("globals")
  cl <- common_cluster()
  withr::defer(rm(list = c("rg_n", "rg_f"), envir = globalenv()))
  withr::defer(parallel::clusterEvalQ(cl, {
    rm(rg_n)
    options(mc.cores = NULL)
    Sys.unsetenv("REGATTA_SHARE")
  }))
  assign("rg_n", 2, globalenv())
  assign("rg_f", eval(quote(function(i) i * rg_n), globalenv()), globalenv())
  parallel::clusterEvalQ(cl, {
    rg_n <- "mine"
    options(mc.cores = 5)
    Sys.setenv(REGATTA_SHARE = "6")
  })
  code <- eval(quote(function(i) c(rg_f(i), as.numeric(Sys.getenv("REGATTA_SHARE")))), globalenv())
  share <- max(1, as.integer(workers_available()) %/% 2L)
  got <- par_lapply(1:2, code, .on = cl, .control = on_cluster())
  expect_identical(got, list(c(2, share), c(4, share)))
  after <- parallel::clusterEvalQ(cl, list(
    rg_n, exists("rg_f"), getOption("mc.cores"), Sys.getenv("REGATTA_SHARE"), sink.number()
  ))
  expect_identical(after[[1L]][-5L], list("mine", FALSE, 5, "6"))
  value <- par_value(par_call(rg_f(10), .on = cl, .control = on_cluster()))
  expect_identical(value, 20)
  local_function("has_globals", function() FALSE)
  expect_warning(
    par_lapply(1, identity, .on = cl, .control = on_cluster()), class = "regatta_warning_globals"
  )
})

test_that("a map inside of a node forks, within the node's share", {
  cl <- common_cluster()
  got <- par_lapply(1:2, function(i) {
    unlist(regatta::par_lapply(1:3, function(j) i * j,
      .control = regatta::par_control(workers = 2L, progress = FALSE)))
  }, .on = cl, .control = on_cluster())
  expect_identical(got, list(1:3, 2L * 1:3))
})

test_that("a node that cannot share memory gets the data; what needs the memory is refused", {
  cl <- local_far_cluster()
  big <- numbers(2e5)
  got <- par_lapply(1:3, function(i) list(sum(big), regatta::is_shm(big)), .on = cl,
    .control = on_cluster())
  expect_identical(got, rep(list(list(sum(big), FALSE)), 3L))
  shared <- shm_share(big)
  got <- par_lapply(1, function(i) list(regatta::is_shm(shared), shared), .on = cl,
    .control = on_cluster())
  expect_identical(got, list(list(FALSE, big)))
  expect_output(
    expect_error(
      par_lapply(1:3, function(i) if (i == 2) stop("far") else cat("near"), .on = cl,
        .control = on_cluster(batch = 1)),
      "far"
    ),
    "1: near"
  )
  expect_error(shm_fill(10, sqrt, .on = cl, .control = on_cluster()), "shares no memory with this session, which shm_fill")
  expect_error(
    par_lapply(1, identity, .on = cl, .control = on_cluster(timeout = 5)),
    "shares no memory with this session, which a limit"
  )
  run <- par_last()
  expect_identical(par_lapply(1, identity, .on = cl, .control = on_cluster()), list(1))
})

test_that("what an abandoned run left unread is no reply to the next one", {
  cl <- common_cluster(1L)
  handle <- par_call({
    cat("a")
    1
  }, .on = cl, .control = on_cluster())
  rm(handle)
  gc()
  expect_identical(par_lapply(1:3, function(i) i + 1, .on = cl, .control = on_cluster()), list(2, 3, 4))
})

test_that("a node that has a call or a stream which nobody can ask for anything any more comes free for others", {
  cl <- common_cluster(1L)
  settings <- on_cluster()
  drops <- list(
    call = function() par_call(Sys.sleep(600), .on = cl, .control = settings),
    stream = function() {
      stream <- par_stream(1:2, function(i) if (i == 2) Sys.sleep(600) else i, .on = cl, .control = settings)
      par_next(stream)
    }
  )
  uses <- list(
    function() par_lapply(1:2, identity, .on = cl, .control = settings),
    function() parallel::clusterApply(cl, 1:2, identity)
  )
  for (drop in drops) {
    for (use in uses) {
      drop()
      expect_identical(within_seconds(60, use()), list(1L, 2L))
    }
  }
})

test_that("a call may be forgotten while its node is waited for", {
  cl <- common_cluster(2L)
  folder <- withr::local_tempdir()
  handle <- par_call(Sys.sleep(600), .on = cl, .control = on_cluster())
  # Each waits for the other: both nodes are needed.
  both <- function(i) {
    message("begun")
    file.create(file.path(folder, i))
    while (!file.exists(file.path(folder, 3 - i))) Sys.sleep(0.01)
    i
  }
  forget <- function(m) {
    handle <<- NULL
    invokeRestart("muffleMessage")
  }
  got <- within_seconds(60, withCallingHandlers(
    par_lapply(1:2, both, .on = cl, .control = on_cluster(batch = 1L)), message = forget
  ))
  expect_identical(got, list(1L, 2L))
})

test_that("fewer workers than nodes, one node, and forked nodes will do", {
  cl <- common_cluster()
  pids <- par_lapply(1:4, function(i) Sys.getpid(), .on = cl, .control = on_cluster(workers = 1L))
  expect_length(unique(pids), 1L)
  expect_length(par_last()$workers$pid, 1L)
  pids <- par_lapply(1:4, function(i) Sys.getpid(), .on = cl[2L], .control = on_cluster())
  expect_length(unique(pids), 1L)
  forked <- withr::with_preserve_seed(parallel::makeForkCluster(1L))
  withr::defer(parallel::stopCluster(forked))
  expect_identical(par_lapply(1:3, sqrt, .on = forked, .control = on_cluster()), lapply(1:3, sqrt))
})

test_that("a cluster is an error at once in a process that has not made it, and once it is stopped", {
  session <- Sys.getpid()
  settings <- on_cluster(timeout = 20)
  own <- function(.on) {
    tryCatch(par_lapply(1:2, identity, .on = .on), regatta_error_owner = function(e) c(e$pid, Sys.getpid()))
  }
  used <- cluster_start(1L)
  cl <- used$cluster
  other <- common_cluster()
  # Nobody has used it yet.
  forked <- par_lapply(1L, function(i) own(cl), .control = par_control(workers = 1L, timeout = 20, seed = 1L))[[1L]]
  expect_identical(forked[[1L]], session)
  sent <- par_lapply(1L, function(i) own(cl), .on = cl, .control = settings)[[1L]]
  expect_identical(sent[[1L]], NA_integer_)
  expect_identical(par_lapply(1L, function(i) own(cl), .on = other, .control = settings)[[1L]][[1L]], NA_integer_)
  # By now it has been.
  forked <- par_lapply(1L, function(i) own(cl), .control = par_control(workers = 1L, timeout = 20, seed = 1L))[[1L]]
  expect_identical(forked[[1L]], session)
  expect_false(forked[[2L]] == session)
  expect_identical(par_lapply(1:2, identity, .on = cl, .control = settings), list(1L, 2L))

  unused <- cluster_start(1L)
  unused$stop()
  used$stop()
  for (stopped in list(unused$cluster, cl)) {
    err <- expect_error(par_lapply(1L, identity, .on = stopped, .control = settings), class = "regatta_error_stopped")
    expect_match(conditionMessage(err), "Make another one")
  }
})

test_that("a part of nodes that nobody can tell apart does the work of a run", {
  if (!nzchar(system.file(package = "mirai"))) skip("mirai is not installed")
  got <- fault_run(function() {
    cl <- mirai::make_cluster(2L)
    on.exit(mirai::stop_cluster(cl))
    options(regatta.on = cl)
    one <- function(...) par_control(workers = 1L, batch = 1L, progress = FALSE, ...)
    stream <- par_stream(1:6, function(i) i * 2, .control = one())
    taken <- list()
    while (par_more(stream)) taken <- c(taken, par_next(stream))
    list(
      map = par_lapply(1:6, function(i) i * 2, .control = one()), stream = taken,
      drawn = par_lapply(1:6, function(i) runif(1), .control = one(seed = 1L)),
      error = tryCatch(par_lapply(1:6, function(i) if (i == 5L) stop("no") else i, .control = one()),
        error = conditionMessage),
      all = par_lapply(1:6, function(i) i * 2), left = unlist(parallel::clusterCall(cl, function() {
        ls(get("cluster_worker", asNamespace("regatta")))
      }))
    )
  })$value
  for (way in c("map", "stream", "all")) expect_identical(got[[way]], as.list(1:6 * 2))
  expect_identical(got$drawn, par_lapply(1:6, function(i) runif(1), .control = par_control(seed = 1L, workers = 2L)))
  expect_match(got$error, "element 5")
  expect_length(got$left, 0L)
})

test_that("clusters that have no sockets will do", {
  # Loaded, mirai keeps descriptors and threads to the end of the session.
  if (!nzchar(system.file(package = "mirai"))) skip("mirai is not installed")
  got <- fault_run(function() {
    cl <- mirai::make_cluster(1L)
    on.exit(mirai::stop_cluster(cl))
    big <- 1:3e5 + 0.5
    list(
      par_lapply(1:5, function(i) c(i, regatta::is_shm(big)), .on = cl),
      tryCatch(par_lapply(1:5, function(i) if (i == 3) stop("no") else i, .on = cl), error = identity),
      tryCatch(par_lapply(1, function(i) message("m"), .on = cl), message = identity),
      {
        within <- NULL
        outer <- withCallingHandlers(par_lapply(1:3, function(i) message(i), .on = cl), message = function(m) {
          within <<- tryCatch(par_lapply(1, identity, .on = cl), error = identity)
          invokeRestart("muffleMessage")
        })
        list(outer, class(within), conditionMessage(within), par_lapply(1:2, identity, .on = cl))
      }
    )
  })$value
  expect_identical(got[[1L]], lapply(1:5, function(i) c(i, TRUE)))
  expect_identical(got[[2L]]$index, 3L)
  expect_match(conditionMessage(got[[3L]]), "1: m", fixed = TRUE)
  # Another while that has it is refused, and does nothing to it.
  expect_identical(got[[4L]][[1L]], vector("list", 3L))
  expect_true("regatta_error_start" %in% got[[4L]][[2L]])
  expect_match(got[[4L]][[3L]], "all of this cluster are at calls, maps or streams that are under way", fixed = TRUE)
  expect_identical(got[[4L]][[4L]], list(1L, 2L))
})

test_that("a node without this version of the package says so", {
  cl <- common_cluster(1L)
  local_function("regatta_version", function() "99.0")
  expect_snapshot(
    error = TRUE, par_lapply(1, identity, .on = cl, .control = on_cluster()),
    transform = function(x) sub("pid [0-9]+", "pid <pid>", sub("regatta [0-9.]+,", "regatta <version>,", x))
  )
})

test_that("a call that waits for its node has the variables of the time when it was made", {
  cl <- common_cluster(1L)
  v <- 1
  gate <- withr::local_tempfile()
  first <- par_call(while (!file.exists(gate)) Sys.sleep(0.01), .on = cl, .control = on_cluster())
  second <- par_call(v, .on = cl, .control = on_cluster())
  v <- 2
  file.create(gate)
  expect_null(par_value(first))
  expect_identical(par_value(second), 1)
})

test_that("nothing is left behind", {
  if (!is.null(common)) common$stop()
  expect_no_detritus(detritus)
})
