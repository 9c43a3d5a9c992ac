#ifndef RG_BUDGET_ENTRY_H
#define RG_BUDGET_ENTRY_H

#include <Rinternals.h>

/* Cores of the budget for threads of this process, which is no worker: waits for one of `cores` for up to `seconds`,
   and takes up to `most` that are free. Returns how many, or -errno. R may be interrupted: who calls it leaves in any
   case. */
SEXP ffi_budget_take(SEXP cores, SEXP most, SEXP seconds);
SEXP ffi_budget_leave(void);

#endif
