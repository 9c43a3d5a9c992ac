#include <string.h>

#include "check.h"
#include "rng-state.h"
#include "rng-stream.h"

/* Output i of a twister in this state, from the paper's recurrences; the state is used up after 624. */
static uint32_t output(const uint32_t x[624], int i) {
  uint32_t y = (x[i] & 0x80000000u) | (x[i + 1] & 0x7fffffffu);
  uint32_t z = x[i + 397] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
  z ^= z >> 11;
  z ^= (z << 7) & 0x9d2c5680u;
  z ^= (z << 15) & 0xefc60000u;
  return z ^ (z >> 18);
}

/* The first lines of mt19937ar.out, which Matsumoto and Nishimura give away with their code. */
TEST(a_twister_is_initialised_as_its_authors_do) {
  const uint32_t key[4] = {0x123, 0x234, 0x345, 0x456};
  const uint32_t expected[10] = {1067595299u, 955945823u, 477289528u, 4107218783u, 4228976476u,
                                 3344332714u, 3355579695u, 227628506u, 810200273u, 2591290167u};
  uint32_t state[RG_TWISTER_WORDS];
  rg_rng_state_twister(key, 4, state);
  for (int i = 0; i < 10; i++) CHECK(output(state, i) == expected[i]);
}

static void fill(int generator, const int32_t stream[6], int32_t words[RG_MOST_STATE_WORDS + 1]) {
  words[rg_rng_state_words(generator)] = 12345;
  rg_rng_state_fill(generator, stream, words);
  CHECK(words[rg_rng_state_words(generator)] == 12345);
}

TEST(every_state_is_valid_and_another_for_each_stream) {
  static const int generators[] = {RG_WICHMANN_HILL, RG_MARSAGLIA_MULTICARRY, RG_SUPER_DUPER, RG_MERSENNE_TWISTER,
                                   RG_KNUTH_TAOCP, RG_KNUTH_TAOCP_2002, RG_LECUYER};
  int32_t stream[6], one[RG_MOST_STATE_WORDS + 1], two[RG_MOST_STATE_WORDS + 1];
  rg_rng_number(42, stream);
  for (int round = 0; round < 500; round++) {
    int32_t next[6];
    rg_rng_stream(stream, 1, next);
    for (int g = 0; g < 7; g++) {
      int generator = generators[g], n = rg_rng_state_words(generator);
      fill(generator, stream, one);
      fill(generator, next, two);
      CHECK(memcmp(one, two, (size_t)n * sizeof *one) != 0);
      fill(generator, stream, two);
      CHECK(memcmp(one, two, (size_t)n * sizeof *one) == 0);
      if (generator == RG_WICHMANN_HILL) {
        CHECK(one[0] > 0 && one[0] < 30269 && one[1] > 0 && one[1] < 30307 && one[2] > 0 && one[2] < 30323);
      } else if (generator == RG_SUPER_DUPER || generator == RG_MARSAGLIA_MULTICARRY) {
        CHECK(one[0] != 0 && one[1] != 0 && (generator != RG_SUPER_DUPER || (one[1] & 1)));
      } else if (generator == RG_MERSENNE_TWISTER) {
        CHECK(one[0] == 624 && (uint32_t)one[1] == 0x80000000u);
      } else if (generator == RG_LECUYER) {
        CHECK(memcmp(one, stream, sizeof stream) == 0);
      } else {
        for (int i = 0; i < 100; i++) CHECK(one[i] >= 0 && one[i] < (1 << 30));
        CHECK((one[0] & 1) && one[100] == 100);
      }
    }
    memcpy(stream, next, sizeof stream);
  }
}

TEST(what_is_no_generator_of_ours_has_no_state) {
  CHECK(rg_rng_state_words(5) == 0);
  CHECK(rg_rng_state_words(8) == 0);
  CHECK(rg_rng_state_words(RG_MERSENNE_TWISTER) == RG_MOST_STATE_WORDS);
}
