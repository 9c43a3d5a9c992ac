#include "shm-columns.h"

#include <errno.h>

#include "encode.h"
#include "region.h"
#include "shm-array.h"
#include "shm-store.h"
#include "shm-vector.h"
#include "shm-view.h"

static void columns_finalize(SEXP pointer) {
  rg_region *region = R_ExternalPtrAddr(pointer);
  R_ClearExternalPtr(pointer);
  if (region) rg_region_close(region);
}

SEXP ffi_shm_columns_new(SEXP type, SEXP length, SEXP limit) {
  SEXPTYPE wanted = Rf_str2type(CHAR(STRING_ELT(type, 0)));
  int64_t size = (int64_t)Rf_asReal(length) * (int64_t)rg_shm_vector_unit(wanted);
  int64_t offset, available = 0;
  rg_region *region = rg_encode_begin_region(size);
  SEXP pointer = PROTECT(R_MakeExternalPtr(region, R_NilValue, R_NilValue));
  R_RegisterCFinalizerEx(pointer, columns_finalize, TRUE);
  rg_region_status status = rg_region_extend(region, size, rg_shm_array_limit(limit), &offset, &available);
  rg_encode_check(status, size, available);
  UNPROTECT(1);
  return pointer;
}

SEXP ffi_shm_columns_drop(SEXP columns) {
  columns_finalize(columns);
  return R_NilValue;
}

SEXP ffi_shm_columns_write(SEXP columns, SEXP start, SEXP values) {
  rg_region *region = R_ExternalPtrAddr(columns);
  if (!region) return Rf_ScalarLogical(FALSE);
  int64_t unit = (int64_t)rg_shm_vector_unit(TYPEOF(values));
  int64_t offset = ((int64_t)Rf_asReal(start) - 1) * unit, size = (int64_t)XLENGTH(values) * unit;
  if (unit == 0 || offset < 0 || size > region->key.size - offset) {
    Rf_error("%.0f elements from number %.0f on are outside of %.0f bytes",
             (double)XLENGTH(values), Rf_asReal(start), (double)region->key.size);
  }
  rg_shm_store_write(region, offset, DATAPTR_RO(values), size, size, 0);
  return Rf_ScalarLogical(TRUE);
}

SEXP ffi_shm_columns_vector(SEXP columns, SEXP type, SEXP length, SEXP attributes) {
  rg_region *region = R_ExternalPtrAddr(columns);
  SEXPTYPE wanted = Rf_str2type(CHAR(STRING_ELT(type, 0)));
  R_xlen_t n = (R_xlen_t)Rf_asReal(length);
  int64_t size = (int64_t)n * (int64_t)rg_shm_vector_unit(wanted);
  if (!region || size > region->key.size) Rf_error("there are no columns to make a vector of");
  rg_encode_check(rg_region_freeze(region), size, 0);
  R_ClearExternalPtr(columns);
  SEXP pointer = rg_shm_view_of_region(region, 0, size, n, RG_LIVE_NOT);
  if (!pointer) rg_encode_check(errno == ENOMEM ? RG_REGION_MAPS : RG_REGION_SYSTEM, size, 0);
  PROTECT(pointer);
  SEXP x = PROTECT(rg_shm_vector_new(pointer, wanted));
  rg_shm_array_set_attributes(x, attributes);
  UNPROTECT(2);
  return x;
}
