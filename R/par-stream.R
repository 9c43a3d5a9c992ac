# Results one by one, in the order of the elements, while later ones are being made. So many elements
# are begun ahead as their results have room in `ahead` bytes, going by those seen so far.

par_stream <- function(X, f, ..., ahead = "256MB", .on = getOption("regatta.on"),
                       .control = getOption("regatta.control", par_control())) {
  f <- check_function(f, "f")
  X <- as_elements(X)
  check_code(f)
  args <- further_arguments(...)
  check_dots(args, f, "f")
  force_around(f, list(args, X))
  stream_new(X, f, args, "par_stream", sys.call(), check_bytes(ahead, "ahead"), .on, .control, keyed_by(X, f, args))
}

# `verb` and `call` are those that the user has called; `keyed`: see driver-checkpoint.R.
stream_new <- function(X, f, args, verb, call, ahead, .on, .control, keyed = NULL) {
  n <- count_elements(X)
  .control <- check_control(.control, n, call = call)
  if (.control$errors == "finish") {
    abort_argument("errors", "finish", "\"stop\" or \"collect\": a stream is taken while it runs")
  }
  stream <- new.env(parent = emptyenv())
  stream$n <- n
  stream$taken <- 0
  stream$submitted <- 0
  stream$ahead <- ahead
  stream$largest <- 0
  if (stream$n > 0) {
    task <- list(
      verb = verb, call = call, n = n, names = names(bare_elements(X)),
      loop = map_loop(X, f, args),
      replay = list(X = X, FUN = f, args = args), keyed = keyed
    )
    with_calls({
      stream$run <- run_new(task, .on, .control)
      stream$submitted <- min(stream$n, stream$run$places)
      run_guard(stream$run, run_start(stream$run, seq_len(stream$submitted)))
    })
  }
  structure(list(stream = stream), class = "regatta_stream")
}

par_more <- function(stream) {
  stream <- check_stream(stream)
  stream$taken < stream$n
}

par_next <- function(stream) with_calls(stream_next(check_stream(stream), sys.call()))

stream_next <- function(stream, call) {
  if (isTRUE(stream$lost)) {
    run_lost(stream$run, call)
  }
  if (stream$taken >= stream$n) {
    stop(stream_is_over(stream), call. = FALSE)
  }
  run <- stream$run
  check_run_owner(run, "stream", call)
  check_not_driven(run, "par_next", call)
  index <- stream$taken + 1
  # Left by a jump, it is closed. There is more to take until somebody has been told that there is not.
  told <- isTRUE(run$closed)
  on.exit({
    run_close(run)
    if (told || !is.null(run$failure)) {
      stream$lost <- TRUE
      stream_end(stream)
    }
  })
  run_wait(run, {
    run_guard(run, {
      stream_refill(stream)
      run_drive(run, settled = function() run$status[[index]] != 0L)
    })
    if (run$stopping) {
      stream_end(stream)
      run_close(run)
    }
  })
  if (run$stopping) run_result(run)
  taken <- stream_take(stream, index)
  stream_refill(stream)
  on.exit(if (stream$taken >= stream$n) run_close(run))
  taken[[1L]]
}

# Without the results that have not been taken.
stream_end <- function(stream) {
  stream$ended <- stream$taken
  stream$taken <- stream$n
}

stream_is_over <- function(stream) {
  if (is.null(stream$ended)) {
    all <- if (stream$n == 1) "the one result" else sprintf("all %.0f results", stream$n)
    return(paste(all, if (stream$n == 1) "has" else "have", "been taken from the stream: ask `par_more()` first"))
  }
  sprintf("the stream was ended by a failure after %.0f of %.0f results: `par_last()` has it, and with %s %s",
    stream$ended, stream$n, "`par_control(errors = \"collect\")`", "a failed element is a result like others")
}

check_stream <- function(stream, call = rlang::caller_env()) {
  if (missing(stream) || !inherits(stream, "regatta_stream")) {
    abort_argument("stream", stream, "made by `par_stream()`", call)
  }
  stream$stream
}

# The value of a settled element, or with errors = "collect" its condition: in a list, since a value may be the empty
# symbol.
stream_take <- function(stream, index) {
  run <- stream$run
  failed <- if (!is.null(run$errors)) run$errors[[index]]
  taken <- if (is.null(failed)) run$values[index] else list(as_failed(failed))
  stream$largest <- max(stream$largest, as.double(utils::object.size(taken)) - list_of_one)
  tasks_set(run, "values", index, list(NULL))
  stream$taken <- index
  taken
}

list_of_one <- as.double(utils::object.size(list(NULL)))

# What waits and what is under way must have room, each counted as the largest result so far; the
# next element may always run.
stream_refill <- function(stream) {
  if (isTRUE(stream$run$closed)) {
    return(invisible())
  }
  room <- if (stream$largest > 0) floor(stream$ahead / stream$largest) else stream$run$places
  last <- min(stream$n, stream$taken + max(1, room))
  if (last > stream$submitted) {
    queue_submit(stream$run, seq(stream$submitted + 1, last))
    stream$submitted <- last
  }
}

format.regatta_stream <- function(x, ...) {
  stream <- x$stream
  taken <- if (is.null(stream$ended)) stream$taken else stream$ended
  owner <- if (stream$n > 0) run_owner(stream$run)
  sprintf("<par_stream> %.0f of %.0f results taken%s%s", taken, stream$n,
    stream_end_format(stream),
    if (is.null(owner)) "" else paste("; it belongs to", owner))
}

stream_end_format <- function(stream) {
  failure <- stream$run$failure
  cancelled <- is.null(failure) || inherits(failure, "regatta_error_lost")
  if (is.null(stream$ended) && !(isTRUE(stream$run$closed) && stream$taken < stream$n)) {
    ""
  } else if (cancelled && (is.null(stream$ended) || isTRUE(stream$lost))) {
    ", then cancelled"
  } else {
    ", then ended by a failure"
  }
}

print.regatta_stream <- function(x, ...) {
  writeLines(format(x, ...))
  invisible(x)
}
