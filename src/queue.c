#include "queue.h"

#include <errno.h>

static void apply_journal(rg_control *control) {
  rg_journal *journal = &control->shared->journal;
  if (!atomic_load(&journal->armed)) return;
  rg_slot *slot = &control->slots[journal->worker];
  control->shared->head = journal->head;
  atomic_store(&slot->claim_done, journal->claim_done);
  atomic_store(&slot->claim_size, journal->claim_size);
  atomic_store(&journal->armed, 0);
}

static void lock_queue(rg_control *control) {
  if (pthread_mutex_lock(&control->shared->lock) == EOWNERDEAD) {
    apply_journal(control);
#ifdef __linux__
    pthread_mutex_consistent(&control->shared->lock);
#endif
  }
}

static void unlock_queue(rg_control *control) { pthread_mutex_unlock(&control->shared->lock); }

static int64_t *place(rg_control *control, int64_t position) {
  return &control->order[position & (control->capacity - 1)];
}

static void change_claim(rg_control *control, int worker, int64_t head, int32_t size,
                         int32_t done) {
  rg_journal *journal = &control->shared->journal;
  journal->worker = worker;
  journal->head = head;
  journal->claim_size = size;
  journal->claim_done = done;
  atomic_store(&journal->armed, 1);
  apply_journal(control);
}

void rg_queue_push(rg_control *control, const int64_t *elements, int64_t count) {
  lock_queue(control);
  for (int64_t i = 0; i < count; i++) *place(control, control->shared->tail + i) = elements[i];
  control->shared->tail += count;
  unlock_queue(control);
}

void rg_queue_keep_first(rg_control *control, int64_t count) {
  lock_queue(control);
  int64_t kept = control->shared->head;
  for (int64_t i = control->shared->head; i < control->shared->tail; i++) {
    int64_t element = *place(control, i);
    if (element < count) *place(control, kept++) = element;
  }
  control->shared->tail = kept;
  unlock_queue(control);
}

int rg_queue_claim(rg_control *control, int worker, int wanted) {
  rg_slot *slot = &control->slots[worker];
  if (worker >= atomic_load(&control->shared->active)) return 0;
  lock_queue(control);
  int64_t left = control->shared->tail - control->shared->head;
  int64_t share = left / (2 * (int64_t)atomic_load(&control->shared->active)) + 1;
  int64_t count = wanted < share ? wanted : share;
  if (count > left) count = left;
  if (count > RG_CLAIM_MAX) count = RG_CLAIM_MAX;
  for (int64_t i = 0; i < count; i++) slot->claim[i] = *place(control, control->shared->head + i);
  change_claim(control, worker, control->shared->head + count, (int32_t)count, 0);
  unlock_queue(control);
  return (int)count;
}

int64_t rg_queue_next(rg_slot *slot) {
  int32_t done = atomic_load_explicit(&slot->claim_done, memory_order_relaxed);
  if (done >= atomic_load_explicit(&slot->claim_size, memory_order_relaxed)) return -1;
  int64_t element = slot->claim[done];
  /* `begun` first: a worker is running `current` if it has begun more than it has sent ends,
     which tells a retry from the try before, whose end the parent may just have read. */
  atomic_fetch_add(&slot->begun, 1);
  /* `current` before `claim_done`: a death in between names the element twice, as the
     one that ran and as one not begun, and recovery drops the second. */
  atomic_store(&slot->current, element);
  atomic_store(&slot->claim_done, done + 1);
  return element;
}

void rg_queue_give_back(rg_control *control, int worker) {
  rg_slot *slot = &control->slots[worker];
  lock_queue(control);
  int32_t done = atomic_load(&slot->claim_done);
  int32_t size = atomic_load(&slot->claim_size);
  int64_t head = control->shared->head - (size - done);
  for (int32_t i = done; i < size; i++) *place(control, head + i - done) = slot->claim[i];
  change_claim(control, worker, head, done, done);
  unlock_queue(control);
}

int rg_queue_recover(rg_control *control, int worker, int64_t *elements) {
  rg_slot *slot = &control->slots[worker];
  int count = 0;
  lock_queue(control);
  int32_t size = atomic_load(&slot->claim_size), done = atomic_load(&slot->claim_done);
  int64_t current = atomic_load(&slot->current);
  /* The slot is the worker's, whose code may have damaged it. */
  if (size > RG_CLAIM_MAX || done < 0) size = done = 0;
  for (int32_t i = done; i < size; i++) {
    int64_t element = slot->claim[i];
    if (element != current && element >= 0 && element < control->elements) {
      elements[count++] = element;
    }
  }
  change_claim(control, worker, control->shared->head, 0, 0);
  unlock_queue(control);
  return count;
}

int64_t rg_queue_length(rg_control *control) {
  return atomic_load(&control->shared->tail) - atomic_load(&control->shared->head);
}
