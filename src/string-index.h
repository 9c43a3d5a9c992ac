#ifndef RG_STRING_INDEX_H
#define RG_STRING_INDEX_H

#include <stddef.h>
#include <stdint.h>

/*
 * The distinct strings of a character vector, by the addresses of its strings: R keeps one
 * copy of every string and encoding, so that two strings are the same where their
 * addresses are. Keys are numbered from 0 in the order of their first appearance.
 *
 * A hash table with linear probing that doubles when half full. Keys are looked up in
 * groups whose places are fetched ahead: with a million distinct strings nearly every look
 * would wait for memory.
 */
typedef struct rg_string_index rg_string_index;

/* NULL when there is no memory. */
rg_string_index *rg_string_index_new(void);
void rg_string_index_free(rg_string_index *index);

typedef enum {
  RG_STRING_INDEX_OK = 0,
  RG_STRING_INDEX_MANY,  /* there are more than `most` distinct keys */
  RG_STRING_INDEX_MEMORY /* no memory */
} rg_string_index_status;

/* Adds `n` keys, none of them 0, and writes the number of each to `numbers`, unless that is
   NULL. At most `most` (below 2^31) distinct ones are taken. */
rg_string_index_status rg_string_index_add(rg_string_index *index, const uintptr_t *keys, size_t n,
                                           uint32_t *numbers, uint32_t most);

uint32_t rg_string_index_count(const rg_string_index *index);
/* The distinct keys by number; valid until the next rg_string_index_add(). */
const uintptr_t *rg_string_index_keys(const rg_string_index *index);

#endif
