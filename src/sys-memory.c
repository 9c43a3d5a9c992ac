#include "sys-memory.h"

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sys-cgroup.h"
#include "sys-fd.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#ifdef __APPLE__
#include <libproc.h>
#include <mach/mach.h>
#include <sys/proc_info.h>
#include <sys/resource.h>
#include <sys/sysctl.h>
#endif

/* Version 1 writes "no limit" as the largest multiple of the page size. */
static const int64_t unlimited = (int64_t)1 << 60;

/* Page cache of files, which the kernel drops before it kills anybody (both lists, as in
   MemAvailable). Shared memory is on the lists of anonymous pages and so is not in it. */
static int64_t reclaimable(const char *folder, int version) {
  const char *const keys[] = {"total_inactive_file", "total_active_file"};
  const char *const unified[] = {"inactive_file", "active_file"};
  int64_t size[2];
  rg_cgroup_read_keys(folder, "memory.stat", version == 2 ? unified : keys, size, 2);
  return (size[0] > 0 ? size[0] : 0) + (size[1] > 0 ? size[1] : 0);
}

static int visit_limit(const char *folder, int version, void *data) {
  rg_memory *memory = data;
  int64_t limit, used;
  const char *limit_file = version == 2 ? "memory.max" : "memory.limit_in_bytes";
  const char *used_file = version == 2 ? "memory.current" : "memory.usage_in_bytes";
  if (rg_cgroup_read(folder, limit_file, &limit, 1) != 1 || limit >= unlimited) return 0;
  if (rg_cgroup_read(folder, used_file, &used, 1) != 1) return 0;
  used -= reclaimable(folder, version);
  if (used < 0) used = 0;
  int64_t room = limit > used ? limit - used : 0;
  if (memory->limit < 0 || room < memory->limit - memory->used) {
    memory->limit = limit;
    memory->used = used;
  }
  if (memory->available < 0 || room < memory->available) memory->available = room;
  return 0;
}

#ifdef __APPLE__
static int read_machine(const char *root, rg_memory *memory) {
  (void)root;
  size_t size = sizeof memory->total;
  if (sysctlbyname("hw.memsize", &memory->total, &size, NULL, 0) != 0) return -1;
  vm_statistics64_data_t pages;
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  if (host_statistics64(mach_host_self(), HOST_VM_INFO64, (host_info64_t)&pages, &count) ==
      KERN_SUCCESS) {
    int64_t free_pages = (int64_t)pages.free_count + pages.inactive_count + pages.purgeable_count;
    memory->machine = free_pages * sysconf(_SC_PAGESIZE);
  }
  return 0;
}
#else
/* /proc writes sizes in units of 1024 bytes and calls them kB. */
static int64_t bytes_of(int64_t kilobytes) {
  return kilobytes < 0 || kilobytes > INT64_MAX / 1024 ? -1 : kilobytes * 1024;
}

static int read_machine(const char *root, rg_memory *memory) {
  char proc[RG_CGROUP_PATH];
  if (snprintf(proc, sizeof proc, "%s/proc", root) >= (int)sizeof proc) return -1;
  const char *const keys[] = {"MemTotal", "MemAvailable"};
  int64_t size[2];
  rg_cgroup_read_keys(proc, "meminfo", keys, size, 2);
  memory->total = bytes_of(size[0]);
  memory->machine = bytes_of(size[1]);
  return memory->total < 0 ? -1 : 0;
}
#endif

int rg_memory_read_at(const char *root, rg_memory *memory) {
  memory->total = memory->available = memory->machine = memory->limit = memory->used = -1;
  if (read_machine(root, memory) < 0) return -1;
  memory->available = memory->machine < 0 ? memory->total : memory->machine;
  rg_cgroup_walk(root, "memory", visit_limit, memory);
  return 0;
}

int rg_memory_read(rg_memory *memory) { return rg_memory_read_at("", memory); }

/* Only the process's own group counts: version 1 counts a kill in the victim's group and
   not in those above it. A group without the file leaves the word to the next version. */
static int visit_kills(const char *folder, int version, void *data) {
  int64_t *kills = data;
  const char *file = version == 2 ? "memory.events" : "memory.oom_control";
  if (*kills < 0) *kills = rg_cgroup_read_key(folder, file, "oom_kill");
  return 1;
}

int64_t rg_memory_oom_kills_at(const char *root) {
  int64_t kills = -1;
  rg_cgroup_walk(root, "memory", visit_kills, &kills);
  if (kills < 0) {
    char proc[RG_CGROUP_PATH];
    if (snprintf(proc, sizeof proc, "%s/proc", root) < (int)sizeof proc) {
      kills = rg_cgroup_read_key(proc, "vmstat", "oom_kill");
    }
  }
  return kills;
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=123", Documentation/accounting/psi.rst of the kernel. */
static int64_t stalled_in(const char *folder, const char *path) {
  rg_cgroup_lines lines;
  int64_t stalled = -1;
  if (rg_cgroup_lines_open(&lines, folder, path) < 0) return -1;
  for (char *line; stalled < 0 && (line = rg_cgroup_lines_next(&lines)) != NULL;) {
    const char *total = strncmp(line, "some ", 5) == 0 ? strstr(line, " total=") : NULL;
    if (total) stalled = strtoll(total + 7, NULL, 10);
  }
  rg_cgroup_lines_close(&lines);
  return stalled;
}

static int visit_stalled(const char *folder, int version, void *data) {
  if (version == 2) *(int64_t *)data = stalled_in(folder, "/memory.pressure");
  return 1;
}

int64_t rg_memory_stalled_at(const char *root) {
  int64_t stalled = -1;
  rg_cgroup_walk(root, "memory", visit_stalled, &stalled);
  return stalled < 0 ? stalled_in(root, "/proc/pressure/memory") : stalled;
}

int64_t rg_memory_oom_kills(void) { return rg_memory_oom_kills_at(""); }

#ifdef __APPLE__
int64_t rg_memory_anon(pid_t pid) {
  struct proc_taskinfo info;
  int n = proc_pidinfo(pid, PROC_PIDTASKINFO, 0, &info, sizeof info);
  return n == (int)sizeof info ? (int64_t)info.pti_resident_size : -1;
}

int64_t rg_memory_peak(pid_t pid) {
  (void)pid;
  return -1;
}

#else
static int64_t process_status(pid_t pid, const char *key) {
  char folder[32];
  snprintf(folder, sizeof folder, "/proc/%ld", (long)pid);
  return bytes_of(rg_cgroup_read_key(folder, "status", key));
}

int64_t rg_memory_anon(pid_t pid) { return process_status(pid, "RssAnon"); }

int64_t rg_memory_peak(pid_t pid) { return process_status(pid, "VmHWM"); }
#endif

void rg_memory_give_back(void) {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

void rg_memory_forget_peak(void) {
#ifdef __linux__
  int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (fd >= 0 && write(fd, "5", 1) < 0) errno = 0; /* refused: it goes on counting */
  rg_fd_close(&fd);
#endif
}

void rg_memory_end_before_parent(void) {
#ifdef __linux__
  /* From -1000 to 1000, in thousandths of the memory that there is (man 5 proc). */
  enum { BEFORE = 100, MOST = 1000 };
  char text[16] = "";
  int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
  if (fd >= 0 && read(fd, text, sizeof text - 1) > 0) {
    int score = atoi(text) + BEFORE;
    int length = snprintf(text, sizeof text, "%d", score < MOST ? score : MOST);
    if (pwrite(fd, text, (size_t)length, 0) < 0) errno = 0; /* refused: it ends whom it wants */
  }
  rg_fd_close(&fd);
#endif
}

int rg_memory_is_copied(const void *start, int64_t size) {
#ifdef __linux__
  /* One word for each page: bit 63 present, 62 swapped, 61 of a file (man 5 proc). */
  uint64_t words[4096];
  const uint64_t there = (uint64_t)3 << 62, of_file = (uint64_t)1 << 61;
  const int64_t page = sysconf(_SC_PAGESIZE);
  int64_t next = (int64_t)(uintptr_t)start / page;
  const int64_t end = ((int64_t)(uintptr_t)start + size + page - 1) / page;
  int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  int copied = fd < 0 ? -1 : 0;
  while (copied == 0 && next < end) {
    size_t want = (size_t)(end - next < 4096 ? end - next : 4096) * sizeof *words;
    ssize_t got = pread(fd, words, want, (off_t)(next * (int64_t)sizeof *words));
    if (got <= 0) copied = -1;
    for (size_t i = 0; got > 0 && i < (size_t)got / sizeof *words; i++) {
      if ((words[i] & there) && !(words[i] & of_file)) copied = 1;
    }
    if (got > 0) next += got / (ssize_t)sizeof *words;
  }
  rg_fd_close(&fd);
  return copied;
#else
  (void)start, (void)size;
  return -1;
#endif
}

int64_t rg_memory_malloced(void) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  struct mallinfo2 info = mallinfo2();
  return (int64_t)(info.uordblks + info.hblkhd);
#else
  return -1;
#endif
}

void rg_memory_keep_freed(void) {
#ifdef __GLIBC__
  /* The largest threshold that glibc takes; larger pieces are mapped one by one. */
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
#endif
}

void *rg_memory_allocate(int64_t size) {
#ifdef MADV_HUGEPAGE
  const size_t large = (size_t)2 << 20;
  void *memory;
  if ((size_t)size >= 4 * large) {
    if (posix_memalign(&memory, large, (size_t)size) != 0) return NULL;
    madvise(memory, (size_t)size / large * large, MADV_HUGEPAGE); /* only a wish */
    return memory;
  }
#endif
  return malloc((size_t)size);
}
