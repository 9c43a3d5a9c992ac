#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "regatta-info.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "sys-cgroup.h"
#include "sys-cores.h"
#include "sys-fd.h"
#include "sys-memory.h"
#include "sys-process.h"

#ifdef __linux__
#include <sys/prctl.h>
#endif

static double known(int64_t value) { return value < 0 ? NA_REAL : (double)value; }

static SEXP named_numbers(const char **names, const double *value) {
  SEXP out = PROTECT(Rf_mkNamed(REALSXP, names));
  for (R_xlen_t i = 0; i < XLENGTH(out); i++) REAL(out)[i] = value[i];
  UNPROTECT(1);
  return out;
}

SEXP ffi_regatta_info_memory(SEXP root) {
  const char *at = CHAR(STRING_ELT(root, 0));
  rg_memory memory = {-1, -1, -1, -1, -1};
  rg_memory_read_at(at, &memory);
  const char *names[] = {"total",        "available",  "machine_available",
                         "cgroup_limit", "cgroup_use", "oom_kills",
                         ""};
  const double value[] = {known(memory.total), known(memory.available), known(memory.machine),
                          memory.limit < 0 ? R_PosInf : (double)memory.limit,
                          known(memory.used), known(rg_memory_oom_kills_at(at))};
  return named_numbers(names, value);
}

static void resource_limit(int resource, double *soft, double *hard) {
  struct rlimit limit;
  *soft = *hard = NA_REAL;
  if (getrlimit(resource, &limit) != 0) return;
  *soft = limit.rlim_cur == RLIM_INFINITY ? R_PosInf : (double)limit.rlim_cur;
  *hard = limit.rlim_max == RLIM_INFINITY ? R_PosInf : (double)limit.rlim_max;
}

typedef struct {
  int64_t most, now;
} process_limit;

/* Processes and threads together count against pids.max of every group above. */
static int visit_pids(const char *folder, int version, void *data) {
  process_limit *pids = data;
  int64_t most, now;
  (void)version;
  if (rg_cgroup_read(folder, "pids.max", &most, 1) != 1 || most == INT64_MAX) return 0;
  if (rg_cgroup_read(folder, "pids.current", &now, 1) != 1) return 0;
  if (pids->most < 0 || most - now < pids->most - pids->now) {
    pids->most = most;
    pids->now = now;
  }
  return 0;
}

SEXP ffi_regatta_info_limits(SEXP root) {
  const char *names[] = {"files_soft", "files_hard", "processes_soft", "processes_hard",
                         "address_space", "cgroup_processes", "cgroup_processes_use",
                         "dev_shm", "dev_shm_free", ""};
  double value[9], unused;
  resource_limit(RLIMIT_NOFILE, &value[0], &value[1]);
  resource_limit(RLIMIT_NPROC, &value[2], &value[3]);
  resource_limit(RLIMIT_AS, &value[4], &unused);
  process_limit pids = {-1, -1};
  rg_cgroup_walk(CHAR(STRING_ELT(root, 0)), "pids", visit_pids, &pids);
  value[5] = pids.most < 0 ? R_PosInf : (double)pids.most;
  value[6] = known(pids.now);
  struct statvfs shm;
  value[7] = value[8] = NA_REAL;
  if (statvfs("/dev/shm", &shm) == 0) {
    value[7] = (double)shm.f_blocks * (double)shm.f_frsize;
    value[8] = (double)shm.f_bavail * (double)shm.f_frsize;
  }
  return named_numbers(names, value);
}

/* A sandbox may refuse what the kernel has, so each facility is tried. */
static int pidfd_works(void) {
  int fd = rg_process_pidfd(getpid());
  int works = fd >= 0;
  rg_fd_close(&fd);
  return works;
}

static int parent_death_signal_works(void) {
#ifdef __linux__
  int signal;
  return prctl(PR_GET_PDEATHSIG, &signal) == 0;
#else
  return 0;
#endif
}

static int fallocate_works(int fd) {
#ifdef FALLOC_FL_PUNCH_HOLE
  long page = sysconf(_SC_PAGESIZE);
  return fallocate(fd, 0, 0, page) == 0 && rg_fd_punch(fd, 0, page) == 0;
#else
  (void)fd;
  return 0;
#endif
}

SEXP ffi_regatta_info_process(void) {
  const char *names[] = {"threads", "works", ""};
  const char *facilities[] = {"unnamed_memory", "fallocate", "pidfd", "parent_death_signal", ""};
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  int threads = rg_cores_threads();
  SET_VECTOR_ELT(out, 0, Rf_ScalarInteger(threads < 0 ? NA_INTEGER : threads));
  SEXP works = Rf_mkNamed(LGLSXP, facilities);
  SET_VECTOR_ELT(out, 1, works);
  int fd = rg_fd_memory("regatta-info");
  LOGICAL(works)[0] = fd >= 0;
  LOGICAL(works)[1] = fd >= 0 && fallocate_works(fd);
  LOGICAL(works)[2] = pidfd_works();
  LOGICAL(works)[3] = parent_death_signal_works();
  rg_fd_close(&fd);
  UNPROTECT(1);
  return out;
}
