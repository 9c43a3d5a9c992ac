#include "string-encoding.h"

#include <langinfo.h>
#include <string.h>

/* As R itself looks at it, when it starts and whenever the locale is set. */
rg_native rg_string_native(void) {
  const char *set = nl_langinfo(CODESET);
  if (strcmp(set, "UTF-8") == 0) return RG_NATIVE_UTF8;
  if (strcmp(set, "ISO-8859-1") == 0) return RG_NATIVE_LATIN1;
  int ascii = strcmp(set, "ANSI_X3.4-1968") == 0 || strcmp(set, "US-ASCII") == 0;
  return ascii ? RG_NATIVE_ASCII : RG_NATIVE_FOREIGN;
}

static int is_ascii(const char *bytes, int size) {
  for (int i = 0; i < size; i++) {
    if ((unsigned char)bytes[i] > 127) return 0;
  }
  return 1;
}

static int is_native_text(SEXP string) {
  return string != NA_STRING && Rf_getCharCE(string) == CE_NATIVE &&
         !is_ascii(CHAR(string), LENGTH(string));
}

int rg_string_have_codes(SEXP x, rg_native native) {
  if (native != RG_NATIVE_FOREIGN) return 1;
  R_xlen_t i = 0;
  while (i < XLENGTH(x) && !is_native_text(STRING_ELT(x, i))) i++;
  return i == XLENGTH(x);
}

unsigned char rg_string_encoding(SEXP string, rg_native native) {
  if (string == NA_STRING) return RG_STRING_NA;
  return is_native_text(string) ? (unsigned char)native : (unsigned char)Rf_getCharCE(string);
}

SEXP rg_string_make(const char *bytes, int size, unsigned char encoding, rg_native native) {
  cetype_t mark = (cetype_t)encoding;
  switch (encoding) {
  case CE_NATIVE:
  case CE_UTF8:
  case CE_LATIN1:
  case CE_BYTES:
    break;
  case RG_STRING_NATIVE_UTF8:
    mark = native == RG_NATIVE_UTF8 ? CE_NATIVE : CE_UTF8;
    break;
  case RG_STRING_NATIVE_LATIN1:
    mark = native == RG_NATIVE_LATIN1 ? CE_NATIVE : CE_LATIN1;
    break;
  default:
    Rf_error("a string in shared memory or on its way is damaged: there is no encoding %d", encoding);
  }
  return Rf_mkCharLenCE(bytes, size, mark);
}
