#ifndef RG_REGION_H
#define RG_REGION_H

#include <stdint.h>
#include <sys/types.h>

#include "arena.h"

/*
 * A region is a file in memory of its own, for data that outlive a run and are used by
 * processes that did not inherit them. It has no name: a process of the same user opens
 * it through the owner's descriptor in /proc, and whoever has done so keeps the pages
 * alive, also when the owner drops the region or ends. The first page holds a header that
 * says what the rest is; it is sealed against a change of size, so that no reader can be
 * made to fault, and frozen regions against every write.
 */

/* What another process needs to find a region. Fixed size, no pointers. */
typedef struct {
  int64_t pid;
  int64_t fd;
  uint64_t device, inode;
  uint64_t tag;  /* random, repeated in the header */
  uint64_t host; /* of the boot of the machine: a pid means nothing elsewhere */
  int64_t size;  /* of the data, in bytes */
} rg_region_key;

/* "regatta1", read as a number: the format of the header. */
#define RG_REGION_MAGIC UINT64_C(0x3161747461676572)

typedef struct {
  uint64_t magic;
  uint64_t tag;
  int64_t size;
  int64_t frozen;
} rg_region_header;

typedef struct rg_region {
  rg_region_key key;
  pid_t owner; /* the process that made it, or through which this one attached */
  int fd;
  int writable; /* not frozen */
  int known;     /* this process works for another one, which has the region too */
  int64_t number; /* which of all that this process has made or attached, from 1 */
  char *data;   /* of a writable one: key.size bytes, mapped for all to see; else NULL */
  int64_t references;
  struct rg_region *next;
} rg_region;

typedef enum {
  RG_REGION_OK = 0,
  RG_REGION_FULL,   /* the limit or the machine's memory does not allow it */
  RG_REGION_MAPS,   /* it has to be mapped, and no more mappings are to be had (sys-map.h) */
  RG_REGION_SYSTEM, /* a system call failed; errno says why */
  RG_REGION_HOST,   /* it belongs to another machine, or to this one before it was started */
  RG_REGION_GONE,   /* its owner has ended or dropped it */
  RG_REGION_FORGED  /* what the key leads to is not the region it tells of */
} rg_region_status;

/* A region of `size` > 0 bytes, all zero, mapped for all to see. `limit`: most bytes that
   the regions of this process may have, INT64_MAX without one. *available is set when it
   is full. Its pages come with the first write to them: before anything is done through the
   mapping, rg_region_reserve() must have succeeded for all of it. */
rg_region_status rg_region_create(int64_t size, int64_t limit, rg_region **region, int64_t *available);
rg_region_status rg_region_reserve(rg_region *region, int64_t offset, int64_t size);

/* Writes to a region that is not frozen as write() does: without page faults, and what is written
   anew is not made zero before. */
rg_region_status rg_region_write(rg_region *region, int64_t offset, const void *data, int64_t size);

/* A region that is written piece by piece and then frozen: begin, then extend by `size` zero bytes, as
   often as wanted, whose pages come with the first write to them (they begin at *offset, a multiple of
   the page size), then write in any order and from any process that was forked meanwhile, then freeze.
   No process can write to a frozen region any more. Nothing is mapped meanwhile: write() takes no page
   faults. */
rg_region_status rg_region_begin(rg_region **region);
rg_region_status rg_region_extend(rg_region *region, int64_t size, int64_t limit, int64_t *offset,
                                  int64_t *available);
rg_region_status rg_region_freeze(rg_region *region);

/* Maps `size` bytes at `offset`, a multiple of the page size, privately: a write changes the
   caller's copy of a page and nobody else's. NULL with errno on failure. */
char *rg_region_map(const rg_region *region, int64_t offset, int64_t size);

/* The region that the key tells of, with one reference more: the one this process has, or
   attached anew. */
rg_region_status rg_region_attach(const rg_region_key *key, int writable, rg_region **region);

/* One reference less; the last one unmaps it and closes its descriptor. */
void rg_region_close(rg_region *region);

/* The key under which another process finds a region now: by this process's descriptor. */
rg_region_key rg_region_key_of(const rg_region *region);

/* The writable region in which these bytes lie; NULL if there is none. */
rg_region *rg_region_at(const void *start, int64_t size);

/* This process begins to work for another one: what it has now, that has as well, if it is `near`,
   on the same machine. */
void rg_region_note_known(int near);

/* This process begins to take from another one what it needs for its work (`begin` is 1), and has taken
   it (0): of all regions that it has, those that it attaches in between the other one has as well. */
void rg_region_attach_known(int begin);

/* Regions of this process, newest first, and the number of the last one that it has made or attached. */
const rg_region *rg_region_first(void);
int64_t rg_region_last(void);

#endif
