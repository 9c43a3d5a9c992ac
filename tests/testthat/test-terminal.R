detritus <- detritus_snapshot()

# Elements that ask whoever is at the terminal, or whoever has the session's standard input. `from` is taken before.
# What stdin() is on a node of parallel is the rest of that node's own program.
asking <- c(
  "ask <- function(i, gate) {",
  "  while (!file.exists(gate)) Sys.sleep(0.01)",
  "  input <- file('stdin')",
  "  on.exit(close(input))",
  "  asked <- list(readLines('stdin'), readLines(input), system('cat', intern = TRUE),",
  "    if (nzchar(Sys.getenv('REGATTA_WORKER'))) c(readLines(stdin()), scan('', '', quiet = TRUE)))",
  "  c(lengths(asked), nchar(readline('who? ')))",
  "}"
)

# Lines that run an element for ever, which says so first. `nested` is a function.
endless <- c(
  "endless <- function(i) { cat('go', i, '\\n', sep = ''); Sys.sleep(300) }",
  "nested <- function(i) regatta::par_lapply(i, endless)",
  "quiet <- par_control(workers = 2L, progress = FALSE)"
)

type_lines <- function(terminal, lines) {
  path <- file.path(terminal$dir, "lines.R")
  writeLines(lines, path)
  terminal_type(terminal, "source('lines.R')")
}

# The processes of a terminal, without the program that is typed to.
started_in <- function(terminal) setdiff(marked_pids(terminal$mark), terminal$process$get_pid())

expect_shown <- function(terminal, line, shown) {
  expect_identical(terminal_type(terminal, line), shown, info = terminal$text)
}

test_that("pools, maps, streams and calls leave an interactive session its prompt", {
  terminal <- local_terminal()
  expect_shown(terminal, "interactive()", "[1] TRUE")
  expect_shown(terminal, "cl <- cluster_local(2L)", character())
  expect_shown(terminal, "more <- list(cluster_local(1L), cluster_local(1L))", character())
  expect_shown(terminal, "nodes <- parallel::makeCluster(1L)", character())
  expect_shown(terminal, "table(Sys.readlink(file.path('/proc/self/fd', 0:2)))[[1]]", "[1] 3")
  for (on in c("", ", .on = cl", ", .on = nodes")) {
    shown <- terminal_type(terminal, sprintf("unlist(par_lapply(3, function(i) { cat('at', i, '\\n'); i }%s))", on))
    expect_identical(shown, c("1: at 3", "[1] 3"))
    expect_shown(terminal, sprintf("unlist(par_lapply(1:2, function(i) interactive()%s))", on), "[1] FALSE FALSE")
    expect_shown(terminal, sprintf("par_value(par_call(1 + 1%s))", on), "[1] 2")
    expect_shown(terminal, sprintf("s <- par_stream(c(1, 4), sqrt%s); par_next(s); par_next(s)", on), c("[1] 1", "[1] 2"))
  }
  expect_shown(terminal, "unlist(mclapply(1:2, identity, mc.progress = FALSE))", "[1] 1 2")
  # As R shows them, behind the value.
  expect_shown(terminal, "unlist(par_lapply(1L, function(i) { warning('hm'); i }))",
    c("[1] 1", "Warning message:", "In FUN(X[[i]], ...) : 1: hm"))
  expect_shown(terminal, "par_lapply(1:2, identity)[[2L]]", "[1] 2")
  terminal_key(terminal, "q()\n")
  wait_until(length(marked_pids(terminal$mark)) == 0L)
})

test_that("elements get nothing of what is typed, which is the session's", {
  terminal <- local_terminal()
  type_lines(terminal, c(asking, "cl <- cluster_local(1L)", "nodes <- parallel::makeCluster(1L)"))
  for (on in c("NULL", "cl", "nodes")) {
    terminal_key(terminal, sprintf("unlist(par_lapply(1L, ask, 'gate-%s', .on = %s))\n", on, on))
    wait_until(is_resting(terminal$process$get_pid()))
    terminal_key(terminal, "cat('typed', 'ahead\\n')\n")
    file.create(file.path(terminal$dir, paste0("gate-", on)))
    expect_identical(
      terminal_wait(terminal, terminal_prompt), c("1: who?", "[1] 0 0 0 0 0"), info = terminal$text
    )
    expect_identical(terminal_wait(terminal, terminal_prompt), "typed ahead", info = terminal$text)
    shown <- terminal_type(terminal, sprintf("par_lapply(1L, function(i) menu(c('a', 'b')), .on = %s)", on))
    expect_match(shown, "menu() cannot be used non-interactively", fixed = TRUE, all = FALSE)
  }
})

test_that("Ctrl-C ends what runs, the prompt comes back, and the next lines are taken", {
  terminal <- local_terminal()
  type_lines(terminal, c(endless, "cl <- cluster_local(2L)", "server <- cluster_local(1L)"))
  runs <- c(
    "par_lapply(1:4, endless, .control = quiet)", "par_lapply(1:4, endless, .on = cl, .control = quiet)",
    "par_value(h <- par_call(endless(1)))", "par_value(h <- par_call(endless(1), .on = cl))",
    "par_lapply(1:2, nested, .control = quiet)", "par_lapply(1:2, nested, .on = cl, .control = quiet)",
    "par_next(s <- par_stream(1:4, endless, .control = quiet))",
    "par_lapply(1:4, function(i) { cat('go1\\n'); system('sleep 300') }, .control = quiet)"
  )
  for (run in runs) {
    terminal_key(terminal, paste0(run, "\n"))
    terminal_wait(terminal, "go1")
    terminal_key(terminal, "\003")
    shown <- terminal_wait(terminal, terminal_prompt)
    expect_false(any(grepl("rror", shown)), info = paste(shown, collapse = "\n"))
    expect_shown(terminal, "unlist(par_lapply(1:2, identity, .control = quiet))", "[1] 1 2")
    expect_shown(terminal, "unlist(par_lapply(1:2, identity, .on = cl))", "[1] 1 2")
    expect_shown(terminal, "h <- s <- NULL; invisible(gc())", character())
    # The server and three workers of it.
    wait_until(length(started_in(terminal)) == 4L)
  }
})

test_that("an error of an element is looked into at the prompt", {
  withr::local_envvar("_R_CHECK_BROWSER_NONINTERACTIVE_" = NA) # newer testthat sets it
  terminal <- local_terminal()
  shown <- terminal_type(terminal, "par_lapply(list(a = 1, b = 'x'), function(v) { w <- v; log(w) })")
  expect_match(shown[[2L]], "element 2 (\"b\") failed in worker", fixed = TRUE)
  expect_identical(utils::tail(shown, 1L), "Look at its variables: debugger(par_last()$dump)")
  expect_match(terminal_type(terminal, "par_last()"), "par_lapply", fixed = TRUE, all = FALSE)
  terminal_type(terminal, "debugger(par_last()$dump)", "Selection: ")
  terminal_browse(terminal, "1")
  expect_identical(terminal_browse(terminal, "w"), "[1] \"x\"")
  terminal_type(terminal, "Q")
  terminal_type(terminal, "debugger(par_last()$dump)", "Selection: ")
  expect_shown(terminal, "0", character())

  terminal_type(terminal, "f <- function(i) { browser(); i + 1 }")
  shown <- terminal_type(terminal, "par_lapply(3:4, f)")
  expect_match(shown, "browser() cannot be used in a worker, which has no terminal: see par_replay()", fixed = TRUE,
    all = FALSE)
  terminal_browse(terminal, "par_replay(par_last(), 1)")
  expect_identical(terminal_browse(terminal, "i"), "[1] 3")
  expect_shown(terminal, "c", "[1] 4")
  terminal_type(terminal, "g <- function(i) i; debugonce(g)")
  shown <- terminal_type(terminal, "par_lapply(5, g)")
  expect_match(shown, "the debugger, which debug(), debugonce() or browser() has called,", fixed = TRUE, all = FALSE)
  terminal_browse(terminal, "par_replay(par_last(), 1)")
  expect_identical(utils::tail(terminal_browse(terminal, "i"), 1L), "[1] 5")
  expect_match(terminal_type(terminal, "c"), "[1] 5", fixed = TRUE, all = FALSE)

  terminal_type(terminal, "options(error = recover)")
  shown <- terminal_type(terminal, "par_lapply(1L, function(i) stop('boom'))", "Selection: ")
  expect_match(shown, "1: par_lapply(1", fixed = TRUE, all = FALSE)
  expect_shown(terminal, "0", character())
  expect_shown(terminal, "unlist(par_lapply(1:2, identity))", "[1] 1 2")
})

# The rows of the screen that hold a bar or a part of it while the session runs.
drawn <- function(text) {
  parts <- strsplit(gsub("\033\\[[0-9;?]*[a-zA-Z]", "", text), "[\r\n]+")[[1L]]
  grep("done", parts, fixed = TRUE, value = TRUE)
}

test_that("the bar keeps within the width of the terminal, gives way to output, and is gone at the end", {
  terminal <- local_terminal()
  type_lines(terminal, c(
    "say <- function(i) { cat('out', i, '\\n'); message('hm', i); i }",
    "one <- par_control(workers = 1L, progress = TRUE, batch = 1L)",
    "tty <- Sys.readlink('/proc/self/fd/0')",
    "width <- function(cols) {",
    "  system(paste('stty cols', cols, '<', tty))",
    "  while (cli::console_width() != cols) Sys.sleep(0.01)",
    "}"
  ))
  for (cols in c(80L, 40L, 20L)) {
    # It is drawn, and the terminal is another one, before anything else is shown.
    terminal_type(terminal, sprintf("width(%d)", cols))
    from <- nchar(terminal$text) + 1L
    terminal_key(terminal, sprintf("x <- par_lapply(1:2, say, .control = one)\n"))
    shown <- terminal_wait(terminal, terminal_prompt)
    expect_setequal(shown[1:4], c("1: out 1", "1: hm1", "2: out 2", "2: hm2"))
    expect_length(shown, 5L)
    expect_match(shown[[5L]], "^2 of 2 done in ")
    bars <- drawn(substr(terminal$text, from, nchar(terminal$text)))
    bars <- bars[!startsWith(bars, "2 of 2 done in")]
    expect_gt(length(bars), 0L)
    expect_true(all(nchar(bars) < cols))
  }
})

test_that("a session that is left with calls in the background leaves no process", {
  for (way in c("q()\n", "\004")) {
    terminal <- local_terminal()
    type_lines(terminal, c(endless, "cl <- cluster_local(1L)"))
    terminal_type(terminal, "h <- par_call(system('sleep 300')); on_pool <- par_call(endless(1), .on = cl)")
    wait_until(length(started_in(terminal)) >= 4L)
    terminal_key(terminal, way)
    wait_until(length(marked_pids(terminal$mark)) == 0L)
    # It has no environment any more, in which the mark is, a moment before it has ended.
    wait_until(!terminal$process$is_alive())
    expect_identical(terminal$process$get_exit_status(), 0L)
  }
})

test_that("a map that is stopped by Ctrl-Z goes on with fg", {
  terminal <- local_shell()
  type_lines(terminal, c(
    "wait <- function(i) { cat('go', i, '\\n', sep = ''); while (!file.exists('gate')) Sys.sleep(0.01); i }",
    "cl <- cluster_local(2L)", "quiet <- par_control(workers = 2L, progress = FALSE)"
  ))
  for (on in c("", ", .on = cl")) {
    terminal_key(terminal, sprintf("unlist(par_lapply(1:4, wait%s, .control = quiet))\n", on))
    terminal_wait(terminal, "go1")
    terminal_key(terminal, "\032")
    terminal_wait(terminal, "Stopped")
    file.create(file.path(terminal$dir, "gate"))
    terminal_wait(terminal, "shell$ ")
    expect_identical(process_state(terminal$r), "T")
    terminal_key(terminal, "fg\n")
    expect_identical(utils::tail(terminal_wait(terminal, terminal_prompt), 1L), "[1] 1 2 3 4", info = terminal$text)
    unlink(file.path(terminal$dir, "gate"))
  }
  expect_shown(terminal, "unlist(par_lapply(1:2, identity))", "[1] 1 2")
})

test_that("Ctrl-\\ and the end of the terminal leave nothing of a map", {
  runs <- c(
    "par_lapply(1:4, endless, .on = cl, .control = quiet)",
    "par_lapply(1:4, function(i) { cat('go1\\n'); system('sleep 300') }, .control = quiet)"
  )
  for (run in runs) {
    for (way in c("quit", "hangup")) {
      terminal <- local_terminal()
      type_lines(terminal, c(endless, "cl <- cluster_local(2L)"))
      terminal_key(terminal, paste0(run, "\n"))
      terminal_wait(terminal, "go1")
      if (way == "quit") terminal_key(terminal, "\034") else terminal_hang_up(terminal)
      wait_until(length(marked_pids(terminal$mark)) == 0L)
      succeed()
    }
  }
})

# Without a terminal.

# Runs `script` by `command` of the shell, in which $R, $RSCRIPT, $SCRIPT stand for these.
run_job <- function(script, command, frame = parent.frame()) {
  withr::local_preserve_seed()
  dir <- withr::local_tempdir(.local_envir = frame)
  writeLines(script, file.path(dir, "script.R"))
  got <- processx::run("sh", c("-c", command), wd = dir, error_on_status = FALSE, timeout = 120 * slowness(), env = c(
    "current", R_LIBS = paste(.libPaths(), collapse = ":"), R_TESTS = "",
    TMPDIR = dir, R = file.path(R.home("bin"), "R"), RSCRIPT = file.path(R.home("bin"), "Rscript")
  ))
  c(got, dir = dir)
}

test_that("elements and workers take no line of a script, however R reads it", {
  skip_unless_linux()
  mark <- "cat(Sys.getpid(), '', file = 'trail', append = TRUE)"
  # Longer than what a stream reads at a time.
  padding <- rep(paste0("invisible('", strrep("padding ", 100L), "')"), 20L)
  script <- c(
    "library(regatta)", asking, "invisible(file.create('gate'))",
    "cl <- cluster_local(1L)", "nodes <- parallel::makeCluster(1L)",
    "for (on in list(NULL, cl, nodes)) {",
    "  got <- par_lapply(1L, ask, 'gate', .on = on, .control = par_control(progress = FALSE))",
    "  cat(unlist(got), '\\n', file = 'got', append = TRUE)",
    "}", mark, padding, mark, "writeLines(as.character(Sys.getpid()), 'session')"
  )
  ways <- c(
    "\"$R\" --vanilla --no-echo -f script.R", "\"$R\" --vanilla --no-echo <script.R",
    "cat script.R | \"$RSCRIPT\" --vanilla -",
    "\"$RSCRIPT\" --vanilla -e \"source('script.R')\" <script.R", "nohup \"$R\" CMD BATCH --vanilla script.R"
  )
  if (nzchar(Sys.which("r"))) ways <- c(ways, "r script.R <script.R")
  for (way in ways) {
    job <- run_job(script, way)
    story <- paste(c(way, job$stdout, job$stderr), collapse = "\n")
    expect_identical(job$status, 0L, info = story)
    expect_identical(readLines(file.path(job$dir, "got")), rep("0 0 0 0 0 ", 3L), info = story)
    expect_identical(scan(file.path(job$dir, "trail"), "", quiet = TRUE),
      rep(readLines(file.path(job$dir, "session")), 2L), info = story)
  }
})

test_that("where standard streams are closed, files that have come to their numbers are the script's", {
  skip_unless_linux()
  script <- c(
    "library(regatta)",
    "path <- function(k) Sys.readlink(file.path('/proc/self/fd', k))",
    "work <- function(i) {",
    "  cat('out', i, '\\n')",
    "  cat('err', i, '\\n', file = stderr())",
    "  system('echo program; echo program >&2')",
    "  rep(i + 0, 1e5)",
    "}",
    "control <- par_control(workers = 2L, progress = FALSE, dump = 'no', stdout = 'drop', stderr = 'drop')",
    "sums <- numeric()",
    "same <- TRUE",
    "look <- function() same <<- same && identical(path(0:2), before)",
    "use <- function(on) {",
    "  sums <<- c(sums, vapply(par_lapply(1:2, work, .on = on, .control = control), sum, 0)); look()",
    "  sums <<- c(sums, sum(par_value(par_call(work(1), .on = on, .control = control)))); look()",
    "}",
    # These numbers stay as free as they are, until files of the script come to have them.
    "before <- path(0:2)",
    "cl <- cluster_local(2L); look()",
    "shared <- shm_share(runif(1e5)); array <- shm_array(1e4); lock <- shm_lock(); look()",
    "use(NULL); use(cl)",
    "files <- lapply(1:4, function(k) file(paste0('file', k), 'w'))",
    "before <- path(0:2)",
    "use(NULL); use(cl)",
    "parallel::stopCluster(cl); look()",
    "more <- cluster_local(1L); look(); parallel::stopCluster(more); look()",
    "for (k in 1:4) cat('mine', k, '\\n', file = files[[k]])",
    "for (f in files) close(f)",
    "saveRDS(list(same = same, sums = sums), 'got.rds')"
  )
  ways <- c("<&-", ">&-", "2>&-", "<&- >&- 2>&-")
  for (way in ways) {
    job <- run_job(script, paste("\"$RSCRIPT\" --vanilla script.R", way))
    expect_identical(job$status, 0L, info = paste(way, job$stderr))
    got <- readRDS(file.path(job$dir, "got.rds"))
    expect_true(got$same, info = way)
    expect_identical(got$sums, rep(c(1, 2, 1), 4) * 1e5)
    expect_identical(vapply(1:4, function(k) readLines(file.path(job$dir, paste0("file", k))), ""),
      sprintf("mine %d ", 1:4), info = way)
  }
})

test_that("nothing is left behind", {
  end_servers()
  expect_no_detritus(detritus)
})
