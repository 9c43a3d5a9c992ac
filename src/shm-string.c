#include "shm-string.h"

#include <R_ext/Altrep.h>
#include <stdlib.h>
#include <string.h>

#include "shm-store.h"
#include "shm-view.h"
#include "string-encoding.h"
#include "string-index.h"
#include "sys-layout.h"
#include "sys-memory.h"

RG_LAYOUT_SIZE(rg_string_header, 40);
RG_LAYOUT(rg_string_header, magic, 0, 8);
RG_LAYOUT(rg_string_header, length, 8, 8);
RG_LAYOUT(rg_string_header, distinct, 16, 8);
RG_LAYOUT(rg_string_header, text, 24, 8);
RG_LAYOUT(rg_string_header, indexed, 32, 8);

enum { PARTS = 5 };

static R_altrep_class_t class_string;

/* Storing. */

/* Whether to number the strings: with more distinct strings than half of all, the numbers would
   take more room than they save. A sample tells early: of m strings drawn from d that are
   equally frequent, about m^2 / 2d have been there before. Its places follow no pattern, which
   the strings might follow too. */
static int repeats_enough(const uintptr_t *keys, int64_t n) {
  enum { SAMPLE = 65536, PIECE = 256 };
  if (n <= 4 * SAMPLE) return 1;
  uintptr_t some[PIECE];
  int32_t numbers[PIECE];
  rg_string_index *seen = rg_string_index_create(SAMPLE);
  uint64_t place = 0;
  for (int64_t done = 0; seen && done < SAMPLE; done += PIECE) {
    for (int j = 0; j < PIECE; j++) {
      place = place * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
      some[j] = keys[(place >> 16) % (uint64_t)n];
    }
    if (rg_string_index_add(seen, some, PIECE, numbers) != RG_STRING_INDEX_OK) break;
  }
  double repeats = seen ? SAMPLE - (double)rg_string_index_count(seen) : SAMPLE;
  rg_string_index_destroy(seen);
  return repeats >= (double)SAMPLE / (double)n * SAMPLE;
}

/* What it takes to store a vector. None of it is R's: R would look for garbage first, and in a
   forked worker that looks at every string and copies the pages that it lies in. */
typedef struct {
  rg_string_index *index;
  int32_t *numbers;
  uint64_t *ends;
  unsigned char *encodings;
  char *text;
} packing;

static void packing_finalize(SEXP owner) {
  packing *pack = R_ExternalPtrAddr(owner);
  if (!pack) return;
  R_ClearExternalPtr(owner);
  rg_string_index_destroy(pack->index);
  free(pack->numbers);
  free(pack->ends);
  free(pack->encodings);
  free(pack->text);
  free(pack);
}

static void *allocate(int64_t size) {
  void *memory = rg_memory_allocate(size);
  if (!memory) Rf_error("cannot allocate %.0f bytes to share a character vector", (double)size);
  return memory;
}

static rg_string_index_status index_all(packing *pack, const uintptr_t *keys, int64_t n) {
  rg_string_index_status status = RG_STRING_INDEX_OK;
  for (int64_t at = 0; at < n && status == RG_STRING_INDEX_OK; at += RG_SHM_STORE_ELEMENTS) {
    int64_t some = n - at < RG_SHM_STORE_ELEMENTS ? n - at : RG_SHM_STORE_ELEMENTS;
    status = rg_string_index_add(pack->index, keys + at, (size_t)some, pack->numbers + at);
    rg_shm_store_look(at, at + some);
  }
  return status;
}

/* The distinct strings in pieces[2 .. 4]; header->distinct says how many. */
static void pack_text(packing *pack, const SEXP *strings, rg_string_header *header,
                      rg_piece pieces[PARTS]) {
  int64_t d = header->distinct;
  uint64_t *ends = pack->ends = allocate(8 * d + 8);
  unsigned char *encodings = pack->encodings = allocate(rg_string_padded(d) + 8);
  memset(encodings + d, 0, (size_t)(rg_string_padded(d) - d));
  uint64_t total = 0;
  const rg_native native = rg_string_native();
  for (int64_t k = 0; k < d; k++) {
    encodings[k] = rg_string_encoding(strings[k], native);
    total += strings[k] == NA_STRING ? 0 : (uint64_t)LENGTH(strings[k]);
    ends[k] = total;
    rg_shm_store_look(k, k + 1);
  }
  char *text = pack->text = allocate((int64_t)total + 1);
  for (int64_t k = 0; k < d; k++) {
    uint64_t start = k > 0 ? ends[k - 1] : 0;
    memcpy(text + start, CHAR(strings[k]), (size_t)(ends[k] - start));
    rg_shm_store_look(k, k + 1);
  }
  header->text = (int64_t)total;
  pieces[2] = (rg_piece){ends, 8 * d};
  pieces[3] = (rg_piece){encodings, rg_string_padded(d)};
  pieces[4] = (rg_piece){text, (int64_t)total};
}

SEXP rg_shm_string_store(SEXP x, SEXP (*store)(SEXP x, const rg_piece *pieces, int count, void *data),
                         void *data) {
  int64_t n = XLENGTH(x);
  const SEXP *strings = STRING_PTR_RO(x);
  rg_string_header header = {RG_STRING_MAGIC, n, n, 0, 0};
  /* R owns the rest: what follows may be left by a jump. */
  SEXP owner = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, R_NilValue));
  R_RegisterCFinalizer(owner, packing_finalize);
  packing *pack = calloc(1, sizeof *pack);
  if (!pack) Rf_error("cannot allocate %d bytes to share a character vector", (int)sizeof *pack);
  R_SetExternalPtrAddr(owner, pack);
  const uintptr_t *keys = (const uintptr_t *)strings;
  if (repeats_enough(keys, n)) pack->index = rg_string_index_create(n / 2);
  if (pack->index) {
    pack->numbers = allocate(4 * n + 8);
    if (index_all(pack, keys, n) == RG_STRING_INDEX_OK) {
      header.indexed = 1;
      header.distinct = rg_string_index_count(pack->index);
      strings = (const SEXP *)rg_string_index_keys(pack->index);
      pack->numbers[n] = 0;
    }
  }
  rg_piece pieces[PARTS];
  pack_text(pack, strings, &header, pieces);
  pieces[0] = (rg_piece){&header, sizeof header};
  pieces[1] = (rg_piece){pack->numbers, header.indexed ? rg_string_padded(4 * n) : 0};
  SEXP result = PROTECT(store(x, pieces, PARTS, data));
  packing_finalize(owner);
  UNPROTECT(2);
  return result;
}

/* Reading. data1 is the external pointer of the view; data2 a list of the strings made so far, by
   number, and of all of them, by element, if somebody asked for that; each NULL before. A
   stand-in has the raw vector of its handle as data2. */

enum { MADE = 0, EXPANDED = 1 };

/* The parts, as the header told of them when it was checked: other code of this process, and workers
   of this run, may have written to it since. */
typedef struct rg_string_parts {
  int64_t length, distinct, text_size;
  rg_native native; /* when the strings are made */
  const uint32_t *numbers; /* NULL: element i is string i */
  const uint64_t *ends;
  const unsigned char *encodings;
  const char *text;
} content;

static void fail_damaged(void) { Rf_error("a character vector in shared memory is damaged"); }

/* The `length` strings that stand in the `size` bytes at `data`; an R error if there are none. */
static content content_at(const void *data, int64_t size, R_xlen_t length) {
  rg_string_header header;
  if (size < (int64_t)sizeof header) fail_damaged();
  memcpy(&header, data, sizeof header);
  const int64_t most = size; /* no part is larger */
  if (header.magic != RG_STRING_MAGIC || header.length != length || header.length < 0 ||
      header.length / 2 > most || header.distinct < 0 || header.distinct > most ||
      header.text < 0 || header.text > most ||
      (!header.indexed && header.distinct != header.length)) {
    fail_damaged();
  }
  rg_string_layout at = rg_string_layout_of(&header);
  if (at.size > size) fail_damaged();
  const char *base = data;
  return (content){header.length,
                   header.distinct,
                   header.text,
                   rg_string_native(),
                   header.indexed ? (const uint32_t *)(base + at.numbers) : NULL,
                   (const uint64_t *)(base + at.ends),
                   (const unsigned char *)(base + at.encodings),
                   base + at.text};
}

static const content *content_of(SEXP x) {
  rg_shm_view_read(R_altrep_data1(x)); /* an R error for a stand-in */
  return rg_shm_view_get(R_altrep_data1(x))->parts;
}

/* String number `k`, made if it is not yet. */
static SEXP string_at(const content *from, SEXP made, uint64_t k) {
  if (k >= (uint64_t)from->distinct) fail_damaged();
  SEXP string = STRING_ELT(made, (R_xlen_t)k);
  unsigned char encoding = from->encodings[k];
  if (encoding == RG_STRING_NA) {
    if (string != NA_STRING) SET_STRING_ELT(made, (R_xlen_t)k, NA_STRING);
    return NA_STRING;
  }
  uint64_t start = k > 0 ? from->ends[k - 1] : 0, end = from->ends[k];
  /* A new vector is full of empty strings: where this one is empty, that is right. */
  if (string != R_BlankString || start == end) return string;
  if (start > end || end > (uint64_t)from->text_size || end - start > INT32_MAX) fail_damaged();
  string = rg_string_make(from->text + start, (int)(end - start), encoding, from->native);
  SET_STRING_ELT(made, (R_xlen_t)k, string);
  return string;
}

static uint64_t number_of(const content *from, R_xlen_t i) {
  return from->numbers ? from->numbers[i] : (uint64_t)i;
}

/* Keeps the strings that string_Elt() is to look at first. */
static void remember(SEXP x, int where, SEXP strings, const uint32_t *numbers) {
  rg_view *view = rg_shm_view_get(R_altrep_data1(x));
  SET_VECTOR_ELT(R_altrep_data2(x), where, strings);
  view->strings = STRING_PTR_RO(strings);
  view->numbers = numbers;
  view->string_count = (uint64_t)XLENGTH(strings);
}

static SEXP made_of(SEXP x, const content *from) {
  SEXP made = VECTOR_ELT(R_altrep_data2(x), MADE);
  if (made == R_NilValue) {
    made = PROTECT(Rf_allocVector(STRSXP, (R_xlen_t)from->distinct));
    remember(x, MADE, made, from->numbers);
    rg_shm_view_get(R_altrep_data1(x))->made = STRING_PTR_RO(made);
    UNPROTECT(1);
  }
  return made;
}

/* Most readers go on with the next elements. Each is two places in memory, its string in the
   table and the string itself, and a reader that waits for both one element at a time is three
   times slower. NULL as `numbers`: element i is string i. (Inlined whatever happens: gcc takes a
   function that only prefetches for one without effect and drops the call.) */
__attribute__((always_inline)) static inline void fetch_ahead(const SEXP *strings, uint64_t count,
                                                              const uint32_t *numbers, R_xlen_t n,
                                                              R_xlen_t i) {
  enum { near = 8, far = 16 };
  if (i + far >= n) return;
  if (!numbers) {
    __builtin_prefetch(strings[i + near]);
    return;
  }
  uint32_t soon = numbers[i + near], later = numbers[i + far];
  if (soon < count) __builtin_prefetch(strings[soon]);
  if (later < count) __builtin_prefetch(&strings[later]);
}

/* All strings, by element: of `made`, in which each string is made first, since a look at what it
   is made of would cost as much for every element. `look`: for an interrupt, which must not be where R
   has asked for the address of the strings, since it has switched off its collector for that. */
static SEXP all_strings(const content *from, SEXP made, int look) {
  uint64_t distinct = (uint64_t)from->distinct;
  R_xlen_t n = (R_xlen_t)from->length;
  for (uint64_t k = 0; k < distinct; k++) {
    string_at(from, made, k);
    if (look) rg_shm_store_look((R_xlen_t)k, (R_xlen_t)k + 1);
  }
  if (!from->numbers) return made;
  const SEXP *strings = STRING_PTR_RO(made);
  SEXP all = PROTECT(Rf_allocVector(STRSXP, n));
  for (R_xlen_t i = 0; i < n; i++) {
    uint32_t k = from->numbers[i];
    if (k >= distinct) fail_damaged();
    fetch_ahead(strings, distinct, from->numbers, n, i);
    SET_STRING_ELT(all, i, strings[k]);
  }
  UNPROTECT(1);
  return all;
}

static SEXP expand(SEXP x) {
  SEXP state = R_altrep_data2(x);
  if (VECTOR_ELT(state, EXPANDED) != R_NilValue) return VECTOR_ELT(state, EXPANDED);
  const content *from = content_of(x);
  SEXP made = made_of(x, from);
  SEXP all = all_strings(from, made, 0);
  PROTECT(all);
  remember(x, EXPANDED, all, NULL);
  UNPROTECT(1);
  return all;
}

/* All strings as somebody may write to them: not the ones that were made of the memory, which tell
   afterwards whether it was done. */
static SEXP lend(SEXP x) {
  SEXP all = PROTECT(expand(x)), state = R_altrep_data2(x);
  if (all == VECTOR_ELT(state, MADE) &&
      rg_shm_view_state(R_altrep_data1(x)) == RG_VIEW_PRISTINE) {
    UNPROTECT(1);
    all = PROTECT(Rf_shallow_duplicate(all));
    remember(x, EXPANDED, all, NULL);
  }
  rg_shm_view_lend(R_altrep_data1(x));
  UNPROTECT(1);
  return all;
}

static int differs(const rg_view *view) {
  const content *from = view->parts;
  for (R_xlen_t i = 0; i < view->length; i++) {
    uint64_t k = number_of(from, i);
    if (k >= (uint64_t)from->distinct || view->strings[i] != view->made[k]) return 1;
  }
  return 0;
}

/* ALTREP methods, under R's own names. */

static int is_stand_in(SEXP x) { return TYPEOF(R_altrep_data2(x)) == RAWSXP; }

static R_xlen_t string_Length(SEXP x) {
  if (is_stand_in(x)) return rg_shm_view_handle_length(R_altrep_data2(x));
  return rg_shm_view_get(R_altrep_data1(x))->length;
}

static SEXP string_Elt(SEXP x, R_xlen_t i) {
  const rg_view *view = rg_shm_view_get(R_altrep_data1(x));
  if (view && view->strings) {
    fetch_ahead(view->strings, view->string_count, view->numbers, view->length, i);
    uint64_t k = view->numbers ? view->numbers[i] : (uint64_t)i;
    if (k < view->string_count && view->strings[k] != R_BlankString) return view->strings[k];
  }
  if (is_stand_in(x)) Rf_error("this vector is a stand-in for shared memory and has no data here");
  SEXP expanded = VECTOR_ELT(R_altrep_data2(x), EXPANDED);
  if (expanded != R_NilValue) return STRING_ELT(expanded, i);
  const content *from = content_of(x);
  return string_at(from, made_of(x, from), number_of(from, i));
}

static void string_Set_elt(SEXP x, R_xlen_t i, SEXP value) {
  SEXP all = expand(x);
  rg_shm_view_change(R_altrep_data1(x));
  SET_STRING_ELT(all, i, value);
}

static void *string_Dataptr(SEXP x, Rboolean writable) {
  SEXP all = writable ? lend(x) : expand(x);
  return (void *)STRING_PTR_RO(all);
}

static const void *string_Dataptr_or_null(SEXP x) {
  if (is_stand_in(x)) return NULL;
  SEXP all = VECTOR_ELT(R_altrep_data2(x), EXPANDED);
  return all == R_NilValue ? NULL : STRING_PTR_RO(all);
}

static SEXP string_Serialized_state(SEXP x) {
  if (is_stand_in(x)) return R_altrep_data2(x);
  if (rg_shm_view_state(R_altrep_data1(x)) != RG_VIEW_PRISTINE) return NULL;
  return rg_shm_view_handle(R_altrep_data1(x), STRSXP);
}

static int64_t least_bytes(SEXPTYPE type, R_xlen_t length) {
  (void)length;
  return type == STRSXP ? (int64_t)sizeof(rg_string_header) : -1;
}

static SEXP open_string(SEXP pointer, SEXPTYPE type) {
  (void)type;
  return rg_shm_string_new(pointer);
}

static SEXP copy_strings(const void *data, int64_t size, SEXPTYPE type, R_xlen_t length) {
  (void)type;
  content from = content_at(data, size, length);
  SEXP made = PROTECT(Rf_allocVector(STRSXP, (R_xlen_t)from.distinct));
  SEXP x = all_strings(&from, made, 1);
  UNPROTECT(1);
  return x;
}

static const rg_shm_view_maker string_maker = {RG_COPY_ALL, least_bytes, open_string, copy_strings};

static SEXP string_Unserialize(SEXP class, SEXP state) {
  (void)class;
  return rg_shm_view_resolve(state, &string_maker);
}

static Rboolean string_Inspect(SEXP x, int pre, int deep, int pvec,
                               void (*inspect_subtree)(SEXP, int, int, int)) {
  (void)pre, (void)deep, (void)pvec, (void)inspect_subtree;
  if (is_stand_in(x)) {
    Rprintf("<stand-in for shared memory>\n");
    return TRUE;
  }
  const content *from = content_of(x);
  Rprintf("<shared memory: %.0f strings, %.0f of them distinct>\n", (double)from->length,
          (double)from->distinct);
  return TRUE;
}

SEXP rg_shm_string_new(SEXP pointer) {
  rg_view *view = rg_shm_view_get(pointer);
  const content parts = content_at(rg_shm_view_read(pointer), view->size, view->length);
  view->parts = malloc(sizeof parts);
  if (!view->parts) Rf_error("cannot allocate %d bytes for shared strings", (int)sizeof parts);
  *view->parts = parts;
  view->differs = differs;
  SEXP state = PROTECT(Rf_allocVector(VECSXP, 2));
  SEXP x = R_new_altrep(class_string, pointer, state);
  UNPROTECT(1);
  return x;
}

SEXP rg_shm_string_stand_in(SEXP x, rg_span span) {
  SEXP state = PROTECT(rg_shm_view_span_handle(span, STRSXP, XLENGTH(x)));
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, R_NilValue));
  SEXP stand_in = PROTECT(R_new_altrep(class_string, pointer, state));
  SHALLOW_DUPLICATE_ATTRIB(stand_in, x);
  UNPROTECT(3);
  return stand_in;
}

int rg_shm_string_is(SEXP x) {
  return ALTREP(x) && TYPEOF(x) == STRSXP && ALTREP_CLASS(x) == R_SEXP(class_string);
}

int rg_shm_string_has_handle(SEXP x, const rg_arena *arena) {
  return rg_shm_string_is(x) && rg_shm_view_state(R_altrep_data1(x)) == RG_VIEW_PRISTINE &&
         rg_shm_view_is_reachable(R_altrep_data1(x), arena);
}

void rg_shm_string_init(DllInfo *dll) {
  class_string = R_make_altstring_class("shm_string", "regatta", dll);
  R_set_altrep_Length_method(class_string, string_Length);
  R_set_altrep_Inspect_method(class_string, string_Inspect);
  R_set_altrep_Serialized_state_method(class_string, string_Serialized_state);
  R_set_altrep_Unserialize_method(class_string, string_Unserialize);
  R_set_altvec_Dataptr_method(class_string, string_Dataptr);
  R_set_altvec_Dataptr_or_null_method(class_string, string_Dataptr_or_null);
  R_set_altstring_Elt_method(class_string, string_Elt);
  R_set_altstring_Set_elt_method(class_string, string_Set_elt);
}
