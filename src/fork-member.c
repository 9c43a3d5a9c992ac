#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fork-server.h"
#include "region.h"
#include "sys-fd.h"

/* A worker of a stand, and the runs in which it takes part. */

/* The arena that it wrote to last: of the next run it will mostly be the same. */
static rg_arena *arena;
static rg_process_children before; /* children that elements of the run have not started */

/* A session that has gone takes its workers along. */
void rg_fork_member_leave_process(void) { rg_fork_worker_leave(0); }

static int has_children(void) {
  siginfo_t info;
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static rg_arena *arena_of(const rg_member_message *message, int file[RG_RUN_FILES]) {
  if (!arena || arena->tag != message->arena_tag || !rg_arena_is_whole(arena)) {
    if (arena) rg_arena_destroy(arena);
    arena = rg_arena_open(file[RG_RUN_ARENA], file[RG_RUN_SPANS], (pid_t)message->owner,
                          message->arena_tag);
    if (arena) file[RG_RUN_ARENA] = file[RG_RUN_SPANS] = -1;
  }
  if (arena) arena->limit = message->limit;
  return arena;
}

/* The pool as far as a worker needs it. */
static rg_pool *pool_of(const rg_member_message *message, int file[RG_RUN_FILES]) {
  rg_pool *pool = calloc(1, sizeof *pool);
  if (!pool) return NULL;
  pool->arena = arena_of(message, file);
  pool->control = rg_control_open(file[RG_RUN_CONTROL], message->elements, (int)message->workers,
                                  message->batch);
  if (!pool->arena || !pool->control || message->place < 0 || message->place >= message->workers) {
    rg_control_close(pool->control);
    free(pool);
    return NULL;
  }
  pool->elements = message->elements;
  pool->share_from = message->share_from;
  pool->wants_cpu = message->wants_cpu;
  pool->cores = message->cores;
  pool->low = message->low;
  return pool;
}

static SEXP read_code(int fd, int64_t size) {
  SEXP bytes = PROTECT(Rf_allocVector(RAWSXP, (R_xlen_t)size));
  if (rg_fd_pread_all(fd, RAW(bytes), (size_t)size, 0) < 0) rg_fork_worker_leave(1);
  UNPROTECT(1);
  return bytes;
}

SEXP rg_fork_member_join(const rg_member_message *message, int *fds, int count) {
  int file[RG_RUN_FILES], next = 0;
  for (int f = 0; f < RG_RUN_FILES; f++) {
    int there = (message->files >> f & 1) && next < count;
    file[f] = there ? fds[next++] : -1;
  }
  rg_pool *pool = pool_of(message, file);
  if (!pool) rg_fork_worker_leave(1);
  rg_process_children_forget(&before);
  if (has_children()) rg_process_children_note(&before);
  const rg_run_ends ends = {file[RG_RUN_WAKE], file[RG_RUN_DOORBELL],
                            {file[RG_RUN_STDOUT_READER], file[RG_RUN_STDERR_READER]},
                            {file[RG_RUN_STDOUT], file[RG_RUN_STDERR]}};
  rg_fork_member_enter(pool, message->place, &ends);
  rg_region_attach_known(1);
  SEXP bytes = PROTECT(read_code(file[RG_RUN_CODE], message->size));
  rg_fd_close(&file[RG_RUN_CONTROL]);
  rg_fd_close(&file[RG_RUN_CODE]);
  rg_fd_close(&file[RG_RUN_ARENA]);
  rg_fd_close(&file[RG_RUN_SPANS]);
  rg_fd_close(&file[RG_RUN_STDOUT]);
  rg_fd_close(&file[RG_RUN_STDERR]);
  UNPROTECT(1);
  return bytes;
}

/* It has taken from the bytes what it needs. */
SEXP ffi_fork_member_ready(void) {
  rg_region_attach_known(0);
  return R_NilValue;
}

int rg_fork_member_is_clean(void) {
  return !has_children() || (before.child && !rg_process_children_came(&before));
}

/* The worker has done with the run: nothing of it goes on. What elements have started is ended, as by
   the end of a forked worker, and children that were there before are not. */
SEXP ffi_fork_member_leave(void) {
  if (before.child) {
    rg_process_children_end(&before);
  } else if (has_children()) {
    rg_process_end_children();
  }
  rg_pool *pool = rg_fork_member_quit();
  if (pool) {
    rg_control_close(pool->control);
    free(pool);
  }
  return R_NilValue;
}
