#ifndef RG_SYSTEM_H
#define RG_SYSTEM_H

#include <Rinternals.h>

SEXP ffi_clock(void);
SEXP ffi_clock_cpu(void);
SEXP ffi_clock_cpu_process(void);
SEXP ffi_sleep(SEXP seconds);
SEXP ffi_terminal_size(void);
SEXP ffi_system_message(SEXP code);
SEXP ffi_memory_anon(SEXP pid);
SEXP ffi_memory_available(SEXP root);
SEXP ffi_memory_oom_kills(void);
SEXP ffi_memory_malloced(void);
SEXP ffi_memory_keep_freed(void);
SEXP ffi_process_mark(void);

/* list(operation, errno): what failed and why, for R to word. */
SEXP rg_system_failure(const char *operation, int code);

#endif
