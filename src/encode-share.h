#ifndef RG_ENCODE_SHARE_H
#define RG_ENCODE_SHARE_H

#include <Rinternals.h>

#include "arena.h"

/* A copy of `value` in which every vector of at least `share_from` bytes, wherever it
   stands in lists, attributes and S4 slots, is written to the arena and replaced by its
   stand-in; `value` itself if there is none. Lists and objects on the way are copied
   shallowly, everything else is shared with `value`. */
SEXP rg_encode_share(SEXP value, rg_arena *arena, int64_t share_from);

#endif
