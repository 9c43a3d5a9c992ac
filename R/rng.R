# Each element has its own stream of L'Ecuyer's MRG32k3a, found from one base by its index alone, so
# that the numbers do not depend on workers, batches or order. L'Ecuyer, Simard, Chen and Kelton
# (2002), "An object-oriented random-number package with many long streams and substreams". Elements
# draw with the generator of the session, so that set.seed() in an element gives what it gives
# there: the stream is the state of L'Ecuyer's generator, and that of another is made from it.

# integer(7): the kind that elements have, as `.Random.seed` begins with it, and the six words of a stream. NULL for
# unseeded elements. TRUE takes one number from the session's generator, as runif(1) does; a number
# leaves the session as it is.
rng_base <- function(seed) {
  if (isFALSE(seed)) {
    return(NULL)
  }
  if (!isTRUE(seed)) {
    return(c(rng_element_kind(), .Call(ffi_rng_base_number, as.integer(seed))))
  }
  drawn <- stats::runif(1L)
  # The draw alone has 32 bits: after some ten thousand calls two of them would be equal. The whole
  # state tells calls apart; the draw is for user-supplied generators, whose state R does not hold.
  state <- as.integer(globalenv()[[".Random.seed"]])
  c(rng_element_kind(state[[1L]]), .Call(ffi_rng_base_state, state, drawn))
}

# The base of which element 1 has the stream that element `before` + 1 has of this one.
rng_base_from <- function(base, before) {
  if (is.null(base) || before == 0) {
    return(base)
  }
  # The state of L'Ecuyer's generator is the stream itself.
  c(base[[1L]], .Call(ffi_rng_element, c(rng_lecuyer, base[-1L]), before + 1, 1L)[-1L])
}

rng_lecuyer <- 10407L # with inversion and rejection

# The first word of `.Random.seed`: the generator, its ways to make normals and samples, and what a later R may add.
# R gives it only with a state, which a session has that has drawn a number.
rng_kind <- function() {
  RNGkind() # looks at what is in the workspace, and puts a state in the place of what is none
  kind <- function() get(".Random.seed", envir = globalenv(), inherits = FALSE)[[1L]]
  if (exists(".Random.seed", globalenv(), inherits = FALSE)) {
    return(kind())
  }
  suspendInterrupts({ # one between these steps would leave the state there
    stats::runif(1L)
    found <- kind()
    rm(".Random.seed", envir = globalenv())
  })
  found
}

# Elements of a session whose generator is user-supplied have L'Ecuyer's: nobody knows how to make a state of that.
rng_element_kind <- function(kind = rng_kind()) {
  if (kind %% 100L == 5L) kind + 2L else kind
}

# What `.Random.seed` is for element i (from 1), which has stream i - 1 of the base, as clusterSetRNGStream() gives it
# to node i; a later try with a new seed has the following substreams of it.
rng_element_seed <- function(base, i, try = 1L) {
  if (is.null(base)) {
    return(NULL)
  }
  .Call(ffi_rng_element, base, as.double(i), as.integer(try))
}

# NULL: the generator seeds itself from time and pid at its next use. It is then of this `kind`, or of that which it is.
rng_use <- function(seed, kind = NULL) {
  # A state that is nothing but a kind is one that R takes.
  state <- if (is.null(seed)) kind else seed
  if (!is.null(state)) assign(".Random.seed", state, envir = globalenv())
  # R remembers the kind when the state is gone. Box-Muller makes normals in pairs and keeps the second outside
  # `.Random.seed`: left there, it would be the first normal of this element.
  kind <- RNGkind()[[2L]]
  if (kind == "Box-Muller") RNGkind(normal.kind = kind)
  if (is.null(seed) && exists(".Random.seed", globalenv(), inherits = FALSE)) rm(".Random.seed", envir = globalenv())
  invisible()
}

# The generator as it is, to be put back by rng_restore().
rng_save <- function() list(kind = rng_kind(), seed = globalenv()$.Random.seed)

rng_restore <- function(saved) rng_use(saved$seed, saved$kind)
