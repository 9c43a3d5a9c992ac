#include <poll.h>
#include <unistd.h>

#include "fork-pool.h"
#include "fork-server.h"
#include "link.h"

/* One sleep for a process that serves several runs with the workers of one stand, and a session
   elsewhere by a link. */

typedef struct {
  struct pollfd *list;
  int count;
} waits;

static void wait_for(waits *w, int fd) {
  if (fd >= 0) w->list[w->count++] = (struct pollfd){fd, POLLIN, 0};
}

static void wait_for_pool(waits *waits, const rg_pool *pool) {
  wait_for(waits, pool->doorbell[0]);
  for (int w = 0; w < pool->size; w++) {
    const rg_worker *worker = &pool->workers[w];
    if (worker->pid <= 0) continue;
    wait_for(waits, worker->pidfd);
    for (int s = 0; s < RG_STREAMS; s++) wait_for(waits, worker->stream[s]);
  }
}

/* Of one that takes part in no run: its end, and the answer to a call. */
static void wait_for_member(waits *waits, const rg_member *member) {
  if (member->pid <= 0 || member->run) return;
  wait_for(waits, member->pidfd);
  wait_for(waits, member->line);
}

static int has_news(const rg_pool *pool) {
  return pool->unread || atomic_load(&pool->control->shared->rung);
}

/* Sleeps for at most `timeout` seconds, until there may be news of one of `pools`, of the stand or of a
   link; each is then to be looked at without waiting. */
SEXP ffi_fork_wait(SEXP pools, SEXP pointer, SEXP timeout) {
  const rg_stand *stand = rg_stand_borrow(pointer);
  const R_xlen_t count = XLENGTH(pools);
  size_t room = 1 + 2 * (size_t)stand->size;
  int news = 0;
  for (R_xlen_t p = 0; p < count; p++) {
    rg_pool *pool = rg_fork_pool_borrow(VECTOR_ELT(pools, p));
    room += 1 + (size_t)pool->size * (RG_STREAMS + 1);
    rg_fork_pool_wake(pool);
    atomic_store(&pool->control->shared->parent_asleep, 1);
    news |= has_news(pool);
  }
  waits waits = {(struct pollfd *)R_alloc(room, sizeof *waits.list), 0};
  wait_for(&waits, rg_link_news());
  for (int m = 0; m < stand->size; m++) wait_for_member(&waits, &stand->members[m]);
  for (R_xlen_t p = 0; p < count; p++) {
    wait_for_pool(&waits, rg_fork_pool_borrow(VECTOR_ELT(pools, p)));
  }
  poll(waits.list, (nfds_t)waits.count, news ? 0 : (int)(Rf_asReal(timeout) * 1000));
  for (R_xlen_t p = 0; p < count; p++) {
    const rg_pool *pool = rg_fork_pool_borrow(VECTOR_ELT(pools, p));
    atomic_store(&pool->control->shared->parent_asleep, 0);
  }
  rg_link_news_seen();
  return R_NilValue;
}
