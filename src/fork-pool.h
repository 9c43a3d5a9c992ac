#ifndef RG_FORK_POOL_H
#define RG_FORK_POOL_H

#include <Rinternals.h>
#include <signal.h>
#include <sys/types.h>

#include "arena.h"
#include "buffer.h"
#include "control.h"
#include "fork-bytes.h"
#include "shm-view.h"
#include "sys-fd.h"
#include "sys-process.h"

/* A pool of forked workers, as its parent sees it. A slot is a place for a worker: when
   the worker dies, another may be forked into the same slot. */

/* What becomes of a worker's output stream. */
typedef enum { RG_STREAM_DROP = 0, RG_STREAM_SEND } rg_stream_mode;

typedef struct {
  int id;    /* the driver's number of the worker that is or was here last */
  pid_t pid; /* 0: no worker in this slot */
  int pidfd;
  int member; /* of the stand, if there is one */
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
  int held;         /* the slot's: its worker claims nothing more */
  int stopped;      /* it was here when the pool was stopped */
  int idle;         /* and had nothing to do: nobody need wait for its end */
} rg_worker;

typedef struct rg_pool {
  rg_control *control;
  rg_arena *arena;
  pid_t owner;
  unsigned char *settled; /* for each element: the end of its latest try has arrived, or none was asked for */
  int64_t elements; /* as in the control block, which workers can write to */
  char verb[RG_VERB_MAX]; /* the function that was called, NUL-terminated */
  uint64_t tag;    /* random: part of the mark of its workers */
  int doorbell[2]; /* workers write a byte when the parent sleeps and there is news */
  int open;        /* the workers may still be running */
  int used;        /* functions that have it in hand and may run R code: it stays */
  int unread;      /* the last look left news behind */
  int64_t wanted;  /* elements from this one on have been withdrawn */
  int64_t locked_since; /* all workers sleep, and the lock of the queue is taken; 0: it is not */
  int lost_spans;  /* a worker was killed: it may have reserved memory in vain */
  rg_copy copy;
  int wants_cpu;   /* workers note the CPU time at which an element begins */
  int unattended;  /* nobody may look for long: workers end by themselves when there is no more work */
  int retries;     /* an error need not be the end of an element */
  int cores, low;  /* of the budget that its workers share with others (budget.h); 0: there is none */
  int64_t share_from;
  rg_stream_mode streams[RG_STREAMS];
  int size;
  rg_worker *workers;
  rg_buffer said; /* output that is about to be told */
  pid_t *dead; /* room for the numbers of all */
  struct rg_stand *stand; /* whose workers these are, or NULL: forked from this process for this run */
  int control_fd; /* for those who look on (fork-look.c), and for workers of a stand; -1: it cannot be had */
  int code_fd; /* for workers of a stand */
  int64_t code_size;
  struct rg_pool *next;
} rg_pool;

/* All pools of this process: a fresh worker closes what it inherits of each, but for what its `own` needs. */
void rg_fork_pool_forget_all(const rg_pool *own);

rg_pool *rg_fork_pool_borrow(SEXP pointer);

/* Parent: wakes workers that sleep although there is work, room or an end. */
void rg_fork_pool_wake(rg_pool *pool);

/* Whether a worker's elements have ended, all that the run has, in an unattended run. Both sides. */
int rg_fork_pool_has_ended(const rg_pool *pool);

/* Parent: whether the worker in a slot has ended for that reason: it is collected with the pool. */
int rg_fork_worker_has_finished(const rg_pool *pool, int w);

/* Raises the R error for a lock of the queue that is none any more. */
void rg_fork_pool_overwritten(void);

/* The mark of a worker: RG_FORK_MARK is the environment variable that has it, in the worker and in
   every program that is started below it, behind those of the workers above. */
#define RG_FORK_MARK "REGATTA_WORKER"
enum { RG_FORK_MARK_SIZE = 48 };
void rg_fork_mark(uint64_t tag, pid_t pid, char mark[RG_FORK_MARK_SIZE]);

/* The largest resident set of a worker, by what is known from elsewhere (bytes, -1: nothing): it has told what
   it has found before it had the system forget it. */
int64_t rg_fork_pool_peak(const rg_pool *pool, int w, int64_t bytes);

/* Collects a worker of the pool: 1 if it has ended. */
int rg_fork_pool_collect(rg_pool *pool, int w, rg_process_end *end);

/* Whether the worker in a slot has ended; it is not collected by that. */
int rg_fork_worker_has_ended(const rg_worker *worker);

/* Parent: closes the descriptors of a slot whose worker has been collected. */
void rg_fork_pool_close_worker(rg_worker *worker);

SEXP ffi_fork_pool_create(SEXP elements, SEXP workers, SEXP options);
SEXP ffi_fork_pool_budget(void);
SEXP ffi_fork_pool_submit(SEXP pool, SEXP elements, SEXP tries, SEXP first);
SEXP ffi_fork_pool_withdraw(SEXP pool, SEXP first);
SEXP ffi_fork_pool_limit(SEXP pool, SEXP active);
SEXP ffi_fork_pool_hold(SEXP pool, SEXP places);
SEXP ffi_fork_pool_interrupt(SEXP pool, SEXP id, SEXP element);
SEXP ffi_fork_pool_signal(SEXP pool, SEXP id, SEXP number);
SEXP ffi_fork_pool_running(SEXP pool);
SEXP ffi_fork_pool_stop(SEXP pool);
SEXP ffi_fork_pool_guard(SEXP pool, SEXP call, SEXP env);

/* fork-worker.c: in the parent */
typedef int rg_pipes[RG_STREAMS + 1][2]; /* stdout, stderr, wake-up */
int rg_fork_pipes_open(const rg_pool *pool, rg_pipes pipes);
void rg_fork_pipes_close(rg_pipes pipes);
void rg_fork_worker_book(rg_pool *pool, int number, pid_t pid, int id, rg_pipes pipes);

/* fork-worker.c: in a worker */

/* Its ends of what it shares with the parent. */
typedef struct {
  int wake, doorbell;
  int reader[RG_STREAMS], writer[RG_STREAMS]; /* -1: the stream is dropped */
} rg_run_ends;

/* Evaluates `call` in `env` and leaves. */
__attribute__((noreturn)) void rg_fork_worker_run(SEXP call, SEXP env);
__attribute__((noreturn)) void rg_fork_worker_leave(int status);

/* A process that a server has just forked, with signals held back, or a program that it has started becomes
   a worker whose line to the session this is. */
void rg_fork_member_become(uint64_t tag, int line, pid_t parent, const sigset_t *signals, int is_fork);
int rg_fork_member_line(void);

/* It begins to take part in a run, and has done with it: that pool, NULL if there was none. */
void rg_fork_member_enter(rg_pool *pool, int number, const rg_run_ends *ends);
rg_pool *rg_fork_member_quit(void);

SEXP ffi_fork_member_refuse(SEXP reason);
SEXP ffi_fork_worker_tell(SEXP reason);
SEXP ffi_fork_worker_budget(void);
SEXP ffi_fork_worker_lend(void);
SEXP ffi_fork_worker_yield(void);
SEXP ffi_fork_worker_take(void);
SEXP ffi_fork_worker_give(void);
SEXP ffi_fork_workers_spawn(SEXP pool, SEXP places, SEXP ids, SEXP call, SEXP env);
SEXP ffi_fork_worker_mask(SEXP values);
SEXP ffi_fork_worker_silence(SEXP paths);
SEXP ffi_fork_worker_exit(SEXP status);

/* fork-poll.c */
SEXP ffi_fork_poll(SEXP pool, SEXP timeout);

/* fork-look.c */
SEXP ffi_fork_look(SEXP pid);

/* fork-wait.c */
SEXP ffi_fork_wait(SEXP pools, SEXP stand, SEXP timeout);

#endif
