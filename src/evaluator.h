#ifndef RG_EVALUATOR_H
#define RG_EVALUATOR_H

#include <Rinternals.h>
#include <stdint.h>

#include "arena.h"
#include "buffer.h"
#include "ring.h"
#include "shm-array.h"

/* Whose an interrupt is. */
typedef enum {
  RG_CANCEL_NONE = 0, /* not the parent's: the element's own, or somebody else's */
  RG_CANCEL_THIS,     /* the parent's, for this element */
  RG_CANCEL_PASSED,   /* the parent's, for an element that has ended */
} rg_cancel;

/*
 * The C half of the evaluator (R half: R/evaluator*.R): what happens between two elements
 * in a worker. It knows nothing of how elements reach the worker and results leave it;
 * the executor gives it a channel.
 */
typedef struct {
  void *state;
  /* Waits for the next element; -1: there are no more. *tries is 1 on its first try. */
  int64_t (*next)(void *state, int32_t *tries);
  /* The element's evaluation has ended, with a value or an error; its record follows. */
  void (*ended)(void *state, int64_t element);
  /* Hands a record over, or an arena span with it; may wait for room. */
  void (*publish)(void *state, rg_record *header, const rg_buffer *payload);
  /* Whether the parent has asked for an interrupt of the element that runs. `come`: one is here, and is taken for the
     one that was asked for. */
  rg_cancel (*cancelled)(void *state, int64_t element, int come);
  rg_arena *arena;    /* for large vectors, or NULL */
  int64_t share_from; /* bytes */
  /* Not NULL: what an element has to tell stays an R object and is handed over here; nothing is
     encoded, and `publish` only gets counts. Shared arrays in it are what they would be if it had come from
     another process: `settle` says which. */
  void (*keep)(void *state, const rg_record *header, SEXP object);
  rg_settle settle;
} rg_channel;

/* Kinds of conditions that are sent; `kind` of an RG_RECORD_CONDITION or _SUPPRESSED. */
typedef enum { RG_MESSAGE = 0, RG_WARNING, RG_OTHER_CONDITION, RG_CONDITION_KINDS } rg_condition_kind;

/* `kind` of an RG_RECORD_ERROR: it is described in full; it differs from another one in its message alone. */
typedef enum { RG_ERROR_ALONE = 0, RG_ERROR_ALIKE } rg_error_kind;

/* `kept` is protected as long as the channel is in use; R_NilValue: nothing is to be. */
void rg_evaluator_set_channel(const rg_channel *channel, SEXP kept);

SEXP ffi_evaluator_begin(SEXP options);
SEXP ffi_evaluator_run(SEXP call, SEXP forced, SEXP env);
SEXP ffi_evaluator_error(SEXP record);
SEXP ffi_evaluator_condition(SEXP condition, SEXP kind);
SEXP ffi_evaluator_note(SEXP note);
SEXP ffi_evaluator_cancelled(SEXP come);
SEXP ffi_evaluator_is_sending(void);
SEXP ffi_evaluator_is_copy(void);
SEXP ffi_evaluator_is_stuck(void);

/* What this process is at is put aside, and taken up again: it may run elements while it is at one. */
SEXP ffi_evaluator_push(void);
SEXP ffi_evaluator_pop(void);

/* evaluator-channel.c: a channel whose functions are R's, list(take, tell, cancelled, settle, times),
   see evaluate_through() of R/evaluator-events.R. */
SEXP ffi_evaluator_channel(SEXP functions);

/* A process that a shell began in the background ignores SIGINT, and R >= 4.5 leaves it so. With TRUE, R notes it as
   its own handler would; with FALSE it is as before. For workers while they are at a run: it is how an element is
   ended of which nothing else is to be lost. */
void rg_evaluator_hear_interrupts(int hear);

#endif
