#ifndef RG_ARENA_BLOCK_H
#define RG_ARENA_BLOCK_H

#include "arena.h"

/*
 * A block is a span that the arena's owner has mapped and that live vectors read. Blocks
 * are counted: several vectors may stand on one. While a run is active the spans of dead
 * blocks are held back, because a worker may still send the handle of a vector that it
 * inherited.
 */
typedef struct rg_block {
  rg_arena *arena;
  rg_span span;
  void *address;
  int64_t references;
  int lent; /* a vector that was alone on it may write to the mapping: nobody else may use that */
  struct rg_block *next;
} rg_block;

/* More blocks than this are refused, also where there is room for more mappings (sys-map.h): each is one. */
enum { RG_BLOCK_MAX = 16384 };

/* The block on `span`, mapped if it is not yet, with one reference more; NULL with errno
   set (ENOMEM: no more mappings are to be had; copy instead). */
rg_block *rg_block_open(rg_arena *arena, rg_span span);

/* One reference less; the last one unmaps the block and releases its span. */
void rg_block_close(rg_block *block);

/* Whether the span at `offset` belongs to a block, a live one or one held back. */
int rg_block_owns(const rg_arena *arena, int64_t offset);

int64_t rg_block_count(void);
int64_t rg_block_bytes(void);

/* Owner: a run begins or has ended. After the last one the spans that were held back are
   released; `reconcile` also gives back spans that killed workers reserved and never
   announced. */
void rg_block_run_begin(void);
void rg_block_run_end(rg_arena *arena, int reconcile);

/* A forked worker has no run of its own yet. */
void rg_block_after_fork(void);

#endif
