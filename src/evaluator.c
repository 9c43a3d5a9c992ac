#include "evaluator.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "call-r.h"
#include "encode-share.h"
#include "encode.h"
#include "rng-stream.h"
#include "rng.h"
#include "sys-fork.h"
#include "sys-memory.h"
#include "sys-process.h"

/* The element this process is running; there is one evaluator in a worker. */
typedef struct state {
  struct state *outer; /* what was put aside for this */
  SEXP kept;           /* what the channel needs, to be kept as long */
  rg_channel channel;
  int64_t generation; /* of the process that has it */
  int64_t element; /* -1 between elements */
  int32_t tries;
  int attempts; /* to go on, since an element was begun or has ended */
  int sending; /* the element has returned, and its value is being encoded */
  int seeded, tell_tries, new_seed_on_retry;
  int has_notes; /* tell_packages() has something to tell */
  int32_t rng_kind, rng_base[6];
  int64_t rng_element; /* rng_stream is that of this element, -1: of none */
  int32_t rng_stream[6];
  int64_t memory_limit;   /* of an element, in bytes; 0: none */
  int64_t memory_settled; /* anonymous memory when garbage was collected last, or before the first element */
  int64_t most_conditions;
  int64_t conditions[RG_CONDITION_KINDS];
  rg_buffer buffer, aside;
} state;
static state evaluator = {.element = -1};

/* A result larger than this gives its memory back before the next element. */
enum { BUFFER_KEEP = 1 << 20 };

static void keep(SEXP object) {
  if (object != R_NilValue) R_PreserveObject(object);
  if (evaluator.kept) R_ReleaseObject(evaluator.kept);
  evaluator.kept = object == R_NilValue ? NULL : object;
}

void rg_evaluator_set_channel(const rg_channel *channel, SEXP kept) {
  keep(kept);
  evaluator.channel = *channel;
  evaluator.generation = rg_fork_generation();
  evaluator.element = -1;
}

SEXP ffi_evaluator_push(void) {
  state *outer = malloc(sizeof *outer);
  if (!outer) Rf_error("no memory is left");
  *outer = evaluator;
  memset(&evaluator, 0, sizeof evaluator);
  evaluator.outer = outer;
  evaluator.element = -1;
  return R_NilValue;
}

SEXP ffi_evaluator_pop(void) {
  state *outer = evaluator.outer;
  if (!outer) Rf_error("nothing has been put aside");
  keep(R_NilValue);
  rg_buffer_reset(&evaluator.buffer, 0);
  rg_buffer_reset(&evaluator.aside, 0);
  evaluator = *outer;
  free(outer);
  return R_NilValue;
}

/* options: list(seed = NULL or integer(7), tell_tries, new_seed_on_retry, max_conditions, has_notes, memory) */
SEXP ffi_evaluator_begin(SEXP options) {
  SEXP seed = VECTOR_ELT(options, 0);
  evaluator.seeded = seed != R_NilValue;
  if (evaluator.seeded) {
    const int *base = INTEGER_RO(seed);
    evaluator.rng_kind = base[0];
    memcpy(evaluator.rng_base, base + 1, sizeof evaluator.rng_base);
    evaluator.rng_element = -1;
  }
  evaluator.tell_tries = Rf_asLogical(VECTOR_ELT(options, 1)) == TRUE;
  evaluator.new_seed_on_retry = Rf_asLogical(VECTOR_ELT(options, 2)) == TRUE;
  evaluator.most_conditions = (int64_t)Rf_asReal(VECTOR_ELT(options, 3));
  evaluator.has_notes = Rf_asLogical(VECTOR_ELT(options, 4)) == TRUE;
  double memory = Rf_asReal(VECTOR_ELT(options, 5));
  evaluator.memory_limit = memory < (double)INT64_MAX ? (int64_t)memory : 0;
  evaluator.memory_settled = evaluator.memory_limit > 0 ? rg_memory_anon(getpid()) : 0;
  rg_encode_forget_classes();
  return R_NilValue;
}

/* From one element to the next is one step; a jump costs some twenty. */
static void find_stream(int32_t stream[6]) {
  int follows = evaluator.rng_element >= 0 && evaluator.element == evaluator.rng_element + 1;
  int32_t from[6];
  memcpy(from, follows ? evaluator.rng_stream : evaluator.rng_base, sizeof from);
  rg_rng_stream(from, follows ? 1 : evaluator.element, stream);
  memcpy(evaluator.rng_stream, stream, sizeof evaluator.rng_stream);
  evaluator.rng_element = evaluator.element;
}

static void seed_element(void) {
  int32_t stream[6];
  find_stream(stream);
  if (evaluator.new_seed_on_retry && evaluator.tries > 1) {
    int32_t first[6];
    memcpy(first, stream, sizeof first);
    rg_rng_substream(first, evaluator.tries - 1, stream);
  }
  rg_rng_use(evaluator.rng_kind, stream);
}

/* An element may fork its process (parallel's functions do): the copy has the evaluator, the channel
   and the frames of the loop, but it is no worker, and what it sends would come between what the
   worker sends. */
static int is_copy(void) { return rg_fork_generation() != evaluator.generation; }

/* A copy that comes back to the loop has nothing more to do. */
static void leave_if_copy(void) {
  if (is_copy()) rg_process_leave(0);
}

SEXP ffi_evaluator_is_copy(void) { return Rf_ScalarLogical(is_copy()); }

/* What an element leaves behind as garbage is not to count as memory that the next one needs: before the parent
   knows of that it is collected, if it is more than this part of the limit. */
enum { LEFT_BEHIND = 16 };

static void settle_memory(void) {
  if (evaluator.memory_limit <= 0) return;
  if (rg_memory_anon(getpid()) - evaluator.memory_settled <= evaluator.memory_limit / LEFT_BEHIND) return;
  R_gc();
  rg_memory_give_back();
  evaluator.memory_settled = rg_memory_anon(getpid());
}

static int next_element(void) {
  settle_memory();
  evaluator.element = evaluator.channel.next(evaluator.channel.state, &evaluator.tries);
  evaluator.sending = 0;
  evaluator.attempts = 0;
  if (evaluator.element < 0) return 0;
  memset(evaluator.conditions, 0, sizeof evaluator.conditions);
  if (evaluator.seeded) seed_element();
  if (evaluator.tell_tries) {
    char text[16];
    snprintf(text, sizeof text, "%d", (int)evaluator.tries);
    setenv("REGATTA_TRY", text, 1);
  }
  return 1;
}

static void publish(rg_record_type type, int kind, const rg_buffer *payload) {
  rg_record header = {.type = (uint8_t)type, .kind = (uint8_t)kind, .element = evaluator.element,
                      .tries = evaluator.tries};
  evaluator.channel.publish(evaluator.channel.state, &header, payload);
}

static void publish_suppressed(void) {
  for (int kind = 0; kind < RG_CONDITION_KINDS; kind++) {
    int64_t more = evaluator.conditions[kind] - evaluator.most_conditions;
    const rg_buffer count = {(char *)&more, sizeof more, sizeof more};
    if (more > 0) publish(RG_RECORD_SUPPRESSED, kind, &count);
  }
}

static int encode(SEXP value) {
  if (evaluator.channel.keep) return 0;
  rg_buffer_reset(&evaluator.buffer, BUFFER_KEEP);
  return rg_encode(value, evaluator.channel.arena, evaluator.channel.share_from, &evaluator.buffer);
}

/* A warning of the element, which goes through the buffer in which its value stands: that is put
   aside meanwhile. */
static void warn_foreign(SEXP result) {
  rg_buffer_reset(&evaluator.aside, 0);
  rg_buffer value = evaluator.buffer;
  evaluator.buffer = evaluator.aside;
  evaluator.aside = value;
  rg_call_r("warn_foreign", 1, result);
  value = evaluator.aside;
  evaluator.aside = evaluator.buffer;
  evaluator.buffer = value;
}

static void publish_object(rg_record_type type, int kind, SEXP object) {
  if (!evaluator.channel.keep) {
    publish(type, kind, &evaluator.buffer);
    return;
  }
  rg_record header = {.type = (uint8_t)type, .kind = (uint8_t)kind, .element = evaluator.element,
                      .tries = evaluator.tries};
  object = PROTECT(rg_encode_settle(object, &evaluator.channel.settle));
  evaluator.channel.keep(evaluator.channel.state, &header, object);
  UNPROTECT(1);
}

/* Encoding comes first: if it fails, that is the element's error, and the R handler calls
   ffi_evaluator_error() while the element is still the current one. */
static void finish_element(rg_record_type type, int kind, SEXP result) {
  leave_if_copy();
  evaluator.sending = type == RG_RECORD_VALUE;
  /* Its methods may be in a namespace that this process alone has loaded. */
  if (evaluator.sending && !evaluator.channel.keep && rg_encode_is_news(result)) rg_call_r("tell_loaded", 0);
  if (evaluator.sending && evaluator.has_notes) {
    evaluator.has_notes = 0;
    rg_call_r("tell_packages", 0);
  }
  if (encode(result) && type == RG_RECORD_VALUE) warn_foreign(result);
  evaluator.channel.ended(evaluator.channel.state, evaluator.element);
  publish_suppressed();
  publish_object(type, kind, result);
  evaluator.element = -1;
  evaluator.attempts = 0;
}

/* The number of the current element, in `old` if nobody else holds that. */
static SEXP element_number(SEXP old) {
  double number = (double)evaluator.element + 1;
  if (old == R_NilValue || MAYBE_SHARED(old) || (TYPEOF(old) == INTSXP && number > INT32_MAX)) {
    return number <= INT32_MAX ? Rf_ScalarInteger((int)number) : Rf_ScalarReal(number);
  }
  if (TYPEOF(old) == INTSXP) {
    INTEGER(old)[0] = (int)number;
  } else {
    REAL(old)[0] = number;
  }
  return old;
}

/* Evaluates `call` in `env` for every element, with its number as `i`, and the first `forced` of its arguments before the
   function, as lapply() does. The loop is here and not in R because what it allocates counts: in a process that was
   just forked nearly every new R object lies on a page that has to be copied first. An R error in an element leaves
   by a jump; the element stays the current one until its error has been published. */
SEXP ffi_evaluator_run(SEXP call, SEXP forced, SEXP env) {
  const int first = Rf_asInteger(forced);
  SEXP symbol = Rf_install("i");
  PROTECT_INDEX at;
  SEXP number = R_NilValue;
  PROTECT_WITH_INDEX(number, &at);
  while (next_element()) {
    SEXP now = element_number(number);
    if (now != number) {
      REPROTECT(number = now, at);
      Rf_defineVar(symbol, number, env);
    }
    SEXP value = PROTECT(R_forceAndCall(call, first, env));
    finish_element(RG_RECORD_VALUE, 0, value);
    UNPROTECT(1);
  }
  UNPROTECT(1);
  return R_NilValue;
}

/* `record`: what capture_error() has made, or c(number, message) of one that is like another. */
SEXP ffi_evaluator_error(SEXP record) {
  int kind = TYPEOF(record) == STRSXP ? RG_ERROR_ALIKE : RG_ERROR_ALONE;
  if (evaluator.element >= 0) finish_element(RG_RECORD_ERROR, kind, record);
  return R_NilValue;
}

/* FALSE when the element has sent as many of this kind as it may; the rest is counted. */
SEXP ffi_evaluator_condition(SEXP condition, SEXP kind) {
  int k = Rf_asInteger(kind);
  if (evaluator.element < 0 || is_copy() || rg_encode_is_writing()) return Rf_ScalarLogical(FALSE);
  if (evaluator.conditions[k] >= evaluator.most_conditions) {
    evaluator.conditions[k]++;
    return Rf_ScalarLogical(FALSE);
  }
  encode(condition);
  evaluator.conditions[k]++;
  publish_object(RG_RECORD_CONDITION, k, condition);
  return Rf_ScalarLogical(TRUE);
}

/* A condition that is for the verb in the parent and not for the user: never counted. */
SEXP ffi_evaluator_note(SEXP note) {
  if (evaluator.element < 0 || !evaluator.channel.publish || is_copy() || rg_encode_is_writing()) {
    return Rf_ScalarLogical(FALSE);
  }
  encode(note);
  publish_object(RG_RECORD_CONDITION, RG_OTHER_CONDITION, note);
  return Rf_ScalarLogical(TRUE);
}

/* Whether the parent has asked for an interrupt; NA: not for what runs now. `come`: of one that is here. */
SEXP ffi_evaluator_cancelled(SEXP come) {
  rg_cancel whose = evaluator.element < 0
                        ? RG_CANCEL_PASSED
                        : evaluator.channel.cancelled(evaluator.channel.state, evaluator.element, Rf_asLogical(come));
  return Rf_ScalarLogical(whose == RG_CANCEL_PASSED ? NA_LOGICAL : whose == RG_CANCEL_THIS);
}

/* Of an error: whether the element had returned, and its value cannot be sent. */
SEXP ffi_evaluator_is_sending(void) { return Rf_ScalarLogical(evaluator.element >= 0 && evaluator.sending); }

/* Of whoever goes on after an error: whether that was tried so often that it leads nowhere. */
SEXP ffi_evaluator_is_stuck(void) {
  enum { ATTEMPTS_MAX = 8 };
  return Rf_ScalarLogical(++evaluator.attempts > ATTEMPTS_MAX);
}

/* R's; of its headers only those for graphics devices have it. */
extern int R_interrupts_pending;

static void note_interrupt(int number) {
  (void)number;
  R_interrupts_pending = 1;
}

void rg_evaluator_hear_interrupts(int hear) {
  struct sigaction now;
  sigaction(SIGINT, NULL, &now);
  if (now.sa_handler != (hear ? SIG_IGN : note_interrupt)) return;
  now.sa_handler = hear ? note_interrupt : SIG_IGN;
  now.sa_flags = SA_RESTART;
  sigaction(SIGINT, &now, NULL);
}
