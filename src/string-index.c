#include "string-index.h"

#include <stdlib.h>

/*
 * Open addressing with linear probing; at most half of the slots are in use, so that a search
 * looks at 1.5 slots on average. The home of a key is the top of its product with 2^64 divided
 * by the golden ratio (Knuth, The Art of Computer Programming, vol. 3, section 6.4): addresses
 * differ in their lower bits, which all reach the top ones.
 *
 * A search in a large table waits for memory, and the processor can wait for many lines at
 * once. So the homes of the keys that come later are asked for before a key is looked up.
 */

typedef struct {
  uintptr_t key; /* 0: free */
  int32_t number;
} slot;

struct rg_string_index {
  slot *slots;
  unsigned shift; /* 64 - log2(number of slots) */
  int64_t count, most;
  uintptr_t *keys; /* room for half as many as there are slots */
};

enum { FIRST_BITS = 12, AHEAD = 24 };

#if defined(__GNUC__)
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) ((void)0)
#endif

static inline size_t home(uintptr_t key, unsigned shift) {
  return (size_t)(((uint64_t)key * UINT64_C(0x9E3779B97F4A7C15)) >> shift);
}

static inline size_t slots_of(const rg_string_index *index) {
  return (size_t)1 << (64 - index->shift);
}

rg_string_index *rg_string_index_create(int64_t most) {
  rg_string_index *index = calloc(1, sizeof *index);
  if (!index) return NULL;
  index->shift = 64 - FIRST_BITS;
  index->most = most < INT32_MAX ? most : INT32_MAX;
  index->slots = calloc(slots_of(index), sizeof *index->slots);
  index->keys = malloc(slots_of(index) / 2 * sizeof *index->keys);
  if (!index->slots || !index->keys) {
    rg_string_index_destroy(index);
    return NULL;
  }
  return index;
}

void rg_string_index_destroy(rg_string_index *index) {
  if (!index) return;
  free(index->slots);
  free(index->keys);
  free(index);
}

/* The keys are known to be distinct and are put in by their numbers: no comparisons. */
static void fill(slot *slots, unsigned shift, const uintptr_t *keys, int64_t count) {
  size_t mask = ((size_t)1 << (64 - shift)) - 1;
  for (int64_t i = 0; i < count; i++) {
    if (i + AHEAD < count) PREFETCH(&slots[home(keys[i + AHEAD], shift)]);
    size_t at = home(keys[i], shift);
    while (slots[at].key) at = (at + 1) & mask;
    slots[at].key = keys[i];
    slots[at].number = (int32_t)i;
  }
}

/* Twice the slots; as it was and -1 if there is no memory. */
static int grow(rg_string_index *index) {
  size_t n = slots_of(index) * 2;
  slot *slots = calloc(n, sizeof *slots);
  if (!slots) return -1;
  uintptr_t *keys = realloc(index->keys, n / 2 * sizeof *keys);
  if (!keys) {
    free(slots);
    return -1;
  }
  index->keys = keys;
  index->shift--;
  fill(slots, index->shift, keys, index->count);
  free(index->slots);
  index->slots = slots;
  return 0;
}

/* Puts a key that is not there into the free slot `at`. */
static rg_string_index_status insert(rg_string_index *index, uintptr_t key, size_t at) {
  if (index->count >= index->most) return RG_STRING_INDEX_MANY;
  if ((size_t)index->count >= slots_of(index) / 2) {
    if (grow(index) < 0) return RG_STRING_INDEX_MEMORY;
    size_t mask = slots_of(index) - 1;
    at = home(key, index->shift);
    while (index->slots[at].key) at = (at + 1) & mask;
  }
  index->slots[at].key = key;
  index->slots[at].number = (int32_t)index->count;
  index->keys[index->count++] = key;
  return RG_STRING_INDEX_OK;
}

rg_string_index_status rg_string_index_add(rg_string_index *index, const uintptr_t *keys,
                                           size_t n, int32_t *numbers) {
  slot *slots = index->slots; /* local copies: a store to numbers might change the fields */
  unsigned shift = index->shift;
  size_t mask = slots_of(index) - 1;
  for (size_t i = 0; i < n; i++) {
    if (i + AHEAD < n) PREFETCH(&slots[home(keys[i + AHEAD], shift)]);
    const uintptr_t key = keys[i];
    size_t at = home(key, shift);
    while (slots[at].key != key && slots[at].key) at = (at + 1) & mask;
    if (slots[at].key) {
      numbers[i] = slots[at].number;
      continue;
    }
    numbers[i] = (int32_t)index->count;
    rg_string_index_status status = insert(index, key, at);
    if (status != RG_STRING_INDEX_OK) return status;
    slots = index->slots;
    shift = index->shift;
    mask = slots_of(index) - 1;
  }
  return RG_STRING_INDEX_OK;
}

int64_t rg_string_index_count(const rg_string_index *index) { return index->count; }

const uintptr_t *rg_string_index_keys(const rg_string_index *index) { return index->keys; }
