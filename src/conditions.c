#include "conditions.h"

#include <string.h>

static R_xlen_t place_of(SEXP list, const char *name) {
  SEXP names = Rf_getAttrib(list, R_NamesSymbol);
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++) {
    if (strcmp(CHAR(STRING_ELT(names, i)), name) == 0) return i;
  }
  Rf_error("a condition has no field `%s`", name);
}

/* Not protected. */
static SEXP entry(SEXP field, R_xlen_t k) {
  switch (TYPEOF(field)) {
  case VECSXP:
    return VECTOR_ELT(field, k);
  case STRSXP:
    return Rf_ScalarString(STRING_ELT(field, k));
  case INTSXP:
    return Rf_ScalarInteger(INTEGER_ELT(field, k));
  default:
    Rf_error("a field of a condition is neither a list nor text nor integers");
  }
}

/* Strings are the same if they are one object: R keeps one of each. */
static int are_same(SEXP a, SEXP b) {
  if (a == b) return 1;
  if (TYPEOF(a) != STRSXP || TYPEOF(b) != STRSXP || XLENGTH(a) != XLENGTH(b)) return 0;
  for (R_xlen_t i = 0; i < XLENGTH(a); i++) {
    if (STRING_ELT(a, i) != STRING_ELT(b, i)) return 0;
  }
  return 1;
}

SEXP ffi_conditions_first_of_class(SEXP conditions) {
  enum { KNOWN_MAX = 64 };
  SEXP known[KNOWN_MAX]; /* attributes of conditions, which protect them */
  int at[KNOWN_MAX], count = 0;
  SEXP first = PROTECT(Rf_allocVector(INTSXP, XLENGTH(conditions)));
  for (R_xlen_t k = 0; k < XLENGTH(conditions); k++) {
    SEXP class = Rf_getAttrib(VECTOR_ELT(conditions, k), R_ClassSymbol);
    int i = 0;
    while (i < count && !are_same(known[i], class)) i++;
    INTEGER(first)[k] = i < count ? at[i] : (int)k + 1;
    if (i == count && count < KNOWN_MAX) {
      known[count] = class;
      at[count++] = (int)k + 1;
    }
  }
  UNPROTECT(1);
  return first;
}

SEXP ffi_conditions_reclass(SEXP conditions, SEXP classes) {
  SEXP all = PROTECT(Rf_shallow_duplicate(conditions));
  for (R_xlen_t k = 0; k < XLENGTH(all); k++) {
    SEXP one = SET_VECTOR_ELT(all, k, Rf_shallow_duplicate(VECTOR_ELT(all, k)));
    Rf_setAttrib(one, R_ClassSymbol, VECTOR_ELT(classes, k));
  }
  UNPROTECT(1);
  return all;
}

SEXP ffi_conditions_vary(SEXP condition, SEXP fields) {
  enum { FIELDS_MAX = 16 };
  R_xlen_t places[FIELDS_MAX], width = XLENGTH(fields), count = Rf_xlength(VECTOR_ELT(fields, 0));
  if (width > FIELDS_MAX) Rf_error("%d fields of a condition are too many", (int)width);
  SEXP names = Rf_getAttrib(fields, R_NamesSymbol);
  for (R_xlen_t f = 0; f < width; f++) {
    places[f] = place_of(condition, CHAR(STRING_ELT(names, f)));
    if (Rf_xlength(VECTOR_ELT(fields, f)) != count) Rf_error("fields of conditions differ in their number");
  }
  SEXP varied = PROTECT(Rf_allocVector(VECSXP, count));
  for (R_xlen_t k = 0; k < count; k++) {
    SEXP one = SET_VECTOR_ELT(varied, k, Rf_shallow_duplicate(condition));
    for (R_xlen_t f = 0; f < width; f++) SET_VECTOR_ELT(one, places[f], entry(VECTOR_ELT(fields, f), k));
  }
  UNPROTECT(1);
  return varied;
}
