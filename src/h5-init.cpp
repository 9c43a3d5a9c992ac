#include <regatta/r/api.hpp>

#include <R_ext/Rdynload.h>
#include <R_ext/Visibility.h>

#include "h5-entry.h"
#include "h5-store.h"

/* All h5-*.cpp are a library of their own, regatta_h5, that R code loads when the first entry of it is called
   (R/h5-entry.R): libhdf5 brings some thirty libraries, which take longer to load than a small map takes. */

#define ENTRY(name, arguments) \
  { #name, reinterpret_cast<DL_FUNC>(&name), arguments }

static const R_CallMethodDef entries[] = {
    ENTRY(ffi_h5_about, 0),
    ENTRY(ffi_h5_cache_changed, 1),
    ENTRY(ffi_h5_cache_drop, 1),
    ENTRY(ffi_h5_cache_info, 1),
    ENTRY(ffi_h5_cache_new, 4),
    ENTRY(ffi_h5_check, 1),
    ENTRY(ffi_h5_create, 7),
    ENTRY(ffi_h5_describe, 2),
    ENTRY(ffi_h5_encode, 6),
    ENTRY(ffi_h5_list, 2),
    ENTRY(ffi_h5_put, 5),
    ENTRY(ffi_h5_read, 6),
    ENTRY(ffi_h5_remove, 2),
    ENTRY(ffi_h5_sparse_read, 7),
    ENTRY(ffi_h5_sparse_stats, 8),
    ENTRY(ffi_h5_stats, 6),
    ENTRY(ffi_h5_stored, 2),
    ENTRY(ffi_h5_values, 4),
    {nullptr, nullptr, 0},
};

static const rg_h5_store_calls* store;

/* Hidden, so that no name of the other library can stand before it. */
attribute_hidden const rg_h5_store_calls* rg_h5_store(void) { return store; }

extern "C" attribute_visible void R_init_regatta_h5(DllInfo* dll) {
  store = reinterpret_cast<const rg_h5_store_calls* (*)(void)>(R_GetCCallable("regatta", "rg_h5_store"))();
  R_registerRoutines(dll, nullptr, entries, nullptr, nullptr);
  R_useDynamicSymbols(dll, FALSE);
  R_forceSymbols(dll, TRUE);
}
