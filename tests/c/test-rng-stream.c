#include <string.h>

#include "check.h"
#include "rng-stream.h"

/* Against a generator of our own that is stepped, and against itself by the laws of jumps. */

enum { STATE = 6 * sizeof(int32_t) };

static const uint64_t m1 = 4294967087u, m2 = 4294944443u;

/* One step of MRG32k3a, from the paper's recurrences. */
static void step(uint32_t s[6]) {
  uint64_t p1 = (1403580u * (uint64_t)s[1] + (m1 - 810728u) * (uint64_t)s[0] % m1) % m1;
  uint64_t p2 = (527612u * (uint64_t)s[5] + (m2 - 1370589u) * (uint64_t)s[3] % m2) % m2;
  s[0] = s[1], s[1] = s[2], s[2] = (uint32_t)p1;
  s[3] = s[4], s[4] = s[5], s[5] = (uint32_t)p2;
}

/* 2^power steps: the images of the unit vectors, doubled by linearity. */
static void step_power_of_two(uint32_t s[6], int power) {
  uint64_t a[6][6] = {{0}};
  for (int j = 0; j < 6; j++) {
    uint32_t unit[6] = {0};
    unit[j] = 1;
    step(unit);
    for (int i = 0; i < 6; i++) a[i][j] = unit[i];
  }
  for (int p = 0; p < power; p++) {
    uint64_t b[6][6];
    for (int i = 0; i < 6; i++) {
      for (int j = 0; j < 6; j++) {
        uint64_t m = i < 3 ? m1 : m2, sum = 0;
        for (int k = 0; k < 6; k++) sum = (sum + a[i][k] * a[k][j] % m) % m;
        b[i][j] = sum;
      }
    }
    memcpy(a, b, sizeof a);
  }
  uint32_t out[6];
  for (int i = 0; i < 6; i++) {
    uint64_t m = i < 3 ? m1 : m2, sum = 0;
    for (int k = 0; k < 6; k++) sum = (sum + a[i][k] * s[k] % m) % m;
    out[i] = (uint32_t)sum;
  }
  memcpy(s, out, sizeof out);
}

static void base_state(int32_t out[6]) { rg_rng_number(42, out); }

typedef void jump(const int32_t from[6], int64_t times, int32_t to[6]);

static int is_power_of_two_steps(jump *one_jump, int power) {
  int32_t base[6], got[6];
  uint32_t expected[6];
  base_state(base);
  memcpy(expected, base, STATE);
  step_power_of_two(expected, power);
  one_jump(base, 1, got);
  return memcmp(got, expected, STATE) == 0;
}

TEST(a_stream_begins_2_to_the_127_steps_after_the_one_before) {
  CHECK(is_power_of_two_steps(rg_rng_stream, 127));
}

TEST(a_substream_begins_2_to_the_76_steps_after_the_one_before) {
  CHECK(is_power_of_two_steps(rg_rng_substream, 76));
}

TEST(jumps_add_up) {
  int32_t base[6], one[6], two[6];
  uint64_t seed = 5;
  base_state(base);
  rg_rng_stream(base, 0, one);
  CHECK(memcmp(one, base, STATE) == 0);
  for (int round = 0; round < 500; round++) {
    int64_t i = check_below(&seed, (int64_t)1 << check_below(&seed, 61));
    int64_t j = check_below(&seed, (int64_t)1 << check_below(&seed, 61));
    rg_rng_stream(base, i, one);
    rg_rng_stream(one, j, one);
    rg_rng_stream(base, i + j, two);
    CHECK(memcmp(one, two, STATE) == 0);
    rg_rng_substream(base, i, one);
    rg_rng_stream(one, j, one);
    rg_rng_stream(base, j, two);
    rg_rng_substream(two, i, two);
    CHECK(memcmp(one, two, STATE) == 0);
  }
}

static int is_valid(const int32_t state[6]) {
  uint32_t s[6];
  memcpy(s, state, STATE);
  return s[0] < m1 && s[1] < m1 && s[2] < m1 && (s[0] | s[1] | s[2]) && s[3] < m2 && s[4] < m2 &&
         s[5] < m2 && (s[3] | s[4] | s[5]);
}

TEST(every_number_and_every_hash_is_a_valid_state) {
  uint64_t seed = 9;
  for (int round = 0; round < 3000; round++) {
    int32_t state[6], other[6];
    uint32_t words[8];
    rg_rng_number((int32_t)check_random(&seed), state);
    CHECK(is_valid(state));
    for (int i = 0; i < 8; i++) words[i] = (uint32_t)check_random(&seed);
    size_t n = 1 + (size_t)check_below(&seed, 8);
    rg_rng_hash(words, n, state);
    CHECK(is_valid(state));
    words[check_below(&seed, (int64_t)n)] ^= 1u << check_below(&seed, 32);
    rg_rng_hash(words, n, other);
    CHECK(memcmp(state, other, STATE) != 0);
    rg_rng_hash(words, n - 1, state);
    CHECK(memcmp(state, other, STATE) != 0);
  }
}

TEST(streams_of_neighbours_differ) {
  int32_t base[6], one[6], two[6];
  base_state(base);
  for (int64_t i = 0; i < 2000; i++) {
    rg_rng_stream(base, i, one);
    rg_rng_stream(base, i + 1, two);
    CHECK(memcmp(one, two, STATE) != 0);
  }
}
