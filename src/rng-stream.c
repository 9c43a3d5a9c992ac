#include "rng-stream.h"

#include <pthread.h>
#include <string.h>

/* Component j of the generator maps its state s to A_j s mod m_j. A stream begins 2^127 steps after
 * the one before it, a substream 2^76 steps; L'Ecuyer et al. (2002), Operations Research 50(6). */

enum { ORDER = 3, COMPONENTS = 2, BITS = 63 };

typedef struct {
  uint32_t a[ORDER][ORDER];
} matrix;

static const uint32_t modulus[COMPONENTS] = {4294967087u, 4294944443u};

/* jumps[kind][c][b] advances component c by 2^b streams (kind 0) or substreams (kind 1). Filled
 * once and only read afterwards; a child forked later inherits it filled. */
static matrix jumps[2][COMPONENTS][BITS];
static pthread_once_t jumps_once = PTHREAD_ONCE_INIT;

/* The moduli as constants: the compiler then needs no division, which is most of a step. */
static uint64_t reduce(uint64_t x, int component) {
  return component == 0 ? x % 4294967087u : x % 4294944443u;
}

/* x * y modulo the modulus, of which the result has the remainder but is not it: less than 2^48, so that some
   can be added up before they are reduced. 2^32 is 209 modulo the first modulus, 22853 modulo the second. */
static uint64_t multiply_about(uint32_t x, uint32_t y, int component) {
  uint64_t product = (uint64_t)x * y;
  return (product >> 32) * (component == 0 ? 209u : 22853u) + (uint32_t)product;
}

static uint64_t multiply(uint32_t x, uint32_t y, int component) {
  return reduce((uint64_t)x * y, component);
}

static matrix square(const matrix *x, int component) {
  matrix out;
  for (int i = 0; i < ORDER; i++) {
    for (int j = 0; j < ORDER; j++) {
      uint64_t sum = 0;
      for (int k = 0; k < ORDER; k++) {
        sum += multiply(x->a[i][k], x->a[k][j], component);
      }
      out.a[i][j] = (uint32_t)reduce(sum, component);
    }
  }
  return out;
}

static void fill_jumps(void) {
  static const int exponent[2] = {127, 76};
  static const matrix step[COMPONENTS] = {
    {{{0, 1, 0}, {0, 0, 1}, {4294967087u - 810728u, 1403580u, 0}}},
    {{{0, 1, 0}, {0, 0, 1}, {4294944443u - 1370589u, 0, 527612u}}},
  };
  for (int kind = 0; kind < 2; kind++) {
    for (int c = 0; c < COMPONENTS; c++) {
      matrix power = step[c];
      for (int e = 0; e < exponent[kind]; e++) {
        power = square(&power, c);
      }
      for (int b = 0; b < BITS; b++) {
        jumps[kind][c][b] = power;
        power = square(&power, c);
      }
    }
  }
}

static inline void advance(const matrix *by, int component, uint32_t s[ORDER]) {
  uint32_t out[ORDER];
  for (int i = 0; i < ORDER; i++) {
    uint64_t sum = 0;
    for (int k = 0; k < ORDER; k++) {
      sum += multiply_about(by->a[i][k], s[k], component);
    }
    out[i] = (uint32_t)reduce(sum, component);
  }
  memcpy(s, out, sizeof out);
}

static void jump(int kind, const int32_t in[6], int64_t times, int32_t out[6]) {
  uint32_t state[COMPONENTS][ORDER];
  pthread_once(&jumps_once, fill_jumps);
  memcpy(state, in, sizeof state);
  for (int b = 0; times > 0 && b < BITS; b++, times >>= 1) {
    if (times & 1) {
      advance(&jumps[kind][0][b], 0, state[0]);
      advance(&jumps[kind][1][b], 1, state[1]);
    }
  }
  memcpy(out, state, sizeof state);
}

void rg_rng_stream(const int32_t base[6], int64_t i, int32_t out[6]) {
  jump(0, base, i, out);
}

void rg_rng_substream(const int32_t in[6], int64_t k, int32_t out[6]) {
  jump(1, in, k, out);
}

/* set.seed() runs the congruential generator x -> 69069 x + 1 mod 2^32 fifty times on the seed and
 * takes each word as its next value below the smaller modulus. */
void rg_rng_number(int32_t seed, int32_t out[6]) {
  uint32_t x = (uint32_t)seed;
  for (int i = 0; i < 50; i++) {
    x = 69069u * x + 1u;
  }
  for (int j = 0; j < 6; j++) {
    do {
      x = 69069u * x + 1u;
    } while (x >= modulus[1]);
    out[j] = (int32_t)x;
  }
}

/* The finalizer of splitmix64 (Steele, Lea and Flood 2014): a bijection in which every bit of the
 * input changes about half of the output. */
static uint64_t mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void rg_rng_hash(const uint32_t *words, size_t n, int32_t out[6]) {
  for (int lane = 0; lane < 3; lane++) {
    uint64_t h = mix((uint64_t)n * 4u + (uint64_t)lane);
    for (size_t i = 0; i < n; i++) {
      h = mix(h ^ mix(words[i] + ((uint64_t)lane << 32)));
    }
    uint64_t low = mix(h), high = mix(low ^ h);
    /* 1 .. m-1 in every word: no component can be all zero, where it would stay for ever. */
    uint32_t first = (uint32_t)(low % (modulus[0] - 1u)) + 1u;
    uint32_t second = (uint32_t)(high % (modulus[1] - 1u)) + 1u;
    memcpy(&out[lane], &first, sizeof first);
    memcpy(&out[lane + 3], &second, sizeof second);
  }
}
