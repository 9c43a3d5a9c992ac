#ifndef RG_SYS_FORK_H
#define RG_SYS_FORK_H

#include <stdint.h>
#include <sys/types.h>

/* Forks of this process, whoever makes them: R's package parallel does, processx does, any code may.
   Known are those by fork(), not those that end in a program at once (vfork(), posix_spawn()) and share
   the memory until then. */

/* From now on forks are counted. May be called again. */
void rg_fork_watch(void);

/* fork() that is not counted as foreign: what it makes is a worker of ours. */
pid_t rg_fork_worker(void);

/* How many forks that were not ours this process has made. */
int64_t rg_fork_foreign(void);

/* How many forks lie between the first process and this one: it differs in a copy. */
int64_t rg_fork_generation(void);

#endif
