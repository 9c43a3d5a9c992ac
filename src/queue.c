#include "queue.h"

#include <errno.h>
#include <time.h>

/* What is read here may have been overwritten by code of an element. A journal that cannot be is not
   carried out: what it would have moved is missed later, and begun anew. */
static void apply_journal(rg_control *control) {
  rg_journal *journal = &control->shared->journal;
  if (!atomic_load(&journal->armed)) return;
  const rg_journal j = {.worker = journal->worker, .claim_size = journal->claim_size,
                        .claim_done = journal->claim_done, .head = journal->head};
  if (j.worker >= 0 && j.worker < control->workers && j.claim_done >= 0 && j.claim_size >= 0 &&
      j.claim_size <= RG_CLAIM_MAX) {
    rg_slot *slot = &control->slots[j.worker];
    control->shared->head = j.head;
    atomic_store(&slot->claim_done, j.claim_done);
    atomic_store(&slot->claim_size, j.claim_size);
  }
  atomic_store(&journal->armed, 0);
}

/* A queue that cannot be is emptied. */
static void check_ends(rg_control *control) {
  int64_t head = control->shared->head, tail = control->shared->tail;
  if (head >= 0 && head <= tail && tail - head <= control->capacity && tail < INT64_MAX / 2) return;
  control->shared->head = control->shared->tail = control->capacity;
}

/* Does what is left to do for the error that the lock was taken with; 0 or the error. */
static int enter(rg_control *control, int error) {
  if (error == EOWNERDEAD) {
    apply_journal(control);
#ifdef __linux__
    pthread_mutex_consistent(&control->shared->lock);
#endif
    error = 0;
  }
  if (error == 0) check_ends(control);
  return error;
}

int rg_queue_lock(rg_control *control, int64_t wait_ms) {
  pthread_mutex_t *lock = &control->shared->lock;
  if (wait_ms < 0) return enter(control, pthread_mutex_lock(lock));
  const struct timespec nap = {0, 1000000};
  int error = pthread_mutex_trylock(lock);
  for (; error == EBUSY && wait_ms > 0; wait_ms--) {
    nanosleep(&nap, NULL);
    error = pthread_mutex_trylock(lock);
  }
  return enter(control, error);
}

void rg_queue_unlock(rg_control *control) { pthread_mutex_unlock(&control->shared->lock); }

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
  for (int64_t i = 0; i < count; i++) *place(control, control->shared->tail + i) = elements[i];
  control->shared->tail += count;
}

void rg_queue_push_first(rg_control *control, const int64_t *elements, int64_t count) {
  if (control->shared->head < count) {
    /* Once round: the same places. */
    control->shared->head += control->capacity;
    control->shared->tail += control->capacity;
  }
  int64_t head = control->shared->head - count;
  for (int64_t i = 0; i < count; i++) *place(control, head + i) = elements[i];
  control->shared->head = head;
}

void rg_queue_keep_first(rg_control *control, int64_t count) {
  int64_t kept = control->shared->head;
  for (int64_t i = control->shared->head; i < control->shared->tail; i++) {
    int64_t element = *place(control, i);
    if (element < count) *place(control, kept++) = element;
  }
  control->shared->tail = kept;
}

int rg_queue_claim(rg_control *control, int worker, int wanted) {
  rg_slot *slot = &control->slots[worker];
  if (!rg_queue_admits(control, worker)) return 0;
  if (rg_queue_lock(control, -1) != 0) return -1;
  int64_t left = control->shared->tail - control->shared->head;
  int64_t count = rg_queue_fair(wanted, left, atomic_load(&control->shared->active));
  if (count > RG_CLAIM_MAX) count = RG_CLAIM_MAX;
  for (int64_t i = 0; i < count; i++) slot->claim[i] = *place(control, control->shared->head + i);
  change_claim(control, worker, control->shared->head + count, (int32_t)count, 0);
  rg_queue_unlock(control);
  return (int)count;
}

int64_t rg_queue_next(rg_slot *slot) {
  int32_t done = atomic_load_explicit(&slot->claim_done, memory_order_relaxed);
  if (done >= atomic_load_explicit(&slot->claim_size, memory_order_relaxed)) return -1;
  int64_t element = slot->claim[done];
  /* `begun` first: a worker is running `current` if it has begun more than it has sent ends,
     which tells a retry from the try before, whose end the parent may just have read. */
  int64_t begun = atomic_load_explicit(&slot->begun, memory_order_relaxed);
  atomic_store_explicit(&slot->begun, begun + 1, memory_order_release);
  /* `current` before `claim_done`: a death in between names the element twice, as the
     one that ran and as one not begun, and recovery drops the second. */
  atomic_store(&slot->current, element);
  atomic_store_explicit(&slot->claim_done, done + 1, memory_order_release);
  return element;
}

int rg_queue_give_back(rg_control *control, int worker) {
  rg_slot *slot = &control->slots[worker];
  if (rg_queue_lock(control, -1) != 0) return -1;
  int32_t done = atomic_load(&slot->claim_done);
  int32_t size = atomic_load(&slot->claim_size);
  int64_t head = control->shared->head - (size - done);
  if (done < 0 || size > RG_CLAIM_MAX) head = control->shared->head, size = done = 0;
  for (int32_t i = done; i < size; i++) *place(control, head + i - done) = slot->claim[i];
  change_claim(control, worker, head, done, done);
  rg_queue_unlock(control);
  return 0;
}

int rg_queue_recover(rg_control *control, int worker, int64_t *elements) {
  rg_slot *slot = &control->slots[worker];
  int count = 0;
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
  return count;
}

int64_t rg_queue_length(rg_control *control) {
  return atomic_load(&control->shared->tail) - atomic_load(&control->shared->head);
}
