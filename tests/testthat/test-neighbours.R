# The listings of vignettes/neighbours.Rmd, as a user would paste them: each alone, in a session that has nothing else.
detritus <- detritus_snapshot()

page <- file.path(Sys.getenv("REGATTA_SOURCE", "."), "vignettes", "neighbours.Rmd")
if (!file.exists(page)) page <- system.file("doc", "neighbours.Rmd", package = "regatta")

# list(needs, code) for each chunk that is shown and evaluated, by name.
page_chunks <- function(lines) {
  starts <- grep("^```\\{r ", lines)
  chunks <- lapply(starts, function(at) {
    end <- at + which(lines[-seq_len(at)] == "```")[[1L]]
    options <- eval(parse(text = sub("^```\\{r ([a-z0-9-]+)(.*)\\}$", "list(name = '\\1'\\2)", lines[[at]])))
    c(options, list(code = lines[seq_len(end - at - 1L) + at]))
  })
  names(chunks) <- vapply(chunks, `[[`, "", "name")
  Filter(function(chunk) !isFALSE(chunk$eval) && !isFALSE(chunk$include), chunks)
}

# "package", or "package version".
is_installed <- function(need) {
  need <- strsplit(need, " ")[[1L]]
  nzchar(system.file(package = need[[1L]])) && (length(need) == 1L || utils::packageVersion(need[[1L]]) >= need[[2L]])
}

# Defines watch_workers(): from then on a line of `file` tells of each element of a map, each call in the background
# that is over and each value of a node of a cluster that this process has got: what it was, the process that evaluated
# it, its number and when it began, this process. It stands where records of runs are made, of one run more than once,
# and where values of nodes arrive.
watching <- quote(watch_workers <- function(file) {
  here <- Sys.getpid()
  values <- 0
  note <- function(what, pid, index, start) {
    if (Sys.getpid() == here) write(paste(what, pid, index, format(start, digits = 15), here), file, append = TRUE)
  }
  note_run <- function(facts) {
    run <- asNamespace("regatta")$record_new(facts)
    rows <- run$elements[run$elements$status == "done", ]
    if (nrow(rows) > 0L) note(run$verb, rows$pid, rows$index, facts$clock + rows$start)
  }
  note_node <- function(state, got) {
    pid <- .Call(asNamespace("regatta")$ffi_fork_stand_members, state$stand)$pid
    values <<- values + 1
    note("node", pid[[got[[1L]]]], got[[1L]], values)
  }
  watch <- function(...) suppressMessages(trace(..., print = FALSE, where = asNamespace("regatta")))
  watch("record_later", tracer = as.call(list(note_run, quote(facts))))
  watch("node_reply", exit = as.call(list(note_node, quote(state), quote(returnValue()))))
})

# Runs `code` line by line, as at the prompt: what was shown last, the same by `alone`, which is evaluated in one
# process, and who has evaluated it. A pipeline of targets is watched in its own process.
run_chunk <- function(code, alone) {
  got <- fault_run(function(code, quoted) {
    detach("package:regatta")
    file <- file.path(dir, "workers")
    script <- file.path(dir, "watch.R")
    eval(quoted$watching, globalenv())
    writeLines(c(deparse(quoted$watching), sprintf("watch_workers(%s)", deparse(file))), script)
    watch_workers(file)
    if (any(grepl("tar_make", code, fixed = TRUE))) {
      add <- bquote(writeLines(c(.(sprintf("source(%s)", deparse(script))), readLines("_targets.R")), "_targets.R"))
      suppressMessages(trace("tar_make", tracer = add, print = FALSE, where = asNamespace("targets")))
    }
    rm(watch_workers, envir = globalenv())
    for (line in parse(text = code)) {
      value <- withVisible(eval(line, globalenv()))
      if (value$visible) shown <- value$value
    }
    told <- if (file.exists(file)) unique(readLines(file)) else character()
    list(shown = shown, told = told, alone = eval(quoted$alone, globalenv()))
  }, list(code, list(alone = alone, watching = watching)), timeout = 120 * slowness())$value
  workers <- utils::read.table(text = c("what pid index start session", got$told), header = TRUE)
  c(got[c("shown", "alone")], list(workers = workers))
}

roots <- quote(sqrt(1:4))
# The mean error of cross-validation, in parts of mtcars.
error_of <- function(formula, parts) {
  bquote(mean(vapply(split(1:32, .(parts)), function(rows) {
    model <- lm(.(formula), mtcars[-rows, ])
    sqrt(mean((mtcars$mpg - predict(model, mtcars))[rows]^2))
  }, 0)))
}

# For each listing what one process gives, what of regatta has evaluated it and how often, at least.
expected <- list(
  mclapply = list(quote((1:4)^2), "mclapply", 4L),
  parallel = list(roots, "node", 2L),
  boot = list(quote({
    set.seed(1)
    sd(boot::boot(mtcars, slope, R = 100)$t)
  }), "node", 2L),
  pbapply = list(roots, "node", 2L),
  foreach = list(roots, "foreach", 4L),
  glmnet = list(quote({
    glmnet::cv.glmnet(as.matrix(mtcars[-1]), mtcars$mpg, foldid = rep(1:8, 4))$lambda.min
  }), "foreach", 8L),
  caret = list(quote({
    set.seed(1)
    alone <- caret::trainControl("cv", 5, allowParallel = FALSE)
    caret::train(mpg ~ wt, mtcars, method = "lm", trControl = alone)$results$RMSE
  }), "foreach", 5L),
  future = list(quote(sum(1:10)), "future", 1L),
  "future-apply" = list(roots, "future", 2L),
  furrr = list(roots, "future", 2L),
  dofuture = list(roots, "future", 2L),
  futurize = list(roots, "future", 2L),
  mlr3 = list(error_of(mpg ~ 1, rep(1:4, 8)), "future", 2L),
  tune = list(error_of(mpg ~ wt, rep(1:4, 8)), "future", 2L),
  purrr = list(roots, "par_lapply", 4L),
  biocparallel = list(roots, "par_call", 2L),
  delayedarray = list(quote(sum(volcano)), "par_call", 2L),
  targets = list(quote(sum(sqrt(1:4))), "par_call", 6L),
  progressr = list(roots, "par_lapply", 4L)
)

chunks <- if (file.exists(page)) page_chunks(readLines(page, encoding = "UTF-8"))

test_that("each listing of the page is tried", {
  skip_if(!file.exists(page), "no vignettes here")
  expect_setequal(names(chunks), names(expected))
})

for (name in names(chunks)) {
  test_that(paste("the listing works alone, in workers, and gives what one process gives:", name), {
    missing <- Filter(Negate(is_installed), as.character(chunks[[name]]$needs))
    skip_if(length(missing) > 0L, paste("not installed:", toString(missing)))
    withr::local_preserve_seed()
    of <- expected[[name]]
    got <- run_chunk(chunks[[name]]$code, of[[1L]])
    expect_equal(got$shown, got$alone, ignore_attr = "names")
    expect_identical(unique(got$workers$what), of[[2L]])
    expect_gte(nrow(got$workers), of[[3L]])
    expect_false(any(got$workers$pid == got$workers$session))
  })
}

test_that("a listing whose lines run in the session alone is found", {
  skip_if_not(is_installed("foreach"), "not installed: foreach")
  withr::local_preserve_seed()
  got <- run_chunk(c("library(foreach)", "registerDoSEQ()", "foreach(i = 1:4, .combine = c) %dopar% sqrt(i)"), roots)
  expect_equal(got$shown, got$alone)
  expect_identical(nrow(got$workers), 0L)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
