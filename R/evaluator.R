# The R half of the evaluator: the loop over elements in a worker, and what it knows of itself. It does not know which
# executor runs it. What elements signal is in R/evaluator-conditions.R, how they fail in R/evaluator-errors.R, errors
# that are like the one before in R/evaluator-alike.R, and what the session is told in R/evaluator-events.R.

# What the current worker is doing: `depth`, the number of the loop's frame; `step`, the frame that an element
# leaves when it fails; `detailed`, how many errors it has described in full; `like`, the trace that the last
# error had, and what it was made of (see error_key()); `told`, how many such it has sent; `control`, the
# settings of the run; `muffle`, whether messages and warnings end once they are noted; `messages_to`, the
# connection that messages went to when the elements began; `session`, whether the worker is the session itself,
# so that an interrupt is the user's; `record`, an error that has been described and not yet sent; `unsent`,
# names of variables that the session has and the worker was not given; `outer`, see outer_calls(); `said`, R's last
# error when a forked worker began; `loaded`, the packages of which tell_loaded() has nothing to tell; `warn`, the
# option of that name as the session has it; `warned`, how many warnings were described that may become errors;
# `notes`, what packages_ready() had to say.
evaluator <- new.env(parent = emptyenv())

# Called as in lapply(): what sys.call() and substitute() show to FUN is the same here, and what it finds from where it
# is called. The names before `...` are such that no argument of the user's can be taken for one of them.
evaluate_lapply <- function(`*X*`, `*FUN*`, ...) {
  X <- `*X*`
  FUN <- `*FUN*`
  .rg_run(quote(FUN(X[[i]], ...)), 1L, environment())
}
environment(evaluate_lapply) <- caller_home

evaluate_run <- function(call, forced, env) {
  evaluator$depth <- sys.nframe()
  .Call(ffi_evaluator_run, call, forced, env)
}
assign(".rg_run", evaluate_run, envir = caller_home)

# Once in a worker, before the first element of a run and with the session's options.
evaluate_begin <- function(control, seed, muffle = c(message = TRUE, warning = TRUE), notes = NULL) {
  evaluator$control <- control
  evaluator$detailed <- 0L
  evaluator$record <- evaluator$like <- evaluator$outer <- NULL
  evaluator$told <- 0L
  evaluator$muffle <- muffle
  evaluator$notes <- notes
  evaluator$session <- FALSE
  evaluator$expressions <- getOption("expressions")
  evaluator$warn <- getOption("warn")
  evaluator$warned <- 0L
  .Call(ffi_evaluator_begin, list(
    seed, control$retries > 0, control$retry_seed == "new", control$max_conditions,
    length(notes) > 0L, control$memory
  ))
}

# Called from C before a value of a class is sent that no value before was of: the session is told of the methods in
# namespaces that were loaded meanwhile, once, and loads these where a value needs them.
tell_loaded <- function() {
  new <- setdiff(loadedNamespaces(), c(default_packages(), "regatta", evaluator$loaded))
  evaluator$loaded <- c(evaluator$loaded, new)
  homes <- homes_of_methods(new)
  if (length(homes$class) > 0L) {
    homes$paths <- package_libraries(unique(homes$package))
    .Call(ffi_evaluator_note, structure(
      list(message = "", call = NULL, homes = homes), class = c("regatta_loaded", "condition")
    ))
  }
}

# For a process that runs elements while it may be at an element already: the evaluator is as it was
# when `code` has been evaluated.
evaluate_nested <- function(code) {
  before <- as.list(evaluator, all.names = TRUE)
  .Call(ffi_evaluator_push)
  on.exit({
    .Call(ffi_evaluator_pop)
    rm(list = ls(evaluator, all.names = TRUE), envir = evaluator)
    list2env(before, envir = evaluator)
  })
  code
}

# `loop` runs elements until there are no more. After an element's error it is entered again, unless that leads nowhere:
# the error is then not the element's but that of what sees to it, and the next would be the same.
evaluate_all <- function(loop, messages_to = sink.number(type = "message")) {
  evaluator$messages_to <- messages_to
  done <- FALSE
  while (!done) {
    done <- tryCatch(
      withCallingHandlers(evaluate_on(loop), condition = handle_condition),
      error = handle_overflow
    )
    if (.Call(ffi_evaluator_is_stuck)) stop_stuck()
  }
}

stop_stuck <- function() {
  last <- evaluator$record
  why <- if (is.list(last)) message_of(last$cnd) else geterrmessage()
  stop("the worker cannot report how an element has ended: ", why, call. = FALSE)
}

# The handlers stay where they are when an element fails: they cost more than most elements.
evaluate_on <- function(loop) {
  step <- function() {
    evaluator$step <- environment()
    if (.Call(ffi_evaluator_is_stuck)) {
      return(TRUE)
    }
    send_kept()
    loop()
    TRUE
  }
  steps <- function() {
    while (!step()) next
    TRUE
  }
  if (evaluator$session) {
    return(steps())
  }
  # What R has of that name leaves the worker's loop as well.
  jumped <- function(...) {
    keep_jump()
    FALSE
  }
  while (!withRestarts(steps(), abort = jumped)) next
  TRUE
}

# Called from C when a worker crashes: the user's calls, innermost last; all where no element runs, as while a package is
# loaded.
crash_calls <- function() {
  calls <- as.list(sys.calls())
  last <- length(calls) - 1L
  of_element <- seq_len(last) > min(evaluator$depth, last)
  shown <- utils::tail(calls[if (any(of_element)) which(of_element) else seq_len(last)], 20L)
  vapply(shown, function(call) deparse(call, nlines = 1L)[[1L]], "")
}
