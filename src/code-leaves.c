#include "code-leaves.h"

#include <R_ext/Utils.h>

/* A list that grows. Its owner protects it at `at`. */
typedef struct {
  SEXP items;
  PROTECT_INDEX at;
  R_xlen_t count;
} pile;

static void put(pile *to, SEXP item) {
  if (to->count == XLENGTH(to->items)) {
    REPROTECT(to->items = Rf_xlengthgets(to->items, 2 * to->count), to->at);
  }
  SET_VECTOR_ELT(to->items, to->count++, item);
}

static void sort_out(SEXP part, pile *inner, pile *leaves) {
  if (part == R_MissingArg) return;
  switch (TYPEOF(part)) {
    case NILSXP:
      return;
    case LANGSXP:
    case LISTSXP:
    case EXPRSXP:
      put(inner, part);
      return;
    default:
      put(leaves, part);
  }
}

static void sort_out_parts(SEXP code, pile *inner, pile *leaves) {
  if (TYPEOF(code) == EXPRSXP) {
    for (R_xlen_t i = 0; i < XLENGTH(code); i++) sort_out(VECTOR_ELT(code, i), inner, leaves);
  } else {
    for (; code != R_NilValue; code = CDR(code)) sort_out(CAR(code), inner, leaves);
  }
}

SEXP ffi_code_leaves(SEXP code) {
  enum { FIRST = 64, CHECK_EVERY = 4096 };
  pile inner = {Rf_allocVector(VECSXP, FIRST), 0, 0};
  PROTECT_WITH_INDEX(inner.items, &inner.at);
  pile leaves = {Rf_allocVector(VECSXP, FIRST), 0, 0};
  PROTECT_WITH_INDEX(leaves.items, &leaves.at);
  sort_out(code, &inner, &leaves);
  for (R_xlen_t i = 0; i < inner.count; i++) {
    if (i % CHECK_EVERY == CHECK_EVERY - 1) R_CheckUserInterrupt();
    sort_out_parts(VECTOR_ELT(inner.items, i), &inner, &leaves);
  }
  SEXP result = Rf_xlengthgets(leaves.items, leaves.count);
  UNPROTECT(2);
  return result;
}
