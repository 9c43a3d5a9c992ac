# What code finds beside its arguments, as it is when a run begins. A worker that is forked later inherits a
# session that has gone on: it puts this back in its own copy before it begins. It is variables, options and the
# folder, not what is in environments that variables refer to.

# The frames that the code of a run can see: those of its functions, and of the functions that are held there. `codes`:
# functions, and whatever else, of which nothing is known.
frames_of <- function(codes, env = NULL) {
  frames <- list(globalenv())
  visit <- function(frame) {
    while (!is_lasting(frame) && is.na(which_env(frames, frame))) {
      frames <<- c(frames, frame)
      lapply(functions_held(frame), visit_function)
      frame <- parent.env(frame)
    }
  }
  visit_function <- function(code) if (is.function(code) && !is.primitive(code)) visit(environment(code))
  if (!is.null(env)) visit(env)
  lapply(codes, visit_function)
  frames
}

# Functions among the variables of a frame, and in lists there.
functions_held <- function(frame) {
  taken <- .Call(ffi_variables_take, frame, frame_names(frame))
  found <- lapply(taken[[2L]], functions_in)
  .Call(ffi_variables_drop, taken)
  unlist(found)
}

# A function, those of a list, or none.
functions_in <- function(value) {
  if (is.function(value)) value else if (is.list(value) && !is.object(value)) Filter(is.function, value)
}

frames_take <- function(frames) {
  lapply(frames, function(frame) {
    names <- frame_names(frame)
    list(frame = frame, names = names, taken = .Call(ffi_variables_take, frame, names))
  })
}

frames_put <- function(snapshot) {
  for (of in snapshot) {
    if (!environmentIsLocked(of$frame)) {
      rm(list = setdiff(frame_names(of$frame), of$names), envir = of$frame)
    }
    .Call(ffi_variables_put, of$frame, of$names, of$taken)
  }
}

frames_drop <- function(snapshot) {
  for (of in snapshot) .Call(ffi_variables_drop, of$taken)
}

session_take <- function(replay) {
  codes <- c(list(replay$FUN), replay$args)
  list(frames = frames_take(frames_of(codes, replay$env)), options = options_take(), folder = getwd())
}

session_put <- function(session) {
  frames_put(session$frames)
  set_options(changes(options_take(), session$options))
  if (!is.null(session$folder) && !identical(getwd(), session$folder)) enter_directory(session$folder)
}

session_drop <- function(session) frames_drop(session$frames)
