detritus <- detritus_snapshot()

# JSON by its grammar (RFC 8259), and nothing beyond it: values as R's lists, an error elsewhere.
strict_json <- function(path) {
  text <- readChar(path, file.size(path), useBytes = TRUE)
  expect_true(validUTF8(text))
  token <- paste0(
    "\"(?:[^\"\\\\\\x00-\\x1f]|\\\\(?:[\"\\\\/bfnrt]|u[0-9a-fA-F]{4}))*\"|",
    "-?(?:0|[1-9][0-9]*)(?:[.][0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null|[][{},:]"
  )
  at <- gregexpr(token, text, perl = TRUE, useBytes = TRUE)[[1L]]
  words <- regmatches(text, list(structure(at, useBytes = TRUE)))[[1L]]
  Encoding(words) <- "UTF-8"
  between <- gsub(token, "", text, perl = TRUE, useBytes = TRUE)
  expect_match(between, "^[ \t\r\n]*$")
  k <- 0L
  take <- function(want = NULL) {
    k <<- k + 1L
    if (k > length(words) || !is.null(want) && words[[k]] != want) stop("not JSON at word ", k)
    words[[k]]
  }
  members <- function(closing, one) {
    got <- list()
    if (words[[k + 1L]] == closing) {
      take()
      return(got)
    }
    repeat {
      got <- c(got, one())
      if (take() == closing) {
        return(got)
      }
      if (words[[k]] != ",") stop("no comma at word ", k)
    }
  }
  value <- function() {
    word <- take()
    if (word == "{") {
      return(members("}", function() {
        name <- take()
        if (!startsWith(name, "\"")) stop("no name at word ", k)
        take(":")
        stats::setNames(list(value()), json_text(name))
      }))
    }
    if (word == "[") {
      return(members("]", function() list(value())))
    }
    if (word %in% c("}", "]", ",", ":")) stop("no value at word ", k)
    if (startsWith(word, "\"")) json_text(word) else if (word == "null") NULL else as.numeric(word)
  }
  got <- value()
  expect_identical(k, length(words))
  got
}

# Escapes as they are written by trace_write(), undone.
json_text <- function(word) {
  text <- substr(word, 2L, nchar(word) - 1L)
  parts <- regmatches(text, gregexpr("\\\\u[0-9a-f]{4}|\\\\.|[^\\\\]+", text, perl = TRUE))[[1L]]
  paste(vapply(parts, function(part) {
    if (startsWith(part, "\\u")) intToUtf8(strtoi(substr(part, 3L, 6L), 16L)) else sub("^\\\\(.)$", "\\1", part)
  }, ""), collapse = "")
}

written <- function(run, env = parent.frame()) {
  path <- withr::local_tempfile(fileext = ".json", .local_envir = env)
  back <- withVisible(trace_write(run, path))
  expect_identical(back, list(value = path, visible = FALSE))
  trace <- strict_json(path)
  expect_identical(names(trace), c("displayTimeUnit", "traceEvents", "otherData"))
  trace$path <- path
  trace
}

field <- function(events, name) lapply(events, `[[`, name)

of_kind <- function(trace, phase) Filter(function(event) event$ph == phase, trace$traceEvents)

# What a viewer of the format takes for granted.
expect_viewable <- function(trace) {
  events <- Filter(function(event) event$ph != "M", trace$traceEvents)
  times <- unlist(field(events, "ts"))
  expect_length(times, length(events))
  expect_false(is.unsorted(times))
  expect_gte(min(times), 0)
  slices <- of_kind(trace, "X")
  expect_true(all(unlist(field(slices, "dur")) >= 0))
  lanes <- unlist(field(slices, "tid"))
  for (lane in unique(lanes)) {
    mine <- slices[lanes == lane]
    ends <- unlist(field(mine, "ts")) + unlist(field(mine, "dur"))
    # To a tenth of a nanosecond, of the sum of two numbers of microseconds.
    expect_true(all(unlist(field(mine, "ts"))[-1L] >= ends[-length(ends)] - 1e-4))
  }
  named <- Filter(function(event) event$name == "thread_name", of_kind(trace, "M"))
  expect_true(all(lanes %in% unlist(field(named, "tid"))))
  expect_false(anyDuplicated(unlist(field(named, "tid"))) > 0L)
}

odd_names <- c("quote\" and \\", "line\nand\ttab", "\u00e9\u4e16 \U1f600", "\001\177", "</script>", "NaN", NA, "")

test_that("every element is a slice of its worker, by its name, with its times in microseconds", {
  run <- record_of(c(1, 2, 0.5, 0.25, 3), names = letters[1:5], failed = 3L)
  trace <- written(run)
  expect_viewable(trace)
  slices <- Filter(function(event) event$cat %in% c("done", "error"), of_kind(trace, "X"))
  order <- order(run$elements$start, -run$elements$end)
  expect_identical(unlist(field(slices, "name")), letters[1:5][order])
  expect_equal(unlist(field(slices, "ts")), run$elements$start[order] * 1e6)
  expect_equal(unlist(field(slices, "dur")), c(1, 2, 0.5, 0.25, 3)[order] * 1e6)
  expect_equal(unlist(field(slices, "tid")), as.double(run$elements$worker[order]))
  expect_equal(unlist(lapply(slices, function(event) event$args$index)), as.double(order))
  expect_identical(slices[[which(order == 3L)]]$cat, "error")
  expect_identical(slices[[which(order == 3L)]]$cname, "terrible")
  whole <- Filter(function(event) event$cat == "session", of_kind(trace, "X"))
  expect_equal(whole[[1L]]$dur, run$elapsed * 1e6)
  lanes <- Filter(function(event) event$name == "thread_name", of_kind(trace, "M"))
  expect_setequal(
    vapply(lanes, function(event) event$args$name, ""), c("session", "worker 1 (localhost)", "worker 2 (localhost)")
  )
})

test_that("names are escaped, and come back as they were", {
  run <- record_of(seq_along(odd_names) / 10, workers = 1L, names = odd_names)
  trace <- written(run)
  expect_viewable(trace)
  slices <- Filter(function(event) event$cat == "done", of_kind(trace, "X"))
  expected <- c(odd_names[1:6], "element 7", "element 8")
  expect_identical(unlist(field(slices, "name")), expected)
  if (requireNamespace("jsonlite", quietly = TRUE)) {
    events <- jsonlite::fromJSON(trace$path)$traceEvents
    expect_identical(events$name[events$cat %in% "done"], expected)
  }
  latin <- "caf\xe9"
  Encoding(latin) <- "latin1"
  expect_identical(json_string(latin), "\"caf\u00e9\"")
  broken <- "a\xff"
  Encoding(broken) <- "UTF-8"
  expect_identical(json_string(broken), "\"a<ff>\"")
})

test_that("what is not known is null or left out, never NaN", {
  run <- record_of(c(1, 1, 1), workers = 1L, failed = 2L, how = "timeout", retried = 3L)
  run$workers$exit <- "signal 9 (SIGKILL)"
  run$workers$peak_memory <- NA_real_
  run$elements$bytes[[1L]] <- NA
  run$elements$peak <- c(NaN, Inf, 5)
  run$tries$peak <- NA_real_
  run$elements$end[[2L]] <- NA
  run$elements[1L, c("start", "end")] <- NA
  trace <- written(run)
  expect_viewable(trace)
  expect_length(Filter(function(event) event$cat %in% c("done", "error", "timeout"), of_kind(trace, "X")), 3L)
  end <- of_kind(trace, "i")
  expect_length(end, 1L)
  expect_equal(end[[1L]]$ts, run$elapsed * 1e6)
  expect_identical(end[[1L]]$s, "t")
  expect_no_match(paste(readLines(trace$path), collapse = ""), "NaN|[^a-z]NA[^a-z]|Inf")
})

test_that("slices of a lane never overlap, also where a worker was given up before its element ended", {
  run <- record_of(c(1, 1), workers = 1L)
  run$elements$end[[1L]] <- run$elements$start[[2L]] + 0.5
  expect_viewable(written(run))
  thirds <- record_of(rep(1 / 3, 3000), workers = 3L)
  thirds$elements$end <- thirds$elements$start + 1 / 3 + 0.001
  expect_viewable(written(thirds))
})

test_that("a run without workers can be written", {
  run <- record_of(numeric(), workers = 1L)
  run$workers <- run$workers[0L, ]
  run$elapsed <- 0
  trace <- written(run)
  expect_length(of_kind(trace, "X"), 1L)
})

test_that("the trace of a real run with failures, retries and deaths is one that viewers can read", {
  control <- par_control(
    workers = 2L, progress = FALSE, errors = "collect", retries = 1L, dump = "no", seed = 1L
  )
  suppressWarnings(par_lapply(stats::setNames(1:8, rep(odd_names, length.out = 8)), function(i) {
    if (i == 3) stop("no") else if (i == 5) quit("no", 3)
  }, .control = control))
  trace <- written(par_last())
  expect_viewable(trace)
  kinds <- table(unlist(field(trace$traceEvents, "cat")))
  expect_identical(kinds[["error"]], 2L)
  expect_identical(kinds[["death"]], 2L)
  expect_identical(kinds[["done"]], 6L)
  expect_identical(kinds[["end"]], 2L)
})

# The panel for performance in the developer tools of Chromium, given the file as if by its button: the tracks that it
# draws, with the titles, beginnings and lengths (in milliseconds) of what is in each.
opened_in_chromium <- function(path, env = parent.frame()) {
  text <- jsonlite::toJSON(paste(readLines(path, encoding = "UTF-8"), collapse = "\n"), auto_unbox = TRUE)
  browse("devtools://devtools/bundled/devtools_app.html", env = env, script = c(
    "const bundled = name => import(`devtools://devtools/bundled/${name}`);",
    "const {TimelinePanel} = await bundled('panels/timeline/timeline.js');",
    "const {ViewManager} = await bundled('ui/legacy/legacy.js');",
    "await ViewManager.ViewManager.instance().showView('timeline');",
    "const panel = TimelinePanel.TimelinePanel.instance();",
    paste0("await panel.loadFromFile(new File([", text, "], 'run.json', {type: 'application/json'}));"),
    "let groups = [], data, provider;",
    "while (groups.length === 0) {",
    "  await new Promise(done => setTimeout(done, 50));",
    "  if (!panel.hasActiveTrace()) continue;",
    "  provider = panel.getFlameChart().getMainDataProvider();",
    "  data = provider.timelineData();",
    "  groups = data.groups;",
    "}",
    "const zero = Math.min(...data.entryStartTimes);",
    "return groups.map((group, i) => {",
    "  const until = i + 1 < groups.length ? groups[i + 1].startLevel : Infinity;",
    "  const entries = [...data.entryLevels.keys()].filter(",
    "    k => data.entryLevels[k] >= group.startLevel && data.entryLevels[k] < until);",
    "  return {track: group.name, entries: entries.map(",
    "    k => ({title: provider.entryTitle(k), start: data.entryStartTimes[k] - zero, length: data.entryTotalTimes[k]}))};",
    "});"
  ))
}

test_that("the developer tools of a browser draw a track for each worker, and each element in its place", {
  withr::local_preserve_seed()
  run <- record_of(seq_along(odd_names) / 10, names = odd_names, failed = 2L, retried = 3L)
  path <- withr::local_tempfile(fileext = ".json")
  trace_write(run, path)
  tracks <- opened_in_chromium(path)
  found <- do.call(rbind, unlist(lapply(tracks, function(track) {
    lapply(track$entries, function(entry) data.frame(track = track$track, entry))
  }), recursive = FALSE))
  for (worker in 1:2) {
    mine <- found[grepl(sprintf("worker %d (localhost)", worker), found$track, fixed = TRUE) & found$title != "start-up", ]
    rows <- rbind(run$elements, run$tries)
    rows <- rows[rows$worker == worker, ]
    rows <- rows[order(rows$start), ]
    names <- ifelse(is.na(odd_names) | !nzchar(odd_names), paste("element", seq_along(odd_names)), odd_names)
    expect_identical(mine$title, names[rows$index])
    expect_equal(mine$start, rows$start * 1e3, tolerance = 1e-5)
    expect_equal(mine$length, (rows$end - rows$start) * 1e3, tolerance = 1e-5)
  }
})

test_that("bad arguments are refused", {
  expect_error(trace_write(list(), "x"), "record of a run", class = "regatta_error_argument")
  expect_error(trace_write(record_of(1), 3), "`file`", class = "regatta_error_argument")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
