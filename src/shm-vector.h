#ifndef RG_SHM_VECTOR_H
#define RG_SHM_VECTOR_H

#include <R_ext/Rdynload.h>
#include <Rinternals.h>

#include "arena-block.h"

/*
 * Vectors whose data lie in shared memory: ALTREP classes for logical, integer, double, complex
 * and raw. Lists are ordinary lists of such vectors, since R before 4.3 has no ALTREP
 * class for them.
 */

void rg_shm_vector_init(DllInfo *dll);

/* Bytes of one element of the vector types that can be shared, 0 for other types. */
size_t rg_shm_vector_unit(SEXPTYPE type);

/* The vector of a view's external pointer. */
SEXP rg_shm_vector_new(SEXP pointer, SEXPTYPE type);

/* A stand-in for `x` that serialises as the handle of `span`; its attributes are those of
   x, its data cannot be read. */
SEXP rg_shm_vector_stand_in(SEXP x, rg_span span);

/* Whether the handle of `x` says all about it and leads somewhere, into `arena` or to a region. */
int rg_shm_vector_has_handle(SEXP x, const rg_arena *arena);

/* Whether `x` is a shared vector that R has not made by duplicating one. */
int rg_shm_vector_is_original(SEXP x);

/* Whether `x` is a shared vector at all. */
int rg_shm_vector_is(SEXP x);

/* The shared vector that an ALTREP object of R asks when it is asked for its length, as a wrapper does;
   NULL: none. */
SEXP rg_shm_vector_within(SEXP x);

#endif
