#include "fork-variables.h"

#include <Rversion.h>

/* What is kept are references: R does not change in place what is held elsewhere. No promise is forced and no
   function of an active binding is called. R before 4.6 has no API for that, and what its headers have instead is
   gone afterwards. */

typedef enum { LEFT_ALONE, VALUE, DELAYED } kind;

typedef struct {
  kind kind;
  SEXP value; /* of one that is delayed: pairlist(code, environment). Not protected */
} variable;

/* As one of the variables it would be kept from the garbage collector until the run ends, and a run that nobody wants
   any more ends by being collected. */
static int is_handle(SEXP value) {
  return Rf_isObject(value) && (Rf_inherits(value, "regatta_call") || Rf_inherits(value, "regatta_stream"));
}

static variable of_value(SEXP value) {
  const variable found = {value == R_UnboundValue || TYPEOF(value) == DOTSXP || is_handle(value) ? LEFT_ALONE : VALUE,
                          value};
  return found;
}

static variable of_promise(SEXP code, SEXP env) {
  const variable found = {DELAYED, Rf_list2(code, env)};
  return found;
}

#if R_VERSION >= R_Version(4, 6, 0)

static int exists(SEXP env, SEXP symbol) { return R_GetBindingType(symbol, env) != R_BindingTypeUnbound; }

static variable look(SEXP env, SEXP symbol);

/* An argument that came by `...` is a promise of a promise. There is API for what is bound alone. */
static variable look_into(SEXP promise, SEXP symbol) {
  SEXP env = PROTECT(R_NewEnv(R_EmptyEnv, FALSE, 1));
  Rf_defineVar(symbol, promise, env);
  variable found = look(env, symbol);
  UNPROTECT(1);
  return found;
}

static variable look(SEXP env, SEXP symbol) {
  const variable none = {LEFT_ALONE, R_NilValue};
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

static void delay(SEXP env, SEXP symbol, SEXP promise) {
  R_MakeDelayedBinding(symbol, CAR(promise), CADR(promise), env);
}

#else

static int exists(SEXP env, SEXP symbol) {
#if R_VERSION >= R_Version(4, 2, 0)
  return R_existsVarInFrame(env, symbol);
#else
  return Rf_findVarInFrame3(env, symbol, FALSE) != R_UnboundValue;
#endif
}

static variable look(SEXP env, SEXP symbol) {
  const variable none = {LEFT_ALONE, R_NilValue};
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

static void delay(SEXP env, SEXP symbol, SEXP promise) {
  SEXP name = PROTECT(Rf_ScalarString(PRINTNAME(symbol)));
  SEXP call = PROTECT(Rf_lang5(Rf_install("delayedAssign"), name, CAR(promise), CADR(promise), env));
  Rf_eval(call, R_BaseEnv);
  UNPROTECT(2);
}

#endif

static int is_same(variable a, variable b) {
  if (a.kind != DELAYED || b.kind != DELAYED) return a.kind == b.kind && a.value == b.value;
  return CAR(a.value) == CAR(b.value) && CADR(a.value) == CADR(b.value);
}

/* list(kinds, values) of these variables */
SEXP ffi_variables_take(SEXP env, SEXP names) {
  R_xlen_t n = XLENGTH(names);
  SEXP taken = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(taken, 0, Rf_allocVector(INTSXP, n));
  SET_VECTOR_ELT(taken, 1, Rf_allocVector(VECSXP, n));
  for (R_xlen_t i = 0; i < n; i++) {
    variable found = look(env, Rf_installTrChar(STRING_ELT(names, i)));
    INTEGER(VECTOR_ELT(taken, 0))[i] = found.kind;
    if (found.kind != LEFT_ALONE) SET_VECTOR_ELT(VECTOR_ELT(taken, 1), i, found.value);
  }
  UNPROTECT(1);
  return taken;
}

static void put(SEXP env, SEXP symbol, variable was) {
  int is_there = exists(env, symbol);
  int locked = is_there && R_BindingIsLocked(symbol, env);
  int active = is_there && R_BindingIsActive(symbol, env);
  if ((!is_there || active) && R_EnvironmentIsLocked(env)) return;
  if (locked) R_unLockBinding(symbol, env);
  if (active) R_removeVarFromFrame(symbol, env);
  if (was.kind == DELAYED) {
    delay(env, symbol, was.value);
  } else {
    Rf_defineVar(symbol, was.value, env);
  }
  if (locked) R_LockBinding(symbol, env);
}

/* Makes those that have changed what they were. */
SEXP ffi_variables_put(SEXP env, SEXP names, SEXP taken) {
  SEXP kinds = VECTOR_ELT(taken, 0), values = VECTOR_ELT(taken, 1);
  for (R_xlen_t i = 0; i < XLENGTH(values); i++) {
    SEXP symbol = Rf_installTrChar(STRING_ELT(names, i));
    const variable was = {(kind)INTEGER(kinds)[i], VECTOR_ELT(values, i)};
    if (was.kind != LEFT_ALONE && !is_same(look(env, symbol), was)) put(env, symbol, was);
  }
  return R_NilValue;
}

/* The session can change the values in place again. */
SEXP ffi_variables_drop(SEXP taken) {
  SEXP values = VECTOR_ELT(taken, 1);
  for (R_xlen_t i = 0; i < XLENGTH(values); i++) SET_VECTOR_ELT(values, i, R_NilValue);
  SET_VECTOR_ELT(taken, 1, Rf_allocVector(VECSXP, 0));
  return R_NilValue;
}
