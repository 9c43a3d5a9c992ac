session_seed <- function() {
  get0(".Random.seed", globalenv(), inherits = FALSE)
}

# To the end of the caller the session has these kinds of generator, or may be given any. withr's own forgets the kind
# where the session had no seed.
local_rng <- function(..., frame = parent.frame()) {
  kinds <- RNGkind()
  seed <- session_seed()
  withr::defer({
    suppressWarnings(do.call(RNGkind, as.list(kinds)))
    if (is.null(seed)) {
      rm(".Random.seed", envir = globalenv())
    } else {
      assign(".Random.seed", seed, globalenv())
    }
  }, envir = frame)
  if (...length() > 0L) suppressWarnings(RNGkind(...))
}

# Generator, way to make normals, way to make samples.
rng_kinds <- list(
  c("Mersenne-Twister", "Inversion", "Rejection"), c("L'Ecuyer-CMRG", "Inversion", "Rejection"),
  c("Wichmann-Hill", "Inversion", "Rejection"), c("Mersenne-Twister", "Box-Muller", "Rounding"),
  c("Super-Duper", "Ahrens-Dieter", "Rejection"), c("Marsaglia-Multicarry", "Inversion", "Rounding"),
  c("Knuth-TAOCP-2002", "Box-Muller", "Rejection"), c("Knuth-TAOCP", "Inversion", "Rejection")
)
