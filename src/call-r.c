#include "call-r.h"

#include <Rversion.h>
#include <stdarg.h>

SEXP rg_call_r(const char *name, int count, ...) {
  SEXP package = PROTECT(Rf_mkString("regatta"));
  SEXP space = PROTECT(R_FindNamespace(package));
  SEXP call = PROTECT(Rf_allocVector(LANGSXP, 1 + count));
  SETCAR(call, Rf_install(name));
  va_list arguments;
  va_start(arguments, count);
  SEXP at = call;
  for (int i = 0; i < count; i++) {
    at = CDR(at);
    /* R evaluates an argument: a symbol or a call would not arrive as it is. */
    SETCAR(at, Rf_lang2(R_QuoteSymbol, va_arg(arguments, SEXP)));
  }
  va_end(arguments);
  SEXP value = Rf_eval(call, space);
  UNPROTECT(3);
  return value;
}

static SEXP evaluate(void *call_in) {
  SEXP *call = call_in;
  return Rf_eval(call[0], call[1]);
}

SEXP rg_guard(SEXP call, SEXP env, void (*end)(void *data, Rboolean jump), void *data) {
  SEXP call_in[] = {call, env};
  SEXP token = PROTECT(R_MakeUnwindCont());
  SEXP value = R_UnwindProtect(evaluate, call_in, end, data, token);
  UNPROTECT(1);
  return value;
}

/* These run for every small vector of every result, where a call of R's attributes() is most of the costs. What C
   code may use instead is API since R 4.5 and 4.6; what older R has is gone from later versions. */

SEXP rg_each_attribute(SEXP x, SEXP (*f)(SEXP name, SEXP value, void *data), void *data) {
#if R_VERSION >= R_Version(4, 6, 0)
  return R_mapAttrib(x, f, data);
#else
  SEXP found = NULL;
  for (SEXP cell = ATTRIB(x); !found && cell != R_NilValue; cell = CDR(cell)) found = f(TAG(cell), CAR(cell), data);
  return found;
#endif
}

int rg_has_attributes(SEXP x) {
#if R_VERSION >= R_Version(4, 5, 0)
  return ANY_ATTRIB(x);
#else
  return ATTRIB(x) != R_NilValue;
#endif
}

SEXP rg_value_in(SEXP env, SEXP symbol) {
#if R_VERSION >= R_Version(4, 5, 0)
  return R_getVarEx(symbol, env, FALSE, R_UnboundValue);
#else
  SEXP value = Rf_findVarInFrame(env, symbol);
  return TYPEOF(value) == PROMSXP ? Rf_eval(value, R_BaseEnv) : value;
#endif
}

#if R_VERSION >= R_Version(4, 5, 0)
SEXP rg_closure_env(SEXP closure) { return R_ClosureEnv(closure); }
#else
SEXP rg_closure_env(SEXP closure) { return CLOENV(closure); }
#endif
