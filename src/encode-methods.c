#include "call-r.h"
#include "encode.h"
#include "variables.h"

/* Tables of methods, of which packages have registered most as promises. A table as it is: a pairlist by the names of
   methods, in which a promise that is not evaluated stands as pairlist(code, environment). */

/* An active binding is what its function says. */
static rg_variable method_in(SEXP table, SEXP symbol) {
  rg_variable found = rg_variable_look(table, symbol);
  if (found.kind == RG_VARIABLE_LEFT_ALONE) {
    found.kind = RG_VARIABLE_VALUE;
    found.value = rg_value_in(table, symbol);
  }
  return found;
}

SEXP ffi_methods_take(SEXP table, SEXP names) {
  SEXP taken = PROTECT(Rf_allocList((int)XLENGTH(names)));
  R_xlen_t i = 0;
  for (SEXP at = taken; at != R_NilValue; at = CDR(at), i++) {
    SEXP symbol = Rf_installTrChar(STRING_ELT(names, i));
    rg_variable found = method_in(table, symbol);
    int delayed = found.kind == RG_VARIABLE_DELAYED;
    SET_TAG(at, symbol);
    if (found.value != R_UnboundValue) SETCAR(at, delayed ? Rf_list2(found.value, found.env) : found.value);
  }
  UNPROTECT(1);
  return taken;
}

static int is_delayed(SEXP taken) { return TYPEOF(taken) == LISTSXP; }

static int is_as(rg_variable found, SEXP taken) {
  if (found.kind == RG_VARIABLE_VALUE) return found.value == taken;
  return is_delayed(taken) && CAR(taken) == found.value && CADR(taken) == found.env;
}

/* R puts a new value in the place of an old one, so that addresses tell; those in `known` are not given to anything
   else as long as that is held. */
static int holds(SEXP table, SEXP known) {
  R_xlen_t n = 0;
  for (SEXP at = known; at != R_NilValue; at = CDR(at), n++) {
    if (!is_as(method_in(table, TAG(at)), CAR(at))) return 0;
  }
  return Rf_xlength(table) == n;
}

SEXP ffi_methods_hold(SEXP tables, SEXP known) {
  int same = XLENGTH(tables) == Rf_xlength(known);
  for (R_xlen_t i = 0; same && i < XLENGTH(tables); i++) same = holds(VECTOR_ELT(tables, i), VECTOR_ELT(known, i));
  return Rf_ScalarLogical(same);
}

SEXP ffi_methods_put(SEXP table, SEXP taken, SEXP names) {
  for (R_xlen_t i = 0; i < XLENGTH(names); i++) {
    SEXP symbol = Rf_installTrChar(STRING_ELT(names, i)), at = taken;
    while (at != R_NilValue && TAG(at) != symbol) at = CDR(at);
    if (at == R_NilValue) continue;
    rg_variable was = {RG_VARIABLE_VALUE, CAR(at), NULL};
    if (is_delayed(CAR(at))) was = (rg_variable){RG_VARIABLE_DELAYED, CAR(CAR(at)), CADR(CAR(at))};
    rg_variable_put(table, symbol, was);
  }
  return R_NilValue;
}
