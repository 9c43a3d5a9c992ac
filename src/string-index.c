#include "string-index.h"

#include <stdlib.h>

typedef struct {
  uintptr_t key; /* 0: the place is free */
  uint32_t number;
} place;

struct rg_string_index {
  place *table;
  uintptr_t *keys;
  uint32_t count;
  int bits; /* the table has 2^bits places */
};

enum { FIRST_BITS = 12, GROUP = 64 };

static size_t places(const rg_string_index *index) { return (size_t)1 << index->bits; }

/* Multiplicative hashing (Knuth, TAOCP 3, 6.4): the upper bits of the product, which depend on
   all bits of the key. */
static size_t home(const rg_string_index *index, uintptr_t key) {
  return (size_t)(((uint64_t)key * 0x9e3779b97f4a7c15u) >> (64 - index->bits));
}

static void insert(rg_string_index *index, uintptr_t key, uint32_t number) {
  size_t mask = places(index) - 1, at = home(index, key);
  while (index->table[at].key) at = (at + 1) & mask;
  index->table[at] = (place){key, number};
}

/* A table of 2^bits places with all keys in it; 0 on success. */
static int resize(rg_string_index *index, int bits) {
  place *table = calloc((size_t)1 << bits, sizeof *table);
  uintptr_t *keys = realloc(index->keys, ((size_t)1 << bits) / 2 * sizeof *keys);
  if (keys) index->keys = keys;
  if (!table || !keys) {
    free(table);
    return -1;
  }
  free(index->table);
  index->table = table;
  index->bits = bits;
  for (uint32_t i = 0; i < index->count; i++) insert(index, index->keys[i], i);
  return 0;
}

rg_string_index *rg_string_index_new(void) {
  rg_string_index *index = calloc(1, sizeof *index);
  if (index && resize(index, FIRST_BITS) < 0) {
    rg_string_index_free(index);
    return NULL;
  }
  return index;
}

void rg_string_index_free(rg_string_index *index) {
  if (!index) return;
  free(index->table);
  free(index->keys);
  free(index);
}

/* The number of the key, which is a new one if it has not been seen. */
static uint32_t look_up(rg_string_index *index, uintptr_t key) {
  size_t mask = places(index) - 1, at = home(index, key);
  while (index->table[at].key && index->table[at].key != key) at = (at + 1) & mask;
  if (!index->table[at].key) {
    index->table[at] = (place){key, index->count};
    index->keys[index->count++] = key;
  }
  return index->table[at].number;
}

rg_string_index_status rg_string_index_add(rg_string_index *index, const uintptr_t *keys, size_t n,
                                           uint32_t *numbers, uint32_t most) {
  for (size_t from = 0; from < n; from += GROUP) {
    size_t to = from + GROUP < n ? from + GROUP : n;
    /* Room for a whole group of new keys. */
    if (index->count + GROUP > places(index) / 2 && resize(index, index->bits + 1) < 0) {
      return RG_STRING_INDEX_MEMORY;
    }
    for (size_t i = from; i < to; i++) __builtin_prefetch(&index->table[home(index, keys[i])]);
    for (size_t i = from; i < to; i++) {
      uint32_t number = look_up(index, keys[i]);
      if (numbers) numbers[i] = number;
    }
    if (index->count > most) return RG_STRING_INDEX_MANY;
  }
  return RG_STRING_INDEX_OK;
}

uint32_t rg_string_index_count(const rg_string_index *index) { return index->count; }

const uintptr_t *rg_string_index_keys(const rg_string_index *index) { return index->keys; }
