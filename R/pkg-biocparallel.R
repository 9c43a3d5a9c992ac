# Package BiocParallel: a param whose tasks are calls in the background, see R/par-call.R. BiocParallel's own code
# deals out, reduces, logs and seeds; what a backend owes it are the generic functions of its interface for
# developers. Class and methods are made when it is loaded, nothing of it is imported.

RegattaParam <- function(workers = NULL, tasks = 0L, stop.on.error = TRUE, progressbar = FALSE, RNGseed = NULL,
                         timeout = NA_integer_, log = FALSE, threshold = "INFO", logdir = NA_character_,
                         resultdir = NA_character_, jobname = "BPJOB", exportglobals = TRUE,
                         exportvariables = NULL, force.GC = FALSE, fallback = TRUE,
                         .on = getOption("regatta.on"), .control = getOption("regatta.control", par_control())) {
  rlang::check_installed("BiocParallel", "for `RegattaParam()`.")
  loadNamespace("BiocParallel")
  call <- sys.call()
  place <- where_with_workers(workers, .on, check_control(.control, 1, call = call), call)
  one_each <- progressbar && missing(tasks)
  if (!isTRUE(is.na(tasks))) tasks <- check_count(tasks, "tasks", min = 0, call = call)
  # Workers that are forked have the variables of the session.
  if (is.null(exportvariables)) exportvariables <- !is.null(place$on)
  param <- the$biocparallel$make(
    workers = where_workers(place),
    tasks = if (one_each) .Machine$integer.max else as.integer(tasks),
    jobname = jobname, log = log, logdir = logdir, threshold = threshold, resultdir = resultdir,
    stop.on.error = stop.on.error, timeout = as.integer(timeout),
    exportglobals = exportglobals,
    exportvariables = exportvariables,
    progressbar = progressbar, RNGseed = if (!is.null(RNGseed)) as.integer(RNGseed), RNGstream = NULL,
    force.GC = force.GC, fallback = fallback, place = place, backend = NULL
  )
  methods::validObject(param)
  param
}

biocparallel_hook <- function() {
  if (isNamespaceLoaded("BiocParallel")) biocparallel_register()
  setHook(packageEvent("BiocParallel", "onLoad"), function(...) biocparallel_register())
}

biocparallel_fun <- function(name) get(name, envir = asNamespace("BiocParallel"))

# In an environment of their own: a namespace is locked by the time they are made.
biocparallel_register <- function() {
  # Methods that the class inherits look for functions there.
  where <- new.env(parent = asNamespace("BiocParallel"))
  assign(".packageName", "regatta", envir = where)
  where$make <- methods::setRefClass("RegattaParam",
    contains = "BiocParallelParam", fields = list(place = "ANY", backend = "ANY"), where = where
  )
  methods::setClass("RegattaBackend", contains = "environment", where = where)
  where$make_backend <- function() methods::new(methods::getClass("RegattaBackend", where = where))
  the$biocparallel <- where
  set <- function(name, class, method) {
    generic <- methods::getGeneric(name, where = asNamespace("BiocParallel"))
    methods::setMethod(generic, class, method, where = where)
  }
  set("bpbackend", "RegattaParam", function(x) x$backend)
  set("bpisup", "RegattaParam", function(x) biocparallel_is_up(x))
  set("bpstart", "RegattaParam", function(x, ...) biocparallel_start(x))
  set("bpstop", "RegattaParam", function(x) biocparallel_stop(x))
  set("bpschedule", "RegattaParam", function(x) biocparallel_schedules())
  set("bpworkers<-", c("RegattaParam", "numeric"), function(x, value) biocparallel_set_workers(x, value))
  set("bplog<-", c("RegattaParam", "logical"), function(x, value) biocparallel_set(x, "log", value))
  set("bpthreshold<-", c("RegattaParam", "character"), function(x, value) biocparallel_set(x, "threshold", value))
  set(".send_to", "RegattaBackend", function(backend, node, value) biocparallel_send(backend, node, value))
  set(".recv_any", "RegattaBackend", function(backend) biocparallel_receive(backend))
  methods::setMethod("length", "RegattaBackend", function(x) x$workers, where = where)
}

# A process that was forked with it, as a worker is, has not started it.
biocparallel_is_up <- function(param) {
  is.environment(param$backend) && identical(param$backend$pid, Sys.getpid())
}

biocparallel_start <- function(param) {
  if (!biocparallel_is_up(param)) {
    param$backend <- biocparallel_backend(param)
    biocparallel_fun(".bpstart_impl")(param)
  }
  invisible(param)
}

biocparallel_backend <- function(param) {
  backend <- the$biocparallel$make_backend()
  backend$pid <- Sys.getpid()
  backend$place <- param$place
  backend$workers <- as.integer(param$workers)
  backend$calls <- list() # by the number of the node
  backend
}

biocparallel_stop <- function(param) {
  if (biocparallel_is_up(param)) {
    for (call in param$backend$calls) run_close(call$handle$run)
    param$backend$calls <- list()
    biocparallel_fun(".bpstop_impl")(param)
  }
  param$backend <- NULL
  invisible(param)
}

# A worker that has one core for all that it does does not start others.
biocparallel_schedules <- function() {
  !nzchar(Sys.getenv("REGATTA_SHARE")) || workers_available() > 1L
}

biocparallel_set_workers <- function(param, value) {
  if (biocparallel_is_up(param)) stop("use `bpstop()` before the number of workers is changed")
  param$workers <- check_count(value, "workers")
  param$place$control$workers <- param$workers
  param$workers <- where_workers(param$place)
  param
}

biocparallel_set <- function(param, field, value) {
  param$field(field, value)
  methods::validObject(param)
  param
}

biocparallel_send <- function(backend, node, task) {
  if (task$type != "EXEC") {
    return(TRUE)
  }
  place <- backend$place
  control <- place$control
  control[c("errors", "messages")] <- c("stop", "drop")
  control[c("seed", "progress")] <- FALSE
  frame <- list2env(list(task = task, evaluate = biocparallel_evaluate), parent = baseenv())
  handle <- call_begin(quote(evaluate(task)), frame, place$on, control, quote(RegattaParam()),
    prefix = function(...) "", beside = backend$workers)
  backend$calls[[as.character(node)]] <- list(handle = handle, task = task)
  TRUE
}

# In a worker. BiocParallel has messages with the output, which are handlers' in a worker of this package.
biocparallel_evaluate <- function(task) {
  withCallingHandlers(
    with_assignable(names(task$data$args$GLOBALS), get(".bpworker_EXEC", envir = asNamespace("BiocParallel"))(task)),
    message = function(m) {
      cat(conditionMessage(m), file = stderr())
      tryInvokeRestart("muffleMessage")
    }
  )
}

# Waits for the first task that is done. An interrupt ends all.
biocparallel_receive <- function(backend) {
  left <- TRUE
  on.exit(if (left) biocparallel_leave(backend))
  begun <- .Call(ffi_clock)
  repeat {
    for (node in names(backend$calls)) {
      call <- backend$calls[[node]]
      value <- tryCatch(
        if (par_done(call$handle)) par_value(call$handle),
        regatta_error = function(e) biocparallel_failed(call$task, e)
      )
      if (!is.null(value)) {
        backend$calls[[node]] <- NULL
        left <- FALSE
        return(list(node = as.integer(node), value = value))
      }
    }
    Sys.sleep(poll_pause(.Call(ffi_clock) - begun))
  }
}

biocparallel_leave <- function(backend) {
  for (call in backend$calls) run_close(call$handle$run)
  backend$calls <- list()
}

# What a task gives whose worker has died: the error for each of its elements, in the form of a failure there. Which of
# the user's elements these are only BiocParallel knows.
biocparallel_failed <- function(task, error) {
  error <- with_unit(error, paste("a task of", count_of(length(task$data$args$X), "element", "elements")))
  class(error) <- append(class(error), c("remote_error", "bperror"), after = match("error", class(error)) - 1L)
  attr(error, "traceback") <- character()
  list(
    type = "VALUE", tag = task$data$tag, value = rep(list(error), length(task$data$args$X)), success = FALSE,
    time = proc.time() - proc.time(), log = NULL, sout = NULL
  )
}
