detritus <- detritus_snapshot()

# Numbers of a map are read by a process that somebody else has forked, after the session has
# dropped them and has run other maps.
test_that("a cluster of forks keeps the results that it has inherited", {
  skip_unless_linux()
  got <- fault_run(function() {
    control <- par_control(workers = 2L, progress = FALSE, dump = "no")
    right <- logical()
    for (round in 1:3) {
      # Where the nodes find them without being sent any.
      x <<- par_lapply(1:2, function(i) rep(i * 1e6 * round, 1e5), .control = control)
      s <<- par_lapply(1:2, function(i) as.character(i * 10 * round + 1:1e5), .control = control)
      cl <- parallel::makeForkCluster(1L)
      want <- list(vapply(x, sum, 0), vapply(s, `[[`, "", 77L))
      rm(x, s, envir = globalenv())
      gc()
      # The first use of the others would find the spans free.
      y <- par_lapply(1:4, function(i) rep(-2e6, 1e5), .control = control)
      rm(y)
      gc()
      z <- par_lapply(1:6, function(i) as.character(-(1:1e5)), .control = control)
      child <- parallel::clusterEvalQ(cl, list(vapply(x, sum, 0), vapply(s, `[[`, "", 77L)))[[1L]]
      right[[round]] <- identical(child, want)
      parallel::stopCluster(cl)
    }
    right
  })
  expect_identical(got$value, rep(TRUE, 3L))
})

test_that("a job of parallel keeps what it has inherited, also without descriptors", {
  skip_unless_linux()
  library <- fault_compile(c(
    "#include <unistd.h>",
    "void close_memory(void) {",
    "  char path[64], target[256];",
    "  extern int snprintf(char *, size_t, const char *, ...);",
    "  extern void *memmem(const void *, size_t, const void *, size_t);",
    "  for (int i = 3; i < 200; i++) {",
    "    snprintf(path, sizeof path, \"/proc/self/fd/%d\", i);",
    "    ssize_t n = readlink(path, target, sizeof target);",
    "    if (n > 0 && memmem(target, n, \"regatta\", 7)) close(i);",
    "  }",
    "}"
  ), "closer")
  got <- fault_run(function(library) {
    dyn.load(library)
    control <- par_control(workers = 2L, progress = FALSE, dump = "no")
    vapply(c(FALSE, TRUE), function(without) {
      x <- par_lapply(1:2, function(i) rep(i * 1e6, 1e5), .control = control)
      gate <- tempfile()
      job <- parallel::mcparallel({
        if (without) .C("close_memory")
        cat("", file = paste0(gate, "begun"))
        while (!file.exists(gate)) Sys.sleep(0.01)
        vapply(x, function(v) mean(v), 0)
      })
      while (!file.exists(paste0(gate, "begun"))) Sys.sleep(0.01)
      rm(x)
      gc()
      for (k in 1:3) {
        y <- par_lapply(1:4, function(i) rep(-2e6, 1e5), .control = control)
        rm(y)
        gc()
      }
      file.create(gate)
      identical(parallel::mccollect(job)[[1L]], c(1e6, 2e6))
    }, NA)
  }, list(library = library))
  expect_identical(got$value, c(TRUE, TRUE))
})

test_that("what was dropped while a run goes on is kept for a process that has inherited it", {
  skip_unless_linux()
  got <- fault_run(function() {
    control <- par_control(workers = 2L, progress = FALSE, dump = "no")
    x <- par_lapply(1:2, function(i) rep(i * 1e6, 1e5), .control = control)
    gates <- tempfile(c("call", "job", "begun"))
    call <- par_call({
      while (!file.exists(gates[[1L]])) Sys.sleep(0.01)
      rep(7, 1e5)
    })
    job <- parallel::mcparallel({
      file.create(gates[[3L]])
      while (!file.exists(gates[[2L]])) Sys.sleep(0.01)
      vapply(x, mean, 0)
    })
    while (!file.exists(gates[[3L]])) Sys.sleep(0.01)
    rm(x)
    gc()
    file.create(gates[[1L]])
    value <- par_value(call)
    y <- par_lapply(1:4, function(i) rep(-2e6, 1e5), .control = control)
    suppressWarnings(try(par_lapply(1:4, function(i) {
      if (i == 2L) tools::pskill(Sys.getpid(), tools::SIGKILL)
      rep(-3e6, 1e5)
    }, .control = control), silent = TRUE))
    file.create(gates[[2L]])
    list(parallel::mccollect(job)[[1L]], value[[1L]], vapply(y, mean, 0))
  })
  expect_identical(got$value, list(c(1e6, 2e6), 7, rep(-2e6, 4L)))
})

test_that("the memory of an arena that was given up goes with its last user", {
  skip_unless_linux()
  got <- fault_run(function() {
    control <- par_control(workers = 2L, progress = FALSE, dump = "no")
    mapped <- function() sum(grepl("memfd:regatta-arena ", readLines("/proc/self/maps")))
    open <- function() {
      links <- Sys.readlink(list.files("/proc/self/fd", full.names = TRUE))
      sum(grepl("memfd:regatta-arena ", links))
    }
    for (k in 1:4) {
      x <- par_lapply(1:2, function(i) rep(i + 0, 1e5), .control = control)
      job <- parallel::mcparallel(Sys.sleep(300))
      y <- par_lapply(1:2, function(i) rep(i + 0, 1e5), .control = control)
      tools::pskill(job$pid)
      suppressWarnings(parallel::mccollect(job))
    }
    gc()
    kept <- c(mapped() > 0L, open())
    rm(x, y)
    gc()
    c(kept, mapped(), open())
  })$value
  # Results on two arenas; after all was dropped the newest arena is there.
  expect_identical(got, c(1L, 2L, 0L, 1L))
})

test_that("programs that the session starts do not cost it its warm memory", {
  skip_unless_linux()
  got <- fault_run(function() {
    control <- par_control(workers = 2L, progress = FALSE, dump = "no")
    run <- function() invisible(par_lapply(1:2, function(i) rep(i + 0, 1e5), .control = control))
    key <- function() {
      fd <- list.files("/proc/self/fd")
      fd <- fd[grepl("memfd:regatta-arena ", Sys.readlink(file.path("/proc/self/fd", fd)))]
      sub(".*ino:\t", "", grep("^ino:", readLines(file.path("/proc/self/fdinfo", fd)), value = TRUE))
    }
    # The workers of mclapply() end after it. What is dropped while they live is theirs as well.
    wait_for_children <- function() {
      for (k in 1:3000) {
        states <- system(paste("ps -o stat=,comm= --ppid", Sys.getpid()), intern = TRUE)
        if (!any(grepl("^[^Z].* R$", states))) break
        Sys.sleep(0.01)
      }
    }
    run()
    first <- key()
    for (k in 1:3) {
      system("true")
      processx::run("true")
      gc()
      parallel::mclapply(1:2, identity, mc.cores = 2L)
      wait_for_children()
      unlist(callr::r(function() 1))
      run()
      gc()
    }
    # Beside workers that go on.
    gate <- tempfile()
    call <- par_call(while (!file.exists(gate)) Sys.sleep(0.01))
    processx::run("true")
    run()
    gc()
    file.create(gate)
    par_value(call)
    run()
    c(first, key())
  })$value
  if (length(got) < 2L) skip("this kernel does not tell inodes of descriptors")
  expect_identical(got[[1L]], got[[2L]])
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
