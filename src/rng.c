#include "rng.h"

#include <R.h>
#include <R_ext/Altrep.h>
#include <R_ext/Random.h>
#include <string.h>

#include "call-r.h"
#include "rng-state.h"
#include "rng-stream.h"

/* A stream that becomes the state of another generator than L'Ecuyer's is an integer vector whose words are
   made when somebody asks for them: a twister has 626, and most elements draw nothing. Its first datum is the
   stream: kind and six words. The second is the state, or NULL as long as nobody has asked. */
static R_altrep_class_t class_state;

static R_xlen_t state_Length(SEXP x) {
  return 1 + rg_rng_state_words(INTEGER_RO(R_altrep_data1(x))[0] % 100);
}

static void *state_Dataptr(SEXP x, Rboolean writable) {
  (void)writable;
  if (R_altrep_data2(x) == R_NilValue) {
    const int *stream = INTEGER_RO(R_altrep_data1(x));
    SEXP words = PROTECT(Rf_allocVector(INTSXP, state_Length(x)));
    INTEGER(words)[0] = stream[0];
    rg_rng_state_fill(stream[0] % 100, stream + 1, INTEGER(words) + 1);
    R_set_altrep_data2(x, words);
    UNPROTECT(1);
  }
  return INTEGER(R_altrep_data2(x));
}

static const void *state_Dataptr_or_null(SEXP x) {
  return R_altrep_data2(x) == R_NilValue ? NULL : INTEGER_RO(R_altrep_data2(x));
}

void rg_rng_init(DllInfo *dll) {
  class_state = R_make_altinteger_class("rng_state", "regatta", dll);
  R_set_altrep_Length_method(class_state, state_Length);
  R_set_altvec_Dataptr_method(class_state, state_Dataptr);
  R_set_altvec_Dataptr_or_null_method(class_state, state_Dataptr_or_null);
}

static int is_lazy(int kind) { return kind % 100 != RG_LECUYER; }

/* What .Random.seed is for a stream. */
static SEXP state_new(int kind, const int32_t stream[6]) {
  SEXP out = PROTECT(Rf_allocVector(INTSXP, 7));
  INTEGER(out)[0] = kind;
  memcpy(INTEGER(out) + 1, stream, 6 * sizeof *stream);
  if (is_lazy(kind)) out = R_new_altrep(class_state, out, R_NilValue);
  UNPROTECT(1);
  return out;
}

/* Makes the state of another stream of a state that nobody else holds. */
static int state_renew(SEXP state, int kind, const int32_t stream[6]) {
  if (TYPEOF(state) != INTSXP || MAYBE_SHARED(state)) return 0;
  SEXP words = state;
  if (is_lazy(kind)) {
    if (!R_altrep_inherits(state, class_state)) return 0;
    words = R_altrep_data1(state);
    R_set_altrep_data2(state, R_NilValue);
  } else if (ALTREP(state) || XLENGTH(state) != 7) {
    return 0;
  }
  INTEGER(words)[0] = kind;
  memcpy(INTEGER(words) + 1, stream, 6 * sizeof *stream);
  return 1;
}

void rg_rng_use(int kind, const int32_t stream[6]) {
  static SEXP symbol;
  if (!symbol) symbol = Rf_install(".Random.seed");
  SEXP seed = PROTECT(rg_value_in(R_GlobalEnv, symbol));
  int renewed = state_renew(seed, kind, stream);
  if (!renewed) {
    UNPROTECT(1);
    seed = PROTECT(state_new(kind, stream));
  }
  if (kind / 100 % 100 == BOX_MULLER) { /* keeps a number outside .Random.seed */
    rg_call_r("rng_use", 1, seed);
  } else if (!renewed) {
    Rf_defineVar(symbol, seed, R_GlobalEnv);
  }
  UNPROTECT(1);
}

/* base: as of rng_base(). */
SEXP ffi_rng_element(SEXP base, SEXP i, SEXP try) {
  int32_t stream[6], substream[6];
  rg_rng_stream(INTEGER(base) + 1, (int64_t)Rf_asReal(i) - 1, stream);
  rg_rng_substream(stream, (int64_t)Rf_asInteger(try) - 1, substream);
  return state_new(INTEGER(base)[0], substream);
}

SEXP ffi_rng_base_number(SEXP seed) {
  SEXP out = PROTECT(Rf_allocVector(INTSXP, 6));
  rg_rng_number(Rf_asInteger(seed), INTEGER(out));
  UNPROTECT(1);
  return out;
}

SEXP ffi_rng_base_state(SEXP state, SEXP drawn) {
  R_xlen_t n = Rf_xlength(state);
  uint32_t *words = (uint32_t *)R_alloc((size_t)n + 2, sizeof(uint32_t));
  double u = Rf_asReal(drawn);
  memcpy(words, INTEGER(state), (size_t)n * sizeof(uint32_t));
  memcpy(words + n, &u, sizeof u);
  SEXP out = PROTECT(Rf_allocVector(INTSXP, 6));
  rg_rng_hash(words, (size_t)n + 2, INTEGER(out));
  UNPROTECT(1);
  return out;
}
