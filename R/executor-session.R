# The session itself as the only worker: nothing is forked and nothing is copied, so that elements
# may change variables and use browser(). Limits are not watched: what would have to be ended is the
# session.
#
# `on` is list(element, muffle): a function of an element's number, and whether messages and warnings stay
# in the element once they are noted, or are signalled where they arise as well.

workers_offered.regatta_session <- function(on) list(usual = 1L, most = 1L)

new_executor.regatta_session <- function(on, plan) {
  session <- new.env(parent = emptyenv())
  session$on <- on
  session$plan <- plan
  session$elements <- session$tries <- numeric()
  session$detailed <- 0L
  session$events <- list()
  seed <- if (!is.null(plan$seed)) globalenv()$.Random.seed
  list(
    kind = "session",
    start = function(workers, places) {
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
      if (!is.null(seed)) {
        rng_use(seed)
      }
      list(worker = session$worker, peak = NA_real_)
    }
  )
}

session_tell <- function(session, event) {
  session$events[[length(session$events) + 1L]] <- event
}

# Elements for a fiftieth of a second, or until one has more to tell than its value.
session_poll <- function(session) {
  if (length(session$events) == 0L && length(session$elements) > 0L) {
    env <- Sys.getenv("REGATTA_TRY", NA, names = TRUE)
    on.exit(restore_env(env))
    evaluate_nested(session_run(session))
  }
  events <- join_ends(session$events)
  session$events <- list()
  events
}

session_run <- function(session) {
  plan <- session$plan
  until <- .Call(ffi_clock) + 0.02
  evaluate_begin(plan$control, plan$seed, session$on$muffle)
  evaluator$session <- TRUE
  evaluator$detailed <- session$detailed
  evaluate_through(
    take = function() {
      told <- vapply(session$events, function(event) is.null(event[["values"]]), NA)
      if (length(session$elements) == 0L || any(told) || .Call(ffi_clock) > until) {
        return(NULL)
      }
      next_one <- as.numeric(c(session$elements[[1L]], session$tries[[1L]]))
      session$elements <- session$elements[-1L]
      session$tries <- session$tries[-1L]
      next_one
    },
    tell = function(...) session_tell(session, evaluate_event(session$worker, ...)),
    bytes = FALSE
  )
  env <- list2env(list(session = session), parent = topenv())
  evaluate_all(function() .Call(ffi_evaluator_run, quote(session_element(session, i)), env))
  session$detailed <- evaluator$detailed
}

session_element <- function(session, i) {
  evaluator$depth <- sys.nframe()
  session_with_output(session, i, session$on$element(i))
}

# What `code` prints is an event if it is to be captured. If it is to be shown at once it goes
# where it would go without us.
session_with_output <- function(session, index, code) {
  mode <- session$plan$control$stdout
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
      session_tell(session, list(type = "output", index = index, stream = "stdout", text = text))
    }
  })
  sink(to)
  code
}
