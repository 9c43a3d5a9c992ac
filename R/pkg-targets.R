# Package targets: a controller for tar_option_set(controller = ). targets asks it by the names that controllers of
# package crew have and looks at no class; what it asks for is in the file class_crew.R of targets. A task is a call in
# the background, see R/par-call.R. Workers are none that were forked from the session: targets calls nanonext in both,
# and a forked process has not the threads of nanonext that its code waits for.

crew_controller_regatta <- function(name = "regatta", .on = getOption("regatta.on"),
                                    .control = getOption("regatta.control", par_control())) {
  call <- sys.call()
  check_string(name, "name")
  place <- where_to_run(.on, check_control(.control, 1, call = call), call, inherit = TRUE)
  # An error is told with its task, and targets has seeds and a report of its own.
  place$control$errors <- "stop"
  place$control[c("seed", "progress")] <- FALSE
  state <- new.env(parent = emptyenv())
  state$place <- place
  state$own <- is.null(place$on) # has a cluster of its own, from the first task to terminate()
  state$name <- name
  state$workers <- where_workers(place)
  state$waiting <- state$running <- state$over <- list()
  state$backlog <- character()
  state$seconds <- state$tasks <- 0
  structure(list2env(controller_methods(state)), class = "regatta_controller")
}

# `...` takes what has no meaning here: which controller of a group, and how often to look for workers.
controller_methods <- function(state) {
  list(
    validate = function(...) invisible(),
    start = function(...) invisible(),
    started = function(...) TRUE,
    push = function(command, data = list(), globals = list(), substitute = TRUE, name = NULL,
                    seconds_timeout = NULL, ...) {
      if (substitute) command <- substitute(command)
      controller_push(state, name, command, data, globals, seconds_timeout)
    },
    saturated = function(...) length(state$running) + length(state$waiting) >= state$workers,
    push_backlog = function(name, ...) state$backlog <- c(state$backlog, name),
    pop_backlog = function(...) controller_pop_backlog(state),
    wait = function(mode = "all", seconds_timeout = Inf, ...) controller_wait(state, mode, seconds_timeout),
    pop = function(...) controller_pop(state),
    empty = function(...) {
      length(state$running) + length(state$waiting) + length(state$over) + length(state$backlog) == 0L
    },
    summary = function(...) {
      data.frame(controller = state$name, tasks = as.integer(state$tasks), seconds = state$seconds)
    },
    terminate = function(...) controller_end(state)
  )
}

controller_push <- function(state, name, command, data, globals, timeout) {
  frame <- list2env(
    list(command = command, data = data, globals = globals, evaluate = controller_evaluate), parent = baseenv()
  )
  if (is.null(name)) name <- sprintf("task-%.0f", state$tasks + 1)
  state$tasks <- state$tasks + 1
  state$waiting <- c(state$waiting, list(list(name = name, frame = frame, timeout = timeout)))
  controller_begin(state)
  invisible()
}

# In the worker. `data` is where the command is evaluated, `globals` are of the workspace meanwhile.
controller_evaluate <- function(command, data, globals) {
  with_variables(globals, eval(command, list2env(as.list(data), parent = globalenv())))
}

# Tasks that wait, as many as there are workers for.
controller_begin <- function(state) {
  while (length(state$waiting) > 0L && length(state$running) < state$workers) {
    task <- state$waiting[[1L]]
    state$waiting <- state$waiting[-1L]
    control <- state$place$control
    if (!is.null(task$timeout)) control$timeout <- task$timeout
    if (is.null(state$place$on)) state$place$on <- stand_cluster(state$workers, character(), quote(push()))
    task$begun <- .Call(ffi_clock)
    task$handle <- call_begin(
      quote(evaluate(command, data, globals)), task$frame, state$place$on, control, quote(push()),
      beside = state$workers
    )
    state$running <- c(state$running, list(task))
  }
}

# Takes those that are done, and begins others in their place. Whether any was.
controller_look <- function(state) {
  # Why it cannot be asked is told with its value.
  done <- vapply(state$running, function(task) tryCatch(par_done(task$handle), regatta_error = function(e) TRUE), NA)
  ended <- state$running[done]
  state$running <- state$running[!done]
  state$over <- c(state$over, lapply(ended, controller_result, state))
  controller_begin(state)
  any(done)
}

# One row, as pop() of crew has it; `result` is a list.
controller_result <- function(task, state) {
  value <- tryCatch(list(par_value(task$handle)), regatta_error = identity)
  failed <- inherits(value, "condition")
  seconds <- .Call(ffi_clock) - task$begun
  state$seconds <- state$seconds + seconds
  error <- if (failed) conditionMessage(with_unit(value, paste("task", task$name))) else NA_character_
  row <- list(
    name = task$name, result = if (failed) list(NA) else value, status = if (failed) "error" else "success",
    error = error, seconds = seconds, controller = state$name
  )
  structure(row, class = "data.frame", row.names = 1L)
}

# Until a task is over that nobody has taken ("one"), or all are. TRUE unless the time was over before.
controller_wait <- function(state, mode, timeout) {
  begun <- .Call(ffi_clock)
  repeat {
    controller_look(state)
    left <- length(state$running) + length(state$waiting)
    if (left == 0L || (mode == "one" && length(state$over) > 0L)) {
      return(invisible(left == 0L || mode == "one"))
    }
    waited <- .Call(ffi_clock) - begun
    if (waited >= timeout) {
      return(invisible(FALSE))
    }
    Sys.sleep(min(poll_pause(waited), timeout - waited))
  }
}

controller_pop <- function(state) {
  if (length(state$over) == 0L) controller_look(state)
  if (length(state$over) == 0L) {
    return(NULL)
  }
  row <- state$over[[1L]]
  state$over <- state$over[-1L]
  row
}

# Names of those that were put off, as many as there is room for.
controller_pop_backlog <- function(state) {
  controller_look(state)
  room <- max(0L, state$workers - length(state$running) - length(state$waiting))
  names <- utils::head(state$backlog, room)
  state$backlog <- utils::tail(state$backlog, length(state$backlog) - length(names))
  names
}

controller_end <- function(state) {
  for (task in state$running) run_close(task$handle$run)
  state$waiting <- state$running <- state$over <- list()
  state$backlog <- character()
  if (state$own && !is.null(state$place$on)) stopCluster.regatta_cluster(state$place$on)
  if (state$own) state$place["on"] <- list(NULL)
  invisible()
}

print.regatta_controller <- function(x, ...) {
  state <- environment(x$pop)$state
  cat(sprintf("<controller %s: %d workers, %d tasks running>\n", state$name, state$workers, length(state$running)))
  invisible(x)
}
