set.seed(20)
detritus <- detritus_snapshot()

test_that("values and names are those of lapply()", {
  inputs <- list(
    1:5, c(a = 1.5, b = 2, c = NA), list(1, "b", NULL), list(x = 1:3, y = sum), NULL, list(),
    numeric(), expression(a + b, c), factor(c("u", "v")), data.frame(a = 1:2, b = 3:4),
    as.Date("2020-02-03") + 0:2, stats::setNames(list(), character())
  )
  for (X in inputs) {
    for (cores in 1:3) {
      expect_identical(mclapply(X, identity, mc.cores = cores), lapply(X, identity))
    }
  }
  expect_identical(mclapply(1:3, "-"), lapply(1:3, "-"))
  expect_identical(mclapply(1:3, function(x, y) x + y, y = 10), lapply(1:3, function(x) x + 10))
})

test_that("the names of a character vector without names are its elements", {
  expect_identical(names(mclapply(letters[1:3], identity)), letters[1:3])
  expect_identical(names(mclapply(character(), identity)), character())
  expect_null(names(mclapply(letters[1:3], identity, mc.use.names = FALSE)))
  expect_named(mclapply(c(u = "a", v = "b"), identity), c("u", "v"))
})

test_that("NULL is a value", {
  for (cores in 1:2) {
    expect_identical(mclapply(1:3, function(i) NULL, mc.cores = cores), list(NULL, NULL, NULL))
  }
})

test_that("what FUN returns arrives as it is, in all modes of sharing", {
  withr::local_preserve_seed()
  values <- list(
    stats::runif(1e4), 1:1e5, rep(c("a", NA, "\u00e9"), 4e3), as.character(1:3000), list(list(letters, NULL)),
    data.frame(x = rep(c("u", "v"), 2e4), y = seq_len(4e4) + 0), factor(rep(letters, 500)),
    structure(rep("a", 2000), names = rep("n", 2000), class = "mine"), matrix(rep("z", 2000), 2),
    char_map(rep(letters, 100)), globalenv(), quote(a + b), as.raw(1:200), complex(5),
    structure(list(rep("s", 1500)), class = "odd"), asS4(structure(rep("s", 1500), class = "s4ish"))
  )
  modes <- list(
    list(), list(mc.share.vectors = FALSE), list(mc.share.vectors = FALSE, mc.shm.ipc = FALSE),
    list(mc.share.copy = FALSE), list(mc.compress.chars = FALSE), list(mc.compress.chars = 0),
    list(mc.share.vectors = 10, mc.compress.altreps = "yes", mc.share.altreps = "yes"),
    list(mc.compress.altreps = "no", mc.preschedule = FALSE), list(mc.cores = 1)
  )
  for (mode in modes) {
    got <- do.call(mclapply, c(list(seq_along(values), function(i) values[[i]]), mode))
    expect_identical(got, values)
  }
})

test_that("character vectors with few distinct strings are sent as an index of these", {
  X <- rep(as.character(1:100), 1000)
  mclapply(1:2, function(i) X, mc.share.vectors = FALSE)
  small <- par_last()$elements$bytes
  mclapply(1:2, function(i) X, mc.share.vectors = FALSE, mc.compress.chars = FALSE)
  expect_true(all(small < par_last()$elements$bytes))
  distinct <- as.character(1:1e4)
  mclapply(1:2, function(i) distinct)
  few <- par_last()$elements$bytes
  mclapply(1:2, function(i) distinct, mc.compress.chars = FALSE)
  expect_identical(few, par_last()$elements$bytes)
})

test_that("copies are made of numbers; strings are made when they are read", {
  withr::local_preserve_seed()
  values <- list(stats::runif(2e4), rep(c("a", "b"), 1e4))
  inspected <- function(got) {
    lapply(got, function(x) paste(capture.output(.Internal(inspect(x))), collapse = "\n"))
  }
  seen <- inspected(mclapply(1:2, function(i) values[[i]]))
  expect_no_match(seen[[1L]], "shared memory")
  expect_match(seen[[2L]], "20000 strings, 2 of them distinct")
  seen <- inspected(mclapply(1:2, function(i) values[[i]], mc.share.copy = FALSE))
  expect_match(seen[[1L]], "shared memory")
  expect_match(seen[[2L]], "20000 strings, 2 of them distinct")
})

test_that("further arguments are evaluated only where FUN uses them", {
  expect_identical(mclapply(1:2, function(i, j) i, j = stop("never")), list(1L, 2L))
  expect_identical(mclapply(1:2, function(i, j) i, j = stop("never"), mc.cores = 1), list(1L, 2L))
  # names that arguments of the functions in between could be taken for
  f <- function(x, i, job, j, X. = 0, call = 0) c(x, i, job, j, call)
  got <- mclapply(1:2, f, i = 10, job = 20, j = 30, call = 5)
  expect_identical(got, list(c(1, 10, 20, 30, 5), c(2, 10, 20, 30, 5)))
})

test_that("FUN sees the call that it has in lapply()", {
  f <- function(x, ...) list(sys.call(), substitute(x), nargs())
  expect_identical(
    mclapply(c(a = 1), f, 2, mc.cores = 2, mc.force.fork = TRUE), lapply(c(a = 1), f, 2)
  )
  adders <- mclapply(1:3, function(i) function() i)
  expect_identical(lapply(adders, function(f) f()), list(1L, 2L, 3L))
})

test_that("values do not depend on the number of cores: shared arrays and numbers without a seed", {
  withr::local_preserve_seed()
  x <- shm_array(c(2, 3), fill = 1:6, dimnames = list(c("a", "b"), NULL))
  returned <- list(
    function(i) x, function(i) unclass(x), function(i) list(x, note = structure(i, a = unclass(x))),
    function(i) pairlist(unclass(x)), function(i) bquote(f(.(unclass(x)), g(.(x)))),
    function(i) as.expression(list(unclass(x))), function(i) structure(x, class = "other"),
    function(i) structure(as.function(alist(y = , y), baseenv()), a = unclass(x)), function(i) shm_array(3, fill = i),
    function(i) structure(asS4(1), slot = unclass(x))
  )
  for (share_copy in c(TRUE, FALSE)) {
    x[] <- 1:6
    got <- lapply(1:2, function(cores) {
      lapply(returned, function(f) mclapply(1:2, f, mc.cores = cores, mc.share.copy = share_copy))
    })
    expect_identical(got[[1L]], got[[2L]])
    x[1, 1] <- 100
    expect_identical(got[[1L]], got[[2L]])
    expect_identical(max(unlist(got[[1L]][[2L]])), 6)
    expect_identical(regatta:::is_shm_array(got[[1L]][[1L]][[1L]]), !share_copy)
    expect_false(regatta:::is_shm_array(got[[1L]][[9L]][[1L]]))
  }
  # an array that an element of before has left behind
  left <- NULL
  later <- mclapply(1:2, function(i) {
    if (i == 1) left <<- shm_array(2) else Sys.sleep(0.05)
    left
  }, mc.cores = 1, mc.share.copy = FALSE)
  expect_false(regatta:::is_shm_array(later[[2L]]))
  counter <- shm_counter()
  for (cores in 1:2) shm_add(mclapply(1:2, function(i) counter, mc.cores = cores)[[2L]])
  expect_identical(shm_value(counter), 2)
  for (cores in 1:2) {
    set.seed(3)
    state <- .Random.seed
    got <- mclapply(1:3, function(i) stats::runif(1), mc.cores = cores, mc.set.seed = FALSE, mc.preschedule = FALSE)
    expect_identical(.Random.seed, state)
    expect_identical(unlist(got), rep(stats::runif(1), 3))
    mclapply(1:2, function(i) rm(".Random.seed", envir = globalenv()), mc.cores = cores, mc.set.seed = FALSE,
      mc.preschedule = FALSE)
    expect_false(identical(.Random.seed, state))
  }
})

test_that("one core and one element stay in the session, unless a fork is forced", {
  pids <- function(...) unlist(mclapply(..., function(i) Sys.getpid()))
  expect_identical(unique(pids(1:3, mc.cores = 1)), Sys.getpid())
  expect_identical(pids(1, mc.cores = 2), Sys.getpid())
  expect_false(pids(1, mc.cores = 2, mc.force.fork = TRUE) == Sys.getpid())
  expect_false(Sys.getpid() %in% pids(1:4, mc.cores = 2))
  # a limit ends the process that runs an element
  expect_false(pids(1, mc.cores = 1, mc.timeout.elapsed = 60) == Sys.getpid())
  changed <- 0
  mclapply(1:2, function(i) changed <<- changed + i, mc.cores = 1)
  expect_identical(changed, 3)
})

test_that("mc.cores is by default the option, else MC_CORES, else 2", {
  workers <- function() length(unique(par_last()$workers$worker))
  withr::local_options(mc.cores = NULL)
  withr::local_envvar(MC_CORES = NA)
  mclapply(1:6, identity)
  expect_identical(workers(), 2L)
  withr::local_envvar(MC_CORES = "3")
  mclapply(1:6, identity)
  expect_identical(workers(), 3L)
  withr::local_options(mc.cores = 1L)
  mclapply(1:6, identity)
  expect_identical(par_last()$executor, "session")
})

test_that("a nested call forks as well, unless that is not allowed", {
  inner <- function(...) {
    function(i) unlist(mclapply(1:2, function(k) Sys.getpid(), mc.cores = 2, ...))
  }
  forked <- mclapply(1:2, function(i) c(Sys.getpid(), inner()(i)))
  for (pids in forked) expect_false(pids[[1L]] %in% pids[-1L])
  same <- mclapply(1:2, function(i) c(Sys.getpid(), inner(mc.allow.recursive = FALSE)(i)))
  for (pids in same) expect_length(unique(pids), 1L)
})

test_that("mc.system.time gives the times of every element, also of failed ones", {
  for (cores in 1:2) {
    got <- suppressWarnings(mclapply(1:3, function(i) {
      Sys.sleep(0.05)
      if (i == 2L) stop("no")
    }, mc.system.time = TRUE, mc.allow.error = TRUE, mc.fail.early = FALSE, mc.cores = cores))
    times <- attr(got, "system_times")
    expect_length(times, 3L)
    for (time in times) {
      expect_s3_class(time, "proc_time")
      expect_gte(time[["elapsed"]], 0.045)
    }
  }
  died <- suppressWarnings(mclapply(1:2, function(i) {
    if (i == 1L) tools::pskill(Sys.getpid(), tools::SIGKILL)
  }, mc.system.time = TRUE, mc.allow.fatal = NA))
  expect_null(attr(died, "system_times")[[1L]])
  expect_s3_class(attr(died, "system_times")[[2L]], "proc_time")
  expect_null(attributes(mclapply(1:2, identity)))
})

test_that("affinity.list binds the workers of elements, and needs prescheduling off", {
  skip_unless_linux()
  allowed <- parallel::mcaffinity()
  skip_if(is.null(allowed))
  got <- mclapply(1:4, function(i) parallel::mcaffinity(), mc.preschedule = FALSE,
    affinity.list = rep(list(allowed[[1L]]), 4))
  expect_identical(got, rep(list(allowed[[1L]]), 4))
  got <- mclapply(1, function(i) parallel::mcaffinity(), mc.preschedule = FALSE,
    affinity.list = list(allowed[[1L]]))
  expect_identical(got, list(allowed[[1L]]))
  expect_identical(parallel::mcaffinity(), allowed)
  expect_warning(mclapply(1:2, identity, affinity.list = c(1, 1)), "mc.preschedule")
  expect_error(mclapply(1:2, identity, affinity.list = 1, mc.preschedule = FALSE), "affinity.list")
  # As many as R can ask for; only a machine with that many has the last one.
  skip_if(1024L %in% allowed)
  expect_warning(
    got <- mclapply(1:2, identity, affinity.list = c(allowed[[1L]], 1024), mc.preschedule = FALSE),
    "CPU 1024"
  )
  expect_identical(got, list(1L, 2L))
  expect_identical(parallel::mcaffinity(), allowed)
})

test_that("elements of high priority start first", {
  order <- withr::local_tempfile()
  # A limit that nobody reaches makes one worker of one core.
  mclapply(1:3, function(i) cat(i, "\n", file = order, append = TRUE),
    mc.priority = c(3, 1, 2), mc.cores = 1, mc.preschedule = FALSE, mc.timeout.elapsed = 3600)
  expect_identical(scan(order, quiet = TRUE), c(2, 3, 1))
})

test_that("memory may be tidied up before the fork", {
  expect_identical(mclapply(1:2, identity, mc.gc.reset.triggers = TRUE), list(1L, 2L))
})

test_that("wrong arguments are errors that name them", {
  bad <- list(
    mc.preschedule = "yes", mc.set.seed = "a", mc.set.seed = 1.5, mc.silent = NA, mc.cores = 0,
    mc.cores = "two", mc.cores = NULL, mc.cleanup = "no", mc.cleanup = 99,
    mc.allow.recursive = 2, mc.use.names = NULL, mc.allow.fatal = "no", mc.allow.error = NULL,
    mc.retry = 0.5, mc.retry = NULL, mc.retry = "a", mc.retry.silent = NA,
    mc.retry.fixed.seed = 1, mc.fail.early = NA, mc.dump.frames = "some", mc.dumpto = "",
    mc.dumpto = 1, mc.stdout = "loud", mc.warnings = "m_stop", mc.messages = "stop",
    mc.conditions = "output", mc.system.time = 1, mc.timeout.elapsed = 0, mc.timeout.cpu = "1",
    mc.timeout.signal = "SIGFOO", mc.timeout.signal = 0, mc.prio.queue = 1, mc.priority = 0,
    mc.priority = 1:3, mc.compress.chars = -1, mc.compress.altreps = TRUE,
    mc.share.vectors = NA, mc.share.altreps = "maybe", mc.share.copy = NA, mc.shm.ipc = 0,
    mc.force.fork = "x", mc.gc.reset.triggers = NA, mc.progress = 1, affinity.list = "a"
  )
  for (k in seq_along(bad)) {
    error <- expect_error(
      do.call(mclapply, c(list(1:2, identity), bad[k])), class = "regatta_error_argument",
      label = names(bad)[[k]]
    )
    expect_identical(error$argument, names(bad)[[k]])
  }
  expect_error(mclapply(1:2, identity, mc.force.fork = TRUE, mc.cores = 1), "mc.cores")
  expect_error(
    mclapply(1:2, identity, mc.force.fork = TRUE, mc.allow.recursive = FALSE), "allow.recursive"
  )
})

test_that("arguments and defaults are those of bettermc and parallel", {
  theirs <- formals(parallel::mclapply)
  ours <- formals(mclapply)
  expect_identical(ours[setdiff(names(theirs), "mc.set.seed")],
    theirs[setdiff(names(theirs), "mc.set.seed")])
  for (name in c("mcmapply", "pvec", "mcMap")) {
    expect_identical(
      formals(getExportedValue("regatta", name)), formals(getExportedValue("parallel", name))
    )
  }
})

test_that("a run is on record and can be replayed", {
  mclapply(c(a = 1, b = 2), function(x, add) x + add, add = 5)
  expect_identical(par_last()$names, c("a", "b"))
  expect_identical(par_replay(i = "b"), 7)
  mclapply(c(a = 1, b = 2), function(x, add) x + add, add = 5, mc.cores = 1)
  expect_identical(par_replay(i = 1), 6)
  expect_output(print(summary(par_last())), "session")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
