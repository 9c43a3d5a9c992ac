# The session itself as the only worker: nothing is forked and nothing is sent, so that elements
# may change variables and use browser(). Shared arrays in their values are what they would be if they had
# come from a worker, and the generator of random numbers is afterwards what it was before. Limits are not
# watched: what would have to be ended is the session.
#
# `on` is list(element, muffle): a function of an element's number, and whether messages and warnings stay
# in the element once they are noted, or are signalled where they arise as well. Without these it runs the loop of the
# task, as a worker does.

workers_offered.regatta_session <- function(on) list(usual = 1L, most = 1L)

new_executor.regatta_session <- function(on, plan) {
  session <- new.env(parent = emptyenv())
  session$on <- on
  session$plan <- plan
  session$elements <- session$tries <- numeric()
  session$detailed <- 0L
  session$events <- list()
  session$told <- FALSE # whether anything but values is among them
  session$settle <- c(plan$control$copy, .Call(ffi_shm_last_region))
  rng <- rng_save()
  list(
    kind = "session",
    start = function(workers, places) {
      # A worker seeds itself. Elements of mclapply() are seeded one by one, or go on from the session's state.
      if (is.null(plan$seed) && is.null(on$element)) rng_use(NULL)
      session$worker <- workers[[1L]]
      session_tell(session, event_joined(workers[[1L]], Sys.getpid(), watched = FALSE))
    },
    poll = function(timeout) session_poll(session),
    give = function(worker, elements, tries) {
      session$elements <- elements
      session$tries <- tries
    },
    interrupt = function(worker, element) FALSE,
    signal = function(worker, number) FALSE,
    measure = function(worker, what) measure_here(Sys.getpid(), what),
    guard = function(code) code,
    stop = function() {
      rng_restore(rng)
      list(worker = session$worker, peak = NA_real_)
    }
  )
}

session_tell <- function(session, event) {
  if (is.null(event[["values"]])) session$told <- TRUE
  session$events[[length(session$events) + 1L]] <- event
}

# Elements for a fiftieth of a second, or until one has more to tell than its value.
session_poll <- function(session) {
  if (length(session$events) == 0L && length(session$elements) > 0L) {
    env <- Sys.getenv("REGATTA_TRY", NA, names = TRUE)
    on.exit(restore_env(env))
    without_checkpoint(session$plan$control$checkpoint, evaluate_nested(session_run(session)))
  }
  events <- join_ends(session$events)
  session$events <- list()
  session$told <- FALSE
  events
}

# Calls inside of an element must not find the folder in the option that their own call holds. What `code` sets there
# stays.
without_checkpoint <- function(folders, code) {
  before <- getOption("regatta.control")
  if (is.null(folders) || !inherits(before, "regatta_control")) {
    return(code)
  }
  within <- before
  within["checkpoint"] <- list(NULL)
  options(regatta.control = within)
  on.exit(if (identical(getOption("regatta.control"), within)) options(regatta.control = before))
  code
}

session_run <- function(session) {
  plan <- session$plan
  until <- .Call(ffi_clock) + 0.02
  on <- session$on
  muffle <- if (is.null(on$muffle)) c(message = TRUE, warning = TRUE) else on$muffle
  evaluate_begin(plan$control, plan$seed, muffle)
  evaluator$session <- TRUE
  evaluator$detailed <- session$detailed
  # What a loop prints is known to be of an element if it runs that alone.
  is_loop <- is.null(on$element)
  left <- if (is_loop && plan$control$stdout != "relay") 1L else Inf
  evaluate_through(
    take = function() {
      if (length(session$elements) == 0L || session$told || left == 0 || .Call(ffi_clock) > until) {
        return(NULL)
      }
      left <<- left - 1
      next_one <- as.numeric(c(session$elements[[1L]], session$tries[[1L]]))
      session$elements <- session$elements[-1L]
      session$tries <- session$tries[-1L]
      next_one
    },
    tell = function(...) session_tell(session, evaluate_event(session$worker, ...)),
    settle = session$settle
  )
  if (is_loop) {
    session_loop(session, plan$loop)
  } else {
    output <- session_output(session)
    on.exit(output$end())
    env <- list2env(list(session = session, output = output), parent = topenv())
    evaluate_all(function() .Call(ffi_evaluator_run, quote(session_element(session, output, i)), 0L, env))
  }
  session$detailed <- evaluator$detailed
}

# An element's output is told before its end.
session_loop <- function(session, loop) {
  before <- length(session$events)
  output <- session_output(session)
  on.exit(output$end())
  index <- session$elements[[1L]]
  evaluate_all(loop)
  output$take(index)
  events <- session$events
  rank <- vapply(events, function(event) if (event$type == "output") 1L else 2L, 0L)
  rank[seq_len(before)] <- 0L
  session$events <- events[order(rank)]
}

session_element <- function(session, output, i) {
  evaluator$depth <- sys.nframe()
  on.exit(output$take(i))
  session$on$element(i)
}

# What elements print is an event if it is to be captured. If it is to be shown at once it goes where it would go
# without us. One sink is for all elements of a batch, since to make one takes longer than many an element: take(index)
# tells what has come since it was called last, of that element, which may have opened sinks, or closed ours.
session_output <- function(session) {
  mode <- session$plan$control$stdout
  if (mode == "relay") {
    return(list(take = function(index) NULL, end = function() NULL))
  }
  level <- sink.number()
  to <- NULL
  begin <- function() {
    to <<- if (mode == "capture") rawConnection(raw(), "wb") else file("/dev/null", "wb")
    sink(to)
  }
  end <- function() {
    while (sink.number() > level) sink()
    text <- if (mode == "capture") rawConnectionValue(to)
    close(to)
    text
  }
  take <- function(index) {
    is_used <- mode == "capture" && length(rawConnectionValue(to)) > 0L
    if (is_used || unclass(stdout())[[1L]] != unclass(to)[[1L]]) {
      text <- end()
      if (length(text) > 0L) session_tell(session, event_output(index, "stdout", text))
      begin()
    }
  }
  begin()
  list(take = take, end = end)
}
