# A session that runs maps until told to stop. It is interrupted within a map only; after each
# interrupt it prints what is left and the outcome of a next map, as "after <k> ..." on one line,
# and waits for a line.
interrupt_session <- function(kind, times, workers = 2L) {
  fault_start(function(kind, times, workers) {
    input <- file("stdin", "r")
    control <- par_control(workers = workers, progress = FALSE, batch = 1L, dump = "no")
    tasks <- list(
      short = function(i) {
        Sys.sleep(0.003)
        rep(i + 0, 2e4)
      },
      long = function(i) Sys.sleep(300),
      grandchild = function(i) system("sleep 300"),
      stubborn = function(i) suspendInterrupts(repeat Sys.sleep(1)),
      catching = function(i) repeat tryCatch(Sys.sleep(300), interrupt = function(e) NULL),
      chatty = function(i) for (k in 1:1000) cat(strrep("x", 500), "\n", file = stderr())
    )
    children <- function() {
      ids <- list.files("/proc", pattern = "^[0-9]+$")
      parent <- vapply(file.path("/proc", ids, "stat"), function(path) {
        # A process that ends between opening and reading gives no line, and no error.
        line <- tryCatch(suppressWarnings(readLines(path, 1L)), error = function(e) character())
        sub(" .*", "", sub("^.*\\) . ", "", c(line, "")[[1L]]))
      }, "")
      sum(parent == as.character(Sys.getpid()))
    }
    descriptors <- function() length(list.files("/proc/self/fd"))
    drain <- function() tryCatch(allowInterrupts(Sys.sleep(0)), interrupt = function(e) NULL)
    step <- function(k, before) {
      # Every signal of the step before has come by now: the session was told to go on after it.
      drain()
      caught <- tryCatch(allowInterrupts({
        cat("go", k, "\n")
        repeat par_lapply(1:40, tasks[[kind]], .control = control)
      }), interrupt = function(e) "interrupt", error = function(e) conditionMessage(e))
      # Workers that had nothing to do are killed and collected a moment later, by a thread; no sleep
      # here, as Sys.sleep() would take a second signal.
      patience <- proc.time()[["elapsed"]] + 60
      while ((left <- children()) > 0L && proc.time()[["elapsed"]] < patience) NULL
      gc()
      extra <- descriptors() - before
      same <- identical(par_lapply(1:4, function(i) i, .control = control), as.list(1:4))
      cat("after", k, caught, "children", left, "descriptors", extra, "next", same, "\n")
    }
    suspendInterrupts({
      par_lapply(1:4, function(i) rep(i + 0, 2e4), .control = control)
      gc()
      before <- descriptors()
      for (k in seq_len(times)) {
        step(k, before)
        readLines(input, 1L)
      }
    })
  }, list(kind = kind, times = times, workers = workers))
}

# Interrupts the session `times` times, each after a random part of a second.
interrupt_often <- function(kind, times, group = TRUE, twice = FALSE, longest = 0.1) {
  session <- interrupt_session(kind, times)
  on.exit(fault_end(session))
  for (k in seq_len(times)) {
    fault_wait_line(session, sprintf("^go %d ", k))
    Sys.sleep(stats::runif(1, 0, longest))
    pid <- session$process$get_pid()
    if (group) {
      signal_group(pid, "INT", times = if (twice) 2L else 1L, gap = 0.01)
    } else {
      tools::pskill(pid, tools::SIGINT)
    }
    fault_wait_line(session, sprintf("^after %d ", k))
    wait_until(function() !any_sleepers(session), 60, "the end of all grandchildren")
    fault_tell(session, "go on")
  }
  lines <- grep("^after ", fault_text(session, "stdout"), value = TRUE)
  sub("^after [0-9]+ ", "", lines)
}

any_sleepers <- function(session) {
  any(vapply(marked_pids(session$mark), proc_line, "", file = "comm") == "sleep")
}

clean_interrupt <- "interrupt children 0 descriptors 0 next TRUE "

# Whether a process waits for something: it sleeps at each of some looks and has used no time between them.
is_resting <- function(pid) {
  look <- function() {
    fields <- strsplit(sub("^.*\\) ", "", proc_line(pid)), " ")[[1L]]
    list(state = fields[[1L]], used = fields[12:13])
  }
  first <- look()
  for (k in 1:4) {
    Sys.sleep(0.05)
    if (first$state != "S" || !identical(look(), first)) {
      return(FALSE)
    }
  }
  TRUE
}
