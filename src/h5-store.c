#include "h5-store.h"

#include <Rinternals.h>

#include "encode.h"
#include "region.h"
#include "sys-memory.h"

static rg_h5_memory *store_create(int64_t size, int64_t limit, char **data) {
  rg_region *region = NULL;
  int64_t available = 0;
  rg_region_status status = rg_region_create(size, limit, &region, &available);
  /* Room may lie in a cache that nobody uses any more. */
  if (rg_encode_may_try_again(status)) status = rg_region_create(size, limit, &region, &available);
  rg_encode_check(status, size, available);
  *data = region->data;
  return region;
}

static int store_write(rg_h5_memory *store, int64_t offset, const void *data, int64_t size) {
  return rg_region_write(store, offset, data, size) == RG_REGION_OK ? 0 : -1;
}

static uint64_t store_tag(const rg_h5_memory *store) { return store->key.tag; }

static void store_close(rg_h5_memory *store) { rg_region_close(store); }

static int64_t store_room(void) {
  rg_memory memory;
  return rg_memory_read(&memory) == 0 ? memory.available : INT64_MAX;
}

const rg_h5_store_calls *rg_h5_store(void) {
  static const rg_h5_store_calls calls = {store_create, store_write, store_tag, store_close, store_room};
  return &calls;
}
