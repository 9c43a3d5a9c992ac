#ifndef RG_SYS_MAP_H
#define RG_SYS_MAP_H

#include <stdint.h>

/*
 * Mappings of shared memory. The system allows a process some number of mappings (vm.max_map_count,
 * 65,530 by default on Linux). One that has so many cannot go on: malloc() and reading a file need
 * mappings, too. So whoever wants to keep another one asks first whether there is room, and does
 * without if there is not. What must not do without, since a vector that exists already needs it, or
 * what is gone after a moment, does not ask. All of it is called on one thread.
 */

/* PRIVATE: a write changes the caller's copy of a page; SHARED: for all to see; FRESH: of no file. */
typedef enum { RG_MAP_PRIVATE, RG_MAP_SHARED, RG_MAP_FRESH } rg_map_kind;

/* `size` bytes at `offset` of the file; NULL with errno. Where the system has no memory or addresses left, `reclaim`
   is called first, if there is one, since mappings of what nobody uses any more are dropped by whoever finds that
   out: a garbage collection. */
void rg_map_set_reclaim(void (*reclaim)(void));
void *rg_map_new(int fd, int64_t offset, int64_t size, rg_map_kind kind);
void rg_map_drop(void *address, int64_t size);

/* Whether this process would have no more than three quarters of what it may with one more, whoever has
   made the others: errno is ENOMEM if not. What others have is counted now and then; rg_map_look()
   counts it now. */
int rg_map_has_room(void);
void rg_map_look(void);

typedef struct {
  int64_t ours;  /* made here and not dropped */
  int64_t all;   /* of the process; -1 unknown */
  int64_t most;  /* up to which there is room for more; INT64_MAX: the system knows no limit */
  int64_t limit; /* of the system; likewise */
} rg_map_counts;
rg_map_counts rg_map_count(void);

#endif
