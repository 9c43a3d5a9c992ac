#include "variables.h"

#include <Rversion.h>

/* R before 4.6 has no API that looks at a variable without evaluating it, and what its headers have instead is gone
   afterwards. */

/* As one of the variables it would be kept from the garbage collector until the run ends, and a run that nobody wants
   any more ends by being collected. */
static int is_handle(SEXP value) {
  return Rf_isObject(value) && (Rf_inherits(value, "regatta_call") || Rf_inherits(value, "regatta_stream"));
}

static const rg_variable none = {RG_VARIABLE_LEFT_ALONE, NULL, NULL};

static rg_variable of_value(SEXP value) {
  if (value == R_UnboundValue || TYPEOF(value) == DOTSXP || is_handle(value)) return none;
  const rg_variable found = {RG_VARIABLE_VALUE, value, NULL};
  return found;
}

static rg_variable of_promise(SEXP code, SEXP env) {
  const rg_variable found = {RG_VARIABLE_DELAYED, code, env};
  return found;
}

#if R_VERSION >= R_Version(4, 6, 0)

static int exists(SEXP env, SEXP symbol) { return R_GetBindingType(symbol, env) != R_BindingTypeUnbound; }

/* An argument that came by `...` is a promise of a promise. There is API for what is bound alone. */
static rg_variable look_into(SEXP promise, SEXP symbol) {
  SEXP env = PROTECT(R_NewEnv(R_EmptyEnv, FALSE, 1));
  Rf_defineVar(symbol, promise, env);
  rg_variable found = rg_variable_look(env, symbol);
  UNPROTECT(1);
  return found;
}

rg_variable rg_variable_look(SEXP env, SEXP symbol) {
  switch (R_GetBindingType(symbol, env)) {
    case R_BindingTypeMissing: return of_value(R_MissingArg);
    case R_BindingTypeValue:
    case R_BindingTypeForced: return of_value(R_getVar(symbol, env, FALSE));
    case R_BindingTypeDelayed: {
      SEXP code = R_DelayedBindingExpression(symbol, env);
      return TYPEOF(code) == PROMSXP ? look_into(code, symbol)
                                     : of_promise(code, R_DelayedBindingEnvironment(symbol, env));
    }
    default: return none;
  }
}

static void delay(SEXP env, SEXP symbol, rg_variable promise) {
  R_MakeDelayedBinding(symbol, promise.value, promise.env, env);
}

#else

static int exists(SEXP env, SEXP symbol) {
#if R_VERSION >= R_Version(4, 2, 0)
  return R_existsVarInFrame(env, symbol);
#else
  return Rf_findVarInFrame3(env, symbol, FALSE) != R_UnboundValue;
#endif
}

rg_variable rg_variable_look(SEXP env, SEXP symbol) {
  if (!exists(env, symbol) || R_BindingIsActive(symbol, env)) return none;
  SEXP value = Rf_findVarInFrame(env, symbol);
  /* An argument that came by `...` is a promise of a promise. */
  while (TYPEOF(value) == PROMSXP && PRVALUE(value) == R_UnboundValue) {
    SEXP code = R_PromiseExpr(value);
    if (TYPEOF(code) != PROMSXP) return of_promise(code, PRENV(value));
    value = code;
  }
  return of_value(TYPEOF(value) == PROMSXP ? PRVALUE(value) : value);
}

static void delay(SEXP env, SEXP symbol, rg_variable promise) {
  SEXP name = PROTECT(Rf_ScalarString(PRINTNAME(symbol)));
  SEXP call = PROTECT(Rf_lang5(Rf_install("delayedAssign"), name, promise.value, promise.env, env));
  Rf_eval(call, R_BaseEnv);
  UNPROTECT(2);
}

#endif

static int is_same(rg_variable a, rg_variable b) {
  return a.kind == b.kind && a.value == b.value && a.env == b.env;
}

SEXP ffi_variables_take(SEXP env, SEXP names) {
  R_xlen_t n = XLENGTH(names);
  SEXP taken = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(taken, 0, Rf_allocVector(INTSXP, n));
  SET_VECTOR_ELT(taken, 1, Rf_allocVector(VECSXP, n));
  for (R_xlen_t i = 0; i < n; i++) {
    rg_variable found = rg_variable_look(env, Rf_installTrChar(STRING_ELT(names, i)));
    INTEGER(VECTOR_ELT(taken, 0))[i] = found.kind;
    if (found.kind == RG_VARIABLE_LEFT_ALONE) continue;
    int delayed = found.kind == RG_VARIABLE_DELAYED;
    SET_VECTOR_ELT(VECTOR_ELT(taken, 1), i, delayed ? Rf_list2(found.value, found.env) : found.value);
  }
  UNPROTECT(1);
  return taken;
}

static rg_variable of_taken(rg_variable_kind kind, SEXP value) {
  if (kind == RG_VARIABLE_DELAYED) return of_promise(CAR(value), CADR(value));
  const rg_variable found = {kind, value, NULL};
  return found;
}

void rg_variable_put(SEXP env, SEXP symbol, rg_variable was) {
  int is_there = exists(env, symbol);
  int locked = is_there && R_BindingIsLocked(symbol, env);
  int active = is_there && R_BindingIsActive(symbol, env);
  if ((!is_there || active) && R_EnvironmentIsLocked(env)) return;
  if (locked) R_unLockBinding(symbol, env);
  if (active) R_removeVarFromFrame(symbol, env);
  if (was.kind == RG_VARIABLE_DELAYED) {
    delay(env, symbol, was);
  } else {
    Rf_defineVar(symbol, was.value, env);
  }
  if (locked) R_LockBinding(symbol, env);
}

SEXP ffi_variables_put(SEXP env, SEXP names, SEXP taken) {
  SEXP kinds = VECTOR_ELT(taken, 0), values = VECTOR_ELT(taken, 1);
  for (R_xlen_t i = 0; i < XLENGTH(values); i++) {
    SEXP symbol = Rf_installTrChar(STRING_ELT(names, i));
    rg_variable was = of_taken((rg_variable_kind)INTEGER(kinds)[i], VECTOR_ELT(values, i));
    if (was.kind == RG_VARIABLE_LEFT_ALONE || is_same(rg_variable_look(env, symbol), was)) continue;
    rg_variable_put(env, symbol, was);
  }
  return R_NilValue;
}

SEXP ffi_variables_drop(SEXP taken) {
  SEXP values = VECTOR_ELT(taken, 1);
  for (R_xlen_t i = 0; i < XLENGTH(values); i++) SET_VECTOR_ELT(values, i, R_NilValue);
  SET_VECTOR_ELT(taken, 1, Rf_allocVector(VECSXP, 0));
  return R_NilValue;
}
