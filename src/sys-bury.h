#ifndef RG_SYS_BURY_H
#define RG_SYS_BURY_H

#include <stdint.h>
#include <sys/types.h>

/* Children of this process that have been killed, and whose end nobody wants to wait for: a large
   address space takes longer to go than it took to copy. A thread collects them, which ends with the
   last; it makes nothing but system calls, so that it can be at no bad place when the process forks. */

/* Children that are there to be collected. 0, or -1 where no thread can be had: they stay the caller's. */
int rg_bury_later(const pid_t *pids, int count);

/* How many this process has not collected yet. */
int rg_bury_count(void);

/* Waits until there is none, for up to `ms` milliseconds: they count as processes until then. */
void rg_bury_wait(int64_t ms);

#endif
