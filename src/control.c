#include "control.h"

#include <errno.h>
#include <sys/mman.h>

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif
#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

static int64_t power_of_two_from(int64_t least) {
  int64_t power = 1;
  while (power < least) power *= 2;
  return power;
}

static int64_t round_up(int64_t size) { return (size + 63) / 64 * 64; }

static int init_lock(pthread_mutex_t *lock) {
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
#ifdef __linux__
  pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
#endif
  int failed = pthread_mutex_init(lock, &kind);
  pthread_mutexattr_destroy(&kind);
  return failed;
}

static void init_slot(rg_slot *slot) {
  atomic_init(&slot->current, -1);
  atomic_init(&slot->cancel, -1);
}

rg_control *rg_control_create(int64_t elements, int workers, int64_t batch) {
  int64_t capacity = power_of_two_from(elements > 0 ? elements : 1);
  int64_t tasks_at = round_up((int64_t)sizeof(rg_control));
  int64_t order_at = tasks_at + round_up(elements * (int64_t)sizeof(rg_task));
  int64_t slots_at = order_at + round_up(capacity * (int64_t)sizeof(int64_t));
  int64_t size = slots_at + workers * round_up((int64_t)sizeof(rg_slot));

  /* Untouched pages cost nothing: the mapping is as large as the most that may be used. */
  char *base = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return NULL;
  rg_control *control = (rg_control *)base;
  control->size = size;
  control->elements = elements;
  control->capacity = capacity;
  control->batch = batch;
  control->workers = workers;
  control->tasks = (rg_task *)(base + tasks_at);
  control->order = (int64_t *)(base + order_at);
  control->slots = (rg_slot *)(base + slots_at);
  atomic_init(&control->active, workers);
  int failed = init_lock(&control->lock);
  if (failed) {
    munmap(base, (size_t)size);
    errno = failed;
    return NULL;
  }
  for (int w = 0; w < workers; w++) init_slot(&control->slots[w]);
  return control;
}

void rg_control_destroy(rg_control *control) {
  if (control) munmap(control, (size_t)control->size);
}
