#include "encode-share.h"

#include <Rversion.h>
#include <string.h>

#include "encode.h"
#include "shm-vector.h"

typedef struct {
  rg_arena *arena;
  int64_t share_from;
} share_call;

static SEXP share(SEXP x, const share_call *call, int in_attribute);

static SEXP share_leaf(SEXP x, const share_call *call) {
  size_t size = (size_t)XLENGTH(x) * rg_shm_vector_unit(TYPEOF(x));
  if ((int64_t)size < call->share_from || size == 0) return x;
  if (rg_shm_vector_is_pristine(x, call->arena)) return x; /* travels by its own handle */
  /* No data in memory: a compact sequence, a mapped file. R's serialisation knows how to
     write such a vector without expanding it. */
  const void *data = DATAPTR_OR_NULL(x);
  if (!data) return x;
  rg_span span;
  rg_arena_need need = {0, 0};
  rg_arena_status status = rg_arena_write(call->arena, data, (int64_t)size, &span, &need);
  if (status != RG_ARENA_OK) rg_encode_full(status, need);
  return rg_shm_vector_stand_in(x, span);
}

static SEXP share_list(SEXP x, const share_call *call, int in_attribute) {
  SEXP result = x;
  PROTECT_INDEX at;
  PROTECT_WITH_INDEX(result, &at);
  for (R_xlen_t i = 0; i < XLENGTH(x); i++) {
    SEXP old = VECTOR_ELT(x, i);
    SEXP new = PROTECT(share(old, call, in_attribute));
    if (new != old) {
      if (result == x) REPROTECT(result = Rf_shallow_duplicate(x), at);
      SET_VECTOR_ELT(result, i, new);
    }
    UNPROTECT(1);
  }
  UNPROTECT(1);
  return result;
}

/* Attributes that R keeps small, computes, or checks against the vector's length. */
static int is_structural(const char *name) {
  static const char *const names[] = {"names", "class", "dim",  "dimnames",
                                      "row.names", "levels", "tsp", "comment", NULL};
  for (int i = 0; names[i]; i++) {
    if (strcmp(name, names[i]) == 0) return 1;
  }
  return 0;
}

static SEXP attributes_of(SEXP x) {
#if R_VERSION >= R_Version(4, 5, 0)
  if (!ANY_ATTRIB(x)) return R_NilValue;
#endif
  SEXP quoted = PROTECT(Rf_lang2(R_QuoteSymbol, x));
  SEXP call = PROTECT(Rf_lang2(Rf_install("attributes"), quoted));
  SEXP attributes = Rf_eval(call, R_BaseEnv);
  UNPROTECT(2);
  return attributes;
}

/* `x` is `original`, or what has taken its place and carries its attributes. */
static SEXP share_attributes(SEXP x, SEXP original, const share_call *call) {
  SEXP attributes = PROTECT(attributes_of(original));
  SEXP names = PROTECT(Rf_getAttrib(attributes, R_NamesSymbol));
  PROTECT_INDEX at;
  PROTECT_WITH_INDEX(x, &at);
  for (R_xlen_t i = 0; i < Rf_xlength(attributes); i++) {
    if (is_structural(CHAR(STRING_ELT(names, i)))) continue;
    SEXP old = VECTOR_ELT(attributes, i);
    SEXP new = PROTECT(share(old, call, 1));
    if (new != old) {
      if (x == original) REPROTECT(x = Rf_shallow_duplicate(original), at);
      Rf_setAttrib(x, Rf_installTrChar(STRING_ELT(names, i)), new);
    }
    UNPROTECT(1);
  }
  UNPROTECT(3);
  return x;
}

static void refuse(const char *what) {
  Rf_errorcall(R_NilValue,
               "the value contains %s, which cannot leave the process that made it; "
               "return what it refers to instead",
               what);
}

static SEXP share(SEXP x, const share_call *call, int in_attribute) {
  SEXP result = x;
  R_CheckStack();
  switch (TYPEOF(x)) {
  case EXTPTRSXP:
  case WEAKREFSXP:
    /* As an attribute it is some package's cache (data.table keeps one), and that package
       copes with its loss. */
    if (!in_attribute) refuse(TYPEOF(x) == EXTPTRSXP ? "an external pointer" : "a weak reference");
    return x;
  case LGLSXP:
  case INTSXP:
  case REALSXP:
  case CPLXSXP:
  case RAWSXP:
    if (Rf_inherits(x, "connection")) refuse("a connection");
    result = share_leaf(x, call);
    break;
  case VECSXP:
    result = share_list(x, call, in_attribute);
    break;
  case S4SXP:
  case STRSXP:
    break;
  default:
    return x;
  }
  PROTECT(result);
  result = share_attributes(result, x, call);
  UNPROTECT(1);
  return result;
}

SEXP rg_encode_share(SEXP value, rg_arena *arena, int64_t share_from) {
  share_call call = {arena, share_from};
  return share(value, &call, 0);
}
