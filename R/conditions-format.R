# Words and numbers of messages. Nothing here may fail, whatever the user's condition holds.

# `name` is NULL or as long as `index`.
format_element <- function(index, name = NULL) {
  text <- sprintf("element %.0f", as.double(index))
  for (k in which(!is.na(name) & nzchar(name, keepNA = FALSE))) {
    text[[k]] <- sprintf("%s (%s)", text[[k]], encodeString(shorten(name[[k]], 60L), quote = "\""))
  }
  text
}

format_pid <- function(pid) {
  if (length(pid) != 1L || is.na(pid)) "?" else sprintf("%d", as.integer(pid))
}

format_try <- function(try) {
  ifelse(is.na(try) | try <= 1L, "", sprintf(" (try %d)", as.integer(try)))
}

# The text of any condition: a class of the user's may have a conditionMessage() that fails here.
message_of <- function(cnd) {
  text <- tryCatch(conditionMessage(cnd), error = function(e) cnd$message)
  if (!is.character(text) || length(text) == 0L || anyNA(text)) {
    return(sprintf("(a condition of class %s without a message)", quoted(class(cnd)[[1L]])))
  }
  trim_end(paste(text, collapse = "\n"))
}

trim_end <- function(text) sub("\\s+$", "", text)

# Of a run that this process cannot go on with.
format_owner <- function(pid, stored) {
  how <- if (stored) "and what was stored or sent refers to nothing any more" else "from which this one was forked"
  sprintf("process %s, %s", format_pid(pid), how)
}

# An error of ours without its traceback and advice.
message_of_one <- function(cnd) {
  if (inherits(cnd, "regatta_error")) cnd$message else message_of(cnd)
}

# The innermost calls of a regatta_trace, which formats itself.
format_innermost <- function(trace, limit) {
  if (length(trace$calls) == 0L) {
    return(character())
  }
  lines <- format(trace, n = limit, locals = FALSE, width = 76L)
  hidden <- length(trace$calls) - limit + sum(trace$omitted["frames"], na.rm = TRUE)
  c(
    "Calls, innermost last:",
    if (hidden > 0L) sprintf("  (%d outer calls not shown)", hidden),
    paste0("  ", lines)
  )
}

format_call <- function(call, width) {
  before <- options(scipen = 0L) # deparse() heeds it
  on.exit(options(before))
  text <- tryCatch(
    deparse(call, width.cutoff = 500L, nlines = 2L),
    error = function(e) "<call that cannot be shown>"
  )
  text <- paste(gsub("\\s+", " ", text), collapse = " ")
  shorten(text, width)
}

# The worker keeps "file#line" text in place of the srcref, which would carry the whole file.
call_place <- function(call) {
  place <- attr(call, "srcref", exact = TRUE)
  if (is.character(place) && length(place) == 1L) sprintf("  at %s", place) else ""
}

# Numbers in messages and prints are English, whatever the session's options(OutDec, scipen, digits) make of those that
# the user prints.
format_number <- function(x, digits = 7L, scientific = 0L, big.mark = "") {
  format(x, digits = digits, scientific = scientific, big.mark = big.mark, decimal.mark = ".", trim = TRUE)
}

# Whole numbers, each by itself. Extents go without a mark where they are to be copied.
format_count <- function(x, big.mark = ",") {
  vapply(x, format_number, "", digits = 15L, scientific = FALSE, big.mark = big.mark, USE.NAMES = FALSE)
}

format_extents <- function(dim, big.mark = "") paste(format_count(dim, big.mark), collapse = " x ")

# In powers of 1000, as parse_bytes() reads them.
format_bytes <- function(x) {
  if (length(x) != 1L || is.na(x)) {
    return("an unknown amount")
  }
  if (is.infinite(x)) {
    return("unlimited")
  }
  units <- c("bytes", "kB", "MB", "GB", "TB", "PB")
  # 999.95 would be shown as 1000.0: the next unit begins there.
  power <- if (abs(x) < 999.5) 0 else min(floor(log(abs(x) / 0.99995, 1000)), 5)
  if (power == 0) {
    return(if (round(x) == 1) "1 byte" else sprintf("%.0f bytes", x))
  }
  sprintf("%s %s", sub(".0", "", sprintf("%.1f", x / 1000^power), fixed = TRUE), units[[power + 1]])
}

format_seconds <- function(x) {
  if (length(x) != 1L || is.na(x)) {
    return("an unknown time")
  }
  if (is.infinite(x)) {
    return("unlimited time")
  }
  if (x < 9.95) {
    return(paste(format_number(signif(x, 2L), scientific = FALSE), "s"))
  }
  if (x < 119.5) {
    return(sprintf("%.0f s", x))
  }
  if (round(x / 60) < 120) {
    return(format_two(round(x), 60, "min", "s"))
  }
  if (round(x / 3600) < 48) {
    return(format_two(round(x / 60), 60, "h", "min"))
  }
  format_two(round(x / 3600), 24, "d", "h")
}

format_two <- function(x, base, big, small) {
  rest <- x %% base
  text <- sprintf("%.0f %s", x %/% base, big)
  if (rest == 0) text else sprintf("%s %.0f %s", text, rest, small)
}

# How a worker ended, for the run's record.
format_exit <- function(signal = NA_integer_, status = NA_integer_) {
  if (!is.na(signal)) {
    name <- signal_name(signal)
    number <- sprintf("signal %d", as.integer(signal))
    return(if (name == number) name else sprintf("%s (%s)", number, name))
  }
  if (is.na(status)) "unknown" else sprintf("status %d", as.integer(status))
}

signal_name <- function(signal) {
  if (is.na(signal)) {
    return(NA_character_)
  }
  name <- names(signal_table())[match(signal, signal_table())]
  if (is.na(name)) sprintf("signal %d", as.integer(signal)) else name
}

signals_of <- function(names) {
  unname(signal_table()[names])
}

# POSIX fixes the names and a few numbers; the rest differ between Linux and the BSD family.
signal_table <- function() {
  same <- c(
    SIGHUP = 1L, SIGINT = 2L, SIGQUIT = 3L, SIGILL = 4L, SIGTRAP = 5L, SIGABRT = 6L, SIGFPE = 8L,
    SIGKILL = 9L, SIGSEGV = 11L, SIGPIPE = 13L, SIGALRM = 14L, SIGTERM = 15L, SIGXCPU = 24L,
    SIGXFSZ = 25L, SIGVTALRM = 26L, SIGPROF = 27L
  )
  other <- if (Sys.info()[["sysname"]] == "Linux") {
    c(
      SIGBUS = 7L, SIGUSR1 = 10L, SIGUSR2 = 12L, SIGCHLD = 17L, SIGCONT = 18L, SIGSTOP = 19L,
      SIGIO = 29L, SIGPWR = 30L, SIGSYS = 31L
    )
  } else {
    c(
      SIGBUS = 10L, SIGSYS = 12L, SIGSTOP = 17L, SIGCONT = 19L, SIGCHLD = 20L, SIGIO = 23L,
      SIGUSR1 = 30L, SIGUSR2 = 31L
    )
  }
  c(same, other)
}

# rlang and testthat take the number of rows of any condition's `trace` for the number of its calls;
# testthat stops with an error of its own where there is none.
dim.regatta_trace <- function(x) {
  c(length(x$calls), 1L)
}
