#ifndef RG_ENCODE_SHARE_H
#define RG_ENCODE_SHARE_H

#include <Rinternals.h>

#include "arena.h"
#include "region.h"
#include "shm-array.h"

/* Where large vectors go. */
typedef struct {
  int64_t share_from;    /* bytes; a character vector counts 8 for each string */
  const rg_arena *arena; /* in which a vector needs no storing any more, or NULL */
  int refuses_foreign;   /* external pointers and connections are errors */
  /* Stores the pieces and returns what takes the place of `x`, with its attributes. */
  SEXP (*store)(SEXP x, const rg_piece *pieces, int count, void *data);
  void *data;
} rg_share_sink;

/* A copy of `value` in which every vector of at least `share_from` bytes, wherever it
   stands in lists, attributes and S4 slots, is stored and replaced; `value` itself if there is
   none. Lists and objects on the way are copied shallowly, everything else is shared with
   `value`. */
SEXP rg_encode_share(SEXP value, const rg_share_sink *sink);

/* `value` with NULL in place of whatever rg_encode_share() refuses in its lists and attributes; `value`
   itself if there is none. */
SEXP rg_encode_without_foreign(SEXP value);

/* `value` with rg_shm_array_settle() of each vector in its lists, calls, attributes and S4 slots; `value` itself
   if there is nothing to settle. Environments, those of functions too, are nobody's copy. */
SEXP rg_encode_settle(SEXP value, const rg_settle *how);

/* The list with f(x, data) in place of each element x: a shallow copy, or the list itself if nothing
   changes. */
SEXP rg_encode_share_map(SEXP list, SEXP (*f)(SEXP x, const void *data), const void *data);

#endif
