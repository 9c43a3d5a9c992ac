# Maps that go on while a process beside them kills a random worker with SIGKILL every 150 ms: in an
# element, between two, while it holds a lock of the queue, while it sends.

# c(rounds, wrong, deaths). With retries every value must be right in the end; without, each value
# is right or a death of its own element.
map_under_fire <- function(seconds, size, n, retries) {
  session <- fault_start(function(seconds, size, n, retries) {
    control <- par_control(
      workers = 3L, progress = FALSE, retries = retries, retry_on = "death", dump = "no",
      errors = "collect"
    )
    is_right <- function(i, value) {
      if (retries == 0L && inherits(value, "regatta_error_death")) {
        return(value$index == i && value$signal == 9L)
      }
      is.numeric(value) && length(value) == size && all(value == i)
    }
    cat("ready\n")
    start <- proc.time()[["elapsed"]]
    rounds <- wrong <- deaths <- 0
    while (proc.time()[["elapsed"]] - start < seconds) {
      got <- suppressMessages(suppressWarnings(par_lapply(seq_len(n), function(i) {
        if (i %% 10L == 0L) message("note")
        rep(i + 0, size)
      }, .control = control)))
      rounds <- rounds + 1
      wrong <- wrong + sum(!mapply(is_right, seq_len(n), got))
      deaths <- deaths + sum(grepl("SIGKILL", par_last()$workers$exit))
    }
    c(rounds = rounds, wrong = wrong, deaths = deaths)
  }, list(seconds = seconds, size = size, n = n, retries = retries))
  on.exit(fault_end(session))
  fault_wait_line(session, "ready")
  killer <- start_killer(session$process$get_pid(), times = seconds * 7)
  on.exit(killer$kill(), add = TRUE)
  fault_value(session, timeout = 60 + 10 * seconds)$value
}

start_killer <- function(pid, times) {
  withr::local_preserve_seed()
  processx::process$new("sh", c("-c", sprintf(
    "for i in $(seq %d); do
       victim=$(tr ' ' '\\n' < /proc/%d/task/%d/children | grep . | shuf -n 1)
       [ -n \"$victim\" ] && kill -9 $victim 2>/dev/null
       sleep 0.15 # a slow machine starts others meanwhile
     done", times, pid, pid
  )))
}

expect_unharmed <- function(...) {
  got <- map_under_fire(...)
  expect_gt(got[["rounds"]], 0)
  expect_identical(got[["wrong"]], 0)
  expect_gt(got[["deaths"]], 0)
}
