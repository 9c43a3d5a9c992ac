# What a run did, in words: print() in a few lines, summary() with workers, times and failures.

print.regatta_run <- function(x, ...) {
  writeLines(format(x, ...))
  invisible(x)
}

format.regatta_run <- function(x, ...) {
  status <- status_counts(x$elements$status)
  work <- run_work(x)
  c(
    sprintf("<regatta_run> %s", run_call(x)),
    run_headline(x),
    paste0(
      if (length(status) > 0L) join_counts(status) else "nothing to do",
      if (failed_tries(x) > 0L) sprintf("; %s", count_of(failed_tries(x), "failed try", "failed tries")),
      if (put_backs(x) > 0L) sprintf("; %s put back for want of memory", count_of(put_backs(x), "try", "tries"))
    ),
    if (work$workers > 0L && work$busy > 0) work_line(work),
    if (length(x$errors) > 0L) {
      c(shorten(message_of_one(x$errors[[1L]]), 100L), advise_replay(x$errors[[1L]]))
    },
    "See `summary()` for workers and times, `plot()` for the timeline."
  )
}

run_call <- function(run) {
  if (is.null(run$call)) run$verb else format_call(light_call(run$call), 70L)
}

run_headline <- function(run) {
  workers <- length(unique(run$workers$worker))
  cores <- if (length(run$cores) == 1L && is.finite(run$cores)) {
    sprintf(", %s each", count_of(run$cores, "core", "cores"))
  } else {
    ""
  }
  sprintf(
    "%s on %s (%s%s) in %s, started %s",
    count_of(run$n, "element", "elements"), count_of(workers, "worker", "workers"),
    run$executor, cores, format_time(run$elapsed), format(run$start, "%Y-%m-%d %H:%M:%S")
  )
}

count_of <- function(n, one, many) {
  sprintf("%s %s", format_count(n), if (n == 1) one else many)
}

status_counts <- function(status) {
  counts <- table(status)
  counts <- stats::setNames(as.integer(counts), names(counts))
  counts[counts > 0L]
}

join_counts <- function(counts) {
  paste(format_count(counts), names(counts), collapse = ", ")
}

# From microseconds on, which format_seconds() shows in seconds.
format_time <- function(x) {
  if (is.na(x) || x >= 0.9995 || x == 0) {
    return(if (is.na(x)) "-" else format_seconds(x))
  }
  if (x < 0.9995e-3) {
    return(sprintf("%.0f us", x * 1e6))
  }
  paste(format_number(signif(x * 1e3, 3L), scientific = FALSE), "ms")
}

# All that was run, the tries that failed included, in the order of time.
run_spans <- function(run) {
  last <- run$elements
  earlier <- run$tries
  spans <- rbind(
    cbind(last, retried = rep(FALSE, nrow(last))),
    cbind(earlier, retried = rep(TRUE, nrow(earlier)))
  )
  spans <- spans[!is.na(spans$start) & !is.na(spans$worker), ]
  spans$end[is.na(spans$end)] <- run$elapsed
  spans[order(spans$worker, spans$start), ]
}

run_work <- function(run, spans = run_spans(run)) {
  workers <- length(unique(run$workers$worker))
  busy <- sum(spans$end - spans$start)
  list(
    workers = workers, busy = busy, elapsed = run$elapsed,
    share = if (workers > 0L && run$elapsed > 0) busy / (workers * run$elapsed) else NA_real_
  )
}

work_line <- function(work) {
  sprintf(
    "%s of work in %s: %.2f at a time, workers busy %.0f%%",
    format_time(work$busy), format_time(work$elapsed), work$busy / work$elapsed, 100 * work$share
  )
}

summary.regatta_run <- function(object, ...) {
  spans <- run_spans(object)
  shares <- run_shares(object, spans, run_phases(object, spans))
  structure(
    list(
      call = run_call(object), headline = run_headline(object), n = object$n,
      status = status_counts(object$elements$status), retried = failed_tries(object),
      put_back = put_backs(object),
      work = run_work(object, spans), times = element_times(object),
      bytes = sum(object$elements$bytes, na.rm = TRUE),
      shares = shares, session = object$session, advice = run_advice(object, spans, shares),
      cpu = element_cpu(object), memory = element_memory(object),
      workers = worker_table(object, spans),
      slowest = slowest_elements(object), failed = failed_elements(object),
      conditions = object$conditions
    ),
    class = "summary.regatta_run"
  )
}

put_backs <- function(run) sum(run$tries$status == "put back")

failed_tries <- function(run) nrow(run$tries) - put_backs(run)

element_times <- function(run) {
  seconds <- run$elements$end - run$elements$start
  seconds <- seconds[!is.na(seconds)]
  if (length(seconds) == 0L) {
    return(NULL)
  }
  times <- stats::quantile(seconds, c(0, 0.5, 0.95, 1), names = FALSE)
  stats::setNames(times, c("shortest", "median", "95%", "longest"))
}

# Of elements that were long enough to be measured; NULL: none was.
element_cpu <- function(run) {
  cpu <- run$elements$cpu
  if (any(!is.na(cpu))) sum(cpu, na.rm = TRUE)
}

element_memory <- function(run) {
  peak <- run$elements$peak_memory[!is.na(run$elements$peak_memory)]
  if (length(peak) > 0L) c(median = stats::median(peak), largest = max(peak))
}

# One row for each process, as a worker that died has a successor of the same number.
worker_table <- function(run, spans) {
  table <- run$workers
  end <- ifelse(is.na(table$end), run$elapsed, table$end)
  lived <- pmax(end - table$start, 0)
  mine <- lapply(seq_len(nrow(table)), function(i) which(spans$pid == table$pid[[i]]))
  busy <- vapply(mine, function(rows) sum(spans$end[rows] - spans$start[rows]), 0)
  idle <- vapply(seq_along(mine), function(i) {
    rows <- mine[[i]]
    starts <- c(spans$start[rows], end[[i]])
    ends <- c(table$start[[i]], spans$end[rows])
    max(starts - ends, 0)
  }, 0)
  data.frame(
    worker = table$worker, pid = table$pid, elements = table$elements,
    busy = busy, share = ifelse(lived > 0, pmin(busy / lived, 1), NA_real_),
    idle = idle, peak_memory = table$peak_memory, exit = table$exit
  )
}

slowest_elements <- function(run, most = 5L) {
  seconds <- run$elements$end - run$elements$start
  describe_elements(run, utils::head(order(seconds, decreasing = TRUE, na.last = NA), most))
}

failed_elements <- function(run) {
  describe_elements(run, which(run$elements$status %in% c("error", "death", "timeout")))
}

describe_elements <- function(run, rows) {
  elements <- run$elements[rows, ]
  name <- if (is.null(run$names)) rep(NA_character_, length(rows)) else run$names[elements$index]
  data.frame(
    index = elements$index, name = as.character(name), status = as.character(elements$status),
    seconds = elements$end - elements$start, worker = elements$worker, try = elements$try
  )
}

print.summary.regatta_run <- function(x, ...) {
  writeLines(format(x, ...))
  invisible(x)
}

format.summary.regatta_run <- function(x, ..., most = 10L) {
  c(
    x$call, x$headline, "",
    "Elements", paste0("  ", summary_elements(x)), "",
    if (nrow(x$workers) > 0L) c("Workers", paste0("  ", summary_workers(x)), ""),
    if (x$work$workers > 0L && x$work$elapsed > 0) c("Where the time went", paste0("  ", share_lines(x)), ""),
    if (length(x$advice) > 0L) c("What would have been better", paste0("  ", wrap_lines(x$advice)), ""),
    if (nrow(x$slowest) > 1L) c("Slowest", paste0("  ", element_lines(x$slowest)), ""),
    if (nrow(x$failed) > 0L) {
      c("Failed", paste0("  ", element_lines(x$failed, most, status = TRUE)), "")
    },
    paste("Conditions:", conditions_line(x$conditions))
  )
}

summary_elements <- function(x) {
  retries <- if (x$retried > 0L) {
    sprintf("; %s run again", count_of(x$retried, "failed try was", "failed tries were"))
  }
  again <- if (x$put_back > 0L) {
    sprintf("; %s put back for want of memory", count_of(x$put_back, "try was", "tries were"))
  }
  times <- x$times
  c(
    paste0(if (length(x$status) > 0L) join_counts(x$status) else "none", retries, again),
    if (!is.null(times)) {
      text <- vapply(times, format_time, "")
      paste("time of one:", paste(names(times), text, collapse = ", "))
    },
    if (!is.null(x$cpu)) paste("processor time:", format_time(x$cpu)),
    if (!is.null(x$memory)) {
      paste("peak memory of one:", paste(names(x$memory), vapply(x$memory, format_bytes, ""), collapse = ", "))
    },
    if (x$bytes > 0) paste("results:", format_bytes(x$bytes))
  )
}

summary_workers <- function(x, most = 16L) {
  table <- x$workers
  shown <- utils::head(table, most)
  text <- data.frame(
    worker = format_count(shown$worker), pid = as.character(shown$pid),
    elements = format_count(shown$elements), busy = vapply(shown$busy, format_time, ""),
    "%" = ifelse(is.na(shown$share), "-", sprintf("%.0f%%", 100 * shown$share)),
    "longest idle" = vapply(shown$idle, format_time, ""),
    "peak memory" = vapply(shown$peak_memory, peak_text, ""),
    end = ifelse(is.na(shown$exit), "-", as.character(shown$exit)),
    check.names = FALSE
  )
  c(
    if (x$work$busy > 0) work_line(x$work),
    table_lines(text),
    if (nrow(table) > most) sprintf("and %d more", nrow(table) - most)
  )
}

share_lines <- function(x) {
  shown <- x$shares[x$shares$seconds > 0, ]
  what <- c(
    "start-up" = "until a worker's first element", transfer = "between elements",
    idle = "while others were still at work", "after the last element" = "values taken, workers ended",
    "no worker" = "places without one"
  )
  note <- what[shown$part]
  text <- data.frame(
    part = shown$part, seconds = vapply(shown$seconds, format_time, ""),
    share = sprintf("%.0f%%", 100 * shown$share), note = unname(ifelse(is.na(note), "", note))
  )
  c(
    sprintf("%s of %s", format_time(x$work$workers * x$work$elapsed), count_of(x$work$workers, "worker", "workers")),
    table_lines(text, header = FALSE, left = c("part", "note")),
    if (!is.null(x$session)) sprintf("the session itself worked for %s", format_time(x$session))
  )
}

wrap_lines <- function(text) {
  unlist(lapply(text, strwrap, width = 100L, exdent = 2L), use.names = FALSE)
}

peak_text <- function(bytes) {
  if (is.na(bytes)) "-" else format_bytes(bytes)
}

element_lines <- function(elements, most = nrow(elements), status = FALSE) {
  shown <- utils::head(elements, most)
  what <- vapply(seq_len(nrow(shown)), function(i) {
    format_element(shown$index[[i]], shown$name[[i]])
  }, "")
  text <- data.frame(
    what = what, seconds = vapply(shown$seconds, format_time, ""),
    worker = ifelse(is.na(shown$worker), "", paste("worker", shown$worker)),
    status = if (status) shown$status else rep("", nrow(shown)),
    try = ifelse(shown$try > 1L & !is.na(shown$try), paste("try", shown$try), "")
  )
  c(
    table_lines(text, header = FALSE, left = c("what", "worker", "status", "try")),
    if (nrow(elements) > most) sprintf("and %d more", nrow(elements) - most)
  )
}

# Columns of text under each other; numbers to the right.
table_lines <- function(text, header = TRUE, left = "end") {
  columns <- lapply(names(text), function(name) {
    cells <- c(if (header) name, text[[name]])
    pad <- strrep(" ", max(nchar(cells, "width"), 0L) - nchar(cells, "width"))
    if (name %in% left) paste0(cells, pad) else paste0(pad, cells)
  })
  sub("\\s+$", "", do.call(paste, c(columns, sep = "  ")))
}

conditions_line <- function(counts) {
  counts <- counts[counts > 0]
  if (length(counts) == 0L) {
    return("none")
  }
  names(counts) <- vapply(seq_along(counts), function(i) {
    condition_name(names(counts)[[i]], counts[[i]])
  }, "")
  join_counts(counts)
}

condition_name <- function(kind, n) {
  if (kind == "suppressed") {
    return("suppressed (over `max_conditions`)")
  }
  if (kind == "condition") {
    kind <- "other"
  }
  if (n == 1 || kind == "other") kind else paste0(kind, "s")
}
