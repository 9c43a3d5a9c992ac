# What happens around FUN for one element of mclapply(), in a worker or in the session.

# What every element needs to know. `scene` is the environment in which whoever evaluates the
# element keeps the number of the last frame that is not the user's.
mclapply_job <- function(X, FUN, settings) {
  in_workers <- settings$in_workers
  list(
    X = X, FUN = FUN, settings = settings, in_workers = in_workers,
    scene = evaluator, told = new_told(),
    handles = mclapply_handles(settings, in_workers),
    queue = settings$mc.prio.queue, affinity = settings$affinity.list,
    compress = if (in_workers) mclapply_compress_from(settings) else Inf
  )
}

# From which length on character vectors are compressed here, Inf: none. In shared memory they are
# distinct strings and an index by themselves.
mclapply_compress_from <- function(settings) {
  if (mclapply_share_from(settings) == mclapply_shm_min) {
    return(Inf)
  }
  compress <- settings$mc.compress.chars
  if (isTRUE(compress)) mclapply_compress_min else compress
}

# The last try that this worker has set the environment variable for, 0: none yet.
new_told <- function() {
  told <- new.env(parent = emptyenv())
  told$try <- 0L
  told
}

# Shorter character vectors are written as they are at less cost.
mclapply_compress_min <- 1000

# The names before `...` are such that no argument of the user's can be taken for one of them.
mclapply_element <- function(`*i*`, `*job*`, ...) {
  i <- `*i*`
  job <- `*job*`
  try <- mclapply_try(job)
  mclapply_begin(job, i, try)
  if (!job$in_workers) {
    retry <- Sys.getenv("BMC_RETRY", NA, names = TRUE)
    on.exit(restore_env(retry))
    Sys.setenv(BMC_RETRY = try - 1L)
  } else if (try != job$told$try) {
    Sys.setenv(BMC_RETRY = try - 1L)
    job$told$try <- try
  }
  if (!is.null(job$affinity)) {
    before <- parallel::mcaffinity()
    parallel::mcaffinity(job$affinity[[i]])
    on.exit(parallel::mcaffinity(before), add = TRUE)
  }
  if (!is.null(job$queue)) {
    prio_queue_insert(job$queue, job$settings$mc.priority[[i]])
    on.exit(prio_queue_release(job$queue), add = TRUE)
  }
  if (job$settings$mc.system.time) {
    start <- proc.time()
    on.exit(mclapply_time(proc.time() - start), add = TRUE)
  }
  # No variable: a value may be the empty symbol.
  if (is.finite(job$compress)) {
    mclapply_compress(mclapply_handled(i, job, ...), job)
  } else {
    mclapply_handled(i, job, ...)
  }
}

mclapply_handled <- function(`*i*`, `*job*`, ...) {
  job <- `*job*`
  if (!job$handles) {
    job$scene$depth <- sys.nframe() + 1L # below mclapply_call()
    return(mclapply_call(`*i*`, job, ...))
  }
  withCallingHandlers(
    {
      job$scene$depth <- frame_count() + 1L
      mclapply_call(`*i*`, job, ...)
    },
    warning = handle_mc_warning,
    message = handle_mc_message
  )
}

mclapply_call <- function(`*i*`, `*job*`, ...) {
  i <- `*i*`
  X <- `*job*`$X
  FUN <- `*job*`$FUN
  forceAndCall(1, FUN, X[[i]], ...)
}
environment(mclapply_call) <- caller_home

# Of the element that runs now, 1 for the first.
mclapply_try <- function(job) {
  if (!is.null(job$try)) {
    job$try
  } else if (job$settings$mc.retry == 0L) {
    1L
  } else {
    as.integer(Sys.getenv("REGATTA_TRY"))
  }
}

mclapply_time <- function(time) {
  note <- structure(
    list(message = "", call = NULL, time = time), class = c("regatta_note", "condition")
  )
  .Call(ffi_evaluator_note, note)
}

# Random numbers. bettermc gives every element a whole number as seed, drawn from the session's
# generator; so that scripts keep their numbers they are drawn in the same way.

# For all elements and the first try; those of later tries follow in the stream, and are drawn
# where they are needed. `state` is the generator after the first draw.
mclapply_seeds <- function(settings, n) {
  seed <- settings$mc.set.seed
  if (is.logical(seed) && !is.na(seed)) {
    return(if (isFALSE(seed)) list(state = globalenv()$.Random.seed))
  }
  if (is.null(globalenv()$.Random.seed)) {
    stats::runif(1L)
  }
  old <- globalenv()$.Random.seed
  # Only uniform numbers are drawn: a normal that R keeps for the session, see rng_use(), stays the next one, unless
  # set.seed() has thrown it away.
  on.exit(assign(".Random.seed", old, envir = globalenv()))
  if (!is.na(seed)) {
    set.seed(seed)
  }
  first <- draw_seeds(n)
  list(
    first = first, state = globalenv()$.Random.seed, later = new.env(parent = emptyenv())
  )
}

draw_seeds <- function(n) {
  most <- .Machine$integer.max
  round(stats::runif(n, -most, most))
}

mclapply_begin <- function(job, i, try) {
  seeds <- job$seeds
  if (is.null(seeds)) {
    return(NULL)
  }
  if (!is.null(seeds$first)) {
    # A promise, since the state of a Mersenne twister is long and most elements draw nothing.
    delayedAssign(".Random.seed", mclapply_state(job, i, try), environment(), globalenv())
  } else {
    fresh <- !exists(".Random.seed", globalenv(), inherits = FALSE)
    if (fresh || !job$settings$mc.preschedule) {
      rng_use(seeds$state)
    }
  }
}

# The element before may have chosen another kind of generator.
mclapply_state <- function(job, i, try) {
  rng_use(job$seeds$state)
  set.seed(if (try == 1L) job$seeds$first[[i]] else mclapply_seed(job, i, try))
  globalenv()$.Random.seed
}

# Of a further try.
mclapply_seed <- function(job, i, try) {
  seeds <- job$seeds
  if (job$settings$mc.retry.fixed.seed) {
    return(seeds$first[[i]])
  }
  key <- as.character(try)
  if (is.null(seeds$later[[key]])) {
    rng_use(seeds$state)
    for (k in seq(2L, try)) {
      seeds$later[[as.character(k)]] <- draw_seeds(length(seeds$first))
    }
  }
  seeds$later[[key]][[i]]
}

# Whether warnings or messages are not just to be signalled again in the parent.
mclapply_handles <- function(settings, in_workers) {
  needs <- function(mode) grepl("output|stop", mode) || (in_workers && !startsWith(mode, "m_"))
  needs(settings$mc.warnings) || needs(settings$mc.messages)
}

# The variables of the mclapply_element() within which a handler is called. The handlers are not
# made by it, since user_frames() knows functions of the package only by where they are.
mclapply_active <- function() {
  for (k in rev(seq_len(sys.nframe()))) {
    if (identical(sys.function(k), mclapply_element)) {
      return(sys.frame(k))
    }
  }
}

handle_mc_warning <- function(w) {
  active <- mclapply_active()
  job <- active$job
  mode <- job$settings$mc.warnings
  if (mode == "stop") {
    w$message <- paste("(converted from warning)", w$message)
    class(w) <- c("simpleError", "error", "condition")
    stop(w)
  }
  if (takes_warnings()) {
    return(invisible())
  }
  show_as_output(job, active$i, w, mode)
  if (!startsWith(mode, "m_")) {
    # The worker muffles every warning: what R would have done with it is done here.
    if (job$in_workers && getOption("warn") >= 2) {
      stop(warning_as_error(w))
    } else if (job$in_workers && getOption("warn") == 1) {
      writeLines(paste("Warning:", conditionMessage(w)), stderr())
    }
  } else if (grepl("output", mode)) {
    tryInvokeRestart("muffleWarning")
  }
}

handle_mc_message <- function(m) {
  if (takes_messages()) {
    return(invisible())
  }
  active <- mclapply_active()
  job <- active$job
  mode <- job$settings$mc.messages
  show_as_output(job, active$i, m, mode)
  if (!startsWith(mode, "m_")) {
    if (job$in_workers) cat(conditionMessage(m), file = stderr())
  } else if (grepl("output", mode)) {
    tryInvokeRestart("muffleMessage")
  }
}

# What a worker writes to stderr gets its prefix from the relay.
show_as_output <- function(job, i, cnd, mode) {
  if (grepl("output", mode)) {
    lines <- utils::capture.output(print(cnd))
    prefix <- if (!job$in_workers) sprintf("%d/%.0f: ", mclapply_try(job) - 1L, i)
    writeLines(paste0(prefix, lines), stderr())
  }
}

# Character vectors as an index of their distinct strings, where that makes them smaller.
mclapply_compress <- function(value, job) {
  altreps <- job$settings$mc.compress.altreps
  if (is_empty_argument(value)) {
    return(quote(expr = ))
  }
  .Call(ffi_compress_chars, value, job$compress, altreps, "regatta_internal_map", 0.6)
}
