#include "string-index.h"

#include <stdlib.h>

/*
 * Addresses of strings lie together: R makes small objects in pages, side by side. So there is first
 * a map of the memory they lie in: a leaf for each stretch of 256 KiB in which a string was found,
 * with the number of the string that begins in each 32 bytes; R's strings are larger, and the two
 * bits that are left say where in these it begins. Looking up is one load from few bytes, and strings
 * that follow each other in memory follow each other here.
 *
 * Strings that are long, or few and far between, would have leaves that are all but empty. Once the
 * leaves take much more room than a hash table would, or two keys are in one place, the keys go over
 * to one: open addressing with linear
 * probing; at most half of the slots are in use, so that a search looks at 1.5 slots on average. The
 * home of a key is the top of its product with 2^64 divided by the golden ratio (Knuth, The Art of
 * Computer Programming, vol. 3, section 6.4): addresses differ in their lower bits, which all
 * reach the top ones.
 *
 * A search in a large table waits for memory, and the processor can wait for many lines at
 * once. So the places of the keys that come later are asked for before a key is looked up.
 */

typedef struct {
  uintptr_t key; /* 0: free */
  int32_t number;
} slot;

typedef struct {
  uintptr_t stretch; /* number of the stretch plus 1; 0: free */
  uint32_t *leaf;    /* of each place the number of its string plus 1, above that the two bits;
                        0: none yet */
} branch;

struct rg_string_index {
  branch *branches; /* the map, hashed as the table is; NULL: there is the table */
  unsigned branch_shift;
  int64_t leaves;
  slot *slots;    /* the table, or NULL */
  unsigned shift; /* 64 - log2(number of slots) */
  int64_t count, most, room;
  uintptr_t *keys; /* room for `room` */
};

enum {
  FIRST_BITS = 12,
  AHEAD = 24,
  STRETCH_BITS = 18,
  PLACE_BITS = 5,
  LEAF_PLACES = 1 << (STRETCH_BITS - PLACE_BITS),
  LEAF_BYTES = LEAF_PLACES * (int)sizeof(uint32_t),
  NUMBER_BITS = 30,
  BYTES_FOR_KEY = 160, /* that the leaves may take, and in all before there are keys: */
  BYTES_AT_FIRST = 128 << 20,
  MAP_FROM = 1 << 18 /* below so many keys the table stays in the cache */
};

#if defined(__GNUC__)
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) ((void)0)
#endif

static inline size_t home(uintptr_t key, unsigned shift) {
  return (size_t)(((uint64_t)key * UINT64_C(0x9E3779B97F4A7C15)) >> shift);
}

static inline size_t places(unsigned shift) { return (size_t)1 << (64 - shift); }

/* The keys, whichever way they are found. */

static int reserve_key(rg_string_index *index) {
  if (index->count < index->room) return 0;
  int64_t room = index->room * 2;
  uintptr_t *keys = realloc(index->keys, (size_t)room * sizeof *keys);
  if (!keys) return -1;
  index->keys = keys;
  index->room = room;
  return 0;
}

/* Gives a new key the next number. */
static inline rg_string_index_status append_key(rg_string_index *index, uintptr_t key) {
  if (index->count >= index->most) return RG_STRING_INDEX_MANY;
  if (reserve_key(index) < 0) return RG_STRING_INDEX_MEMORY;
  index->keys[index->count++] = key;
  return RG_STRING_INDEX_OK;
}

/* The table. */

/* The keys are known to be distinct and are put in by their numbers: no comparisons. */
static void fill(slot *slots, unsigned shift, const uintptr_t *keys, int64_t count) {
  size_t mask = places(shift) - 1;
  for (int64_t i = 0; i < count; i++) {
    if (i + AHEAD < count) PREFETCH(&slots[home(keys[i + AHEAD], shift)]);
    size_t at = home(keys[i], shift);
    while (slots[at].key) at = (at + 1) & mask;
    slots[at].key = keys[i];
    slots[at].number = (int32_t)i;
  }
}

/* A table with room for twice the keys that there are; as it was and -1 if there is no memory. */
static int make_table(rg_string_index *index) {
  unsigned shift = 64 - FIRST_BITS;
  while ((int64_t)(places(shift) / 2) <= index->count) shift--;
  slot *slots = calloc(places(shift), sizeof *slots);
  if (!slots) return -1;
  fill(slots, shift, index->keys, index->count);
  free(index->slots);
  index->slots = slots;
  index->shift = shift;
  return 0;
}

/* Puts a key that is not there into the free slot `at`. */
static rg_string_index_status insert(rg_string_index *index, uintptr_t key, size_t at) {
  if (index->count >= (int64_t)(places(index->shift) / 2)) {
    if (make_table(index) < 0) return RG_STRING_INDEX_MEMORY;
    at = home(key, index->shift);
    while (index->slots[at].key) at = (at + 1) & (places(index->shift) - 1);
  }
  int32_t number = (int32_t)index->count;
  rg_string_index_status status = append_key(index, key);
  if (status != RG_STRING_INDEX_OK) return status;
  index->slots[at].key = key;
  index->slots[at].number = number;
  return RG_STRING_INDEX_OK;
}

static rg_string_index_status add_to_table(rg_string_index *index, const uintptr_t *keys, size_t n,
                                           int32_t *numbers) {
  slot *slots = index->slots; /* local copies: a store to numbers might change the fields */
  unsigned shift = index->shift;
  size_t mask = places(shift) - 1;
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
    mask = places(shift) - 1;
  }
  return RG_STRING_INDEX_OK;
}

/* The map. */

static void drop_map(rg_string_index *index) {
  if (!index->branches) return;
  for (size_t at = 0; at < places(index->branch_shift); at++) free(index->branches[at].leaf);
  free(index->branches);
  index->branches = NULL;
}

static branch *find_branch(branch *branches, unsigned shift, uintptr_t stretch) {
  size_t at = home(stretch, shift);
  while (branches[at].stretch != stretch && branches[at].stretch) {
    at = (at + 1) & (places(shift) - 1);
  }
  return &branches[at];
}

static int grow_branches(rg_string_index *index) {
  unsigned shift = index->branch_shift - 1;
  branch *branches = calloc(places(shift), sizeof *branches);
  if (!branches) return -1;
  for (size_t at = 0; at < places(index->branch_shift); at++) {
    const branch *old = &index->branches[at];
    if (old->stretch) *find_branch(branches, shift, old->stretch) = *old;
  }
  free(index->branches);
  index->branches = branches;
  index->branch_shift = shift;
  return 0;
}

/* The leaf of a stretch, made if it is not there; NULL if it would not be worth its room. */
static uint32_t *leaf_of(rg_string_index *index, uintptr_t stretch) {
  branch *found = find_branch(index->branches, index->branch_shift, stretch);
  if (found->stretch) return found->leaf;
  if (index->leaves * LEAF_BYTES > BYTES_AT_FIRST + BYTES_FOR_KEY * index->count) return NULL;
  if (index->leaves >= (int64_t)places(index->branch_shift) / 2) {
    if (grow_branches(index) < 0) return NULL;
    found = find_branch(index->branches, index->branch_shift, stretch);
  }
  uint32_t *leaf = calloc(LEAF_PLACES, sizeof *leaf);
  if (!leaf) return NULL;
  *found = (branch){stretch, leaf};
  index->leaves++;
  return leaf;
}

/* Numbers keys until one has no place in the map; *done says how many. */
static rg_string_index_status add_to_map(rg_string_index *index, const uintptr_t *keys, size_t n,
                                         int32_t *numbers, size_t *done) {
  enum { RING = 32 };
  const uintptr_t stretch_mask = ((uintptr_t)1 << STRETCH_BITS) - 1;
  const uint32_t number_mask = ((uint32_t)1 << NUMBER_BITS) - 1;
  uint32_t *found[RING]; /* the places of the keys that come next */
  uintptr_t stretch = 0;
  uint32_t *leaf = NULL;
  size_t located = 0;
  for (size_t i = 0; i < n; i++) {
    while (located < n && located < i + AHEAD) {
      const uintptr_t key = keys[located];
      if ((key >> STRETCH_BITS) + 1 != stretch) {
        stretch = (key >> STRETCH_BITS) + 1;
        leaf = leaf_of(index, stretch);
      }
      if (!leaf || key % 8 != 0) {
        n = located;
        break;
      }
      found[located % RING] = leaf + ((key & stretch_mask) >> PLACE_BITS);
      PREFETCH(found[located++ % RING]);
    }
    if (i == n) break;
    uint32_t *place = found[i % RING];
    const uint32_t bits = (uint32_t)(keys[i] >> 3) << NUMBER_BITS;
    if (*place == 0) {
      if (index->count >= (int64_t)number_mask) break;
      rg_string_index_status status = append_key(index, keys[i]);
      if (status != RG_STRING_INDEX_OK) return status;
      *place = bits | (uint32_t)index->count;
    } else if ((*place ^ bits) > number_mask) {
      break; /* another key has the place */
    }
    numbers[i] = (int32_t)(*place & number_mask) - 1;
    *done = i + 1;
  }
  return RG_STRING_INDEX_OK;
}

rg_string_index *rg_string_index_create(int64_t most) {
  enum { FIRST_ROOM = 2048 };
  rg_string_index *index = calloc(1, sizeof *index);
  if (!index) return NULL;
  index->most = most < INT32_MAX ? most : INT32_MAX;
  index->room = FIRST_ROOM;
  index->keys = malloc(FIRST_ROOM * sizeof *index->keys);
  index->branch_shift = 64 - FIRST_BITS;
  int made = index->keys != NULL;
  if (made && most >= MAP_FROM) {
    index->branches = calloc(places(index->branch_shift), sizeof *index->branches);
    made = index->branches != NULL;
  } else if (made) {
    made = make_table(index) == 0;
  }
  if (!made) {
    rg_string_index_destroy(index);
    return NULL;
  }
  return index;
}

void rg_string_index_destroy(rg_string_index *index) {
  if (!index) return;
  drop_map(index);
  free(index->slots);
  free(index->keys);
  free(index);
}

rg_string_index_status rg_string_index_add(rg_string_index *index, const uintptr_t *keys,
                                           size_t n, int32_t *numbers) {
  size_t done = 0;
  if (index->branches) {
    rg_string_index_status status = add_to_map(index, keys, n, numbers, &done);
    if (status != RG_STRING_INDEX_OK || done == n) return status;
    if (make_table(index) < 0) return RG_STRING_INDEX_MEMORY;
    drop_map(index);
  }
  return add_to_table(index, keys + done, n - done, numbers + done);
}

int64_t rg_string_index_count(const rg_string_index *index) { return index->count; }

const uintptr_t *rg_string_index_keys(const rg_string_index *index) { return index->keys; }
