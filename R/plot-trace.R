# A run as a file in the trace event format of Chromium, which chrome://tracing, Perfetto and other viewers read:
# https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
# The run is a process, the session and each worker a thread of it, each element a slice.

trace_write <- function(run = par_last(), file) {
  check_run(run)
  check_string(file, "file")
  events <- trace_events(run)
  to <- base::file(file, "wb")
  on.exit(close(to))
  writeLines("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", to)
  # Some at a time, as all of a large run in one string would be copied as a whole.
  for (rows in split(seq_along(events), (seq_along(events) - 1L) %/% 1e5)) {
    ends <- ifelse(rows == length(events), "", ",")
    writeLines(paste0(events[rows], ends), to, useBytes = TRUE)
  }
  about <- c(call = run_call(run), started = format(run$start, "%Y-%m-%dT%H:%M:%S%z"), executor = run$executor)
  writeLines(sprintf("],\"otherData\":{%s}}", json_fields(as.list(about))), to, useBytes = TRUE)
  invisible(file)
}

# One line of JSON for each event: names first, then all in the order of time.
trace_events <- function(run) {
  spans <- run_spans(run)
  slices <- rbind(trace_session(run), trace_start_up(run, spans), trace_elements(run, spans), trace_ends(run))
  slices <- slices[order(slices$from, -slices$to), ]
  from <- trace_clock(slices$from)
  instant <- slices$category == "end"
  # Of the rounded times: slices that follow each other must not overlap.
  length <- ifelse(instant, ",\"s\":\"t\"", sprintf(",\"dur\":%.3f", (trace_clock(slices$to) - from) / 1e3))
  c(
    trace_names(run),
    sprintf(
      "{\"ph\":\"%s\",\"pid\":1,\"tid\":%d,\"ts\":%.3f%s,\"name\":%s,\"cat\":\"%s\"%s,\"args\":{%s}}",
      ifelse(instant, "i", "X"), slices$lane, from / 1e3, length, json_string(slices$name), slices$category,
      slices$colour, slices$about
    )
  )
}

# Whole nanoseconds.
trace_clock <- function(seconds) round(seconds * 1e9)

trace_names <- function(run) {
  workers <- run$workers[!duplicated(run$workers$worker), ]
  lanes <- c(0L, workers$worker)
  names <- c("session", sprintf("worker %d (%s)", workers$worker, workers$host))
  event <- function(what, lane, value) {
    sprintf("{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"%s\",\"args\":{%s}}", lane, what, value)
  }
  c(
    event("process_name", 0L, json_fields(list(name = run_call(run)))),
    event("thread_name", lanes, json_fields(list(name = names))),
    event("thread_sort_index", lanes, json_fields(list(sort_index = lanes)))
  )
}

trace_slices <- function(lane, from, to, name, category, colour = "", about = "") {
  each <- function(x) rep_len(x, length(lane))
  data.frame(
    lane = lane, from = from, to = to, name = each(name), category = each(category), colour = each(colour),
    about = each(about)
  )
}

trace_session <- function(run) trace_slices(0L, 0, run$elapsed, run$verb, "session")

trace_start_up <- function(run, spans) {
  rows <- run_phases(run, spans)
  rows <- rows[rows$kind == "start-up", ]
  trace_slices(rows$worker, rows$start, rows$end, "start-up", "start-up", about = json_fields(list(pid = rows$pid)))
}

trace_elements <- function(run, spans) {
  # Of a worker that was given up nothing is known but when that was: its successor may have begun before.
  until <- c(spans$start[-1L], Inf)
  until[spans$worker != c(spans$worker[-1L], NA)] <- Inf
  end <- pmax(pmin(spans$end, until), spans$start)
  name <- if (is.null(run$names)) character(nrow(spans)) else as.character(run$names)[spans$index]
  unnamed <- is.na(name) | !nzchar(name)
  name[unnamed] <- paste("element", spans$index[unnamed])
  colours <- c(error = "terrible", death = "black", timeout = "bad", cancelled = "grey")
  colour <- colours[as.character(spans$status)]
  colour <- ifelse(is.na(colour), "", sprintf(",\"cname\":\"%s\"", colour))
  trace_slices(
    spans$worker, spans$start, end, name, as.character(spans$status), colour,
    json_fields(spans[setdiff(names(spans), c("worker", "start", "end", "status", "retried"))])
  )
}

# Where a process has ended before the run did.
trace_ends <- function(run) {
  lost <- run$workers[run$workers$exit != "stopped", ]
  about <- json_fields(list(pid = lost$pid, exit = lost$exit, peak_memory = lost$peak_memory))
  trace_slices(lost$worker, lost$end, lost$end, sprintf("worker ended: %s", lost$exit), "end", about = about)
}

# `"name":value` of each column, one string for each row.
json_fields <- function(columns) {
  if (length(columns) == 0L || length(columns[[1L]]) == 0L) {
    return(character())
  }
  parts <- lapply(names(columns), function(name) paste0("\"", name, "\":", json_value(columns[[name]])))
  do.call(paste, c(parts, sep = ","))
}

# JSON has no NaN and no infinity.
json_value <- function(x) {
  if (is.numeric(x)) {
    text <- if (is.integer(x)) as.character(x) else sprintf("%.15g", x)
    text[!is.finite(x)] <- "null"
    text
  } else {
    ifelse(is.na(x), "null", json_string(as.character(x)))
  }
}

# Quoted, in UTF-8. Bytes that are no text in it are shown as R prints them.
json_string <- function(x) {
  x <- enc2utf8(x)
  bad <- !validUTF8(x)
  x[bad] <- iconv(x[bad], "UTF-8", "UTF-8", sub = "byte")
  special <- grepl("[\"\\\\\\x01-\\x1f\\x7f]", x, perl = TRUE)
  x[special] <- vapply(x[special], json_escape, "", USE.NAMES = FALSE)
  paste0("\"", x, "\"")
}

json_escape <- function(x) {
  code <- utf8ToInt(x)
  control <- code < 32L | code == 127L
  text <- intToUtf8(code, multiple = TRUE)
  text[control] <- sprintf("\\u%04x", code[control])
  quoted <- code %in% utf8ToInt("\"\\")
  text[quoted] <- paste0("\\", text[quoted])
  paste(text, collapse = "")
}
