#ifndef RG_SYS_MEMORY_H
#define RG_SYS_MEMORY_H

#include <stdint.h>
#include <sys/types.h>

/* Memory in bytes; -1 where the system does not say. */
typedef struct {
  int64_t total;     /* of the machine */
  int64_t available; /* what this process may still take: the least of `machine` and what
                        each control group leaves below its limit */
  int64_t machine;   /* free, or reclaimable without swapping, on the whole machine */
  int64_t limit;     /* of the control group with least room, -1 without any limit */
  int64_t used;      /* in that group, page cache that can be reclaimed not counted */
} rg_memory;

/* Fills *memory: 0, or -1 if even the machine's total cannot be read. */
int rg_memory_read(rg_memory *memory);

/* The same below the folder `root` (see sys-cgroup.h). */
int rg_memory_read_at(const char *root, rg_memory *memory);

/* How many processes the out-of-memory killer has ended in this process's control group
   since that was made, or on the machine where the group keeps no count; -1 unknown.
   Compare two readings: the number itself says little. */
int64_t rg_memory_oom_kills(void);
int64_t rg_memory_oom_kills_at(const char *root);

/* Microseconds for which some process of this one's control group, or of the machine where the group keeps no count,
   has waited for memory so far; -1 unknown. */
int64_t rg_memory_stalled_at(const char *root);

/* Resident anonymous memory of `pid`: what its end would set free. -1 unknown. */
int64_t rg_memory_anon(pid_t pid);

/* Gives the system back what this process has freed, as far as the allocator does that when it is asked. */
void rg_memory_give_back(void);

/* The largest resident set that `pid` has had; -1 unknown. */
int64_t rg_memory_peak(pid_t pid);

/* From now on the largest resident set of the calling process is what it has from now on, also for whoever
   collects it. Where the system does not do that, nothing. */
void rg_memory_forget_peak(void);

/* From now on the OOM killer ends the calling process rather than its parent, or another of the parent's size. Where
   the system has none, nothing. */
void rg_memory_end_before_parent(void);

/* Whether any page of a private mapping was written to, so that it is this process's own now;
   -1 unknown. */
int rg_memory_is_copied(const void *start, int64_t size);

/* Bytes that this process has from malloc(). -1 unknown. */
int64_t rg_memory_malloced(void);

/* From now on memory that is freed stays with the process and is used again: for one that makes
   garbage all the time and will end soon. Where the C library has no such setting, nothing. */
void rg_memory_keep_freed(void);

/* As malloc(), to be given to free(). Much is had in large pages where the system offers them: each
   page costs a fault when it is first written to. */
void *rg_memory_allocate(int64_t size);

#endif
