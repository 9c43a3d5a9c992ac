#include "rng-state.h"

#include <pthread.h>
#include <string.h>

int rg_rng_state_words(int generator) {
  switch (generator) {
    case RG_WICHMANN_HILL: return 3;
    case RG_MARSAGLIA_MULTICARRY:
    case RG_SUPER_DUPER: return 2;
    case RG_MERSENNE_TWISTER: return 1 + RG_TWISTER_WORDS;
    case RG_KNUTH_TAOCP:
    case RG_KNUTH_TAOCP_2002: return 100 + 1;
    case RG_LECUYER: return 6;
    default: return 0;
  }
}

static uint32_t stir(uint32_t before, uint32_t factor) { return (before ^ (before >> 30)) * factor; }

/* Where every key begins. */
static uint32_t beginning[RG_TWISTER_WORDS];
static pthread_once_t beginning_once = PTHREAD_ONCE_INIT;

static void fill_beginning(void) {
  beginning[0] = 19650218u;
  for (int i = 1; i < RG_TWISTER_WORDS; i++) {
    beginning[i] = stir(beginning[i - 1], 1812433253u) + (uint32_t)i;
  }
}

static int after(int i) { return i + 1 < RG_TWISTER_WORDS ? i + 1 : 1; }

/* Matsumoto and Nishimura (2002), "Mersenne Twister with improved initialization", mt19937ar. Different
 * keys of six words give different states: the second pass can be undone, and after the first each word from the
 * third on tells, with the one before it, which word of the key was added to it. */
void rg_rng_state_twister(const uint32_t *key, int n, uint32_t state[RG_TWISTER_WORDS]) {
  pthread_once(&beginning_once, fill_beginning);
  memcpy(state, beginning, sizeof beginning);
  /* Round and round: after the last word comes word 1, word 0 is set at the end. */
  int i = 1, steps = n > RG_TWISTER_WORDS ? n : RG_TWISTER_WORDS;
  uint32_t before = state[0];
  for (int k = 0, j = 0; k < steps; k++, j = j + 1 < n ? j + 1 : 0, i = after(i)) {
    before = state[i] = (state[i] ^ stir(before, 1664525u)) + key[j] + (uint32_t)j;
  }
  for (int k = 1; k < RG_TWISTER_WORDS; k++, i = after(i)) {
    before = state[i] = (state[i] ^ stir(before, 1566083941u)) - (uint32_t)i;
  }
  state[0] = 0x80000000u;
}

/* The older generators have few words, and are given some of a twister's. Its first word is the same for all. */
void rg_rng_state_fill(int generator, const int32_t stream[6], int32_t *words) {
  static const uint32_t wichmann_hill[3] = {30269, 30307, 30323};
  uint32_t key[6], state[RG_TWISTER_WORDS], out[RG_MOST_STATE_WORDS] = {0};
  int n = rg_rng_state_words(generator);
  memcpy(key, stream, sizeof key);
  if (generator == RG_LECUYER) {
    memcpy(words, stream, sizeof key);
    return;
  }
  rg_rng_state_twister(key, 6, state);
  switch (generator) {
    case RG_WICHMANN_HILL:
      for (int i = 0; i < n; i++) out[i] = 1 + state[1 + i] % (wichmann_hill[i] - 1);
      break;
    case RG_MARSAGLIA_MULTICARRY:
      for (int i = 0; i < n; i++) out[i] = state[1 + i] ? state[1 + i] : 1;
      break;
    case RG_SUPER_DUPER:
      out[0] = state[1] ? state[1] : 1;
      out[1] = state[2] | 1; /* the factor of a congruential generator without a constant */
      break;
    case RG_MERSENNE_TWISTER:
      out[0] = RG_TWISTER_WORDS; /* how many of the words have been used up */
      memcpy(out + 1, state, sizeof state);
      break;
    default: /* Knuth's: numbers below 2^30, of which one must be odd, and how many of them have been used up */
      for (int i = 0; i < n - 1; i++) out[i] = state[1 + i] >> 2;
      out[0] |= 1;
      out[n - 1] = 100;
  }
  memcpy(words, out, (size_t)n * sizeof *words);
}
