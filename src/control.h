#ifndef RG_CONTROL_H
#define RG_CONTROL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "ring.h"

/*
 * The shared state of one run: one shared mapping of a file in memory without a name, made by the parent. Workers that
 * it forks inherit it; others are given its descriptor and map it where they can. Layout:
 *
 *   rg_control_shared | rg_task tasks[elements] | int64 order[capacity] | rg_slot slots[workers]
 *
 * Who writes what: the parent appends to `order` and reads everything; a worker claims
 * from `order` under `lock`, and is the only writer of its own slot, of its own ring and
 * of the tasks it has claimed. Elements are numbered from 0 here.
 */

enum { RG_CLAIM_MAX = 1024, RG_CRASH_MAX = 8192 };
enum { RG_VERB_MAX = 32 };
enum { RG_STDOUT = 0, RG_STDERR = 1, RG_STREAMS = 2 };

/* One element's latest try, written by the worker that ran it. */
typedef struct {
  int64_t start; /* monotonic ns, 0: never begun */
  int64_t end;   /* monotonic ns, 0: not finished */
  int64_t bytes; /* size of the encoded result */
  int32_t worker;
  int32_t tries; /* which try it is; written by the parent before it is queued */
  float cpu;     /* processor time in seconds */
  float peak;    /* largest resident set meanwhile in bytes; 0: it was too short to be measured */
} rg_task;

/* How far a worker that outlives the run has done with it, or one that does not, if nobody may look at the run. */
typedef enum {
  RG_LEFT_NOT = 0,
  RG_LEFT,       /* the worker has */
  RG_LEFT_ALONE, /* while it waits it has nothing to end, so that nobody need wait until it has left */
  RG_LEFT_FINISHED, /* the worker ends, with all that it has started, since the run has no more work */
} rg_left;

typedef struct {
  /* In no line of a processor's cache with another worker's. */
  _Alignas(64) _Atomic int64_t current; /* element being run, -1 between elements */
  _Atomic int64_t begun;       /* how many elements this worker has begun, retries too */
  _Atomic int64_t ended;       /* ends that workers here have sent, but for elements that may be tried again; here and
                                  not in one place for all, which each would take from the others' caches */
  _Atomic int64_t started;     /* when it began, monotonic ns */
  _Atomic int64_t cpu_started; /* the worker's CPU ns when it began */
  _Atomic int64_t peak;        /* largest resident set that it has found with elements; 0: none yet */
  _Atomic int64_t cancel;      /* rg_control_try() that the parent wants interrupted, -1 none */
  _Atomic int32_t ended_by;    /* signal on which the worker killed its group, itself too */
  _Atomic int32_t held;        /* it claims nothing more, until the parent says so */
  _Atomic int32_t waiting;     /* the worker sleeps until its control pipe has a byte */
  _Atomic int32_t damaged;     /* it has found something in its ring that it has not written */
  _Atomic int32_t left;        /* rg_left */
  _Atomic int32_t draining[RG_STREAMS];
  _Atomic int64_t drained[RG_STREAMS]; /* bytes the parent has read from the stream */
  _Atomic int32_t pid; /* of the worker that is or was here last, 0: none yet; written by the parent */
  _Atomic int32_t claim_size;
  _Atomic int32_t claim_done; /* claim[0..claim_done) have been begun */
  int64_t claim[RG_CLAIM_MAX];
  char crash[RG_CRASH_MAX]; /* backtrace written by a dying worker, NUL-terminated */
  rg_ring ring;
} rg_slot;

/* What the holder of the lock is about to do. Once `armed` it will be done, if not by
   the holder then, should that die, by whoever takes the lock next. */
typedef struct {
  _Atomic int32_t armed;
  int32_t worker, claim_size, claim_done;
  int64_t head;
} rg_journal;

/* What all of a run share. */
typedef struct {
  _Atomic int32_t active; /* slots at and above this number claim nothing more */
  _Atomic int32_t rung; /* a worker has news that the parent has not looked at */
  _Atomic int32_t parent_asleep;
  _Atomic int32_t over;   /* workers that outlive the run leave it before their next element */
  pthread_mutex_t lock;   /* robust: a worker that dies inside leaves it recoverable */
  rg_journal journal;     /* under `lock` */
  _Atomic int64_t head, tail; /* order[head..tail) are unclaimed; changed under `lock` */
  _Atomic int64_t layout; /* RG_CONTROL_LAYOUT, once what follows is there: for processes that look on */
  int64_t elements, since; /* monotonic ns */
  int32_t workers, owner;
  char verb[RG_VERB_MAX]; /* the function that was called, NUL-terminated */
} rg_control_shared;

/* Where its parts begin, which follows from the numbers of elements and workers alone. */
static inline int64_t rg_control_round_up(int64_t size) { return (size + 63) / 64 * 64; }

/* A power of two >= elements. */
static inline int64_t rg_control_capacity(int64_t elements) {
  int64_t capacity = 1;
  while (capacity < elements) capacity *= 2;
  return capacity;
}

static inline int64_t rg_control_tasks_at(void) { return rg_control_round_up((int64_t)sizeof(rg_control_shared)); }

static inline int64_t rg_control_order_at(int64_t elements) {
  return rg_control_tasks_at() + rg_control_round_up(elements * (int64_t)sizeof(rg_task));
}

static inline int64_t rg_control_slot_at(int64_t elements, int64_t worker) {
  return rg_control_order_at(elements) +
         rg_control_round_up(rg_control_capacity(elements) * (int64_t)sizeof(int64_t)) +
         worker * (int64_t)sizeof(rg_slot);
}

/* The block as one process has it: addresses and sizes are its own, out of reach of what others
   write. */
typedef struct {
  int64_t size; /* of the whole mapping */
  int64_t elements;
  int64_t capacity; /* of `order` */
  int64_t batch;    /* fixed batch size, 0: grow with the measured time */
  int workers;
  rg_control_shared *shared;
  rg_task *tasks;
  int64_t *order;
  rg_slot *slots;
} rg_control;

/* NULL with errno set if the memory cannot be had. With `fd` the block is a file in memory without
   a name, whose descriptor is the caller's, for workers that do not inherit it. */
rg_control *rg_control_create(int64_t elements, int workers, int64_t batch, int *fd);

/* A worker that has been given the descriptor maps the block that was created with these numbers;
   NULL with errno set (EINVAL: it is another one). The descriptor stays the caller's. */
rg_control *rg_control_open(int fd, int64_t elements, int workers, int64_t batch);

/* The label of these files, by which /proc shows them. */
#define RG_CONTROL_LABEL "regatta-run"

/* Another process of the same user that has the file open for reading can look on. It maps nothing: of a file
   that is no such block, or one of another version, it finds no facts. */
typedef struct {
  int64_t elements, ended, since; /* monotonic ns */
  int workers;
  pid_t owner;
  char verb[RG_VERB_MAX];
} rg_control_facts;

/* As in rg_slot. */
typedef struct {
  int64_t current, started;
  int32_t pid, waiting;
} rg_slot_facts;

/* The parent says what can be seen of the run. */
void rg_control_tell(rg_control *control, const char *verb);

/* 0, or -1: what is there is nothing that was told so. */
int rg_control_read(int fd, rg_control_facts *facts);
int rg_control_read_slot(int fd, const rg_control_facts *facts, int worker, rg_slot_facts *slot);

/* The mapping of this process. The block goes with the last one. */
void rg_control_close(rg_control *control);

/* The name of the try of an element that is under way, or was queued last. */
static inline int64_t rg_control_try(const rg_control *control, int64_t element) {
  return element * 65536 + (control->tasks[element].tries & 65535);
}

/* Of all workers. */
int64_t rg_control_ended(const rg_control *control);

/* A worker is about to be started in the slot, in which what others have ended stays. */
void rg_control_reset_slot(rg_slot *slot);

#endif
