# The arguments of mclapply(), checked and put into the words of par_control().

check_retry <- function(x, call) {
  if (!is_whole(x) || abs(x) >= .Machine$integer.max) {
    abort_argument("mc.retry", x, "a whole number; below 0 also lowers `mc.cores`", call = call)
  }
  as.integer(x)
}

# A flag that may also be NA, or NULL.
check_flag_or_na <- function(x, argument, null = FALSE, call = rlang::caller_env()) {
  if (null && is.null(x)) {
    return(NULL)
  }
  if (!is.logical(x) || length(x) != 1L) {
    must <- if (null) "`TRUE`, `FALSE`, `NA` or `NULL`" else "`TRUE`, `FALSE` or `NA`"
    abort_argument(argument, x, must, call = call)
  }
  as.vector(x)
}

mclapply_settings <- function(given, n, call) {
  flags <- c(
    "mc.preschedule", "mc.silent", "mc.allow.recursive", "mc.use.names", "mc.retry.silent",
    "mc.retry.fixed.seed", "mc.fail.early", "mc.system.time", "mc.share.copy", "mc.shm.ipc",
    "mc.force.fork", "mc.gc.reset.triggers", "mc.progress"
  )
  given[flags] <- lapply(flags, function(name) check_flag(given[[name]], name, call = call))
  choices <- c(
    "mc.dump.frames", "mc.stdout", "mc.warnings", "mc.messages", "mc.conditions",
    "mc.compress.altreps", "mc.share.altreps"
  )
  given[choices] <- lapply(choices, function(name) {
    check_choice(given[[name]], name, eval(formals(mclapply)[[name]]), call = call)
  })
  given["mc.allow.fatal"] <- list(
    check_flag_or_na(given$mc.allow.fatal, "mc.allow.fatal", null = TRUE, call = call)
  )
  given$mc.allow.error <- check_flag_or_na(given$mc.allow.error, "mc.allow.error", call = call)
  given$mc.retry <- check_retry(given$mc.retry, call)
  given$mc.set.seed <- check_mclapply_seed(given$mc.set.seed, call)
  given$mc.dumpto <- check_dumpto(given$mc.dumpto, call)
  check_cleanup(given$mc.cleanup, call)
  given$mc.compress.chars <- check_length_from(given$mc.compress.chars, "mc.compress.chars", call)
  given$mc.share.vectors <- check_length_from(given$mc.share.vectors, "mc.share.vectors", call)
  given$mc.timeout.elapsed <- check_seconds(given$mc.timeout.elapsed, "mc.timeout.elapsed", call = call)
  given$mc.timeout.cpu <- check_seconds(given$mc.timeout.cpu, "mc.timeout.cpu", call = call)
  given$mc.timeout.signal <- check_signal(given$mc.timeout.signal, call)
  given <- check_affinity(given, n, call)
  given <- check_priorities(given, n, call)
  mclapply_workers(given, n, call)
}

check_mclapply_seed <- function(x, call) {
  if (is.logical(x) && length(x) == 1L) {
    return(as.vector(x))
  }
  if (!is_whole(x) || abs(x) > .Machine$integer.max) {
    must <- "`NA`, `TRUE`, `FALSE` or a whole number"
    abort_argument("mc.set.seed", x, must, call = call)
  }
  as.integer(x)
}

check_dumpto <- function(x, call) {
  x <- check_string(x, "mc.dumpto", call = call)
  if (!nzchar(x) || x == "file://") {
    must <- "the name of a variable in `crash_dumps` or \"file://\" and a path"
    abort_argument("mc.dumpto", x, must, call = call)
  }
  x
}

check_cleanup <- function(x, call) {
  flag <- is.logical(x) && length(x) == 1L && !is.na(x)
  if (!flag && (!is_whole(x) || x < 1 || x > 64)) {
    abort_argument("mc.cleanup", x, "`TRUE`, `FALSE` or the number of a signal", call = call)
  }
}

# TRUE is from the first element on, FALSE never.
check_length_from <- function(x, argument, call) {
  if (is.logical(x) && length(x) == 1L && !is.na(x)) {
    return(if (x) TRUE else Inf)
  }
  if (!is_number(x) || x < 0) {
    abort_argument(argument, x, "`TRUE`, `FALSE` or the least length, at least 0", call = call)
  }
  as.double(x)
}

check_signal <- function(x, call) {
  names <- c("SIGTERM", "SIGKILL", "SIGABRT", "SIGINT")
  if (is.numeric(x)) {
    if (!is_whole(x) || x < 1 || x > 64) {
      abort_argument("mc.timeout.signal", x, "the number of a signal, 1 to 64", call = call)
    }
    return(as.integer(x))
  }
  signals_of(check_choice(x, "mc.timeout.signal", names, call = call))
}

check_affinity <- function(given, n, call) {
  mask <- given$affinity.list
  if (is.null(mask)) {
    return(given)
  }
  cpus <- unlist(mask)
  if (!is.vector(mask) || !is.numeric(cpus) || anyNA(cpus) || any(cpus < 1)) {
    abort_argument("affinity.list", mask, "numbers of CPUs, from 1, for each element", call = call)
  }
  if (length(mask) < n) {
    must <- sprintf("as long as there are elements (%.0f)", n)
    abort_argument("affinity.list", mask, must, call = call)
  }
  if (given$mc.preschedule) {
    warning(simpleWarning(
      "`affinity.list` has no effect with `mc.preschedule = TRUE`: set that to `FALSE`", call
    ))
    given["affinity.list"] <- list(NULL)
    return(given)
  }
  if (!requireNamespace("parallel", quietly = TRUE)) {
    stop("`affinity.list` needs the package parallel, which comes with R", call. = FALSE)
  }
  missing <- cpus_missing(unique(cpus))
  if (length(missing) > 0L) {
    warning(simpleWarning(sprintf(
      "`affinity.list` has no effect for CPU %s: this session cannot run there",
      paste(missing, collapse = ", ")
    ), call))
  }
  given
}

# Only to try it shows it: a container may keep processes off CPUs that the machine has, and
# mcaffinity() says nothing of it when a process cannot be bound.
cpus_missing <- function(cpus) {
  before <- parallel::mcaffinity()
  if (is.null(before)) {
    return(NULL) # no system on which processes can be bound
  }
  on.exit(parallel::mcaffinity(before))
  Filter(function(cpu) !identical(parallel::mcaffinity(cpu), as.integer(cpu)), cpus)
}

check_priorities <- function(given, n, call) {
  queue <- given$mc.prio.queue
  if (!is.null(queue) && !inherits(queue, "prio_queue")) {
    abort_argument("mc.prio.queue", queue, "made by `prio_queue_create()`, or `NULL`", call = call)
  }
  x <- given$mc.priority
  most <- if (is.null(queue)) .Machine$integer.max else queue$nprio
  if (!is.numeric(x) || is.object(x) || anyNA(x) || !length(x) %in% c(1L, n) ||
    any(x < 1 | x > most | x != round(x))) {
    must <- "one whole number from 1 (first), or one for each element"
    if (!is.null(queue)) {
      must <- sprintf("%s, up to the %d priorities of `mc.prio.queue`", must, most)
    }
    abort_argument("mc.priority", x, must, call = call)
  }
  given$mc.priority <- rep_len(as.double(x), n)
  given
}

# As in parallel a text may be given, and of a number the whole part counts.
check_cores <- function(x, call) {
  cores <- if (is.character(x)) suppressWarnings(as.numeric(x)) else x
  if (is_number(cores) && is.finite(cores)) cores <- trunc(cores)
  check_count(if (anyNA(cores)) x else cores, "mc.cores", call = call)
}

# Whether elements run in workers or in the session, and how many workers may run at each try.
mclapply_workers <- function(given, n, call) {
  cores <- given$mc.cores
  pinned <- !is.null(given$affinity.list)
  if (pinned && length(cores) == 1L && (is.na(cores) || cores < 2)) {
    cores <- length(unique(unlist(given$affinity.list)))
  }
  cores <- check_cores(cores, call)
  if (given$mc.force.fork && cores < 2L) {
    abort_argument("mc.cores", cores, "at least 2 with `mc.force.fork = TRUE`", call = call)
  }
  if (given$mc.force.fork && !given$mc.allow.recursive) {
    must <- "`TRUE` with `mc.force.fork = TRUE`"
    abort_argument("mc.allow.recursive", FALSE, must, call = call)
  }
  # A limit ends the process that runs the element, which must not be the session then.
  limited <- is.finite(given$mc.timeout.elapsed) || is.finite(given$mc.timeout.cpu)
  alone <- (n < 2L && !given$mc.force.fork || cores < 2L && !pinned) && !limited
  nested <- !given$mc.allow.recursive && nzchar(Sys.getenv("REGATTA_SHARE"))
  given$in_workers <- has_workers() && !alone && !nested
  given$workers <- workers_by_try(given$mc.retry, cores, given$mc.force.fork)
  given
}

has_workers <- function() {
  .Platform$OS.type == "unix"
}

# One number for the first try and for each further one.
workers_by_try <- function(retry, cores, at_least_two) {
  if (retry >= 0L) {
    return(rep(cores, retry + 1L))
  }
  least <- min(cores, if (at_least_two) 2L else 1L)
  as.integer(seq(cores, least, length.out = -retry + 1L))
}

# From this many bytes on a vector is worth a span of shared memory, whatever is asked for.
mclapply_shm_min <- 65536

# In bytes.
mclapply_share_from <- function(settings) {
  max(mclapply_shm_min, 8 * settings$mc.share.vectors)
}

mclapply_control <- function(settings, n, in_workers) {
  relay <- c(m_signal = "capture", signal = "capture")
  mode <- function(x) if (x %in% names(relay)) relay[[x]] else "drop"
  stdout <- c(capture = "capture", output = "relay", ignore = "drop")[[settings$mc.stdout]]
  share <- settings$mc.share.vectors
  control <- par_control(
    workers = if (in_workers) settings$workers[[1L]] else 1L,
    errors = if (settings$mc.fail.early) "stop" else "collect",
    retries = abs(settings$mc.retry), retry_on = c("error", "death", "timeout"),
    retry_seed = if (settings$mc.retry.fixed.seed) "same" else "new",
    timeout = settings$mc.timeout.elapsed, cpu_timeout = settings$mc.timeout.cpu,
    seed = isTRUE(settings$mc.set.seed),
    stdout = if (settings$mc.silent) "drop" else stdout,
    messages = mode(settings$mc.messages), warnings = mode(settings$mc.warnings),
    # In the session who listens has heard them: they cannot be muffled as the others can.
    conditions = if (in_workers) mode(settings$mc.conditions) else "drop", progress = settings$mc.progress,
    batch = if (!settings$mc.preschedule) 1L,
    priority = if (any(settings$mc.priority != 1)) -settings$mc.priority,
    shm = is.finite(share) || settings$mc.shm.ipc,
    shm_min = mclapply_share_from(settings), copy = settings$mc.share.copy
  )
  # `mc.share.copy` is about vectors of numbers; the strings are this session's own in any case.
  control$lazy_strings <- TRUE
  control$dump <- c(
    partial = "partial", full = "frames", full_global = "full", no = "no"
  )[[settings$mc.dump.frames]]
  control
}
