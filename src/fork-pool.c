#include "fork-pool.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arena-block.h"
#include "budget.h"
#include "call-r.h"
#include "fork-server.h"
#include "queue.h"
#include "sys-bury.h"
#include "sys-clock.h"
#include "sys-fd.h"
#include "sys-interrupt.h"
#include "sys-memory.h"
#include "sys-random.h"

static rg_pool *pools;

/* The arena of this process, made when the first pool needs it and kept for the next, so that its pages stay
   warm, unless others have inherited it or code has overwritten its end. A worker that runs maps of its own has
   one of its own. Each pool holds it until it is stopped. */
static rg_arena *session_arena(void) {
  static rg_arena *arena;
  if (!arena || !rg_arena_is_ours(arena) || !rg_arena_is_sound(arena)) {
    if (arena) {
      rg_arena_give_up(arena);
      rg_arena_drop(arena);
    }
    arena = rg_arena_create();
    if (arena) rg_arena_hold(arena);
  }
  if (arena) rg_arena_hold(arena);
  return arena;
}

rg_pool *rg_fork_pool_borrow(SEXP pointer) {
  rg_pool *pool = R_ExternalPtrAddr(pointer);
  if (!pool || pool->owner != getpid()) Rf_error("this pool of workers is not in this process");
  return pool;
}

/* A run that is over has no pool any more: what its driver still asks for is in vain. */
static int is_over(SEXP pointer) { return !R_ExternalPtrAddr(pointer); }

void rg_fork_pool_close_worker(rg_worker *worker) {
  rg_fd_close(&worker->pidfd);
  rg_fd_close(&worker->wake);
  for (int s = 0; s < RG_STREAMS; s++) {
    rg_fd_close(&worker->stream[s]);
    rg_buffer_reset(&worker->pending[s], 0);
    worker->given[s] = 0;
  }
  rg_buffer_reset(&worker->parts, 0);
  worker->pid = 0;
  worker->damaged = worker->overwritten = 0;
}

void rg_fork_mark(uint64_t tag, pid_t pid, char mark[RG_FORK_MARK_SIZE]) {
  snprintf(mark, RG_FORK_MARK_SIZE, "%016llx.%d", (unsigned long long)tag, (int)pid);
}

int64_t rg_fork_pool_peak(const rg_pool *pool, int w, int64_t bytes) {
  int64_t told = atomic_load(&pool->control->slots[w].peak);
  return told > bytes && told < (int64_t)1 << 50 ? told : bytes; /* code can have written there */
}

int rg_fork_pool_collect(rg_pool *pool, int w, rg_process_end *end) {
  const rg_worker *worker = &pool->workers[w];
  if (!pool->stand) return rg_process_collect(worker->pid, end);
  int ended = rg_stand_collect(pool->stand, worker->member, end);
  if (ended) rg_stand_forget(pool->stand, worker->member);
  return ended;
}

int rg_fork_worker_has_ended(const rg_worker *worker) {
  if (worker->pid <= 0) return 0;
  if (worker->pidfd < 0) return 1; /* only collecting it can tell */
  struct pollfd ended = {worker->pidfd, POLLIN, 0};
  return poll(&ended, 1, 0) == 1;
}

static void unlink_pool(rg_pool *pool) {
  rg_pool **link = &pools;
  while (*link && *link != pool) link = &(*link)->next;
  if (*link) *link = pool->next;
}

static void drop_arena(rg_pool *pool) {
  if (pool->arena) rg_arena_drop(pool->arena);
  pool->arena = NULL;
}

static void close_run(rg_pool *pool) {
  rg_fd_close(&pool->doorbell[0]);
  rg_fd_close(&pool->doorbell[1]);
  rg_fd_close(&pool->control_fd);
  rg_fd_close(&pool->code_fd);
}

static void free_pool(rg_pool *pool) {
  drop_arena(pool);
  unlink_pool(pool);
  rg_control_close(pool->control);
  close_run(pool);
  if (pool->stand) rg_stand_drop(pool->stand);
  free(pool->workers);
  rg_buffer_reset(&pool->said, 0);
  free(pool->dead);
  free(pool->settled);
  free(pool);
}

void rg_fork_pool_forget_all(const rg_pool *own) {
  for (rg_pool *pool = pools; pool; pool = pool->next) {
    for (int w = 0; w < pool->size; w++) rg_fork_pool_close_worker(&pool->workers[w]);
    if (pool == own) continue;
    close_run(pool);
    rg_control_close(pool->control);
    pool->control = NULL;
  }
  pools = NULL;
}

int rg_fork_pool_has_ended(const rg_pool *pool) {
  return pool->unattended && rg_control_ended(pool->control) == pool->elements;
}

int rg_fork_worker_has_finished(const rg_pool *pool, int w) {
  if (!pool->unattended || atomic_load(&pool->control->slots[w].left) != RG_LEFT_FINISHED) return 0;
  for (int64_t e = 0; e < pool->elements; e++) {
    if (!pool->settled[e]) return 0;
  }
  return 1;
}

/* A worker between two elements that has no children can start none any more: it sleeps, or
   runs nothing but the few lines that claim the next element. One that has ended by itself keeps
   its number, but has lost its children. */
static void kill_worker(rg_pool *pool, int w) {
  rg_worker *worker = &pool->workers[w];
  const rg_slot *slot = &pool->control->slots[w];
  pid_t pid = worker->pid;
  int busy = atomic_load(&slot->current) >= 0, unread = rg_ring_unread(&slot->ring) > 0;
  /* Nothing waits in the queue or is claimed, and nothing more is claimed. */
  int done = !busy && !unread && rg_queue_length(pool->control) <= 0 &&
             atomic_load(&slot->claim_done) >= atomic_load(&slot->claim_size);
  /* Memory that nobody will hear of: reserved for the element that it runs, or announced in
     what has not been read. */
  pool->lost_spans |= busy || unread;
  int ended = pool->stand ? rg_fork_worker_has_ended(worker) : rg_process_has_ended(pid);
  worker->died = ended && !rg_fork_worker_has_finished(pool, w);
  int parent = !worker->died && (busy || rg_process_has_children(pid));
  worker->idle = done && !parent && !worker->died && !worker->damaged && !pool->stand;
  if (worker->idle) worker->peak_bytes = rg_fork_pool_peak(pool, w, rg_memory_peak(pid));
  if (parent) {
    rg_process_kill_tree(pid);
  } else {
    rg_process_kill_group(pid);
  }
}

/* Those that had nothing to do are collected when they are gone: they do nothing any more that anybody
   could wait for. Where the system tells of their memory only when they are collected, they are waited for. */
static void leave_idle(rg_pool *pool) {
  int count = 0;
  for (int w = 0; w < pool->size; w++) {
    rg_worker *worker = &pool->workers[w];
    worker->idle = worker->idle && worker->pid > 0 && worker->peak_bytes > 0;
    if (worker->idle) pool->dead[count++] = worker->pid;
  }
  if (rg_bury_later(pool->dead, count) == 0) return;
  for (int w = 0; w < pool->size; w++) pool->workers[w].idle = 0;
}

static void bury_worker(rg_pool *pool, int w, int64_t until) {
  rg_worker *worker = &pool->workers[w];
  char mark[RG_FORK_MARK_SIZE];
  rg_process_end end;
  int64_t left = (until - rg_clock_now()) / 1000000;
  if (pool->stand ? rg_stand_bury(pool->stand, worker->member, until, &end)
                  : rg_process_collect_within(worker->pid, left, &end)) {
    worker->peak_bytes = rg_fork_pool_peak(pool, w, end.peak_bytes);
  } else if (!pool->stand) {
    rg_bury_later(&worker->pid, 1); /* a call of the system that nothing interrupts holds it up */
  }
  rg_fork_mark(pool->tag, worker->pid, mark);
  if (worker->died) rg_process_kill_marked(RG_FORK_MARK, mark);
}

/* All workers together are waited for no longer than this. */
static const int64_t BURIAL_NS = (int64_t)3 * 1000000000;

/* No R API inside: nothing here can jump, so that an interrupt cannot leave a worker
   behind; it makes the waits short (sys-interrupt.h), and R takes it afterwards. All are killed before
   the first is waited for: an address space takes milliseconds to go. `hurry`: the run was interrupted. */
static void stop_pool(rg_pool *pool, int hurry) {
  if (!pool->open || pool->owner != getpid()) return;
  pool->open = 0;
  rg_interrupt_begin();
  atomic_store(&pool->control->shared->active, 0);
  if (pool->stand) rg_fork_detach(pool, hurry);
  for (int w = 0; w < pool->size; w++) {
    pool->workers[w].stopped = pool->workers[w].pid > 0;
    if (pool->workers[w].pid > 0) kill_worker(pool, w);
  }
  leave_idle(pool);
  int64_t until = rg_clock_now() + BURIAL_NS;
  for (int w = 0; w < pool->size; w++) {
    if (pool->workers[w].pid > 0 && !pool->workers[w].idle) bury_worker(pool, w, until);
    rg_fork_pool_close_worker(&pool->workers[w]);
  }
  close_run(pool);
  rg_block_run_end(pool->arena, pool->lost_spans);
  drop_arena(pool);
  rg_interrupt_end();
}

static void pool_finalize(SEXP pointer) {
  rg_pool *pool = R_ExternalPtrAddr(pointer);
  if (!pool) return;
  R_ClearExternalPtr(pointer);
  if (pool->owner == getpid()) {
    stop_pool(pool, 1);
    free_pool(pool);
  }
}

static rg_pool *new_pool(int64_t elements, int workers, int64_t batch, rg_stand *stand) {
  rg_pool *pool = calloc(1, sizeof *pool);
  if (!pool) return NULL;
  pool->owner = getpid();
  pool->control_fd = pool->code_fd = -1;
  pool->stand = stand;
  if (stand) rg_stand_hold(stand);
  pool->tag = stand ? stand->tag : rg_random_tag();
  pool->elements = pool->wanted = elements;
  pool->settled = malloc((size_t)(elements > 0 ? elements : 1));
  if (pool->settled) memset(pool->settled, 1, (size_t)elements);
  pool->doorbell[0] = pool->doorbell[1] = -1;
  pool->size = workers;
  pool->workers = calloc((size_t)workers, sizeof *pool->workers);
  pool->dead = calloc((size_t)workers, sizeof *pool->dead);
  pool->arena = session_arena();
  pool->control = rg_control_create(elements, workers, batch, &pool->control_fd);
  /* Where no more files may be opened, or none so large, forked workers do without. */
  if (!pool->control && !stand) pool->control = rg_control_create(elements, workers, batch, NULL);
  if (!pool->workers || !pool->dead || !pool->settled || !pool->arena || !pool->control ||
      rg_fd_pipe(pool->doorbell, RG_FD_READ_END | RG_FD_WRITE_END) < 0) {
    int saved = errno;
    free_pool(pool);
    errno = saved;
    return NULL;
  }
  for (int w = 0; w < workers; w++) {
    rg_worker *worker = &pool->workers[w];
    worker->pidfd = worker->wake = -1;
    for (int s = 0; s < RG_STREAMS; s++) worker->stream[s] = -1;
    worker->finished = -1;
  }
  pool->next = pools;
  pools = pool;
  return pool;
}

/* options: list(batch (0: grow), share_from (bytes, Inf: never), copy (rg_copy), send_stdout, send_stderr,
   limit (bytes of shared memory), keep (bytes kept warm), wants_cpu, stand (whose workers take part, NULL: they
   are forked), unattended, retries, verb, budget (cores, low)). Returns an external pointer, or an errno: no
   descriptor or no memory is left. */
SEXP ffi_fork_pool_create(SEXP elements, SEXP workers, SEXP options) {
  double from = Rf_asReal(VECTOR_ELT(options, 1));
  double limit = Rf_asReal(VECTOR_ELT(options, 5));
  SEXP stand = VECTOR_ELT(options, 8);
  rg_pool *pool = new_pool((int64_t)Rf_asReal(elements), Rf_asInteger(workers),
                           (int64_t)Rf_asReal(VECTOR_ELT(options, 0)),
                           stand == R_NilValue ? NULL : rg_stand_borrow(stand));
  if (!pool) return Rf_ScalarInteger(errno);
  pool->open = 1;
  rg_block_run_begin();
  pool->share_from = from < 9e18 ? (int64_t)from : INT64_MAX;
  pool->copy = (rg_copy)Rf_asInteger(VECTOR_ELT(options, 2));
  pool->streams[RG_STDOUT] = Rf_asLogical(VECTOR_ELT(options, 3)) ? RG_STREAM_SEND : RG_STREAM_DROP;
  pool->streams[RG_STDERR] = Rf_asLogical(VECTOR_ELT(options, 4)) ? RG_STREAM_SEND : RG_STREAM_DROP;
  pool->arena->limit = limit < 9e18 ? (int64_t)limit : INT64_MAX;
  pool->arena->keep = (int64_t)Rf_asReal(VECTOR_ELT(options, 6));
  pool->wants_cpu = Rf_asLogical(VECTOR_ELT(options, 7)) == TRUE;
  pool->unattended = stand == R_NilValue && Rf_asLogical(VECTOR_ELT(options, 9)) == TRUE;
  pool->retries = Rf_asLogical(VECTOR_ELT(options, 10)) == TRUE;
  strncpy(pool->verb, CHAR(STRING_ELT(VECTOR_ELT(options, 11), 0)), RG_VERB_MAX - 1);
  pool->cores = INTEGER(VECTOR_ELT(options, 12))[0];
  pool->low = INTEGER(VECTOR_ELT(options, 12))[1];
  rg_control_tell(pool->control, pool->verb);
  SEXP pointer = PROTECT(R_MakeExternalPtr(pool, R_NilValue, R_NilValue));
  R_RegisterCFinalizerEx(pointer, pool_finalize, TRUE);
  UNPROTECT(1);
  return pointer;
}

/* Of the file by which processes share cores: list(path, errno), 0 if workers can open it. */
SEXP ffi_fork_pool_budget(void) {
  char path[RG_BUDGET_PATH_MAX];
  int failed = rg_budget_check();
  rg_budget_path(path);
  SEXP result = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(result, 0, Rf_mkString(path));
  SET_VECTOR_ELT(result, 1, Rf_ScalarInteger(failed));
  UNPROTECT(1);
  return result;
}

void rg_fork_pool_wake(rg_pool *pool) {
  rg_control *control = pool->control;
  int64_t queued = rg_queue_length(control);
  int over = rg_fork_pool_has_ended(pool);
  for (int w = 0; w < pool->size; w++) {
    rg_slot *slot = &control->slots[w];
    /* Code may have written there: a worker that is held by nobody would wait for ever. */
    if (atomic_load(&slot->held) != pool->workers[w].held) atomic_store(&slot->held, pool->workers[w].held);
    if (pool->workers[w].pid <= 0 || !atomic_load(&slot->waiting)) continue;
    int room = atomic_load(&slot->current) >= 0 && rg_ring_unread(&slot->ring) < RG_RING_SIZE / 2;
    int work = atomic_load(&slot->current) < 0 && (over || (queued > 0 && rg_queue_admits(control, w)));
    if (!room && !work) continue;
    atomic_store(&slot->waiting, 0);
    if (!rg_fd_is(pool->workers[w].wake, pool->workers[w].wake_pipe)) continue;
    rg_fd_wake(pool->workers[w].wake); /* fails: it is full of wake-ups, or the worker is gone */
  }
}

/* The lock of the queue, for as long as Ctrl-C does not come: a worker that was stopped while it had it
   gives it back when it goes on, or ends. What is no lock any more is an error. */
static void lock_queue(rg_pool *pool) {
  for (;;) {
    int error = rg_queue_lock(pool->control, 50);
    if (error == 0) return;
    if (error != EBUSY) rg_fork_pool_overwritten();
    pool->used++;
    R_CheckUserInterrupt();
    pool->used--;
  }
}

void rg_fork_pool_overwritten(void) {
  rg_call_r("abort_overwritten", 1, PROTECT(Rf_ScalarLogical(TRUE)));
  UNPROTECT(1);
}

/* `tries`: which try of each this is; `first`: whether they go before all that wait. */
SEXP ffi_fork_pool_submit(SEXP pointer, SEXP elements, SEXP tries, SEXP first) {
  if (is_over(pointer)) return R_NilValue;
  rg_pool *pool = rg_fork_pool_borrow(pointer);
  R_xlen_t count = XLENGTH(elements);
  const double *numbers = REAL_RO(elements);
  const int *try = INTEGER_RO(tries);
  int64_t *zero_based = (int64_t *)R_alloc((size_t)count, sizeof(int64_t));
  lock_queue(pool);
  for (R_xlen_t i = 0; i < count; i++) {
    zero_based[i] = (int64_t)numbers[i] - 1;
    /* A new try: that of before is nothing that could be lost any more. */
    pool->settled[zero_based[i]] = 0;
    pool->control->tasks[zero_based[i]].start = 0;
    pool->control->tasks[zero_based[i]].peak = 0;
    pool->control->tasks[zero_based[i]].tries = try[i];
  }
  void (*push)(rg_control *, const int64_t *, int64_t) = Rf_asLogical(first) ? rg_queue_push_first : rg_queue_push;
  push(pool->control, zero_based, count);
  rg_queue_unlock(pool->control);
  rg_fork_pool_wake(pool);
  return R_NilValue;
}

SEXP ffi_fork_pool_withdraw(SEXP pointer, SEXP first) {
  if (is_over(pointer)) return R_NilValue;
  rg_pool *pool = rg_fork_pool_borrow(pointer);
  double count = Rf_asReal(first);
  lock_queue(pool);
  if (count < (double)pool->wanted) pool->wanted = (int64_t)count;
  rg_queue_keep_first(pool->control, (int64_t)count);
  rg_queue_unlock(pool->control);
  return R_NilValue;
}

SEXP ffi_fork_pool_limit(SEXP pointer, SEXP active) {
  if (is_over(pointer)) return R_NilValue;
  rg_pool *pool = rg_fork_pool_borrow(pointer);
  atomic_store(&pool->control->shared->active, Rf_asInteger(active));
  rg_fork_pool_wake(pool);
  return R_NilValue;
}

/* Workers in the slots of these places, 1 for the first, claim nothing more; those of all others may. */
SEXP ffi_fork_pool_hold(SEXP pointer, SEXP places) {
  if (is_over(pointer)) return R_NilValue;
  rg_pool *pool = rg_fork_pool_borrow(pointer);
  for (int w = 0; w < pool->size; w++) {
    int held = 0;
    for (R_xlen_t i = 0; i < XLENGTH(places); i++) held |= INTEGER_RO(places)[i] == w + 1;
    pool->workers[w].held = held;
    atomic_store(&pool->control->slots[w].held, held);
  }
  rg_fork_pool_wake(pool);
  return R_NilValue;
}

/* The worker with the driver's number `id`, NULL if it has left. One that has not been collected yet still
   owns its pid. */
static rg_worker *worker_of(rg_pool *pool, SEXP id) {
  for (int w = 0; w < pool->size; w++) {
    rg_worker *worker = &pool->workers[w];
    if (worker->pid > 0 && worker->id == Rf_asInteger(id)) return worker;
  }
  return NULL;
}

/* Interrupts the worker if it runs this element: another one may have begun since the driver looked. What is to be
   interrupted is the try that is under way, since another is queued by this process only. */
SEXP ffi_fork_pool_interrupt(SEXP pointer, SEXP id, SEXP element) {
  if (is_over(pointer)) return Rf_ScalarLogical(FALSE);
  rg_pool *pool = rg_fork_pool_borrow(pointer);
  rg_worker *worker = worker_of(pool, id);
  if (!worker) return Rf_ScalarLogical(FALSE);
  rg_slot *slot = &pool->control->slots[worker - pool->workers];
  int64_t wanted = (int64_t)Rf_asReal(element) - 1;
  if (wanted < 0 || wanted >= pool->control->elements) return Rf_ScalarLogical(FALSE);
  atomic_store(&slot->cancel, rg_control_try(pool->control, wanted));
  if (atomic_load(&slot->current) == wanted) kill(worker->pid, SIGINT);
  return Rf_ScalarLogical(TRUE);
}

SEXP ffi_fork_pool_signal(SEXP pointer, SEXP id, SEXP number) {
  if (is_over(pointer)) return Rf_ScalarLogical(FALSE);
  rg_pool *pool = rg_fork_pool_borrow(pointer);
  rg_worker *worker = worker_of(pool, id);
  if (!worker) return Rf_ScalarLogical(FALSE);
  if (Rf_asInteger(number) == SIGKILL) {
    rg_process_kill_tree(worker->pid);
  } else {
    kill(worker->pid, Rf_asInteger(number));
  }
  return Rf_ScalarLogical(TRUE);
}

/* What each worker runs now: list(worker, element (0: nothing), try, seconds, cpu_seconds). Who has sent the end of an
   element still names it for a moment: when all ends have been read of what the worker has begun it runs nothing. `begun`
   is read first, so that an element that begins meanwhile is at most overlooked. */
SEXP ffi_fork_pool_running(SEXP pointer) {
  const rg_pool *pool = is_over(pointer) ? NULL : rg_fork_pool_borrow(pointer);
  const int size = pool ? pool->size : 0;
  const char *names[] = {"worker", "element", "try", "seconds", "cpu_seconds", ""};
  int count = 0;
  for (int w = 0; w < size; w++) count += pool->workers[w].pid > 0;
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  SEXP id = SET_VECTOR_ELT(result, 0, Rf_allocVector(INTSXP, count));
  SEXP element = SET_VECTOR_ELT(result, 1, Rf_allocVector(REALSXP, count));
  SEXP try = SET_VECTOR_ELT(result, 2, Rf_allocVector(INTSXP, count));
  SEXP seconds = SET_VECTOR_ELT(result, 3, Rf_allocVector(REALSXP, count));
  SEXP cpu = SET_VECTOR_ELT(result, 4, Rf_allocVector(REALSXP, count));
  int64_t now = rg_clock_now();
  for (int w = 0, k = 0; w < size; w++) {
    rg_slot *slot = &pool->control->slots[w];
    pid_t worker = pool->workers[w].pid;
    if (worker <= 0) continue;
    int ended = !pool->workers[w].damaged && atomic_load(&slot->begun) == pool->workers[w].ends;
    int64_t current = atomic_load(&slot->current);
    if (ended || current >= pool->elements) current = -1;
    int64_t cpu_now = current < 0 ? -1 : rg_process_cpu(worker);
    INTEGER(id)[k] = pool->workers[w].id;
    REAL(element)[k] = (double)(current + 1);
    INTEGER(try)[k] = current < 0 ? 0 : pool->control->tasks[current].tries;
    REAL(seconds)[k] = current < 0 ? 0 : (double)(now - atomic_load(&slot->started)) / 1e9;
    REAL(cpu)[k] = cpu_now < 0 ? 0 : (double)(cpu_now - atomic_load(&slot->cpu_started)) / 1e9;
    k++;
  }
  UNPROTECT(1);
  return result;
}

/* Elements that have begun and whose end nobody has been told: list(index, worker, start, end, bytes). */
static SEXP begun_elements(const rg_pool *pool) {
  const char *names[] = {"index", "worker", "start", "end", "bytes", ""};
  const rg_task *tasks = pool->control->tasks;
  R_xlen_t count = 0;
  for (int64_t e = 0; e < pool->elements; e++) count += tasks[e].start != 0 && !pool->settled[e];
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  double *index = REAL(SET_VECTOR_ELT(result, 0, Rf_allocVector(REALSXP, count)));
  int *worker = INTEGER(SET_VECTOR_ELT(result, 1, Rf_allocVector(INTSXP, count)));
  double *start = REAL(SET_VECTOR_ELT(result, 2, Rf_allocVector(REALSXP, count)));
  double *end = REAL(SET_VECTOR_ELT(result, 3, Rf_allocVector(REALSXP, count)));
  double *bytes = REAL(SET_VECTOR_ELT(result, 4, Rf_allocVector(REALSXP, count)));
  for (int64_t e = 0, k = 0; e < pool->elements && k < count; e++) {
    if (tasks[e].start == 0 || pool->settled[e]) continue;
    int32_t w = tasks[e].worker;
    index[k] = (double)(e + 1);
    worker[k] = w >= 0 && w < pool->size ? pool->workers[w].id : NA_INTEGER;
    start[k] = (double)tasks[e].start / 1e9;
    end[k] = tasks[e].end ? (double)tasks[e].end / 1e9 : NA_REAL;
    bytes[k++] = (double)tasks[e].bytes;
  }
  UNPROTECT(1);
  return result;
}

/* list(worker, peak, begun): the workers that were there when the pool was stopped, their peak memory,
   and the elements above. The pool is no more: its memory would be in every process that is forked until R has
   collected it. A jump from a function that has it in hand leaves that to R. */
SEXP ffi_fork_pool_stop(SEXP pointer) {
  rg_pool *pool = R_ExternalPtrAddr(pointer);
  if (!pool) return R_NilValue;
  stop_pool(pool, 0);
  const char *names[] = {"worker", "peak", "begun", ""};
  int count = 0;
  for (int w = 0; w < pool->size; w++) count += pool->workers[w].stopped;
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  SEXP ids = SET_VECTOR_ELT(result, 0, Rf_allocVector(INTSXP, count));
  SEXP peaks = SET_VECTOR_ELT(result, 1, Rf_allocVector(REALSXP, count));
  for (int w = 0, k = 0; w < pool->size; w++) {
    if (!pool->workers[w].stopped) continue;
    int64_t peak = pool->workers[w].peak_bytes;
    INTEGER(ids)[k] = pool->workers[w].id;
    REAL(peaks)[k++] = peak > 0 ? (double)peak : NA_REAL;
  }
  SET_VECTOR_ELT(result, 2, begun_elements(pool));
  if (pool->owner == getpid() && pool->used == 0) {
    R_ClearExternalPtr(pointer);
    free_pool(pool);
  }
  UNPROTECT(1);
  return result;
}

static void stop_left(void *pointer, Rboolean jump) {
  rg_pool *pool = R_ExternalPtrAddr((SEXP)pointer);
  if (pool && jump) stop_pool(pool, 1);
}

/* Evaluates `call`; however it is left other than by returning, the pool is stopped, in C
   and so without a moment in which a second interrupt could prevent it. */
SEXP ffi_fork_pool_guard(SEXP pointer, SEXP call, SEXP env) {
  return rg_guard(call, env, stop_left, pointer);
}
