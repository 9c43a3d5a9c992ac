#ifndef REGATTA_H5_ENTRY_H
#define REGATTA_H5_ENTRY_H

#include <Rinternals.h>

/* HDF5 for R. Failures are returned, as lists of class "h5_failure", for R code to signal. */

#ifdef __cplusplus
extern "C" {
#endif

/* What the package was built with. */
SEXP ffi_h5_about(void);

/* Facts about a dataset of numbers. */
SEXP ffi_h5_describe(SEXP path, SEXP name);

/* How many bytes its elements take in the file: a look at each chunk's entry in the index. */
SEXP ffi_h5_stored(SEXP path, SEXP name);

/* Entries with a `source`, list(path, name, plane, list(extents, chunk, type)), fail if that is not what
   ffi_h5_describe() says any more. This one does nothing else. */
SEXP ffi_h5_check(SEXP source);

/* What is below a group. */
SEXP ffi_h5_list(SEXP path, SEXP group);

/* The elements of a short dataset, or of an attribute or a field of it, or NULL if there is none. */
SEXP ffi_h5_values(SEXP path, SEXP name, SEXP attribute, SEXP field);

/* A cache for a dataset and others of its file, as an external pointer; what there is in it, and when their files
   were last changed. Other entries take it, or NULL, as `cache`. */
SEXP ffi_h5_cache_new(SEXP source, SEXP others, SEXP budget, SEXP limit);
SEXP ffi_h5_cache_drop(SEXP pointer);
SEXP ffi_h5_cache_info(SEXP pointer);
SEXP ffi_h5_cache_changed(SEXP pointer);

/* A part of a matrix; `slow` and `fast` are NULL or indices from 1. */
SEXP ffi_h5_read(SEXP source, SEXP slow, SEXP fast, SEXP type, SEXP threads, SEXP cache);

/* Statistics of rows, columns or both in one pass. `groups`: for each axis of the file, lines first, a list: NULL or
   the group of each index from 0, -1 for those that are left out; how many groups; NULL or, for one result of all
   groups, how often the indices of each count.
   `wanted`: sum, var, range, nonzero, median; statistics of the fast index, of the slow one; progress. Medians take
   passes of their own. */
SEXP ffi_h5_stats(SEXP source, SEXP groups, SEXP wanted, SEXP threads, SEXP memory, SEXP cache);

/* The same for a sparse matrix: its values, and the names of indices and pointers. In `extents`, `groups` and
   the results the major axis comes first. */
SEXP ffi_h5_sparse_stats(SEXP source, SEXP others, SEXP extents, SEXP groups, SEXP wanted, SEXP threads, SEXP memory,
                         SEXP cache);

/* Entries of the chosen major indices, NULL or rising from 1. `minors`: NULL, or what becomes of each minor
   index, from 0, -1 if it is left out. */
SEXP ffi_h5_sparse_read(SEXP source, SEXP others, SEXP extents, SEXP majors, SEXP minors, SEXP threads,
                        SEXP cache);

/* A new dataset, in a new file if there is none. Extents are R's: rows, columns. */
SEXP ffi_h5_create(SEXP path, SEXP name, SEXP dim, SEXP chunk, SEXP type, SEXP level, SEXP shuffle);
SEXP ffi_h5_remove(SEXP path, SEXP name);

/* The chunks of a matrix as such a dataset stores them: a list of raw vectors. */
SEXP ffi_h5_encode(SEXP values, SEXP dim, SEXP chunk, SEXP type, SEXP level, SEXP shuffle);

/* Puts them into the dataset: `count` chunks along rows and columns, the first at `at`, from 0. */
SEXP ffi_h5_put(SEXP path, SEXP name, SEXP at, SEXP count, SEXP chunks);

#ifdef __cplusplus
}
#endif

#endif
