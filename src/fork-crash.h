#ifndef RG_FORK_CRASH_H
#define RG_FORK_CRASH_H

#include <stddef.h>

/* In a worker: signals that mean a crash leave a backtrace of C and R calls in `text`,
   which lies in shared memory and so outlives the worker; then they kill it as they would
   have done. */
void rg_fork_crash_install(char *text, size_t size);

/* Before the first fork: loads what a backtrace needs, once and not in every worker. */
void rg_fork_crash_prepare(void);

/* From now on the text goes there; NULL: nowhere. */
void rg_fork_crash_point(char *text, size_t size);

/* Whether the C stack has overflowed since the last call, and R has been left to deal with it. */
int rg_fork_crash_overflowed(void);

#endif
