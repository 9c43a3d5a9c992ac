# Workers of cluster_local() that are programs of their own.
detritus <- detritus_snapshot()

# A library with a package that, when a process attaches it, takes the first free of so many places in the
# folder as its file "places" says; a process that finds none waits until there is a file "go", or fails if there
# is one "fail".
slow <- tempfile("slow-")
slow_at <- function(...) file.path(slow, ...)

slow_install <- function() {
  dir.create(slow_at("regattaslow", "R"), recursive = TRUE)
  dir.create(slow_at("lib"))
  writeLines(
    c("Package: regattaslow", "Version: 1.0", "Title: Slow", "License: none"), slow_at("regattaslow", "DESCRIPTION")
  )
  file.create(slow_at("regattaslow", "NAMESPACE"))
  writeLines(c(
    sprintf("at <- function(...) file.path(%s, ...)", deparse(slow)),
    ".onAttach <- function(...) {",
    "  places <- seq_len(as.integer(readLines(at(\"places\"))))",
    "  for (place in places) if (dir.create(at(\"run\", place), FALSE)) return()",
    "  while (!file.exists(at(\"run\", \"go\"))) {",
    "    if (file.exists(at(\"run\", \"fail\"))) stop(\"no licence is left\")",
    "    Sys.sleep(0.01)", "  }", "}"
  ), slow_at("regattaslow", "R", "slow.R"))
  status <- system2(file.path(R.home("bin"), "R"), c(
    "CMD", "INSTALL", "--no-docs", "--no-byte-compile", "--no-test-load",
    paste0("--library=", shQuote(slow_at("lib"))), shQuote(slow_at("regattaslow"))
  ), stdout = FALSE, stderr = FALSE)
  if (status != 0L) stop("the package for the test cannot be installed")
}

# A folder for "go" and "fail".
local_slow_package <- function(places, frame = parent.frame()) {
  if (!dir.exists(slow_at("lib", "regattaslow"))) slow_install()
  unlink(slow_at("run"), recursive = TRUE)
  dir.create(slow_at("run"))
  writeLines(as.character(places), slow_at("places"))
  withr::local_libpaths(slow_at("lib"), action = "prefix", .local_envir = frame)
  slow_at("run")
}

# "" of a process that has ended meanwhile.
started_by <- function(pid) {
  path <- file.path("/proc", pid, "cmdline")
  bytes <- tryCatch(suppressWarnings(readBin(path, "raw", 4096L)), error = function(e) raw())
  if (length(bytes) == 0L) {
    return("")
  }
  utils::tail(strsplit(rawToChar(replace(bytes, bytes == 0, charToRaw(" "))), " ")[[1L]], 1L)
}

test_that("workers can be programs of their own, all at once or one after the other", {
  skip_unless_linux()
  draw <- function(i) c(i, runif(1))
  expected <- par_lapply(1:6, draw, .control = on_local(workers = 2L))
  for (start in c("parallel", "sequential")) {
    cl <- local_pool(2L, packages = "stats4", start = start)
    expect_identical(par_lapply(1:6, draw, .on = cl, .control = on_local()), expected)
    pids <- cluster_pids(cl)
    expect_length(unique(pids), 2L)
    for (pid in pids) expect_identical(started_by(pid), "regatta:::fork_member_main()")
    about <- parallel::clusterCall(cl, function() {
      list("package:stats4" %in% search(), Sys.getenv("REGATTA_MEMBER"), parallel:::isChild())
    })
    expect_identical(about, rep(list(list(TRUE, "", FALSE)), 2L))
    big <- par_lapply(1:2, function(i) rep(i + 0, 2e5), .on = cl, .control = on_local())
    expect_true(is_shm(big[[2L]]))
    expect_match(utils::capture.output(print(cl))[[1L]], "each started by a server")
  }
})

test_that("one that has ended is replaced, and one that comes late takes part in the map under way", {
  skip_unless_linux()
  folder <- local_slow_package(2L)
  cl <- local_pool(2L, packages = "regattaslow", start = "parallel")
  pids <- cluster_pids(cl)
  tools::pskill(pids[[1L]], tools::SIGKILL)
  wait_until(has_ended(pids[[1L]]))
  # Nobody but the second one is ready: a map of one element ends, and is not held up by the other.
  expect_identical(par_lapply(1, function(i) Sys.getpid(), .on = cl, .control = on_local()), list(pids[[2L]]))
  expect_match(utils::capture.output(print(cl))[[2L]], "1 ready")
  # One in which both take part ends as well, and leaves the one that is starting alone.
  who <- function() par_lapply(1:2, function(i) Sys.getpid(), .on = cl, .control = on_local())
  members <- function() .Call(regatta:::ffi_fork_stand_members, regatta:::stand_state(cl)$stand)
  expect_identical(who(), rep(list(pids[[2L]]), 2L))
  starting <- members()$pid
  expect_identical(who(), rep(list(pids[[2L]]), 2L))
  expect_identical(members()[c("pid", "starting")], list(pid = starting, starting = c(TRUE, FALSE)))
  got <- par_lapply(1:2, function(i) {
    file.create(file.path(folder, "go"))
    mine <- file.path(folder, paste0("mine-", i))
    file.create(mine)
    until <- Sys.time() + 60
    while (!file.exists(file.path(folder, paste0("mine-", 3 - i))) && Sys.time() < until) Sys.sleep(0.01)
    Sys.getpid()
  }, .on = cl, .control = on_local(batch = 1L))
  expect_length(unique(unlist(got)), 2L)
  expect_true(pids[[2L]] %in% unlist(got))
})

test_that("those that are not ready in time, or fail, are told of with what they have printed", {
  skip_unless_linux()
  folder <- local_slow_package(0L)
  error <- expect_error(
    cluster_local(2L, "regattaslow", "parallel", timeout = 0.1), class = "regatta_error_start"
  )
  expect_match(conditionMessage(error), "2 are not ready after 0.1", fixed = TRUE)
  file.create(file.path(folder, "fail"))
  for (start in c("parallel", "sequential")) {
    error <- expect_error(cluster_local(1L, "regattaslow", start), class = "regatta_error_start")
    expect_match(conditionMessage(error), "1 ended before they were ready.*no licence is left")
    error <- expect_error(cluster_local(2L, "regattanone", start), class = "regatta_error_start")
    expect_match(
      conditionMessage(error), "cannot load its packages: [^;]*regattanone.[.] Look at what it has printed[.]$"
    )
  }
  unlink(file.path(folder, "fail"))
  dir.create(file.path(folder, "lib2"))
})

test_that("a cluster some of whose workers have failed works with the others", {
  skip_unless_linux()
  folder <- local_slow_package(1L)
  file.create(file.path(folder, "fail"))
  expect_warning(
    cl <- local_pool(2L, packages = "regattaslow", start = "sequential"), class = "regatta_warning_workers"
  )
  unlink(file.path(folder, "fail"))
  file.create(file.path(folder, "go"))
  expect_length(unique(cluster_pids(cl)), 2L)
  expect_identical(par_lapply(1:4, identity, .on = cl, .control = on_local()), as.list(1:4))
})

test_that("Ctrl-C while workers start ends them", {
  skip_unless_linux()
  folder <- local_slow_package(0L)
  session <- local_session(function() {
    tryCatch(
      {
        cat("go\n")
        cluster_local(2L, "regattaslow", "parallel")
      },
      interrupt = function(e) "interrupted"
    )
  })
  fault_wait_line(session, "go")
  wait_until(function() any(vapply(marked_pids(session$mark), function(pid) {
    identical(started_by(pid), "regatta:::fork_member_main()")
  }, NA)))
  tools::pskill(session$process$get_pid(), tools::SIGINT)
  expect_identical(fault_value(session)$value, "interrupted")
  wait_until(function() length(marked_pids(session$mark)) == 0L, 60, "the end of all")
  expect_length(marked_pids(session$mark), 0L)
})

test_that("start and timeout are checked", {
  expect_error(cluster_local(2L, start = "fork"), class = "regatta_error_argument")
  expect_error(cluster_local(2L, timeout = -1), class = "regatta_error_argument")
})

test_that("nothing is left behind", {
  end_servers()
  unlink(slow, recursive = TRUE)
  expect_no_detritus(detritus)
})
