par_last <- function() {
  the$last
}

par_replay <- function(run = par_last(), i) {
  if (!inherits(run, "regatta_run")) {
    abort_argument("run", run, "the record of a run, as of `par_last()`")
  }
  if (is.character(i)) {
    i <- match(i, run$names)
  }
  if (!is_whole(i) || i < 1 || i > run$n) {
    abort_argument("i", i, sprintf("the number or name of one of %.0f elements", run$n))
  }
  X <- run$replay$X
  FUN <- run$replay$FUN
  try <- if (run$control$retry_seed == "new") run$elements$try[[i]] else 1L
  rng_with(rng_element_seed(run$replay$base_seed, i, max(1L, try)), {
    do.call("FUN", c(list(quote(X[[i]])), run$replay$args))
  })
}

# Evaluates `code` with this seed and leaves the session's generator as it was.
rng_with <- function(seed, code) {
  old <- globalenv()$.Random.seed
  kinds <- RNGkind()
  on.exit({
    suppressWarnings(RNGkind(kinds[[1L]], kinds[[2L]], kinds[[3L]]))
    rng_use(old)
  })
  if (!is.null(seed)) {
    rng_use(seed)
  }
  code
}
