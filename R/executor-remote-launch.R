# Commands that run beside the session and bring agents: ssh, srun. What they are to know comes on stdin
# from a file that only this user can read; what they print is kept to be shown if they fail.

# `command` is the words of a command, `line` its stdin; `hosts` are the numbers of those it is for. It ends with its
# agents, or `watches` jobs and sees some time later that they have gone.
launch_start <- function(command, line, hosts, name, watches = FALSE) {
  folder <- tempfile("launch-")
  dir.create(folder, mode = "0700")
  files <- file.path(folder, c("stdin", "log", "pid"))
  file.create(files[[1L]])
  Sys.chmod(files[[1L]], "600", use_umask = FALSE)
  writeLines(line, files[[1L]])
  script <- sprintf(
    "echo $$ >%s; exec \"$@\" <%s >%s 2>&1", shQuote(files[[3L]]), shQuote(files[[1L]]), shQuote(files[[2L]])
  )
  words <- c("-c", script, "launch", command)
  status <- system2("sh", vapply(words, shQuote, ""), wait = FALSE)
  launch <- list(
    folder = folder, log = files[[2L]], pid_file = files[[3L]], hosts = hosts, name = name, watches = watches
  )
  launch$begun <- .Call(ffi_clock)
  launch
}

# NA: it has not begun yet.
launch_pid <- function(launch) {
  text <- tryCatch(suppressWarnings(readLines(launch$pid_file, 1L)), error = function(e) character())
  if (length(text) == 1L && grepl("^[0-9]+$", text)) as.integer(text) else NA_integer_
}

launch_is_running <- function(launch) {
  pid <- launch_pid(launch)
  if (is.na(pid)) {
    return(.Call(ffi_clock) - launch$begun < 10)
  }
  # Nobody collects what has ended where the first process of a container, this session or another, does not.
  tools::pskill(pid, 0L) && !processes_look(pid)$state %in% c("Z", "X")
}

launch_said <- function(launch) {
  lines <- tryCatch(suppressWarnings(readLines(launch$log)), error = function(e) character())
  lines <- lines_said(lines)
  if (length(lines) > 0L) paste0(launch$name, ": ", utils::tail(lines, 3L))
}

# Commands end with their agents, which were told to: those that have not after `seconds` are to be ended.
launches_await <- function(launches, seconds) await_none(launches, launch_is_running, seconds)

# Until none of `things` is there any more, or `seconds` are over.
await_none <- function(things, is_there, seconds) {
  until <- .Call(ffi_clock) + seconds
  while (any(vapply(things, is_there, NA)) && .Call(ffi_clock) < until) .Call(ffi_sleep, 0.02)
}

launch_end <- function(launch) {
  # Of one that has only begun the pid is not known yet.
  while (is.na(pid <- launch_pid(launch)) && launch_is_running(launch)) .Call(ffi_sleep, 0.02)
  if (!is.na(pid) && launch_is_running(launch)) tools::pskill(pid, tools::SIGTERM)
  unlink(launch$folder, recursive = TRUE)
}

# What runs an agent, as lines of sh: `rscript`, words, and `env`, named strings. How R has ended is told, as
# nobody else may do so.
launch_rscript <- function(rscript, env) {
  settings <- sprintf("%s=%s", names(env), vapply(as.character(env), shQuote, ""))
  code <- shQuote("regatta:::agent_main()")
  paste(c(
    if (length(env) > 0L) c("env", settings), vapply(rscript, shQuote, ""),
    "--no-echo --no-restore --no-save -e", paste0(code, "; s=$?;"),
    "[ $s -le 128 ] || echo R was ended by signal $((s-128)) >&2;",
    "[ $s -eq 0 ] || [ $s -gt 128 ] || echo R has ended with status $s >&2; exit $s"
  ), collapse = " ")
}
