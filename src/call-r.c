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

/* R shows C code whether there are attributes since 4.5, and which they are never. This runs for every
   small vector of every result: the call is made once. */
SEXP rg_attributes(SEXP x) {
#if R_VERSION >= R_Version(4, 5, 0)
  if (!ANY_ATTRIB(x)) return R_NilValue;
#endif
  static SEXP call;
  if (!call) {
    SEXP attributes = PROTECT(Rf_findFun(Rf_install("attributes"), R_BaseEnv));
    call = Rf_lang2(attributes, R_NilValue);
    UNPROTECT(1);
    R_PreserveObject(call);
  }
  int is_code = TYPEOF(x) == SYMSXP || TYPEOF(x) == LANGSXP; /* of which R would take the value */
  SETCADR(call, is_code ? Rf_lang2(R_QuoteSymbol, x) : x);
  SEXP attributes = Rf_eval(call, R_BaseEnv);
  SETCADR(call, R_NilValue);
  return attributes;
}
