#include <R_ext/Utils.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "fork-server.h"
#include "queue.h"
#include "sys-clock.h"
#include "sys-fd.h"
#include "sys-interrupt.h"
#include "sys-message.h"

/* The session's side of a run in which workers of a stand take part. */

/* What all of them need to know of the run: it is written once, to a file in memory, which each reads. */
SEXP ffi_fork_pool_code(SEXP pointer, SEXP bytes) {
  rg_pool *pool = rg_fork_pool_borrow(pointer);
  rg_fd_close(&pool->code_fd);
  pool->code_size = (int64_t)XLENGTH(bytes);
  pool->code_fd = rg_fd_memory("regatta-code");
  if (pool->code_fd < 0 || rg_fd_pwrite_all(pool->code_fd, RAW_RO(bytes), (size_t)pool->code_size, 0) < 0) {
    return Rf_ScalarInteger(errno);
  }
  return Rf_ScalarInteger(0);
}

static int send_run(rg_pool *pool, int place, int line, rg_pipes pipes) {
  rg_member_message message = {
      .verb = RG_MEMBER_RUN, .place = place, .size = pool->code_size,
      .elements = pool->control->elements, .batch = pool->control->batch,
      .share_from = pool->share_from, .limit = pool->arena->limit,
      .workers = pool->control->workers, .wants_cpu = pool->wants_cpu,
      .cores = pool->cores, .low = pool->low,
      .owner = (int32_t)pool->arena->owner, .arena_tag = pool->arena->tag};
  const int all[RG_RUN_FILES] = {
      pool->control_fd, pool->code_fd, pool->doorbell[1], pipes[RG_STREAMS][0],
      pool->arena->fd, pool->arena->shared_fd, pipes[RG_STDOUT][1], pipes[RG_STDERR][1],
      pipes[RG_STDOUT][0], pipes[RG_STDERR][0]};
  int fds[RG_RUN_FILES], count = 0;
  for (int f = 0; f < RG_RUN_FILES; f++) {
    if (all[f] < 0) continue;
    message.files |= 1u << f;
    fds[count++] = all[f];
  }
  return rg_message_send(line, -1, &message, sizeof message, fds, count,
                         rg_clock_now() + (int64_t)1000000000);
}

/* A worker of the stand takes the place as the driver's number `id`, one of the `members` (numbers from 1):
   c(pid, errno), pid 0 if there is none to be had. R looks for an interrupt when it is on the books. */
SEXP ffi_fork_worker_attach(SEXP pointer, SEXP slot_number, SEXP id, SEXP members) {
  rg_pool *pool = rg_fork_pool_borrow(pointer);
  if (!pool->stand) Rf_error("this run forks its workers");
  int place = Rf_asInteger(slot_number) - 1, failed = 0, m = -1;
  rg_worker *worker = &pool->workers[place];
  rg_pipes pipes;
  SEXP result = PROTECT(Rf_allocVector(INTSXP, 2));
  rg_control_reset_slot(&pool->control->slots[place]);
  rg_interrupt_begin();
  if (rg_fork_pipes_open(pool, pipes) < 0) failed = errno;
  /* One that ends just now is followed by another. */
  for (int tries = 0; !failed && tries < 3; tries++) {
    m = rg_stand_take(pool->stand, INTEGER(members), (int)XLENGTH(members));
    if (m < 0) {
      failed = errno;
    } else if (send_run(pool, place, pool->stand->members[m].line, pipes) == 0) {
      break;
    } else {
      failed = tries == 2 ? errno : 0;
      rg_stand_give_up(pool->stand, m);
      m = -1;
    }
  }
  if (m >= 0) {
    pool->stand->members[m].run = pool;
    pool->stand->members[m].since = rg_clock_now();
    worker->member = m;
    rg_fork_worker_book(pool, place, pool->stand->members[m].pid, Rf_asInteger(id), pipes);
  }
  rg_fork_pipes_close(pipes);
  INTEGER(result)[0] = m >= 0 ? (int)worker->pid : 0;
  INTEGER(result)[1] = failed;
  rg_interrupt_end();
  R_CheckUserInterrupt();
  UNPROTECT(1);
  return result;
}

/* Whether it is to be killed rather than waited for: it runs an element that somebody has waited for in
   vain. One whose end is told already is about to leave. */
static int is_in_the_way(const rg_pool *pool, int w) {
  int64_t current = atomic_load(&pool->control->slots[w].current);
  return pool->workers[w].damaged ||
         (current >= 0 && (current >= pool->elements || !pool->settled[current]));
}

/* Its output is not wanted any more, and neither are its values: of memory that they tell of nobody
   will hear. */
static void release_worker(rg_pool *pool, int w) {
  pool->lost_spans |= rg_ring_unread(&pool->control->slots[w].ring) > 0;
  pool->stand->members[pool->workers[w].member].run = NULL;
  rg_fork_pool_close_worker(&pool->workers[w]);
}

static void sleep_for_leavers(rg_pool *pool, int ms) {
  char bytes[64];
  struct pollfd bell = {pool->doorbell[0], POLLIN, 0};
  poll(&bell, 1, ms);
  while (read(pool->doorbell[0], bytes, sizeof bytes) == (ssize_t)sizeof bytes) continue;
}

/* It sleeps and has nothing to end: once it is woken, and finds that the run is over, it can do nothing but
   leave. What the session sends it next it does after that. */
static int is_as_good_as_gone(const rg_slot *slot) {
  return atomic_load(&slot->waiting) && atomic_load(&slot->current) < 0 && atomic_load(&slot->begun) > 0 &&
         atomic_load(&slot->left) == RG_LEFT_ALONE;
}

/* Long enough for a machine that does many other things, too; and when somebody waits for the prompt, who
   gets another worker in milliseconds. */
static const int64_t LEAVE_NS = (int64_t)10 * 1000000000, HURRY_NS = (int64_t)1000000000;

void rg_fork_detach(rg_pool *pool, int hurry) {
  rg_patience patience = rg_patience_of(hurry ? HURRY_NS : LEAVE_NS);
  int left;
  if (pool->stand->stopped) return;
  atomic_store(&pool->control->shared->over, 1);
  for (int w = 0; w < pool->size; w++) {
    if (pool->workers[w].pid <= 0) continue;
    int gone = is_as_good_as_gone(&pool->control->slots[w]) && !pool->workers[w].damaged;
    /* One that is starting will find, when it comes to the run, that it is over. */
    gone |= rg_stand_is_starting(pool->stand, pool->workers[w].member);
    if (rg_fd_wake(pool->workers[w].wake) == 0 && gone) release_worker(pool, w);
  }
  do {
    left = 0;
    for (int w = 0; w < pool->size; w++) {
      const rg_worker *worker = &pool->workers[w];
      if (worker->pid <= 0 || is_in_the_way(pool, w)) continue;
      if (atomic_load(&pool->control->slots[w].left) == RG_LEFT) {
        release_worker(pool, w);
      } else if (!rg_fork_worker_has_ended(worker)) {
        left++;
      }
    }
    if (left > 0) sleep_for_leavers(pool, 50);
  } while (left > 0 && !rg_patience_is_over(&patience));
}
