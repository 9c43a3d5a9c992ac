#include "cluster-slots.h"

#include <signal.h>
#include <sys/types.h>

#include "shm-array.h"
#include "sys-clock.h"
#include "sys-layout.h"
#include "sys-process.h"

RG_LAYOUT_SIZE(rg_cluster_slot, 56);
RG_LAYOUT(rg_cluster_slot, current, 0, 8);
RG_LAYOUT(rg_cluster_slot, try, 8, 8);
RG_LAYOUT(rg_cluster_slot, last, 16, 8);
RG_LAYOUT(rg_cluster_slot, cancel, 24, 8);
RG_LAYOUT(rg_cluster_slot, started, 32, 8);
RG_LAYOUT(rg_cluster_slot, cpu_started, 40, 8);
RG_LAYOUT(rg_cluster_slot, signalled, 48, 8);

rg_cluster_slot *rg_cluster_slots_borrow(SEXP slots, int worker) {
  return (rg_cluster_slot *)rg_shm_array_data(slots, sizeof(rg_cluster_slot) * (size_t)(worker + 1)) +
         worker;
}

/* A new shared array is all zero. */
SEXP ffi_cluster_slots_new(SEXP workers, SEXP limit) {
  R_xlen_t size = (R_xlen_t)sizeof(rg_cluster_slot) * Rf_asInteger(workers);
  return rg_shm_array_of(RG_LIVE_SLOTS, size, rg_shm_array_limit(limit));
}

/* What each process runs now: list(element (0: nothing), try, seconds, cpu_seconds, last: what it has begun last).
   `current` is read first: what else is read then is of this element or of a later one. */
SEXP ffi_cluster_slots_running(SEXP slots, SEXP pids) {
  const char *names[] = {"element", "try", "seconds", "cpu_seconds", "last", ""};
  int workers = (int)XLENGTH(pids);
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  SEXP element = SET_VECTOR_ELT(result, 0, Rf_allocVector(REALSXP, workers));
  SEXP try = SET_VECTOR_ELT(result, 1, Rf_allocVector(INTSXP, workers));
  SEXP seconds = SET_VECTOR_ELT(result, 2, Rf_allocVector(REALSXP, workers));
  SEXP cpu = SET_VECTOR_ELT(result, 3, Rf_allocVector(REALSXP, workers));
  SEXP last = SET_VECTOR_ELT(result, 4, Rf_allocVector(REALSXP, workers));
  int64_t now = rg_clock_now();
  for (int w = 0; w < workers; w++) {
    rg_cluster_slot *slot = rg_cluster_slots_borrow(slots, w);
    int64_t current = atomic_load(&slot->current);
    int pid = INTEGER(pids)[w];
    int64_t used = current > 0 && pid != NA_INTEGER ? rg_process_cpu(pid) : -1;
    REAL(element)[w] = (double)current;
    INTEGER(try)[w] = (int)atomic_load(&slot->try);
    REAL(last)[w] = (double)atomic_load(&slot->last);
    REAL(seconds)[w] = current > 0 ? (double)(now - atomic_load(&slot->started)) / 1e9 : 0;
    REAL(cpu)[w] = used < 0 ? 0 : (double)(used - atomic_load(&slot->cpu_started)) / 1e9;
  }
  UNPROTECT(1);
  return result;
}

/* Interrupts `element` if it is what `worker`, a process of this machine, runs; with
   RG_CLUSTER_CANCEL_ALL whatever it is at, and it begins no other. Between elements no interrupt may
   come: it would reach code that reads or writes the connection. The session sets `cancel` and then
   reads `current`, the worker sets `current` to 0 and then reads `cancel`: so that a worker whose
   element ends meanwhile knows of the interrupt and waits for it (await_interrupt() in
   cluster-worker.c). */
SEXP ffi_cluster_slots_interrupt(SEXP slots, SEXP worker, SEXP element, SEXP pid) {
  rg_cluster_slot *slot = rg_cluster_slots_borrow(slots, Rf_asInteger(worker) - 1);
  int64_t wanted = (int64_t)Rf_asReal(element);
  atomic_store(&slot->signalled, 0);
  atomic_store(&slot->cancel, wanted);
  int64_t current = atomic_load(&slot->current);
  int there = wanted == RG_CLUSTER_CANCEL_ALL ? current > 0 : current == wanted;
  int sent = there && kill((pid_t)Rf_asInteger(pid), SIGINT) == 0;
  atomic_store(&slot->signalled, 1);
  return Rf_ScalarLogical(sent);
}
