#ifndef RG_ENCODE_H
#define RG_ENCODE_H

#include <Rinternals.h>

#include "arena.h"
#include "buffer.h"
#include "encode-bytes.h"
#include "shm-view.h"
#include "sys-map.h"

/*
 * Values as bytes, in the forms of encode-bytes.h. All but that of R's serialisation are only for what one memory copy
 * settles; they make an empty task cheap, since R's serialisation allocates a table of 9 KB on every call.
 */

/* Appends `value` to `out`. Vectors of at least `share_from` bytes go to `arena`; none if
   arena is NULL. Raises an R error for what cannot leave its process; returns whether something
   inside, in an environment or an attribute for example, has no meaning elsewhere and was sent as a
   null pointer. */
int rg_encode(SEXP value, rg_arena *arena, int64_t share_from, rg_buffer *out);

/* Whether R code that runs now was called by rg_encode(), which cannot be entered again. */
int rg_encode_is_writing(void);
SEXP ffi_encode_is_writing(void);

SEXP ffi_encode_is_foreign(SEXP x);

/* A condition without those of its fields that rg_encode() refuses: they are NULL in a shallow copy.
   The condition itself if there are none. */
SEXP ffi_encode_without_foreign(SEXP condition);

/* The value of the `size` bytes at `bytes`. */
SEXP rg_decode(const void *bytes, size_t size, rg_arena *arena, rg_copy copy);

/* `value`, in which `:=` of package data.table adds columns in place to the tables that it is, or has in lists: each says
   so by a pointer that means nothing in a copy and in another process. As it is where the package is not loaded. */
SEXP rg_encode_own_tables(SEXP value);
SEXP ffi_encode_own_tables(SEXP value);

/* Raises the R error for memory that could not be had: for a result of a run, or for an object. */
void rg_encode_full(rg_arena_status status, rg_arena_need need, int in_run);

/* The same for a region, unless all is well. */
void rg_encode_check(rg_region_status status, int64_t requested, int64_t available);

/* Whether something may succeed now that has not: room, a descriptor or a mapping may have been in vectors that nobody
   uses any more and that R had not collected. */
int rg_encode_may_try_again(rg_region_status status);

/* rg_region_begin(), for vectors of which the first has `size` bytes. */
rg_region *rg_encode_begin_region(int64_t size);

/* The errors of a process that may open no more files, and of one that has no room for more mappings of
   shared memory: `counts` as they were when that was found. */
void rg_encode_abort_files(int64_t requested);
void rg_encode_abort_maps(int64_t requested, rg_map_counts counts);

/* A table of methods as it is, with no promise evaluated. */
SEXP ffi_methods_take(SEXP table, SEXP names);
/* Whether each of these tables is as it was taken in `known`. */
SEXP ffi_methods_hold(SEXP tables, SEXP known);
/* Makes these methods what they were. */
SEXP ffi_methods_put(SEXP table, SEXP taken, SEXP names);

/* x as serialize() writes it in this machine's own order; leave_bounded() if that has more bytes than
   `most`. */
SEXP ffi_encode_bounded(SEXP x, SEXP most);

/* encode-code.c */
SEXP ffi_encode_code(SEXP objects, SEXP most);
SEXP ffi_encode_code_words(SEXP code);
SEXP ffi_encode_mentions(SEXP values, SEXP names, SEXP text);
SEXP ffi_encode_framed(SEXP values);

/* encode-names.c */
SEXP ffi_encode_names(SEXP streams, SEXP names, SEXP symbols);
SEXP ffi_encode_spaces(SEXP streams);
SEXP ffi_encode_table(SEXP names);
SEXP ffi_encode_words(SEXP sources, SEXP names, SEXP slots, SEXP longest, SEXP odd);
SEXP ffi_encode_classes(SEXP value, SEXP names);

/* Letters, digits, dots, underscores, and all that is not ASCII, in any locale. */
int rg_encode_is_word(char byte);

/* Whether `value`, or an element of it, is of a class that no value was of since the classes were forgotten. */
int rg_encode_is_news(SEXP value);
void rg_encode_forget_classes(void);

#endif
