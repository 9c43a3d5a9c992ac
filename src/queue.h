#ifndef RG_QUEUE_H
#define RG_QUEUE_H

#include "control.h"

/* The task queue of a run. At most `elements` numbers are in it or in claims at a time,
   so that a circular array of that capacity never overflows. All of it lies where code of an element
   can write by mistake: no number in it leads out of it. */

/* Parent: the lock that the functions below ask for, waiting at most about so many milliseconds; -1:
   for as long as it takes, which no signal ends. A worker may have been stopped in its midst. 0, EBUSY,
   or what the system says of a lock that is none any more. */
int rg_queue_lock(rg_control *control, int64_t wait_ms);
void rg_queue_unlock(rg_control *control);

/* Parent, with the lock: appends elements in this order. */
void rg_queue_push(rg_control *control, const int64_t *elements, int64_t count);

/* Parent, with the lock: puts elements before all that wait, in this order. */
void rg_queue_push_first(rg_control *control, const int64_t *elements, int64_t count);

/* Parent, with the lock: takes out of the queue all but the first `count` elements of the run. What is
   claimed stays with its worker. */
void rg_queue_keep_first(rg_control *control, int64_t count);

/* Worker, which takes the lock itself: claims up to `wanted` elements; returns how many. No more is
   claimed than leaves work for the others. -1: there is no lock any more. */
int rg_queue_claim(rg_control *control, int worker, int wanted);

/* Worker: the next element of its claim, or -1 if the claim is used up. */
int64_t rg_queue_next(rg_slot *slot);

/* Worker, which takes the lock itself: returns what it has not begun to the head of the queue. 0, or -1:
   there is no lock any more. */
int rg_queue_give_back(rg_control *control, int worker);

/* Parent, with the lock, after `worker` has died: writes the elements that it had claimed
   and not begun to `elements` (at least RG_CLAIM_MAX long), empties the claim, returns
   their number. The element it was running is in slot->current. */
int rg_queue_recover(rg_control *control, int worker, int64_t *elements);

/* Whether a worker may claim what waits. */
static inline int rg_queue_admits(const rg_control *control, int worker) {
  return worker < atomic_load(&control->shared->active) && !atomic_load(&control->slots[worker].held);
}

/* How many elements wait in the queue: a look without the lock, old when it returns. */
int64_t rg_queue_length(rg_control *control);

/* How many elements a worker is to take next. The first batch is one element. Later ones are as many
   as take about RG_BATCH_NS by what those of the batch before took, at most RG_BATCH_GROWTH times as
   many as that had: long enough to hide what a batch costs, short enough that the workers end together. */
enum { RG_BATCH_GROWTH = 4 };
#define RG_BATCH_NS ((int64_t)10000000)

/* `fixed` size, or 0; size `before` of the batch before, 0: there was none; time for each element of it. */
static inline int64_t rg_queue_batch(int64_t fixed, int64_t before, int64_t each_ns) {
  if (fixed > 0 || before == 0) return fixed > 0 ? fixed : 1;
  int64_t wanted = RG_BATCH_NS / (each_ns > 0 ? each_ns : 1);
  if (wanted > RG_BATCH_GROWTH * before) wanted = RG_BATCH_GROWTH * before;
  if (wanted > RG_CLAIM_MAX) wanted = RG_CLAIM_MAX;
  return wanted > 0 ? wanted : 1;
}

/* No more than leaves work for the others: half of an equal share of what is left. */
static inline int64_t rg_queue_fair(int64_t wanted, int64_t left, int64_t workers) {
  int64_t share = left / (2 * (workers > 0 ? workers : 1)) + 1;
  int64_t count = wanted < share ? wanted : share;
  return count < left ? count : left;
}

#endif
