# What workers are at: of a cluster, or of the calls that any R session of this user on this machine has under way,
# which is not asked for it and does nothing (src/fork-look.c). Once, or again and again.

cluster_status <- function(cl = NULL, watch = FALSE, interval = 1, times = Inf, until_idle = FALSE) {
  look <- status_look(cl)
  check_flag(watch, "watch")
  interval <- check_seconds(interval, "interval")
  if (is.infinite(interval)) abort_argument("interval", interval, "a finite number of seconds")
  if (!identical(times, Inf)) times <- check_count(times, "times")
  check_flag(until_idle, "until_idle")
  first <- look()
  if (!watch) {
    return(first$table)
  }
  invisible(status_watch(look, first, interval, times, until_idle)$table)
}

# A function that looks: list(table, active: whether any worker has something to do, calls: a line for each call that
# is known). It signals an error if there is nothing to look at, or nothing any more.
status_look <- function(cl, call = rlang::caller_env()) {
  if (inherits(cl, "regatta_cluster") && length(cl) == 0L) {
    abort_argument("cl", cl, "a cluster of one worker or more", call = call)
  }
  if (inherits(cl, "regatta_remote")) {
    return(function() remote_status(cl))
  }
  if (inherits(cl, "regatta_cluster")) {
    return(function() stand_status(cl))
  }
  if (is.null(cl)) {
    return(function() sessions_status(sessions_here()))
  }
  if (!is_whole(cl) || cl < 1 || cl > .Machine$integer.max) {
    abort_argument("cl", cl, paste(
      "a cluster made by `cluster_local()`, `cluster_ssh()`, `cluster_slurm()` or `cluster_jobs()`, the number of a",
      "process, or `NULL`"
    ), call = call)
  }
  function() {
    runs <- .Call(ffi_fork_look, as.integer(cl))
    if (is.integer(runs)) signal_error(error_look(as.integer(cl), .Call(ffi_system_message, runs)))
    sessions_status(stats::setNames(list(runs), cl))
  }
}

# The calls of every process into which this one may look, by its number. This one knows of its own.
sessions_here <- function() {
  pids <- setdiff(as.integer(list.files("/proc", pattern = "^[0-9]+$")), Sys.getpid())
  runs <- stats::setNames(lapply(pids, function(pid) .Call(ffi_fork_look, pid)), pids)
  Filter(function(of) is.list(of) && length(of) > 0L, runs)
}

sessions_status <- function(sessions) {
  runs <- unlist(unname(sessions), recursive = FALSE)
  session <- rep(as.integer(names(sessions)), lengths(sessions))
  tables <- Map(run_status, session, runs)
  list(
    table = do.call(rbind, c(list(run_status(integer(), NULL)), tables)),
    active = any(vapply(runs, function(run) any(run$active), NA)),
    calls = as.character(Map(run_line, session, runs))
  )
}

run_status <- function(session, run) {
  look <- processes_look(run$pid)
  count <- length(run$pid)
  state <- ifelse(run$active, "busy", "idle")
  state[look$state %in% c("T", "t")] <- "silent"
  state[is.na(look$state) | look$state == "Z"] <- "gone"
  data.frame(
    session = rep(session, count), host = rep("localhost", count), pid = as.integer(run$pid),
    state = as.character(state), call = rep(as.character(run$call), count), element = as.double(run$element),
    element_for = as.double(run$element_seconds), busy_for = rep(as.double(run$seconds), count), cpu = look$cpu,
    memory = look$memory
  )
}

run_line <- function(session, run) {
  done <- sprintf("%s of %s done", format_count(min(run$ended, run$elements)), format_count(run$elements))
  sprintf("%s() of process %d: %s in %s", run$call, session, done, format_seconds(run$seconds))
}

# Until Ctrl-C, or what was asked for, or there is nothing to look at any more; returns what was seen last.
status_watch <- function(look, first, interval, times, until_idle) {
  show <- if (cli::is_ansi_tty(stdout())) status_in_place() else status_lines()
  last <- first
  tryCatch(
    repeat {
      show(last)
      times <- times - 1
      if (times <= 0 || (until_idle && !last$active)) break
      .Call(ffi_sleep, interval)
      last <- look()
    },
    interrupt = function(e) NULL,
    regatta_error_stopped = function(e) cat("The cluster has been stopped.\n"),
    regatta_error_look = function(e) cat("The process has ended.\n")
  )
  last
}

# Each drawing begins where the one before began. What is wider or higher than the terminal would be wrapped or
# scrolled, so that nobody could come back to its beginning.
status_in_place <- function() {
  drawn <- 0L
  function(seen) {
    size <- .Call(ffi_terminal_size)
    lines <- status_text(seen, if (size[[1L]] > 4L) size[[1L]] - 1L else Inf)
    lines <- as.character(cli::ansi_substr(lines, 1L, (if (size[[2L]] > 0L) size[[2L]] else 80L) - 1L))
    up <- if (drawn > 0L) sprintf("\033[%dA", drawn) else ""
    # As one string: Ctrl-C is heard between those that cat() is given, and would leave a part of a table.
    cat(paste0("\r", up, paste0(lines, "\033[K\n", collapse = ""), "\033[J"))
    flush(stdout())
    drawn <<- length(lines)
  }
}

# Where nothing can be drawn over, in a log: again when a worker is at something else.
status_lines <- function() {
  before <- NULL
  function(seen) {
    now <- seen$table[names(seen$table) %in% c("session", "host", "pid", "state", "call", "element")]
    if (identical(now, before)) {
      return(invisible())
    }
    before <<- now
    cat(status_text(seen, Inf), "", sep = "\n")
    flush(stdout())
  }
}

# At most `height` lines; the workers that are left out are counted.
status_text <- function(seen, height) {
  table <- seen$table
  counts <- table(factor(table$state, c("busy", "idle", "starting", "silent", "gone")))
  said <- paste(counts[counts > 0L], names(counts)[counts > 0L], collapse = ", ")
  head <- c(
    paste0(format(Sys.time(), "%H:%M:%S"), "  ", if (nrow(table) > 0L) said else "no worker has a call"),
    seen$calls
  )
  if (nrow(table) == 0L) {
    return(head)
  }
  head <- utils::head(head, max(1L, height - 3L))
  rows <- status_rows(table)
  room <- height - length(head)
  if (length(rows) > room) {
    shown <- max(1L, room - 1L)
    rows <- c(rows[seq_len(shown)], sprintf("and %d more", length(rows) - shown))
  }
  c(head, rows)
}

# As text, with a line of names. What does not tell one worker from another is not shown.
status_rows <- function(table) {
  shown <- function(x, format) ifelse(is.na(x), "", vapply(x, format, ""))
  columns <- list(
    session = if (length(unique(table$session)) > 1L) shown(table$session, format_pid),
    host = if (any(table$host != "localhost")) table$host,
    pid = shown(table$pid, format_pid), state = table$state, call = table$call,
    element = shown(table$element, format_count), "for" = shown(table$element_for, format_seconds),
    cpu = shown(table$cpu, format_seconds), memory = shown(table$memory, format_bytes),
    heard = if (!is.null(table$heard)) {
      ifelse(is.na(table$heard) | table$heard == 0, "", paste(shown(table$heard, format_seconds), "ago"))
    },
    reason = table$reason
  )
  columns <- Filter(function(x) !is.null(x) && any(!is.na(x) & nzchar(x)), columns)
  cells <- Map(function(name, x) {
    x <- c(name, ifelse(is.na(x), "", x))
    formatC(x, width = if (name %in% c("pid", "element", "cpu", "memory")) max(nchar(x)) else -max(nchar(x)))
  }, names(columns), columns)
  sub(" +$", "", do.call(paste, c(unname(cells), sep = "  ")))
}
