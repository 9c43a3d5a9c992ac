# Forked workers: they have everything the session has, so nothing is sent to them; they take
# elements from a queue in shared memory and leave results in it.

executor_fork <- function(plan) {
  pool <- fork_pool_new(plan)
  session <- NULL # as it is when the first workers are forked
  executor <- fork_pool_executor(
    pool, "fork",
    begin = function(workers, places) {
      if (is.null(session)) loop_compile(plan$loop)
      plan$session <- session
      if (is.null(session)) session <<- session_take(plan$replay)
      fork_workers(pool, workers, places, plan)
    },
    look = function(timeout) .Call(ffi_fork_poll, pool, timeout)
  )
  end <- executor$stop
  executor$stop <- function() {
    ended <- end()
    if (!is.null(session)) session_drop(session)
    ended
  }
  executor
}

# An executor on a pool, however its workers are born: `begin` returns events of who has joined and who
# has not, `look` those of the pool.
fork_pool_executor <- function(pool, kind, begin, look) {
  force(begin)
  force(look)
  pids <- integer() # by worker
  news <- list() # events that are not from the pool
  list(
    kind = kind,
    start = function(workers, places) {
      for (event in begin(workers, places)) {
        if (event$type == "joined") pids[[event$worker]] <<- event$pid
        news[[length(news) + 1L]] <<- event
      }
    },
    poll = function(timeout) {
      if (length(news) == 0L) {
        return(look(timeout))
      }
      events <- news
      news <<- list()
      events
    },
    submit = function(elements, tries, first) {
      .Call(ffi_fork_pool_submit, pool, as.double(elements), tries, first)
    },
    withdraw = function(first) .Call(ffi_fork_pool_withdraw, pool, first),
    limit = function(places) .Call(ffi_fork_pool_limit, pool, as.integer(places)),
    hold = function(places) .Call(ffi_fork_pool_hold, pool, as.integer(places)),
    available = available_here,
    running = function() .Call(ffi_fork_pool_running, pool),
    interrupt = function(worker, element) .Call(ffi_fork_pool_interrupt, pool, worker, element),
    signal = function(worker, number) .Call(ffi_fork_pool_signal, pool, worker, number),
    measure = function(worker, what) measure_here(pids[[worker]], what),
    pid = function(worker) pids[[worker]],
    guard = function(code) .Call(ffi_fork_pool_guard, pool, quote(code), environment()),
    stop = function() .Call(ffi_fork_pool_stop, pool)
  )
}

# `stand`: workers that stand ready and take part in the run; NULL: workers are forked for it.
fork_pool_new <- function(plan, stand = NULL) {
  pool <- .Call(ffi_fork_pool_create, as.double(plan$n), as.integer(plan$workers), list(
    as.double(if (is.null(plan$control$batch)) 0 else plan$control$batch),
    if (plan$control$shm) as.double(plan$control$shm_min) else Inf,
    copy_code(plan$control),
    plan$control$stdout != "drop", plan$control$stderr != "drop",
    shm_limit(), shm_keep(), is.finite(plan$control$cpu_timeout), stand, isFALSE(plan$attended),
    plan$control$retries > 0, if (is.null(plan$verb)) "" else plan$verb, budget_of(plan)
  ))
  if (is.integer(pool)) {
    signal_error(error_start(plan$workers, .Call(ffi_system_message, pool)))
  }
  pool
}

# rg_copy of src/shm-view.h.
copy_code <- function(control) {
  if (!control$copy) 0L else if (isTRUE(control$lazy_strings)) 1L else 2L
}

# Events: who has joined, and who not. After one that could not be forked no other is tried.
fork_workers <- function(pool, workers, places, plan) {
  warn_fork_hazard()
  load_worker_code()
  h5_load_for(plan$replay)
  the$plan <- c(plan, list(inherited = inherited_look()))
  on.exit(the$plan <- NULL)
  got <- .Call(
    ffi_fork_workers_spawn, pool, as.integer(places), as.integer(workers), quote(fork_worker_main()), topenv()
  )
  started <- length(got$pid)
  lapply(seq_along(workers), function(k) {
    if (k <= started) {
      event_joined(workers[[k]], got$pid[[k]], time = got$time[[k]])
    } else {
      event_not_started(workers[[k]], .Call(ffi_system_message, got$errno))
    }
  })
}

# R compiles a function of the workspace when it is called again. Each worker would, at its second element and for
# every map. One that is mapped again is compiled here, once, unless R would not: of functions that call browser()
# the compiler itself gives back what it was given.
loop_compile <- function(loop) {
  env <- environment(loop)
  fun <- env$FUN
  if (!is_closure(fun) || !identical(environment(fun), globalenv())) {
    return(invisible())
  }
  if (!identical(fun, the$mapped$fun, ignore.srcref = FALSE)) {
    the$mapped <- list(fun = fun)
  } else {
    if (is.null(the$mapped$compiled)) the$mapped$compiled <- compile(fun)
    if (!isdebugged(fun)) env$FUN <- the$mapped$compiled
  }
}

compile <- function(fun) {
  if (compiler::enableJIT(-1L) < 1L) {
    return(fun)
  }
  or_else(compiler::cmpfun(fun, list(suppressAll = TRUE)), fun)
}

# Functions of a package are read from its file when they are first used. Those that a worker needs are
# read before the fork: once, and not by every worker. Those that send conditions and those that describe errors are
# many more than those that run elements, and are read when a worker has sent the first one.
code_of_conditions <- c(
  "is_only_signalled", "is_stopped", "as_error", "leave_signal", "muffle_warning", "signalled_as", "takes_warnings",
  "takes_messages", "handle_warning", "send_condition"
)
code_of_errors <- c(
  "handle_error", "handle_interrupt", "keep_jump", "keep_unwound", "with_message", "handler_frames", "warning_record"
)

# For zzz.R: looked up when the package is built, and not by every session.
code_of_workers <- function() {
  workers <- called_code(
    c("fork_worker_main", "evaluate_lapply", "evaluate_run"), without = c(code_of_conditions, code_of_errors)
  )
  conditions <- called_code(code_of_conditions, without = c(code_of_errors, workers$own))
  errors <- called_code(code_of_errors, without = c(workers$own, conditions$own))
  members <- called_code("member_main", without = c(workers$own, conditions$own, errors$own))
  list(workers = workers, conditions = conditions, errors = errors, members = members)
}

# The names of these functions and of all that they call by name, in this package and in base, but for those `without`.
called_code <- function(names, without = character()) {
  code <- list(own = character(), base = character())
  while (length(names) > 0L) {
    code$own <- c(code$own, names)
    functions <- Filter(is.function, mget(names, envir = topenv()))
    called <- unique(unlist(lapply(functions, function(f) all.names(body(f), unique = TRUE))))
    own <- vapply(called, exists, NA, envir = topenv(), inherits = FALSE)
    base <- vapply(called, exists, NA, envir = baseenv(), mode = "function", inherits = FALSE)
    code$base <- union(code$base, called[!own & base])
    names <- setdiff(called[own], c(code$own, without))
  }
  code
}

load_worker_code <- function() load_code("workers")

# Where no worker has been forked none needs these.
load_condition_code <- function() {
  if (length(the$code_loaded) > 0L) load_code("conditions")
}

load_error_code <- function() {
  if (length(the$code_loaded) > 0L && !"errors" %in% the$code_loaded) {
    load_code("conditions")
    load_code("errors")
    # It tells promises from other variables of a frame. Workers of later calls have it from here.
    or_else(loadNamespace("rlang"), NULL)
  }
}

load_code <- function(kind) {
  if (kind %in% the$code_loaded) {
    return(invisible())
  }
  the$code_loaded <- c(the$code_loaded, kind)
  mget(the$code[[kind]]$own, envir = topenv())
  mget(the$code[[kind]]$base, envir = baseenv(), ifnotfound = list(NULL))
}

# Workers of a server also take their part in runs by themselves.
load_member_code <- function() {
  load_worker_code()
  load_code("members")
}

# A call whose workers must inherit the session, as those of package parallel do, has no other way.
warn_fork_hazard <- function() {
  host <- fork_host()
  if (!is.null(host) && !the$fork_warned) {
    the$fork_warned <- TRUE
    warning(warning_fork(host))
  }
}

# What a worker has of its session and must know or drop: looked at before the fork, once and not by every worker.
inherited_look <- function() {
  list(
    said = geterrmessage(), loaded = loadedNamespaces(), sinks = sink.number(),
    messages_to = sink.number(type = "message"), devices = any(unlist(.Devices)[-1L] != "")
  )
}

fork_worker_main <- function() {
  plan <- the$plan
  evaluator$said <- plan$inherited$said
  evaluator$loaded <- plan$inherited$loaded
  fork_worker_prepare(plan)
  evaluate_begin(plan$control, plan$seed)
  evaluate_all(plan$loop, messages_to = 2L)
  .Call(ffi_fork_worker_exit, 0L)
}

# R has left all frames of the element: the C stack has `overflowed`, which R has written, or code has jumped.
fork_worker_jumped <- function(overflowed) {
  plan <- the$plan
  if (overflowed) {
    cnd <- simpleError(paste(
      "segfault from C stack overflow: compiled code that the element has called recurses too deeply",
      "(R code that does is told before)"
    ))
    keep_error(cnd, list(calls = list(), frames = list()), interrupted = FALSE)
  } else {
    keep_jump()
  }
  evaluate_all(plan$loop)
  .Call(ffi_fork_worker_exit, 0L)
}

# R has written what the error was; none, if code has jumped before any element.
fork_worker_failed <- function() {
  last <- geterrmessage()
  if (!identical(last, evaluator$said)) .Call(ffi_fork_worker_tell, trimws(last))
}

fork_worker_prepare <- function(plan) {
  if (!is.null(plan$session)) session_put(plan$session)
  fork_worker_isolate(plan$inherited)
  fork_worker_share(plan)
}

# The child is a copy of another process: what would reach out of it is cut off here.
fork_worker_isolate <- function(inherited = inherited_look()) {
  for (k in seq_len(inherited$sinks)) sink()
  if (inherited$messages_to != 2L) sink(type = "message")
  options(error = NULL, device = null_device)
  forget_session_defaults()
  if (inherited$devices) leave_devices()
  .Call(ffi_fork_worker_mask, list(quit = leave_worker, q = leave_worker, stdin = null_stdin, browser = no_browser))
}

# What a run gives to a worker beside its code: a generator of its own, unless elements are seeded,
# and so many cores.
fork_worker_share <- function(plan) {
  if (is.null(plan$seed)) {
    rng_use(NULL)
  }
  Sys.setenv(REGATTA_SHARE = plan$share)
  threads_share(worker_threads(plan))
}

# The session's cluster cannot be used from here, and of its settings some are not meant for each worker.
forget_session_defaults <- function() {
  before <- options("regatta.on", "regatta.control", "regatta.dump_file")
  if (!all(vapply(before, is.null, NA))) {
    options(regatta.on = NULL, regatta.control = control_within(before$regatta.control), regatta.dump_file = NULL)
  }
}

null_device <- function(...) grDevices::pdf(NULL)

# Plots go to a device that writes nowhere. One that the parent has open may become the current one
# again, by dev.off(): what it writes then must not reach the parent's file.
leave_devices <- function() {
  paths <- unlist(lapply(.Devices, attr, "filepath"))
  .Call(ffi_fork_worker_silence, normalizePath(as.character(paths), mustWork = FALSE))
  null_device()
}

# As values of elements these may come to the session, and are what they stand for there.
is_worker <- function() identical(base::quit, leave_worker)

no_browser <- function(...) {
  if (!is_worker()) {
    return(eval(as.call(list(base::browser, ...)), parent.frame()))
  }
  stop("browser() cannot be used in a worker, which has no terminal: see par_replay()")
}

# quit() would remove the session's temporary files, close its devices and run `.Last`.
leave_worker <- function(save = "default", status = 0, runLast = TRUE) {
  if (!is_worker()) {
    return(base::quit(save, status, runLast))
  }
  .Call(ffi_fork_worker_exit, as.integer(status))
}

# The console's buffer may hold the rest of the parent's script. One connection for all calls: packages ask for
# it often, and R tells of each that nobody has closed. Its number may be that of another by now.
null_stdin <- function() {
  if (!is_worker()) {
    return(base::stdin())
  }
  kept <- the$null_stdin
  number <- as.integer(kept)
  there <- !is.null(kept) && number %in% getAllConnections() &&
    identical(attr(getConnection(number), "conn_id"), attr(kept, "conn_id"))
  if (!there) the$null_stdin <- file("/dev/null", open = "r")
  the$null_stdin
}
