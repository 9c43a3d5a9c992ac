#ifndef RG_SHM_STORE_H
#define RG_SHM_STORE_H

#include <R_ext/Utils.h>
#include <Rinternals.h>
#include <stddef.h>

#include "region.h"

/*
 * Work on a lot of memory, slice by slice, between which R looks for an interrupt: these may be left by a
 * jump. What cannot be done is an R error that tells what of `requested` bytes was `available`; before
 * that R has collected what nobody uses any more.
 */
void rg_shm_store_reserve(rg_region *region, int64_t available);
void rg_shm_store_write(rg_region *region, int64_t offset, const void *data, int64_t size,
                        int64_t requested, int64_t available);
void rg_shm_store_copy(void *to, const void *from, size_t size);

/* The same for work on elements, of which `before` were done, and after some more `after`. */
enum { RG_SHM_STORE_ELEMENTS = 1 << 20 };
static inline void rg_shm_store_look(R_xlen_t before, R_xlen_t after) {
  if (before / RG_SHM_STORE_ELEMENTS != after / RG_SHM_STORE_ELEMENTS) R_CheckUserInterrupt();
}

#endif
