#ifndef RG_WORKERS_AVAILABLE_H
#define RG_WORKERS_AVAILABLE_H

#include <Rinternals.h>

/* list(online, affinity, quota, where); `root` as in sys-cgroup.h */
SEXP ffi_workers_available(SEXP root);

#endif
