#ifndef RG_STRING_INDEX_H
#define RG_STRING_INDEX_H

#include <stddef.h>
#include <stdint.h>

/*
 * Distinct strings and their numbers. R keeps every string once for each encoding, so that two
 * elements of a character vector are the same string exactly if they are the same address: what
 * is indexed here are addresses, and no string is ever read.
 *
 * Keys come in as many pieces as the caller likes. Each key is given the number of its first
 * appearance among the distinct ones, counted from 0:
 *
 *   rg_string_index *index = rg_string_index_create(most);
 *   while (there are keys)
 *     if ((status = rg_string_index_add(index, keys, n, numbers)) != RG_STRING_INDEX_OK) break;
 *   ... rg_string_index_count(index), rg_string_index_keys(index) ...
 *   rg_string_index_destroy(index);
 *
 * Pieces of RG_STRING_INDEX_PIECE keys stay in the first-level cache. An index needs some 15 bytes
 * for each distinct key if they are short strings of R that were made one after another, at most some
 * 170 whatever they are, and nothing for the others. Nothing here calls R, allocates
 * through it or jumps; a piece may come from any thread, but only from one at a time.
 *
 * The key 0 is no address and must not occur. Keys must stay valid addresses of the same
 * strings while the index lives: as long as the vector that holds them is protected they do.
 */

enum { RG_STRING_INDEX_PIECE = 4096 };

typedef enum {
  RG_STRING_INDEX_OK = 0,
  RG_STRING_INDEX_MANY,  /* more than `most` distinct keys: the numbers are incomplete */
  RG_STRING_INDEX_MEMORY /* no memory for the table: likewise */
} rg_string_index_status;

typedef struct rg_string_index rg_string_index;

/* For at most `most` distinct keys (at most INT32_MAX); NULL if there is no memory. A caller for
   whom an index of mostly distinct strings is not worth it sets `most` to a part of their
   number and learns it from RG_STRING_INDEX_MANY. */
rg_string_index *rg_string_index_create(int64_t most);
void rg_string_index_destroy(rg_string_index *index);

/* Numbers the next n keys. After a status other than OK nothing more may be added, while what
   is known of the keys before that one still holds. */
rg_string_index_status rg_string_index_add(rg_string_index *index, const uintptr_t *keys,
                                           size_t n, int32_t *numbers);

/* How many distinct keys there are. */
int64_t rg_string_index_count(const rg_string_index *index);

/* They themselves, in the order of first appearance; valid until the next rg_string_index_add(). */
const uintptr_t *rg_string_index_keys(const rg_string_index *index);

#endif
