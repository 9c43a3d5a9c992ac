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
SEXP ffi_encode_holds(SEXP env, SEXP known) {
  SEXP names = PROTECT(Rf_getAttrib(known, R_NamesSymbol));
  int same = 1;
  for (R_xlen_t i = 0; i < XLENGTH(known) && same; i++) {
    same = value_of(env, Rf_installTrChar(STRING_ELT(names, i))) == VECTOR_ELT(known, i);
  }
  same = same && Rf_xlength(env) == XLENGTH(known);
  UNPROTECT(1);
  return Rf_ScalarLogical(same);
}
