#include "char-map.h"

#include <R_ext/Utils.h>
#include <string.h>

#include "call-r.h"
#include "encode-share.h"
#include "string-index.h"

typedef struct {
  double limit, share;
  const char *altreps; /* "yes", "no", "if_allocated" */
  SEXP class;
} compress_call;

static SEXP attributes_of(SEXP x) { return rg_call_r("attributes_pairlist", 1, x); }

/* One piece of x as keys. A vector without data in memory makes its strings one by one. They
   are kept alive by x: an ALTREP vector whose method made a new string at each call would have
   no fixed addresses, but R's own deferred strings and those of other packages cache theirs. */
static void keys_of(SEXP x, const SEXP *data, R_xlen_t from, R_xlen_t n, uintptr_t *keys) {
  for (R_xlen_t i = 0; i < n; i++) {
    keys[i] = (uintptr_t)(data ? data[from + i] : STRING_ELT(x, from + i));
  }
}

typedef struct {
  SEXP x;
  int64_t most;
  rg_string_index *index; /* destroyed by index_end(), however the code in between ends */
  SEXP result;            /* list(chars, idx), or NULL when there are too many strings */
} index_call;

static void index_end(void *data) {
  index_call *call = data;
  rg_string_index_destroy(call->index);
  call->index = NULL;
}

static SEXP distinct_strings(const rg_string_index *index) {
  R_xlen_t n = (R_xlen_t)rg_string_index_count(index);
  const uintptr_t *keys = rg_string_index_keys(index);
  SEXP chars = PROTECT(Rf_allocVector(STRSXP, n));
  for (R_xlen_t i = 0; i < n; i++) SET_STRING_ELT(chars, i, (SEXP)keys[i]);
  UNPROTECT(1);
  return chars;
}

static SEXP index_run(void *data) {
  enum { CHECK_EVERY = 256 };
  index_call *call = data;
  R_xlen_t n = XLENGTH(call->x);
  SEXP number = PROTECT(Rf_allocVector(INTSXP, n));
  const SEXP *strings = DATAPTR_OR_NULL(call->x);
  int *to = INTEGER(number);
  uintptr_t keys[RG_STRING_INDEX_PIECE];
  for (R_xlen_t at = 0, piece = 1; at < n; at += RG_STRING_INDEX_PIECE, piece++) {
    R_xlen_t count = n - at < RG_STRING_INDEX_PIECE ? n - at : RG_STRING_INDEX_PIECE;
    keys_of(call->x, strings, at, count, keys);
    rg_string_index_status status =
        rg_string_index_add(call->index, keys, (size_t)count, to + at);
    if (status == RG_STRING_INDEX_MANY) {
      UNPROTECT(1);
      return R_NilValue;
    }
    if (status == RG_STRING_INDEX_MEMORY) {
      Rf_error("cannot allocate memory to index %.0f strings, of which %.0f are distinct so far",
               (double)n, (double)rg_string_index_count(call->index));
    }
    for (R_xlen_t i = 0; i < count; i++) to[at + i]++;
    if (piece % CHECK_EVERY == 0) R_CheckUserInterrupt();
  }
  SEXP result = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(result, 0, distinct_strings(call->index));
  SET_VECTOR_ELT(result, 1, number);
  UNPROTECT(2);
  return result;
}

/* list(chars, idx) of x, or NULL if x has more than `most` distinct strings. */
static SEXP index_strings(SEXP x, int64_t most) {
  index_call call = {x, most, rg_string_index_create(most), R_NilValue};
  if (!call.index) Rf_error("cannot allocate memory to index %.0f strings", (double)XLENGTH(x));
  return R_ExecWithCleanup(index_run, &call, index_end, &call);
}

/* NULL if x has too many distinct strings. */
static SEXP make_map(SEXP x, SEXP class, double share) {
  double most = share < 1 ? share * (double)XLENGTH(x) : (double)INT32_MAX;
  SEXP found = PROTECT(index_strings(x, (int64_t)most));
  if (found == R_NilValue) {
    UNPROTECT(1);
    return R_NilValue;
  }
  const char *names[] = {"chars", "idx", "attributes", ""};
  SEXP map = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(map, 0, VECTOR_ELT(found, 0));
  SET_VECTOR_ELT(map, 1, VECTOR_ELT(found, 1));
  SET_VECTOR_ELT(map, 2, attributes_of(x));
  R_xlen_t more = XLENGTH(class);
  SEXP classes = PROTECT(Rf_allocVector(STRSXP, more + 1));
  for (R_xlen_t i = 0; i < more; i++) SET_STRING_ELT(classes, i, STRING_ELT(class, i));
  SET_STRING_ELT(classes, more, Rf_mkChar("char_map"));
  Rf_setAttrib(map, R_ClassSymbol, classes);
  UNPROTECT(3);
  return map;
}

SEXP ffi_char_map(SEXP x) {
  SEXP none = PROTECT(Rf_allocVector(STRSXP, 0));
  SEXP map = make_map(x, none, 1);
  UNPROTECT(1);
  return map;
}

static int is_map(SEXP x) {
  if (TYPEOF(x) != VECSXP || !Rf_inherits(x, "char_map") || XLENGTH(x) != 3) return 0;
  int type = TYPEOF(VECTOR_ELT(x, 1));
  return TYPEOF(VECTOR_ELT(x, 0)) == STRSXP && (type == INTSXP || type == REALSXP);
}

SEXP ffi_char_map_expand(SEXP map) {
  if (!is_map(map)) Rf_error("this char_map is damaged: it needs `chars`, `idx` and `attributes`");
  SEXP chars = VECTOR_ELT(map, 0), number = VECTOR_ELT(map, 1);
  R_xlen_t n = XLENGTH(number), most = XLENGTH(chars);
  const int *whole = TYPEOF(number) == INTSXP ? DATAPTR_RO(number) : NULL;
  const double *real = whole ? NULL : DATAPTR_RO(number);
  SEXP x = PROTECT(Rf_allocVector(STRSXP, n));
  for (R_xlen_t i = 0; i < n; i++) {
    double at = whole ? (double)whole[i] : real[i];
    if (!(at >= 1 && at <= (double)most)) {
      Rf_error("this char_map is damaged: element %.0f of `idx` is %.0f, there are %.0f strings",
               (double)i + 1, at, (double)most);
    }
    SET_STRING_ELT(x, i, STRING_ELT(chars, (R_xlen_t)at - 1));
  }
  SEXP attributes = VECTOR_ELT(map, 2);
  if (attributes != R_NilValue) x = rg_call_r("with_attributes", 2, x, attributes);
  UNPROTECT(1);
  return x;
}

static int wants(SEXP x, const compress_call *call) {
  if ((double)XLENGTH(x) < call->limit) return 0;
  if (!ALTREP(x) || strcmp(call->altreps, "yes") == 0) return 1;
  return strcmp(call->altreps, "if_allocated") == 0 && DATAPTR_OR_NULL(x) != NULL;
}

static SEXP compress(SEXP x, const void *data) {
  const compress_call *call = data;
  R_CheckStack();
  if (Rf_isS4(x)) return x;
  if (TYPEOF(x) == STRSXP && wants(x, call)) {
    SEXP map = make_map(x, call->class, call->share);
    return map == R_NilValue ? x : map;
  }
  if (TYPEOF(x) != VECSXP || Rf_inherits(x, "char_map") || Rf_inherits(x, "shm_obj")) return x;
  return rg_encode_share_map(x, compress, call);
}

SEXP ffi_compress_chars(SEXP x, SEXP limit, SEXP altreps, SEXP class, SEXP share) {
  compress_call call = {Rf_asReal(limit), Rf_asReal(share), CHAR(STRING_ELT(altreps, 0)), class};
  return compress(x, &call);
}

static SEXP uncompress(SEXP x, const void *data) {
  SEXP class = (SEXP)data;
  R_CheckStack();
  if (TYPEOF(x) != VECSXP || Rf_isS4(x)) return x;
  int mine = Rf_inherits(x, "char_map");
  for (R_xlen_t i = 0; mine && i < XLENGTH(class); i++) {
    mine = Rf_inherits(x, CHAR(STRING_ELT(class, i)));
  }
  if (mine) return ffi_char_map_expand(x);
  return rg_encode_share_map(x, uncompress, data);
}

SEXP ffi_uncompress_chars(SEXP x, SEXP class) { return uncompress(x, class); }
