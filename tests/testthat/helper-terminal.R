# A person at a terminal: an interactive R, or a shell, in a pseudo-terminal, which is typed to and whose screen is
# looked at.

terminal_prompt <- "at your service> "

# `command` in a terminal of its own. What it starts is found by `mark`, as that of a session of helper-fault.R.
terminal_start <- function(command, cols = 200L, env = character()) {
  withr::local_preserve_seed() # processx draws the number of a process
  dir <- tempfile("terminal-")
  dir.create(dir)
  inputrc <- file.path(dir, "inputrc")
  writeLines(c("set enable-bracketed-paste off", "set bell-style none"), inputrc)
  mark <- c(REGATTA_TEST_MARK = paste0(basename(dir), "-", Sys.getpid()))
  process <- processx::process$new(
    command[[1L]], command[-1L],
    pty = TRUE, pty_options = list(rows = 50L, cols = cols, echo = FALSE), wd = dir,
    env = c("current",
      R_LIBS = paste(.libPaths(), collapse = ":"), R_TESTS = "", TMPDIR = dir, TERM = "xterm", INPUTRC = inputrc,
      NO_COLOR = "1", R_CLI_DYNAMIC = "", R_CLI_NUM_COLORS = "1", PS1 = "shell$ ", HISTFILE = "", mark, env
    )
  )
  terminal <- new.env(parent = emptyenv())
  terminal$process <- process
  terminal$dir <- dir
  terminal$mark <- paste0(names(mark), "=", mark)
  terminal$text <- "" # all that has come
  terminal$from <- 1L # where in it what is waited for may begin
  terminal
}

terminal_end <- function(terminal) {
  for (pid in marked_pids(terminal$mark)) tools::pskill(pid, tools::SIGKILL)
  try(terminal$process$kill(), silent = TRUE)
  unlink(terminal$dir, recursive = TRUE)
}

# What has come since something was typed, or was last found.
terminal_read <- function(terminal) {
  terminal$process$poll_io(20L)
  # The master of a terminal whose other end is closed gives EIO where a pipe gives an end.
  part <- tryCatch(terminal$process$read_output(), error = function(e) NULL)
  terminal$text <- paste0(terminal$text, part)
  substr(terminal$text, terminal$from, nchar(terminal$text))
}

# Waits until `text` is there (as it is, or a pattern with fixed = FALSE) and goes on behind it. Returns what came
# before it.
terminal_wait <- function(terminal, text, fixed = TRUE, timeout = 60) {
  at <- -1L
  tryCatch(
    wait_until(function() {
      at <<- regexpr(text, terminal_read(terminal), fixed = fixed)
      at > 0L || !terminal$process$is_alive()
    }, timeout, text),
    error = function(e) stop(conditionMessage(e), "; on the terminal:\n", terminal$text, call. = FALSE)
  )
  if (at < 0L) at <- regexpr(text, terminal_read(terminal), fixed = fixed)
  if (at < 0L) stop("the program ended before it showed \"", text, "\":\n", terminal$text)
  start <- terminal$from
  terminal$from <- start + as.integer(at) - 1L + attr(at, "match.length")
  terminal_screen(substr(terminal$text, start, start + as.integer(at) - 2L))
}

# Keys: "\003" is Ctrl-C, "\004" Ctrl-D, "\032" Ctrl-Z, "\034" Ctrl-\.
terminal_key <- function(terminal, keys) {
  while (length(left <- terminal$process$write_input(keys))) keys <- left
  invisible(terminal)
}

# Types a line and returns what is on the screen when R asks for the next one.
terminal_type <- function(terminal, line, until = terminal_prompt, fixed = TRUE) {
  terminal_key(terminal, paste0(line, "\n"))
  terminal_wait(terminal, until, fixed)
}

# The same for a line behind which the browser asks, at whatever depth.
terminal_browse <- function(terminal, line) terminal_type(terminal, line, "Browse\\[[0-9]\\]> ", fixed = FALSE)

# The terminal is closed, as its window may be.
terminal_hang_up <- function(terminal) {
  close(terminal$process$get_output_connection())
}

skip_unless_terminal <- function() {
  skip_unless_linux()
  skip_if_not_installed("processx")
  skip_if_not(file.access("/dev/ptmx", 2L) == 0L, "a pseudo-terminal (/dev/ptmx) can be opened")
}

interactive_r <- c(file.path(R.home("bin"), "R"), "--vanilla", "--quiet")

# Of the R that has just been started.
terminal_begin <- function(terminal) {
  terminal_wait(terminal, "> ")
  terminal_type(terminal, sprintf("options(prompt = \"%s\")", terminal_prompt))
  terminal_type(terminal, "suppressPackageStartupMessages(library(regatta))")
  terminal
}

# An interactive R with the package.
local_terminal <- function(..., frame = parent.frame()) {
  skip_unless_terminal()
  terminal <- terminal_start(interactive_r, ...)
  withr::defer(terminal_end(terminal), envir = frame)
  terminal_begin(terminal)
}

# The same as a job of a shell. Its number is `r`.
local_shell <- function(..., frame = parent.frame()) {
  skip_unless_terminal()
  skip_unless_command("bash")
  terminal <- terminal_start(c("bash", "--norc", "--noprofile", "-i"), ...)
  withr::defer(terminal_end(terminal), envir = frame)
  terminal_wait(terminal, "shell$ ")
  terminal_key(terminal, paste0(paste(interactive_r, collapse = " "), "\n"))
  terminal_begin(terminal)
  terminal$r <- as.integer(terminal_type(terminal, "cat(Sys.getpid(), '\\n')"))
  terminal
}

# The lines of a screen that has shown `text`: a carriage return goes back to the first column and what follows
# overwrites.
terminal_screen <- function(text) {
  text <- gsub("\033\\[[0-9;?]*[a-zA-Z]", "", text)
  lines <- strsplit(gsub("\r+\n", "\n", text), "\n", fixed = TRUE)[[1L]]
  vapply(lines, function(line) {
    cells <- character()
    for (part in strsplit(line, "\r", fixed = TRUE)[[1L]]) {
      new <- strsplit(part, "", fixed = TRUE)[[1L]]
      cells[seq_along(new)] <- new
    }
    sub(" +$", "", paste(cells, collapse = ""))
  }, "", USE.NAMES = FALSE)
}
