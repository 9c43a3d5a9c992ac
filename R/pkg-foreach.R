# foreach: `%dopar%` evaluates its iterations by a map of this package. What foreach asks of a backend is in
# its setDoPar() and in the vignette of package iterators: arguments come from an iterator, results go to an
# accumulator, which combines them and keeps the first error.

registerDoRegatta <- function(.on = getOption("regatta.on"),
                              .control = getOption("regatta.control", par_control())) {
  rlang::check_installed("foreach", "for `registerDoRegatta()`.")
  call <- sys.call()
  where <- where_to_run(.on, check_control(.control, 0L, call = call), call)
  foreach::setDoPar(foreach_evaluate, where, foreach_info)
  invisible()
}

# For getDoParName(), getDoParVersion() and getDoParWorkers().
foreach_info <- function(data, item) {
  switch(item,
    name = "doRegatta",
    version = utils::packageDescription("regatta", fields = "Version"),
    workers = where_workers(data)
  )
}

# So many iterations are one map unless `ahead` says otherwise. An iterator may be long, or without an end
# that is known: its values, and the results of its iterations, are in memory for one map at a time.
foreach_ahead <- 10000L

# `%dopar%`: `loop` is what foreach() has returned, `body` the expression, `env` where it stands, `data` what
# registerDoRegatta() has given to foreach.
foreach_evaluate <- function(loop, body, env, data) {
  call <- foreach_call(body)
  options <- foreach_options(loop$options$regatta, call)
  data <- foreach_where(options, data, call)
  ahead <- if (is.null(options$ahead)) foreach_ahead else options$ahead
  if (loop$errorHandling != "stop") data$control$errors <- "collect"
  iterator <- iterators::iter(loop)
  accumulate <- foreach::makeAccum(iterator)
  series <- series_new()
  on.exit(series_close(series))
  repeat {
    arguments <- as.list(iterator, n = ahead)
    done <- series$before
    if (done == 0) iteration <- foreach_iteration(loop, body, env, names(arguments[1L][[1L]]), call)
    if (length(arguments) > 0L) {
      # Tags are also the names that failures and output get.
      tags <- done + seq_along(arguments)
      names <- if (done > 0) sprintf("iteration %.0f", tags)
      values <- withCallingHandlers(
        map_list(
          arguments, iteration$fun, iteration$args, "foreach", call, data$on, data$control, names,
          keyed = foreach_keyed(arguments, iteration, loop), series = series
        ),
        # That of this loop, which knows what became of them, and of none within an iteration.
        regatta_warning_errors = function(w) if (identical(w$call, call)) tryInvokeRestart("muffleWarning")
      )
      accumulate(lapply(unname(values), foreach_value), tags)
      series_next(series, length(arguments))
    }
    if (length(arguments) < ahead) break
  }
  foreach::getResult(iterator)
}

# The call that an error shows: as the user has written it, but for the body.
foreach_call <- function(body) {
  calls <- sys.calls()
  is_dopar <- vapply(calls, function(call) identical(call[[1L]], quote(`%dopar%`)), NA)
  if (any(is_dopar)) calls[[max(which(is_dopar))]] else call("%dopar%", quote(foreach(...)), body)
}

# `.options.regatta`: a list with `on`, `control` and `ahead` for this loop.
foreach_options <- function(options, call) {
  known <- c("on", "control", "ahead")
  if (length(options) > 0L && (is.null(names(options)) || !all(names(options) %in% known))) {
    must <- paste("a list with names among", quoted(known))
    abort_argument(".options.regatta", options, must, call = call)
  }
  options$ahead <- check_count(options$ahead, ".options.regatta$ahead", null = TRUE, call = call)
  options
}

foreach_where <- function(options, data, call) {
  on <- if (is.null(options$on)) data$on else options$on
  control <- if (is.null(options$control)) data$control else check_control(options$control, 0L, call = call)
  where_to_run(on, control, call)
}

# What a map calls for each list of arguments: list(fun, args). The body becomes a function of them, with
# what `.export` names beside it; as one of `args` it and they are looked through for what they use of the
# workspace by workers that do not inherit it.
foreach_iteration <- function(loop, body, env, variables, call) {
  missing <- setdiff(loop$export, foreach_found(loop$export, env))
  if (length(missing) > 0L) {
    abort_argument(".export", missing, "names of variables that are there", call = call)
  }
  exported <- mget(as.character(setdiff(loop$export, loop$noexport)), envir = env, inherits = TRUE)
  frame <- list2env(exported, parent = env)
  formals <- structure(rep(list(quote(expr = )), length(variables)), names = variables)
  frame$iteration <- as.function(c(formals, list(body)), envir = frame)
  list(
    fun = foreach_function(frame, variables, loop$packages),
    args = c(list(frame$iteration), Filter(is.function, unname(exported)))
  )
}

# What a checkpoint keeps the values by is the body as the user knows it, by the variables that it names.
foreach_keyed <- function(arguments, iteration, loop) {
  list(
    fun = iteration$args[[1L]], args = list(loop$packages), content = function(i) arguments[[i]],
    shape = "foreach"
  )
}

foreach_found <- function(names, env) {
  Filter(function(name) exists(name, envir = env, inherits = TRUE), names)
}

# The values are passed by name, so that a call in a traceback shows names and not all they hold.
foreach_function <- function(frame, variables, packages) {
  symbols <- structure(lapply(variables, as.name), names = variables)
  call <- as.call(c(list(quote(iteration)), symbols))
  force(packages)
  function(arguments, ...) {
    for (package in packages) {
      if (!paste0("package:", package) %in% search()) {
        suppressPackageStartupMessages(library(package, character.only = TRUE))
      }
    }
    # In a worker that has not inherited this backend a loop within the iteration runs where it is.
    if (isNamespaceLoaded("foreach") && !foreach::getDoParRegistered()) foreach::registerDoSEQ()
    eval(call, arguments, frame)
  }
}

# An error as the iteration has signalled it: what stands for one that has died is the package's own.
foreach_value <- function(value) {
  if (is_par_error(value) && inherits(value, "regatta_error_element")) value$parent else value
}
