#include "system.h"

#include <R_ext/Utils.h>
#include <Rinternals.h>
#include <pthread.h>
#include <signal.h>
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

static SEXP evaluate_held(void *data) {
  SEXP *call = data;
  R_CheckUserInterrupt(); /* one that has come and was not looked at: now or never */
  return Rf_eval(call[0], call[1]);
}

static void release_interrupts(void *data, Rboolean jump) {
  (void)jump;
  pthread_sigmask(SIG_SETMASK, data, NULL);
}

/* Evaluates `call` in `env`; SIGINT waits until that is done, however it is left. One that was there
   before is answered first. */
SEXP ffi_system_hold_interrupts(SEXP call, SEXP env) {
  SEXP both[] = {call, env};
  sigset_t held, before;
  sigemptyset(&held);
  sigaddset(&held, SIGINT);
  SEXP token = PROTECT(R_MakeUnwindCont());
  pthread_sigmask(SIG_BLOCK, &held, &before);
  SEXP value = R_UnwindProtect(evaluate_held, both, release_interrupts, &before, token);
  UNPROTECT(1);
  return value;
}
