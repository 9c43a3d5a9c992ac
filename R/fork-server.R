# The fork server: one clean R process, started as a program, that has loaded what is asked for and forks
# workers in milliseconds. It shares nothing with the session but a pair of connected sockets
# (src/fork-server.h), so that a session that must not be forked gets workers from it. It is kept for the
# next pool that needs the same packages, unless they have been installed anew, and ends with the session.

# Seconds within which a server must have loaded what it is to load.
fork_server_patience <- 300

# The server for these packages, started if there is none that is alive: `server`, and `base`, what the settings
# of the session are compared with. If it `forks` it has loaded them; otherwise each worker is a program that
# does. `options`: those that workers are to have, NULL the session's.
fork_server <- function(packages, call = NULL, forks = TRUE, options = NULL) {
  config <- fork_server_config(packages, forks, options)
  key <- paste(c(config$packages, "", config$from, "", config$lib, "", forks), collapse = "\n")
  known <- the$servers[[key]]
  if (!is.null(known) && !.Call(ffi_fork_server_state, known$server)$alive) {
    fork_server_stop(known)
    known <- NULL
  } else if (!is.null(known) && any(are_renewed(known$loaded, seq_along(known$loaded$name)))) {
    # It is that of other pools still.
    the$servers <- c(the$servers, list(known))
    known <- NULL
  }
  if (is.null(known)) the$servers[[key]] <- fork_server_start(config, call)
  the$servers[[key]]
}

fork_server_config <- function(packages, forks, options = NULL) {
  if (is.null(options)) options <- options_sent(options_take(whole = FALSE))
  loaded <- loaded_packages()
  list(
    packages = as.character(packages), from = loaded$library[match(packages, loaded$name)],
    command = if (!forks) r_command("regatta:::fork_member_main()"),
    options = options, locale = settings_locale(), collation = settings_collation(), lib = .libPaths(), dir = getwd(),
    env = Sys.getenv(names(fork_server_env()), NA, names = TRUE)
  )
}

r_command <- function(code) {
  c(file.path(R.home("bin"), "R"), "--vanilla", "--no-echo", "-e", code)
}

# The server has the environment of the session, but for these while R starts: where it finds the
# package; temporary files below those of the session, with which they go; the packages that every R
# process attaches, the last of them in front; no start-up code of R CMD check.
fork_server_env <- function() {
  lib <- unique(c(dirname(getNamespaceInfo("regatta", "path")), .libPaths()))
  c(
    R_LIBS = paste(lib, collapse = .Platform$path.sep), TMPDIR = tempdir(),
    R_DEFAULT_PACKAGES = paste(rev(setdiff(default_packages(), "base")), collapse = ","), R_TESTS = ""
  )
}

# However this is left without a server that serves, there is none.
fork_server_start <- function(config, call = NULL) {
  set <- fork_server_env()
  env <- Sys.getenv()
  env <- c(env[setdiff(names(env), names(set))], set)
  server <- NULL
  base <- settings_base()
  serves <- FALSE
  on.exit(if (!serves && !is.null(server)) .Call(ffi_fork_server_stop, server))
  server <- .Call(
    ffi_fork_server_start, r_command("regatta:::fork_server_main()"), paste0(names(env), "=", env),
    !is.null(config$command)
  )
  if (is.integer(server)) {
    reason <- .Call(ffi_system_message, server)
    server <- NULL
    signal_error(error_server("cannot be started", reason, call = call))
  }
  sent <- .Call(ffi_fork_server_send, server, serialize(config, NULL))
  reply <- if (sent) .Call(ffi_fork_server_receive, server, fork_server_patience) else FALSE
  if (is.null(reply)) {
    reason <- sprintf("it has not loaded its packages within %d s", fork_server_patience)
    signal_error(error_server("does not answer", reason, call = call))
  } else if (!is.raw(reply)) {
    reason <- "it has ended"
    log <- .Call(ffi_fork_server_state, server)$log
    signal_error(error_server("cannot be started", reason, log = log, call = call))
  }
  reply <- unserialize(reply)
  if (!is.null(reply$failed)) {
    signal_error(error_server("cannot load its packages", reply$failed, call = call))
  }
  serves <- TRUE
  list(
    server = server, temp = reply$temp, loaded = reply$loaded, base = base,
    config = if (!is.null(config$command)) config
  )
}

# What workers that are programs are to load, which know of it by the folder of their temporary files: below that of
# the session, which anybody may remove.
fork_server_note <- function(known) {
  if (is.null(known$config)) {
    return(invisible())
  }
  path <- file.path(known$temp, member_config)
  if (!file.exists(path)) {
    dir.create(known$temp, showWarnings = FALSE, recursive = TRUE, mode = "0700")
    saveRDS(known$config, path)
  }
}

# One that was killed has left its folder of temporary files.
fork_server_stop <- function(known) {
  .Call(ffi_fork_server_stop, known$server)
  unlink(known$temp, recursive = TRUE)
}

fork_server_stop_all <- function() {
  for (known in the$servers) fork_server_stop(known)
  the$servers <- list()
}

# In the server.

fork_server_main <- function() {
  bytes <- if (.Call(ffi_fork_serve_begin)) .Call(ffi_fork_serve_receive)
  if (!is.null(bytes)) {
    config <- unserialize(bytes)
    failed <- tryCatch(fork_server_load(config), error = conditionMessage)
    loaded <- loaded_packages()[c("name", "library", "stamp")]
    .Call(ffi_fork_serve_send, serialize(list(failed = failed, temp = tempdir(), loaded = loaded), NULL))
    if (is.null(failed)) {
      idle <- if (is.null(config$command)) quote(fork_server_idle())
      .Call(ffi_fork_serve, quote(member_main()), idle, topenv(), as.character(config$command))
    }
  }
  quit("no", runLast = FALSE)
}

# Workers that are programs load what they need themselves.
fork_server_load <- function(config) {
  if (!is.null(config$command)) {
    Sys.setenv(TMPDIR = tempdir())
    return(NULL)
  }
  fork_server_become(config)
  load_member_code()
  if (length(config$packages) > 0L) gc() # objects that have survived one are not written to by those of workers
  NULL
}

# The first workers are waited for. What they can read by themselves, where they need it at all, later ones have from
# here: it is read in steps, one at a time while nobody asks for a worker. FALSE after the last.
fork_server_idle <- function() {
  # The first four are what a worker does at the ends of its first run.
  steps <- expression(
    search_take(), methods_now(), generics_take(), job_reset(c(job_before(), list(search = search_take()))),
    load_error_code(), loadNamespace("rlang"), h5_load(), eapply(topenv(), force, all.names = TRUE), gc()
  )
  the$server_steps <- the$server_steps + 1L
  or_else(eval(steps[[the$server_steps]], topenv()), NULL)
  the$server_steps < length(steps)
}

member_config <- "regatta-config.rds"

fork_server_become <- function(config) {
  restore_env(config$env)
  .libPaths(config$lib, include.site = FALSE)
  if (!is.null(config$dir)) enter_directory(config$dir)
  for (k in seq_along(config$packages)) {
    # From where the session has it.
    libraries <- unique(c(setdiff(config$from[[k]], c(NA, "")), .libPaths()))
    library(config$packages[[k]], character.only = TRUE, lib.loc = libraries)
  }
  set_locale(config$locale)
  set_collation(config$collation)
  set_options(config$options)
  the$options_given <- names(config$options)
  NULL
}

# In a worker that is a program of its own. What goes wrong before it is a worker is told to stderr, which is
# the server's.
fork_member_main <- function() {
  if (.Call(ffi_fork_member_begin)) {
    config <- readRDS(file.path(Sys.getenv("TMPDIR"), member_config))
    failed <- tryCatch(fork_server_become(config), error = conditionMessage)
    if (is.null(failed)) .Call(ffi_fork_member_main, quote(member_main()), topenv())
    cat("a worker cannot load its packages: ", failed, "\n", sep = "", file = stderr())
  }
  quit("no", 1L, runLast = FALSE)
}

# In a worker, forked or not: what the session says, one after the other, until it has gone. An
# interrupt is for an element; one that comes too late is for nothing.

member_main <- function() {
  fork_worker_isolate()
  repeat {
    withCallingHandlers(
      member_step(.Call(ffi_fork_member_next)),
      interrupt = function(cnd) tryInvokeRestart("resume")
    )
  }
}

member_step <- function(message) {
  verb <- message$verb # it is waited for here
  fork_tempdir()
  if (verb == "run") {
    member_run(message$bytes)
  } else {
    .Call(ffi_fork_member_reply, member_call(message$bytes))
  }
}

# The workers of a server have its folder of temporary files, and so do all that it makes later: where an element has
# removed it, it is there again.
fork_tempdir <- function() {
  dir <- tempdir()
  if (!dir.exists(dir)) dir.create(dir, showWarnings = FALSE, recursive = TRUE, mode = "0700")
}

# What the run needs is known when the worker has it; if it cannot have it, the session is told why.
member_run <- function(bytes) {
  undo <- tryCatch(member_begin(bytes), error = function(e) {
    .Call(ffi_fork_member_refuse, conditionMessage(e))
  })
  evaluate_begin(the$plan$control, the$plan$seed, notes = the$plan$notes)
  evaluate_all(the$plan$loop)
  member_end(undo)
  .Call(ffi_fork_member_leave)
}

# Returns how the process was.
member_begin <- function(bytes) {
  job <- job_unpack(unserialize(bytes))
  .Call(ffi_fork_member_ready)
  # Between two runs nothing is called in this process. What comes with a package that a run has loaded stays.
  before <- the$rest
  the$rest <- NULL
  if (is.null(before) || !identical(before$loaded, loadedNamespaces())) before <- job_before()
  undo <- job_set(job, before)
  the$plan <- job
  undo
}

member_end <- function(undo) {
  the$plan <- NULL
  job_reset(undo)
  the$rest <- undo
  while (sink.number() > 0L) sink()
  if (sum(.Call(ffi_shm_info)$bytes) > 1e6) gc() # what the run has left of the session's memory
}

# What the loop of parallel's workers does with a message.
member_call <- function(bytes) {
  the$rest <- NULL
  attach_for()
  data <- unserialize(bytes)$data
  failed <- function(e) {
    structure(conditionMessage(e), class = c("snow-try-error", "try-error"))
  }
  begun <- proc.time()
  value <- tryCatch(do.call(data$fun, data$args, quote = TRUE), error = failed)
  reply <- function(value) {
    to_bytes(list(
      type = "VALUE", value = if (isTRUE(data$return)) value, success = TRUE,
      time = proc.time() - begun, tag = data$tag
    ))
  }
  tryCatch(reply(value), error = function(e) reply(failed(e)))
}
