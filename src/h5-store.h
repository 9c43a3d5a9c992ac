#ifndef REGATTA_H5_STORE_H
#define REGATTA_H5_STORE_H

#include <stdint.h>

/* Memory of a cache: a region (region.h) as C++ can use it. It is there for all processes that are forked
   from the one that made it, and goes with the last of them. */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rg_region rg_h5_memory;

/* The calls. C++ is in another library than these, which are not in its reach by name: it gets them from R, by
   R_GetCCallable(). */
typedef struct {
  /* `size` bytes, all zero, mapped at *data; their pages come with the first write. To be called on R's
     thread; raises the R error for a lack of memory or of room below `limit`. */
  rg_h5_memory *(*create)(int64_t size, int64_t limit, char **data);

  /* Writes without page faults, so that a lack of memory is a failure: -1. Of bytes that were never written,
     nothing may be read or written through the mapping. Any thread. */
  int (*write)(rg_h5_memory *store, int64_t offset, const void *data, int64_t size);

  /* Random, of this store alone. */
  uint64_t (*tag)(const rg_h5_memory *store);

  /* On R's thread. */
  void (*close)(rg_h5_memory *store);

  /* Bytes that this process may still take; INT64_MAX if the system does not say. */
  int64_t (*room)(void);
} rg_h5_store_calls;

/* In either library. */
const rg_h5_store_calls *rg_h5_store(void);

#ifdef __cplusplus
}
#endif

#endif
