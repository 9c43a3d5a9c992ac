#include "arena.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys-fd.h"
#include "sys-layout.h"
#include "sys-map.h"
#include "sys-memory.h"
#include "sys-random.h"

RG_LAYOUT_SIZE(rg_span, 16);
RG_LAYOUT(rg_span, offset, 0, 8);
RG_LAYOUT(rg_span, size, 8, 8);

RG_LAYOUT_SIZE(rg_free_entry, 24);
RG_LAYOUT(rg_free_entry, state, 0, 4);
RG_LAYOUT(rg_free_entry, sum, 4, 4);
RG_LAYOUT(rg_free_entry, span, 8, 16);

RG_LAYOUT_SIZE(rg_arena_shared, 24600);
RG_LAYOUT(rg_arena_shared, end, 0, 8);
RG_LAYOUT(rg_arena_shared, used, 8, 8);
RG_LAYOUT(rg_arena_shared, warm, 16, 8);
RG_LAYOUT(rg_arena_shared, free, 24, 24576);

int64_t rg_arena_page(void) {
  static int64_t page = 0;
  if (page == 0) page = sysconf(_SC_PAGESIZE);
  return page;
}

static int64_t whole_pages(int64_t size) {
  int64_t page = rg_arena_page();
  return (size + page - 1) / page * page;
}

/* No process may make the file of the spans' list shorter, or reading it would be a fault. */
static int shared_memory(void) {
  int fd = rg_fd_memory("regatta-spans");
  if (fd >= 0 && (rg_fd_resize(fd, sizeof(rg_arena_shared)) < 0 || rg_fd_seal(fd, RG_FD_SEAL_SIZE) < 0)) {
    int saved = errno;
    rg_fd_close(&fd);
    errno = saved;
  }
  return fd;
}

static int map_shared(rg_arena *arena) {
  void *shared = arena->shared_fd < 0
                     ? MAP_FAILED
                     : mmap(NULL, sizeof *arena->shared, PROT_READ | PROT_WRITE, MAP_SHARED,
                            arena->shared_fd, 0);
  arena->shared = shared == MAP_FAILED ? NULL : shared;
  arena->shared_file = rg_fd_identify(arena->shared_fd);
  return arena->shared ? 0 : -1;
}

rg_arena *rg_arena_create(void) {
  rg_arena *arena = calloc(1, sizeof *arena);
  if (!arena) return NULL;
  arena->forks.fd = -1;
  arena->shared_fd = shared_memory();
  arena->fd = rg_fd_memory("regatta-arena");
  arena->owner = getpid();
  if (arena->fd < 0 || map_shared(arena) < 0) {
    int saved = errno;
    rg_fd_close(&arena->fd);
    rg_fd_close(&arena->shared_fd);
    free(arena);
    errno = saved;
    return NULL;
  }
  arena->file = rg_fd_identify(arena->fd);
  rg_fork_witness_open(&arena->forks);
  arena->tag = rg_random_tag();
  arena->limit = INT64_MAX;
  arena->keep = (int64_t)1 << 30;
  return arena;
}

rg_arena *rg_arena_open(int fd, int shared_fd, pid_t owner, uint64_t tag) {
  struct stat status;
  rg_arena *arena = calloc(1, sizeof *arena);
  if (!arena) return NULL;
  arena->forks.fd = -1;
  arena->fd = fd;
  arena->shared_fd = shared_fd;
  arena->owner = owner;
  arena->tag = tag;
  arena->limit = INT64_MAX;
  arena->file = rg_fd_identify(fd);
  if (fstat(shared_fd, &status) < 0 || status.st_size != (off_t)sizeof(rg_arena_shared) ||
      !rg_fd_is_sealed(shared_fd, RG_FD_SEAL_SIZE) || map_shared(arena) < 0) {
    free(arena);
    errno = EINVAL;
    return NULL;
  }
  return arena;
}

void rg_arena_destroy(rg_arena *arena) {
  if (!arena) return;
  munmap(arena->shared, sizeof *arena->shared);
  rg_fork_witness_close(&arena->forks);
  if (rg_fd_is(arena->shared_fd, arena->shared_file)) rg_fd_close(&arena->shared_fd);
  if (rg_arena_is_whole(arena)) rg_fd_close(&arena->fd);
  free(arena);
}

int rg_arena_is_whole(const rg_arena *arena) { return rg_fd_is(arena->fd, arena->file); }

static int own_fd(const rg_arena *arena) { return rg_arena_is_whole(arena) ? arena->fd : -1; }

static uint32_t sum_of(const rg_arena *arena, rg_span span) {
  const uint64_t factor = 0x9e3779b97f4a7c15u;
  uint64_t sum = ((uint64_t)span.offset ^ arena->tag) * factor;
  sum = (sum ^ sum >> 32 ^ (uint64_t)span.size) * factor;
  return (uint32_t)(sum >> 32);
}

static int is_entry_sound(const rg_arena *arena, const rg_free_entry *entry) {
  return entry->sum == sum_of(arena, entry->span);
}

/* Takes the smallest free span that holds `size` and wastes less than it uses. */
static int take_free(rg_arena *arena, int64_t size, rg_span *span) {
  rg_arena_shared *shared = arena->shared;
  if (atomic_load(&shared->warm) < size) return 0;
  for (;;) {
    rg_free_entry *best = NULL;
    for (int i = 0; i < RG_ARENA_FREE_MAX; i++) {
      rg_free_entry *entry = &shared->free[i];
      if (atomic_load(&entry->state) != RG_FREE_OPEN) continue;
      if (entry->span.size < size || entry->span.size / 2 > size) continue;
      if (!best || entry->span.size < best->span.size) best = entry;
    }
    if (!best) return 0;
    int32_t open = RG_FREE_OPEN;
    if (!atomic_compare_exchange_strong(&best->state, &open, RG_FREE_BUSY)) continue;
    if (!is_entry_sound(arena, best)) continue; /* BUSY for good: nobody takes it again */
    rg_span found = best->span;
    int fits = found.size >= size && found.size / 2 <= size;
    if (fits) {
      atomic_fetch_sub(&shared->warm, found.size);
      *span = found;
    }
    /* Between the look and the exchange the entry may have been used for another span. */
    atomic_store(&best->state, fits ? RG_FREE_EMPTY : RG_FREE_OPEN);
    if (fits) return 1;
  }
}

static int64_t bytes_available(const rg_arena *arena) {
  rg_memory memory;
  int64_t room = arena->limit - atomic_load(&arena->shared->used);
  if (rg_memory_read(&memory) == 0 && memory.available < room) room = memory.available;
  return room > 0 ? room : 0;
}

/* A system call has failed on a span that was taken: gives it back, errno as it was. */
static rg_arena_status give_up(rg_arena *arena, rg_span span, rg_arena_need *need) {
  int saved = errno;
  need->available = bytes_available(arena);
  rg_fd_punch(own_fd(arena), span.offset, span.size);
  atomic_fetch_sub(&arena->shared->used, span.size);
  errno = saved;
  return saved == ENOSPC || saved == ENOMEM || saved == EFBIG ? RG_ARENA_FULL
                                                              : RG_ARENA_SYSTEM;
}

rg_arena_status rg_arena_reserve(rg_arena *arena, int64_t size, rg_span *span,
                                 rg_arena_need *need) {
  /* Reading the machine's memory costs some 75 us: below this size the reservation itself
     reports a shortage soon enough. */
  const int64_t ask_from = (int64_t)8 << 20;
  int64_t whole = whole_pages(size);
  need->requested = size;
  if (!rg_arena_is_whole(arena)) {
    errno = EBADF;
    return RG_ARENA_SYSTEM;
  }
  if (take_free(arena, whole, span)) {
    atomic_fetch_add(&arena->shared->used, span->size);
    return RG_ARENA_OK;
  }
  if (whole >= ask_from || arena->limit != INT64_MAX) {
    need->available = bytes_available(arena);
    if (whole > need->available) {
      errno = ENOMEM;
      return RG_ARENA_FULL;
    }
  }
  /* What the file has lies before its end: a span there would be somebody's data. */
  int64_t taken = rg_arena_size(arena);
  span->offset = atomic_fetch_add(&arena->shared->end, whole);
  span->size = whole;
  if (span->offset < taken || span->offset % rg_arena_page() != 0 || span->offset > INT64_MAX - whole) {
    return RG_ARENA_OVERWRITTEN;
  }
  atomic_fetch_add(&arena->shared->used, whole);
  return rg_fd_reserve(own_fd(arena), span->offset, whole) == 0 ? RG_ARENA_OK
                                                            : give_up(arena, *span, need);
}

rg_arena_status rg_arena_write(rg_arena *arena, const rg_piece *pieces, int count,
                               rg_span *span, rg_arena_need *need) {
  int64_t size = 0;
  for (int i = 0; i < count; i++) size += pieces[i].size;
  rg_arena_status status = rg_arena_reserve(arena, size, span, need);
  if (status != RG_ARENA_OK) return status;
  int64_t at = span->offset;
  int fd = own_fd(arena);
  for (int i = 0; i < count; i++) {
    if (rg_fd_pwrite_all(fd, pieces[i].data, (size_t)pieces[i].size, at) < 0) {
      return give_up(arena, *span, need);
    }
    at += pieces[i].size;
  }
  return RG_ARENA_OK;
}

int64_t rg_arena_size(const rg_arena *arena) {
  struct stat status;
  return fstat(arena->fd, &status) < 0 ? -1 : whole_pages((int64_t)status.st_size);
}

void *rg_arena_map(rg_arena *arena, rg_span span) {
  return rg_map_new(own_fd(arena), span.offset, span.size, RG_MAP_PRIVATE);
}

void rg_arena_unmap(void *address, rg_span span) { rg_map_drop(address, span.size); }

static int put_free(rg_arena *arena, rg_span span) {
  rg_arena_shared *shared = arena->shared;
  if (atomic_load(&shared->warm) + span.size > arena->keep) return 0;
  for (int i = 0; i < RG_ARENA_FREE_MAX; i++) {
    rg_free_entry *entry = &shared->free[i];
    int32_t empty = RG_FREE_EMPTY;
    if (!atomic_compare_exchange_strong(&entry->state, &empty, RG_FREE_BUSY)) continue;
    entry->span = span;
    entry->sum = sum_of(arena, span);
    atomic_fetch_add(&shared->warm, span.size);
    atomic_store(&entry->state, RG_FREE_OPEN);
    return 1;
  }
  return 0;
}

void rg_arena_release(rg_arena *arena, rg_span span) {
  /* In a forked worker the same object exists as a copy; its end there means nothing. */
  if (arena->owner != getpid()) return;
  atomic_fetch_sub(&arena->shared->used, span.size);
  if (!rg_arena_is_ours(arena)) return;
  if (!put_free(arena, span)) rg_fd_punch(own_fd(arena), span.offset, span.size);
}

int rg_arena_is_sound(const rg_arena *arena) {
  const int64_t most = (int64_t)1 << 40;
  int64_t end = atomic_load(&arena->shared->end), taken = rg_arena_size(arena);
  return taken >= 0 && end >= taken && end - taken <= most && end % rg_arena_page() == 0;
}

int rg_arena_is_ours(rg_arena *arena) {
  if (arena->owner != getpid() || arena->given_up || !rg_arena_is_whole(arena)) return 0;
  if (rg_fork_alone(&arena->forks)) return 1;
  rg_arena_give_up(arena);
  return 0;
}

/* What is free now was free when others were forked, or they would not have been given up for: no
   process reads it. */
void rg_arena_give_up(rg_arena *arena) {
  if (arena->given_up) return;
  arena->given_up = 1;
  if (arena->owner == getpid()) rg_arena_trim(arena);
  rg_fork_witness_close(&arena->forks);
}

void rg_arena_hold(rg_arena *arena) { arena->holders++; }

void rg_arena_drop(rg_arena *arena) {
  if (--arena->holders == 0 && arena->given_up) rg_arena_destroy(arena);
}

int64_t rg_arena_trim(rg_arena *arena) {
  int64_t given_back = 0;
  for (int i = 0; i < RG_ARENA_FREE_MAX; i++) {
    rg_free_entry *entry = &arena->shared->free[i];
    int32_t open = RG_FREE_OPEN;
    if (!atomic_compare_exchange_strong(&entry->state, &open, RG_FREE_BUSY)) continue;
    if (!is_entry_sound(arena, entry)) continue;
    rg_fd_punch(own_fd(arena), entry->span.offset, entry->span.size);
    atomic_fetch_sub(&arena->shared->warm, entry->span.size);
    given_back += entry->span.size;
    atomic_store(&entry->state, RG_FREE_EMPTY);
  }
  return given_back;
}
