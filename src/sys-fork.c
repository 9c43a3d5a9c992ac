#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sys-fork.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sys-bury.h"

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

enum { PAGE = 4096 }; /* the kernel takes whole pages, of whatever size */

int rg_fork_witness_open(rg_fork_witness *witness) {
  *witness = (rg_fork_witness){.fd = rg_fd_memory("regatta-forks"), .forks = rg_fork_foreign()};
  if (witness->fd < 0) return -1;
  witness->file = rg_fd_identify(witness->fd);
  void *page = rg_fd_resize(witness->fd, PAGE) < 0
                   ? MAP_FAILED
                   : mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, witness->fd, 0);
  if (page == MAP_FAILED) {
    rg_fd_close(&witness->fd);
    return -1;
  }
  witness->page = page;
  return 0;
}

static void forget_page(rg_fork_witness *witness) {
  if (witness->page) munmap(witness->page, PAGE);
  witness->page = NULL;
}

void rg_fork_witness_close(rg_fork_witness *witness) {
  forget_page(witness);
  if (rg_fd_is(witness->fd, witness->file)) rg_fd_close(&witness->fd);
  witness->fd = -1;
}

#ifdef __linux__
/* A worker that was killed before it came to drop its copy of the page has that until it is gone. */
static int seal(int fd) {
  enum { PATIENCE_MS = 1000 };
  if (rg_fd_seal(fd, RG_FD_SEAL_WRITE) == 0) return 0;
  if (rg_bury_count() == 0) return -1;
  rg_bury_wait(PATIENCE_MS);
  return rg_fd_seal(fd, RG_FD_SEAL_WRITE);
}
#endif

/* A file that nobody has mapped for writing can be sealed against writes. After that it is no use as
   a witness any more, so there is a new one, under the number of the old. */
int rg_fork_alone(rg_fork_witness *witness) {
  if (witness->page && witness->forks == rg_fork_foreign()) return 1;
#ifdef __linux__
  rg_fork_witness next;
  if (!witness->page || !rg_fd_is(witness->fd, witness->file)) return 0;
  forget_page(witness);
  if (seal(witness->fd) < 0 || rg_fork_witness_open(&next) < 0) return 0;
  if (dup3(next.fd, witness->fd, O_CLOEXEC) >= 0) {
    rg_fd_close(&next.fd);
    next.fd = witness->fd;
  } else {
    rg_fd_close(&witness->fd);
  }
  *witness = next;
  return 1;
#else
  return 0;
#endif
}

int64_t rg_fork_generation(void) { return atomic_load(&generation); }
