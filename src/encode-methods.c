#include "call-r.h"
#include "encode.h"

/* R puts a new value in the place of an old one, so that addresses tell; those in `known` are not given to anything
   else as long as that is held. The number is looked at last: a promise may load a package that registers methods. */
static int holds(SEXP env, SEXP known) {
  R_xlen_t n = 0;
  for (SEXP at = known; at != R_NilValue; at = CDR(at), n++) {
    if (rg_value_in(env, TAG(at)) != CAR(at)) return 0;
  }
  return Rf_xlength(env) == n;
}

SEXP ffi_encode_hold(SEXP envs, SEXP known) {
  int same = XLENGTH(envs) == Rf_xlength(known);
  for (R_xlen_t i = 0; same && i < XLENGTH(envs); i++) same = holds(VECTOR_ELT(envs, i), VECTOR_ELT(known, i));
  return Rf_ScalarLogical(same);
}
