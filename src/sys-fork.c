#include "sys-fork.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static _Atomic int64_t foreign, generation;
/* Of the thread that forks: another one may fork at the same time. */
static _Thread_local int own;

static void in_parent(void) {
  if (!own) atomic_fetch_add(&foreign, 1);
}

static void in_child(void) {
  atomic_fetch_add(&generation, 1);
  atomic_store(&foreign, 0);
}

void rg_fork_watch(void) {
  static int watched;
  if (!watched) watched = pthread_atfork(NULL, in_parent, in_child) == 0;
}

pid_t rg_fork_worker(void) {
  own = 1;
  pid_t pid = fork();
  own = 0;
  return pid;
}

int64_t rg_fork_foreign(void) { return atomic_load(&foreign); }

int64_t rg_fork_generation(void) { return atomic_load(&generation); }
