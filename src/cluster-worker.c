#include "cluster-worker.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <R_ext/Utils.h>

#include "cluster-slots.h"
#include "cluster-wire.h"
#include "control.h"
#include "encode.h"
#include "evaluator.h"
#include "region.h"
#include "sys-clock.h"
#include "sys-fd.h"
#include "sys-process.h"
#include "sys-socket.h"

/* Bytes of output that are sent at a time, and of a payload that is sent together with its header. */
enum { OUTPUT_MAX = 1 << 24, FRAME_SMALL = 4096 };

/* The batch that this process is at. What is to be sent goes to the socket of the connection to the
   session, or, where that is not known and what goes with the end of the batch, to an R function. */
static struct {
  SEXP report;
  int fd; /* -1: not known */
  char token[RG_CLUSTER_TOKEN];
  rg_cluster_slot *slot, own; /* `own` where the session is on another machine */
  const double *elements;
  const int *tries;
  R_xlen_t count, at;
  int settled; /* the element's value or error is on its way: it cannot be cancelled any more */
  int64_t started, ended;
  int file[RG_STREAMS]; /* what has been written to the stream, -1: not wanted */
  int64_t sent[RG_STREAMS];
  int before[RG_STREAMS]; /* where the stream went before a batch, -1 between batches */
  rg_process_children others; /* that elements have not started */
  int adopts;                 /* it had orphans of its descendants before, too; -1 where no run is */
} worker = {.adopts = -1, .fd = -1, .file = {-1, -1}, .before = {-1, -1}};

/* Nobody is there any more for whom this process could work. */
static void leave(void) {
  SEXP call = PROTECT(Rf_lang4(Rf_install("quit"), PROTECT(Rf_mkString("no")),
                               PROTECT(Rf_ScalarInteger(1)), PROTECT(Rf_ScalarLogical(FALSE))));
  Rf_eval(call, R_BaseEnv);
  UNPROTECT(4);
}

static void send_frame(const rg_record *header, const void *payload, size_t size) {
  rg_cluster_frame frame = {.magic = RG_CLUSTER_MAGIC,
                            .type = header->type,
                            .kind = header->kind,
                            .tries = header->tries,
                            .index = (double)header->element + 1,
                            .times = {(double)worker.started / 1e9, (double)worker.ended / 1e9},
                            .size = size};
  memcpy(frame.token, worker.token, sizeof frame.token);
  char both[sizeof frame + FRAME_SMALL];
  memcpy(both, &frame, sizeof frame);
  if (size <= FRAME_SMALL) {
    if (size > 0) memcpy(both + sizeof frame, payload, size);
    if (rg_cluster_wire_send_all(worker.fd, both, sizeof frame + size) < 0) leave();
  } else if (rg_cluster_wire_send_all(worker.fd, &frame, sizeof frame) < 0 ||
             rg_cluster_wire_send_all(worker.fd, payload, size) < 0) {
    leave();
  }
}

/* `kind` in the header of output is the stream. */
static void report(const rg_record *header, SEXP payload) {
  PROTECT(payload);
  SEXP type = PROTECT(Rf_ScalarInteger(header->type));
  SEXP index = PROTECT(Rf_ScalarReal((double)header->element + 1));
  SEXP try = PROTECT(Rf_ScalarInteger(header->tries));
  SEXP kind = PROTECT(Rf_ScalarInteger(header->kind));
  SEXP times = PROTECT(Rf_allocVector(REALSXP, 2));
  REAL(times)[0] = (double)worker.started / 1e9;
  REAL(times)[1] = (double)worker.ended / 1e9;
  SEXP call = PROTECT(Rf_lang6(worker.report, type, index, try, kind, times));
  SETCDR(Rf_nthcdr(call, 5), Rf_list1(payload));
  Rf_eval(call, R_BaseEnv);
  UNPROTECT(7);
}

static void report_later(const rg_record *header, const void *bytes, size_t size) {
  SEXP raw = Rf_allocVector(RAWSXP, (R_xlen_t)size);
  if (size > 0) memcpy(RAW(raw), bytes, size);
  report(header, raw);
}

static void report_bytes(const rg_record *header, const void *bytes, size_t size) {
  if (worker.fd >= 0) {
    send_frame(header, bytes, size);
  } else {
    report_later(header, bytes, size);
  }
}

/* What the element has written so far goes before anything else that it has to tell. A program that
   it has started may be writing meanwhile: what has been read is given back, nothing is cut off. */
static void report_output(int64_t element) {
  rg_process_flush_stdout();
  for (int s = 0; s < RG_STREAMS; s++) {
    struct stat file;
    if (worker.file[s] < 0 || fstat(worker.file[s], &file) < 0) continue;
    const rg_record header = {.type = RG_RECORD_OUTPUT, .kind = (uint8_t)s, .element = element};
    int64_t end = file.st_size, from = worker.sent[s];
    while (worker.sent[s] < end) {
      int64_t left = end - worker.sent[s], size = left < OUTPUT_MAX ? left : OUTPUT_MAX;
      SEXP text = PROTECT(Rf_allocVector(RAWSXP, (R_xlen_t)size));
      if (pread(worker.file[s], RAW(text), (size_t)size, worker.sent[s]) != size) {
        Rf_error("cannot read the output of a worker: %s", strerror(errno));
      }
      worker.sent[s] += size;
      report_bytes(&header, RAW_RO(text), (size_t)size);
      UNPROTECT(1);
    }
    if (end > from) rg_fd_punch(worker.file[s], from, end - from);
  }
}

/* An interrupt that the session has begun to send is taken here, where it does no harm. A session
   that has died meanwhile will not send it. */
static void await_interrupt(void) {
  const struct timespec nap = {0, 100000};
  for (int i = 0; i < 50000 && !atomic_load(&worker.slot->signalled); i++) nanosleep(&nap, NULL);
  R_CheckUserInterrupt();
  /* Another thread may have got the signal and hand it on. */
  nanosleep(&nap, NULL);
  R_CheckUserInterrupt();
}

static int64_t channel_next(void *state, int32_t *tries) {
  (void)state;
  int64_t last = atomic_exchange(&worker.slot->current, 0);
  int64_t cancel = atomic_load(&worker.slot->cancel);
  if (last > 0 && (cancel == last || cancel == RG_CLUSTER_CANCEL_ALL)) await_interrupt();
  cancel = atomic_load(&worker.slot->cancel);
  if (worker.at == worker.count || cancel == RG_CLUSTER_CANCEL_ALL) return -1;
  /* Meant for an element before this one. */
  atomic_compare_exchange_strong(&worker.slot->cancel, &cancel, 0);
  int64_t element = (int64_t)worker.elements[worker.at] - 1;
  *tries = worker.tries[worker.at++];
  worker.settled = 0;
  worker.started = rg_clock_now();
  atomic_store(&worker.slot->started, worker.started);
  atomic_store(&worker.slot->cpu_started, rg_clock_cpu());
  atomic_store(&worker.slot->last, element + 1);
  atomic_store(&worker.slot->try, *tries);
  atomic_store(&worker.slot->current, element + 1);
  return element;
}

static void channel_ended(void *state, int64_t element) {
  (void)state;
  worker.ended = rg_clock_now();
  report_output(element);
}

/* A small value after which nothing is left to do goes with the end of the batch, which comes at once: one
   message less to be sent and to be woken by. */
static int goes_with_end(const rg_record *header, size_t size) {
  return header->type == RG_RECORD_VALUE && worker.at == worker.count && size <= FRAME_SMALL;
}

static void channel_publish(void *state, rg_record *header, const rg_buffer *payload) {
  (void)state;
  if (header->type == RG_RECORD_CONDITION) report_output(header->element);
  if (header->type == RG_RECORD_VALUE || header->type == RG_RECORD_ERROR) worker.settled = 1;
  if (goes_with_end(header, payload->size)) {
    report_later(header, payload->data, payload->size);
  } else {
    report_bytes(header, payload->data, payload->size);
  }
}

static rg_cancel channel_cancelled(void *state, int64_t element, int come) {
  (void)state, (void)come;
  int64_t cancel = atomic_load(&worker.slot->cancel);
  if (worker.settled) return RG_CANCEL_PASSED;
  return cancel == element + 1 || cancel == RG_CLUSTER_CANCEL_ALL ? RG_CANCEL_THIS : RG_CANCEL_NONE;
}

/* The elements (numbers from 1) that the evaluator is to run next, and which try of each that is.
   `slots`, of which this worker has `number`, is NULL where they are not to be had. The arguments
   must be kept until the batch is done. */
SEXP ffi_cluster_worker_batch(SEXP elements, SEXP tries, SEXP slots, SEXP number, SEXP report, SEXP fd,
                              SEXP token) {
  static const rg_channel channel = {.next = channel_next,
                                     .ended = channel_ended,
                                     .publish = channel_publish,
                                     .cancelled = channel_cancelled,
                                     .arena = NULL,
                                     .share_from = INT64_MAX};
  worker.report = report;
  worker.fd = Rf_asInteger(fd);
  /* A message that follows another must not wait until that has been acknowledged. */
  if (worker.fd >= 0) rg_socket_send_at_once(worker.fd);
  strncpy(worker.token, CHAR(STRING_ELT(token, 0)), sizeof worker.token - 1);
  worker.slot = slots == R_NilValue ? &worker.own
                                    : rg_cluster_slots_borrow(slots, Rf_asInteger(number) - 1);
  worker.elements = REAL(elements);
  worker.tries = INTEGER(tries);
  worker.count = XLENGTH(elements);
  worker.at = 0;
  rg_evaluator_set_channel(&channel, R_NilValue);
  return R_NilValue;
}

typedef struct {
  SEXP call, env;
} worker_call;

static void run_call(void *data) {
  const worker_call *main = data;
  Rf_eval(main->call, main->env);
}

/* The try that runs now, among those of the batch; 0: none. */
static R_xlen_t running(void) { return atomic_load(&worker.slot->current) > 0 ? worker.at : 0; }

/* Evaluates `call`, which runs the batch, at a top level of its own: code that jumps to R's would leave the loop in
   which the node waits for messages, and that is the end of the node. The element that was running has failed then:
   `jumped` is evaluated instead, and runs the others. */
SEXP ffi_cluster_worker_run(SEXP call, SEXP jumped, SEXP env) {
  worker_call main = {call, env};
  R_xlen_t failed = 0;
  int done = R_ToplevelExec(run_call, &main);
  main.call = jumped;
  while (!done && running() > failed) {
    failed = running();
    done = R_ToplevelExec(run_call, &main);
  }
  if (!done) leave();
  return R_NilValue;
}

static void fail_to_divert(void) {
  Rf_error("cannot take the output of a worker: %s", strerror(errno));
}

/* stdout and stderr go to files in memory, or nowhere: code in C and programs that the element
   starts write there as well. */
SEXP ffi_cluster_worker_divert(void) {
  rg_process_flush_stdout();
  int nowhere = rg_fd_lift(open("/dev/null", O_WRONLY | O_CLOEXEC));
  int good = nowhere >= 0;
  for (int s = 0; s < RG_STREAMS && good; s++) {
    worker.before[s] = fcntl(s + 1, F_DUPFD_CLOEXEC, 3);
    good = worker.before[s] >= 0 && dup2(worker.file[s] >= 0 ? worker.file[s] : nowhere, s + 1) >= 0;
  }
  int saved = errno;
  rg_fd_close(&nowhere);
  if (!good) {
    ffi_cluster_worker_restore();
    errno = saved;
    fail_to_divert();
  }
  return R_NilValue;
}

SEXP ffi_cluster_worker_restore(void) {
  rg_process_flush_stdout();
  for (int s = 0; s < RG_STREAMS; s++) {
    if (worker.before[s] >= 0) dup2(worker.before[s], s + 1);
    rg_fd_close(&worker.before[s]);
  }
  return R_NilValue;
}

/* What elements have started goes with their run, also if it has made itself a daemon. What was there before is the
   user's. */
static void end_programs(void) {
  if (worker.adopts < 0) return;
  rg_process_children_end(&worker.others);
  rg_process_children_forget(&worker.others);
  rg_process_set_adopting(worker.adopts);
  worker.adopts = -1;
}

/* A run begins. What this process has in shared memory, the session has as well if it is `near`. Output is wanted of
   the streams (stdout, stderr) for which `wanted` is TRUE. */
SEXP ffi_cluster_worker_begin(SEXP wanted, SEXP near) {
  ffi_cluster_worker_end();
  worker.adopts = rg_process_adopts();
  rg_process_adopt();
  rg_process_children_note(&worker.others);
  rg_region_note_known(Rf_asLogical(near) == TRUE);
  rg_evaluator_hear_interrupts(1);
  for (int s = 0; s < RG_STREAMS; s++) {
    worker.sent[s] = 0;
    if (LOGICAL(wanted)[s] != TRUE) continue;
    worker.file[s] = rg_fd_memory("regatta-output");
    if (worker.file[s] < 0) fail_to_divert();
    fcntl(worker.file[s], F_SETFL, fcntl(worker.file[s], F_GETFL) | O_APPEND);
  }
  return R_NilValue;
}

SEXP ffi_cluster_worker_end(void) {
  end_programs();
  rg_evaluator_hear_interrupts(0);
  ffi_cluster_worker_restore();
  for (int s = 0; s < RG_STREAMS; s++) rg_fd_close(&worker.file[s]);
  return R_NilValue;
}

/* The count of a record of suppressed conditions. */
SEXP ffi_cluster_count(SEXP bytes) {
  int64_t count = 0;
  if (XLENGTH(bytes) == sizeof count) memcpy(&count, RAW_RO(bytes), sizeof count);
  return Rf_ScalarReal((double)count);
}

SEXP ffi_cluster_decode(SEXP bytes, SEXP copy) {
  rg_copy wanted = Rf_asLogical(copy) == TRUE ? RG_COPY_ALL : RG_COPY_NONE;
  return rg_decode(RAW_RO(bytes), (size_t)XLENGTH(bytes), NULL, wanted);
}
