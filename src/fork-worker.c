#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "arena-block.h"
#include "budget.h"
#include "call-r.h"
#include "evaluator.h"
#include "fork-console.h"
#include "fork-crash.h"
#include "fork-pool.h"
#include "fork-server.h"
#include "queue.h"
#include "region.h"
#include "sys-bury.h"
#include "sys-clock.h"
#include "sys-fd.h"
#include "sys-fork.h"
#include "sys-memory.h"
#include "sys-process.h"
#include "threads-share.h"

/* The worker's side of the pool, in the forked child. */
static struct {
  rg_pool *pool;
  rg_slot *slot;
  int number; /* of the slot */
  pid_t pid;
  int outlives; /* the run: a server has forked it */
  int wake, doorbell;
  rg_fd_identity wake_pipe, doorbell_pipe;
  int guard; /* closed at its other end when the parent ends */
  rg_fd_identity guard_file;
  int reader[RG_STREAMS]; /* read ends of the own streams, to see how much waits in them */
  int watch;              /* of the readers: whether anything waits in either */
  int64_t batch_size, batch_start, batch_begun;
  int64_t ended; /* when the last element did, which is when the next one begins */
  int64_t rung;
  int64_t sent[RG_STREAMS]; /* stream lengths that the parent has been told */
  uint64_t produced;        /* where the end of the ring is */
  int64_t measured, busy;   /* when `usage` was taken, and what elements have taken since */
  rg_process_usage usage;
} worker;

static void ring_doorbell(int64_t now) {
  worker.rung = now;
  atomic_store(&worker.pool->control->shared->rung, 1);
  if (atomic_exchange(&worker.pool->control->shared->parent_asleep, 0) &&
      rg_fd_is(worker.doorbell, worker.doorbell_pipe)) {
    rg_fd_wake(worker.doorbell); /* fails: the parent has a wake-up waiting already, or the run is over */
  }
}

/* For every way out of a worker that is its own: what it has started goes with it. */
void rg_fork_worker_leave(int status) {
  rg_process_flush_stdout();
  rg_process_end_children();
  rg_process_leave(status);
}

static void tell(const char *reason) {
  if (worker.slot) strncpy(worker.slot->crash, reason, RG_CRASH_MAX - 1);
}

/* Sleeps until the parent writes a byte. The parent gone, there is nobody to work for. Where the
   pipe has been closed by code of an element there is nothing to wait for but time. */
static void sleep_until_woken(void) {
  char bytes[64];
  ssize_t n;
  if (!rg_fd_is(worker.wake, worker.wake_pipe)) {
    poll(NULL, 0, 1);
    return;
  }
  do {
    n = read(worker.wake, bytes, sizeof bytes);
  } while (n < 0 && errno == EINTR);
  if (n <= 0) rg_fork_worker_leave(0);
  atomic_store(&worker.slot->waiting, 0);
}

static void plan_batch(int64_t now) {
  int64_t begun = worker.batch_begun > 0 ? worker.batch_begun : 1;
  worker.batch_size = rg_queue_batch(worker.pool->control->batch, worker.batch_size,
                                     (now - worker.batch_start) / begun);
}

/* What this worker has in shared memory is not what it has written there: code of the element that is
   running, or of one before, has. It ends at once, so that no other element is lost with it. */
__attribute__((noreturn)) static void leave_overwritten(void) {
  atomic_store(&worker.slot->damaged, 1);
  rg_fork_worker_leave(1);
}

static int claim_batch(int64_t now) {
  plan_batch(now);
  worker.batch_begun = 0;
  int count = rg_queue_claim(worker.pool->control, worker.number, (int)worker.batch_size);
  if (count < 0) leave_overwritten();
  worker.batch_start = rg_clock_now();
  return count;
}

/* Whether code of an element has left this worker what it needs. Nobody but the worker moves the end of
   its ring: if it is elsewhere, the element is lost that is running. Descriptors may have been closed
   that are not the element's own: what it returns is an error if it needed them, and the next ones
   get another worker, which has them; that is asked `between` elements only. */
static void leave_if_unfit(int between) {
  if (rg_ring_end(&worker.slot->ring) != worker.produced) leave_overwritten();
  if (!between || (rg_arena_is_whole(worker.pool->arena) && rg_fd_is(worker.wake, worker.wake_pipe) &&
                   rg_fd_is(worker.doorbell, worker.doorbell_pipe))) {
    return;
  }
  rg_queue_give_back(worker.pool->control, worker.number);
  rg_fork_worker_leave(0);
}

/* Set for workers that outlive the run; those that do not are ended by the parent. */
static int is_over(void) { return atomic_load(&worker.pool->control->shared->over); }

/* A run that nobody may look at for long keeps no process, which would hold open what connections the session
   has had at the fork. */
static void leave_if_finished(int64_t now) {
  if (worker.outlives || !rg_fork_pool_has_ended(worker.pool)) return;
  rg_process_flush_stdout();
  rg_process_end_children();
  atomic_store(&worker.slot->left, RG_LEFT_FINISHED);
  ring_doorbell(now);
  rg_process_leave(0);
}

/* When the next element begins: noted before it is the current one, so that nobody who looks at this worker takes
   the time of an earlier one, and of the wait since, for its own. */
static void note_start(int64_t now) {
  int64_t cpu = worker.pool->wants_cpu ? rg_clock_cpu() : 0;
  atomic_store_explicit(&worker.slot->started, now, memory_order_release);
  atomic_store_explicit(&worker.slot->cpu_started, cpu, memory_order_release);
}

/* The core of a budget (budget.h). A worker whose run has one holds it from before it claims elements until it sleeps,
   and not while it waits for a run of its own, so that whoever holds one uses it. */

static int has_work(void) {
  return !is_over() && rg_queue_admits(worker.pool->control, worker.number) &&
         rg_queue_length(worker.pool->control) > 0;
}

__attribute__((noreturn)) static void leave_without_core(int error) {
  char reason[RG_CRASH_MAX];
  snprintf(reason, sizeof reason, "it can have no core of the budget: %s", strerror(error));
  tell(reason);
  rg_fork_worker_leave(1);
}

/* Whether elements may be claimed. Nothing is while this waits, so that others can, and no limit counts it. Code that
   has closed the file has lost the core: the next elements get another worker. */
static int may_claim(int64_t *now) {
  if (!worker.pool->cores) return 1;
  if (!rg_budget_is_whole()) rg_fork_worker_leave(0);
  if (has_work() && rg_budget_is_due(*now)) {
    ring_doorbell(*now);
    rg_budget_give();
    poll(NULL, 0, rg_budget_politeness());
  }
  for (int waited = 0; has_work(); waited = 1) {
    int has = rg_budget_try();
    if (has < 0) leave_without_core(errno);
    if (waited) *now = rg_clock_now();
    if (has) return 1;
    if (!waited) ring_doorbell(*now); /* of values that the parent has not been told of */
    poll(NULL, 0, rg_budget_pause());
  }
  return 0;
}

/* Before this worker sleeps: whether it had one. */
static int give_core(void) {
  int had = worker.pool->cores && rg_budget_has();
  if (worker.pool->cores) rg_budget_give();
  return had;
}

/* In the midst of an element, which has slept without it. */
static void take_core(void) {
  while (rg_budget_try() == 0) poll(NULL, 0, rg_budget_pause());
  worker.ended = 0; /* it is not when the next element begins */
}

/* The next element, from the claim or the queue; -1 when the run is over. Sleeps while there is
   none. */
static int64_t next_claimed(int64_t now) {
  leave_if_unfit(1);
  rg_control *control = worker.pool->control;
  for (;;) {
    note_start(now);
    int64_t element = rg_queue_next(worker.slot);
    if (element >= 0) return element;
    if (is_over()) return -1;
    if (may_claim(&now) && claim_batch(now) > 0) continue;
    leave_if_finished(now);
    if (worker.outlives) {
      atomic_store(&worker.slot->left, rg_fork_member_is_clean() ? RG_LEFT_ALONE : RG_LEFT_NOT);
    }
    atomic_store(&worker.slot->waiting, 1);
    ring_doorbell(now);
    if (is_over() || (rg_queue_admits(control, worker.number) && rg_queue_length(control) > 0)) {
      atomic_store(&worker.slot->waiting, 0); /* it came between the look and the flag */
    } else {
      give_core();
      sleep_until_woken();
    }
    now = rg_clock_now();
  }
}

static int64_t channel_next(void *state, int32_t *tries) {
  (void)state;
  int64_t now = worker.ended ? worker.ended : rg_clock_now();
  /* A batch that takes much longer than planned holds work that others could do. */
  if (worker.pool->control->batch == 0 && now - worker.batch_start > 2 * RG_BATCH_NS &&
      atomic_load(&worker.slot->claim_done) < atomic_load(&worker.slot->claim_size)) {
    rg_queue_give_back(worker.pool->control, worker.number);
    ring_doorbell(now);
  }
  note_start(now);
  int64_t element = rg_queue_next(worker.slot);
  if (element < 0) {
    element = next_claimed(now);
    now = rg_clock_now();
    note_start(now);
  }
  /* `current` is set and then looked whether the run is over; the parent does it the other way
     round: one of the two sees the other. */
  if (element < 0 || is_over()) {
    atomic_store(&worker.slot->current, -1);
    return -1;
  }
  if (element >= worker.pool->control->elements) leave_overwritten();
  worker.batch_begun++;
  rg_task *task = &worker.pool->control->tasks[element];
  task->start = now;
  task->end = 0;
  task->bytes = 0;
  task->cpu = task->peak = 0;
  task->worker = worker.number;
  *tries = task->tries;
  return element;
}

/* One signal comes for each try of an element that the parent has asked for, perhaps when that has ended. */
static rg_cancel channel_cancelled(void *state, int64_t element, int come) {
  (void)state;
  int64_t asked = come ? atomic_exchange(&worker.slot->cancel, -1) : atomic_load(&worker.slot->cancel);
  if (asked < 0) return RG_CANCEL_NONE;
  return asked == rg_control_try(worker.pool->control, element) ? RG_CANCEL_THIS : RG_CANCEL_PASSED;
}

/* How many bytes have ever been written to a stream, by this process and its children:
   what the parent has read plus what waits in the pipe. The parent raises `draining`
   while it does the one and has not yet told the other. */
static int64_t stream_length(int s) {
  rg_slot *slot = worker.slot;
  for (;;) {
    int waiting = 0;
    int64_t before = atomic_load(&slot->drained[s]);
    int busy = atomic_load(&slot->draining[s]);
    if (ioctl(worker.reader[s], FIONREAD, &waiting) < 0) return before;
    if (!busy && !atomic_load(&slot->draining[s]) && before == atomic_load(&slot->drained[s])) {
      return before + waiting;
    }
    sched_yield();
  }
}

static void commit(rg_record *header, const void *payload, size_t size) {
  rg_ring *ring = &worker.slot->ring;
  rg_record *record;
  leave_if_unfit(0);
  while (!(record = rg_ring_reserve(ring, (uint32_t)size))) {
    atomic_store(&worker.slot->waiting, 1);
    ring_doorbell(rg_clock_now());
    if ((record = rg_ring_reserve(ring, (uint32_t)size))) {
      atomic_store(&worker.slot->waiting, 0);
      break;
    }
    int had = give_core(); /* it has lent it, where what comes from a run of its own is sent on */
    sleep_until_woken();
    if (had) take_core();
  }
  record->type = header->type;
  record->flags = header->flags;
  record->kind = header->kind;
  record->element = header->element;
  record->tries = header->tries;
  memcpy(rg_record_payload(record), payload, size);
  rg_ring_commit(ring, record);
  worker.produced = rg_ring_end(ring);
}

/* Whether the parent has read, or is reading, what it has not yet been told the owner of. */
static int streams_drained(void) {
  for (int s = 0; s < RG_STREAMS; s++) {
    if (worker.reader[s] < 0) continue;
    if (atomic_load(&worker.slot->draining[s])) return 1;
    if (atomic_load(&worker.slot->drained[s]) != worker.sent[s]) return 1;
  }
  return 0;
}

/* Whether anything may have been written to a stream since the parent was last told. The
   parent may read between the first two looks, hence the third. */
static int streams_moved(void) {
  return streams_drained() || rg_fd_watch_ready(worker.watch) || streams_drained();
}

/* Tells the parent where in the streams the element's output ends, if it wrote any. */
static void publish_output(int64_t element) {
  int64_t ends[RG_STREAMS];
  int news = 0;
  if (!streams_moved()) return;
  for (int s = 0; s < RG_STREAMS; s++) {
    ends[s] = worker.reader[s] >= 0 ? stream_length(s) : 0;
    news |= ends[s] != worker.sent[s];
  }
  if (!news) return;
  memcpy(worker.sent, ends, sizeof ends);
  rg_record header = {.type = RG_RECORD_OUTPUT, .element = element};
  commit(&header, ends, sizeof ends);
}

/* An element of less is not measured: that would cost more than a call of the system may, seen beside it. */
static const int64_t MEASURE_NS = 1000000;

/* Processor time and memory since the last look are the element's, but for what shorter ones before it have
   taken. The peak is forgotten if it has risen: the next element is to have its own. */
static void measure(rg_task *task) {
  int64_t took = task->end - task->start;
  worker.busy += took;
  if (task->end - worker.measured < MEASURE_NS) return;
  const rg_process_usage before = worker.usage;
  rg_process_use(&worker.usage);
  if (took >= MEASURE_NS) {
    double share = (double)took / (double)worker.busy;
    task->cpu = (float)(share * (double)(worker.usage.cpu_ns - before.cpu_ns) / 1e9);
    task->peak = (float)worker.usage.peak_bytes;
  }
  if (worker.usage.peak_bytes != before.peak_bytes) {
    if (worker.usage.peak_bytes > atomic_load(&worker.slot->peak)) {
      atomic_store(&worker.slot->peak, worker.usage.peak_bytes);
    }
    rg_memory_forget_peak();
    rg_process_use(&worker.usage);
  }
  worker.measured = task->end;
  worker.busy = 0;
}

static void channel_ended(void *state, int64_t element) {
  (void)state;
  rg_process_flush_stdout(); /* what C code printed */
  publish_output(element);
  worker.ended = rg_clock_now();
  worker.pool->control->tasks[element].end = worker.ended;
  measure(&worker.pool->control->tasks[element]);
}

/* A large payload by way of the arena; 0 if that is not wanted or is full. */
static int store(rg_record *header, const rg_buffer *payload) {
  rg_stored stored = {{0, 0}, (int64_t)payload->size};
  rg_arena_need need = {0, 0};
  const rg_piece piece = {payload->data, stored.size};
  if (worker.pool->share_from == INT64_MAX ||
      rg_arena_write(worker.pool->arena, &piece, 1, &stored.span, &need) != RG_ARENA_OK) {
    return 0;
  }
  header->flags |= RG_RECORD_STORED;
  commit(header, &stored, sizeof stored);
  return 1;
}

/* Through the ring, as many records as it takes. */
static void commit_parts(rg_record *header, const rg_buffer *payload) {
  const char *at = payload->data;
  size_t left = payload->size;
  for (; left > RG_RECORD_MAX; at += RG_RECORD_MAX, left -= RG_RECORD_MAX) {
    header->flags = RG_RECORD_PART;
    commit(header, at, RG_RECORD_MAX);
  }
  header->flags = 0;
  commit(header, at, left);
}

static void channel_publish(void *state, rg_record *header, const rg_buffer *payload) {
  (void)state;
  rg_task *task = &worker.pool->control->tasks[header->element];
  int ends_element = header->type == RG_RECORD_VALUE || header->type == RG_RECORD_ERROR;
  if (ends_element) task->bytes = (int64_t)payload->size;
  if (payload->size <= RG_RECORD_MAX || !store(header, payload)) commit_parts(header, payload);
  if (ends_element) atomic_store(&worker.slot->current, -1);
  if (header->type == RG_RECORD_VALUE || (ends_element && !worker.pool->retries)) {
    atomic_fetch_add(&worker.slot->ended, 1);
  }
  /* The parent is told of values from time to time, and of errors that are no news, of everything else at once. */
  int is_news = header->type != RG_RECORD_VALUE && !(header->type == RG_RECORD_ERROR && header->kind == RG_ERROR_ALIKE);
  if (is_news || task->end - worker.rung > RG_BATCH_NS ||
      rg_ring_unread(&worker.slot->ring) > RG_RING_SIZE / 2) {
    ring_doorbell(rg_clock_now());
  }
  if (header->type == RG_RECORD_ERROR && is_news) leave_if_unfit(1);
}

/* Set-up of the child. */

/* Ends this worker and whatever it has started, at once. Async-signal-safe. */
static void end_tree(void) {
  rg_process_end_children();
  rg_process_kill_group(worker.pid);
}

/* The parent's end of the wake-up pipe (of the line, of a worker that a server has forked) closes when
   the parent ends. SIGTERM tells of that,
   too, but the user's code may ignore it; this thread cannot be told to. It calls nothing
   but system calls, so it is no concern of R's. It gives up if an element's code has closed the
   pipe: what poll() then tells is not of the parent. */
static void *watch_parent(void *unused) {
  (void)unused;
  struct pollfd guard = {worker.guard, 0, 0};
  do {
    poll(&guard, 1, -1);
  } while (!(guard.revents & (POLLHUP | POLLERR | POLLNVAL)));
  if (rg_fd_is(worker.guard, worker.guard_file)) end_tree();
  return NULL;
}

/* Called with all signals blocked, so that the thread takes none. Where no thread can be had
   the worker does without: SIGTERM tells it of the parent's end, too. */
static void start_watching(void) {
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 64 * 1024);
  pthread_create(&thread, &attributes, watch_parent, NULL);
  pthread_attr_destroy(&attributes);
}

void rg_fork_pipes_close(rg_pipes pipes) {
  for (int p = 0; p < RG_STREAMS + 1; p++) {
    rg_fd_close(&pipes[p][0]);
    rg_fd_close(&pipes[p][1]);
  }
}

/* The parent has ended, or wants this worker to: whatever it started goes with it. A child
   that an element has forked inherits the handler; its end is its own affair. All calls
   here are async-signal-safe. */
static void on_terminate(int number) {
  if (getpid() == worker.pid) {
    if (worker.slot) atomic_store(&worker.slot->ended_by, number);
    end_tree();
  }
  signal(number, SIG_DFL);
  raise(number);
}

#ifdef __GLIBC__
static void on_exit_in_worker(int status, void *unused) {
  /* C code called exit(): R's end-of-session work (temporary files, finalizers, devices)
     is the parent's to do. Registered last, so it runs first. */
  (void)unused;
  if (getpid() == worker.pid) rg_fork_worker_leave(status);
}
#endif

static void redirect(int from, int to) {
  if (from >= 0 && dup2(from, to) < 0) rg_process_leave(126);
}

/* -1: nobody is to see it. */
static void set_streams(int out, int err) {
  int null_in = rg_fd_lift(open("/dev/null", O_RDONLY | O_CLOEXEC));
  int null_out = rg_fd_lift(open("/dev/null", O_WRONLY | O_CLOEXEC));
  redirect(null_in, STDIN_FILENO);
  redirect(out >= 0 ? out : null_out, STDOUT_FILENO);
  redirect(err >= 0 ? err : null_out, STDERR_FILENO);
  rg_fd_close(&null_in);
  rg_fd_close(&null_out);
}

static void set_signals(const sigset_t *before) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  sigemptyset(&action.sa_mask);
  action.sa_handler = on_terminate;
  sigaction(SIGTERM, &action, NULL);
  action.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &action, NULL); /* a full file is an error of write(), not a death */
  /* R saves the workspace and ends the session on these two. */
  action.sa_handler = SIG_DFL;
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGUSR2, &action, NULL);
  rg_evaluator_hear_interrupts(1);
  rg_fork_crash_install(worker.slot ? worker.slot->crash : NULL, RG_CRASH_MAX);
  sigprocmask(SIG_SETMASK, before, NULL);
}

/* Programs that this worker starts are known by it when the worker itself has gone. */
static void set_mark(uint64_t tag) {
  char mark[RG_FORK_MARK_SIZE];
  const char *above = getenv(RG_FORK_MARK);
  rg_fork_mark(tag, getpid(), mark);
  char *all = above ? malloc(strlen(above) + 1 + sizeof mark) : NULL;
  if (all) {
    strcpy(all, above);
    strcat(all, ":");
    strcat(all, mark);
  }
  setenv(RG_FORK_MARK, all ? all : mark, 1);
  free(all);
}

/* What a worker has of the run that it works for is not for those that it forks itself. */
static void close_inherited(void) {
  if (worker.pid == 0) return;
  if (worker.guard != worker.wake && rg_fd_is(worker.guard, worker.guard_file)) rg_fd_close(&worker.guard);
  if (worker.pool && rg_fd_is(worker.wake, worker.wake_pipe)) rg_fd_close(&worker.wake);
  if (worker.pool && rg_fd_is(worker.doorbell, worker.doorbell_pipe)) rg_fd_close(&worker.doorbell);
}

/* A forked copy becomes a process of its own. `own`: the run that it is for, if the copy has it from its parent. */
static void begin_process(uint64_t tag, const rg_pool *own) {
  close_inherited();
  memset(&worker, 0, sizeof worker);
  worker.pid = getpid();
  worker.wake = worker.doorbell = worker.guard = worker.watch = -1;
  for (int s = 0; s < RG_STREAMS; s++) worker.reader[s] = -1;
  setpgid(0, 0);
  rg_process_adopt();
  rg_memory_end_before_parent();
  set_mark(tag);
  rg_fork_pool_forget_all(own);
  rg_server_forget_all();
  rg_block_after_fork();
}

/* `guard` tells of the end of the session, a signal of that of the parent. */
static void settle_process(int guard, pid_t parent, const sigset_t *signals, int is_fork) {
  worker.guard = guard;
  worker.guard_file = rg_fd_identify(guard);
  start_watching();
  set_signals(signals);
  if (rg_process_die_with(parent, SIGTERM) < 0) rg_process_leave(0);
#ifdef __GLIBC__
  on_exit(on_exit_in_worker, NULL);
#endif
  rg_fork_console_close();
  if (is_fork) rg_fork_console_mark();
}

/* The descriptors become the worker's, but for the ends that it writes to. */
static void enter_run(rg_pool *pool, int number, const rg_run_ends *ends) {
  worker.pool = pool;
  worker.number = number;
  worker.slot = &pool->control->slots[number];
  worker.wake = ends->wake;
  worker.doorbell = ends->doorbell;
  worker.wake_pipe = rg_fd_identify(worker.wake);
  worker.doorbell_pipe = rg_fd_identify(worker.doorbell);
  worker.batch_size = worker.batch_start = worker.batch_begun = 0;
  worker.ended = worker.rung = 0;
  worker.produced = 0;
  worker.measured = worker.busy = 0;
  if (worker.outlives) rg_memory_forget_peak(); /* that of another run */
  rg_process_use(&worker.usage);
  memset(worker.sent, 0, sizeof worker.sent);
  set_streams(ends->writer[RG_STDOUT], ends->writer[RG_STDERR]);
  for (int s = 0; s < RG_STREAMS; s++) worker.reader[s] = ends->reader[s];
  worker.watch = rg_fd_watch(worker.reader, RG_STREAMS);
  int failed = pool->cores ? rg_budget_join(pool->cores, pool->low) : 0;
  if (failed) leave_without_core(failed);
}

static void open_channel(const rg_pool *pool) {
  const rg_channel channel = {.next = channel_next,
                              .ended = channel_ended,
                              .publish = channel_publish,
                              .cancelled = channel_cancelled,
                              .arena = pool->arena,
                              .share_from = pool->share_from};
  rg_evaluator_set_channel(&channel, R_NilValue);
}

static void become_worker(rg_pool *pool, int number, rg_pipes pipes, pid_t parent,
                          const sigset_t *signals) {
  begin_process(pool->tag, pool);
  rg_fd_close(&pool->doorbell[0]);
  rg_fd_close(&pool->control_fd);
  /* Workers end with their run, before which nothing is freed: they are not what it looks for. */
  rg_fork_witness_close(&pool->arena->forks);
  rg_region_note_known(1);
  const rg_run_ends ends = {pipes[RG_STREAMS][0], pool->doorbell[1],
                            {pipes[RG_STDOUT][0], pipes[RG_STDERR][0]},
                            {pipes[RG_STDOUT][1], pipes[RG_STDERR][1]}};
  for (int p = 0; p < RG_STREAMS + 1; p++) pipes[p][0] = -1;
  enter_run(pool, number, &ends);
  rg_fork_pipes_close(pipes);
  settle_process(worker.wake, parent, signals, 1);
  open_channel(pool);
}

/* Workers that a server has forked. */

void rg_fork_member_become(uint64_t tag, int line, pid_t parent, const sigset_t *signals, int is_fork) {
  begin_process(tag, NULL);
  worker.outlives = 1;
  set_streams(-1, -1);
  settle_process(line, parent, signals, is_fork);
}

int rg_fork_member_line(void) {
  if (worker.pid != getpid() || !rg_fd_is(worker.guard, worker.guard_file)) {
    Rf_error("this process is not a worker that stands ready, or its connection was closed");
  }
  return worker.guard;
}

void rg_fork_member_enter(rg_pool *pool, int number, const rg_run_ends *ends) {
  enter_run(pool, number, ends);
  rg_fork_crash_point(worker.slot->crash, RG_CRASH_MAX);
  open_channel(pool);
}

/* What has been written since the last element goes with the pipes. */
rg_pool *rg_fork_member_quit(void) {
  rg_pool *pool = worker.pool;
  if (!pool) return NULL;
  if (pool->cores) rg_budget_leave();
  rg_process_flush_stdout();
  set_streams(-1, -1);
  rg_fork_crash_point(NULL, 0);
  rg_fd_close(&worker.watch);
  for (int s = 0; s < RG_STREAMS; s++) rg_fd_close(&worker.reader[s]);
  rg_slot *slot = worker.slot;
  worker.slot = NULL;
  worker.pool = NULL;
  atomic_store(&slot->left, RG_LEFT);
  if (rg_fd_is(worker.doorbell, worker.doorbell_pipe)) rg_fd_wake(worker.doorbell);
  if (rg_fd_is(worker.wake, worker.wake_pipe)) rg_fd_close(&worker.wake);
  if (rg_fd_is(worker.doorbell, worker.doorbell_pipe)) rg_fd_close(&worker.doorbell);
  return pool;
}

/* Tells the session why this worker is about to end. */
SEXP ffi_fork_worker_tell(SEXP reason) {
  tell(CHAR(Rf_asChar(reason)));
  return R_NilValue;
}

/* c(cores, low) of the budget that this worker's run has; 0 cores: none, or this is no worker. */
SEXP ffi_fork_worker_budget(void) {
  SEXP result = Rf_allocVector(INTSXP, 2);
  INTEGER(result)[0] = worker.pool ? worker.pool->cores : 0;
  INTEGER(result)[1] = worker.pool ? worker.pool->low : 0;
  return result;
}

/* A worker is about to wait for a run of its own: others have its core meanwhile, and what it has claimed. FALSE: there
   is nothing to take again. */
SEXP ffi_fork_worker_lend(void) {
  if (!worker.pool || !worker.pool->cores || worker.pid != getpid() || !rg_budget_has()) return Rf_ScalarLogical(0);
  rg_queue_give_back(worker.pool->control, worker.number);
  ring_doorbell(rg_clock_now());
  rg_budget_give();
  return Rf_ScalarLogical(1);
}

/* Those who wait are first: who only looks whether its run is over, again and again, would never let that go on. */
SEXP ffi_fork_worker_yield(void) {
  poll(NULL, 0, rg_budget_politeness());
  return R_NilValue;
}

/* TRUE when this worker has its core again, FALSE if it is to ask again: R may be interrupted in between. */
SEXP ffi_fork_worker_take(void) {
  int has = rg_budget_try() != 0;
  if (!has) poll(NULL, 0, rg_budget_pause());
  R_CheckUserInterrupt();
  return Rf_ScalarLogical(has);
}

SEXP ffi_fork_worker_give(void) {
  rg_budget_give();
  return R_NilValue;
}

/* Tells the session why it takes no part in the run, and ends. */
SEXP ffi_fork_member_refuse(SEXP reason) {
  ffi_fork_worker_tell(reason);
  rg_fork_worker_leave(1);
}

typedef struct {
  SEXP call, env;
} worker_call;

static void run_call(void *data) {
  worker_call *main = data;
  Rf_eval(main->call, main->env);
}

static void run_jumped(void *overflowed) { rg_call_r("fork_worker_jumped", 1, (SEXP)overflowed); }

static void run_failed(void *nothing) {
  (void)nothing;
  rg_call_r("fork_worker_failed", 0);
}

/* The number of the try that runs now, among those of this worker; 0: none. */
static int64_t running(void) {
  return worker.slot && atomic_load(&worker.slot->current) >= 0 ? atomic_load(&worker.slot->begun) : 0;
}

/* A top level of its own: no handler, restart or on.exit() of the parent's frames below can
   be reached from the worker. R jumps here when the C stack has overflowed, and when code asks for the top
   level itself; the element that was running fails with that, and the worker goes on. One that fails without an
   element, or twice with the same, says why and ends. */
void rg_fork_worker_run(SEXP call, SEXP env) {
  worker_call main = {call, env};
  int64_t failed = 0;
  int done = R_ToplevelExec(run_call, &main);
  while (!done && running() > failed) {
    failed = running();
    SEXP overflowed = PROTECT(Rf_ScalarLogical(rg_fork_crash_overflowed()));
    done = R_ToplevelExec(run_jumped, overflowed);
    UNPROTECT(1);
  }
  if (!done) {
    tell("it has jumped to the top level of R where no element ran");
    R_ToplevelExec(run_failed, NULL);
  }
  rg_fork_worker_leave(done ? 0 : 125);
}

int rg_fork_pipes_open(const rg_pool *pool, rg_pipes pipes) {
  for (int p = 0; p < RG_STREAMS + 1; p++) pipes[p][0] = pipes[p][1] = -1;
  for (int s = 0; s < RG_STREAMS; s++) {
    if (pool->streams[s] == RG_STREAM_SEND && rg_fd_pipe(pipes[s], RG_FD_READ_END) < 0) return -1;
  }
  return rg_fd_pipe(pipes[RG_STREAMS], RG_FD_WRITE_END);
}

void rg_fork_worker_book(rg_pool *pool, int number, pid_t pid, int id, rg_pipes pipes) {
  rg_worker *place = &pool->workers[number];
  atomic_store(&pool->control->slots[number].pid, (int32_t)pid);
  place->pid = pid;
  place->id = id;
  place->pidfd = rg_process_pidfd(pid);
  place->finished = -1;
  place->ends = 0;
  place->wake = pipes[RG_STREAMS][1];
  place->wake_pipe = rg_fd_identify(place->wake);
  pipes[RG_STREAMS][1] = -1;
  for (int s = 0; s < RG_STREAMS; s++) {
    place->stream[s] = pipes[s][0];
    pipes[s][0] = -1;
  }
}

/* Where there may be no more processes, those count that have been killed and are not gone yet. */
static pid_t fork_worker(void) {
  enum { PATIENCE_MS = 3000 };
  pid_t pid = rg_fork_worker();
  if (pid >= 0 || rg_bury_count() == 0) return pid;
  rg_bury_wait(PATIENCE_MS);
  return rg_fork_worker();
}

/* Forks a worker with number `id` into a slot and evaluates `call` in it, in `env`: 0, or an errno. Signals are held
   back until the child is on the books, so that an interrupt cannot come between. */
static int spawn(rg_pool *pool, int number, int id, SEXP call, SEXP env) {
  pid_t parent = getpid(), pid = -1;
  rg_pipes pipes;
  rg_control_reset_slot(&pool->control->slots[number]);
  int failed = rg_fork_pipes_open(pool, pipes) < 0 ? errno : 0;
  if (!failed) {
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid = fork_worker();
    if (pid == 0) {
      become_worker(pool, number, pipes, parent, &before);
      rg_fork_worker_run(call, env);
    }
    failed = pid < 0 ? errno : 0;
    if (pid > 0) {
      setpgid(pid, pid); /* as the child does: whoever comes first */
      rg_fork_worker_book(pool, number, pid, id, pipes);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
  }
  rg_fork_pipes_close(pipes);
  return failed;
}

/* Forks a worker for each of these places, with the numbers `ids`: list(pid, time, errno) of those that could be had,
   up to the first that could not. One after another, without R code between: each page that the session writes to
   after a fork is copied, and would be again after the next. */
SEXP ffi_fork_workers_spawn(SEXP pointer, SEXP places, SEXP ids, SEXP call, SEXP env) {
  rg_pool *pool = rg_fork_pool_borrow(pointer);
  const R_xlen_t count = XLENGTH(places);
  const char *names[] = {"pid", "time", "errno", ""};
  int *pids = (int *)R_alloc((size_t)count, sizeof *pids), failed = 0;
  double *times = (double *)R_alloc((size_t)count, sizeof *times);
  R_xlen_t started = 0;

  rg_threads_share_settle();
  rg_fork_crash_prepare();
  rg_process_flush_stdout(); /* or each child would print it once more */
  for (; started < count && !failed; started += !failed) {
    const int number = INTEGER_RO(places)[started] - 1;
    times[started] = (double)rg_clock_now() / 1e9;
    failed = spawn(pool, number, INTEGER_RO(ids)[started], call, env);
    pids[started] = (int)pool->workers[number].pid;
  }
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  SEXP pid = SET_VECTOR_ELT(result, 0, Rf_allocVector(INTSXP, started));
  SEXP time = SET_VECTOR_ELT(result, 1, Rf_allocVector(REALSXP, started));
  for (R_xlen_t k = 0; k < started; k++) {
    INTEGER(pid)[k] = pids[k];
    REAL(time)[k] = times[k];
  }
  SET_VECTOR_ELT(result, 2, Rf_ScalarInteger(failed));
  UNPROTECT(1);
  return result;
}

/* Functions of base become others: `values` is a named list. */
SEXP ffi_fork_worker_mask(SEXP values) {
  SEXP names = PROTECT(Rf_getAttrib(values, R_NamesSymbol));
  for (R_xlen_t i = 0; i < XLENGTH(values); i++) {
    SEXP symbol = Rf_install(CHAR(STRING_ELT(names, i)));
    R_unLockBinding(symbol, R_BaseEnv);
    Rf_defineVar(symbol, VECTOR_ELT(values, i), R_BaseEnv);
  }
  UNPROTECT(1);
  return R_NilValue;
}

/* Whatever descriptor of this process is open on one of these files writes to nowhere from
   now on. */
SEXP ffi_fork_worker_silence(SEXP paths) {
  DIR *list = opendir("/proc/self/fd");
  int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  struct dirent *entry;
  while (list && nowhere >= 0 && (entry = readdir(list))) {
    char target[4096];
    ssize_t size = readlinkat(dirfd(list), entry->d_name, target, sizeof target - 1);
    if (size <= 0) continue;
    target[size] = '\0';
    for (R_xlen_t i = 0; i < XLENGTH(paths); i++) {
      if (strcmp(target, CHAR(STRING_ELT(paths, i))) == 0) dup2(nowhere, atoi(entry->d_name));
    }
  }
  if (list) closedir(list);
  rg_fd_close(&nowhere);
  return R_NilValue;
}

/* Leaves the worker without R's end-of-session work; a copy that an element has forked leaves by
   the same way, and takes nothing with it. */
SEXP ffi_fork_worker_exit(SEXP status) {
  if (worker.pid == 0) Rf_error("this process is not a worker");
  if (worker.pid != getpid()) rg_process_leave(Rf_asInteger(status));
  rg_fork_worker_leave(Rf_asInteger(status));
}
