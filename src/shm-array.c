#include "shm-array.h"

#include <R_ext/Altrep.h>
#include <math.h>
#include <string.h>

#include "call-r.h"
#include "encode.h"
#include "region.h"
#include "shm-store.h"
#include "shm-vector.h"
#include "shm-view.h"

/* Of the memory that elements stand in: also where there are none there is some. */
static int64_t bytes_of(SEXPTYPE type, R_xlen_t length) {
  return (int64_t)(length > 0 ? length : 1) * (int64_t)rg_shm_vector_unit(type);
}

/* Not reserved: see rg_region_create(). */
static SEXP new_array(SEXPTYPE type, R_xlen_t length, int64_t limit, rg_live kind, int64_t *available) {
  int64_t size = bytes_of(type, length);
  rg_region *region;
  rg_region_status status = rg_region_create(size, limit, &region, available);
  if (rg_encode_may_try_again(status)) status = rg_region_create(size, limit, &region, available);
  rg_encode_check(status, size, *available);
  SEXP pointer = PROTECT(rg_shm_view_of_region(region, 0, size, length, kind));
  SEXP x = PROTECT(rg_shm_vector_new(pointer, type));
  SEXP class = PROTECT(Rf_mkString(rg_live_class(kind)));
  Rf_setAttrib(x, R_ClassSymbol, class);
  UNPROTECT(3);
  return x;
}

int64_t rg_shm_array_limit(SEXP limit) {
  double most = Rf_asReal(limit);
  return most < 9e18 ? (int64_t)most : INT64_MAX;
}

void rg_shm_array_set_attributes(SEXP x, SEXP attributes) {
  SEXP names = PROTECT(Rf_getAttrib(attributes, R_NamesSymbol));
  for (R_xlen_t i = 0; i < XLENGTH(attributes); i++) {
    Rf_setAttrib(x, Rf_installTrChar(STRING_ELT(names, i)), VECTOR_ELT(attributes, i));
  }
  UNPROTECT(1);
}

/* Where the elements of an array stand. Found by their address, since R wraps vectors in objects of
   its own when it is about to change their attributes. */
typedef struct {
  rg_region *region;
  char *data;
  R_xlen_t length;
} place;

typedef struct {
  SEXP x;
  char *data;
} elements;

static SEXP find_elements(void *of) {
  elements *found = of;
  found->data = (char *)DATAPTR_OR_NULL(found->x);
  return R_NilValue;
}

/* R 4.6 tells nobody where the elements of a wrapper are once it has told it and something else, such as
   a serialisation, has held what is in the wrapper: that is an error of its own. */
static SEXP find_elements_within(SEXP condition, void *of) {
  (void)condition;
  elements *found = of;
  SEXP within = rg_shm_vector_within(found->x);
  if (within && TYPEOF(within) == TYPEOF(found->x)) found->data = (char *)DATAPTR_OR_NULL(within);
  return R_NilValue;
}

static char *elements_of(SEXP x) {
  if (!ALTREP(x) || rg_shm_vector_is(x)) return (char *)DATAPTR_OR_NULL(x);
  elements found = {x, NULL};
  R_tryCatchError(find_elements, &found, find_elements_within, &found);
  return found.data;
}

static int find_array(SEXP x, place *at) {
  size_t unit = rg_shm_vector_unit(TYPEOF(x));
  if (unit == 0) return 0;
  at->length = XLENGTH(x);
  at->data = elements_of(x);
  at->region = at->data ? rg_region_at(at->data, (int64_t)at->length * (int64_t)unit) : NULL;
  return at->region != NULL;
}

static place place_of(SEXP x) {
  place at;
  if (!find_array(x, &at)) Rf_error("this is not a shared array but an ordinary copy of one");
  return at;
}

SEXP ffi_shm_array_is(SEXP x) {
  place at;
  return Rf_ScalarLogical(find_array(x, &at));
}

void *rg_shm_array_data(SEXP x, size_t size) {
  place at = place_of(x);
  if (at.length * (R_xlen_t)rg_shm_vector_unit(TYPEOF(x)) < (R_xlen_t)size) {
    Rf_error("this shared object is too small to be what it says");
  }
  return at.data;
}

SEXP rg_shm_array_of(rg_live kind, R_xlen_t size, int64_t limit) {
  int64_t available = 0;
  SEXP x = PROTECT(new_array(RAWSXP, size, limit, kind, &available));
  rg_shm_store_reserve(place_of(x).region, available);
  UNPROTECT(1);
  return x;
}

/* All elements zero, FALSE or 00. The attributes, a named list, are set here, where no copy of the
   array can come of it. Without `reserved` it is for ffi_shm_array_write() alone until
   ffi_shm_array_reserve() has been called. */
SEXP ffi_shm_array_new(SEXP type, SEXP length, SEXP attributes, SEXP limit, SEXP reserved) {
  SEXPTYPE wanted = Rf_str2type(CHAR(STRING_ELT(type, 0)));
  int64_t available = 0;
  SEXP x = PROTECT(new_array(wanted, (R_xlen_t)Rf_asReal(length), rg_shm_array_limit(limit), RG_LIVE_ARRAY,
                             &available));
  if (Rf_asLogical(reserved) == TRUE) rg_shm_store_reserve(place_of(x).region, available);
  rg_shm_array_set_attributes(x, attributes);
  UNPROTECT(1);
  return x;
}

/* Another vector on the same elements, without attributes. */
static SEXP same_elements(SEXP x, const place *at) {
  int64_t size = bytes_of(TYPEOF(x), at->length);
  at->region->references++;
  SEXP pointer = PROTECT(
      rg_shm_view_of_region(at->region, at->data - at->region->data, size, at->length, RG_LIVE_ARRAY));
  SEXP same = rg_shm_vector_new(pointer, TYPEOF(x));
  UNPROTECT(1);
  return same;
}

/* The same elements, with dim and dimnames and without class. */
SEXP ffi_shm_array_plain(SEXP x) {
  place at = place_of(x);
  SEXP plain = PROTECT(same_elements(x, &at));
  SEXP dim = Rf_getAttrib(x, R_DimSymbol);
  if (dim == R_NilValue) {
    Rf_setAttrib(plain, R_NamesSymbol, Rf_getAttrib(x, R_NamesSymbol));
  } else { /* of an array of one dimension R takes the names of that for its names */
    Rf_setAttrib(plain, R_DimSymbol, dim);
    Rf_setAttrib(plain, R_DimNamesSymbol, Rf_getAttrib(x, R_DimNamesSymbol));
  }
  UNPROTECT(1);
  return plain;
}

/* What an assignment returns: the user is to hold the array and no duplicate or wrapper of R's. */
static SEXP original(SEXP x, const place *at) {
  if (rg_shm_vector_is_original(x)) return x;
  SEXP same = PROTECT(same_elements(x, at));
  SHALLOW_DUPLICATE_ATTRIB(same, x);
  UNPROTECT(1);
  return same;
}

SEXP rg_shm_array_unwrap(SEXP x) {
  place at;
  if (!ALTREP(x) || rg_shm_vector_is(x) || !Rf_inherits(x, rg_live_class(RG_LIVE_ARRAY))) return x;
  return find_array(x, &at) ? original(x, &at) : x;
}

/* Whether it is a wrapper around an array that has no class, or another one. */
static int has_lost_class(SEXP x, place *at) {
  if (!ALTREP(x) || rg_shm_vector_is(x) || Rf_inherits(x, rg_live_class(RG_LIVE_ARRAY))) return 0;
  return find_array(x, at);
}

SEXP ffi_shm_array_has_lost_class(SEXP x) {
  place at;
  return Rf_ScalarLogical(has_lost_class(x, &at));
}

/* An ordinary vector of the same elements, without attributes. */
static SEXP copy_of(SEXP x, const place *at) {
  SEXP copy = PROTECT(Rf_allocVector(TYPEOF(x), at->length));
  rg_shm_store_copy((void *)DATAPTR_RO(copy), at->data, (size_t)at->length * rg_shm_vector_unit(TYPEOF(x)));
  UNPROTECT(1);
  return copy;
}

SEXP rg_shm_array_copy_wrapped(SEXP x) {
  place at;
  if (!has_lost_class(x, &at)) return x;
  SEXP copy = PROTECT(copy_of(x, &at));
  SHALLOW_DUPLICATE_ATTRIB(copy, x);
  UNPROTECT(1);
  return copy;
}

/* Neither array nor view: what others find in its memory is not for R. */
static int is_tool(SEXP x) {
  return Rf_inherits(x, rg_live_class(RG_LIVE_LOCK)) || Rf_inherits(x, rg_live_class(RG_LIVE_COUNTER)) ||
         Rf_inherits(x, rg_live_class(RG_LIVE_SLOTS));
}

static void drop_class(SEXP x) {
  const char *array = rg_live_class(RG_LIVE_ARRAY);
  SEXP all = PROTECT(Rf_getAttrib(x, R_ClassSymbol));
  R_xlen_t count = 0, kept = 0;
  for (R_xlen_t i = 0; i < XLENGTH(all); i++) count += strcmp(CHAR(STRING_ELT(all, i)), array) != 0;
  SEXP others = PROTECT(Rf_allocVector(STRSXP, count));
  for (R_xlen_t i = 0; i < XLENGTH(all); i++) {
    if (strcmp(CHAR(STRING_ELT(all, i)), array) != 0) SET_STRING_ELT(others, kept++, STRING_ELT(all, i));
  }
  Rf_setAttrib(x, R_ClassSymbol, count > 0 ? others : R_NilValue);
  UNPROTECT(2);
}

SEXP rg_shm_array_settle(SEXP x, const rg_settle *how) {
  place at;
  if (!ALTREP(x) || !find_array(x, &at)) return x;
  if (is_tool(x)) {
    if (how->arrays == RG_SETTLE_PLAIN) rg_call_r("abort_copy", 1, x);
    return x;
  }
  int is_array = Rf_inherits(x, rg_live_class(RG_LIVE_ARRAY));
  if (is_array && how->arrays == RG_SETTLE_NEW && at.region->number <= how->region) return x;
  SEXP copy = PROTECT(copy_of(x, &at));
  SHALLOW_DUPLICATE_ATTRIB(copy, x);
  if (is_array && how->arrays == RG_SETTLE_PLAIN) drop_class(copy);
  UNPROTECT(1);
  return copy;
}

/* Copies `count` elements of `unit` bytes from `from`, which has `have` elements and is read
   round and round from number `first` on. */
static void copy_elements(char *to, const char *from, size_t unit, R_xlen_t first, R_xlen_t count,
                          R_xlen_t have) {
  R_xlen_t at = first % have;
  for (R_xlen_t done = 0; done < count;) {
    R_xlen_t some = have - at < count - done ? have - at : count - done;
    if (some > RG_SHM_STORE_ELEMENTS) some = RG_SHM_STORE_ELEMENTS;
    memcpy(to, from + (size_t)at * unit, (size_t)some * unit);
    to += (size_t)some * unit;
    rg_shm_store_look(done, done + some);
    done += some;
    at = at + some < have ? at + some : 0;
  }
}

/* `x`, or an ordinary copy of its elements where they may change while an assignment goes on: where they are
   in the memory of `target`, or, without one, in any memory that is written in place. This process has each
   region once, also those that it was sent. */
static SEXP held_still(SEXP x, const place *target) {
  place from;
  if (!find_array(x, &from) || (target && from.region != target->region)) return x;
  return copy_of(x, &from);
}

static void check_type(SEXP x, SEXP values) {
  if (TYPEOF(values) != TYPEOF(x)) {
    Rf_error("cannot store %s in a shared array of type %s", Rf_type2char(TYPEOF(values)),
             Rf_type2char(TYPEOF(x)));
  }
}

/* `value` everywhere; it has the array's type. As with all that is written in place, an interrupt leaves what
   is written by then. */
SEXP ffi_shm_array_fill(SEXP x, SEXP value) {
  place at = place_of(x);
  check_type(x, value);
  copy_elements(at.data, DATAPTR_RO(value), rg_shm_vector_unit(TYPEOF(x)), 0, at.length, 1);
  return x;
}

SEXP ffi_shm_array_reserve(SEXP x) {
  place at = place_of(x);
  rg_shm_store_reserve(at.region, 0);
  return x;
}

/* `values` at element number `start` (from 1) and the next ones. */
SEXP ffi_shm_array_write(SEXP x, SEXP start, SEXP values) {
  place at = place_of(x);
  double first = Rf_asReal(start) - 1;
  R_xlen_t count = XLENGTH(values);
  int64_t unit = (int64_t)rg_shm_vector_unit(TYPEOF(x));
  check_type(x, values);
  if (!(first >= 0) || first + (double)count > (double)at.length) {
    Rf_error("elements %.0f to %.0f are outside of a shared array of %.0f", first + 1,
             first + (double)count, (double)at.length);
  }
  if (count == 0) return R_NilValue;
  int64_t offset = at.data - at.region->data + (int64_t)first * unit, size = (int64_t)count * unit;
  rg_shm_store_write(at.region, offset, DATAPTR_RO(values), size, size, 0);
  return R_NilValue;
}

/* One dimension of an assignment: its positions, or all of them. */
typedef struct {
  const int *whole;
  const double *real;
  R_xlen_t count, extent, stride;
} axis;

static R_xlen_t position(const axis *a, R_xlen_t i) {
  if (!a->whole && !a->real) return i;
  return (R_xlen_t)(a->whole ? a->whole[i] : a->real[i]) - 1;
}

/* Before anything is written. A fraction is cut off, as R does it. */
static void check_axis(const axis *a) {
  if (!a->whole && !a->real) return;
  for (R_xlen_t i = 0; i < a->count; i++) {
    double at = a->whole ? a->whole[i] == NA_INTEGER ? NA_REAL : a->whole[i] : a->real[i];
    if (!(at >= 1) || at >= (double)a->extent + 1) {
      Rf_error("subscript %.0f is outside of a dimension of %.0f", trunc(at), (double)a->extent);
    }
  }
}

static axis axis_of(SEXP subscript, R_xlen_t extent, R_xlen_t stride) {
  axis a = {NULL, NULL, extent, extent, stride};
  if (subscript == R_NilValue) return a;
  a.count = XLENGTH(subscript);
  if (TYPEOF(subscript) == INTSXP) a.whole = INTEGER_RO(subscript);
  if (TYPEOF(subscript) == REALSXP) a.real = REAL_RO(subscript);
  if (!a.whole && !a.real) Rf_error("a subscript must be a vector of positions");
  return a;
}

/* `first`: the number of the value that comes next. */
static void assign_axis(char *to, size_t unit, const axis *axes, int level, const char *values,
                        R_xlen_t have, R_xlen_t *first) {
  const axis *a = &axes[level];
  if (level == 0 && !a->whole && !a->real) {
    copy_elements(to, values, unit, *first, a->count, have);
    rg_shm_store_look(*first, *first + a->count);
    *first += a->count;
    return;
  }
  for (R_xlen_t i = 0; i < a->count; i++) {
    char *at = to + (size_t)(position(a, i) * a->stride) * unit;
    if (level > 0) {
      assign_axis(at, unit, axes, level - 1, values, have, first);
    } else {
      memcpy(at, values + (size_t)(*first % have) * unit, unit);
      rg_shm_store_look(*first, *first + 1);
      *first += 1;
    }
  }
}

/* x[subscripts] <- values, in place. dim: the extents; subscripts: a list of positions from 1, as
   many as extents, NULL: all. Values are used round and round. Positions that are checked stay what they
   are, and values are those from before: both may be shared arrays, `x` itself among them. */
SEXP ffi_shm_array_assign(SEXP x, SEXP dim, SEXP subscripts, SEXP values) {
  place at = place_of(x);
  int rank = (int)XLENGTH(dim);
  axis *axes = (axis *)R_alloc((size_t)rank, sizeof *axes);
  R_xlen_t stride = 1, first = 0;
  double total = 1;
  check_type(x, values);
  SEXP held = PROTECT(Rf_allocVector(VECSXP, rank));
  for (int k = 0; k < rank; k++) {
    R_xlen_t extent = (R_xlen_t)REAL_RO(dim)[k];
    axes[k] = axis_of(SET_VECTOR_ELT(held, k, held_still(VECTOR_ELT(subscripts, k), NULL)), extent, stride);
    stride *= extent;
    total *= (double)axes[k].count;
  }
  if (stride > at.length) Rf_error("the dimensions do not fit the shared array");
  R_xlen_t have = XLENGTH(values);
  if (total == 0) {
    UNPROTECT(1);
    return original(x, &at);
  }
  if (have == 0 || (have > 1 && (double)((R_xlen_t)total / have) * (double)have != total)) {
    Rf_error("%.0f values cannot fill %.0f elements of a shared array", (double)have, total);
  }
  for (int k = 0; k < rank; k++) check_axis(&axes[k]);
  values = PROTECT(held_still(values, &at));
  assign_axis(at.data, rg_shm_vector_unit(TYPEOF(x)), axes, rank - 1, DATAPTR_RO(values), have,
              &first);
  UNPROTECT(2);
  return original(x, &at);
}
