#ifndef RG_SHM_ARRAY_H
#define RG_SHM_ARRAY_H

#include <Rinternals.h>
#include <stdint.h>

#include "shm-view.h"

/* Arrays that every process that has them writes in place, and what keeps writers apart. */
SEXP ffi_shm_array_new(SEXP type, SEXP length, SEXP attributes, SEXP limit, SEXP reserved);
SEXP ffi_shm_array_reserve(SEXP x);
SEXP ffi_shm_array_is(SEXP x);
SEXP ffi_shm_array_plain(SEXP x);
SEXP ffi_shm_array_fill(SEXP x, SEXP value);
SEXP ffi_shm_array_write(SEXP x, SEXP start, SEXP values);
SEXP ffi_shm_array_assign(SEXP x, SEXP dim, SEXP subscripts, SEXP values);

/* `size` bytes that are written in place, all zero, with the class of their kind; the bytes that a
   shared array has, at least `size` of them; the number of bytes that an R value allows; attributes
   from a named list, set without a copy. */
SEXP rg_shm_array_of(rg_live kind, R_xlen_t size, int64_t limit);
void *rg_shm_array_data(SEXP x, size_t size);
int64_t rg_shm_array_limit(SEXP limit);
void rg_shm_array_set_attributes(SEXP x, SEXP attributes);

/* The shared array that `x` is, without what R may have wrapped it in to change its attributes; `x`
   itself if it is none. */
SEXP rg_shm_array_unwrap(SEXP x);

/* What becomes an ordinary vector of the elements that it has now. Always what stands on the memory of an
   array and is none any more. Of arrays themselves: */
typedef struct {
  enum {
    RG_SETTLE_NEW,  /* those whose region has a higher number than `region`; they keep their class */
    RG_SETTLE_ALL,  /* all; they keep their class, as what comes from another process does */
    RG_SETTLE_PLAIN /* all, without the class; a lock or counter, otherwise left as it is, is an error */
  } arrays;
  int64_t region;
} rg_settle;

/* `x`, or what has taken its place. */
SEXP rg_shm_array_settle(SEXP x, const rg_settle *how);

/* An ordinary copy of a vector that R has wrapped an array in, and that is no array any more, and `x`
   itself of any other. */
SEXP rg_shm_array_copy_wrapped(SEXP x);
SEXP ffi_shm_array_has_lost_class(SEXP x);

SEXP ffi_shm_lock_new(SEXP limit);
SEXP ffi_shm_lock_with(SEXP lock, SEXP timeout, SEXP call, SEXP died, SEXP env);

SEXP ffi_shm_counter_new(SEXP start, SEXP limit);
SEXP ffi_shm_counter_add(SEXP counter, SEXP by);
SEXP ffi_shm_counter_value(SEXP counter);

#endif
