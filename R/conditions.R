# Every error of the package is made here, but that of an element (conditions-element.R). An error is
# a condition with a class, the facts as fields, one line in `message`, further lines in `body`, and
# in `advice` what to do next, for the one error that ends a call.

# A condition is what package rlang makes of these parts. It is made without rlang, which a session may not
# have loaded yet and cannot load where no more files can be opened.
new_error <- function(class, message, ..., body = character(), trace = NULL, parent = NULL, call = NULL) {
  structure(
    list(message = message, trace = trace, parent = parent, ..., body = body, call = call),
    class = c(class, "regatta_error", "rlang_error", "error", "condition")
  )
}

new_warning <- function(class, message, ..., call = NULL) {
  structure(
    list(message = message, ..., call = call),
    class = c(class, "regatta_warning", "rlang_warning", "warning", "condition")
  )
}

new_message <- function(class, message, ...) {
  structure(
    list(message = paste0(message, "\n"), ..., call = NULL),
    class = c(class, "regatta_message", "message", "condition")
  )
}

conditionMessage.regatta_error <- function(c) {
  paste(c(c[["message"]], c[["body"]], c[["advice"]]), collapse = "\n")
}

# An error of an element has the user's classes after ours. What these have methods for is asked of
# ours first.
conditionCall.regatta_error <- function(c) {
  c[["call"]]
}

# `$` of a list takes the start of a name for the name. An error of an element has the fields of ours beside those of
# the user's, which may be `d` and not there: that is not our `dump`.
`$.regatta_error` <- function(x, name) .subset2(x, name)

cnd_header.regatta_error <- function(cnd, ...) {
  cnd[["message"]]
}

# rlang takes the field `body` as it is.
cnd_footer.regatta_error <- function(cnd, ...) {
  c(cnd[["advice"]], character())
}

format.regatta_error <- function(x, ...) {
  call <- if (is.null(x$call)) "" else sprintf(" in `%s`", format_call(x$call, 60L))
  c(sprintf("<%s%s>", grep("^regatta_error", class(x), value = TRUE)[[1L]], call), x$message, x$body, x$advice)
}

print.regatta_error <- function(x, ...) {
  writeLines(format(x, ...))
  invisible(x)
}

# R cuts the text of an uncaught error at `warning.length` (1000 bytes unless set), which is less
# than a traceback needs; the longest R allows is 8170.
signal_error <- function(cnd) {
  if (inherits(cnd, "regatta_error") && is.null(cnd[["call"]])) cnd["call"] <- list(call_under_way())
  old <- options(warning.length = 8170L)
  on.exit(options(old))
  stop(cnd)
}

# The parallel call that code of this package works on; NULL if other code, such as a handler of the user's, has called
# it, if it works on an element, or on none. Functions that drive a run have it as `run`, those that prepare it its
# `task`, and those that run elements the `loop` over them.
call_under_way <- function() {
  for (k in rev(seq_len(sys.nframe()))) {
    home <- topenv(environment(sys.function(k)))
    if (identical(home, topenv())) {
      frame <- sys.frame(k)
      found <- function(variable) tryCatch(variable, error = function(e) NULL)
      if (is.function(found(frame$loop))) {
        return(NULL)
      }
      call <- found(if (is.environment(frame$run)) frame$run$task$call else frame$task$call)
      if (!is.null(call)) {
        return(call)
      }
    } else if (!isBaseNamespace(home)) {
      return(NULL)
    }
  }
}

# The outermost of the functions of package parallel that have led here; NULL if none has.
call_of_parallel <- function() {
  call <- NULL
  for (k in rev(seq_len(sys.nframe()))) {
    home <- topenv(environment(sys.function(k)))
    if (identical(home, asNamespace("parallel"))) {
      call <- sys.call(k)
    } else if (!is.null(call) && !isBaseNamespace(home)) {
      break
    }
  }
  call
}

abort_argument <- function(argument, value, must, call = rlang::caller_env(), advice = NULL) {
  message <- if (missing(value)) {
    sprintf("`%s` is missing: it must be %s.", argument, must)
  } else {
    sprintf("`%s` must be %s, not %s.", argument, must, describe_value(value))
  }
  if (is.environment(call)) {
    call <- rlang::error_call(call)
  }
  signal_error(new_error(
    "regatta_error_argument", message,
    argument = argument, value = if (!missing(value)) value, call = call, body = as.character(advice)
  ))
}

# A value of par_vapply() that is not as `template`, in the words of vapply().
error_misfit <- function(index, words, template, call = NULL) {
  advice <- sprintf(
    "Have FUN return %s for every element, or give a `FUN.VALUE` that is like its values.", describe_template(template)
  )
  new_error(
    "regatta_error_argument", words,
    argument = "FUN.VALUE", value = template, index = index, body = advice, call = call
  )
}

error_death <- function(index, name = NULL, pid = NA_integer_, try = 1L,
                        signal = NA_integer_, status = NA_integer_, peak_memory = NA_real_,
                        oom = NA, oom_kills = NULL, backtrace = character(), lost = NULL, call = NULL) {
  gave_up <- has_given_up(status, backtrace)
  facts <- c(
    death_cause(signal, status, index, name, pid, try, gave_up),
    lost,
    if (isTRUE(peak_memory > 0)) paste("peak memory", format_bytes(peak_memory)),
    death_oom(signal, oom, oom_kills)
  )
  title <- if (gave_up) "What kept it from going on:" else "It was in:"
  new_error(
    "regatta_error_death", paste0(paste(facts, collapse = "; "), "."),
    index = as.integer(index), name = name, pid = as.integer(pid), try = as.integer(try),
    signal = as.integer(signal), signal_name = signal_name(signal), status = as.integer(status),
    peak_memory = as.double(peak_memory), oom = oom, backtrace = backtrace,
    body = c(death_advice(signal, status, oom, try, gave_up), format_crash(title, backtrace)), call = call
  )
}

format_crash <- function(title, calls) {
  if (length(calls) > 0L) c(title, paste0("  ", utils::head(calls, 30L)))
}

# A worker that cannot go on ends with this status, and has said why: rg_fork_worker_run(). Code of an element may
# have ended it with the same status, and then nothing was said.
has_given_up <- function(status, said) isTRUE(status == 125L) && any(nzchar(said))

death_cause <- function(signal, status, index, name, pid, try, gave_up) {
  how <- if (!is.na(signal)) {
    sprintf("was killed by %s (%d)", signal_name(signal), as.integer(signal))
  } else if (is.na(status)) {
    "was lost"
  } else if (gave_up) {
    "could not go on, and has ended itself,"
  } else {
    sprintf("ended with status %d (quit() or _exit() was called)", as.integer(status))
  }
  what <- if (is.na(index)) {
    "between two elements"
  } else {
    paste("while it ran", format_element(index, name))
  }
  sprintf("worker %s %s %s%s", format_pid(pid), how, what, format_try(try))
}

death_oom <- function(signal, oom, oom_kills) {
  if (!isTRUE(signal == 9L)) {
    return(NULL)
  }
  counts <- if (length(oom_kills) == 2L) {
    sprintf(" (oom_kill %.0f -> %.0f)", oom_kills[[1L]], oom_kills[[2L]])
  } else {
    ""
  }
  if (is.na(oom)) {
    "whether the OOM killer did it cannot be told here"
  } else if (oom) {
    paste0("the OOM killer of the cgroup did it", counts)
  } else {
    "the OOM killer of the cgroup did not do it"
  }
}

death_advice <- function(signal, status, oom, try, gave_up) {
  if (isTRUE(oom)) {
    return(paste(
      "Lower `workers`, let an element need less memory,",
      "or end it in time with `par_control(memory = )`."
    ))
  }
  if (isTRUE(signal %in% signals_of(c("SIGSEGV", "SIGBUS", "SIGILL", "SIGABRT", "SIGFPE")))) {
    return("Compiled code that it called has crashed: run this element alone to see where.")
  }
  if (gave_up) {
    return("It had no memory or no nested calls left, or code has changed what this package works with.")
  }
  if (is.na(signal) && !is.na(status)) {
    return("Return a value or signal an error instead of ending the process.")
  }
  if (try > 1L) NULL else "`par_control(retries = 1)` runs such an element again."
}

# `used` is in the unit of `limit`: seconds, or bytes for kind "memory".
error_timeout <- function(index, name = NULL, pid = NA_integer_, try = 1L,
                          kind = c("elapsed", "cpu", "memory"), limit, used = NA_real_,
                          call = NULL) {
  kind <- match.arg(kind)
  argument <- c(elapsed = "timeout", cpu = "cpu_timeout", memory = "memory")[[kind]]
  show <- if (kind == "memory") format_bytes else format_seconds
  what <- c(elapsed = "elapsed time", cpu = "CPU time", memory = "memory")[[kind]]
  over <- if (is.na(used) || show(used) == show(limit)) {
    sprintf("more than the %s of %s that `%s` allows", show(limit), what, argument)
  } else {
    sprintf("%s of %s, `%s` allows %s", show(used), what, argument, show(limit))
  }
  message <- sprintf(
    "%s was ended in worker %s%s: it used %s.",
    format_element(index, name), format_pid(pid), format_try(try), over
  )
  new_error(
    "regatta_error_timeout", message,
    index = as.integer(index), name = name, pid = as.integer(pid), try = as.integer(try),
    kind = kind, limit = as.double(limit), used = as.double(used),
    body = sprintf("Raise `%s` or give it less to do.", argument), call = call
  )
}

# `errors` are the failed elements of `n`, in the order of the elements.
error_elements <- function(errors, n, call = NULL) {
  shown <- utils::head(errors, 20L)
  lines <- vapply(shown, function(e) paste0("* ", shorten(message_of_one(e), 160L)), "")
  more <- length(errors) - length(shown)
  new_error(
    "regatta_error_elements", paste0(count_failures(errors, n), "."),
    errors = errors, n = n, call = call,
    body = c(lines, if (more > 0L) sprintf("and %d more: see `errors` of this condition.", more))
  )
}

# `stand`: what is in place of their values, in words.
warning_errors <- function(errors, n, call = NULL, file = NULL, stand = NULL) {
  if (is.null(stand)) {
    stand <- sprintf(
      "the conditions are in place of their values. `%s(result)` of the result tells them", ours("par_failed")
    )
  }
  message <- sprintf("%s; %s, `summary(%s)` lists them.", count_failures(errors, n), stand, ours("par_last()"))
  message <- paste(c(message, if (!is.null(file)) advise_debugger(errors[[1L]], file)), collapse = "\n")
  new_warning("regatta_warning_errors", message, errors = errors, n = n, call = call)
}

count_failures <- function(errors, n) {
  classes <- c(
    error = "regatta_error_element", death = "regatta_error_death",
    timeout = "regatta_error_timeout"
  )
  of <- classes_of(errors)
  times <- tabulate(of$at, length(of$classes))
  counts <- vapply(classes, function(class) sum(times[vapply(of$classes, function(of) class %in% of, NA)]), 0L)
  counts <- counts[counts > 0L]
  kinds <- sprintf("%d %s%s", counts, names(counts), ifelse(counts == 1L, "", "s"))
  sprintf(
    "%d of %.0f elements failed: %s", length(errors), as.double(n), paste(kinds, collapse = ", ")
  )
}

# Errors of a run have few classes: `classes`, and of each error which of these it has, `at`.
classes_of <- function(errors) {
  first <- .Call(ffi_conditions_first_of_class, errors)
  distinct <- unique(first)
  list(classes = lapply(errors[distinct], class), at = match(first, distinct))
}

error_memory <- function(requested, available, in_run = TRUE, call = NULL) {
  advice <- if (in_run) {
    "Lower `workers`, set `shm = FALSE`, or raise `options(regatta.shm_max)` if that is the limit."
  } else {
    "Drop objects that `shm_info()` lists, or raise `options(regatta.shm_max)` if that is the limit."
  }
  message <- sprintf(
    "cannot reserve %s of shared memory: %s available. %s",
    format_bytes(requested), format_bytes(available), advice
  )
  new_error(
    "regatta_error_memory", message,
    requested = as.double(requested), available = as.double(available), call = call
  )
}

# A named object cannot be used; `failure` is list(operation, errno) as C code returns it: the call
# of the system that has failed, or what is wrong with that which stands at the name (posix-name.h).
# `what` says what was tried, with its numbers.
error_posix <- function(what, failure, advice = NULL, call = NULL) {
  faults <- c(
    type = "it is no file that can hold one", owner = "it belongs to another user",
    mode = "other users may write to it", size = "it is of a wrong size"
  )
  if (failure$operation %in% names(faults)) {
    reason <- faults[[failure$operation]]
    advice <- "Something else has been put at this name: choose another, or remove what is there."
  } else {
    reason <- .Call(ffi_system_message, failure$errno)
  }
  new_error(
    "regatta_error_posix",
    sprintf("cannot %s: %s (%s)", what, reason, failure$operation),
    operation = failure$operation, errno = failure$errno, reason = reason,
    body = as.character(advice), call = call
  )
}

# `failure` is what C++ code says about a file: message, path, name, chunk, filter, advice.
error_h5 <- function(failure, call = NULL) {
  known <- function(text) if (nzchar(text)) text else NULL
  new_error(
    "regatta_error_h5", failure$message, path = failure$path, name = known(failure$name),
    chunk = known(failure$chunk), filter = known(failure$filter),
    body = as.character(known(failure$advice)), call = call
  )
}

# `end` of ffi_trial(): libhdf5 did not come to an end with what it was asked about the file.
error_h5_trial <- function(path, end, limit, call = NULL) {
  late <- is.na(end$signal) && is.na(end$status)
  message <- if (late) {
    sprintf("libhdf5 has not come to an end with %s within %s", path, format_seconds(limit))
  } else {
    sprintf("libhdf5 has crashed with %s (%s)", path, format_exit(end$signal, end$status))
  }
  advice <- if (late) {
    paste(
      "What the file says of itself is damaged, or takes long to read: `options(regatta.h5_trial = 3600)` waits longer,",
      "in seconds."
    )
  } else if (isTRUE(end$signal == 9L)) {
    "What the file says of itself is damaged, or there was too little memory to read it."
  } else {
    "What the file says of itself is damaged: copy it anew."
  }
  tried <- "It was tried in a process without R, so that this session goes on."
  new_error("regatta_error_h5", message, path = path, body = c(tried, advice), call = call)
}

# `reason` is the system's own text, as of strerror().
error_h5_untried <- function(path, reason, call = NULL) {
  new_error(
    "regatta_error_h5", sprintf("%s was not read: regatta-h5-try could not be started (%s)", path, reason),
    path = path, body = paste(
      "By this program damaged files are found that would crash R. If it is missing install regatta again, if",
      "processes, descriptors or memory are at their limit make room; `options(regatta.h5_trial = FALSE)` reads files",
      "without it."
    ), call = call
  )
}

error_h5_missing <- function(call = NULL) {
  new_error(
    "regatta_error_h5", "regatta was built without libhdf5, which HDF5 files need.",
    body = paste(
      "Install it (Debian, Ubuntu: libhdf5-dev and libdeflate-dev; Fedora: hdf5-devel and",
      "libdeflate-devel; Homebrew: hdf5 and libdeflate), then install regatta again."
    ),
    call = call
  )
}

error_stack <- function(cnd, call = NULL) {
  new_error(
    "regatta_error_stack",
    sprintf("the session has no stack left to take what its workers have sent: %s.", conditionMessage(cnd)),
    body = paste(
      "Begin R with a larger stack, by `ulimit -s` before it is started. A call or a pairlist takes a level of it for each",
      "of its elements: return such a one as a list, `as.list(x)`."
    ),
    parent = cnd, call = call
  )
}

# `reason` is the system's own text, as of strerror(); `calls`, those in which a worker has crashed.
error_start <- function(workers, reason, advice = NULL, calls = character(), call = NULL, unit = "workers") {
  message <- sprintf("cannot start any of %d %s: %s.", as.integer(workers), unit, reason)
  advice <- if (is.null(advice)) {
    "Look at `regatta_info()` for the limits of processes, open files and memory."
  } else {
    advice
  }
  new_error(
    "regatta_error_start", paste(message, advice),
    workers = as.integer(workers), reason = reason, body = format_crash("It was in:", calls), call = call
  )
}

error_connection <- function(places, call = NULL) {
  message <- sprintf(paste(
    "%s: a connection is open in the process alone that has opened it, and these workers do not inherit the session.",
    "Open it where the element runs, by the name of its file or its address."
  ), paste(places, collapse = ", "))
  new_error("regatta_error_connection", message, places = places, call = call)
}

error_address <- function(places, call = NULL) {
  message <- sprintf(paste(
    "%s: calls compiled code by its address in the memory of this process, as functions of `Rcpp::sourceCpp()` do, and",
    "these workers do not inherit the session. Put the code into a package, which they load, or compile it in the",
    "element, or use forked workers, as without `.on`."
  ), paste(places, collapse = ", "))
  new_error("regatta_error_address", message, places = places, call = call)
}

error_stopped <- function(call = NULL) {
  new_error(
    "regatta_error_stopped", "this cluster has been stopped: its connections are closed.",
    body = "Make another one.", call = call
  )
}

# Of a process that cannot be looked into: it has ended, or is somebody else's.
error_look <- function(pid, reason, call = NULL) {
  new_error(
    "regatta_error_look", sprintf("cannot see what the process %s is at: %s.", format_pid(pid), reason),
    body = "Give the number of a process of yours on this machine, as `Sys.getpid()` tells it there.",
    pid = pid, call = call
  )
}

# `pid`: the process whose cluster it is.
error_owner <- function(pid = NA_integer_, call = NULL) {
  owner <- if (is.na(pid)) {
    "what has made it, from which it was sent here or stored"
  } else {
    sprintf("process %s, from which this one was forked", format_pid(pid))
  }
  new_error(
    "regatta_error_owner",
    sprintf("process %d cannot use this cluster: its connections belong to %s.", Sys.getpid(), owner),
    pid = as.integer(pid), call = call,
    body = "Use `.on = NULL` (forked workers) inside of an element, or make a cluster there."
  )
}

error_run_owner <- function(what, owner, pid, call = NULL) {
  reason <- if (pid == Sys.getpid()) {
    sprintf("this %s is a copy that was stored or sent, and refers to nothing any more.", what)
  } else {
    sprintf("process %d cannot use this %s: it belongs to %s.", Sys.getpid(), what, owner)
  }
  new_error(
    "regatta_error_owner", reason, pid = as.integer(pid), call = call,
    body = "Take the value where it was begun, and store or send that."
  )
}

# `log`: what the server has written.
error_server <- function(what, reason, log = "", call = NULL) {
  message <- sprintf("the fork server of `cluster_local()` %s: %s.", what, sub("[.]$", "", reason))
  lines <- utils::tail(strsplit(log, "\n", fixed = TRUE)[[1L]], 10L)
  body <- if (length(lines) > 0L) c("It has written:", lines) else character()
  new_error("regatta_error_server", message, reason = reason, body = body, call = call)
}

# `pid`: of the worker of a call; NULL: there were several, those of the verb.
error_lost <- function(pid = NA_integer_, reason = "it was cancelled", call = NULL, verb = "par_call") {
  what <- if (is.null(pid)) {
    "what is left of this stream"
  } else {
    sprintf("the value of this call (worker %s)", format_pid(pid))
  }
  message <- sprintf("%s is lost: %s. Start it again with `%s()`.", what, reason, verb)
  if (is.null(pid)) pid <- NA_integer_
  new_error("regatta_error_lost", message, pid = as.integer(pid), reason = reason, call = call)
}

error_pending <- function(pid, timeout, call = NULL) {
  message <- sprintf(
    "the call in worker %s has not ended within %s. It goes on: ask `par_value()` again.",
    format_pid(pid), format_seconds(timeout)
  )
  new_error(
    "regatta_error_pending", message,
    pid = as.integer(pid), timeout = as.double(timeout), call = call
  )
}

error_driven <- function(asked, call) {
  message <- sprintf(
    "`%s()` was called by a handler of what the same `%s()` tells before it has its value. Ask when that has returned.",
    asked, asked
  )
  new_error("regatta_error_pending", message, pid = NA_integer_, timeout = 0, call = call)
}

warning_workers <- function(started, wanted, reason) {
  message <- sprintf(
    "only %d of %d workers could be started: %s. The run goes on with these.",
    as.integer(started), as.integer(wanted), reason
  )
  new_warning("regatta_warning_workers", message, started = started, wanted = wanted)
}

warning_here <- function(reason) {
  message <- sprintf("no worker could be started: %s. The elements run in this process, one after the other.", reason)
  new_warning("regatta_warning_here", message, reason = reason)
}

# `at_call`: it was ended for this call; otherwise it had ended before.
warning_replaced <- function(rank, at_call = TRUE) {
  why <- if (at_call) "was still at a call that has been interrupted" else "has ended since it was last called"
  message <- sprintf(paste(
    "worker %d %s: another has taken its place, which does not have what functions of parallel had left there,",
    "such as exported variables, attached packages or a stream of random numbers."
  ), rank, why)
  new_warning("regatta_warning_replaced", message, worker = as.integer(rank))
}

warning_globals <- function() {
  message <- paste(
    "the workers were not forked and have no variables of the workspace: those that the code uses are",
    "found by the package globals, which is not installed. Install it, or pass what FUN needs as arguments."
  )
  new_warning("regatta_warning_globals", message)
}

# `note`: list(name, library, version, found), as of packages_ready().
warning_package <- function(note) {
  message <- if (is.na(note$found)) {
    sprintf(paste(
      "workers cannot load package %s, which this session has loaded and which has methods for classes of what was",
      "sent: there such objects are what they are made of. Install it where the workers look for packages."
    ), note$name)
  } else if (note$is_same && nzchar(note$elsewhere)) {
    sprintf(paste(
      "workers have loaded package %s, version %s, from %s, this session has it from %s, where its code is another: their",
      "values may differ. Make another cluster."
    ), note$name, note$found, note$elsewhere, note$library)
  } else if (nzchar(note$library) && note$is_same) {
    before <- if (note$renewed) "this session has loaded it, and is what workers use" else "workers have loaded it"
    sprintf(paste(
      "package %s, version %s, was installed anew after %s: their values may differ.",
      if (note$renewed) "Restart the session." else "Make another cluster."
    ), note$name, note$found, before)
  } else if (nzchar(note$library)) {
    sprintf(paste(
      "workers use version %s of package %s, this session version %s, from %s: their values may differ. Install the",
      "same version, or make another cluster if the workers have loaded the other one before."
    ), note$found, note$name, note$version, note$library)
  } else {
    sprintf(paste(
      "workers use version %s of package %s as it is installed, this session its source, as by pkgload::load_all():",
      "their values may differ. Install the source, or use forked workers."
    ), note$found, note$name)
  }
  new_warning(
    "regatta_warning_package", message, package = note$name, version = note$version, found = note$found
  )
}

warning_rounded <- function(place) {
  message <- sprintf("whole numbers of %s are above 2^53 and were rounded: R's numbers are doubles.", place)
  new_warning("regatta_warning_rounded", message)
}

warning_h5_cache <- function(place) {
  message <- sprintf("the file of %s has changed: it is read as it now is, and its cache was dropped.", place)
  new_warning("regatta_warning_h5_cache", paste(message, "Call `h5_cache()` again to have another one."))
}

warning_fork <- function(host) {
  message <- paste0(
    "forking a session that runs in ", host, " may hang or disturb it: its threads and windows ",
    "are not made to be copied. Run the code with Rscript or in a terminal."
  )
  new_warning("regatta_warning_fork", message, host = host)
}

message_waiting <- function(seconds, reason) {
  message <- paste0(
    "No worker has been there for ", format_seconds(seconds), if (nzchar(reason)) ": ", reason,
    ". The call goes on when one comes; Ctrl-C ends it."
  )
  new_message("regatta_message_waiting", message, seconds = seconds, reason = reason)
}

message_stopped <- function(worker, row) {
  place <- if (is.na(row$host)) "" else paste(" on", row$host)
  message <- sprintf(paste0(
    "Worker %d (pid %s%s) was stopped by a signal and is waited for. `kill -CONT %s` has it go on, `kill -KILL %s` ",
    "ends it, and `par_control(timeout = )` ends such elements."
  ), worker, format_pid(row$pid), place, format_pid(row$pid), format_pid(row$pid))
  new_message("regatta_message_stopped", message, worker = worker, pid = row$pid, host = row$host)
}

message_put_back <- function(index, name, seconds, bytes, room, total, most) {
  message <- sprintf(
    paste0(
      "Memory is short, %s of %s are left: %s, the youngest under way, was put back after %s with %s and runs ",
      "again when there is room; no more than %d at a time for now. What it has done so far is done a second time then: with ",
      "fewer `workers` it need not be."
    ),
    format_bytes(room), format_bytes(total), format_element(index, name), format_seconds(seconds), format_bytes(bytes),
    as.integer(most)
  )
  new_message("regatta_message_put_back", message, index = as.integer(index), room = room, total = total, most = most)
}

message_pool <- function(host) {
  message <- paste0(
    "Workers come from a fork server: ", host, " is not to be forked. They do not inherit the session; what the ",
    "code needs of it is found and sent. `options(regatta.fork = TRUE)` forks it all the same."
  )
  new_message("regatta_message_pool", message, host = host)
}
