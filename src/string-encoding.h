#ifndef RG_STRING_ENCODING_H
#define RG_STRING_ENCODING_H

#include <Rinternals.h>

/*
 * The encoding of a string whose bytes are on their way to another process, as one byte. A string
 * that R has not marked is in the encoding of the locale, which is not that of the other process for
 * sure: the byte says which it is, and the reader marks it unless it is the reader's own, as R's
 * serialisation does. Only UTF-8 and Latin-1 can be marked. The C locale gives bytes beyond ASCII no
 * meaning, and they stay what they are. Strings of any other locale are left to R's serialisation,
 * which translates them.
 */
typedef enum {
  /* 0 to 4 and CE_BYTES: R's cetype_t */
  RG_STRING_NATIVE_UTF8 = 16,   /* not marked, in a UTF-8 locale */
  RG_STRING_NATIVE_LATIN1 = 17, /* not marked, in a Latin-1 locale */
  RG_STRING_NA = 255
} rg_string_code;

/* The encoding of this process's locale now; the code of what it does not mark. */
typedef enum {
  RG_NATIVE_ASCII = 0,
  RG_NATIVE_FOREIGN = 8,
  RG_NATIVE_UTF8 = RG_STRING_NATIVE_UTF8,
  RG_NATIVE_LATIN1 = RG_STRING_NATIVE_LATIN1
} rg_native;
rg_native rg_string_native(void);

/* Whether each string of a character vector has a byte in a process with this locale. */
int rg_string_have_codes(SEXP x, rg_native native);

/* The byte for `string`, which has one. */
unsigned char rg_string_encoding(SEXP string, rg_native native);

/* The string of these bytes. Raises an R error for a byte that is no encoding. */
SEXP rg_string_make(const char *bytes, int size, unsigned char encoding, rg_native native);

#endif
