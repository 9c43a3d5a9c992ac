#include "encode-share.h"

#include <string.h>

#include "call-r.h"
#include "shm-array.h"
#include "shm-string.h"
#include "shm-vector.h"
#include "string-encoding.h"

SEXP rg_encode_share_map(SEXP list, SEXP (*f)(SEXP x, const void *data), const void *data) {
  SEXP result = list;
  PROTECT_INDEX at;
  PROTECT_WITH_INDEX(result, &at);
  for (R_xlen_t i = 0; i < XLENGTH(list); i++) {
    SEXP old = VECTOR_ELT(list, i);
    SEXP new = PROTECT(f(old, data));
    if (new != old) {
      if (result == list) REPROTECT(result = Rf_shallow_duplicate(list), at);
      SET_VECTOR_ELT(result, i, new);
    }
    UNPROTECT(1);
  }
  UNPROTECT(1);
  return result;
}

typedef struct {
  const rg_share_sink *sink;
  int in_attribute;
} share_call;

static SEXP share(SEXP x, const void *data);

static SEXP share_numbers(SEXP x, int64_t size, const rg_share_sink *sink) {
  SEXP array = PROTECT(rg_shm_array_unwrap(x));
  SEXP result = x;
  if (rg_shm_vector_has_handle(array, sink->arena)) {
    result = array; /* travels by its own handle */
  } else {
    /* No data in memory: a compact sequence, a mapped file. R's serialisation knows how to
       write such a vector without expanding it. */
    const rg_piece piece = {DATAPTR_OR_NULL(x), size};
    if (piece.data) result = sink->store(x, &piece, 1, sink->data);
  }
  UNPROTECT(1);
  return result;
}

static SEXP share_leaf(SEXP x, const rg_share_sink *sink) {
  int64_t unit = TYPEOF(x) == STRSXP ? 8 : (int64_t)rg_shm_vector_unit(TYPEOF(x));
  int64_t size = (int64_t)XLENGTH(x) * unit;
  if (size == 0) return x;
  if (size < sink->share_from) return rg_shm_array_copy_wrapped(x);
  if (TYPEOF(x) == STRSXP) {
    if (rg_shm_string_has_handle(x, sink->arena)) return x;
    /* A result that R has not made the strings of, as as.character() leaves it, is sent as what they
       are made of: they may never be asked for. */
    if (sink->arena && ALTREP(x) && !rg_shm_string_is(x) && !DATAPTR_OR_NULL(x)) return x;
    if (!rg_string_have_codes(x, rg_string_native())) return x;
    return rg_shm_string_store(x, sink->store, sink->data);
  }
  return share_numbers(x, size, sink);
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

typedef struct {
  SEXP original, x;
  PROTECT_INDEX at; /* of x */
  SEXP (*f)(SEXP x, const void *data);
  const void *data;
} attribute_map;

static SEXP map_attribute(SEXP name, SEXP old, void *data) {
  attribute_map *map = data;
  if (is_structural(CHAR(PRINTNAME(name)))) return NULL;
  SEXP new = PROTECT(map->f(old, map->data));
  if (new != old) {
    if (map->x == map->original) REPROTECT(map->x = Rf_shallow_duplicate(map->original), map->at);
    Rf_setAttrib(map->x, name, new);
  }
  UNPROTECT(1);
  return NULL;
}

/* `x` is `original`, or what has taken its place and carries its attributes: each of these becomes
   f(attribute, data). */
static SEXP map_attributes(SEXP x, SEXP original, SEXP (*f)(SEXP x, const void *data), const void *data) {
  attribute_map map = {original, x, 0, f, data};
  PROTECT_WITH_INDEX(x, &map.at);
  rg_each_attribute(original, map_attribute, &map);
  UNPROTECT(1);
  return map.x;
}

static void refuse(const char *what) {
  Rf_errorcall(R_NilValue,
               "the value contains %s, which cannot leave the process that made it; "
               "return what it refers to instead",
               what);
}

static SEXP share(SEXP x, const void *data) {
  const share_call *call = data;
  const rg_share_sink *sink = call->sink;
  SEXP result = x;
  R_CheckStack();
  switch (TYPEOF(x)) {
  case EXTPTRSXP:
  case WEAKREFSXP:
    /* As an attribute it is some package's cache (data.table keeps one), and that package
       copes with its loss. */
    if (!call->in_attribute && sink->refuses_foreign) {
      refuse(TYPEOF(x) == EXTPTRSXP ? "an external pointer" : "a weak reference");
    }
    return x;
  case LGLSXP:
  case INTSXP:
  case REALSXP:
  case CPLXSXP:
  case RAWSXP:
  case STRSXP:
    if (sink->refuses_foreign && Rf_inherits(x, "connection")) refuse("a connection");
    result = share_leaf(x, sink);
    break;
  case VECSXP:
    result = rg_encode_share_map(x, share, call);
    break;
  case S4SXP:
    break;
  default:
    return x;
  }
  PROTECT(result);
  const share_call attribute_call = {sink, 1};
  result = map_attributes(result, x, share, &attribute_call);
  UNPROTECT(1);
  return result;
}

SEXP rg_encode_share(SEXP value, const rg_share_sink *sink) {
  const share_call call = {sink, 0};
  return share(value, &call);
}

/* The elements of a pairlist or call, which is copied as soon as one of them changes. */
static SEXP map_pairs(SEXP list, SEXP (*f)(SEXP x, const void *data), const void *data) {
  SEXP result = list;
  PROTECT_INDEX at;
  PROTECT_WITH_INDEX(result, &at);
  int place = 0;
  for (SEXP cell = list; TYPEOF(cell) == LISTSXP || TYPEOF(cell) == LANGSXP; cell = CDR(cell), place++) {
    SEXP old = CAR(cell);
    SEXP new = PROTECT(f(old, data));
    if (new != old) {
      if (result == list) REPROTECT(result = Rf_shallow_duplicate(list), at);
      SETCAR(Rf_nthcdr(result, place), new);
    }
    UNPROTECT(1);
  }
  UNPROTECT(1);
  return result;
}

static SEXP settle(SEXP x, const void *how) {
  R_CheckStack();
  SEXP result = x;
  switch (TYPEOF(x)) {
  case LGLSXP:
  case INTSXP:
  case REALSXP:
  case CPLXSXP:
  case RAWSXP:
    result = rg_shm_array_settle(x, how);
    break;
  case VECSXP:
  case EXPRSXP:
    result = rg_encode_share_map(x, settle, how);
    break;
  case LISTSXP:
  case LANGSXP:
    result = map_pairs(x, settle, how);
    break;
  case STRSXP:
  case S4SXP:
  case CLOSXP:
    break;
  default:
    return x;
  }
  PROTECT(result);
  result = map_attributes(result, result, settle, how);
  UNPROTECT(1);
  return result;
}

static int has_arrays(void) {
  const rg_region *region = rg_region_first();
  while (region && !region->writable) region = region->next;
  return region != NULL;
}

SEXP rg_encode_settle(SEXP value, const rg_settle *how) { return has_arrays() ? settle(value, how) : value; }

/* `in_attribute`: pointers stay, as share() lets them. */
static SEXP without_foreign(SEXP x, const void *in_attribute) {
  static const int inside = 1;
  R_CheckStack();
  switch (TYPEOF(x)) {
  case EXTPTRSXP:
  case WEAKREFSXP:
    return *(const int *)in_attribute ? x : R_NilValue;
  case INTSXP:
    if (Rf_inherits(x, "connection")) return R_NilValue;
    break;
  case LGLSXP:
  case REALSXP:
  case CPLXSXP:
  case RAWSXP:
  case STRSXP:
  case VECSXP:
  case S4SXP:
    break;
  default:
    return x;
  }
  SEXP result = TYPEOF(x) == VECSXP ? rg_encode_share_map(x, without_foreign, in_attribute) : x;
  PROTECT(result);
  result = map_attributes(result, x, without_foreign, &inside);
  UNPROTECT(1);
  return result;
}

SEXP rg_encode_without_foreign(SEXP value) {
  const int in_attribute = 0;
  return TYPEOF(value) == VECSXP ? without_foreign(value, &in_attribute) : value;
}
