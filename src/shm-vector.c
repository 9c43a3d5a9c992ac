#include "shm-vector.h"

#include <R_ext/Altrep.h>
#include <string.h>

#include "shm-view.h"
#include "shm-wrapper.h"

/* data1 is the external pointer of an rg_view, data2 is NULL; a stand-in has no view and the raw
   vector of its handle as data2. */

static R_altrep_class_t class_logical, class_integer, class_double, class_complex, class_raw;

size_t rg_shm_vector_unit(SEXPTYPE type) {
  switch (type) {
  case LGLSXP:
  case INTSXP:
    return sizeof(int);
  case REALSXP:
    return sizeof(double);
  case CPLXSXP:
    return sizeof(Rcomplex);
  case RAWSXP:
    return sizeof(Rbyte);
  default:
    return 0;
  }
}

static R_altrep_class_t class_of(SEXPTYPE type) {
  switch (type) {
  case LGLSXP:
    return class_logical;
  case INTSXP:
    return class_integer;
  case REALSXP:
    return class_double;
  case CPLXSXP:
    return class_complex;
  default:
    return class_raw;
  }
}

int rg_shm_vector_is(SEXP x) {
  return ALTREP(x) && rg_shm_vector_unit(TYPEOF(x)) > 0 &&
         ALTREP_CLASS(x) == R_SEXP(class_of(TYPEOF(x)));
}

SEXP rg_shm_vector_stand_in(SEXP x, rg_span span) {
  SEXP state = PROTECT(rg_shm_view_span_handle(span, TYPEOF(x), XLENGTH(x)));
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, R_NilValue));
  SEXP stand_in = PROTECT(R_new_altrep(class_of(TYPEOF(x)), pointer, state));
  SHALLOW_DUPLICATE_ATTRIB(stand_in, x);
  UNPROTECT(3);
  return stand_in;
}

SEXP rg_shm_vector_new(SEXP pointer, SEXPTYPE type) {
  return R_new_altrep(class_of(type), pointer, R_NilValue);
}

/* Whether `x`, which views an array, says that it is one. */
static int says_live(SEXP x) {
  const rg_view *view = rg_shm_view_get(R_altrep_data1(x));
  return view->live != RG_LIVE_NOT && Rf_inherits(x, rg_live_class(view->live));
}

static rg_view_state state_of(SEXP x) {
  rg_view_state state = rg_shm_view_state(R_altrep_data1(x));
  return state == RG_VIEW_LIVE && !says_live(x) ? RG_VIEW_CHANGED : state;
}

int rg_shm_vector_has_handle(SEXP x, const rg_arena *arena) {
  return rg_shm_vector_is(x) && state_of(x) != RG_VIEW_CHANGED &&
         rg_shm_view_is_reachable(R_altrep_data1(x), arena);
}

int rg_shm_vector_is_original(SEXP x) {
  rg_view *view = rg_shm_vector_is(x) ? rg_shm_view_get(R_altrep_data1(x)) : NULL;
  return view && view->state != RG_VIEW_LOOK;
}

/* ALTREP methods, under R's own names. */

static SEXP shm_Serialized_state(SEXP x) {
  if (TYPEOF(R_altrep_data2(x)) == RAWSXP) return R_altrep_data2(x);
  if (rg_wrapper_note(R_altrep_data1(x), says_live(x))) return R_NilValue;
  if (state_of(x) == RG_VIEW_CHANGED) return NULL;
  return rg_shm_view_handle(R_altrep_data1(x), TYPEOF(x));
}

static int64_t least_bytes(SEXPTYPE type, R_xlen_t length) {
  size_t unit = rg_shm_vector_unit(type);
  return unit == 0 || length > INT64_MAX / 16 ? -1 : (int64_t)length * (int64_t)unit;
}

static SEXP copy_vector(const void *data, int64_t size, SEXPTYPE type, R_xlen_t length) {
  (void)size;
  SEXP x = PROTECT(Rf_allocVector(type, length));
  if (length > 0) memcpy((void *)DATAPTR_RO(x), data, (size_t)least_bytes(type, length));
  UNPROTECT(1);
  return x;
}

static const rg_shm_view_maker vector_maker = {RG_COPY_NUMBERS, least_bytes, rg_shm_vector_new, copy_vector};

static SEXP shm_Unserialize(SEXP class, SEXP state) {
  (void)class;
  return rg_shm_view_resolve(state, &vector_maker);
}

/* The vector whose length was asked for last: an address, to be used while what holds the vector lives. */
static SEXP measured;

SEXP rg_shm_vector_within(SEXP x) {
  measured = NULL;
  XLENGTH(x);
  SEXP within = measured;
  measured = NULL;
  return within;
}

static R_xlen_t shm_Length(SEXP x) {
  measured = x;
  rg_view *view = rg_shm_view_get(R_altrep_data1(x));
  return view ? view->length : rg_shm_view_handle_length(R_altrep_data2(x));
}

/* Called for each element that R asks for: only a stand-in goes the long way, to the error. */
static const void *data_of(SEXP x) {
  const rg_view *view = rg_shm_view_get(R_altrep_data1(x));
  return view ? view->data : rg_shm_view_read(R_altrep_data1(x));
}

/* Rcpp >= 1.1.1 writes through pointers for reading, too. */
static void *shm_Dataptr(SEXP x, Rboolean writable) {
  SEXP pointer = R_altrep_data1(x);
  const void *data = rg_shm_view_read(pointer);
  if (rg_shm_view_get(pointer)->state == RG_VIEW_LIVE && (!writable || says_live(x))) return (void *)data;
  return rg_shm_view_write(pointer);
}

/* R duplicates what it is about to hand to `[<-`, whose method for arrays writes to the array itself.
   It also duplicates what other code is about to change: through the pointer for that the duplicate
   is a copy. NULL: an ordinary copy, R's default. */
static SEXP shm_Duplicate(SEXP x, Rboolean deep) {
  (void)deep;
  rg_view *view = rg_shm_view_get(R_altrep_data1(x));
  int live = view && (view->state == RG_VIEW_LIVE || view->state == RG_VIEW_LOOK);
  if (!live || !says_live(x)) return NULL;
  SEXP pointer = PROTECT(rg_shm_view_look(R_altrep_data1(x)));
  SEXP same = rg_shm_vector_new(pointer, TYPEOF(x));
  UNPROTECT(1);
  return same;
}

static const void *shm_Dataptr_or_null(SEXP x) {
  rg_view *view = rg_shm_view_get(R_altrep_data1(x));
  return view ? view->data : NULL;
}

static Rboolean shm_Inspect(SEXP x, int pre, int deep, int pvec,
                            void (*inspect_subtree)(SEXP, int, int, int)) {
  (void)pre, (void)deep, (void)pvec, (void)inspect_subtree;
  rg_view *view = rg_shm_view_get(R_altrep_data1(x));
  if (view) {
    const char *kind = view->region  ? "shared memory of its own"
                       : view->block ? "shared memory of a run"
                                     : "POSIX shared memory";
    Rprintf("<%s: %.0f elements, span of %.0f bytes at %.0f>\n", kind, (double)view->length,
            (double)view->size, (double)view->offset);
  } else {
    Rprintf("<stand-in for shared memory>\n");
  }
  return TRUE;
}

#define SHM_ELT(name, type) \
  static type name##_Elt(SEXP x, R_xlen_t i) { return ((const type *)data_of(x))[i]; }

#define SHM_GET_REGION(name, type)                                               \
  static R_xlen_t name##_Get_region(SEXP x, R_xlen_t i, R_xlen_t n, type *buf) { \
    R_xlen_t left = shm_Length(x) - i;                                           \
    if (n > left) n = left;                                                      \
    if (n <= 0) return 0;                                                        \
    memcpy(buf, (const type *)data_of(x) + i, (size_t)n * sizeof(type));         \
    return n;                                                                    \
  }

SHM_ELT(shm_logical, int)
SHM_ELT(shm_integer, int)
SHM_ELT(shm_double, double)
SHM_ELT(shm_complex, Rcomplex)
SHM_ELT(shm_raw, Rbyte)
SHM_GET_REGION(shm_logical, int)
SHM_GET_REGION(shm_integer, int)
SHM_GET_REGION(shm_double, double)
SHM_GET_REGION(shm_complex, Rcomplex)
SHM_GET_REGION(shm_raw, Rbyte)

/* As R's own, which asks for each element by a call. NULL: R does it. */
static SEXP shm_Coerce(SEXP x, int type) {
  if (type != REALSXP || (TYPEOF(x) != INTSXP && TYPEOF(x) != LGLSXP)) return NULL;
  const int *from = data_of(x);
  R_xlen_t length = shm_Length(x);
  SEXP coerced = PROTECT(Rf_allocVector(REALSXP, length));
  double *to = REAL(coerced);
  for (R_xlen_t i = 0; i < length; ++i) to[i] = from[i] == NA_INTEGER ? NA_REAL : from[i];
  SHALLOW_DUPLICATE_ATTRIB(coerced, x);
  UNPROTECT(1);
  return coerced;
}

/* Set for all classes. Not set: Extract_subset, Is_sorted, No_NA; R's
   defaults make ordinary vectors, which is what a copy should be. */
static void set_common(R_altrep_class_t class) {
  R_set_altrep_Length_method(class, shm_Length);
  R_set_altrep_Inspect_method(class, shm_Inspect);
  R_set_altrep_Serialized_state_method(class, shm_Serialized_state);
  R_set_altrep_Unserialize_method(class, shm_Unserialize);
  R_set_altrep_Duplicate_method(class, shm_Duplicate);
  R_set_altvec_Dataptr_method(class, shm_Dataptr);
  R_set_altvec_Dataptr_or_null_method(class, shm_Dataptr_or_null);
  R_set_altrep_Coerce_method(class, shm_Coerce);
}

#define SHM_CLASS(name, alt)                                              \
  class_##name = R_make_##alt##_class("shm_" #name, "regatta", dll);      \
  set_common(class_##name);                                               \
  R_set_##alt##_Elt_method(class_##name, shm_##name##_Elt);               \
  R_set_##alt##_Get_region_method(class_##name, shm_##name##_Get_region);

void rg_shm_vector_init(DllInfo *dll) {
  SHM_CLASS(logical, altlogical)
  SHM_CLASS(integer, altinteger)
  SHM_CLASS(double, altreal)
  SHM_CLASS(complex, altcomplex)
  SHM_CLASS(raw, altraw)
}
