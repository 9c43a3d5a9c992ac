#include "shm-wrapper.h"

#include <string.h>

/* Numbers of serialize.c, part of R's format of files. */
enum { IS_LIST = 2, IS_CHARSXP = 9, IS_ALTREP = 238, IS_NIL = 254, IS_REFERENCE = 255, HAS_CLASS = 1 << 8 };

void rg_wrapper_written(rg_wrapper_tail *tail, const void *bytes, int size) {
  unsigned at = tail->count++ % RG_WRAPPER_TAIL;
  tail->pieces[at].size = size;
  tail->pieces[at].first = 0;
  if (size >= (int)sizeof(int32_t)) memcpy(&tail->pieces[at].first, bytes, sizeof(int32_t));
}

/* Reads backwards: 0 is the piece written last. */
static int32_t number_at(const rg_wrapper_tail *tail, unsigned back) {
  if (back >= RG_WRAPPER_TAIL || back >= tail->count) return -1;
  unsigned at = (tail->count - 1 - back) % RG_WRAPPER_TAIL;
  return tail->pieces[at].size == sizeof(int32_t) ? tail->pieces[at].first : -1;
}

static int size_at(const rg_wrapper_tail *tail, unsigned back) {
  if (back >= RG_WRAPPER_TAIL || back >= tail->count) return -1;
  return tail->pieces[(tail->count - 1 - back) % RG_WRAPPER_TAIL].size;
}

/* How many pieces, from `back` on, are a symbol: a reference to one that was written before, or the
   mark, those of its name, and the name. 0: they are none. */
static unsigned symbol_pieces(const rg_wrapper_tail *tail, unsigned back) {
  int32_t last = number_at(tail, back);
  if (last != -1 && (last & 255) == IS_REFERENCE) return 1;
  int named = size_at(tail, back) == number_at(tail, back + 1) &&
              (number_at(tail, back + 2) & 255) == IS_CHARSXP && number_at(tail, back + 3) == SYMSXP;
  return named ? 4 : 0;
}

/* An ALTREP object is its mark, a list of the class's name, its package and its type, then its state:
   a wrapper's is a list of what it holds and of what is known about that. */
rg_wrapper rg_wrapper_around_next(const rg_wrapper_tail *tail) {
  unsigned at = 0, symbol;
  if (number_at(tail, at++) != IS_LIST || number_at(tail, at++) != IS_NIL) return RG_WRAPPER_NONE;
  at++; /* the type */
  if (number_at(tail, at++) != 1 || number_at(tail, at++) != INTSXP) return RG_WRAPPER_NONE;
  for (int part = 0; part < 2; part++) {
    if (number_at(tail, at++) != IS_LIST) return RG_WRAPPER_NONE;
    if ((symbol = symbol_pieces(tail, at)) == 0) return RG_WRAPPER_NONE;
    at += symbol;
  }
  if (number_at(tail, at++) != IS_LIST) return RG_WRAPPER_NONE;
  int32_t mark = number_at(tail, at);
  if (mark == -1 || (mark & 255) != IS_ALTREP) return RG_WRAPPER_NONE;
  return mark & HAS_CLASS ? RG_WRAPPER_OBJECT : RG_WRAPPER_PLAIN;
}

/* The look at an object, while it goes on and R itself serialises. */
typedef struct {
  SEXP object, refhook, found; /* found: a pairlist of pointers, in reverse */
  PROTECT_INDEX at;
  rg_wrapper_tail tail;
  R_xlen_t count;
} look;

static look *looking;

int rg_wrapper_note(SEXP pointer, int live) {
  if (!looking || !live) return looking != NULL;
  SEXP how = PROTECT(Rf_ScalarInteger((int)rg_wrapper_around_next(&looking->tail)));
  SEXP entry = PROTECT(Rf_cons(pointer, how));
  REPROTECT(looking->found = Rf_cons(entry, looking->found), looking->at);
  looking->count++;
  UNPROTECT(2);
  return 1;
}

static void out_char(R_outpstream_t stream, int c) { (void)stream, (void)c; }

static void out_bytes(R_outpstream_t stream, void *bytes, int size) {
  rg_wrapper_written(&((look *)stream->data)->tail, bytes, size);
}

static SEXP persistent_name(SEXP x, SEXP refhook) {
  look *l = looking;
  SEXP call = PROTECT(Rf_lang2(refhook, x));
  looking = NULL; /* an error ends the look */
  SEXP name = Rf_eval(call, R_GlobalEnv);
  looking = l;
  UNPROTECT(1);
  return name;
}

static SEXP serialize_nowhere(void *data) {
  look *l = data;
  struct R_outpstream_st stream;
  R_InitOutPStream(&stream, (R_pstream_data_t)l, R_pstream_binary_format, 3, out_char, out_bytes,
                   l->refhook == R_NilValue ? NULL : persistent_name, l->refhook);
  R_Serialize(l->object, &stream);
  return R_NilValue;
}

static void stop_looking(void *data, Rboolean jump) {
  (void)data, (void)jump;
  looking = NULL;
}

SEXP ffi_shm_wrapped(SEXP object, SEXP refhook) {
  look l = {.object = object, .refhook = refhook, .found = R_NilValue};
  PROTECT_WITH_INDEX(l.found, &l.at);
  looking = &l;
  R_UnwindProtect(serialize_nowhere, &l, stop_looking, NULL, NULL);
  SEXP pointers = PROTECT(Rf_allocVector(VECSXP, l.count));
  SEXP how = PROTECT(Rf_allocVector(INTSXP, l.count));
  SEXP entry = l.found;
  for (R_xlen_t i = l.count; i-- > 0; entry = CDR(entry)) {
    SET_VECTOR_ELT(pointers, i, CAR(CAR(entry)));
    INTEGER(how)[i] = INTEGER(CDR(CAR(entry)))[0];
  }
  SEXP result = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(result, 0, pointers);
  SET_VECTOR_ELT(result, 1, how);
  UNPROTECT(4);
  return result;
}
