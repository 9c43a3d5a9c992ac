#include "settings.h"

#include <string.h>

extern char **environ;

static int is_data(SEXP x) {
  switch (TYPEOF(x)) {
  case LGLSXP:
  case INTSXP:
  case REALSXP:
  case CPLXSXP:
  case STRSXP:
  case RAWSXP:
  case VECSXP:
    return 1;
  default:
    return 0;
  }
}

SEXP ffi_settings_options(SEXP options, SEXP whole) {
  const int all = Rf_asLogical(whole);
  R_xlen_t n = 0, i = 0;
  for (SEXP at = options; at != R_NilValue; at = CDR(at)) n++;
  SEXP values = PROTECT(Rf_allocVector(VECSXP, n));
  SEXP names = PROTECT(Rf_allocVector(STRSXP, n));
  for (SEXP at = options; at != R_NilValue; at = CDR(at), i++) {
    if (all || is_data(CAR(at))) SET_VECTOR_ELT(values, i, CAR(at));
    if (TAG(at) != R_NilValue) SET_STRING_ELT(names, i, PRINTNAME(TAG(at)));
  }
  Rf_setAttrib(values, R_NamesSymbol, names);
  UNPROTECT(2);
  return values;
}

SEXP ffi_settings_options_same(SEXP options, SEXP before) {
  SEXP names = Rf_getAttrib(before, R_NamesSymbol);
  R_xlen_t i = 0;
  for (SEXP at = options; at != R_NilValue; at = CDR(at), i++) {
    if (i >= XLENGTH(before) || TAG(at) == R_NilValue) return Rf_ScalarLogical(0);
    SEXP value = VECTOR_ELT(before, i);
    int left_out = value == R_NilValue && !is_data(CAR(at));
    if ((CAR(at) != value && !left_out) || PRINTNAME(TAG(at)) != STRING_ELT(names, i)) return Rf_ScalarLogical(0);
  }
  return Rf_ScalarLogical(i == XLENGTH(before));
}

SEXP ffi_settings_environment(void) {
  R_xlen_t size = 0, at = 0;
  for (char **entry = environ; entry && *entry; entry++) size += (R_xlen_t)strlen(*entry) + 1;
  SEXP bytes = PROTECT(Rf_allocVector(RAWSXP, size));
  for (char **entry = environ; entry && *entry; entry++) {
    size_t length = strlen(*entry) + 1;
    memcpy(RAW(bytes) + at, *entry, length);
    at += (R_xlen_t)length;
  }
  UNPROTECT(1);
  return bytes;
}
