# What the session has attached, on workers that do not inherit it. Package stats4 is in every R, no R process attaches
# it by itself, and its generics stand for functions of base R.

detritus <- detritus_snapshot()
nodes <- cluster_start(1L)
pool <- cluster_local(1L)
here <- function(...) par_control(workers = 1L, progress = FALSE, dump = "no", seed = FALSE, ...)

expect_as_lapply <- function(X, FUN, ...) {
  FUN <- utils::removeSource(FUN) # which has all names of this file
  environment(FUN) <- globalenv()
  here <- lapply(X, FUN, ...)
  expect_identical(par_lapply(X, FUN, ..., .on = pool, .control = here()), here)
  expect_identical(par_lapply(X, FUN, ..., .on = nodes$cluster, .control = here()), here)
  here
}

local_attached <- function(what, name, frame = parent.frame()) {
  do.call(attach, list(what, name = name, warn.conflicts = FALSE))
  withr::defer(detach(name, character.only = TRUE), envir = frame)
}

test_that("names that an attached package masks mean what they mean here, however code comes by them", {
  suppressMessages(library(stats4))
  withr::defer(detach("package:stats4"))
  own <- list("standardGeneric")
  kind <- function(f) class(f)[[1L]]
  local_attached(list(rg_kind = kind), "rg_tools")
  expect_identical(expect_as_lapply(1, function(i) rg_kind(Reduce("(", list(get(paste0("sum", "mary")))))), own)
  by_name <- function(n) {
    called <- function(what) rg_kind(match.fun(what))
    called(n)
  }
  expect_identical(expect_as_lapply("summary", by_name), own)
  # What R has nothing of is there where some string names it, and the package is not loaded for it before it is used.
  expect_as_lapply(c("mle", "nope"), function(n) c(exists(n), is.null(get0(n))))
  unused <- utils::removeSource(function(i) sum(startsWith(c(loadedNamespaces(), search()), "stats")))
  environment(unused) <- globalenv()
  expect_identical(par_lapply(1, unused, .on = local_pool(1L), .control = here()), list(1L))
})

test_that("data that has the name of a function is data, and the other way round, however code comes by the name", {
  here <- regatta:::workspace_take()
  withr::defer(regatta:::workspace_reset(here, character()))
  eval(quote({
    df <- mtcars
    weights <- rep(2, 32)
    gamma <- NULL
    month.name <- function() 1
    mle <- 2
    makeActiveBinding("beta", function() 42, globalenv())
    rg_fits <- list(lm(mpg ~ wt, df, weights = weights), glm(mpg ~ cyl, data = df))
  }), globalenv())
  local_attached(list(dt = 1:5), "rg_data")
  suppressMessages(library(stats4))
  withr::defer(detach("package:stats4"))
  fits <- get("rg_fits", globalenv())
  rm("rg_fits", envir = globalenv())
  expect_as_lapply(fits, function(m) nrow(eval(m$call$data)) - nobs(m))
  expect_as_lapply(fits, function(m) AIC(update(m, . ~ . + hp)))
  expect_as_lapply(list("nrow(df)", "df$mpg"), function(s) eval(parse(text = s)))
  if (requireNamespace("glue", quietly = TRUE)) {
    expect_as_lapply("{nrow(df)} {sum(weights)}", function(s) as.character(glue::glue(s)))
  }
  parts <- list(list("d", "f"), list("d", "t"), list("gam", "ma"), list("be", "ta"), list("m", "le"))
  expect_as_lapply(parts, function(s) get(paste0(s[[1]], s[[2]])))
  expect_as_lapply("f", function(s) nrow(globalenv()[[paste0("d", s)]]))
  expect_as_lapply("onth.name", function(s) c(get(paste0("m", s))(), exists(paste0("m", s), mode = "character")))
  # A call of a function passes over what is none.
  expect_as_lapply(1, function(i) c(df(1, 2, 3), beta(1, 2), do.call(paste0("d", "f"), list(1, 2, 3)), gamma(4)))
})

test_that("names of a package that library() was to leave out mask nothing", {
  suppressMessages(library(stats4, exclude = c("summary", "AIC")))
  withr::defer(detach("package:stats4"))
  of <- function(i) c(environmentName(environment(summary)), environmentName(environment(mle)))
  expect_identical(expect_as_lapply(1, of), list(c("base", "stats4")))
  detach("package:stats4")
  suppressMessages(library(stats4, include.only = "AIC"))
  of <- function(i) c(environmentName(environment(summary)), class(AIC)[[1L]], exists("mle"))
  expect_identical(expect_as_lapply(1, of), list(c("base", "standardGeneric", "FALSE")))
})

test_that("lists that are attached are searched as here", {
  local_attached(list(sd = function(x) "attached", rg_level = 3, letters = 1), "rg_mine")
  expect_as_lapply(1, function(i) sapply(list(1:3), "sd"))
  expect_as_lapply(1, function(i) list(get(paste0("s", "d"))(1:3), rg_level, get(paste0("let", "ters"))))
  expect_as_lapply(1, function(i) list(exists("rg_level", globalenv(), inherits = FALSE), exists("rg_level")))
  # What a package in front has of that name is found first.
  suppressMessages(library(stats4))
  withr::defer(detach("package:stats4"))
  local_attached(list(summary = function(x) "behind"), "rg_front")
  apply_to <- function(x, what) match.fun(what)(x)
  expect_s3_class(expect_as_lapply(list(1:3), apply_to, "summary")[[1L]], "summaryDefault")
})

test_that("what is not found on a worker and the session has attached is said to be that", {
  local_attached(list(rg_behind = 1), "rg_list")
  suppressMessages(library(stats4))
  withr::defer(detach("package:stats4"))
  said <- function(FUN, on) {
    FUN <- utils::removeSource(FUN)
    environment(FUN) <- globalenv()
    cnd <- expect_error(par_lapply("le", FUN, .on = on, .control = here()), class = "regatta_error_element")
    paste(cnd$body, collapse = "\n")
  }
  for (on in list(pool, nodes$cluster)) {
    expect_match(said(function(s) get(paste0("m", s)), on), "`mle` is of package stats4, .*stats4::mle.*library.stats4")
    expect_match(said(function(s) do.call(paste0("m", s), list()), on), "`mle` is of package stats4")
    told <- said(function(s) get(paste0("rg_", "behind")), on)
    expect_match(told, "`rg_behind` is a variable of \"rg_list\", .* not sent")
    expect_no_match(said(function(s) get(paste0("rg_no", s)), on), "session")
  }
})

test_that("data sets of R with formulas of the empty environment are sent as others", {
  expect_as_lapply(split(datasets::CO2, datasets::CO2$Type), function(d) d[1, "uptake"])
  expect_as_lapply(1:2, function(i) CO2[i, "uptake"])
})

stopped <- parallel::stopCluster(pool)
nodes$stop()
end_servers()

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
