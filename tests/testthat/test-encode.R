detritus <- detritus_snapshot()

# R warns of an environment of a package whenever it serialises one, and then writes it.
stats_env <- as.environment("package:stats")

# Whatever is signalled where `code` is evaluated is an error.
without_conditions <- function(code) {
  withCallingHandlers(code, condition = function(cnd) stop("signalled: ", conditionMessage(cnd)))
}

# The error of `code`, before which no warning comes.
failure <- function(code) {
  tryCatch(
    withCallingHandlers(code, warning = function(w) stop("signalled: ", conditionMessage(w))),
    error = identity
  )
}

mine <- function(class) {
  structure(class = c("mine", class, "condition"), list(message = "told", call = NULL, env = stats_env))
}

expect_arrives <- function(on, place) {
  ask <- function(FUN, X = 1:2, dump = "no", ...) {
    control <- par_control(progress = FALSE, seed = 1L, dump = dump)
    par_lapply(X, FUN, ..., .on = on, .control = control)
  }
  value <- without_conditions(ask(function(i) list(i, as.environment("package:stats"), rep(i + 0, 1e5))))
  expect_identical(value, lapply(1:2, function(i) list(i, stats_env, rep(i + 0, 1e5))), info = place)
  strict <- without_conditions(ask(function(i) {
    options(warn = 2)
    list(i, as.environment("package:stats"))
  }))
  expect_identical(strict, list(list(1L, stats_env), list(2L, stats_env)), info = place)
  given <- without_conditions(ask(environmentName, list(stats_env, stats_env)))
  expect_identical(given, list("package:stats", "package:stats"), info = place)

  failed <- failure(ask(function(i) stop(mine("error"))))
  expect_s3_class(failed$parent, "mine")
  expect_identical(failed$parent$env, stats_env, info = place)
  for (class in c("warning", "message")) {
    told <- list()
    withCallingHandlers(
      ask(X = 1L, function(i) {
        options(warn = if (class == "warning") 1 else 2)
        if (class == "warning") warning(mine(class)) else message(mine(class))
      }),
      condition = function(cnd) {
        told <<- c(told, list(cnd))
        tryInvokeRestart("muffleWarning")
        tryInvokeRestart("muffleMessage")
      }
    )
    expect_length(told, 1L)
    expect_s3_class(told[[1L]], "mine")
    expect_identical(told[[1L]]$env, stats_env, info = paste(place, class))
  }

  for (dump in c("partial", if (place == "forked") "full")) {
    failed <- failure(ask(dump = dump, function(i) {
      where <- parent.env(globalenv())
      options(warn = 2)
      stop("disk ", i, " is full")
    }))
    expect_identical(conditionMessage(failed$parent), "disk 1 is full", info = paste(place, dump))
    held <- failed$dump[[length(failed$dump)]]
    expect_true(is.environment(held$where), info = place)
  }
}

test_that("what holds an environment of a package arrives as it is, without a warning", {
  expect_arrives(2L, "forked")
  expect_arrives(local_pool(1L), "cluster_local()")
  expect_arrives(local_cluster(1L), "parallel")
})

test_that("a file with a dump is written whatever the frames hold", {
  path <- withr::local_tempfile()
  f <- function(i) {
    where <- as.environment("package:stats")
    stop("disk is full")
  }
  failed <- failure(par_lapply(1:2, f, .control = two_workers(dump = "partial", dump_file = path)))
  expect_identical(conditionMessage(failed$parent), "disk is full")
  dump <- readRDS(path)
  expect_identical(dump[[length(dump)]]$where, stats_env)
  here <- failure(par_lapply(1L, f, .control = two_workers(dump = "partial", workers = 1L), .on = 1L))
  expect_identical(here$dump[[length(here$dump)]]$where, stats_env)
})

test_that("a checkpoint keeps an environment of a package", {
  control <- two_workers(checkpoint = withr::local_tempfile())
  want <- list(list(stats_env, numeric(2e5)))
  for (k in 1:2) {
    got <- withCallingHandlers(
      par_lapply(list(stats_env), function(env) list(env, numeric(2e5)), .control = control),
      warning = function(w) stop("signalled: ", conditionMessage(w))
    )
    expect_identical(got, want)
  }
})

test_that("strings have the order of their bytes in UTF-8, in all locales and whatever their encoding is", {
  native <- "\xc3\xa9" # R refuses to order strings of which the first is such a one
  strings <- c("z", "\u65e5", iconv("\u00e9", "UTF-8", "latin1"), "A", "a", "\u00e8")
  for (locale in c("C", Sys.getlocale("LC_CTYPE"))) {
    withr::with_locale(c(LC_CTYPE = locale), {
      got <- regatta:::sorted(strings)
      first <- regatta:::in_order(c(native, "\u00e8"))
    })
    expect_identical(got, c("A", "a", "z", "\u00e8", "\u00e9", "\u65e5"), label = locale)
    expect_setequal(first, 1:2)
  }
})

test_that("nothing is left behind", {
  end_servers()
  expect_no_detritus(detritus)
})
