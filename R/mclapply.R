# mclapply() with the arguments, values and conditions of the functions of that name in parallel and
# bettermc: a translation to the settings and the driver of the other verbs. What each argument
# becomes is in docs/BETTERMC.md.

mclapply <- function(X, FUN, ...,
                     mc.preschedule = TRUE,
                     mc.set.seed = NA,
                     mc.silent = FALSE,
                     mc.cores = getOption("mc.cores", 2L),
                     mc.cleanup = TRUE,
                     mc.allow.recursive = TRUE,
                     affinity.list = NULL,
                     mc.use.names = TRUE,
                     mc.allow.fatal = FALSE,
                     mc.allow.error = FALSE,
                     mc.retry = 0L,
                     mc.retry.silent = FALSE,
                     mc.retry.fixed.seed = FALSE,
                     mc.fail.early = isFALSE(mc.allow.error) && mc.retry == 0L,
                     mc.dump.frames = c("partial", "full", "full_global", "no"),
                     mc.dumpto = ifelse(interactive(), "last.dump", "file://last.dump.rds"),
                     mc.stdout = c("capture", "output", "ignore"),
                     mc.warnings = c("m_signal", "signal", "m_output", "output", "m_ignore",
                                     "ignore", "stop"),
                     mc.messages = c("m_signal", "signal", "m_output", "output", "m_ignore",
                                     "ignore"),
                     mc.conditions = c("signal", "ignore"),
                     mc.system.time = FALSE,
                     mc.timeout.elapsed = Inf,
                     mc.timeout.cpu = Inf,
                     mc.timeout.signal = c("SIGTERM", "SIGKILL", "SIGABRT", "SIGINT"),
                     mc.prio.queue = NULL,
                     mc.priority = 1L,
                     mc.compress.chars = TRUE,
                     mc.compress.altreps = c("if_allocated", "yes", "no"),
                     mc.share.vectors = getOption("bettermc.use_shm", TRUE),
                     mc.share.altreps = c("no", "yes", "if_allocated"),
                     mc.share.copy = TRUE,
                     mc.shm.ipc = getOption("bettermc.use_shm", TRUE),
                     mc.force.fork = FALSE,
                     mc.gc.reset.triggers = FALSE,
                     mc.progress = interactive()) {
  call <- sys.call()
  FUN <- check_function(FUN, "FUN")
  X <- as_elements(X, isTRUE(mc.use.names))
  force_around(FUN, list(X))
  check_retry(mc.retry, call) # before the default of mc.fail.early looks at it
  if (missing(mc.cores)) {
    mc.cores <- mclapply_cores()
  }
  given <- mget(mclapply_arguments(), envir = environment())
  job <- mclapply_job(X, FUN, mclapply_settings(given, count_elements(X), call))
  # Here, so that `...` stays what it is: promises that only an element forces.
  mclapply_run(job, call,
    begin = function(job) evaluate_lapply(seq_len(count_elements(X)), mclapply_element, job, ...),
    one = function(i, job) mclapply_element(i, job, ...)
  )
}

# Results and dumps of calls that have failed, under the names given as mc.dumpto.
crash_dumps <- new.env(parent = emptyenv())

# Names of the arguments that are settings.
mclapply_arguments <- function() {
  setdiff(names(formals(mclapply)), c("X", "FUN", "..."))
}

# As the option `mc.cores` if that is set; parallel takes MC_CORES when it is loaded.
mclapply_cores <- function() {
  from_env <- suppressWarnings(as.integer(Sys.getenv("MC_CORES")))
  getOption("mc.cores", if (is.na(from_env)) 2L else from_env)
}

# For the relatives: `given` has some of the settings, and FUN is called with the element and the
# scene of mclapply_job().
mclapply_over <- function(X, FUN, given, call) {
  if (!is.null(given$mc.retry)) {
    check_retry(given$mc.retry, call)
  }
  if (!"mc.cores" %in% names(given)) {
    given$mc.cores <- mclapply_cores()
  }
  rest <- formals(mclapply)[mclapply_arguments()]
  gather <- as.function(c(rest, quote(environment())), envir = topenv())
  given <- mget(mclapply_arguments(), envir = do.call(gather, given))
  job <- mclapply_job(X, FUN, mclapply_settings(given, count_elements(X), call))
  mclapply_run(job, call,
    begin = function(job) evaluate_lapply(seq_len(count_elements(X)), mclapply_element, job, job$scene),
    one = function(i, job) mclapply_element(i, job, job$scene)
  )
}

# `begin` runs elements in a worker until there are no more, `one` runs an element here.
mclapply_run <- function(job, call, begin, one) {
  settings <- job$settings
  n <- count_elements(job$X)
  if (n == 0L) {
    return(stats::setNames(list(), names(bare_elements(job$X))))
  }
  if (settings$mc.gc.reset.triggers) {
    gc_reset_triggers(print_stats = FALSE, reset = FALSE)
  }
  notes <- mclapply_notes(n)
  job$seeds <- mclapply_seeds(settings, n)
  task <- mclapply_task(job, call, begin, one, notes)
  on <- if (!job$in_workers) mclapply_session(job, one)
  with_calls(mclapply_result(
    run_through(task, on, mclapply_control(settings, n, job$in_workers)), job, notes, call
  ))
}

# The record of the run keeps these functions, and with them the variables of this call: the values
# must not be among them.
mclapply_task <- function(job, call, begin, one, notes) {
  n <- count_elements(job$X)
  list(
    verb = "mclapply", call = call, n = n, names = names(bare_elements(job$X)),
    loop = function() begin(job),
    replay = list(X = seq_len(n), FUN = mclapply_replay(job, one, notes), args = list()),
    prefix = function(run, index) sprintf("%d/%.0f: ", notes$retries[index], index),
    stop_on = "error",
    on_retry = function(run, index, kind, cnd, event) {
      mclapply_retry(run, job, notes, index, kind, cnd)
    },
    on_note = function(index, note) notes$times[[index]] <- note$time,
    limit_signal = job$settings$mc.timeout.signal,
    inherit = TRUE
  )
}

# What is learned of the elements while they run: how often each was tried again, the times of its
# last try, and of which tries a failure has been told.
mclapply_notes <- function(n) {
  notes <- new.env(parent = emptyenv())
  notes$retries <- integer(n)
  notes$times <- vector("list", n)
  notes$told <- character()
  notes
}

mclapply_session <- function(job, one) {
  settings <- job$settings
  muffle <- function(mode) startsWith(mode, "m_")
  structure(
    list(
      element = function(i) one(i, job),
      muffle = c(warning = muffle(settings$mc.warnings), message = muffle(settings$mc.messages))
    ),
    class = "regatta_session"
  )
}

# Before an element is tried again: fewer workers if so asked, and a word about the failure, which
# nobody would see otherwise; one word for the first error and one for the first death of a try.
mclapply_retry <- function(run, job, notes, index, kind, cnd) {
  retry <- notes$retries[[index]]
  notes$retries[[index]] <- retry + 1L
  notes$times[index] <- list(NULL)
  most <- job$settings$workers[[retry + 2L]]
  if (most < run$active) {
    queue_limit(run, most)
  }
  fatal <- mclapply_is_fatal(cnd, job)
  key <- paste(retry, fatal)
  if (!job$settings$mc.retry.silent && !key %in% notes$told) {
    notes$told <- c(notes$told, key)
    message(sprintf(
      "%d: the first %s of this try, which is made again: %s", retry,
      if (fatal) "death" else "error", conditionMessage(in_mc_words(cnd))
    ))
  }
}

# par_replay() runs the element in the session, with the numbers of its last try and no handlers
# between the element and the user.
mclapply_replay <- function(job, one, notes) {
  job$in_workers <- FALSE
  job$scene <- new.env()
  job$handles <- FALSE
  job$queue <- NULL
  job$settings$mc.system.time <- FALSE
  job$compress <- Inf
  function(i) {
    job$try <- notes$retries[[i]] + 1L
    one(i, job)
  }
}
