#ifndef RG_REGATTA_INFO_H
#define RG_REGATTA_INFO_H

#include <Rinternals.h>

/* Named numbers in bytes or counts, NA where the system does not say; Inf: no limit.
   `root` as in sys-cgroup.h. */
SEXP ffi_regatta_info_memory(SEXP root);
SEXP ffi_regatta_info_limits(SEXP root);

/* list(threads, works): live threads, and which system facilities work here and now */
SEXP ffi_regatta_info_process(void);

#endif
