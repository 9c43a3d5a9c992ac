#ifndef RG_SHM_COLUMNS_H
#define RG_SHM_COLUMNS_H

#include <Rinternals.h>

/*
 * Elements that forked workers write side by side, which in the end are one frozen vector:
 * what is in one piece need not be put together from many.
 */

/* An external pointer; drop() gives the memory back if no vector has been made of it. */
SEXP ffi_shm_columns_new(SEXP type, SEXP length, SEXP limit);
SEXP ffi_shm_columns_drop(SEXP columns);

/* `values` as the elements from number `start` (from 1) on. FALSE if the vector has been made or
   the memory given back. */
SEXP ffi_shm_columns_write(SEXP columns, SEXP start, SEXP values);

/* The vector, with the attributes of a named list. All elements must have been written. */
SEXP ffi_shm_columns_vector(SEXP columns, SEXP type, SEXP length, SEXP attributes);

#endif
