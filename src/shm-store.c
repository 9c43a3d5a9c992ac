#include "shm-store.h"

#include <string.h>

#include "encode.h"

/* Some hundredths of a second. */
static const int64_t SLICE_BYTES = (int64_t)1 << 25;

static int64_t slice(int64_t left) { return left < SLICE_BYTES ? left : SLICE_BYTES; }

void rg_shm_store_reserve(rg_region *region, int64_t available) {
  const int64_t size = region->key.size;
  for (int64_t at = 0; at < size; at += slice(size - at)) {
    rg_region_status status = rg_region_reserve(region, at, slice(size - at));
    if (status == RG_REGION_FULL) {
      R_gc();
      status = rg_region_reserve(region, at, slice(size - at));
    }
    rg_encode_check(status, size, available);
    R_CheckUserInterrupt();
  }
}

void rg_shm_store_write(rg_region *region, int64_t offset, const void *data, int64_t size,
                        int64_t requested, int64_t available) {
  const char *from = data;
  for (int64_t at = 0; at < size; at += slice(size - at)) {
    rg_region_status status = rg_region_write(region, offset + at, from + at, slice(size - at));
    if (status == RG_REGION_FULL) {
      R_gc();
      status = rg_region_write(region, offset + at, from + at, slice(size - at));
    }
    rg_encode_check(status, requested, available);
    R_CheckUserInterrupt();
  }
}

void rg_shm_store_copy(void *to, const void *from, size_t size) {
  for (size_t at = 0; at < size;) {
    size_t some = (size_t)slice((int64_t)(size - at));
    memcpy((char *)to + at, (const char *)from + at, some);
    at += some;
    R_CheckUserInterrupt();
  }
}
