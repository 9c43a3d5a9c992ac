#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sys-cores.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sys-cgroup.h"

#ifdef __APPLE__
#include <libproc.h>
#include <sys/proc_info.h>
#endif
#ifdef __linux__
#include <sched.h>
#endif

int rg_cores_online(void) {
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n < 1 ? 1 : (int)n;
}

int rg_cores_affinity(void) {
#ifdef __linux__
  /* The kernel refuses a mask shorter than its own. This one holds 65536 CPUs, eight
     times what Linux can be built for, where the usual cpu_set_t ends at 1024. */
  unsigned long mask[65536 / (8 * sizeof(unsigned long))];
  memset(mask, 0, sizeof mask);
  if (sched_getaffinity(0, sizeof mask, (cpu_set_t *)mask) == 0) {
    int count = 0;
    for (size_t i = 0; i < sizeof mask / sizeof mask[0]; i++) {
      for (unsigned long bits = mask[i]; bits; bits &= bits - 1) count++;
    }
    if (count > 0) return count;
  }
#endif
  return rg_cores_online();
}

typedef struct {
  double cores;
  char *where;
  size_t size;
} quota_search;

static int visit_quota(const char *folder, int version, void *data) {
  quota_search *search = data;
  int64_t value[2] = {-1, -1}; /* microseconds of CPU time in each period of so many */
  const char *file = version == 2 ? "cpu.max" : "cpu.cfs_quota_us";
  int read = rg_cgroup_read(folder, file, value, version == 2 ? 2 : 1);
  if (version == 1 && read == 1) read += rg_cgroup_read(folder, "cpu.cfs_period_us", value + 1, 1);
  if (read < 2 || value[0] <= 0 || value[0] == INT64_MAX || value[1] <= 0) return 0;
  double cores = (double)value[0] / (double)value[1];
  if (cores < search->cores) {
    search->cores = cores;
    if (search->where) snprintf(search->where, search->size, "%s/%s", folder, file);
  }
  return 0;
}

double rg_cores_quota_at(const char *root, char *where, unsigned long size) {
  quota_search search = {INFINITY, where, size};
  if (where && size > 0) where[0] = '\0';
  rg_cgroup_walk(root, "cpu", visit_quota, &search);
  return search.cores;
}

int rg_cores_threads(void) {
#ifdef __APPLE__
  struct proc_taskinfo info;
  int n = proc_pidinfo(getpid(), PROC_PIDTASKINFO, 0, &info, sizeof info);
  return n == (int)sizeof info ? (int)info.pti_threadnum : -1;
#else
  return (int)rg_cgroup_read_key("/proc/self", "status", "Threads");
#endif
}
