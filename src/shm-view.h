#ifndef RG_SHM_VIEW_H
#define RG_SHM_VIEW_H

#include <Rinternals.h>

#include "arena-block.h"
#include "region.h"

/*
 * What a shared vector stands on: a span of the arena, by a block that several vectors may
 * share, or of a region or of any file, by a mapping of its own. And the handles that stand for
 * the first two when a shared vector is serialised; of a file the data are.
 *
 * R asks for a writable pointer also where it only reads (INTEGER(x) does). Frozen memory is
 * mapped privately, so that a write is never seen by another process; a vector that shares
 * its block gets a mapping of its own first, so that it is not seen by another vector
 * either. A view that has been written to is not passed on by handle again.
 */
typedef struct {
  rg_block *block;
  rg_region *region;
  char *data;
  char *own; /* mapped for this view alone, or NULL */
  int64_t offset, size;
  R_xlen_t length;
  int dirty; /* a writable pointer was handed out */
  int duplicated; /* of an array: made by R, which may be about to write to it */
  /* Of a character vector, once it has been read: R's strings, `string_count` of them, and which
     of them each element is; NULL: element i is string i. */
  const SEXP *strings;
  const uint32_t *numbers;
  uint64_t string_count;
} rg_view;

/* Which vectors that are read become ordinary ones. Numbers: all but character vectors, whose
   strings are always the session's own, made when they are first asked for. */
typedef enum { RG_COPY_NONE, RG_COPY_NUMBERS, RG_COPY_ALL } rg_copy;

/* The arena that handles are written for (worker) or resolved in (parent) between the two
   calls. Calls do not nest. */
void rg_shm_view_begin(rg_arena *arena, rg_copy copy);
void rg_shm_view_finish(void);

/* The external pointer of a new view. Takes over one reference to the block or region,
   which it closes if that fails. */
SEXP rg_shm_view_of_block(rg_block *block, R_xlen_t length);
SEXP rg_shm_view_of_region(rg_region *region, int64_t offset, int64_t size, R_xlen_t length);

/* The same of a private mapping of the file's first `size` bytes, which outlives the descriptor;
   NULL with errno if it cannot be mapped. */
SEXP rg_shm_view_of_file(int fd, int64_t size, R_xlen_t length);

/* A view of the same region. */
SEXP rg_shm_view_again(SEXP pointer);

/* The view of an external pointer, NULL for a stand-in's. */
static inline rg_view *rg_shm_view_get(SEXP pointer) { return R_ExternalPtrAddr(pointer); }

/* The data for reading, and for writing. Raise an R error if there are none. */
const void *rg_shm_view_read(SEXP pointer);
void *rg_shm_view_write(SEXP pointer);

/* The handle as a raw vector: of a view, or NULL if the data themselves must be written;
   of a span of the arena that is being encoded for. */
SEXP rg_shm_view_handle(SEXP pointer, SEXPTYPE type);
SEXP rg_shm_view_span_handle(rg_span span, SEXPTYPE type, R_xlen_t length);

/* The length that a handle tells of. */
R_xlen_t rg_shm_view_handle_length(SEXP handle);

/* What a handle leads to: `open(pointer, type)` with a view, or, where copies are wanted or
   nothing more can be mapped, `copy(data, type, length)` with `data` mapped meanwhile.
   `least` gives the bytes that `length` elements of the type take at least. `copied_from` is
   the first rg_copy that wants copies. Raises an R error that says what is wrong with a
   handle. */
typedef struct {
  rg_copy copied_from;
  int64_t (*least)(SEXPTYPE type, R_xlen_t length);
  SEXP (*open)(SEXP pointer, SEXPTYPE type);
  SEXP (*copy)(const void *data, int64_t size, SEXPTYPE type, R_xlen_t length);
} rg_shm_view_maker;
SEXP rg_shm_view_resolve(SEXP handle, const rg_shm_view_maker *maker);

/* Whether the view stands in this arena, or in a frozen region, and is as it was made, so that
   its handle says all. */
int rg_shm_view_is_pristine(SEXP pointer, const rg_arena *arena);

/* Raises the R error for a region that could not be attached. */
void rg_shm_view_refuse(rg_region_status status, const rg_region_key *key);

#endif
