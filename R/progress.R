# Progress of one run, shown on stderr: a bar that is redrawn in place on a terminal, plain lines in
# a log. A backend is a list of the functions show(p, now), erase(), which says whether anything was
# there, and end(p, now), of the `delay` in seconds before it is first shown, and of `yields`, see
# progress_yield().

# Another package that shows progress in its own way is known here only as a function that gives a
# backend, or NULL when nobody listens to it; see pkg-progressr.R.
progress_others <- new.env(parent = emptyenv())

progress_register <- function(name, backend) {
  assign(name, backend, envir = progress_others)
}

# `enabled` is `progress` of par_control(); `clock` gives seconds since any moment; `given` of all are done before
# the run begins. NULL where nobody is shown any.
progress_start <- function(total, enabled = NULL, clock = progress_clock, given = 0,
                           backend = progress_backend(total, enabled)) {
  if (is.null(backend)) {
    return(NULL)
  }
  p <- new.env(parent = emptyenv())
  p$total <- total
  p$given <- given
  p$done <- given
  p$failed <- 0
  p$clock <- clock
  p$start <- clock()
  p$backend <- backend
  p$due <- p$start + backend$delay
  p
}

# Called at every event: all but ten calls in a second end at the comparison of times.
progress_update <- function(p, done, failed = 0) {
  if (is.null(p$backend)) {
    return(invisible())
  }
  p$done <- done
  p$failed <- failed
  now <- p$clock()
  if (now >= p$due) {
    p$due <- now + 0.1
    p$backend$show(p, now)
  }
  invisible()
}

# Before anything else is written to the terminal; the bar comes back with the next update.
progress_clear <- function(p) {
  if (!is.null(p$backend) && p$backend$erase()) {
    p$due <- p$clock()
  }
  invisible()
}

progress_done <- function(p) {
  if (!is.null(p$backend)) {
    p$backend$end(p, p$clock())
    p$backend <- NULL
  }
  invisible()
}

# The user's code reports its progress itself, to the backend of that package: ours steps back.
progress_yield <- function(p) {
  if (!is.null(p$backend) && p$backend$yields) {
    p$backend <- NULL
  }
  invisible()
}

progress_clock <- function() {
  proc.time()[["elapsed"]]
}

progress_backend <- function(total, enabled) {
  # A call within a worker is part of an element, which its parent counts.
  within <- is.null(enabled) && nzchar(Sys.getenv("REGATTA_SHARE"))
  if (isFALSE(enabled) || within || total < 1) {
    return(NULL)
  }
  for (name in ls(progress_others)) {
    backend <- progress_others[[name]](total)
    if (!is.null(backend)) {
      return(backend)
    }
  }
  if (isTRUE(getOption("knitr.in.progress")) || (is.null(enabled) && !may_be_watched())) {
    return(NULL)
  }
  # A sink for messages is a log, whatever terminal is behind it.
  terminal <- sink.number(type = "message") == 2L && cli::is_dynamic_tty(stderr())
  if (terminal) progress_bar(isTRUE(enabled)) else progress_lines()
}

# As rlang tells it, which is not loaded for a script.
may_be_watched <- function() {
  (interactive() || !is.null(getOption("rlang_interactive"))) && rlang::is_interactive()
}

# Asked for, it is there at once and leaves a line of summary; else it comes only to runs that last
# and leaves nothing.
progress_bar <- function(asked) {
  drawn <- 0L
  erase <- function() {
    was <- drawn > 0L
    if (was) {
      # Blanks and not an escape sequence: RStudio's console knows only the carriage return.
      cat("\r", strrep(" ", drawn), "\r", file = stderr(), sep = "")
      drawn <<- 0L
    }
    was
  }
  show <- function(p, now) {
    line <- bar_line(p, now, cli::console_width() - 1L)
    width <- cli::ansi_nchar(line, "width")
    rest <- strrep(" ", max(0L, drawn - width))
    cat("\r", line, rest, file = stderr(), sep = "")
    drawn <<- max(drawn, width)
  }
  end <- function(p, now) {
    erase()
    if (asked) {
      cat(progress_summary(p, now), "\n", file = stderr(), sep = "")
    }
  }
  list(show = show, erase = erase, end = end, delay = if (asked) 0 else 1, yields = FALSE)
}

bar_line <- function(p, now, width) {
  share <- min(1, p$done / p$total)
  percent <- min(100, floor(100 * p$done / p$total))
  text <- sprintf(" %3.0f%%  %s", percent, progress_text(p, now))
  if (p$failed > 0) {
    failed <- sprintf("%.0f failed", p$failed)
    text <- sub(failed, cli::col_red(failed), text, fixed = TRUE)
  }
  cells <- min(40L, width - cli::ansi_nchar(text, "width") - 2L)
  if (cells >= 5L) {
    full <- floor(cells * share)
    mark <- if (cli::is_utf8_output()) "\u25a0" else "="
    bar <- paste0(cli::col_green(strrep(mark, full)), strrep(" ", cells - full))
    text <- paste0("[", bar, "]", text)
  }
  as.character(cli::ansi_substr(text, 1L, width))
}

progress_lines <- function() {
  last_time <- -Inf
  last_done <- 0
  show <- function(p, now) {
    # A short run is told by its last line alone.
    last_time <<- max(last_time, p$start)
    waited <- now - last_time
    if (waited >= 10 || (waited >= 1 && p$done - last_done >= 0.1 * p$total)) {
      cat(progress_text(p, now), "\n", file = stderr(), sep = "")
      last_time <<- now
      last_done <<- p$done
    }
  }
  end <- function(p, now) {
    cat(progress_summary(p, now), "\n", file = stderr(), sep = "")
  }
  list(show = show, erase = function() FALSE, end = end, delay = 0, yields = FALSE)
}

progress_text <- function(p, now) {
  ran <- p$done - p$given
  left <- if (ran > 0 && p$done < p$total) {
    seconds <- max(1, round((now - p$start) * (p$total - p$done) / ran))
    paste("about", format_seconds(seconds), "left")
  }
  paste(c(progress_count(p), progress_failed(p), left), collapse = ", ")
}

progress_summary <- function(p, now) {
  elapsed <- format_seconds(max(0, now - p$start))
  paste(c(paste(progress_count(p), "in", elapsed), progress_failed(p)), collapse = ", ")
}

progress_count <- function(p) {
  sprintf("%.0f of %.0f done", p$done, p$total)
}

progress_failed <- function(p) {
  if (p$failed > 0) sprintf("%.0f failed", p$failed)
}
