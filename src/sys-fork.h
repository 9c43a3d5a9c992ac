#ifndef RG_SYS_FORK_H
#define RG_SYS_FORK_H

#include <stdint.h>
#include <sys/types.h>

#include "sys-fd.h"

/* Forks of this process, whoever makes them: R's package parallel does, processx does, any code may.
   Known are those by fork(), not those that end in a program at once (vfork(), posix_spawn()) and share
   the memory until then. */

/* From now on forks are counted. May be called again. */
void rg_fork_watch(void);

/* fork() that is not counted as foreign: what it makes is a worker of ours. */
pid_t rg_fork_worker(void);

/* How many forks that were not ours this process has made. */
int64_t rg_fork_foreign(void);

/*
 * A witness tells whether a process that this one has forked since, and that has neither ended nor
 * started a program, still has the memory that this process had then. It is a page of memory that
 * forks inherit, and of which the kernel counts who has it mapped; a copy that closes all its
 * descriptors has it still.
 */
typedef struct {
  int fd;
  rg_fd_identity file;
  void *page;
  int64_t forks; /* rg_fork_foreign() when it was made */
} rg_fork_witness;

/* -1 with errno set if there can be none; rg_fork_alone() is then right to say no. */
int rg_fork_witness_open(rg_fork_witness *witness);
void rg_fork_witness_close(rg_fork_witness *witness);

/* Whether no such process is left, but for workers that are being buried (sys-bury.h), which are waited for up to
   a second. Costs next to nothing as long as nobody has forked. Where the answer is yes the witness is made anew;
   once it is no, it stays so. */
int rg_fork_alone(rg_fork_witness *witness);

/* How many forks lie between the first process and this one: it differs in a copy. */
int64_t rg_fork_generation(void);

#endif
