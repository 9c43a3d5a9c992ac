#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sys-bury.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sys-interrupt.h"
#include "sys-process.h"

/* `left` is that of `owner`: a fork has neither the thread nor the children. */
static struct {
  _Atomic pid_t owner;
  _Atomic int left;
} buried;

typedef struct {
  int count;
  pid_t pids[];
} party;

static void collect(pid_t pid) {
  siginfo_t info;
  rg_process_end end;
  int failed;
  do {
    failed = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
  } while (failed < 0 && errno == EINTR);
  if (failed == 0) rg_process_collect(pid, &end); /* else somebody else has */
}

static void *collect_all(void *data) {
  party *dead = data;
  for (int i = 0; i < dead->count; i++) {
    collect(dead->pids[i]);
    atomic_fetch_sub(&buried.left, 1);
  }
  free(dead);
  return NULL;
}

/* No signal is for the thread. */
static int start_thread(party *dead) {
  pthread_t thread;
  pthread_attr_t attributes;
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 64 * 1024);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = pthread_create(&thread, &attributes, collect_all, dead);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return failed ? -1 : 0;
}

int rg_bury_later(const pid_t *pids, int count) {
  if (count == 0) return 0;
  party *dead = malloc(sizeof *dead + (size_t)count * sizeof *pids);
  if (!dead) return -1;
  dead->count = count;
  memcpy(dead->pids, pids, (size_t)count * sizeof *pids);
  if (atomic_load(&buried.owner) != getpid()) {
    atomic_store(&buried.left, 0);
    atomic_store(&buried.owner, getpid());
  }
  atomic_fetch_add(&buried.left, count);
  if (start_thread(dead) == 0) return 0;
  atomic_fetch_sub(&buried.left, count);
  free(dead);
  return -1;
}

int rg_bury_count(void) { return atomic_load(&buried.owner) == getpid() ? atomic_load(&buried.left) : 0; }

void rg_bury_wait(int64_t ms) {
  rg_patience patience = rg_patience_of(ms * 1000000);
  const struct timespec pause = {0, 200000};
  while (rg_bury_count() > 0 && !rg_patience_is_over(&patience)) nanosleep(&pause, NULL);
}
