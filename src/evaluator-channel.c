#include <string.h>

#include "evaluator.h"
#include "sys-clock.h"
#include "sys-process.h"

/* A channel of R functions: for workers whose way to the session is R's, a connection or nothing at
   all. TIMES are start and end of the element, in seconds. */

enum { TAKE = 0, TELL, CANCELLED, SETTLE, TIMES };

static double *times_of(void *functions) { return REAL(VECTOR_ELT((SEXP)functions, TIMES)); }

static double seconds_now(void) { return (double)rg_clock_now() / 1e9; }

/* c(element, try), both from 1, or NULL. */
static int64_t channel_next(void *state, int32_t *tries) {
  SEXP call = PROTECT(Rf_lang1(VECTOR_ELT((SEXP)state, TAKE)));
  SEXP next = PROTECT(Rf_eval(call, R_BaseEnv));
  int64_t element = -1;
  if (next != R_NilValue) {
    if (TYPEOF(next) != REALSXP || XLENGTH(next) != 2) Rf_error("an element is not c(element, try)");
    element = (int64_t)REAL(next)[0] - 1;
    *tries = (int32_t)REAL(next)[1];
  }
  UNPROTECT(2);
  times_of(state)[0] = seconds_now();
  return element;
}

static void channel_ended(void *state, int64_t element) {
  (void)element;
  rg_process_flush_stdout();
  times_of(state)[1] = seconds_now();
}

static void tell(SEXP functions, const rg_record *header, SEXP payload) {
  PROTECT(payload);
  SEXP quoted = PROTECT(Rf_lang2(R_QuoteSymbol, payload));
  SEXP type = PROTECT(Rf_ScalarInteger(header->type));
  SEXP index = PROTECT(Rf_ScalarReal((double)header->element + 1));
  SEXP try = PROTECT(Rf_ScalarInteger(header->tries));
  SEXP kind = PROTECT(Rf_ScalarInteger(header->kind));
  SEXP times = PROTECT(Rf_allocVector(REALSXP, 2));
  memcpy(REAL(times), times_of(functions), 2 * sizeof(double));
  SEXP call = PROTECT(Rf_lang6(VECTOR_ELT(functions, TELL), type, index, try, kind, times));
  SETCDR(Rf_nthcdr(call, 5), Rf_list1(quoted));
  Rf_eval(call, R_BaseEnv);
  UNPROTECT(8);
}

static void channel_publish(void *state, rg_record *header, const rg_buffer *payload) {
  if (header->type == RG_RECORD_SUPPRESSED) {
    int64_t count;
    memcpy(&count, payload->data, sizeof count);
    tell((SEXP)state, header, Rf_ScalarReal((double)count));
    return;
  }
  SEXP bytes = Rf_allocVector(RAWSXP, (R_xlen_t)payload->size);
  if (payload->size > 0) memcpy(RAW(bytes), payload->data, payload->size);
  tell((SEXP)state, header, bytes);
}

static void channel_keep(void *state, const rg_record *header, SEXP object) {
  tell((SEXP)state, header, object);
}

static rg_cancel channel_cancelled(void *state, int64_t element, int come) {
  (void)come;
  SEXP function = VECTOR_ELT((SEXP)state, CANCELLED);
  if (function == R_NilValue) return RG_CANCEL_NONE;
  SEXP number = PROTECT(Rf_ScalarReal((double)element + 1));
  SEXP call = PROTECT(Rf_lang2(function, number));
  int yes = Rf_asLogical(Rf_eval(call, R_BaseEnv));
  UNPROTECT(2);
  return yes == NA_LOGICAL ? RG_CANCEL_PASSED : yes ? RG_CANCEL_THIS : RG_CANCEL_NONE;
}

SEXP ffi_evaluator_channel(SEXP functions) {
  SEXP settle = VECTOR_ELT(functions, SETTLE);
  int bytes = settle == R_NilValue;
  rg_settle how = {.arrays = RG_SETTLE_NEW};
  if (!bytes) {
    how.arrays = REAL_RO(settle)[0] != 0 ? RG_SETTLE_ALL : RG_SETTLE_NEW;
    how.region = (int64_t)REAL_RO(settle)[1];
  }
  const rg_channel channel = {.state = functions,
                              .next = channel_next,
                              .ended = channel_ended,
                              .publish = channel_publish,
                              .cancelled = channel_cancelled,
                              .arena = NULL,
                              .share_from = INT64_MAX,
                              .keep = bytes ? NULL : channel_keep,
                              .settle = how};
  rg_evaluator_set_channel(&channel, functions);
  return R_NilValue;
}
