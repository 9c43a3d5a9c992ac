# What mclapply() makes of a run: values, objects in the places of those that are missing, a dump,
# and one error or warning for all failures.

# Ends of the worker, as against errors: a limit is one unless it works by an interrupt.
mclapply_is_fatal <- function(cnd, job) {
  inherits(cnd, "regatta_error_death") ||
    (inherits(cnd, "regatta_error_timeout") &&
      job$settings$mc.timeout.signal != signals_of("SIGINT"))
}

mclapply_result <- function(run, job, notes, call) {
  relay_flush(run)
  settings <- job$settings
  failed <- run_failed(run)
  errors <- lapply(run_errors(run), in_mc_words)
  fatal <- vapply(errors, mclapply_is_fatal, NA, job = job)
  values <- run$values
  if (is.finite(job$compress)) {
    values <- uncompress_chars(values, class = "regatta_internal_map")
  }
  values[run$status == element_states[["pending"]]] <- list(fail_early_error())
  values[failed[!fatal]] <- lapply(errors[!fatal], nonfatal_object)
  values[failed[fatal]] <- lapply(errors[fatal], function(cnd) {
    if (!is.null(settings$mc.allow.fatal)) try_object(cnd, "fatal-error")
  })
  if (settings$mc.system.time) {
    attr(values, "system_times") <- notes$times
  }
  names(values) <- names(bare_elements(job$X))
  if (any(!fatal) && isFALSE(settings$mc.allow.error) && settings$mc.dump.frames != "no") {
    mclapply_dump(values, failed[!fatal][[1L]], settings$mc.dumpto)
  }
  mclapply_signal(errors, fatal, length(values), settings, call)
  values
}

# The texts name arguments of par_control(), which the user of mclapply() has not seen.
in_mc_words <- function(cnd) {
  words <- c(
    "`par_control(retries = 1)`" = "`mc.retry = 1`", "`workers`" = "`mc.cores`",
    "`cpu_timeout`" = "`mc.timeout.cpu`", "`timeout`" = "`mc.timeout.elapsed`",
    "`par_control(memory = )`" = "a limit of memory"
  )
  for (word in names(words)) {
    cnd$body <- gsub(word, words[[word]], cnd$body, fixed = TRUE)
    cnd$message <- gsub(word, words[[word]], cnd$message, fixed = TRUE)
  }
  cnd
}

try_object <- function(cnd, class) {
  structure(conditionMessage(cnd), class = c(class, "try-error"), condition = cnd)
}

fail_early_error <- function() {
  try_object(simpleError("not run, since another element has failed"), "fail-early-error")
}

nonfatal_object <- function(cnd) {
  if (inherits(cnd, "regatta_error_timeout")) {
    return(try_object(cnd, "interrupt-error"))
  }
  dump <- if (is.null(cnd$dump)) no_dump(cnd$parent) else cnd$dump
  etry_error(cnd$parent, cnd$trace$calls, cnd$trace$locals, dump)
}

# The whole result, whose failed elements have the frames as an attribute.
mclapply_dump <- function(values, first, to) {
  if (!startsWith(to, "file://")) {
    assign(to, values, envir = crash_dumps)
    where <- sprintf("regatta::crash_dumps[[%s]]", quoted(to))
    message(sprintf(
      "The result and the frames of its errors are in %s; the first error opens with\n  %s",
      where, sprintf("debugger(attr(%s[[%.0f]], \"dump.frames\"))", where, first)
    ))
    return(invisible())
  }
  path <- substring(to, nchar("file://") + 1L)
  failure <- tryCatch(
    {
      save_whole(values, path)
      NULL
    },
    error = conditionMessage, warning = conditionMessage
  )
  if (is.null(failure)) {
    message(sprintf(
      paste0(
        "The result and the frames of its errors are in %s; the first error opens with\n",
        "  last.dump <- readRDS(%s)\n  debugger(attr(last.dump[[%.0f]], \"dump.frames\"))"
      ),
      path, quoted(normalizePath(path)), first
    ))
  } else {
    message(sprintf("The crash dump could not be written to %s: %s", quoted(path), failure))
  }
}

# Warnings come before the error, and two errors become one.
mclapply_signal <- function(errors, fatal, n, settings, call) {
  kinds <- list(
    list(errors = errors[fatal], allow = settings$mc.allow.fatal, text = "died with their worker"),
    list(errors = errors[!fatal], allow = settings$mc.allow.error, text = "failed")
  )
  kinds <- Filter(function(kind) length(kind$errors) > 0L, kinds)
  stops <- vapply(kinds, function(kind) isFALSE(kind$allow), NA)
  warns <- vapply(kinds, function(kind) is.null(kind$allow) || isTRUE(kind$allow), NA)
  for (kind in kinds[warns]) {
    mclapply_warn(kind, n, call)
  }
  if (any(stops)) {
    texts <- lapply(kinds[stops], mclapply_text, n = n)
    lines <- if (length(texts) == 1L) texts[[1L]] else {
      c(texts[[1L]], "", "--- AND ---", "", texts[[2L]])
    }
    all <- unlist(lapply(kinds[stops], `[[`, "errors"), recursive = FALSE)
    signal_error(new_error(
      "regatta_error_elements", lines[[1L]],
      errors = all, n = as.double(n), body = lines[-1L], call = call
    ))
  }
}

mclapply_text <- function(kind, n) {
  first <- kind$errors[[1L]]
  count <- length(kind$errors)
  c(
    sprintf("%d of %.0f elements %s; the first:", count, as.double(n), kind$text),
    "", conditionMessage(first)
  )
}

mclapply_warn <- function(kind, n, call) {
  text <- paste(mclapply_text(kind, n), collapse = "\n")
  cnd <- new_warning("regatta_warning_errors", text, errors = kind$errors, n = as.double(n), call = call)
  old <- options(warning.length = 8170L)
  on.exit(options(old))
  warning(cnd)
}
