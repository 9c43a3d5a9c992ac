#ifndef REGATTA_H5_STORE_H
#define REGATTA_H5_STORE_H

#include <stdint.h>

/* Memory of a cache: a region (region.h) as C++ can use it. It is there for all processes that are forked
   from the one that made it, and goes with the last of them. */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rg_region rg_h5_store;

/* `size` bytes, all zero, mapped at *data; their pages come with the first write. To be called on R's
   thread; raises the R error for a lack of memory or of room below `limit`. */
rg_h5_store *rg_h5_store_create(int64_t size, int64_t limit, char **data);

/* Writes without page faults, so that a lack of memory is a failure: -1. Of bytes that were never written,
   nothing may be read or written through the mapping. Any thread. */
int rg_h5_store_write(rg_h5_store *store, int64_t offset, const void *data, int64_t size);

/* Random, of this store alone. */
uint64_t rg_h5_store_tag(const rg_h5_store *store);

/* On R's thread. */
void rg_h5_store_close(rg_h5_store *store);

/* Bytes that this process may still take; INT64_MAX if the system does not say. */
int64_t rg_h5_store_room(void);

#ifdef __cplusplus
}
#endif

#endif
