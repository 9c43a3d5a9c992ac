#ifndef RG_SHM_STRING_H
#define RG_SHM_STRING_H

#include <R_ext/Rdynload.h>
#include <Rinternals.h>

#include "arena-block.h"

/*
 * Character vectors in shared memory: the distinct strings and, unless nearly all differ, the
 * number of its string for each element. The ALTREP class makes R's strings of them when they
 * are first read, each once.
 */

void rg_shm_string_init(DllInfo *dll);

/* Hands the content of the character vector to `store` and returns what that returns. */
SEXP rg_shm_string_store(SEXP x, SEXP (*store)(SEXP x, const rg_piece *pieces, int count, void *data),
                         void *data);

/* The vector of a view's external pointer. Raises an R error if what it views is no character
   vector. */
SEXP rg_shm_string_new(SEXP pointer);

/* As for shm-vector.h. */
SEXP rg_shm_string_stand_in(SEXP x, rg_span span);
int rg_shm_string_has_handle(SEXP x, const rg_arena *arena);
int rg_shm_string_is(SEXP x);

#endif
