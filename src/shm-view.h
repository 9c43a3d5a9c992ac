#ifndef RG_SHM_VIEW_H
#define RG_SHM_VIEW_H

#include <Rinternals.h>

#include "arena-block.h"
#include "region.h"
#include "shm-bytes.h"
#include "shm-wrapper.h"

/*
 * What a shared vector stands on: a span of the arena, by a block that several vectors may
 * share, or of a region or of any file, by a mapping of its own. And the handles that stand for
 * the first two when a shared vector is serialised; of a file the data are.
 *
 * A view has one state, and rg_shm_view_state() is the only function that asks about it:
 *
 *   PRISTINE  Nobody has been given a pointer that he may keep: the vector is what stands in
 *             shared memory, and its handle says all.
 *   LENT      Somebody has. Most only read, whatever they have asked for: INTEGER(x) asks for a pointer to write
 *             through, as match() and order() do, and Rcpp >= 1.1.1 writes through one that is for reading.
 *             Whether it was written through is found out each time the state is asked for: frozen memory is
 *             mapped privately, and the system says whether it made a private copy of a page; strings are
 *             compared with those that were made of the memory.
 *             Without an answer of the system the vector counts as changed.
 *   CHANGED   It differs from what stands in shared memory, or may: its data travel.
 *   LIVE      Of an array, lock or counter: the memory itself, for all who have it.
 *   LOOK      Of the same: a duplicate that R has made. It shows what is there.
 *
 *   made of frozen memory          PRISTINE
 *   made of a file                 CHANGED: no handle leads to it
 *   made of an array               LIVE
 *   R duplicates LIVE or LOOK      LOOK; R duplicates any other: no shared vector any more
 *   a pointer to the data          PRISTINE -> LENT, LOOK -> CHANGED, with a copy of its own
 *   it is found to have been used  LENT -> CHANGED
 *   a string is set by R           any -> CHANGED
 *
 * LIVE and LOOK hold for an R object of the class of what they view (rg_live). What R has made of
 * one by taking the class away is an ordinary vector: its data travel, and the first write is to
 * a copy (src/shm-vector.c).
 */
typedef enum {
  RG_VIEW_PRISTINE = 0,
  RG_VIEW_LENT,
  RG_VIEW_CHANGED,
  RG_VIEW_LIVE,
  RG_VIEW_LOOK
} rg_view_state;

/* The class of R objects of a kind, RG_LIVE_NOT excluded. */
const char *rg_live_class(rg_live kind);

typedef struct rg_view {
  rg_block *block;
  rg_region *region;
  char *data;
  char *own; /* mapped for this view alone, or NULL */
  int64_t offset, size;
  R_xlen_t length;
  rg_view_state state;
  rg_live live; /* RG_LIVE_NOT unless the region is one that is written in place */
  /* Of a character vector: where its parts are, checked once and not read again from memory that
     others may have written to. And once it has been read: R's strings, `string_count` of them,
     and which of them each element is; NULL: element i is string i. */
  struct rg_string_parts *parts;
  const SEXP *strings;
  const uint32_t *numbers;
  uint64_t string_count;
  const SEXP *made; /* the distinct strings */
  int (*differs)(const struct rg_view *view); /* strings that are LENT from what they were made of */
} rg_view;

/* Which vectors that are read become ordinary ones. Numbers: all but character vectors, whose
   strings are always the session's own, made when they are first asked for. */
typedef enum { RG_COPY_NONE, RG_COPY_NUMBERS, RG_COPY_ALL } rg_copy;

/* Between the two calls what is serialised or read is a value of a run: `arena` is where its handles
   lead, NULL on a node of a cluster, which has none. Calls do not nest. */
void rg_shm_view_begin(rg_arena *arena, rg_copy copy);
void rg_shm_view_finish(void);

/* After rg_shm_view_begin(): what has been written so far. */
void rg_shm_view_watch(const rg_wrapper_tail *written);

/* The external pointer of a new view. Takes over one reference to the block or region,
   which it closes if that fails: NULL with errno if nothing more can be mapped. `live`
   is what a region that is written in place holds, RG_LIVE_NOT for a frozen one. */
SEXP rg_shm_view_of_block(rg_block *block, R_xlen_t length);
SEXP rg_shm_view_of_region(rg_region *region, int64_t offset, int64_t size, R_xlen_t length,
                           rg_live live);

/* The same of a private mapping of the file's first `size` bytes, which outlives the descriptor;
   NULL with errno if it cannot be mapped. */
SEXP rg_shm_view_of_file(int fd, int64_t size, R_xlen_t length);

/* Ends a view whose vector nobody will ever use, without waiting for the garbage collector. */
void rg_shm_view_drop(SEXP pointer);

/* A duplicate of a view that is LIVE or LOOK. */
SEXP rg_shm_view_look(SEXP pointer);

/* The view of an external pointer, NULL for a stand-in's. */
static inline rg_view *rg_shm_view_get(SEXP pointer) { return R_ExternalPtrAddr(pointer); }

/* PRISTINE, CHANGED or LIVE: what the vector is now. CHANGED for a stand-in. */
rg_view_state rg_shm_view_state(SEXP pointer);

/* The data for reading, and for writing to this view, which is no array's any more then. Of strings,
   which are written to elsewhere: that somebody may write, and that somebody has. Raise an R error if
   there are no data. */
const void *rg_shm_view_read(SEXP pointer);
void *rg_shm_view_write(SEXP pointer);
void rg_shm_view_lend(SEXP pointer);
void rg_shm_view_change(SEXP pointer);

/* The handle as a raw vector: of a view, or NULL if there is none for where the bytes go, so that
   the data themselves must be written; the caller has asked for the state. Of a span of the arena
   that is being encoded for. */
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

/* Whether the view stands where a handle can lead: in this arena, or in a region that the receiver
   can reach. */
int rg_shm_view_is_reachable(SEXP pointer, const rg_arena *arena);

/* Raises the R error for a region that could not be attached. */
void rg_shm_view_refuse(rg_region_status status, const rg_region_key *key);

#endif
