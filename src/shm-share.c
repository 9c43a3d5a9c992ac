#include "shm-share.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "encode-share.h"
#include "encode.h"
#include "region.h"
#include "shm-store.h"
#include "shm-string.h"
#include "shm-vector.h"
#include "shm-view.h"
#include "sys-map.h"
#include "sys-peer.h"

typedef struct {
  rg_region *region; /* begun with the first vector that is stored */
  int64_t limit;
  SEXP value;
  int64_t share_from;
  SEXP made; /* its CDR: the views of what has been stored */
} share_run;

static rg_region_status extend(share_run *run, int64_t size, int64_t *offset, int64_t *available) {
  rg_region_status status = rg_region_extend(run->region, size, run->limit, offset, available);
  if (!rg_encode_may_try_again(status)) return status;
  return rg_region_extend(run->region, size, run->limit, offset, available);
}

/* Nobody has seen the vectors: all mappings are given back at once, also where no R code can run for want of them. */
static void drop_made(share_run *run) {
  for (SEXP cell = CDR(run->made); cell != R_NilValue; cell = CDR(cell)) rg_shm_view_drop(CAR(cell));
  SETCDR(run->made, R_NilValue);
}

static SEXP new_view(share_run *run, int64_t offset, int64_t size, R_xlen_t length) {
  SEXP pointer = NULL;
  if (rg_map_has_room() || (rg_encode_may_try_again(RG_REGION_MAPS) && rg_map_has_room())) {
    run->region->references++;
    pointer = rg_shm_view_of_region(run->region, offset, size, length, RG_LIVE_NOT);
  }
  if (!pointer) {
    int code = errno;
    const rg_map_counts counts = rg_map_count();
    drop_made(run);
    if (code == ENOMEM) rg_encode_abort_maps(size, counts);
    Rf_error("cannot map %.0f bytes of shared memory: %s", (double)size, strerror(code));
  }
  PROTECT(pointer);
  SETCDR(run->made, Rf_cons(pointer, CDR(run->made)));
  UNPROTECT(1);
  return pointer;
}

static SEXP store_in_region(SEXP x, const rg_piece *pieces, int count, void *data) {
  share_run *run = data;
  int64_t offset, available = 0, size = 0;
  for (int i = 0; i < count; i++) size += pieces[i].size;
  if (!run->region) run->region = rg_encode_begin_region(size);
  rg_encode_check(extend(run, size, &offset, &available), size, available);
  for (int64_t at = offset, i = 0; i < count; at += pieces[i++].size) {
    rg_shm_store_write(run->region, at, pieces[i].data, pieces[i].size, size, available);
  }
  SEXP pointer = PROTECT(new_view(run, offset, size, XLENGTH(x)));
  SEXP shared = PROTECT(TYPEOF(x) == STRSXP ? rg_shm_string_new(pointer)
                                            : rg_shm_vector_new(pointer, TYPEOF(x)));
  SHALLOW_DUPLICATE_ATTRIB(shared, x);
  UNPROTECT(2);
  return shared;
}

static SEXP run_share(void *data) {
  share_run *run = data;
  const rg_share_sink sink = {run->share_from, NULL, 0, store_in_region, run};
  SEXP shared = PROTECT(rg_encode_share(run->value, &sink));
  if (run->region && rg_region_freeze(run->region) != RG_REGION_OK) {
    Rf_error("cannot seal shared memory: %s", strerror(errno));
  }
  UNPROTECT(1);
  return shared;
}

static void end_share(void *data, Rboolean jump) {
  share_run *run = data;
  if (jump) drop_made(run);
  if (run->region) rg_region_close(run->region); /* the views have references of their own */
}

/* x with every vector of at least `from` bytes in one new region; `limit` in bytes. */
SEXP ffi_shm_share(SEXP x, SEXP from, SEXP limit) {
  double most = Rf_asReal(limit);
  SEXP made = PROTECT(Rf_cons(R_NilValue, R_NilValue));
  share_run run = {NULL, most < 9e18 ? (int64_t)most : INT64_MAX, x, (int64_t)Rf_asReal(from), made};
  SEXP token = PROTECT(R_MakeUnwindCont());
  SEXP shared = rg_encode_own_tables(R_UnwindProtect(run_share, &run, end_share, &run, token));
  UNPROTECT(2);
  return shared;
}

static int is_shared(SEXP x) {
  if (TYPEOF(x) != VECSXP && TYPEOF(x) != LISTSXP) return rg_shm_vector_is(x) || rg_shm_string_is(x);
  R_CheckStack();
  if (TYPEOF(x) == LISTSXP) {
    while (x != R_NilValue && !is_shared(CAR(x))) x = CDR(x);
    return x != R_NilValue;
  }
  R_xlen_t i = 0;
  while (i < XLENGTH(x) && !is_shared(VECTOR_ELT(x, i))) i++;
  return i < XLENGTH(x);
}

/* Whether the vector itself stands in shared memory, or one in the list does. */
SEXP ffi_shm_is(SEXP x) { return Rf_ScalarLogical(is_shared(x)); }

/* Ordinary vectors with the elements and attributes of those of x. R's duplicate of an array is the array. */
SEXP ffi_shm_copy(SEXP x) {
  SEXP copy = PROTECT(Rf_duplicate(x));
  const rg_settle how = {.arrays = RG_SETTLE_PLAIN};
  copy = rg_encode_own_tables(rg_encode_settle(copy, &how));
  UNPROTECT(1);
  return copy;
}

/* The number of the newest region of this process, also if that is gone. */
SEXP ffi_shm_last_region(void) { return Rf_ScalarReal((double)rg_region_last()); }

/* The regions of this process: list(pid, bytes, references, writable), and of the arena's
   blocks: their number and bytes. */
SEXP ffi_shm_info(void) {
  R_xlen_t count = 0, i = 0;
  for (const rg_region *region = rg_region_first(); region; region = region->next) count++;
  const char *names[] = {"owner", "bytes", "references", "writable", "blocks", "block_bytes", ""};
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  SEXP owner = SET_VECTOR_ELT(result, 0, Rf_allocVector(INTSXP, count));
  SEXP size = SET_VECTOR_ELT(result, 1, Rf_allocVector(REALSXP, count));
  SEXP references = SET_VECTOR_ELT(result, 2, Rf_allocVector(INTSXP, count));
  SEXP writable = SET_VECTOR_ELT(result, 3, Rf_allocVector(LGLSXP, count));
  for (const rg_region *region = rg_region_first(); region; region = region->next, i++) {
    INTEGER(owner)[i] = (int)region->owner;
    REAL(size)[i] = (double)region->key.size;
    INTEGER(references)[i] = (int)region->references;
    LOGICAL(writable)[i] = region->writable;
  }
  SET_VECTOR_ELT(result, 4, Rf_ScalarReal((double)rg_block_count()));
  SET_VECTOR_ELT(result, 5, Rf_ScalarReal((double)rg_block_bytes()));
  UNPROTECT(1);
  return result;
}

/* Whether all connections with the port lead to R processes on this machine. */
SEXP ffi_shm_peer_is_near(SEXP port) {
  return Rf_ScalarLogical(rg_peer_is_near(Rf_asInteger(port), "R"));
}
