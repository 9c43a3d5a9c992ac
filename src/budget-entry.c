#include "budget-entry.h"

#include <errno.h>
#include <poll.h>

#include "budget.h"
#include "sys-clock.h"

SEXP ffi_budget_take(SEXP cores, SEXP most, SEXP seconds) {
  int64_t until = rg_clock_now() + (int64_t)(Rf_asReal(seconds) * 1e9);
  int failed = rg_budget_join(Rf_asInteger(cores), 0);
  if (failed) return Rf_ScalarInteger(-failed);
  for (int got; (got = rg_budget_try()) <= 0;) {
    if (got < 0) return Rf_ScalarInteger(-errno);
    if (rg_clock_now() >= until) return Rf_ScalarInteger(0);
    poll(NULL, 0, rg_budget_pause());
    R_CheckUserInterrupt();
  }
  return Rf_ScalarInteger(rg_budget_more(Rf_asInteger(most)));
}

SEXP ffi_budget_leave(void) {
  rg_budget_leave();
  return R_NilValue;
}
