#include "arena-block.h"

#include <errno.h>
#include <stdlib.h>

#include "sys-fd.h"
#include "sys-map.h"

enum { BUCKETS = 1024 };

/* The blocks of this process, by the page number of their span. A forked worker inherits
   the table and may read through it; only blocks of its own arena are released there. */
static rg_block *table[BUCKETS];
static int64_t blocks, bytes;

/* Spans of blocks that died while runs were active. */
typedef struct {
  rg_arena *arena;
  rg_span span;
} rg_held;
static rg_held *held;
static int64_t held_count, held_capacity;
static int active_runs;
static int reconcile_wanted;

static rg_block **bucket_of(int64_t offset) {
  return &table[(uint64_t)(offset / rg_arena_page()) % BUCKETS];
}

static rg_block *find_block(const rg_arena *arena, int64_t offset) {
  rg_block *block = *bucket_of(offset);
  while (block && (block->arena != arena || block->span.offset != offset)) block = block->next;
  return block;
}

static int64_t find_held(const rg_arena *arena, int64_t offset) {
  int64_t i = 0;
  while (i < held_count && (held[i].arena != arena || held[i].span.offset != offset)) i++;
  return i < held_count ? i : -1;
}

int rg_block_owns(const rg_arena *arena, int64_t offset) {
  return find_block(arena, offset) || find_held(arena, offset) >= 0;
}

rg_block *rg_block_open(rg_arena *arena, rg_span span) {
  rg_block *block = find_block(arena, span.offset);
  if (block) {
    block->references++;
    return block;
  }
  if (blocks >= RG_BLOCK_MAX || !rg_map_has_room()) {
    errno = ENOMEM;
    return NULL;
  }
  block = calloc(1, sizeof *block);
  if (!block) return NULL;
  block->address = rg_arena_map(arena, span);
  if (!block->address) {
    int saved = errno;
    free(block);
    errno = saved;
    return NULL;
  }
  int64_t revived = find_held(arena, span.offset);
  if (revived >= 0) held[revived] = held[--held_count];
  rg_block **bucket = bucket_of(span.offset);
  block->arena = arena;
  block->span = span;
  block->references = 1;
  block->next = *bucket;
  *bucket = block;
  if (revived < 0) rg_arena_hold(arena); /* else what was held back has done so */
  blocks++;
  bytes += span.size;
  return block;
}

static int hold_back(rg_arena *arena, rg_span span) {
  if (held_count == held_capacity) {
    int64_t capacity = held_capacity ? 2 * held_capacity : 64;
    rg_held *more = realloc(held, (size_t)capacity * sizeof *held);
    if (!more) return 0;
    held = more;
    held_capacity = capacity;
  }
  held[held_count++] = (rg_held){arena, span};
  return 1;
}

void rg_block_close(rg_block *block) {
  if (--block->references > 0) return;
  rg_block **link = bucket_of(block->span.offset);
  while (*link && *link != block) link = &(*link)->next;
  if (*link) *link = block->next;
  blocks--;
  bytes -= block->span.size;
  rg_arena_unmap(block->address, block->span);
  /* Without memory for the list the span stays in use until the process ends. */
  if (active_runs == 0) {
    rg_arena_release(block->arena, block->span);
    rg_arena_drop(block->arena);
  } else if (!hold_back(block->arena, block->span)) {
    rg_arena_drop(block->arena);
  }
  free(block);
}

int64_t rg_block_count(void) { return blocks; }
int64_t rg_block_bytes(void) { return bytes; }

void rg_block_run_begin(void) { active_runs++; }

void rg_block_after_fork(void) {
  active_runs = reconcile_wanted = 0;
  held_count = 0;
}

static int by_offset(const void *a, const void *b) {
  int64_t x = ((const rg_span *)a)->offset, y = ((const rg_span *)b)->offset;
  return x < y ? -1 : x > y;
}

/* With no run active every span in use belongs to a block, and every other byte of the
   file to the list of free spans or to nobody. */
static void give_back_unowned(rg_arena *arena) {
  if (!rg_arena_is_ours(arena)) return;
  rg_arena_trim(arena);
  rg_span *live = malloc((size_t)(blocks + 1) * sizeof *live);
  if (!live) return;
  int64_t count = 0, used = 0, at = 0;
  for (int b = 0; b < BUCKETS; b++) {
    for (rg_block *block = table[b]; block; block = block->next) {
      if (block->arena == arena) live[count++] = block->span;
    }
  }
  qsort(live, (size_t)count, sizeof *live, by_offset);
  for (int64_t i = 0; i < count; i++) {
    if (live[i].offset > at) rg_fd_punch(arena->fd, at, live[i].offset - at);
    at = live[i].offset + live[i].size;
    used += live[i].size;
  }
  int64_t end = rg_arena_size(arena);
  if (end > at) rg_fd_punch(arena->fd, at, end - at);
  atomic_store(&arena->shared->used, used);
  for (int i = 0; i < RG_ARENA_FREE_MAX; i++) {
    atomic_store(&arena->shared->free[i].state, RG_FREE_EMPTY);
  }
  atomic_store(&arena->shared->warm, 0);
  free(live);
}

void rg_block_run_end(rg_arena *arena, int reconcile) {
  reconcile_wanted |= reconcile;
  if (--active_runs > 0) return;
  for (int64_t i = 0; i < held_count; i++) {
    rg_arena_release(held[i].arena, held[i].span);
    rg_arena_drop(held[i].arena);
  }
  held_count = 0;
  if (reconcile_wanted) give_back_unowned(arena);
  reconcile_wanted = 0;
}
