#include <Rversion.h>

#include "encode.h"

/* What a promise stands for. R evaluates one that nobody has evaluated yet. */
static SEXP value_of(SEXP env, SEXP symbol) {
#if R_VERSION >= R_Version(4, 5, 0)
  return R_getVarEx(symbol, env, FALSE, R_UnboundValue);
#else
  SEXP value = Rf_findVarInFrame(env, symbol);
  return TYPEOF(value) == PROMSXP ? Rf_eval(value, R_BaseEnv) : value;
#endif
}

/* R puts a new value in the place of an old one, so that addresses tell; those in `known` are not given to anything
   else as long as that is held. The number is looked at last: a promise may load a package that registers methods. */
static int holds(SEXP env, SEXP known) {
  R_xlen_t n = 0;
  for (SEXP at = known; at != R_NilValue; at = CDR(at), n++) {
    if (value_of(env, TAG(at)) != CAR(at)) return 0;
  }
  return Rf_xlength(env) == n;
}

SEXP ffi_encode_hold(SEXP envs, SEXP known) {
  int same = XLENGTH(envs) == Rf_xlength(known);
  for (R_xlen_t i = 0; same && i < XLENGTH(envs); i++) same = holds(VECTOR_ELT(envs, i), VECTOR_ELT(known, i));
  return Rf_ScalarLogical(same);
}
