# The session itself as the only worker: nothing is forked and nothing is copied, so that elements
# may change variables and use browser(). Errors, output and conditions become the same events as
# those of a forked worker, so that the driver treats them alike. Limits are not watched: what
# would have to be ended is the session.
#
# `on` is list(state, element, muffle): the environment below, a function of an element's number,
# and whether messages and warnings stay in the element once they are noted, or are signalled where
# they arise as well.

# What is shared with the code around an element: `depth`, the number of the last frame that is
# not the user's.
here_new <- function() {
  here <- new.env(parent = emptyenv())
  here$depth <- 0L
  here$queue <- numeric()
  here$done <- 0L
  here$events <- list()
  here$counts <- c(message = 0, warning = 0, condition = 0)
  here$detailed <- 0L
  here$record <- NULL
  here
}

new_executor.regatta_here <- function(on, plan) {
  here <- on$state
  here$element <- on$element
  here$muffle <- on$muffle
  here$tasks <- task_table(plan$n)
  seed <- if (!is.null(plan$seed)) globalenv()$.Random.seed
  list(
    kind = "session",
    start = function() Sys.getpid(),
    submit = function(indices) here$queue <- c(here$queue, indices),
    poll = function(timeout) here_poll(here, plan),
    running = function() list(pid = Sys.getpid(), element = 0, seconds = 0, cpu_seconds = 0),
    signal = function(w, how) FALSE,
    respawn = function(w) NA_integer_,
    withdraw = function(first) {
      left <- seq_along(here$queue) > here$done
      here$queue <- here$queue[!left | here$queue <= first]
    },
    limit = function(active) NULL,
    tasks = function() task_rows(here$tasks),
    task = function(index) task_rows(here$tasks, index),
    guard = function(code) code,
    stop = function() {
      if (!is.null(seed)) {
        rng_use(seed)
      }
      NA_real_
    }
  )
}

# Elements for a fiftieth of a second, or until one has more to tell than its value.
here_poll <- function(here, plan) {
  index <- numeric()
  values <- list()
  until <- .Call(ffi_clock) + 0.02
  repeat {
    if (here$done == length(here$queue)) {
      break
    }
    here$done <- here$done + 1L
    at <- here$queue[[here$done]]
    value <- here_run(here, plan, at)
    failed <- !is.null(here$record)
    if (!failed) {
      index <- c(index, at)
      values[length(index)] <- list(value)
    }
    if (failed || length(here$events) > 0L || .Call(ffi_clock) > until) {
      break
    }
  }
  events <- here$events
  here$events <- list()
  if (!is.null(here$record)) {
    events[[length(events) + 1L]] <- here_failure(here, at)
  }
  if (length(index) > 0L) {
    events[[length(events) + 1L]] <- list(type = "values", index = index, values = values)
  }
  events
}

here_failure <- function(here, index) {
  record <- here$record
  here$record <- NULL
  list(
    type = "error", index = index, try = here$tasks$tries[[index]], pid = Sys.getpid(),
    worker = 1L, record = record
  )
}

here_event <- function(here, ...) {
  here$events[[length(here$events) + 1L]] <- list(...)
}

# The value of one element; after an error NULL, and here$record describes the error.
here_run <- function(here, plan, index) {
  here_begin(here, plan, index)
  on.exit(task_set(here$tasks, "end", index, .Call(ffi_clock)))
  if (plan$control$retries > 0) {
    old <- Sys.getenv("REGATTA_TRY", NA, names = TRUE)
    Sys.setenv(REGATTA_TRY = here$tasks$tries[[index]])
    on.exit(restore_env(old), TRUE)
  }
  value <- here_with_output(here, plan, index, here_evaluate(here, plan, index))
  for (kind in names(here$counts)) {
    more <- here$counts[[kind]] - plan$control$max_conditions
    if (more > 0) {
      here_event(here, type = "suppressed", index = index, kind = kind, count = more)
    }
  }
  value
}

here_begin <- function(here, plan, index) {
  try <- here$tasks$tries[[index]] + 1L
  task_set(here$tasks, "worker", index, 1L)
  task_set(here$tasks, "tries", index, try)
  task_set(here$tasks, "start", index, .Call(ffi_clock))
  here$counts[] <- 0
  here$depth <- sys.nframe()
  if (!is.null(plan$seed)) {
    rng_use(rng_element_seed(plan$seed, index, if (plan$control$retry_seed == "new") try else 1L))
  }
}

here_evaluate <- function(here, plan, index) {
  value <- NULL
  withRestarts(
    tryCatch(
      withCallingHandlers(
        value <- here$element(index),
        condition = function(cnd) here_condition(here, plan, index, cnd)
      ),
      # After an infinite recursion no calling handler is run: see handle_overflow().
      error = function(cnd) here$record <- here_record(here, plan, cnd, list(), list())
    ),
    regatta_here_next = function() NULL
  )
  if (is.null(here$record)) value
}

here_condition <- function(here, plan, index, cnd) {
  if (inherits(cnd, "error")) {
    signaller <- sys.nframe() - 2L
    if (is_only_signalled(signaller)) leave_signal(sys.frame(signaller))
    here_error(here, plan, cnd)
  } else if (inherits(cnd, "warning")) {
    # With options(warn = 2) R turns the warning into an error after its handlers.
    if (getOption("warn") < 2) {
      here_send(here, plan, index, "warning", plan$control$warnings, cnd)
      if (here$muffle[["warning"]]) tryInvokeRestart("muffleWarning")
    }
  } else if (inherits(cnd, "message")) {
    here_send(here, plan, index, "message", plan$control$messages, cnd)
    if (here$muffle[["message"]]) tryInvokeRestart("muffleMessage")
  } else if (!inherits(cnd, "interrupt")) {
    here_send(here, plan, index, "condition", plan$control$conditions, cnd)
  }
}

here_send <- function(here, plan, index, kind, mode, cnd) {
  if (mode == "drop") {
    return(invisible())
  }
  here$counts[[kind]] <- here$counts[[kind]] + 1
  if (here$counts[[kind]] <= plan$control$max_conditions) {
    here_event(here, type = "condition", index = index, kind = kind, cnd = light_condition(cnd))
  }
}

# Called by here_condition(), which a handler has called: their frames and that of this function
# are the last ones. What on.exit() code signals while the frames go is not the element's error.
here_error <- function(here, plan, cnd) {
  if (is.null(here$record)) {
    shown <- user_frames(sys.calls(), sys.frames(), here$depth + 1L, sys.nframe() - 3L)
    here$record <- here_record(here, plan, cnd, shown$calls, shown$frames)
  }
  invokeRestart("regatta_here_next")
}

here_record <- function(here, plan, cnd, calls, frames) {
  detail <- here$detailed < detailed_errors_max
  here$detailed <- here$detailed + 1L
  dump <- if (detail) plan$control$dump else "no"
  capture_error(cnd, calls, frames, detail = detail, dump = dump)
}

# What `code` prints is an event if it is to be captured. If it is to be shown at once it goes
# where it would go without us.
here_with_output <- function(here, plan, index, code) {
  mode <- plan$control$stdout
  if (mode == "relay") {
    return(code)
  }
  level <- sink.number()
  to <- if (mode == "capture") rawConnection(raw(), "wb") else file("/dev/null", "wb")
  on.exit({
    # The element may have opened sinks, or closed ours.
    while (sink.number() > level) sink()
    text <- if (mode == "capture") rawConnectionValue(to)
    close(to)
    if (length(text) > 0L) {
      here_event(here, type = "output", index = index, stream = "stdout", text = text)
    }
  })
  sink(to)
  code
}
