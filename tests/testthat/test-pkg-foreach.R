skip_if_not_installed("foreach", "1.5.0")

detritus <- detritus_snapshot()

`%dopar%` <- foreach::`%dopar%`
`%:%` <- foreach::`%:%`
foreach <- foreach::foreach

# A backend for the time of one test: foreach keeps it for the session.
local_backend <- function(..., env = parent.frame()) {
  registerDoRegatta(...)
  withr::defer(foreach::registerDoSEQ(), env)
}

test_that("foreach knows the backend and its workers", {
  local_backend(2)
  expect_identical(foreach::getDoParName(), "doRegatta")
  expect_identical(foreach::getDoParWorkers(), 2L)
  expect_identical(foreach::getDoParVersion(), as.character(packageVersion("regatta")))
  registerDoRegatta(.control = par_control(workers = 3))
  expect_identical(foreach::getDoParWorkers(), 3L)
  expect_error(registerDoRegatta("host"), class = "regatta_error_argument")
})

test_that("iterations run in workers and are combined as foreach() is told", {
  withr::local_preserve_seed()
  local_backend(2)
  pids <- foreach(i = 1:8) %dopar% Sys.getpid()
  expect_false(Sys.getpid() %in% unlist(pids))
  expect_identical(foreach(i = 1:4, .combine = c) %dopar% i^2, c(1, 4, 9, 16))
  expect_identical(foreach(a = 1:3, b = 4:6, .combine = `+`, .init = 100) %dopar% (a * b), 132)
  expect_identical(foreach(i = 1:3, .final = length) %dopar% i, 3L)
  expect_identical(foreach(1:3, .combine = c) %dopar% "same", rep("same", 3L))
  expect_identical(foreach(i = 1:2) %dopar% NULL, list(NULL, NULL))
  expect_identical(foreach(i = integer()) %dopar% i, list())
  expect_null(foreach(i = integer(), .combine = c) %dopar% i)
  both <- foreach(i = 1:3, .combine = rbind) %:% foreach(j = 1:2, .combine = c) %dopar% (10 * i + j)
  expect_equal(both, outer(10 * 1:3, 1:2, `+`), ignore_attr = TRUE)
  odd <- foreach(i = 1:6, .combine = c) %:% foreach::when(i %% 2 == 1) %dopar% i
  expect_identical(odd, c(1L, 3L, 5L))
})

test_that("the body sees the variables around it, changes none of them and may return()", {
  withr::local_preserve_seed()
  local_backend(2)
  f <- function(n) {
    k <- 7
    foreach(i = seq_len(n), .combine = c) %dopar% {
      k <- k + i
      if (i == 2) return(-1)
      k
    }
  }
  expect_identical(f(3), c(8, -1, 10))
})

test_that("errors end the loop, stand among the results or are left out", {
  withr::local_preserve_seed()
  local_backend(2)
  expect_error(foreach(i = 1:3) %dopar% if (i == 2) stop("not two") else i, "element 2 failed.*not two",
    class = "regatta_error_element")
  expect_silent(got <- foreach(i = 1:3, .errorhandling = "pass") %dopar% if (i == 2) stop("not two") else i)
  expect_s3_class(got[[2L]], "simpleError")
  expect_identical(conditionMessage(got[[2L]]), "not two")
  expect_identical(got[-2L], list(1L, 3L))
  expect_silent(
    got <- foreach(i = 1:3, .errorhandling = "remove", .combine = c) %dopar% if (i == 2) stop("not two") else i
  )
  expect_identical(got, c(1L, 3L))
  died <- foreach(i = 1:3, .errorhandling = "pass") %dopar% if (i == 2) tools::pskill(Sys.getpid(), 9L) else i
  expect_s3_class(died[[2L]], "regatta_error_death")
})

test_that("warnings of iterations arrive, those of maps within them too", {
  withr::local_preserve_seed()
  local_backend(2)
  expect_warning(foreach(i = 1:2) %dopar% if (i == 2) warning("about two"), "about two")
  inner <- function(i) par_lapply(1:2, function(j) if (j == i) stop("inner"), .control = par_control(errors = "collect"))
  warnings <- capture_warnings(foreach(i = 1:2, .errorhandling = "pass") %dopar% inner(i))
  expect_length(grep("1 of 2 elements failed", warnings), 2L)
})

test_that("a failure of the function that combines is an error", {
  withr::local_preserve_seed()
  local_backend(2)
  refuse <- function(...) stop("cannot be combined")
  expect_error(foreach(i = 1:3, .combine = refuse) %dopar% i, "cannot be combined")
})

test_that("a long iterator is in memory for a part at a time, and its failures are told by their number", {
  withr::local_preserve_seed()
  skip_on_cran()
  local_backend(2)
  hundred <- list(ahead = 100)
  given <- 0
  most <- 0
  combined <- 0
  values <- iterators::iter(function() {
    if (given == 1000) stop("StopIteration")
    given <<- given + 1
    most <<- max(most, given - combined)
    given
  })
  count <- function(sum, ...) {
    combined <<- combined + ...length()
    sum(sum, ...)
  }
  got <- foreach(x = values, .combine = count, .init = 0, .multicombine = TRUE, .maxcombine = 50,
    .options.regatta = hundred) %dopar% x
  expect_identical(got, sum(1:1000) + 0)
  expect_lt(most, 300)
  expect_error(foreach(i = 1:250, .options.regatta = hundred) %dopar% if (i == 233) stop("late"), "iteration 233")
  expect_identical(foreach(i = 1:200, .combine = c, .options.regatta = hundred) %dopar% i, 1:200)
})

test_that("an iterator without end ends with the shortest beside it, or with an error", {
  withr::local_preserve_seed()
  local_backend(2)
  endless <- function() iterators::icount()
  expect_identical(foreach(i = endless(), x = letters[1:5], .combine = c) %dopar% paste0(x, i), paste0(letters[1:5], 1:5))
  # Two parts of the length that is usual.
  expect_identical(foreach(i = endless(), x = 1:12000, .combine = c) %dopar% i, 1:12000)
  begun <- iterators::iter(function() {
    given <<- given + 1
    given
  })
  given <- 0
  expect_error(
    foreach(i = begun, .options.regatta = list(ahead = 50)) %dopar% if (i == 120) stop("enough") else i,
    "iteration 120.*failed.*enough"
  )
  expect_identical(given, 150)
})

test_that("random numbers follow the seed of the session, or of the settings", {
  withr::local_preserve_seed()
  local_backend(2)
  draw <- function() foreach(i = 1:4, .combine = c) %dopar% stats::rnorm(1)
  set.seed(1)
  first <- draw()
  set.seed(1)
  registerDoRegatta(1)
  expect_identical(draw(), first)
  options <- list(control = par_control(seed = 5))
  seeded <- foreach(i = 1:2, .options.regatta = options) %dopar% stats::rnorm(1)
  expect_identical(seeded, par_lapply(1:2, function(i) stats::rnorm(1), .control = par_control(seed = 5)))
  expect_error(foreach(i = 1, .options.regatta = list(workers = 2)) %dopar% i, "names among",
    class = "regatta_error_argument")
})

test_that("the parts of a long loop have random numbers, and places in a checkpoint, as one map", {
  withr::local_preserve_seed()
  local_backend(2)
  two <- list(ahead = 2)
  X <- rep(1, 5)
  draw <- function(control, ahead = two, said = suppressMessages) {
    registerDoRegatta(2, control)
    said(foreach(x = X, .combine = c, .options.regatta = ahead) %dopar% stats::runif(x))
  }
  for (seed in list(TRUE, 5L)) {
    set.seed(1)
    plain <- par_control(workers = 2, seed = seed)
    map <- unlist(par_lapply(X, stats::runif, .control = plain))
    after <- stats::runif(1)
    # The second of these goes on from the folder of the first, the last in parts of another length.
    kept <- par_control(seed = seed, checkpoint = file.path(withr::local_tempdir("loop-"), "run"))
    for (ahead in list(two, two, list(ahead = 3))) {
      for (control in list(plain, kept)) {
        set.seed(1)
        expect_identical(draw(control, ahead), map)
        expect_identical(stats::runif(1), after)
      }
    }
    expect_identical(sort(par_log(kept$checkpoint)$index), c(1, 2, 3, 4, 5))
  }
  # Elements of the same content are told apart by their order in the loop.
  kept <- par_control(seed = FALSE, checkpoint = file.path(withr::local_tempdir("loop-"), "run"))
  first <- draw(kept)
  expect_identical(anyDuplicated(first), 0L)
  expect_identical(draw(kept), first)
  X <- rep(1, 6)
  expect_message(
    expect_message(
      again <- draw(kept, list(ahead = 3), identity),
      "3 of 3 elements are done"
    ),
    "2 of 3 elements from 4 on are done"
  )
  expect_identical(again[1:5], first)
  # One call from its first part to its last: nobody writes in between, and the lock is given back.
  locked <- function(x) {
    tryCatch(par_lapply(1:2, sqrt, .control = kept), regatta_error_checkpoint = function(e) e$reason)
  }
  kept <- par_control(seed = FALSE, checkpoint = file.path(withr::local_tempdir("loop-"), "run"))
  registerDoRegatta(2, kept)
  # foreach combines between the parts, in this session.
  said <- foreach(x = X, .combine = function(...) locked(), .options.regatta = two) %dopar% x
  expect_identical(said, "locked")
  expect_identical(locked(), "changed")
  expect_error(foreach(x = X, .options.regatta = two) %dopar% stop("on purpose"))
  expect_identical(locked(), "changed")
})

test_that("a loop whose checkpoint is refused names the variables that have changed", {
  local_backend(2)
  run <- function(kept, loop) {
    registerDoRegatta(2, kept)
    tryCatch(loop(), regatta_error_checkpoint = conditionMessage)
  }
  a <- b <- 1
  add <- function(i) i + b
  exports <- list(NULL, "add", c("a", "b", "add"))
  for (export in exports) {
    kept <- par_control(seed = FALSE, checkpoint = file.path(withr::local_tempdir("loop-"), "run"))
    loop <- function() foreach(i = 1:3, .combine = c, .export = export) %dopar% (add(i) + a)
    a <- b <- 1
    expect_identical(run(kept, loop), c(3, 4, 5))
    expect_identical(suppressMessages(run(kept, loop)), c(3, 4, 5))
    a <- 2
    expect_match(run(kept, loop), "the variable `a` has changed", fixed = TRUE)
    a <- 1
    b <- 2
    expect_match(run(kept, loop), "the variables? `(b|add)`.* ha(s|ve) changed")
    b <- 1
    expect_identical(suppressMessages(run(kept, loop)), c(3, 4, 5))
  }
})

test_that("workers that do not inherit the session get variables and packages", {
  withr::local_preserve_seed()
  skip_on_cran()
  cl <- parallel::makePSOCKcluster(2)
  withr::defer(parallel::stopCluster(cl))
  local_backend(cl)
  expect_identical(foreach::getDoParWorkers(), 2L)
  hidden <- 3
  name <- "hidden"
  expect_identical(foreach(i = 1:2, .combine = c, .export = "hidden") %dopar% get(name), c(3, 3))
  assign("rg_foreach_global", function(x) x + 1, globalenv())
  withr::defer(rm("rg_foreach_global", envir = globalenv()))
  expect_identical(foreach(i = 1:2, .combine = c) %dopar% rg_foreach_global(i), c(2, 3))
  attached <- foreach(i = 1:2, .combine = c, .packages = "splines") %dopar% is.function(bs)
  expect_identical(attached, c(TRUE, TRUE))
  expect_error(foreach(i = 1, .export = "rg_nowhere") %dopar% i, "rg_nowhere", class = "regatta_error_argument")
  expect_silent(nested <- foreach(i = 1:2, .packages = "foreach") %dopar% (foreach(j = 1:2, .combine = c) %dopar% (i + j)))
  expect_identical(nested, list(2:3, 3:4))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
