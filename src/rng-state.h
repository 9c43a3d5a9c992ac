#ifndef REGATTA_RNG_STATE_H
#define REGATTA_RNG_STATE_H

#include <stdint.h>

/* The generators of R, by the numbers that R has for them: the last two digits of the first word of
 * .Random.seed. Of all but these and L'Ecuyer's nobody can make a state. */
enum {
  RG_WICHMANN_HILL = 0,
  RG_MARSAGLIA_MULTICARRY = 1,
  RG_SUPER_DUPER = 2,
  RG_MERSENNE_TWISTER = 3,
  RG_KNUTH_TAOCP = 4,
  RG_KNUTH_TAOCP_2002 = 6,
  RG_LECUYER = 7,
  RG_MOST_STATE_WORDS = 625
};

/* Words of a state, without that for the kind; 0: this generator is not known. */
int rg_rng_state_words(int generator);

/* The state of a generator that belongs to a stream of L'Ecuyer's, which is itself that of his. */
void rg_rng_state_fill(int generator, const int32_t stream[6], int32_t *words);

/* Matsumoto and Nishimura's initialisation of the twister by n words. */
enum { RG_TWISTER_WORDS = 624 };
void rg_rng_state_twister(const uint32_t *key, int n, uint32_t state[RG_TWISTER_WORDS]);

#endif
