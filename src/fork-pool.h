#ifndef RG_FORK_POOL_H
#define RG_FORK_POOL_H

#include <Rinternals.h>
#include <sys/types.h>

#include "arena.h"
#include "buffer.h"
#include "control.h"
#include "shm-view.h"
#include "sys-fd.h"
#include "sys-process.h"

/* A pool of forked workers, as its parent sees it. A slot is a place for a worker: when
   the worker dies, another may be forked into the same slot. */

/* The payload of a record that is RG_RECORD_STORED. */
typedef struct {
  rg_span span;
  int64_t size;
} rg_stored;

/* What becomes of a worker's output stream. */
typedef enum { RG_STREAM_DROP = 0, RG_STREAM_SEND } rg_stream_mode;

typedef struct {
  int id;    /* the driver's number of the worker that is or was here last */
  pid_t pid; /* 0: no worker in this slot */
  int pidfd;
  int wake;               /* write end: a byte wakes the worker */
  rg_fd_identity wake_pipe;
  int stream[RG_STREAMS]; /* read ends of stdout and stderr */
  rg_buffer pending[RG_STREAMS]; /* read and not yet given to an element */
  int64_t given[RG_STREAMS];     /* stream position of pending[0] */
  rg_buffer parts;  /* of a record that comes in several, so far */
  int overwritten;  /* and a part of it is not what the worker has sent */
  int64_t peak_bytes; /* of the worker that was here when the pool was stopped */
  int damaged;      /* what it has in shared memory cannot be: nothing more is read of it */
  int died;         /* by itself: what it has started must be looked for */
  int64_t ends;     /* how many ends of elements have arrived from this worker */
  int64_t finished; /* the last element of this worker whose end has arrived */
  int stopped;      /* it was here when the pool was stopped */
} rg_worker;

typedef struct rg_pool {
  rg_control *control;
  rg_arena *arena;
  pid_t owner;
  unsigned char *settled; /* for each element: the end of its latest try has arrived */
  int64_t elements; /* as in the control block, which workers can write to */
  uint64_t tag;    /* random: part of the mark of its workers */
  int doorbell[2]; /* workers write a byte when the parent sleeps and there is news */
  int open;        /* the workers may still be running */
  int unread;      /* the last look left news behind */
  int lost_spans;  /* a worker was killed: it may have reserved memory in vain */
  rg_copy copy;
  int wants_cpu;   /* workers note the CPU time at which an element begins */
  int64_t share_from;
  rg_stream_mode streams[RG_STREAMS];
  int size;
  rg_worker *workers;
  struct rg_pool *next;
} rg_pool;

/* All pools of this process: a fresh worker closes what it inherits of each. */
void rg_fork_pool_forget_all(void);

rg_pool *rg_fork_pool_borrow(SEXP pointer);

/* Parent: wakes workers that sleep although there is work, room or an end. */
void rg_fork_pool_wake(rg_pool *pool);

/* Raises the R error for a lock of the queue that is none any more. */
void rg_fork_pool_overwritten(void);

/* The mark of a worker: RG_FORK_MARK is the environment variable that has it, in the worker and in
   every program that is started below it, behind those of the workers above. */
#define RG_FORK_MARK "REGATTA_WORKER"
enum { RG_FORK_MARK_SIZE = 48 };
void rg_fork_pool_mark(const rg_pool *pool, pid_t pid, char mark[RG_FORK_MARK_SIZE]);

/* Parent: closes the descriptors of a slot whose worker has been collected. */
void rg_fork_pool_close_worker(rg_worker *worker);

SEXP ffi_fork_pool_create(SEXP elements, SEXP workers, SEXP options);
SEXP ffi_fork_pool_submit(SEXP pool, SEXP elements, SEXP tries);
SEXP ffi_fork_pool_withdraw(SEXP pool, SEXP first);
SEXP ffi_fork_pool_limit(SEXP pool, SEXP active);
SEXP ffi_fork_pool_interrupt(SEXP pool, SEXP id, SEXP element);
SEXP ffi_fork_pool_signal(SEXP pool, SEXP id, SEXP number);
SEXP ffi_fork_pool_running(SEXP pool);
SEXP ffi_fork_pool_stop(SEXP pool);
SEXP ffi_fork_pool_guard(SEXP pool, SEXP call, SEXP env);

/* fork-worker.c */
SEXP ffi_fork_worker_spawn(SEXP pool, SEXP slot, SEXP id, SEXP call, SEXP env);
SEXP ffi_fork_worker_silence(SEXP paths);
SEXP ffi_fork_worker_exit(SEXP status);

/* fork-poll.c */
SEXP ffi_fork_poll(SEXP pool, SEXP timeout);

#endif
