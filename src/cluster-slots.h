#ifndef RG_CLUSTER_SLOTS_H
#define RG_CLUSTER_SLOTS_H

#include <Rinternals.h>

#include "cluster-bytes.h"

/* The slot of `worker`, from 0. Raises an R error if `slots` are not the slots of so many. */
rg_cluster_slot *rg_cluster_slots_borrow(SEXP slots, int worker);

SEXP ffi_cluster_slots_new(SEXP workers, SEXP limit);
SEXP ffi_cluster_slots_running(SEXP slots, SEXP pids);
SEXP ffi_cluster_slots_interrupt(SEXP slots, SEXP worker, SEXP element, SEXP pid);

#endif
