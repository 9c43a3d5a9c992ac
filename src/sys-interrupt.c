#include "sys-interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "sys-clock.h"

static const int64_t GRACE_NS = (int64_t)1000000000;
enum { SLICE_MS = 200, LOOK_NS = 100000000 };

static int depth, installed;
static struct sigaction before;
static _Atomic int64_t heard; /* when, 0: not yet */

static void hear(int number) {
  (void)number;
  if (atomic_load(&heard) == 0) atomic_store(&heard, rg_clock_now());
}

void rg_interrupt_begin(void) {
  if (depth++ > 0) return;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART; /* for calls of others */
  action.sa_handler = hear;
  atomic_store(&heard, 0);
  sigaction(SIGINT, NULL, &before);
  /* A process that is not to hear it, as a job in the background of a shell, does not here either. */
  installed = before.sa_handler != SIG_IGN && sigaction(SIGINT, &action, NULL) == 0;
}

void rg_interrupt_end(void) {
  if (--depth > 0) return;
  if (installed) sigaction(SIGINT, &before, NULL);
  if (atomic_exchange(&heard, 0) != 0) raise(SIGINT);
}

int64_t rg_interrupt_limit(int64_t until, int64_t since) {
  int64_t at = atomic_load(&heard);
  if (depth == 0 || at == 0) return until;
  int64_t limit = (at > since ? at : since) + GRACE_NS;
  return limit < until ? limit : until;
}

rg_patience rg_patience_of(int64_t ns) {
  const int64_t now = rg_clock_now();
  return (rg_patience){ns, now, now};
}

int rg_patience_is_over(rg_patience *patience) {
  const int64_t now = rg_clock_now(), passed = now - patience->looked;
  patience->left -= passed < LOOK_NS ? passed : LOOK_NS;
  patience->looked = now;
  return patience->left <= 0 || now >= rg_interrupt_limit(INT64_MAX, patience->since);
}

int rg_interrupt_slice(int64_t ms) {
  const int64_t most = depth > 0 ? SLICE_MS : 60 * 1000;
  return (int)(ms < most ? ms : most);
}
