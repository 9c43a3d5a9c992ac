#include "rng.h"

#include <R.h>
#include <string.h>

#include "rng-stream.h"

/* base and the result have the form of .Random.seed: the kinds, then six words. */
SEXP ffi_rng_stream(SEXP base, SEXP i, SEXP try) {
  int32_t stream[6];
  rg_rng_stream(INTEGER(base) + 1, (int64_t)Rf_asReal(i) - 1, stream);
  SEXP out = PROTECT(Rf_allocVector(INTSXP, 7));
  INTEGER(out)[0] = INTEGER(base)[0];
  rg_rng_substream(stream, (int64_t)Rf_asInteger(try) - 1, INTEGER(out) + 1);
  UNPROTECT(1);
  return out;
}

SEXP ffi_rng_base_number(SEXP seed) {
  SEXP out = PROTECT(Rf_allocVector(INTSXP, 6));
  rg_rng_number(Rf_asInteger(seed), INTEGER(out));
  UNPROTECT(1);
  return out;
}

SEXP ffi_rng_base_state(SEXP state, SEXP drawn) {
  R_xlen_t n = Rf_xlength(state);
  uint32_t *words = (uint32_t *)R_alloc((size_t)n + 2, sizeof(uint32_t));
  double u = Rf_asReal(drawn);
  memcpy(words, INTEGER(state), (size_t)n * sizeof(uint32_t));
  memcpy(words + n, &u, sizeof u);
  SEXP out = PROTECT(Rf_allocVector(INTSXP, 6));
  rg_rng_hash(words, (size_t)n + 2, INTEGER(out));
  UNPROTECT(1);
  return out;
}
