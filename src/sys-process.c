#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sys-process.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "sys-fd.h"

void rg_process_leave(int status) {
#ifdef SYS_exit_group
  for (;;) syscall(SYS_exit_group, status);
#else
  _exit(status);
#endif
}

void rg_process_flush_stdout(void) {
  static FILE **stream;
#ifdef __APPLE__
  if (!stream) stream = dlsym(RTLD_DEFAULT, "__stdoutp");
#else
  if (!stream) stream = dlsym(RTLD_DEFAULT, "stdout");
#endif
  if (stream) fflush(*stream);
}

int rg_process_pidfd(pid_t pid) {
#ifdef SYS_pidfd_open
  return rg_fd_lift((int)syscall(SYS_pidfd_open, pid, 0));
#else
  (void)pid;
  errno = ENOSYS;
  return -1;
#endif
}

int rg_process_die_with(pid_t parent, int signal) {
#ifdef PR_SET_PDEATHSIG
  prctl(PR_SET_PDEATHSIG, signal);
#else
  (void)signal;
#endif
  return getppid() == parent ? 0 : -1;
}

int rg_process_collect(pid_t pid, int block, rg_process_end *end) {
  int status;
  struct rusage usage;
  pid_t got;
  do {
    got = wait4(pid, &status, block ? 0 : WNOHANG, &usage);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return 0;
  end->signal = end->status = -1;
  end->peak_bytes = -1;
  if (got == pid) {
    if (WIFSIGNALED(status)) end->signal = WTERMSIG(status);
    if (WIFEXITED(status)) end->status = WEXITSTATUS(status);
#ifdef __APPLE__
    end->peak_bytes = usage.ru_maxrss;
#else
    end->peak_bytes = (int64_t)usage.ru_maxrss * 1024;
#endif
  }
  return 1;
}

/* Appends the children of `pid` to `list`; /proc lists them per thread that forked them,
   and only the main thread of R forks. */
static int list_children(pid_t pid, pid_t *list, int used, int capacity) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
  FILE *file = fopen(path, "re");
  if (!file) return used;
  int child;
  while (used < capacity && fscanf(file, "%d", &child) == 1) list[used++] = child;
  fclose(file);
  return used;
}

int rg_process_has_children(pid_t pid) {
  pid_t first;
  return list_children(pid, &first, 0, 1) > 0;
}

void rg_process_kill_tree(pid_t pid) {
  enum { CAPACITY = 4096 };
  static pid_t tree[CAPACITY];
  /* A stopped process starts no new children while the list is made. */
  kill(pid, SIGSTOP);
  int used = list_children(pid, tree, 0, CAPACITY);
  for (int i = 0; i < used; i++) {
    kill(tree[i], SIGSTOP);
    used = list_children(tree[i], tree, used, CAPACITY);
  }
  for (int i = 0; i < used; i++) kill(tree[i], SIGKILL);
  rg_process_kill_group(pid);
  kill(pid, SIGKILL);
}

void rg_process_kill_group(pid_t pid) {
  if (pid > 1) kill(-pid, SIGKILL);
}

int64_t rg_process_cpu(pid_t pid) {
  clockid_t clock;
  struct timespec used;
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return -1;
  return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}
