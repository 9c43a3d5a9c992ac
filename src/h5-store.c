#include "h5-store.h"

#include <Rinternals.h>

#include "encode.h"
#include "region.h"
#include "sys-memory.h"

rg_h5_store *rg_h5_store_create(int64_t size, int64_t limit, char **data) {
  rg_region *region = NULL;
  int64_t available = 0;
  rg_region_status status = rg_region_create(size, limit, &region, &available);
  if (status == RG_REGION_FULL) {
    R_gc(); /* room may lie in a cache that nobody uses any more */
    status = rg_region_create(size, limit, &region, &available);
  }
  rg_encode_check(status, size, available);
  *data = region->data;
  return region;
}

int rg_h5_store_write(rg_h5_store *store, int64_t offset, const void *data, int64_t size) {
  return rg_region_write(store, offset, data, size) == RG_REGION_OK ? 0 : -1;
}

uint64_t rg_h5_store_tag(const rg_h5_store *store) { return store->key.tag; }

void rg_h5_store_close(rg_h5_store *store) { rg_region_close(store); }

int64_t rg_h5_store_room(void) {
  rg_memory memory;
  return rg_memory_read(&memory) == 0 ? memory.available : INT64_MAX;
}
