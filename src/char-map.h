#ifndef RG_CHAR_MAP_H
#define RG_CHAR_MAP_H

#include <Rinternals.h>

/* list(chars, idx, attributes) of class "char_map"; idx counts from 1 and is an integer vector,
   also where it is a long one. */
SEXP ffi_char_map(SEXP x);
SEXP ffi_char_map_expand(SEXP map);

/* The same for every character vector in a list of lists. `share`: vectors of which more than
   this part are distinct strings stay as they are; 1: none do. */
SEXP ffi_compress_chars(SEXP x, SEXP limit, SEXP altreps, SEXP class, SEXP share);
SEXP ffi_uncompress_chars(SEXP x, SEXP class);

#endif
