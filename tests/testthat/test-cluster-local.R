detritus <- detritus_snapshot()

# For all tests that leave a cluster as it was.
standing <- cluster_local(2L)

test_that("every verb gives on workers of a fork server what it gives on forked workers", {
  cl <- standing
  two <- on_local(workers = 2L)
  both <- function(call) {
    call <- substitute(call)
    env <- parent.frame()
    expect_identical(eval(call, list(.on = cl), env), eval(call, list(.on = NULL), env))
  }
  X <- list(a = 1, b = NULL, c = "x")
  y <- 10
  both(par_lapply(X, function(x, y) list(x, y, rnorm(1)), y = 2, .on = .on, .control = two))
  both(par_lapply(1:50, function(i) i + y, .on = .on, .control = two))
  both(par_lapply(1:4, function(i) rnorm(2e5), .on = .on, .control = two))
  both(par_sapply(c(u = 1, v = 2), function(x) x + y, .on = .on, .control = two))
  both(par_vapply(1:7, function(i) c(m = i, s = runif(1)), numeric(2), .on = .on, .control = two))
  both(par_mapply(function(a, b) a + b, c(u = 1, v = 2), 3:4, .on = .on, .control = two))
  both(par_reduce(1:20, identity, `+`, .on = .on, .control = two))
  matrices <- list(matrix(1:4, 2), matrix(as.double(1:4e5), 2e5))
  both(par_lapply(matrices, `[`, , 1, .on = .on, .control = two))
  both(par_lapply(matrices, function(x, y, z) c(missing(y), missing(z), dim(x)), z = , .on = .on, .control = two))
  both(par_lapply(list(quote(expr = ), 1), function(x) identical(x, quote(expr = )), .on = .on, .control = two))
  both(par_value(par_call(y + rnorm(1), .on = .on, .control = on_local())))
  both({
    stream <- par_stream(1:9, function(i) i * y, .on = .on, .control = two)
    got <- list()
    while (par_more(stream)) got[[length(got) + 1L]] <- par_next(stream)
    got[order(unlist(got))]
  })
  both(as.vector(shm_fill(c(30, 40), sqrt, .on = .on, .control = two)))
})

test_that("the status of a cluster says what each worker is at, however the workers were started", {
  skip_unless_linux()
  columns <- c(
    "host", "pid", "state", "call", "element", "element_for", "busy_for", "cpu", "memory", "heard", "reason"
  )
  for (start in c("forkserver", "parallel", "sequential")) {
    cl <- local_pool(3L, start = start, timeout = 60 * slowness())
    pids <- cluster_pids(cl)
    states <- function() cluster_status(cl)$state
    idle <- cluster_status(cl)
    expect_named(idle, columns)
    expect_identical(idle$host, rep("localhost", 3L))
    expect_identical(idle$pid, pids)
    expect_identical(idle$state, rep("idle", 3L))
    expect_identical(c(idle$busy_for, idle$reason), rep(NA_character_, 6L))
    expect_identical(idle$heard, c(0, 0, 0))
    expect_true(all(idle$memory > 1e6 & idle$memory < 2^40) && all(idle$cpu >= 0 & idle$cpu < 3600))
    expect_identical(cluster_status(cl[3:2])$pid, pids[3:2])

    # A call of ours, one of parallel's, and one that was stopped.
    asked <- .Call(regatta:::ffi_clock)
    gate <- withr::local_tempfile()
    wait <- function(gate) while (!file.exists(gate)) Sys.sleep(0.01)
    call <- par_call(wait(gate), .on = cl[1L], .control = on_local())
    parallel:::sendCall(cl[[2L]], wait, list(gate))
    tools::pskill(pids[[3L]], tools::SIGSTOP)
    wait_until(identical(states(), c("busy", "busy", "silent")))
    expect_identical(cluster_status(cl)$call, c("par_call", "parallel", NA))
    first <- cluster_status(cl)$busy_for
    expect_true(all(first[1:2] >= 0 & first[1:2] <= .Call(regatta:::ffi_clock) - asked) && is.na(first[[3L]]))
    wait_until(all(cluster_status(cl)$busy_for[1:2] > first[1:2]))
    file.create(gate)
    tools::pskill(pids[[3L]], tools::SIGCONT)
    par_value(call)
    parallel:::recvResult(cl[[2L]])
    wait_until(identical(states(), rep("idle", 3L)))

    tools::pskill(pids[[2L]], tools::SIGKILL)
    wait_until(identical(states(), c("idle", "gone", "idle")))
    gone <- cluster_status(cl)[2L, ]
    expect_true(all(is.na(gone[c("pid", "busy_for", "cpu", "memory", "heard")])))
    expect_match(gone$reason, "another takes its place")
    again <- cluster_pids(cl)
    expect_identical(cluster_status(cl)$pid, again)
    expect_identical(states(), rep("idle", 3L))
    parallel::stopCluster(cl)
    expect_error(cluster_status(cl), class = "regatta_error_stopped")
  }
})

test_that("workers stand between runs, and a run leaves them as they were", {
  cl <- standing
  before <- cluster_pids(cl)
  expect_length(unique(before), 2L)
  hidden <- 7
  code <- function(i) {
    Sys.sleep(0.05)
    c(Sys.getpid(), hidden)
  }
  environment(code) <- globalenv()
  withr::defer(rm(hidden, envir = globalenv()))
  assign("hidden", 7, envir = globalenv())
  for (run in 1:3) {
    got <- par_vapply(1:4, code, numeric(2), .on = cl, .control = on_local(batch = 1L))
    expect_true(all(got[1L, ] %in% before))
    expect_identical(got[2L, ], rep(7, 4))
  }
  expect_identical(cluster_pids(cl), before)
  left <- parallel::clusterCall(cl, function() c(ls(globalenv()), Sys.getenv("REGATTA_SHARE")))
  expect_identical(left, list("", ""))
})

test_that("results are read in place and outlive the run and the cluster", {
  cl <- local_pool(2L)
  first <- par_lapply(1:2, function(i) rep(i + 0.5, 1e6), .on = cl, .control = on_local())
  second <- par_lapply(3:4, function(i) rep(i + 0.5, 1e6), .on = cl, .control = on_local())
  expect_true(all(vapply(c(first, second), is_shm, NA)))
  parallel::stopCluster(cl)
  expect_identical(first[[2L]], rep(2.5, 1e6))
  expect_identical(second[[1L]], rep(3.5, 1e6))
})

test_that("large arguments go by handle and come back as the same", {
  cl <- standing
  x <- shm_share(sqrt(1:1e6))
  got <- par_lapply(1:2, function(i, x) x, x = x, .on = cl, .control = on_local())
  expect_true(is_shm(got[[1L]]))
  expect_identical(got[[1L]], sqrt(1:1e6))
  big <- sqrt(1:3e5)
  expect_identical(
    par_sapply(1:3, function(i) big[[i]], .on = cl, .control = on_local()), big[1:3]
  )
})

test_that("output, conditions, errors, retries and limits are as on forked workers", {
  cl <- standing
  code <- function(i) {
    cat("out of", i, "\n")
    system(paste("echo program", i))
    message("message ", i)
    if (i == 2L) warning("warning 2")
    i
  }
  text <- capture.output(
    expect_warning(
      expect_message(
        expect_message(
          par_lapply(1:2, code, .on = cl, .control = on_local()), "message 1"
        ), "message 2"
      ), "warning 2"
    )
  )
  expect_setequal(trimws(text), c("1: out of 1", "1: program 1", "2: out of 2", "2: program 2"))
  cnd <- expect_error(
    par_lapply(1:3, function(i) if (i == 2L) stop("no ", i) else i, .on = cl, .control = on_local()),
    class = "regatta_error_element"
  )
  expect_equal(cnd$index, 2)
  expect_identical(
    par_lapply(1:3, function(i) if (i == 2L && Sys.getenv("REGATTA_TRY") == "1") stop("no") else i,
      .on = cl, .control = on_local(retries = 1)),
    list(1L, 2L, 3L)
  )
  slow <- suppressWarnings(par_lapply(1:2, function(i) if (i == 2L) Sys.sleep(60) else i,
    .on = cl, .control = on_local(timeout = 0.2, errors = "collect")))
  expect_s3_class(slow[[2L]], "regatta_error_timeout")
  expect_identical(par_lapply(1:2, identity, .on = cl, .control = on_local()), list(1L, 2L))
})

test_that("the functions of package parallel work on it", {
  withr::local_seed(1)
  cl <- local_pool(3L)
  expect_identical(parallel::parLapply(cl, 1:5, function(i) i^2), lapply(1:5, function(i) i^2))
  expect_identical(parallel::clusterApplyLB(cl, 1:7, sqrt), lapply(1:7, sqrt))
  expect_identical(parallel::clusterMap(cl, `+`, 1:3, 4:6), list(5L, 7L, 9L))
  expect_identical(parallel::clusterApply(cl, 1:7, sqrt), lapply(1:7, sqrt))
  expect_identical(parallel::parLapplyLB(cl, 1:7, sqrt), lapply(1:7, sqrt))
  x <- matrix(c(3, 1, 2, 6, 5, 4), 2L, dimnames = list(c("a", "b"), NULL))
  for (map in list(parallel::parSapply, parallel::parSapplyLB)) {
    expect_identical(map(cl, c(a = 1, b = 4), function(i) c(i, sqrt(i))), sapply(c(a = 1, b = 4), function(i) c(i, sqrt(i))))
  }
  expect_identical(parallel::parApply(cl, x, 1L, range), apply(x, 1L, range))
  expect_identical(unname(parallel::parRapply(cl, x, sum)), unname(rowSums(x)))
  expect_identical(parallel::parCapply(cl, x, sum), colSums(x))
  expect_identical(parallel::clusterSplit(cl, 1:7), parallel::splitIndices(7, 3))
  exported <- 5
  parallel::clusterExport(cl, "exported", environment())
  expect_identical(parallel::clusterEvalQ(cl, exported + 1), list(6, 6, 6))
  parallel::clusterSetRNGStream(cl, 3)
  first <- parallel::clusterCall(cl, function() rnorm(2))
  parallel::clusterSetRNGStream(cl, 3)
  expect_identical(parallel::clusterCall(cl, function() rnorm(2)), first)
  expect_error(parallel::clusterCall(cl, function() stop("inside")), "inside")
  # A run in between moves nothing of it.
  par_lapply(1:6, function(i) rnorm(1), .on = cl, .control = on_local())
  expect_identical(parallel::clusterEvalQ(cl[2:3], exported + 1), list(6, 6))
  expect_identical(par_sapply(1:3, function(i) i + exported, .on = cl[2:3], .control = on_local()), 1:3 + 5)
})

test_that("functions of parallel give workers large vectors in shared memory, once for all", {
  cluster <- local_pool(2)
  large <- list(x = seq_len(2e5) / 3, y = list(data.frame(a = rev(1:3e5) + 0L, b = "b"), NULL))
  gc()
  before <- nrow(shm_info()$regions)
  got <- parallel::clusterCall(cluster, function(large, small) {
    was <- regatta::is_shm(large$x) && regatta::is_shm(large$y[[1L]]$a)
    large$x[[1L]] <- 0
    list(was = was, large = large, small = small)
  }, large, 1:3)
  changed <- large
  changed$x[[1L]] <- 0
  expect_identical(got, rep(list(list(was = TRUE, large = changed, small = 1:3)), 2L))
  rm(got)
  gc()
  expect_identical(nrow(shm_info()$regions), before)

  # What was exported stays there when nobody has it here any more, and is as it was sent.
  exported <- seq_len(2e5) / 3
  same <- exported + 0
  parallel::clusterExport(cluster, "exported", environment())
  exported[[1L]] <- -1
  expect_identical(parallel::clusterEvalQ(cluster, exported), list(same, same))
  parallel::clusterExport(cluster, "exported", environment())
  rm(exported)
  gc()
  expect_identical(nrow(shm_info()$regions), before)
  expect_identical(parallel::clusterEvalQ(cluster, exported), rep(list(replace(same, 1L, -1)), 2L))
  parallel::clusterEvalQ(cluster, rm(exported))

  # It is held until it has been read, and what another is given takes nothing away.
  pid <- cluster_pids(cluster)[[1L]]
  tools::pskill(pid, tools::SIGSTOP)
  withr::defer(tools::pskill(pid, tools::SIGCONT))
  parallel:::sendCall(cluster[[1L]], sum, list(rep(1, 2e5)))
  expect_identical(parallel::clusterCall(cluster[2L], sum, rep(2, 2e5)), list(4e5))
  gc()
  tools::pskill(pid, tools::SIGCONT)
  expect_identical(parallel:::recvResult(cluster[[1L]]), 2e5)
  gc()
  expect_identical(nrow(shm_info()$regions), before)

  # A package that changes vectors in place: what nobody has fetched does not stand for what there is now.
  if (requireNamespace("data.table", quietly = TRUE)) {
    table <- data.table::data.table(a = rep(1, 2e5))
    total <- function(table) sum(table$a)
    parallel:::sendCall(cluster[[1L]], total, list(table))
    data.table::set(table, 1L, "a", 5)
    expect_identical(suppressWarnings(parallel::clusterCall(cluster, total, table)), list(200004, 200004))
  }

  withr::local_options(regatta.shm_max = 1)
  expect_identical(parallel::clusterCall(cluster, regatta::is_shm, rep(1, 2e5)), list(FALSE, FALSE))
})

test_that("a server forks its first workers with what each needs, and reads the rest while nobody asks for a worker", {
  skip_unless_linux()
  end_servers()
  cl <- local_pool(1L)
  unread <- function() {
    f <- function() {
      home <- asNamespace("regatta")
      names <- ls(home, all.names = TRUE)
      list(names[rlang::env_binding_are_lazy(home, names)], "rlang" %in% loadedNamespaces(), regatta:::the$code_loaded)
    }
    parallel::clusterCall(cl, f)[[1L]]
  }
  loaded <- parallel::clusterCall(cl, function() "rlang" %in% loadedNamespaces())
  expect_identical(loaded, list(FALSE))
  first <- unread()
  expect_gt(length(first[[1L]]), 100L)
  expect_identical(first[[3L]], c("workers", "members"))
  expect_identical(par_lapply(1:2, function(i) i, .on = cl, .control = on_local()), list(1L, 2L))
  wait_until({
    Sys.sleep(0.5) # the server is left alone
    try(parallel::clusterCall(cl, function() quit("no")), silent = TRUE)
    suppressWarnings(later <- unread())
    length(later[[1L]]) == 0L
  })
  expect_setequal(later[[3L]], c("workers", "members", "conditions", "errors"))
})

test_that("a session whose working directory has been removed has workers", {
  skip_unless_linux()
  got <- fault_run(function() {
    gone <- tempfile()
    dir.create(gone)
    setwd(gone)
    unlink(gone, recursive = TRUE)
    cl <- regatta::cluster_local(1L)
    on.exit(parallel::stopCluster(cl))
    regatta::par_lapply(1:2, function(i) i, .on = cl)
  })$value
  expect_identical(got, list(1L, 2L))
})

test_that("packages are loaded once, in the server", {
  cl <- local_pool(2L, packages = "splines")
  expect_true(all(unlist(parallel::clusterCall(cl, function() "package:splines" %in% search()))))
  expect_error(
    cluster_local(1L, packages = "notThere"), "notThere",
    class = "regatta_error_server"
  )
  expect_error(cluster_local(1L, packages = 3), class = "regatta_error_argument")
  expect_error(cluster_local(0L), class = "regatta_error_argument")
  expect_error(cluster_local(1e9), "`n` must be a whole number of at most 4096, not `1e+09`.", fixed = TRUE)
})

test_that("a second cluster is forked from the server of the first", {
  first <- local_pool(1L)
  second <- local_pool(2L)
  expect_identical(server_pid(first), server_pid(second))
  expect_length(intersect(cluster_pids(first), cluster_pids(second)), 0L)
  expect_output(print(second), "cluster of 2 workers of.*2 ready, 0 busy$")
  expect_output(print(first), "cluster of 1 worker of.*1 ready, 0 busy$")
  tools::pskill(cluster_pids(second)[[1L]], tools::SIGKILL)
  said <- function() utils::capture.output(print(second))[[2L]]
  wait_until(function() said() == "1 ready, 0 busy, 1 to be started by the next call")
  parallel::stopCluster(second)
  expect_output(print(second), "stopped")
  expect_error(par_lapply(1:2, identity, .on = second, .control = on_local()), class = "regatta_error_stopped")
  expect_length(cluster_pids(first), 1L)
})

test_that("workers that belong to another process are an error that says so", {
  cl <- local_pool(1L)
  own <- function(i) tryCatch(par_lapply(1:2, identity, .on = cl), regatta_error_owner = function(e) e$pid)
  expect_identical(par_lapply(1L, own, .on = cl, .control = on_local()), list(NA_integer_))
  forked <- par_lapply(1L, own, .control = par_control(workers = 1L, seed = 1L))
  expect_identical(forked, list(Sys.getpid()))
  parallel::stopCluster(cl)
  expect_error(par_lapply(1L, own, .on = cl, .control = on_local()), class = "regatta_error_stopped")
})

test_that("a cluster that was stored and read again is an error that says so", {
  expect_output(print(unserialize(serialize(standing, NULL))), "cluster of 2 workers of another process")
  cl <- local_pool(1L)
  stored <- unserialize(serialize(cl, NULL))
  used <- list(
    function() par_lapply(1L, identity, .on = stored, .control = on_local()),
    function() parallel::parLapply(stored, 1L, identity), function() cluster_status(stored)
  )
  for (use in used) {
    err <- expect_error(use(), "sent here or stored", class = "regatta_error_owner")
    expect_identical(err$pid, NA_integer_)
  }
  expect_identical(par_lapply(1L, identity, .on = cl, .control = on_local()), list(1L))
})

test_that("calls and streams that nobody can ask for a value any more hold up no cluster", {
  cl <- local_pool(1L)
  drop_call <- function() {
    handle <- par_call("done", .on = cl, .control = on_local())
    while (!par_done(handle)) Sys.sleep(0.01)
    NULL
  }
  drop_stream <- function() par_next(par_stream(1:3, identity, .on = cl, .control = on_local()))
  uses <- list(
    function() par_lapply(1:2, identity, .on = cl, .control = on_local()),
    function() parallel::clusterApply(cl, 1:2, identity),
    function() list(par_value(par_call(1L, .on = cl, .control = on_local())), 2L)
  )
  for (drop in list(drop_call, drop_stream)) {
    for (use in uses) {
      drop()
      expect_identical(use(), list(1L, 2L))
    }
  }
})

test_that("a call that is under way and a map share a cluster without mixing", {
  cl <- standing
  flag <- withr::local_tempfile()
  handle <- par_call(
    {
      while (!file.exists(flag)) Sys.sleep(0.01)
      "call"
    },
    .on = cl, .control = on_local()
  )
  expect_identical(par_lapply(1:6, identity, .on = cl, .control = on_local()), as.list(1:6))
  file.create(flag)
  expect_identical(par_value(handle), "call")
  expect_length(cluster_pids(cl), 2L)
})

test_that("a lock of a variable of the workspace goes along, and the locks of workers are theirs", {
  skip_if_not_installed("globals")
  cl <- local_pool(1L)
  withr::defer({
    rlang::env_binding_unlock(globalenv(), "rg_locked")
    rm(list = c("rg_locked", "rg_open"), envir = globalenv())
  })
  assign("rg_locked", 1, globalenv())
  assign("rg_open", 1, globalenv())
  lockBinding("rg_locked", globalenv())
  parallel::clusterEvalQ(cl, {
    rg_open <- "mine"
    rg_third <- "mine"
    for (name in c("rg_open", "rg_third")) lockBinding(name, globalenv())
    rg_locked <- "open"
    makeActiveBinding("rg_active", function(x) if (missing(x)) 7 else stop("assigned"), globalenv())
  })
  code <- function(i) {
    rg_open <<- rg_open + 1
    c(rg_open, tryCatch(rg_locked <<- 5, error = function(e) rg_locked))
  }
  environment(code) <- globalenv()
  expect_identical(par_lapply(1, code, .on = cl, .control = on_local()), list(c(2, 1)))
  after <- parallel::clusterEvalQ(cl, {
    names <- c("rg_locked", "rg_open", "rg_third")
    c(mget(c(names, "rg_active")), vapply(names, bindingIsLocked, NA, env = globalenv()))
  })
  expect_identical(unname(after[[1L]]), list("open", "mine", "mine", 7, FALSE, TRUE, TRUE))
})

test_that("what R keeps of autoload() is there for each run, and what it has made is gone after it", {
  cl <- local_pool(1L)
  load <- function(i) {
    before <- c(exists(".Autoloaded", "Autoloads", inherits = FALSE), exists("interpSpline"))
    autoload("interpSpline", "splines")
    c(before, is.function(get("interpSpline")))
  }
  for (k in 1:3) expect_identical(par_lapply(1L, load, .on = cl, .control = on_local()), list(c(TRUE, FALSE, TRUE)))
})

test_that("packages of R are attached in the order of any other session", {
  cl <- local_pool(1L)
  order <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", "-e", shQuote("cat(search(), sep = '\\n')")),
    stdout = TRUE, env = "R_DEFAULT_PACKAGES="
  )
  expect_identical(parallel::clusterCall(cl, search)[[1L]], order)
})

test_that("what has all workers of a cluster is named", {
  cl <- local_pool(1L)
  handle <- par_call(1, .on = cl, .control = on_local())
  cnd <- expect_error(par_call(2, .on = cl, .control = on_local()), class = "regatta_error_start")
  expect_match(conditionMessage(cnd), "calls, maps or streams that are under way.*par_value")
  expect_identical(conditionCall(cnd), quote(par_call(2, .on = cl, .control = on_local())))
  told <- NULL
  withCallingHandlers(
    par_lapply(1, message, .control = two_workers()),
    message = function(m) {
      told <<- tryCatch(par_lapply(3, identity, .on = cl, .control = on_local()), regatta_error_start = identity)
      invokeRestart("muffleMessage")
    }
  )
  expect_identical(conditionCall(told), quote(par_lapply(3, identity, .on = cl, .control = on_local())))
  stream <- NULL
  for (under_way in c("call", "stream")) {
    if (under_way == "stream") {
      expect_identical(par_value(handle), 1)
      stream <- par_stream(1:2, identity, .on = cl, .control = on_local())
    }
    told <- expect_error(parallel::clusterApply(cl, 1:2, identity), class = "regatta_error_node")
    expect_match(conditionMessage(told), "worker 1 .*: it is at a call, map or stream that is under way. .*par_value")
    expect_identical(conditionCall(told), quote(parallel::clusterApply(cl, 1:2, identity)))
  }
  expect_identical(lapply(1:2, function(i) par_next(stream)), list(1L, 2L))
  expect_identical(parallel::clusterApply(cl, 1:2, identity), list(1L, 2L))
  expect_identical(par_value(par_call(2, .on = cl, .control = on_local())), 2)
})

parallel::stopCluster(standing)

test_that("what a call has changed in a worker between two maps stays, and the maps are those of the session", {
  cl <- local_pool(1L)
  state <- local({
    box <- new.env()
    box$n <- 0
    function(i) {
      box$n <- box$n + 1
      options(rg_element = i)
      assign("rg_left", i, globalenv())
      registerS3method("format", "rg_left", function(x, ...) "", envir = baseenv())
      c(box$n, getOption("rg_session", -1))
    }
  }, new.env(parent = globalenv()))
  map <- function() unlist(par_lapply(1L, state, .on = cl, .control = on_local()))
  there <- function() {
    parallel::clusterCall(cl, function() {
      list(
        getOption("rg_element"), getOption("rg_call"), ls(globalenv()),
        is.null(getS3method("format", "rg_left", optional = TRUE)),
        is.null(getS3method("format", "rg_call", optional = TRUE))
      )
    })[[1L]]
  }
  for (k in 1:3) expect_identical(map(), c(1, -1))
  withr::local_options(rg_session = 5)
  expect_identical(map(), c(1, 5))
  expect_identical(there(), list(NULL, NULL, character(), TRUE, TRUE))
  parallel::clusterCall(cl, function() {
    options(rg_call = 7)
    assign("rg_called", 1, globalenv())
    registerS3method("format", "rg_call", eval(quote(function(x, ...) ""), globalenv()), envir = baseenv())
    NULL
  })
  for (k in 1:2) expect_identical(map(), c(1, 5))
  expect_identical(there(), list(NULL, 7, "rg_called", TRUE, FALSE))
})

test_that("the folder of temporary files is there for the next call, whatever an element has removed", {
  cl <- local_pool()
  written <- function(i) {
    file <- tempfile()
    writeLines("here", file)
    readLines(file)
  }
  tidied <- par_lapply(1:2, function(i) {
    unlink(tempdir(), recursive = TRUE)
    tempdir()
  }, .on = cl, .control = on_local())
  expect_false(tempdir() %in% tidied)
  expect_identical(par_sapply(1:2, written, .on = cl, .control = on_local()), c("here", "here"))
  unlink(tidied[[1L]], recursive = TRUE)
  expect_identical(parallel::clusterCall(cl, written, 1L), list("here", "here"))
  unlink(tidied[[1L]], recursive = TRUE)
  mode <- function(i) format(file.mode(tempdir()))
  expect_identical(parallel::clusterCall(local_pool(), mode, 1L), list("700", "700")) # from the same server
})

test_that("workers that are programs are replaced where the folder of temporary files was removed", {
  skip_unless_linux()
  cl <- local_pool(2L, start = "parallel")
  temp <- regatta:::stand_state(cl)$known$temp
  expect_true(dir.exists(temp))
  unlink(temp, recursive = TRUE)
  pids <- cluster_pids(cl)
  for (pid in pids) tools::pskill(pid, tools::SIGKILL)
  wait_until(!any(vapply(pids, is_running, NA)))
  expect_identical(par_lapply(1:4, identity, .on = cl, .control = on_local()), as.list(1:4))
  expect_false(any(cluster_pids(cl) %in% pids))
  # those of another cluster are started by the same server
  unlink(temp, recursive = TRUE)
  expect_length(unique(cluster_pids(local_pool(2L, start = "parallel"))), 2L)
})

test_that("a part of a cluster is one where package parallel is not loaded", {
  part <- fault_run(function() {
    cl <- regatta::cluster_local(2L)
    c(class(cl[2L]), regatta::cluster_status(cl[2L])$pid == regatta::cluster_status(cl)$pid[[2L]],
      "parallel" %in% loadedNamespaces())
  })$value
  expect_identical(part, c("regatta_cluster", "SOCKcluster", "cluster", "TRUE", "FALSE"))
})

test_that("the end of a worker is told at once where a process that it has forked holds its connection", {
  skip_on_os("windows")
  cluster <- local_pool(2)
  lasting <- withr::local_tempfile()
  die <- function(i, lasting) {
    if (i == 2L) {
      child <- parallel:::mcfork(estranged = TRUE)
      if (inherits(child, "masterProcess")) {
        while (file.exists(lasting)) Sys.sleep(0.05)
        parallel:::mcexit(0L)
      }
      tools::pskill(Sys.getpid(), tools::SIGKILL)
    }
    i
  }
  file.create(lasting)
  expect_error(parallel::clusterApply(cluster, 1:2, die, lasting), "has ended", class = "regatta_error_node")
  expect_true(file.exists(lasting))
  unlink(lasting)
  expect_identical(parallel::clusterApply(cluster, 1:2, identity), list(1L, 2L))
})

test_that("the end of a worker in the middle of a reply, or of a call, is told although its connection is held", {
  skip_unless_linux()
  cluster <- local_pool(1)
  lasting <- withr::local_tempfile()
  hold <- function(lasting) {
    child <- parallel:::mcfork(estranged = TRUE)
    if (inherits(child, "masterProcess")) {
      while (file.exists(lasting)) Sys.sleep(0.05)
      parallel:::mcexit(0L)
    }
  }
  reply <- function(hold, lasting, replying) {
    hold(lasting)
    file.create(replying)
    raw(2^25)
  }
  file.create(lasting)
  pid <- cluster_status(cluster)$pid
  replying <- withr::local_tempfile()
  parallel:::sendCall(cluster[[1L]], reply, list(hold, lasting, replying))
  wait_until(file.exists(replying) && process_state(pid) == "S") # the line is full
  tools::pskill(pid, tools::SIGKILL)
  wait_until(has_ended(pid))
  expect_error(parallel:::recvResult(cluster[[1L]]), "has ended", class = "regatta_error_node")

  # It reads no call, and is killed when the session waits for that.
  parallel::clusterCall(cluster, hold, lasting)
  pid <- cluster_status(cluster)$pid
  tools::pskill(pid, tools::SIGSTOP)
  wait_until(process_state(pid) == "T")
  signal_when_waiting(pid, "KILL")
  withr::local_options(regatta.shm_max = 1)
  expect_error(parallel::clusterCall(cluster, length, raw(2^25)), class = "regatta_error_node")
  expect_true(file.exists(lasting))
  unlink(lasting)
  suppressWarnings(expect_identical(parallel::clusterCall(cluster, identity, 1L), list(1L)))
})

test_that("a part of a cluster has each of its workers once", {
  cluster <- local_pool(2)
  pids <- cluster_pids(cluster)
  expect_error(cluster[c(1, 1)], "`i` must be workers of this cluster of 2, each once", class = "regatta_error_argument")
  expect_error(cluster[3], "`i` must be workers of this cluster of 2", class = "regatta_error_argument")
  expect_identical(parallel::clusterApply(cluster[2:1], 1:2, function(i) Sys.getpid()), as.list(rev(pids)))
  expect_length(cluster[integer()], 0L)
})

test_that("who asks a worker that was asked nothing is told", {
  cluster <- local_pool(2)
  expect_error(parallel:::recvResult(cluster[[1L]]), "has no call to answer", class = "regatta_error_node")
  expect_error(parallel:::recvOneResult(cluster), "has no call to answer", class = "regatta_error_node")
  expect_identical(parallel::clusterApply(cluster[2:1], 1:2, identity), list(1L, 2L))
})

test_that("nothing is left behind", {
  end_servers()
  expect_no_detritus(detritus)
})
