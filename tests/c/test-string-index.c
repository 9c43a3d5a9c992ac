#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "string-index.h"

/* The numbers of an index are compared with those that a list of all keys has. Keys are never read: any numbers do. */

typedef struct {
  uintptr_t *key;
  int32_t *number; /* -1: it has not come yet */
  int64_t size, seen;
} pool;

/* `key(i)` are distinct. */
static pool pool_of(int64_t size, uintptr_t (*key)(int64_t i)) {
  pool p = {malloc((size_t)size * sizeof *p.key), malloc((size_t)size * sizeof *p.number), size, 0};
  for (int64_t i = 0; i < size; i++) {
    p.key[i] = key(i);
    p.number[i] = -1;
  }
  return p;
}

static void drop(pool *p) {
  free(p->key);
  free(p->number);
}

static int32_t expected(pool *p, int64_t i) {
  if (p->number[i] < 0) p->number[i] = (int32_t)p->seen++;
  return p->number[i];
}

/* Pieces of any size of keys that are drawn from the pool: some come soon again, some once. */
static void try_pool(pool *p, int64_t most, int64_t draws, uint64_t seed) {
  uintptr_t keys[RG_STRING_INDEX_PIECE];
  int32_t numbers[RG_STRING_INDEX_PIECE], right[RG_STRING_INDEX_PIECE];
  rg_string_index *index = rg_string_index_create(most);
  CHECK(index != NULL);
  int64_t from = 0, wrong = 0;
  for (int64_t done = 0; done < draws;) {
    int64_t n = 1 + check_below(&seed, check_below(&seed, 4) ? 40 : RG_STRING_INDEX_PIECE);
    for (int64_t k = 0; k < n; k++) {
      int64_t i = check_below(&seed, 3) ? from++ % p->size : check_below(&seed, p->size);
      keys[k] = p->key[i];
      right[k] = expected(p, i);
    }
    CHECK(rg_string_index_add(index, keys, (size_t)n, numbers) == RG_STRING_INDEX_OK);
    wrong += memcmp(numbers, right, (size_t)n * sizeof *numbers) != 0;
    done += n;
  }
  CHECK(wrong == 0);
  CHECK(rg_string_index_count(index) == p->seen);
  const uintptr_t *found = rg_string_index_keys(index);
  for (int64_t i = 0; i < p->size; i++) wrong += p->number[i] >= 0 && found[p->number[i]] != p->key[i];
  CHECK(wrong == 0);
  rg_string_index_destroy(index);
  drop(p);
}

enum { WITHOUT_MAP = 200000, WITH_MAP = 1 << 20 };

static uintptr_t side_by_side(int64_t i) { return (uintptr_t)0x5555000 + (uintptr_t)i * 56; }
static uintptr_t far_apart(int64_t i) { return (uintptr_t)0x7f0000000000 + ((uintptr_t)i << 18) + 8; }
static uintptr_t in_one_place(int64_t i) { return (uintptr_t)0x5555000 + (uintptr_t)i * 8; }
static uintptr_t of_any_bytes(int64_t i) { return (uintptr_t)0x5555001 + (uintptr_t)i * 33; }
static uintptr_t with_one_home(int64_t i) { return (uintptr_t)1 + ((uintptr_t)i << 52); }

/* One behind the other, they turn to the table in the middle of a piece. */
static uintptr_t near_then_in_one_place(int64_t i) {
  return i < 30000 ? side_by_side(i) : (uintptr_t)0x99990000000 + (uintptr_t)(i - 30000) * 8;
}

TEST(index_numbers_strings_by_their_first_appearance) {
  uintptr_t (*const keys[])(int64_t) = {side_by_side, far_apart, in_one_place, of_any_bytes, near_then_in_one_place};
  for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
    for (int map = 0; map < 2; map++) {
      pool p = pool_of(60000 / check_stride, keys[k]);
      try_pool(&p, map ? WITH_MAP : WITHOUT_MAP, 300000 / check_stride, 17 * k + (uint64_t)map);
    }
  }
}

TEST(index_of_strings_with_one_home_is_slow_and_right) {
  pool p = pool_of(1500, with_one_home);
  try_pool(&p, WITHOUT_MAP, 6000, 5);
}

/* More strings than fit into a map of leaves: the map goes over to a table, whatever stands in it. */
TEST(index_of_strings_far_apart_leaves_its_map) {
  pool p = pool_of(9000, far_apart);
  try_pool(&p, WITH_MAP, 30000, 7);
}

TEST(index_that_is_full_says_so_and_knows_what_came_before) {
  for (int map = 0; map < 2; map++) {
    const int64_t most = map ? 1 << 18 : 1000;
    uintptr_t *keys = malloc((size_t)(most + 10) * sizeof *keys);
    int32_t *numbers = malloc((size_t)(most + 10) * sizeof *numbers);
    for (int64_t i = 0; i < most + 10; i++) keys[i] = side_by_side(i);
    rg_string_index *index = rg_string_index_create(most);
    CHECK(rg_string_index_add(index, keys, (size_t)most, numbers) == RG_STRING_INDEX_OK);
    CHECK(rg_string_index_add(index, keys, (size_t)most, numbers) == RG_STRING_INDEX_OK);
    CHECK(rg_string_index_add(index, keys + most - 1, 3, numbers) == RG_STRING_INDEX_MANY);
    CHECK(numbers[0] == most - 1);
    CHECK(rg_string_index_count(index) == most);
    CHECK(memcmp(rg_string_index_keys(index), keys, (size_t)most * sizeof *keys) == 0);
    rg_string_index_destroy(index);
    free(keys);
    free(numbers);
  }
}

TEST(index_of_nothing) {
  rg_string_index *index = rg_string_index_create(0);
  uintptr_t key = 64;
  int32_t number;
  CHECK(rg_string_index_add(index, &key, 0, &number) == RG_STRING_INDEX_OK);
  CHECK(rg_string_index_count(index) == 0);
  CHECK(rg_string_index_add(index, &key, 1, &number) == RG_STRING_INDEX_MANY);
  rg_string_index_destroy(index);
  rg_string_index_destroy(NULL);
}
