#ifndef RG_FORK_CRASH_H
#define RG_FORK_CRASH_H

#include <stddef.h>

/* In a worker: signals that mean a crash leave a backtrace of C and R calls in `text`,
   which lies in shared memory and so outlives the worker; then they kill it as they would
   have done. */
void rg_fork_crash_install(char *text, size_t size);

#endif
