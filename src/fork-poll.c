#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arena-block.h"
#include "call-r.h"
#include "encode.h"
#include "evaluator.h"
#include "fork-pool.h"
#include "queue.h"
#include "sys-clock.h"
#include "sys-fd.h"
#include "sys-layout.h"
#include "sys-memory.h"

RG_LAYOUT_SIZE(rg_stored, 24);
RG_LAYOUT(rg_stored, span, 0, 16);
RG_LAYOUT(rg_stored, size, 16, 8);

/* The parent's side: sleeping until there is news from the workers and turning it into the
   driver's events. */

enum {
  VALUES_MAX = 4096,       /* values handed to the driver at a time */
  EVENTS_MAX = 256,        /* other events, likewise; one step may add some more: */
  EVENTS_SPARE = 16,
  BATCH_EVENTS = 0, /* lists of a batch: */
  BATCH_CONDITIONS, /* those of a series */
  BATCH_RESULTS,    /* of each kind of results, and what is told of their ends */
  BATCH_LISTS = BATCH_RESULTS + 2 * 2,
  SAID_KEPT = 65536,       /* bytes of memory that a pool keeps for output */
  STREAM_READ_MAX = 65536, /* bytes read from a stream before the others get their turn */
  SLEEP_MAX_MS = 200       /* a Ctrl-C between R's check and poll() waits this long */
};

/* What the ends of many elements are told of in one event. */
typedef enum { RESULT_VALUE = 0, RESULT_ALIKE, RESULT_KINDS } result_kind;

/* What is told of several elements in one event, as long as nothing else comes between. */
typedef enum { SERIES_NONE = 0, SERIES_OUTPUT, SERIES_CONDITIONS } series_type;

typedef struct {
  series_type type;
  int kind; /* the stream, or the kind of condition */
  int count;
  double index[EVENTS_MAX], size[EVENTS_MAX]; /* of output: its bytes, which stand in the pool's buffer `said` */
} series;

/* Where what is told of ended elements is written: the data of the columns. */
typedef struct {
  int *worker, *try;
  double *index, *start, *end, *bytes, *cpu, *peak;
} end_columns;

typedef struct {
  rg_pool *pool;
  SEXP all; /* the lists: protected by ffi_fork_poll() */
  int events;
  series series;
  int count[RESULT_KINDS], room; /* of those events: how many ends, of how many */
  end_columns columns[RESULT_KINDS];
} batch;

/* Made when the first one comes: most looks find few things of one kind, and nothing is allocated for others. */
static SEXP batch_list(batch *b, int which, R_xlen_t size) {
  SEXP list = VECTOR_ELT(b->all, which);
  return list != R_NilValue ? list : SET_VECTOR_ELT(b->all, which, Rf_allocVector(VECSXP, size));
}

static void append_event(batch *b, SEXP event) {
  SEXP list = batch_list(b, BATCH_EVENTS, EVENTS_MAX + EVENTS_SPARE);
  SET_VECTOR_ELT(list, b->events++, event);
}

static SEXP numbers(const double *from, int count) {
  SEXP vector = Rf_allocVector(REALSXP, count);
  memcpy(REAL(vector), from, (size_t)count * sizeof *from);
  return vector;
}

static const char *kind_name(int kind) {
  static const char *const names[RG_CONDITION_KINDS] = {"message", "warning", "condition"};
  return names[kind >= 0 && kind < RG_CONDITION_KINDS ? kind : RG_OTHER_CONDITION];
}

static SEXP output_event(batch *b) {
  const char *names[] = {"type", "index", "stream", "size", "text", ""};
  const rg_buffer *said = &b->pool->said;
  SEXP event = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(event, 0, Rf_mkString("output"));
  SET_VECTOR_ELT(event, 1, numbers(b->series.index, b->series.count));
  SET_VECTOR_ELT(event, 2, Rf_mkString(b->series.kind == RG_STDOUT ? "stdout" : "stderr"));
  SET_VECTOR_ELT(event, 3, numbers(b->series.size, b->series.count));
  SEXP text = SET_VECTOR_ELT(event, 4, Rf_allocVector(RAWSXP, (R_xlen_t)said->size));
  memcpy(RAW(text), said->data, said->size);
  UNPROTECT(1);
  return event;
}

static SEXP condition_event(batch *b) {
  const char *names[] = {"type", "index", "kind", "cnd", ""};
  SEXP event = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(event, 0, Rf_mkString("condition"));
  SET_VECTOR_ELT(event, 1, numbers(b->series.index, b->series.count));
  SET_VECTOR_ELT(event, 2, Rf_mkString(kind_name(b->series.kind)));
  SET_VECTOR_ELT(event, 3, Rf_xlengthgets(VECTOR_ELT(b->all, BATCH_CONDITIONS), b->series.count));
  UNPROTECT(1);
  return event;
}

/* A series so far becomes an event. */
static void tell_series(batch *b) {
  if (b->series.count > 0) append_event(b, b->series.type == SERIES_OUTPUT ? output_event(b) : condition_event(b));
  b->series.type = SERIES_NONE;
  b->series.count = 0;
  rg_buffer_reset(&b->pool->said, SAID_KEPT);
}

/* The place of the next member in a series of this type and kind. */
static int extend_series(batch *b, series_type type, int kind, int64_t element) {
  series *now = &b->series;
  if (now->type != type || now->kind != kind || now->count == EVENTS_MAX) {
    tell_series(b);
    now->type = type;
    now->kind = kind;
  }
  now->index[now->count] = (double)(element + 1);
  return now->count;
}

static void add_event(batch *b, SEXP event) {
  tell_series(b);
  append_event(b, event);
}

static int is_full(const batch *b) {
  return b->count[RESULT_VALUE] >= b->room || b->count[RESULT_ALIKE] >= b->room ||
         b->events + b->series.count >= EVENTS_MAX;
}

static SEXP element_number(int64_t element) { return Rf_ScalarReal((double)(element + 1)); }

/* Output streams. */

/* Reads what a stream holds now; 1 if there was anything. */
static int drain(rg_pool *pool, int w, int s) {
  rg_worker *worker = &pool->workers[w];
  rg_slot *slot = &pool->control->slots[w];
  if (worker->stream[s] < 0) return 0;
  if (rg_buffer_reserve(&worker->pending[s], STREAM_READ_MAX) < 0) return 0;
  char *to = worker->pending[s].data + worker->pending[s].size;
  atomic_store(&slot->draining[s], 1);
  ssize_t n = read(worker->stream[s], to, STREAM_READ_MAX);
  if (n > 0) atomic_fetch_add(&slot->drained[s], n);
  atomic_store(&slot->draining[s], 0);
  if (n > 0) worker->pending[s].size += (size_t)n;
  if (n == 0) rg_fd_close(&worker->stream[s]); /* nobody can write any more, and poll() says so */
  return n > 0;
}

/* The first `size` pending bytes as the output of `element`. */
static void add_output(batch *b, int w, int s, size_t size, int64_t element) {
  rg_worker *worker = &b->pool->workers[w];
  if (size == 0) return;
  int at = extend_series(b, SERIES_OUTPUT, s, element);
  if (rg_buffer_append(&b->pool->said, worker->pending[s].data, size) < 0) {
    Rf_error("cannot allocate %.0f bytes for the output of an element", (double)b->pool->said.size + (double)size);
  }
  b->series.size[at] = (double)size;
  b->series.count++;
  rg_buffer_consume(&worker->pending[s], size);
  worker->given[s] += (int64_t)size;
}

/* An element has ended and left its streams at these lengths. The bytes are in the pipes,
   since they were counted there. */
static void take_output_end(batch *b, int w, const rg_record *record) {
  int64_t ends[RG_STREAMS];
  memcpy(ends, rg_record_payload(record), sizeof ends);
  rg_worker *worker = &b->pool->workers[w];
  for (int s = 0; s < RG_STREAMS; s++) {
    while (worker->given[s] + (int64_t)worker->pending[s].size < ends[s]) {
      if (!drain(b->pool, w, s)) break;
    }
    int64_t size = ends[s] - worker->given[s];
    if (size > (int64_t)worker->pending[s].size) size = (int64_t)worker->pending[s].size;
    if (size > 0) add_output(b, w, s, (size_t)size, record->element);
  }
}

/* Records. */

typedef enum { RG_TRUST_NOTHING = 0, RG_TRUST_HEADER, RG_TRUST_ALL } rg_trust;

/* Numbers from shared memory, to which foreign code in a worker can write by mistake. */

static int64_t current_of(const rg_pool *pool, int w) {
  int64_t current = atomic_load(&pool->control->slots[w].current);
  return current >= 0 && current < pool->elements ? current : -1;
}

static int ends_element(const rg_record *record) {
  return record->type == RG_RECORD_VALUE || record->type == RG_RECORD_ERROR;
}

/* Where a payload lies in the arena: in the file as it is, whatever the processes have written down
   about that, and not where a vector of this session stands. */
static int is_sound_stored(const rg_pool *pool, const rg_record *record) {
  rg_stored stored;
  if (record->payload != sizeof stored) return 0;
  if (!rg_arena_is_whole(pool->arena)) return 1; /* mapping it fails, and says why */
  memcpy(&stored, rg_record_payload(record), sizeof stored);
  int64_t end = rg_arena_size(pool->arena), page = rg_arena_page();
  return stored.span.offset >= 0 && stored.span.offset % page == 0 && stored.span.size > 0 &&
         stored.span.size % page == 0 && stored.span.size <= end &&
         stored.span.offset <= end - stored.span.size && stored.size > 0 &&
         stored.size <= stored.span.size && !rg_block_owns(pool->arena, stored.span.offset);
}

static int is_payload_sound(const rg_pool *pool, const rg_record *record) {
  if (!rg_record_is_intact(record)) return 0;
  if (record->flags & RG_RECORD_PART) return 1;
  if (record->flags & RG_RECORD_STORED) return is_sound_stored(pool, record);
  if (record->type == RG_RECORD_OUTPUT) return record->payload == RG_STREAMS * sizeof(int64_t);
  return record->type != RG_RECORD_SUPPRESSED || record->payload == sizeof(int64_t);
}

/* What a record is worth: its payload may cost the element its value, but of what else an element has
   sent nothing may be missing without a word. */
static rg_trust trust_in(const rg_pool *pool, const rg_record *record) {
  if (record->element < 0 || record->element >= pool->elements) return RG_TRUST_NOTHING;
  if (is_payload_sound(pool, record)) return RG_TRUST_ALL;
  return ends_element(record) ? RG_TRUST_HEADER : RG_TRUST_NOTHING;
}

/* The worker is killed and treated as lost with the element that it runs; its death says why. */
static void give_up_worker(rg_pool *pool, int w) {
  pool->workers[w].damaged = 1;
  pool->lost_spans = 1;
  rg_process_kill_tree(pool->workers[w].pid);
}

typedef struct {
  rg_pool *pool;
  rg_stored stored;
  void *bytes;
} stored_call;

static SEXP read_stored(void *data) {
  stored_call *call = data;
  return rg_decode(call->bytes, (size_t)call->stored.size, call->pool->arena, call->pool->copy);
}

static void drop_stored(void *data) {
  stored_call *call = data;
  rg_arena_unmap(call->bytes, call->stored.span);
  rg_arena_release(call->pool->arena, call->stored.span);
}

static SEXP decode_stored(rg_pool *pool, const void *payload) {
  stored_call call = {.pool = pool};
  memcpy(&call.stored, payload, sizeof call.stored);
  call.bytes = rg_arena_map(pool->arena, call.stored.span);
  if (!call.bytes) {
    if (errno == ENOMEM) rg_encode_abort_maps(call.stored.size, rg_map_count());
    Rf_error("cannot map a result of %.0f bytes: %s", (double)call.stored.size, strerror(errno));
  }
  return R_ExecWithCleanup(read_stored, &call, drop_stored, &call);
}

static void keep_part(rg_worker *worker, const rg_record *record) {
  if (rg_buffer_append(&worker->parts, rg_record_payload(record), record->payload) < 0) {
    Rf_error("cannot allocate %.0f bytes for a result",
             (double)worker->parts.size + (double)record->payload);
  }
}

static SEXP decode_record(batch *b, int w, const rg_record *record) {
  rg_pool *pool = b->pool;
  rg_worker *worker = &pool->workers[w];
  const void *payload = rg_record_payload(record);
  if (record->flags & RG_RECORD_STORED) return decode_stored(pool, payload);
  if (worker->parts.size == 0) {
    return rg_decode(payload, record->payload, pool->arena, pool->copy);
  }
  keep_part(worker, record);
  SEXP value = rg_decode(worker->parts.data, worker->parts.size, pool->arena, pool->copy);
  rg_buffer_reset(&worker->parts, 0);
  return value;
}

/* Columns of what is told of ended elements, as list elements of `ends` and of the event. */
enum {
  END_WORKER = 0,
  END_INDEX,
  END_TRY,
  END_START,
  END_END,
  END_BYTES,
  END_CPU,
  END_PEAK,
  END_COLUMNS
};

static const SEXPTYPE end_types[END_COLUMNS] = {INTSXP,  REALSXP, INTSXP,  REALSXP,
                                               REALSXP, REALSXP, REALSXP, REALSXP};

static SEXP new_ends(R_xlen_t count, end_columns *columns) {
  SEXP ends = PROTECT(Rf_allocVector(VECSXP, END_COLUMNS));
  for (int c = 0; c < END_COLUMNS; c++) {
    SET_VECTOR_ELT(ends, c, Rf_allocVector(end_types[c], count));
  }
#define NUMBERS(c) REAL(VECTOR_ELT(ends, c))
  *columns = (end_columns){INTEGER(VECTOR_ELT(ends, END_WORKER)), INTEGER(VECTOR_ELT(ends, END_TRY)),
                           NUMBERS(END_INDEX), NUMBERS(END_START), NUMBERS(END_END), NUMBERS(END_BYTES),
                           NUMBERS(END_CPU), NUMBERS(END_PEAK)};
#undef NUMBERS
  UNPROTECT(1);
  return ends;
}

static void note_end(const end_columns *columns, int at, const rg_pool *pool, int w, const rg_record *record) {
  const rg_task *task = &pool->control->tasks[record->element];
  columns->worker[at] = pool->workers[w].id;
  columns->index[at] = (double)(record->element + 1);
  columns->try[at] = record->tries;
  columns->start[at] = (double)task->start / 1e9;
  columns->end[at] = (double)task->end / 1e9;
  columns->bytes[at] = (double)task->bytes;
  columns->cpu[at] = task->peak > 0 ? (double)task->cpu : NA_REAL;
  columns->peak[at] = task->peak > 0 ? (double)task->peak : NA_REAL;
}

/* The event: `what` is named `name`, and the columns have `count` entries. */
static void add_ended(batch *b, SEXP ends, int count, const char *name, SEXP what) {
  const char *names[] = {"type",  "worker", "index", "try", "start", "end",
                         "bytes", "cpu",    "peak",  name,  ""};
  SEXP event = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(event, 0, Rf_mkString("ended"));
  for (int c = 0; c < END_COLUMNS; c++) {
    SEXP column = VECTOR_ELT(ends, c);
    SET_VECTOR_ELT(event, c + 1, XLENGTH(column) == count ? column : Rf_xlengthgets(column, count));
  }
  SET_VECTOR_ELT(event, END_COLUMNS + 1, what);
  add_event(b, event);
  UNPROTECT(1);
}

static void add_result(batch *b, result_kind kind, int w, const rg_record *record) {
  int at = BATCH_RESULTS + 2 * kind;
  if (VECTOR_ELT(b->all, at + 1) == R_NilValue) SET_VECTOR_ELT(b->all, at + 1, new_ends(b->room, &b->columns[kind]));
  /* Before the value, which nothing protects while arguments are evaluated. */
  SEXP values = batch_list(b, at, b->room);
  SET_VECTOR_ELT(values, b->count[kind], decode_record(b, w, record));
  note_end(&b->columns[kind], b->count[kind]++, b->pool, w, record);
}

/* What has been noted so becomes an event; what comes later is for another one. */
static void tell_results(batch *b, result_kind kind) {
  static const char *const names[RESULT_KINDS] = {"values", "alike"};
  int at = BATCH_RESULTS + 2 * kind, count = b->count[kind];
  if (count == 0) return;
  SEXP values = VECTOR_ELT(b->all, at);
  PROTECT(values = count < b->room ? Rf_xlengthgets(values, count) : values);
  add_ended(b, VECTOR_ELT(b->all, at + 1), count, names[kind], values);
  UNPROTECT(1);
  b->count[kind] = 0;
  for (int list = at; list <= at + 1 && count == b->room; list++) SET_VECTOR_ELT(b->all, list, R_NilValue);
}

/* An error of the element with this record of it, which is protected. */
static void add_error(batch *b, int w, const rg_record *record, SEXP error) {
  tell_results(b, RESULT_ALIKE); /* they are like an error that has come before this one */
  end_columns columns;
  SEXP ends = PROTECT(new_ends(1, &columns));
  note_end(&columns, 0, b->pool, w, record);
  add_ended(b, ends, 1, "error", error);
  UNPROTECT(1);
}

/* The element has ended, and how it did has been overwritten before it was read. What it has stored in
   the arena nobody can tell any more. */
static void add_overwritten(batch *b, int w, const rg_record *record) {
  b->pool->lost_spans = 1;
  b->pool->workers[w].overwritten = 0;
  rg_buffer_reset(&b->pool->workers[w].parts, 0);
  SEXP what = PROTECT(rg_call_r("overwritten_record", 0));
  add_error(b, w, record, what);
  UNPROTECT(1);
}

static void add_condition(batch *b, int w, const rg_record *record) {
  int at = extend_series(b, SERIES_CONDITIONS, record->kind, record->element);
  /* Before the condition, which nothing protects while arguments are evaluated. */
  SEXP conditions = batch_list(b, BATCH_CONDITIONS, EVENTS_MAX);
  SET_VECTOR_ELT(conditions, at, decode_record(b, w, record));
  b->series.count++;
}

static void add_suppressed(batch *b, const rg_record *record) {
  const char *names[] = {"type", "index", "kind", "count", ""};
  int64_t count;
  memcpy(&count, rg_record_payload(record), sizeof count);
  SEXP event = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(event, 0, Rf_mkString("suppressed"));
  SET_VECTOR_ELT(event, 1, element_number(record->element));
  SET_VECTOR_ELT(event, 2, Rf_mkString(kind_name(record->kind)));
  SET_VECTOR_ELT(event, 3, Rf_ScalarReal((double)count));
  add_event(b, event);
  UNPROTECT(1);
}

/* The number of an element that another one's place in the queue was overwritten with: it has run twice, and
   what counts is the first end. The other element is missed later. */
static void drop_second(batch *b, int w, const rg_record *record) {
  rg_worker *worker = &b->pool->workers[w];
  b->pool->lost_spans = 1; /* what it has stored nobody will hear of */
  worker->overwritten = 0;
  rg_buffer_reset(&worker->parts, 0);
}

static void take_end(batch *b, int w, const rg_record *record) {
  rg_worker *worker = &b->pool->workers[w];
  if (b->pool->settled[record->element]) {
    drop_second(b, w, record);
  } else if (worker->overwritten) {
    add_overwritten(b, w, record);
  } else if (record->type == RG_RECORD_VALUE) {
    add_result(b, RESULT_VALUE, w, record);
  } else if (record->kind == RG_ERROR_ALIKE) {
    add_result(b, RESULT_ALIKE, w, record);
  } else {
    SEXP what = PROTECT(decode_record(b, w, record));
    add_error(b, w, record, what);
    UNPROTECT(1);
  }
  b->pool->settled[record->element] = 1;
  worker->finished = record->element;
  worker->ends++;
}

static void take_record(batch *b, int w, const rg_record *record, rg_trust trust) {
  rg_worker *worker = &b->pool->workers[w];
  if (trust != RG_TRUST_ALL) worker->overwritten = 1;
  if (record->flags & RG_RECORD_PART) {
    if (!worker->overwritten) keep_part(worker, record);
    return;
  }
  switch (record->type) {
  case RG_RECORD_VALUE:
  case RG_RECORD_ERROR:
    take_end(b, w, record);
    break;
  case RG_RECORD_CONDITION:
    add_condition(b, w, record);
    break;
  case RG_RECORD_SUPPRESSED:
    add_suppressed(b, record);
    break;
  case RG_RECORD_OUTPUT:
    take_output_end(b, w, record);
    break;
  default:
    Rf_error("worker %d sent a record of unknown type %d", (int)worker->pid, record->type);
  }
}

/* News of one worker, as far as they go now. Order matters: bytes read from a stream before
   `current` is read, and that before the end of the ring, were written by an element whose
   end the ring tells, or else by `current`. */
static int take_worker(batch *b, int w) {
  rg_worker *worker = &b->pool->workers[w];
  rg_slot *slot = &b->pool->control->slots[w];
  int news = 0;
  size_t safe[RG_STREAMS];
  for (int s = 0; s < RG_STREAMS; s++) {
    news |= drain(b->pool, w, s);
    safe[s] = worker->pending[s].size;
  }
  int64_t current = current_of(b->pool, w);
  uint64_t end = rg_ring_end(&slot->ring);
  const rg_record *record;
  int damaged = 0;
  if (worker->damaged) return 0;
  while (!is_full(b) && (record = rg_ring_peek(&slot->ring, end, &damaged))) {
    rg_trust trust = trust_in(b->pool, record);
    if ((damaged = trust == RG_TRUST_NOTHING)) break;
    int64_t given[RG_STREAMS] = {worker->given[RG_STDOUT], worker->given[RG_STDERR]};
    take_record(b, w, record, trust);
    for (int s = 0; s < RG_STREAMS; s++) {
      size_t taken = (size_t)(worker->given[s] - given[s]);
      safe[s] = taken < safe[s] ? safe[s] - taken : 0;
    }
    rg_ring_release(&slot->ring, record);
    news = 1;
  }
  if (damaged) {
    give_up_worker(b->pool, w);
    return 0;
  }
  if (is_full(b)) return 1;
  if (current < 0) current = worker->finished;
  for (int s = 0; s < RG_STREAMS; s++) {
    if (current >= 0) add_output(b, w, s, safe[s], current);
    news |= worker->pending[s].size > 0 && current >= 0;
  }
  return news;
}

/* Deaths. */

static SEXP crash_lines(const rg_slot *slot, int damaged) {
  char text[RG_CRASH_MAX];
  if (damaged) {
    return Rf_mkString("What it had in shared memory was damaged, so that the session has ended it: "
                       "code that it has called, in this element or an earlier one, writes where "
                       "it should not.");
  }
  memcpy(text, slot->crash, sizeof text);
  text[sizeof text - 1] = '\0';
  return Rf_mkString(text);
}

/* `element` is what it had begun, -1: nothing. */
static void add_left(batch *b, int w, int64_t element, const rg_process_end *end) {
  const char *names[] = {"type", "worker",    "signal", "status", "peak", "oom",
                         "backtrace", "index", "start",  "end",    "element_peak", ""};
  const rg_worker *worker = &b->pool->workers[w];
  const rg_task *task = element < 0 ? NULL : &b->pool->control->tasks[element];
  SEXP event = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(event, 0, Rf_mkString("left"));
  SET_VECTOR_ELT(event, 1, Rf_ScalarInteger(worker->id));
  SET_VECTOR_ELT(event, 2, Rf_ScalarInteger(end->signal < 0 ? NA_INTEGER : end->signal));
  SET_VECTOR_ELT(event, 3, Rf_ScalarInteger(end->status < 0 ? NA_INTEGER : end->status));
  SET_VECTOR_ELT(event, 4, Rf_ScalarReal(end->peak_bytes < 0 ? NA_REAL : (double)end->peak_bytes));
  SET_VECTOR_ELT(event, 5, Rf_ScalarReal((double)rg_memory_oom_kills()));
  SET_VECTOR_ELT(event, 6, crash_lines(&b->pool->control->slots[w], worker->damaged));
  for (int c = 7; c <= 10; c++) SET_VECTOR_ELT(event, c, Rf_allocVector(REALSXP, task ? 1 : 0));
  if (task) {
    REAL(VECTOR_ELT(event, 7))[0] = (double)(element + 1);
    REAL(VECTOR_ELT(event, 8))[0] = task->start ? (double)task->start / 1e9 : NA_REAL;
    REAL(VECTOR_ELT(event, 9))[0] = (double)task->end / 1e9;
    REAL(VECTOR_ELT(event, 10))[0] = task->peak > 0 ? (double)task->peak : NA_REAL;
  }
  add_event(b, event);
  UNPROTECT(1);
}

/* Of a damaged worker: what it had sent and nobody had read is run again by another one. Returns the
   element that it had begun last, which is the one that is lost, or -1. */
static int64_t recover_unread(rg_pool *pool, int w) {
  int64_t last = -1;
  rg_task *tasks = pool->control->tasks;
  for (int pass = 0; pass < 2; pass++) {
    for (int64_t e = 0; e < pool->elements; e++) {
      if (pool->settled[e] || tasks[e].start == 0 || tasks[e].worker != w) continue;
      if (pass == 0 && (last < 0 || tasks[e].start >= tasks[last].start)) last = e;
      if (pass == 0 || e == last) continue;
      tasks[e].start = 0; /* this worker's successor has not begun it */
      rg_queue_push(pool->control, &e, 1);
    }
  }
  return last;
}

/* A worker that has ended: everything it sent is taken, what it had claimed and not begun
   goes back to the queue, and what it has started is ended: its process group went when it was
   collected, programs that have left it are found by its mark. The lock of the queue is held, and given
   back before R can be asked for anything. */
static void take_death(batch *b, int w, rg_process_end *end) {
  rg_pool *pool = b->pool;
  rg_worker *worker = &pool->workers[w];
  rg_slot *slot = &pool->control->slots[w];
  int64_t unbegun[RG_CLAIM_MAX];
  int64_t current = current_of(pool, w);
  worker->damaged |= atomic_load(&slot->damaged);
  /* Its end has arrived. */
  if (!worker->damaged && atomic_load(&slot->begun) == worker->ends) current = -1;
  if (worker->damaged) current = recover_unread(pool, w);
  if (current >= 0 && pool->settled[current]) current = -1; /* see drop_second() */
  int count = rg_queue_recover(pool->control, w, unbegun);
  rg_queue_push_first(pool->control, unbegun, count);
  rg_queue_unlock(pool->control);
  char mark[RG_FORK_MARK_SIZE];
  rg_fork_mark(pool->tag, worker->pid, mark);
  rg_process_kill_marked(RG_FORK_MARK, mark);
  int told = atomic_load(&slot->ended_by);
  if (end->signal == SIGKILL && told != 0) end->signal = told;
  pool->lost_spans |= end->signal >= 0 || current >= 0;
  if (current >= 0 && end->peak_bytes > 0) pool->control->tasks[current].peak = (float)end->peak_bytes;
  end->peak_bytes = rg_fork_pool_peak(pool, w, end->peak_bytes);
  if (current >= 0 && pool->control->tasks[current].end == 0) {
    pool->control->tasks[current].end = rg_clock_now();
  }
  if (current >= 0) pool->settled[current] = 1; /* it is the driver's to have it begun anew */
  add_left(b, w, current, end);
  rg_fork_pool_close_worker(worker);
}

/* While another worker, which may have been stopped, has the lock of the queue, the dead one is left as
   it is: the next poll looks again, and the session can be interrupted between. */
static void bury(batch *b, int w) {
  rg_pool *pool = b->pool;
  rg_process_end end;
  int error = rg_queue_lock(pool->control, 50);
  if (error == EBUSY) return;
  if (error != 0) rg_fork_pool_overwritten();
  if (rg_fork_pool_collect(pool, w, &end)) {
    take_death(b, w, &end);
  } else {
    rg_queue_unlock(pool->control);
  }
}

/* The dead come last: one that has finished has done so after all that the others have sent. */
static void take_all(batch *b) {
  rg_pool *pool = b->pool;
  char *ended = R_alloc((size_t)pool->size + 1, 1);
  memset(ended, 0, (size_t)pool->size + 1);
  for (int w = 0; w < pool->size && !is_full(b); w++) {
    rg_worker *worker = &pool->workers[w];
    if (worker->pid <= 0) continue;
    /* Asked before the rest is read: what a dead worker sent is complete. */
    ended[w] = (char)rg_fork_worker_has_ended(worker);
    int news = take_worker(b, w);
    while (ended[w] && news && !is_full(b)) news = take_worker(b, w);
  }
  for (int w = 0; w < pool->size && !is_full(b); w++) {
    if (ended[w] && !rg_fork_worker_has_finished(pool, w)) bury(b, w);
  }
}

/* Sleeps until a worker rings, prints or ends. */
static void sleep_for_news(rg_pool *pool, int timeout_ms) {
  int count = 0;
  struct pollfd *waited = (struct pollfd *)R_alloc((size_t)pool->size * (RG_STREAMS + 1) + 1,
                                                   sizeof *waited);
  waited[count++] = (struct pollfd){pool->doorbell[0], POLLIN, 0};
  for (int w = 0; w < pool->size; w++) {
    rg_worker *worker = &pool->workers[w];
    if (worker->pid <= 0) continue;
    if (worker->pidfd >= 0) waited[count++] = (struct pollfd){worker->pidfd, POLLIN, 0};
    for (int s = 0; s < RG_STREAMS; s++) {
      if (worker->stream[s] >= 0) waited[count++] = (struct pollfd){worker->stream[s], POLLIN, 0};
    }
  }
  poll(waited, (nfds_t)count, timeout_ms);
  char bytes[256];
  while (read(pool->doorbell[0], bytes, sizeof bytes) == (ssize_t)sizeof bytes) continue;
}

/* For how many values there must be room: no more than there are records now, but for those that still come. */
static int values_room(const rg_pool *pool) {
  uint64_t bytes = 0;
  for (int w = 0; w < pool->size; w++) {
    if (pool->workers[w].pid > 0) bytes += rg_ring_unread(&pool->control->slots[w].ring);
  }
  uint64_t most = bytes / sizeof(rg_record) + 1;
  return most < VALUES_MAX ? (int)most : VALUES_MAX;
}

/* What the queue or the claim of a worker has lost, since code has written there, is begun anew: elements
   that have not ended although all workers wait for some. With the lock. */
static void submit_missed(rg_pool *pool) {
  rg_control *control = pool->control;
  int waiting = 0;
  if (rg_queue_length(control) > 0) return;
  for (int w = 0; w < pool->size; w++) {
    rg_slot *slot = &control->slots[w];
    if (pool->workers[w].pid <= 0) continue;
    if (!atomic_load(&slot->waiting) || atomic_load(&slot->current) >= 0 ||
        atomic_load(&slot->claim_done) < atomic_load(&slot->claim_size) ||
        rg_ring_unread(&slot->ring) > 0) {
      return;
    }
    waiting += rg_queue_admits(control, w);
  }
  for (int64_t e = 0; waiting > 0 && e < pool->wanted; e++) {
    if (pool->settled[e]) continue;
    control->tasks[e].start = 0;
    rg_queue_push(control, &e, 1);
  }
}

/* Who has the lock of the queue does some steps and gives it back, unless it was stopped; none of them
   sleeps. If it is taken for that long, and all workers sleep, code has written to it. */
static const int64_t LOCKED_NS = (int64_t)3000000000;

static void watch_lock(rg_pool *pool) {
  int64_t now = rg_clock_now();
  for (int w = 0; w < pool->size; w++) {
    if (pool->workers[w].pid > 0 && !rg_process_is_asleep(pool->workers[w].pid)) pool->locked_since = 0;
  }
  if (pool->locked_since == 0) pool->locked_since = now;
  if (now - pool->locked_since > LOCKED_NS) rg_fork_pool_overwritten();
}

/* When there was no news for a while. */
static void watch_queue(rg_pool *pool) {
  int error = rg_queue_lock(pool->control, 0);
  if (error == EBUSY) {
    watch_lock(pool);
    return;
  }
  if (error != 0) rg_fork_pool_overwritten();
  pool->locked_since = 0;
  submit_missed(pool);
  rg_queue_unlock(pool->control);
}

/* Values wait in the rings until a worker rings: to fetch each as it comes would cost more
   than they do. */
static void take_news(batch *b, int timeout_ms) {
  rg_pool *pool = b->pool;
  rg_control *control = pool->control;
  R_CheckUserInterrupt();
  if (!pool->unread) {
    rg_fork_pool_wake(pool);
    atomic_store(&control->shared->parent_asleep, 1);
    if (!atomic_load(&control->shared->rung)) sleep_for_news(pool, timeout_ms);
    atomic_store(&control->shared->parent_asleep, 0);
    R_CheckUserInterrupt();
  }
  atomic_store(&control->shared->rung, 0);
  b->room = values_room(pool);
  take_all(b);
  pool->unread = is_full(b);
  if (b->count[RESULT_VALUE] == 0 && b->count[RESULT_ALIKE] == 0 && b->events == 0) watch_queue(pool);
}

/* The events of the driver (R/executor.R), waiting at most `timeout` seconds for the first
   one. An empty list: nothing happened in that time. */
SEXP ffi_fork_poll(SEXP pointer, SEXP timeout) {
  rg_pool *pool = rg_fork_pool_borrow(pointer);
  double ms = Rf_asReal(timeout) * 1000;
  batch b = {.pool = pool, .all = PROTECT(Rf_allocVector(VECSXP, BATCH_LISTS)), .room = VALUES_MAX};
  pool->used++;
  rg_buffer_reset(&pool->said, SAID_KEPT); /* an error has kept it from being told */
  take_news(&b, ms < SLEEP_MAX_MS ? (int)ms : SLEEP_MAX_MS);
  rg_fork_pool_wake(pool);
  tell_series(&b);
  for (int kind = 0; kind < RESULT_KINDS; kind++) tell_results(&b, (result_kind)kind);
  SEXP events = VECTOR_ELT(b.all, BATCH_EVENTS);
  events = events == R_NilValue ? Rf_allocVector(VECSXP, 0) : Rf_xlengthgets(events, b.events);
  pool->used--;
  UNPROTECT(1);
  return events;
}
