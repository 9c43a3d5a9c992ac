# What a parallel call does about errors, output, limits and seeds. The driver reads the fields of
# the list; a field that is there has been checked.

par_control <- function(...,
                        workers = NULL,
                        errors = c("stop", "collect", "finish"),
                        retries = 0L,
                        retry_on = c("error", "death"),
                        retry_workers = c("same", "fewer"),
                        retry_seed = c("same", "new"),
                        timeout = Inf,
                        cpu_timeout = Inf,
                        memory = Inf,
                        memory_budget = NULL,
                        seed = TRUE,
                        stdout = "relay",
                        stderr = "relay",
                        messages = "relay",
                        warnings = "relay",
                        conditions = "relay",
                        max_conditions = 1000L,
                        dump = c("partial", "full", "no"),
                        dump_file = getOption("regatta.dump_file"),
                        progress = NULL,
                        batch = NULL,
                        priority = NULL,
                        threads = NULL,
                        core_budget = getOption("regatta.core_budget"),
                        core_priority = c("normal", "low"),
                        shm = TRUE,
                        shm_min = "64KB",
                        share_min = "1MB",
                        copy = FALSE,
                        no_workers = c("stop", "here"),
                        checkpoint = NULL) {
  # Every call that is given no settings asks for these.
  is_default <- nargs() == 0L && is.null(getOption("regatta.dump_file")) && is.null(getOption("regatta.core_budget"))
  if (is_default && !is.null(the$defaults)) {
    return(the$defaults)
  }
  if (...length() > 0L) refuse_setting(...)
  control <- checked_control(mget(setting_names(), environment()), rlang::current_env())
  if (is_default) the$defaults <- control else note_checked(control)
  control
}

# The last settings that were checked, which most calls are given. Priorities have any length, and are not held.
note_checked <- function(control) if (is.null(control$priority)) the$checked <- control

# The settings of the list `given`, each of which may be as a user has written it: also those of a control
# that was edited since it was made.
checked_control <- function(given, call) {
  streams <- c("relay", "capture", "drop")
  choice <- function(name, choices) check_choice(given[[name]], name, choices, call)
  count <- function(name, ...) check_count(given[[name]], name, ..., call = call)
  or_option <- function(name) argument_or_option(given[[name]], name, paste0("regatta.", name))
  control <- list(
    workers = count("workers", null = TRUE),
    errors = choice("errors", c("stop", "collect", "finish")),
    retries = count("retries", min = 0),
    retry_on = check_subset(given$retry_on, "retry_on", c("error", "death", "timeout"), call),
    retry_workers = choice("retry_workers", c("same", "fewer")),
    retry_seed = choice("retry_seed", c("same", "new")),
    timeout = check_seconds(given$timeout, "timeout", call = call),
    cpu_timeout = check_seconds(given$cpu_timeout, "cpu_timeout", call = call),
    memory = check_bytes(given$memory, "memory", least = 1e6, call = call),
    memory_budget = check_bytes(given$memory_budget, "memory_budget", null = TRUE, least = 1e6, call = call),
    seed = check_seed(given$seed, "seed", call),
    stdout = choice("stdout", streams),
    stderr = choice("stderr", streams),
    messages = choice("messages", streams),
    warnings = choice("warnings", streams),
    conditions = choice("conditions", streams),
    max_conditions = count("max_conditions", min = 0),
    dump = choice("dump", c("partial", "full", "no")),
    dump_file = check_string(given$dump_file, or_option("dump_file"), null = TRUE, call = call),
    progress = check_flag(given$progress, "progress", null = TRUE, call = call),
    batch = count("batch", null = TRUE),
    priority = check_priority(given$priority, "priority", call),
    threads = count("threads", null = TRUE),
    core_budget = check_core_budget(given$core_budget, or_option("core_budget"), call),
    core_priority = choice("core_priority", c("normal", "low")),
    shm = check_flag(given$shm, "shm", call = call),
    shm_min = check_bytes(given$shm_min, "shm_min", zero = TRUE, call = call),
    share_min = check_bytes(given$share_min, "share_min", zero = TRUE, call = call),
    copy = check_flag(given$copy, "copy", call = call),
    no_workers = choice("no_workers", c("stop", "here")),
    checkpoint = check_folder(given$checkpoint, "checkpoint", call)
  )
  structure(control, class = "regatta_control")
}

check_folder <- function(x, argument, call) {
  x <- check_string(x, argument, null = TRUE, call = call)
  if (identical(x, "")) abort_argument(argument, x, "the path of a folder, or `NULL`", call = call)
  x
}

setting_names <- function() setdiff(names(formals(par_control)), "...")

# Settings are given by their whole names: a part of one, or one that is misspelt, is in the dots.
refuse_setting <- function(..., call = rlang::caller_call()) {
  known <- setting_names()
  name <- names(list(...))[[1L]]
  if (is.null(name) || !nzchar(name)) {
    message <- "every setting is given by its name, as in `par_control(workers = 2)`."
    name <- ""
  } else {
    near <- near_settings(name, known)
    hint <- if (name %in% setting_workers) {
      "The number of processes is `workers`."
    } else if (length(near) > 0L) {
      sprintf("Did you mean %s?", paste0("`", utils::head(near, 3L), "`", collapse = " or "))
    } else {
      "The settings are on the page `?par_control`."
    }
    message <- sprintf("`par_control()` has no setting `%s`. %s", name, hint)
  }
  signal_error(new_error(
    "regatta_error_argument", message, argument = name, value = ...elt(1), call = call
  ))
}

# The nearest first: those that begin alike, and those that differ in few letters.
near_settings <- function(name, known) {
  distance <- utils::adist(name, known)[1L, ]
  near <- distance <= 2 | startsWith(known, substr(name, 1L, max(4L, nchar(name) - 1L)))
  known[near][order(distance[near])]
}

# Names under which other packages have the number of processes.
setting_workers <- c(
  "workers", ".workers", "mc.cores", "cores", "ncores", "n.cores", "n_cores", "ncpus", "nworkers",
  "n_workers", "num_workers"
)

# `given_as`: a format for how settings are given where `x` was.
advise_control <- function(x, given_as) {
  if (is_number(x)) {
    sprintf("For a number of workers: `.on = %s`.", format_number(x, 15L))
  } else if (is.list(x) && !is.object(x) && !is.null(names(x))) {
    sprintf("Write `%s`.", sprintf(given_as, sprintf("par_control(%s = ...)", names(x)[[1L]])))
  } else if (is.function(x)) {
    sprintf("Call it: `%s`.", sprintf(given_as, "par_control()"))
  }
}

# For the verbs: `.control` of a call over `n` elements, checked before anything is started.
check_control <- function(x, n, call = rlang::caller_env()) {
  if (!inherits(x, "regatta_control")) {
    name <- argument_or_option(x, ".control", "regatta.control")
    given_as <- if (name == ".control") ".control = %s" else "options(regatta.control = %s)"
    abort_argument(name, x, "made by `par_control()`", call = call, advice = advise_control(x, given_as))
  }
  if (!identical(x, the$defaults) && !identical(x, the$checked)) {
    given <- as.list(unclass(x))
    unknown <- setdiff(names(given), setting_names())
    if (length(unknown) > 0L) do.call(refuse_setting, c(given[unknown], list(call = call)), quote = TRUE)
    x <- checked_control(given, call)
    note_checked(x)
  }
  if (!is.null(x$priority) && length(x$priority) != n) {
    must <- sprintf("as long as there are elements (%.0f)", n)
    abort_argument("priority", x$priority, must, call = call)
  }
  x
}

format.regatta_control <- function(x, ...) {
  default <- par_control()
  changed <- names(x)[!mapply(identical, unclass(x), unclass(default)[names(x)])]
  if (length(changed) == 0L) {
    return("<par_control> all as by default")
  }
  values <- vapply(changed, function(name) format_setting(name, x[[name]]), "")
  c("<par_control>", paste0("  ", format(changed), " = ", values))
}

print.regatta_control <- function(x, ...) {
  writeLines(format(x, ...))
  invisible(x)
}

format_setting <- function(name, value) {
  if (name %in% c("memory", "memory_budget", "shm_min", "share_min") && is.finite(value)) {
    return(format_bytes(value))
  }
  if (name %in% c("timeout", "cpu_timeout") && is.finite(value)) {
    return(format_seconds(value))
  }
  if (length(value) > 6L) {
    return(sprintf("%s of length %d", mode(value), length(value)))
  }
  if (is.numeric(value) && length(value) == 1L) format_number(value, 15L) else deparse1(value)
}
