#include "encode.h"

#include "call-r.h"
#include "encode-share.h"

static SEXP own(SEXP x, const void *none) {
  if (TYPEOF(x) != VECSXP || ALTREP(x)) return x;
  R_CheckStack();
  SEXP result = PROTECT(rg_encode_share_map(x, own, none));
  if (Rf_isObject(x) && Rf_inherits(x, "data.table")) result = rg_call_r("own_table", 1, result);
  UNPROTECT(1);
  return result;
}

SEXP rg_encode_own_tables(SEXP value) {
  PROTECT(value);
  value = own(value, NULL);
  UNPROTECT(1);
  return value;
}

SEXP ffi_encode_own_tables(SEXP value) { return rg_encode_own_tables(value); }
