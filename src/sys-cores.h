#ifndef RG_SYS_CORES_H
#define RG_SYS_CORES_H

/* CPUs that are switched on in this machine. */
int rg_cores_online(void);

/* CPUs the calling thread may run on: the affinity mask, which a cpuset control group
   and `taskset` narrow. Without such a mask (macOS), the CPUs switched on. */
int rg_cores_affinity(void);

/* The tightest CPU quota of this process's control groups, in CPUs (1.5 is one and a
   half), or +Inf without one, read below the folder `root` (see sys-cgroup.h). `where`, of `size`
   bytes, says which file it is from. */
double rg_cores_quota_at(const char *root, char *where, unsigned long size);

/* Live threads of this process, or -1. */
int rg_cores_threads(void);

#endif
