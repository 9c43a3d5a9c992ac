#include "workers-available.h"

#include "sys-cgroup.h"
#include "sys-cores.h"

SEXP ffi_workers_available(SEXP root) {
  char where[RG_CGROUP_PATH];
  double quota = rg_cores_quota_at(CHAR(STRING_ELT(root, 0)), where, sizeof where);
  const char *names[] = {"online", "affinity", "quota", "where", ""};
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(out, 0, Rf_ScalarInteger(rg_cores_online()));
  SET_VECTOR_ELT(out, 1, Rf_ScalarInteger(rg_cores_affinity()));
  SET_VECTOR_ELT(out, 2, Rf_ScalarReal(quota));
  SET_VECTOR_ELT(out, 3, Rf_mkString(where));
  UNPROTECT(1);
  return out;
}
