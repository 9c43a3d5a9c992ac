# The lines of vignettes/neighbours.Rmd, as a user would paste them: each section in a session of its own.
detritus <- detritus_snapshot()

page <- file.path(Sys.getenv("REGATTA_SOURCE", "."), "vignettes", "neighbours.Rmd")
if (!file.exists(page)) page <- system.file("doc", "neighbours.Rmd", package = "regatta")

# list(name, needs, code) for each chunk that is evaluated, in a list for each section.
page_sections <- function(lines) {
  section <- cumsum(startsWith(lines, "## "))
  starts <- grep("^```\\{r ", lines)
  chunks <- lapply(starts, function(at) {
    end <- at + which(lines[-seq_len(at)] == "```")[[1L]]
    options <- eval(parse(text = sub("^```\\{r ([a-z0-9-]+)(.*)\\}$", "list(name = '\\1'\\2)", lines[[at]])))
    c(options, list(section = section[[at]], code = lines[seq_len(end - at - 1L) + at]))
  })
  chunks <- Filter(function(chunk) !isFALSE(chunk$eval) && chunk$section > 0L, chunks)
  titles <- sub("^## ", "", lines[startsWith(lines, "## ")])
  split(chunks, factor(vapply(chunks, function(chunk) titles[[chunk$section]], ""), titles), drop = TRUE)
}

# "package", or "package version".
is_installed <- function(need) {
  need <- strsplit(need, " ")[[1L]]
  nzchar(system.file(package = need[[1L]])) && (length(need) == 1L || utils::packageVersion(need[[1L]]) >= need[[2L]])
}

# What the variables of a section are where its chunks are run one after the other, without objects of other packages:
# these would load them here; and which packages were missing.
run_section <- function(chunks) {
  there <- vapply(chunks, function(chunk) all(vapply(as.list(chunk$needs), is_installed, NA)), NA)
  got <- fault_run(function(code) {
    place <- new.env()
    for (line in parse(text = code)) eval(line, place)
    values <- mget(ls(place), place)
    if (!is.null(values$fit)) {
      alone <- with(values, glmnet::cv.glmnet(x, y, foldid = folds))
      values$fit <- identical(values$fit[c("cvm", "cvsd", "lambda.min")], alone[c("cvm", "cvsd", "lambda.min")])
    }
    values$model <- values$model$results$RMSE
    values$resampled <- if (!is.null(values$resampled)) unname(values$resampled$aggregate(mlr3::msr("regr.rmse")))
    values$tuned <- if (!is.null(values$tuned)) tune::collect_metrics(values$tuned)$mean[[1L]]
    values$replicates <- dim(values$replicates$t)
    values$blocks <- if (!is.null(values$blocks)) sum(unlist(values$blocks))
    Filter(function(x) is.atomic(x) || is.list(x) && all(vapply(x, is.atomic, NA)), values)
  }, list(code = as.character(unlist(lapply(chunks[there], `[[`, "code")))), timeout = 120 * slowness())
  list(values = got$value, missing = unique(unlist(lapply(chunks[!there], `[[`, "needs"))))
}

roots <- sqrt(1:4)
folds <- split(1:32, rep(1:4, 8))
expected <- list(
  squares = as.list((1:4)^2), roots = as.list(roots), bars = as.list(roots), tasks = as.list(roots),
  steps = as.list(roots), loop = roots, applied = roots, mapped = roots, looped = roots, futurized = as.list(roots),
  crated = as.list(roots), total = sum(roots), blocks = 210L, replicates = c(100L, 1L), fit = TRUE,
  model = mean(vapply(split(1:150, rep(1:5, 30)), function(rows) {
    model <- lm(Sepal.Length ~ Petal.Length, iris[rows, ])
    sqrt(mean((iris$Sepal.Length - predict(model, iris))[-rows]^2))
  }, 0)),
  resampled = mean(vapply(folds, function(rows) sqrt(mean((mtcars$mpg[rows] - mean(mtcars$mpg[-rows]))^2)), 0)),
  tuned = mean(vapply(folds, function(rows) {
    sqrt(mean((mtcars$mpg - predict(lm(mpg ~ wt, mtcars[-rows, ]), mtcars))[rows]^2))
  }, 0))
)

sections <- if (file.exists(page)) page_sections(readLines(page, encoding = "UTF-8"))

test_that("the page has a section for each neighbour", {
  skip_if(!file.exists(page), "no vignettes here")
  code <- unlist(lapply(unlist(sections, recursive = FALSE), `[[`, "code"))
  is_made <- vapply(names(expected), function(name) any(startsWith(code, paste(name, "<-"))), NA)
  expect_identical(names(expected)[!is_made], character())
})

for (section in names(sections)) {
  test_that(paste("lines work and give what one process gives:", section), {
    withr::local_preserve_seed()
    got <- run_section(sections[[section]])
    for (name in intersect(names(expected), names(got$values))) {
      expect_equal(got$values[[name]], expected[[name]], label = name)
    }
    skip_if(length(got$missing) > 0L, paste("not installed:", toString(got$missing)))
  })
}

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
