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

/* How many elements wait in the queue: a look without the lock, old when it returns. */
int64_t rg_queue_length(rg_control *control);

#endif
