#ifndef REGATTA_RNG_STREAM_H
#define REGATTA_RNG_STREAM_H

#include <stddef.h>
#include <stdint.h>

/* Streams of L'Ecuyer's MRG32k3a. A state is six words in the order of R's .Random.seed: three of
 * the first component, three of the second, as the bits of signed integers. */

/* The i-th stream after base: i times parallel::nextRNGStream(); i < 1 gives base itself. */
void rg_rng_stream(const int32_t base[6], int64_t i, int32_t out[6]);

/* The k-th substream of in: k times parallel::nextRNGSubStream(). */
void rg_rng_substream(const int32_t in[6], int64_t k, int32_t out[6]);

/* The state that set.seed(seed, "L'Ecuyer-CMRG") gives. */
void rg_rng_number(int32_t seed, int32_t out[6]);

/* A valid state that depends on every bit of n words. */
void rg_rng_hash(const uint32_t *words, size_t n, int32_t out[6]);

#endif
