#include "shm-vector.h"

#include <R_ext/Altrep.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys-fd.h"

/*
 * data1 is an external pointer to an rg_view, data2 is NULL; a stand-in has no view and
 * the raw vector of its handle as data2.
 *
 * R asks for a writable pointer also where it only reads (INTEGER(x) does). The pages are
 * mapped privately, so a write is never seen by anybody else; but the block is then no
 * longer known to be as the arena has it, and is never passed on by handle again.
 */

typedef struct {
  rg_block *block;
  R_xlen_t length;
} rg_view;

/* What a serialised shared vector consists of, within one run. */
typedef struct {
  uint64_t tag;
  int64_t offset;
  int64_t span_size;
  int64_t length;
  int32_t type;
  int32_t unused;
} rg_handle;

static R_altrep_class_t class_logical, class_integer, class_double, class_complex, class_raw;
static rg_arena *context_arena;
static int context_copies;

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

static rg_view *view_of(SEXP x) { return R_ExternalPtrAddr(R_altrep_data1(x)); }

static void view_finalize(SEXP pointer) {
  rg_view *view = R_ExternalPtrAddr(pointer);
  if (!view) return;
  R_ClearExternalPtr(pointer);
  rg_block_close(view->block);
  free(view);
}

/* Wraps one reference to `block`, which it closes if that fails. */
static SEXP view_wrap(rg_block *block, SEXPTYPE type, R_xlen_t length) {
  rg_view *view = malloc(sizeof *view);
  if (!view) {
    rg_block_close(block);
    Rf_error("cannot allocate %d bytes for a view on shared memory", (int)sizeof *view);
  }
  view->block = block;
  view->length = length;
  SEXP pointer = PROTECT(R_MakeExternalPtr(view, R_NilValue, R_NilValue));
  R_RegisterCFinalizerEx(pointer, view_finalize, TRUE);
  SEXP x = R_new_altrep(class_of(type), pointer, R_NilValue);
  UNPROTECT(1);
  return x;
}

void rg_shm_vector_begin(rg_arena *arena, int copy) {
  context_arena = arena;
  context_copies = copy;
}

void rg_shm_vector_finish(void) { context_arena = NULL; }

int rg_shm_vector_is_pristine(SEXP x, const rg_arena *arena) {
  if (!rg_shm_vector_is(x)) return 0;
  rg_view *view = view_of(x);
  return view && view->block->arena == arena && !view->block->dirty;
}

static SEXP handle_of(uint64_t tag, rg_span span, SEXPTYPE type, R_xlen_t length) {
  rg_handle handle = {tag, span.offset, span.size, length, (int32_t)type, 0};
  SEXP state = Rf_allocVector(RAWSXP, sizeof handle);
  memcpy(RAW(state), &handle, sizeof handle);
  return state;
}

SEXP rg_shm_vector_stand_in(SEXP x, rg_span span) {
  SEXP state = PROTECT(handle_of(context_arena->tag, span, TYPEOF(x), XLENGTH(x)));
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, R_NilValue));
  SEXP stand_in = PROTECT(R_new_altrep(class_of(TYPEOF(x)), pointer, state));
  SHALLOW_DUPLICATE_ATTRIB(stand_in, x);
  UNPROTECT(3);
  return stand_in;
}

/* ALTREP methods, under R's own names. */

static SEXP shm_Serialized_state(SEXP x) {
  if (!context_arena) return NULL; /* the data themselves are written */
  if (TYPEOF(R_altrep_data2(x)) == RAWSXP) return R_altrep_data2(x);
  if (!rg_shm_vector_is_pristine(x, context_arena)) return NULL;
  rg_view *view = view_of(x);
  return handle_of(context_arena->tag, view->block->span, TYPEOF(x), view->length);
}

static SEXP read_copy(rg_arena *arena, const rg_handle *handle) {
  SEXP x = PROTECT(Rf_allocVector((SEXPTYPE)handle->type, (R_xlen_t)handle->length));
  size_t size = (size_t)handle->length * rg_shm_vector_unit((SEXPTYPE)handle->type);
  char *to = (char *)DATAPTR_RO(x);
  for (size_t done = 0; done < size;) {
    size_t want = size - done < ((size_t)1 << 30) ? size - done : (size_t)1 << 30;
    ssize_t n = pread(arena->fd, to + done, want, (off_t)(handle->offset + (int64_t)done));
    if (n <= 0 && errno != EINTR) {
      Rf_error("cannot read %.0f bytes of shared memory: %s", (double)size, strerror(errno));
    }
    if (n > 0) done += (size_t)n;
  }
  UNPROTECT(1);
  return x;
}

static SEXP shm_Unserialize(SEXP class, SEXP state) {
  (void)class;
  rg_handle handle;
  if (TYPEOF(state) != RAWSXP || XLENGTH(state) != sizeof handle) {
    Rf_error("this is not the handle of a shared vector");
  }
  memcpy(&handle, RAW(state), sizeof handle);
  size_t unit = rg_shm_vector_unit((SEXPTYPE)handle.type);
  if (!context_arena || handle.tag != context_arena->tag) {
    Rf_error("the shared vector of %.0f elements belongs to another session, or the memory "
             "it stood in is gone",
             (double)handle.length);
  }
  int64_t end = atomic_load(&context_arena->shared->end);
  if (unit == 0 || handle.length < 0 || handle.offset < 0 || handle.span_size < 0 ||
      handle.offset % rg_arena_page() != 0 || handle.offset > end - handle.span_size ||
      handle.length > handle.span_size / (int64_t)unit) {
    Rf_error("the handle of a shared vector is damaged: %.0f elements at %.0f of %.0f bytes",
             (double)handle.length, (double)handle.offset, (double)end);
  }
  rg_span span = {handle.offset, handle.span_size};
  rg_block *block = context_copies ? NULL : rg_block_open(context_arena, span);
  if (block) return view_wrap(block, (SEXPTYPE)handle.type, (R_xlen_t)handle.length);
  if (!context_copies && errno != ENOMEM) {
    Rf_error("cannot map %.0f bytes of shared memory: %s", (double)handle.span_size,
             strerror(errno));
  }
  SEXP x = PROTECT(read_copy(context_arena, &handle));
  if (!rg_block_owns(context_arena, span.offset)) rg_arena_release(context_arena, span);
  UNPROTECT(1);
  return x;
}

static R_xlen_t shm_Length(SEXP x) {
  rg_view *view = view_of(x);
  if (view) return view->length;
  rg_handle handle;
  memcpy(&handle, RAW(R_altrep_data2(x)), sizeof handle);
  return (R_xlen_t)handle.length;
}

static const void *data_of(SEXP x) {
  rg_view *view = view_of(x);
  if (!view) Rf_error("this vector is a stand-in for shared memory and has no data here");
  return view->block->address;
}

static void *shm_Dataptr(SEXP x, Rboolean writable) {
  const void *data = data_of(x);
  if (writable) view_of(x)->block->dirty = 1;
  return (void *)data;
}

static const void *shm_Dataptr_or_null(SEXP x) {
  rg_view *view = view_of(x);
  return view ? view->block->address : NULL;
}

static Rboolean shm_Inspect(SEXP x, int pre, int deep, int pvec,
                            void (*inspect_subtree)(SEXP, int, int, int)) {
  (void)pre, (void)deep, (void)pvec, (void)inspect_subtree;
  rg_view *view = view_of(x);
  if (view) {
    Rprintf("<shared memory: %.0f elements, span of %.0f bytes at %.0f>\n",
            (double)view->length, (double)view->block->span.size,
            (double)view->block->span.offset);
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

/* Set for all classes. Not set: Duplicate, Extract_subset, Coerce, Is_sorted, No_NA; R's
   defaults make ordinary vectors, which is what a copy should be. */
static void set_common(R_altrep_class_t class) {
  R_set_altrep_Length_method(class, shm_Length);
  R_set_altrep_Inspect_method(class, shm_Inspect);
  R_set_altrep_Serialized_state_method(class, shm_Serialized_state);
  R_set_altrep_Unserialize_method(class, shm_Unserialize);
  R_set_altvec_Dataptr_method(class, shm_Dataptr);
  R_set_altvec_Dataptr_or_null_method(class, shm_Dataptr_or_null);
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
