par_last <- function() {
  the$last
}

par_replay <- function(run = par_last(), i = NULL) {
  check_run(run)
  i <- check_element(i, run)
  try <- if (run$control$retry_seed == "new") run$elements$try[[i]] else 1L
  rng_with(rng_element_seed(run$replay$base_seed, i, max(1L, try)), {
    replay_call(run$replay$X, run$replay$FUN, i, protect_language(run$replay$args))
  })
}

replay_call <- function(X, FUN, i, args) do.call("FUN", c(list(quote(X[[i]])), args))
environment(replay_call) <- caller_home

# The number of an element of a run; without one that of the first that has failed.
check_element <- function(i, run, call = rlang::caller_env()) {
  given <- i
  if (is.null(i) && length(run$errors) > 0L) {
    return(run$errors[[1L]]$index)
  }
  if (is.character(i)) {
    i <- match(i, run$names)
  }
  if (!is_whole(i) || i < 1 || i > run$n) {
    must <- sprintf("the number or name of one of %s", count_of(run$n, "element", "elements"))
    if (is.null(given)) must <- paste0(must, ", of which none has failed")
    abort_argument("i", given, must, call)
  }
  i
}

# Evaluates `code` with this seed and leaves the session's generator as it was.
rng_with <- function(seed, code) {
  before <- rng_save()
  on.exit(rng_restore(before))
  if (!is.null(seed)) {
    rng_use(seed)
  }
  code
}
