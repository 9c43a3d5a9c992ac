/* The index of distinct strings on its own, with a result like that of char_map(). */
#include <Rinternals.h>

#include "string-index.h"

static void index_finalize(SEXP owner) {
  rg_string_index_destroy(R_ExternalPtrAddr(owner));
  R_ClearExternalPtr(owner);
}

/* list(chars, idx): the distinct strings, and for each element the number of its string, from 1. */
SEXP bench_index(SEXP x) {
  R_xlen_t n = XLENGTH(x);
  SEXP result = PROTECT(Rf_allocVector(VECSXP, 2));
  SEXP numbers = SET_VECTOR_ELT(result, 1, Rf_allocVector(INTSXP, n));
  rg_string_index *index = rg_string_index_create(INT32_MAX);
  SEXP owner = PROTECT(R_MakeExternalPtr(index, R_NilValue, R_NilValue));
  R_RegisterCFinalizer(owner, index_finalize);
  if (!index || rg_string_index_add(index, (const uintptr_t *)STRING_PTR_RO(x), (size_t)n,
                                    INTEGER(numbers)) != RG_STRING_INDEX_OK) {
    Rf_error("there is no memory for the index");
  }
  int *number = INTEGER(numbers);
  for (R_xlen_t i = 0; i < n; i++) number[i]++;
  int64_t count = rg_string_index_count(index);
  const uintptr_t *keys = rg_string_index_keys(index);
  SEXP chars = SET_VECTOR_ELT(result, 0, Rf_allocVector(STRSXP, (R_xlen_t)count));
  for (int64_t k = 0; k < count; k++) SET_STRING_ELT(chars, k, (SEXP)keys[k]);
  index_finalize(owner);
  UNPROTECT(2);
  return result;
}
