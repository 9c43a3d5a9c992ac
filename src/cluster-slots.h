#ifndef RG_CLUSTER_SLOTS_H
#define RG_CLUSTER_SLOTS_H

#include <Rinternals.h>
#include <stdatomic.h>
#include <stdint.h>

/*
 * What the workers of a cluster do now, in memory that those of this machine share with the
 * session: one slot for each, in a shared array of bytes, which travels as such.
 */
typedef struct {
  _Atomic int64_t current;     /* number of the element being run, from 1; 0 between elements */
  _Atomic int64_t try;         /* which try of it that is, as the session has said; set before `current` */
  _Atomic int64_t last;        /* the one that was begun last, 0 none */
  _Atomic int64_t cancel;      /* element that the session wants interrupted, 0 none */
  _Atomic int64_t started;     /* when it began, monotonic ns */
  _Atomic int64_t cpu_started; /* the worker's CPU ns when it began */
  _Atomic int64_t signalled;   /* 0 from before `cancel` is set until the interrupt has been sent,
                                  if there was an element to interrupt */
} rg_cluster_slot;

enum { RG_CLUSTER_CANCEL_ALL = -1 };

/* The slot of `worker`, from 0. Raises an R error if `slots` are not the slots of so many. */
rg_cluster_slot *rg_cluster_slots_borrow(SEXP slots, int worker);

SEXP ffi_cluster_slots_new(SEXP workers, SEXP limit);
SEXP ffi_cluster_slots_running(SEXP slots, SEXP pids);
SEXP ffi_cluster_slots_interrupt(SEXP slots, SEXP worker, SEXP element, SEXP pid);

#endif
