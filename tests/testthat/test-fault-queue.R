detritus <- detritus_snapshot()

# Code that writes to what the processes of a run of two workers share.
queue_code <- function(frame = parent.frame()) {
  fault_compile(c(
    find_shared,
    "#include <signal.h>",
    "void stop_with_lock(char **file) {",
    "  pthread_mutex_t *lock = &find_control(2)->lock;",
    "  pthread_mutex_lock(lock);",
    "  fclose(fopen(file[0], \"w\"));",
    "  raise(SIGSTOP);",
    "  pthread_mutex_unlock(lock);",
    "}",
    # In the queue, or in the claim of the worker that runs element 0. `before` is what stood there, and -1 if nobody
    # will take it from there.
    "void overwrite_number(int *place, double *number, int *claimed, double *before) {",
    "  rg_control_shared *shared = find_control(2);",
    "  int64_t *at = NULL;",
    "  pthread_mutex_lock(&shared->lock);",
    "  if (!*claimed && *place >= shared->head && *place < shared->tail) at = &order_of(shared)[*place];",
    "  for (int w = 0; *claimed && w < shared->workers; w++) {",
    "    rg_slot *slot = slot_of(shared, w);",
    "    if (slot->current != 0 || *place < slot->claim_done || *place >= slot->claim_size) continue;",
    "    at = &slot->claim[*place];",
    "  }",
    "  *before = at ? (double)*at : -1;",
    "  if (at) *at = (int64_t)*number;",
    "  pthread_mutex_unlock(&shared->lock);",
    "}",
    "void overwrite_lock(int *number) { memcpy(&find_control(2)->lock, number, sizeof *number); }"
  ), "queue", flags = source_headers(), env = frame)
}

# A session whose first element stops its worker while that has the lock, and whose second dies.
stopped_in_lock <- function(library, folder) {
  fault_start(function(library, folder) {
    dyn.load(library)
    stopped <- file.path(folder, "stopped")
    got <- tryCatch(
      allowInterrupts({
        cat("go\n")
        suppressWarnings(par_lapply(1:2, function(i) {
          if (i == 1L) {
            writeLines(as.character(Sys.getpid()), file.path(folder, "pid"))
            while (!file.exists(file.path(folder, "begun"))) Sys.sleep(0.01)
            .C("stop_with_lock", stopped)
            return("went on")
          }
          file.create(file.path(folder, "begun"))
          while (!file.exists(stopped)) Sys.sleep(0.01)
          tools::pskill(Sys.getpid(), 9L)
        }, .control = par_control(
          workers = 2L, progress = FALSE, errors = "collect", dump = "no", batch = 1L
        )))
      }),
      interrupt = function(e) "interrupted"
    )
    if (is.list(got)) c(got[[1L]], if (inherits(got[[2L]], "regatta_error_death")) "death") else got
  }, list(library = library, folder = folder))
}

is_stopped <- function(pid) grepl(") T ", proc_line(pid), fixed = TRUE)

test_that("a session is interrupted, or goes on, whose worker was stopped with the lock of the queue", {
  skip_unless_linux()
  library <- queue_code()
  for (how in c("interrupt", "continue")) {
    folder <- withr::local_tempdir()
    session <- stopped_in_lock(library, folder)
    withr::defer(fault_end(session))
    fault_wait_line(session, "^go")
    wait_until(function() file.exists(file.path(folder, "stopped")))
    pid <- as.integer(readLines(file.path(folder, "pid")))
    wait_until(function() is_stopped(pid))
    # The death of the other has been seen when nobody is left who could wake the session.
    children <- function() readLines(sprintf("/proc/%1$d/task/%1$d/children", session$process$get_pid()), warn = FALSE)
    wait_until(function() {
      others <- setdiff(strsplit(paste(children(), collapse = " "), " +")[[1L]], c("", pid))
      all(vapply(others, function(p) !is_running(p), NA))
    })
    if (how == "interrupt") session$process$interrupt() else tools::pskill(pid, 18L)
    got <- fault_value(session)$value
    expect_identical(
      got, if (how == "interrupt") "interrupted" else c("went on", "death")
    )
  }
})

test_that("a number that was overwritten costs neither its element nor another one the value", {
  skip_unless_linux()
  library <- queue_code()
  # Numbers of the queue begin with 0, and each stands at the place of its number. That of the third element is one
  # that runs twice then; the others are of no element.
  cases <- list(
    list(place = 11L, number = 2, claimed = 0L, batch = 1L), list(place = 11L, number = 1e9, claimed = 0L, batch = 1L),
    list(place = 11L, number = -5, claimed = 0L, batch = 1L), list(place = 3L, number = 2, claimed = 1L, batch = 4L),
    list(place = 2L, number = -5, claimed = 1L, batch = 4L)
  )
  got <- fault_run(function(library, cases) {
    dyn.load(library)
    lapply(cases, function(case) {
      written <- tempfile()
      runs <- tempfile()
      values <- unclass(suppressWarnings(par_lapply(1:12, function(i) {
        cat(sprintf("%d\n", as.integer(i)), file = runs, append = TRUE) # one write for a line
        if (i == 1L) {
          before <- .C("overwrite_number", case$place, case$number, case$claimed, 0)[[4L]]
          writeLines(format(before), paste0(written, ".part"))
          file.rename(paste0(written, ".part"), written)
        }
        while (!file.exists(written)) Sys.sleep(0.01)
        if (i == 3L) as.double(1:1e4) else i
      }, .control = par_control(
        workers = 2L, progress = FALSE, errors = "collect", dump = "no", batch = case$batch
      ))))
      list(values = values, before = as.numeric(readLines(written)), runs = tabulate(scan(runs, quiet = TRUE), 12L))
    })
  }, list(library = library, cases = cases))$value
  right <- as.list(1:12)
  right[[3L]] <- as.double(1:1e4)
  for (k in seq_along(cases)) {
    case <- cases[[k]]
    expect_identical(got[[!!k]]$before, as.numeric(case$place))
    expect_identical(got[[!!k]]$runs, 1L + (1:12 == 3L & case$number == 2))
    expect_identical(got[[!!k]]$values, right)
  }
})

test_that("a lock that was overwritten is an error, whatever is written there, and the next run has another", {
  skip_unless_linux()
  library <- queue_code()
  got <- fault_run(function(library) {
    dyn.load(library)
    control <- par_control(workers = 2L, progress = FALSE, errors = "collect", dump = "no", batch = 1L)
    written <- tempfile()
    ended <- tryCatch(par_lapply(1:20, function(i) {
      if (i == 1L) {
        .C("overwrite_lock", 0x3abcdeL)
        file.create(written)
      }
      while (!file.exists(written)) Sys.sleep(0.01)
    }, .control = control), error = identity)
    list(class = class(ended), text = conditionMessage(ended), after = par_lapply(1:4, function(i) i, .control = control))
  }, list(library = library))$value
  expect_true("regatta_error_damage" %in% got$class)
  expect_match(got$text, "was overwritten")
  expect_identical(got$after, as.list(1:4))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
