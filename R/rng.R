# Each element has its own stream of L'Ecuyer's MRG32k3a, found from one base by its index alone, so
# that the numbers do not depend on workers, batches or order. L'Ecuyer, Simard, Chen and Kelton
# (2002), "An object-oriented random-number package with many long streams and substreams".

# integer(7), of the form of `.Random.seed`; NULL for unseeded elements. TRUE takes one number from
# the session's generator, as runif(1) does; a number leaves the session as it is.
rng_base <- function(seed) {
  if (isFALSE(seed)) {
    return(NULL)
  }
  if (!isTRUE(seed)) {
    return(c(rng_kind(), .Call(ffi_rng_base_number, as.integer(seed))))
  }
  drawn <- stats::runif(1L)
  # The draw alone has 32 bits: after some ten thousand calls two of them would be equal. The whole
  # state tells calls apart; the draw is for user-supplied generators, whose state R does not hold.
  state <- get(".Random.seed", envir = globalenv(), inherits = FALSE)
  c(rng_kind(), .Call(ffi_rng_base_state, as.integer(state), drawn))
}

# The session's ways to make normals and samples, with L'Ecuyer's generator beneath them.
rng_kind <- function() {
  kinds <- RNGkind()
  normal <- match(kinds[[2L]], c(
    "Buggy Kinderman-Ramage", "Ahrens-Dieter", "Box-Muller", "user-supplied", "Inversion",
    "Kinderman-Ramage"
  ))
  sample <- match(kinds[[3L]], c("Rounding", "Rejection"))
  as.integer(7L + 100L * (normal - 1L) + 10000L * (sample - 1L))
}

# Element i (from 1) has stream i - 1 of the base, as clusterSetRNGStream() gives it to node i; a
# later try with a new seed has the following substreams of it.
rng_element_seed <- function(base, i, try = 1L) {
  if (is.null(base)) {
    return(NULL)
  }
  .Call(ffi_rng_stream, base, as.double(i), as.integer(try))
}

# NULL: the generator seeds itself from time and pid at its next use.
rng_use <- function(seed) {
  if (is.null(seed)) {
    if (exists(".Random.seed", globalenv(), inherits = FALSE)) rm(".Random.seed", envir = globalenv())
    return(invisible())
  }
  assign(".Random.seed", seed, envir = globalenv())
  # Box-Muller makes normals in pairs and keeps the second outside `.Random.seed`: left there, it
  # would be the first normal of this element.
  if ((seed[[1L]] %/% 100L) %% 100L == 2L) {
    RNGkind(normal.kind = "Box-Muller")
  }
  invisible()
}
