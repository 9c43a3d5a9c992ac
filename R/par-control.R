# What a parallel call does about errors, output, limits and seeds. The driver reads the fields of
# the list; a field that is there has been checked.

par_control <- function(workers = NULL,
                        errors = c("stop", "collect", "finish"),
                        retries = 0L,
                        retry_on = c("error", "death"),
                        retry_workers = c("same", "fewer"),
                        retry_seed = c("same", "new"),
                        timeout = Inf,
                        cpu_timeout = Inf,
                        memory = Inf,
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
                        shm = TRUE,
                        shm_min = "64KB",
                        share_min = "1MB",
                        copy = FALSE) {
  streams <- c("relay", "capture", "drop")
  control <- list(
    workers = check_count(workers, "workers", null = TRUE),
    errors = check_choice(errors, "errors", c("stop", "collect", "finish")),
    retries = check_count(retries, "retries", min = 0),
    retry_on = check_subset(retry_on, "retry_on", c("error", "death", "timeout")),
    retry_workers = check_choice(retry_workers, "retry_workers", c("same", "fewer")),
    retry_seed = check_choice(retry_seed, "retry_seed", c("same", "new")),
    timeout = check_seconds(timeout, "timeout"),
    cpu_timeout = check_seconds(cpu_timeout, "cpu_timeout"),
    memory = check_bytes(memory, "memory"),
    seed = check_seed(seed, "seed"),
    stdout = check_choice(stdout, "stdout", streams),
    stderr = check_choice(stderr, "stderr", streams),
    messages = check_choice(messages, "messages", streams),
    warnings = check_choice(warnings, "warnings", streams),
    conditions = check_choice(conditions, "conditions", streams),
    max_conditions = check_count(max_conditions, "max_conditions", min = 0),
    dump = check_choice(dump, "dump", c("partial", "full", "no")),
    dump_file = check_string(dump_file, "dump_file", null = TRUE),
    progress = check_flag(progress, "progress", null = TRUE),
    batch = check_count(batch, "batch", null = TRUE),
    priority = check_priority(priority, "priority"),
    threads = check_count(threads, "threads", null = TRUE),
    shm = check_flag(shm, "shm"),
    shm_min = check_bytes(shm_min, "shm_min", zero = TRUE),
    share_min = check_bytes(share_min, "share_min", zero = TRUE),
    copy = check_flag(copy, "copy")
  )
  structure(control, class = "regatta_control")
}

# For the verbs: `.control` of a call over `n` elements, checked before anything is started.
check_control <- function(x, n, call = rlang::caller_env()) {
  if (!inherits(x, "regatta_control")) {
    abort_argument(".control", x, "made by `par_control()`", call = call)
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
  if (name %in% c("memory", "shm_min") && is.finite(value)) {
    return(format_bytes(value))
  }
  if (name %in% c("timeout", "cpu_timeout") && is.finite(value)) {
    return(format_seconds(value))
  }
  if (length(value) > 6L) {
    return(sprintf("%s of length %d", mode(value), length(value)))
  }
  if (is.numeric(value) && length(value) == 1L) format(value, digits = 15L) else deparse1(value)
}
