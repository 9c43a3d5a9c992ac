#include "system.h"

#include <Rinternals.h>
#include <string.h>

#include "sys-clock.h"
#include "sys-memory.h"

/* Facts of the system for R code. */

SEXP ffi_clock(void) { return Rf_ScalarReal((double)rg_clock_now() / 1e9); }

SEXP ffi_system_message(SEXP code) { return Rf_mkString(strerror(Rf_asInteger(code))); }

SEXP ffi_memory_anon(SEXP pid) {
  return Rf_ScalarReal((double)rg_memory_anon((pid_t)Rf_asInteger(pid)));
}

SEXP ffi_memory_oom_kills(void) { return Rf_ScalarReal((double)rg_memory_oom_kills()); }

SEXP ffi_memory_malloced(void) { return Rf_ScalarReal((double)rg_memory_malloced()); }

SEXP ffi_memory_keep_freed(void) {
  rg_memory_keep_freed();
  return R_NilValue;
}
