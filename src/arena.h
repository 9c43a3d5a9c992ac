#ifndef RG_ARENA_H
#define RG_ARENA_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sys-fd.h"
#include "sys-fork.h"

/*
 * The arena: one file in memory without a name per R process that runs maps, made before
 * its first fork and inherited by its workers. Workers write results into it with
 * pwrite(), which takes no page fault and fails with ENOSPC instead of a signal; the
 * owner maps what they wrote and R reads it in place.
 *
 * A span is a page-aligned range of the file. Space for a new span comes from the list of
 * free spans, whose pages are still allocated ("warm"), else from the end of the file.
 * Only the owner frees spans; a span it frees is kept warm, up to a limit, or its pages
 * are given back to the system.
 *
 * A process that somebody else has forked from the owner reads the owner's vectors where they are: as
 * long as it lives, no page may be written anew or given back. The arena is given up then: nothing
 * in it is freed any more, the next run makes another, and the system frees all of it with the last
 * process that has it.
 */

typedef struct {
  int64_t offset;
  int64_t size; /* in bytes, as asked for; the span holds whole pages */
} rg_span;

/* A part of what is written at one place, one after the other. */
typedef struct {
  const void *data;
  int64_t size;
} rg_piece;

enum { RG_ARENA_FREE_MAX = 1024 };

typedef enum { RG_FREE_EMPTY = 0, RG_FREE_BUSY, RG_FREE_OPEN } rg_free_state;

typedef struct {
  _Atomic int32_t state; /* rg_free_state; workers and owner take an entry by CAS to BUSY */
  uint32_t sum;          /* checksum of the span */
  rg_span span;
} rg_free_entry;

/* Shared between the owner and its workers. Code of an element can write here by mistake: a place in the
   file that comes from here is checked before anything is written to it or freed. */
typedef struct {
  _Atomic int64_t end;  /* the file's spans lie in [0, end) */
  _Atomic int64_t used; /* bytes in spans that are not free */
  _Atomic int64_t warm; /* bytes in the list of free spans */
  rg_free_entry free[RG_ARENA_FREE_MAX];
} rg_arena_shared;

typedef struct {
  rg_arena_shared *shared;
  int fd;
  rg_fd_identity file; /* what `fd` is open on */
  int shared_fd;       /* the file that `shared` is a mapping of, for those that do not inherit it */
  rg_fd_identity shared_file;
  pid_t owner;
  uint64_t tag;   /* random: a span's handle names it, so that no other arena takes it */
  int64_t limit;  /* most bytes in use, INT64_MAX: what the machine has */
  int64_t keep;   /* most bytes kept warm */
  rg_fork_witness forks;
  int given_up;
  int64_t holders; /* runs and blocks of this process that use it */
} rg_arena;

typedef enum {
  RG_ARENA_OK = 0,
  RG_ARENA_FULL,  /* the limit or the machine's memory does not allow it */
  RG_ARENA_SYSTEM, /* a system call failed; errno says why */
  RG_ARENA_OVERWRITTEN /* what the processes share about the arena cannot be */
} rg_arena_status;

/* What was asked for and what there was, for the message. */
typedef struct {
  int64_t requested;
  int64_t available;
} rg_arena_need;

rg_arena *rg_arena_create(void);

/* The same arena in a worker that does not inherit it, by both descriptors, which become the
   arena's: it can reserve and write, and never frees. NULL with errno set on failure. */
rg_arena *rg_arena_open(int fd, int shared_fd, pid_t owner, uint64_t tag);
void rg_arena_destroy(rg_arena *arena);

int64_t rg_arena_page(void);

/* Whether the descriptor of the arena is still its own. Where it is not every function here fails
   with EBADF, and does nothing to the file that has its number. */
int rg_arena_is_whole(const rg_arena *arena);

/* Reserves a span of `size` > 0 bytes; its content is undefined. */
rg_arena_status rg_arena_reserve(rg_arena *arena, int64_t size, rg_span *span,
                                 rg_arena_need *need);

/* Reserves a span and writes the pieces to it, one after the other. */
rg_arena_status rg_arena_write(rg_arena *arena, const rg_piece *pieces, int count,
                               rg_span *span, rg_arena_need *need);

/* Maps a span: private, so that a write changes the caller's copy of a page and nobody
   else's. NULL with errno set on failure. */
void *rg_arena_map(rg_arena *arena, rg_span span);
void rg_arena_unmap(void *address, rg_span span);

/* Bytes of the file in whole pages, as the system says: what lies within can be mapped and read. -1
   with errno set on failure. */
int64_t rg_arena_size(const rg_arena *arena);

/* Owner: the span's content is not needed any more. */
void rg_arena_release(rg_arena *arena, rg_span span);

/* Whether the end of the file that the processes share can be: behind what the file has, and not far
   behind, as reservations leave it that have failed. */
int rg_arena_is_sound(const rg_arena *arena);

/* Owner: whether the arena can be used on: it is whole, and no other process has inherited it. */
int rg_arena_is_ours(rg_arena *arena);

/* One who uses the arena more, or less. With the last one it goes, if it was given up. */
void rg_arena_hold(rg_arena *arena);
void rg_arena_drop(rg_arena *arena);

/* Owner: uses the arena for no further run. */
void rg_arena_give_up(rg_arena *arena);

/* Owner: gives the pages of all free spans back; returns how many bytes. */
int64_t rg_arena_trim(rg_arena *arena);

#endif
