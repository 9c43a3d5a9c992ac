#ifndef RG_CLUSTER_WORKER_H
#define RG_CLUSTER_WORKER_H

#include <Rinternals.h>

/* In a worker of a cluster: a batch of elements for the evaluator, and its streams. */
SEXP ffi_cluster_worker_begin(SEXP wanted, SEXP near);
SEXP ffi_cluster_worker_batch(SEXP elements, SEXP tries, SEXP slots, SEXP number, SEXP report, SEXP fd,
                              SEXP token);
SEXP ffi_cluster_worker_run(SEXP call, SEXP jumped, SEXP env);
SEXP ffi_cluster_worker_divert(void);
SEXP ffi_cluster_worker_restore(void);
SEXP ffi_cluster_worker_end(void);

/* In the session: the value of what a worker has sent. */
SEXP ffi_cluster_decode(SEXP bytes, SEXP copy);
SEXP ffi_cluster_count(SEXP bytes);

#endif
