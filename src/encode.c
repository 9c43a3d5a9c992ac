#include "encode.h"

#include <R_ext/Utils.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "call-r.h"
#include "encode-share.h"
#include "shm-string.h"
#include "shm-vector.h"
#include "string-encoding.h"
#include "sys-fd.h"

static void append(rg_buffer *out, const void *bytes, size_t size) {
  if (rg_buffer_append(out, bytes, size) < 0) {
    Rf_error("cannot allocate %.0f bytes to encode a result", (double)out->size + (double)size);
  }
}

static void append_byte(rg_buffer *out, char byte) { append(out, &byte, 1); }

/* Whether a vector is nothing but its elements: no attributes, and neither the mark of an S4 object
   nor that of any object, which both can be there without. */
static int is_bare(SEXP x) {
  if (Rf_isS4(x) || Rf_isObject(x)) return 0;
  return !rg_has_attributes(x);
}

static int encode_atomic(SEXP x, rg_buffer *out) {
  size_t unit = rg_shm_vector_unit(TYPEOF(x));
  if (unit == 0 || (size_t)XLENGTH(x) > RG_ENCODE_PLAIN_MAX / unit || !is_bare(x)) return 0;
  size_t size = (size_t)XLENGTH(x) * unit;
  int64_t length = XLENGTH(x);
  append_byte(out, RG_ENCODE_ATOMIC);
  append_byte(out, (char)TYPEOF(x));
  append(out, &length, sizeof length);
  append(out, DATAPTR_RO(x), size);
  return 1;
}

static int encode_strings(SEXP x, rg_buffer *out) {
  int64_t length = XLENGTH(x), total = 0;
  const rg_native native = rg_string_native();
  if (length > RG_ENCODE_PLAIN_MAX / 8 || !rg_string_have_codes(x, native)) return 0;
  for (int64_t i = 0; i < length; i++) total += LENGTH(STRING_ELT(x, i));
  if (total > RG_ENCODE_PLAIN_MAX || !is_bare(x)) return 0;
  append_byte(out, RG_ENCODE_STRINGS);
  append(out, &length, sizeof length);
  for (int64_t i = 0; i < length; i++) {
    SEXP string = STRING_ELT(x, i);
    int32_t bytes = string == NA_STRING ? -1 : LENGTH(string);
    append(out, &bytes, sizeof bytes);
    append_byte(out, (char)rg_string_encoding(string, native));
    if (bytes > 0) append(out, CHAR(string), (size_t)bytes);
  }
  return 1;
}

/* R's serialisation into a buffer. */

typedef struct {
  SEXP value;
  rg_arena *arena;
  int64_t share_from;
  rg_buffer *out;
  int found_foreign;
  rg_wrapper_tail written;
} encode_call;

static void out_char(R_outpstream_t stream, int c) { append_byte(((encode_call *)stream->data)->out, (char)c); }

static void out_bytes(R_outpstream_t stream, void *bytes, int size) {
  encode_call *call = stream->data;
  append(call->out, bytes, (size_t)size);
  rg_wrapper_written(&call->written, bytes, size);
}

/* Writes to the arena; a stand-in serialises as the handle of the span. */
static SEXP store_in_arena(SEXP x, const rg_piece *pieces, int count, void *data) {
  rg_arena *arena = data;
  rg_span span;
  rg_arena_need need = {0, 0};
  rg_arena_status status = rg_arena_write(arena, pieces, count, &span, &need);
  if (status != RG_ARENA_OK) rg_encode_full(status, need, 1);
  return TYPEOF(x) == STRSXP ? rg_shm_string_stand_in(x, span) : rg_shm_vector_stand_in(x, span);
}

/* R asks about each external pointer, weak reference and environment whether it has a name by which
   the reader finds it. None has: they are only looked at. */
typedef struct {
  int found;
  SEXP own; /* an inner part of what is no loss */
} foreign_look;

/* Null pointers lose nothing. data.table marks its tables by a pointer to R's NULL that protects
   one to the table; it makes another where it finds the mark of another process. */
static SEXP look_at_foreign(SEXP x, SEXP data) {
  foreign_look *look = R_ExternalPtrAddr(data);
  if (TYPEOF(x) == WEAKREFSXP) {
    look->found |= R_WeakRefKey(x) != R_NilValue;
  } else if (TYPEOF(x) == EXTPTRSXP && x != look->own) {
    void *address = R_ExternalPtrAddr(x);
    look->found |= address && address != (void *)R_NilValue;
    if (address == (void *)R_NilValue) look->own = R_ExternalPtrProtected(x);
  }
  return R_NilValue;
}

/* A value is being written: what R signals meanwhile, and methods of other packages' vectors, is none of the element's
   conditions, and would need the buffer that the value goes to. */
static int writing;

int rg_encode_is_writing(void) { return writing; }

SEXP ffi_encode_is_writing(void) { return Rf_ScalarLogical(writing); }

static SEXP serialize_value(void *data) {
  encode_call *call = data;
  int64_t share_from = call->arena ? call->share_from : INT64_MAX;
  const rg_share_sink sink = {share_from, call->arena, 1, store_in_arena, call->arena};
  SEXP value = PROTECT(rg_encode_share(call->value, &sink));
  struct R_outpstream_st stream;
  foreign_look look = {0, NULL};
  SEXP look_pointer = PROTECT(R_MakeExternalPtr(&look, R_NilValue, R_NilValue));
  R_InitOutPStream(&stream, (R_pstream_data_t)call, R_pstream_binary_format, 3, out_char,
                   out_bytes, look_at_foreign, look_pointer);
  rg_shm_view_watch(&call->written);
  R_Serialize(value, &stream);
  call->found_foreign = look.found;
  UNPROTECT(2);
  return R_NilValue;
}

static void leave_context(void *data, Rboolean jump) {
  (void)data, (void)jump;
  rg_shm_view_finish();
}

static void stop_writing(void *data, Rboolean jump) {
  writing = 0;
  leave_context(data, jump);
}

/* Whether it is something that loses its meaning in another process. */
SEXP ffi_encode_is_foreign(SEXP x) {
  foreign_look look = {0, NULL};
  SEXP look_pointer = PROTECT(R_MakeExternalPtr(&look, R_NilValue, R_NilValue));
  look_at_foreign(x, look_pointer);
  UNPROTECT(1);
  return Rf_ScalarLogical(look.found);
}

SEXP ffi_encode_without_foreign(SEXP condition) { return rg_encode_without_foreign(condition); }

int rg_encode(SEXP value, rg_arena *arena, int64_t share_from, rg_buffer *out) {
  if (value == R_NilValue) {
    append_byte(out, RG_ENCODE_NULL);
  } else if (!(TYPEOF(value) == STRSXP ? encode_strings(value, out)
                                       : encode_atomic(value, out))) {
    encode_call call = {.value = value, .arena = arena, .share_from = share_from, .out = out};
    append_byte(out, RG_ENCODE_SERIALISED);
    rg_shm_view_begin(arena, RG_COPY_NONE);
    writing = 1;
    R_UnwindProtect(serialize_value, &call, stop_writing, NULL, NULL);
    return call.found_foreign;
  }
  return 0;
}

/* Decoding. The bytes come from a process of ours, but one that may have been damaged by
   the code it ran: every length is checked against what is there. */

typedef struct {
  const char *at, *end;
  int pieces; /* that R has asked for */
} reader;

static void take(reader *in, void *to, size_t size) {
  if ((size_t)(in->end - in->at) < size) {
    Rf_error("an encoded value is truncated: %.0f bytes are missing",
             (double)size - (double)(in->end - in->at));
  }
  memcpy(to, in->at, size);
  in->at += size;
}

static char take_byte(reader *in) {
  char byte;
  take(in, &byte, 1);
  return byte;
}

static int64_t take_length(reader *in, size_t least_unit) {
  int64_t length;
  take(in, &length, sizeof length);
  if (length < 0 || (size_t)length > (size_t)(in->end - in->at) / least_unit) {
    Rf_error("an encoded value is damaged: it claims %.0f elements in %.0f bytes",
             (double)length, (double)(in->end - in->at));
  }
  return length;
}

static SEXP decode_atomic(reader *in) {
  SEXPTYPE type = (SEXPTYPE)(unsigned char)take_byte(in);
  size_t unit = rg_shm_vector_unit(type);
  if (unit == 0) Rf_error("an encoded value is damaged: there is no type %d", (int)type);
  int64_t length = take_length(in, unit);
  SEXP x = PROTECT(Rf_allocVector(type, (R_xlen_t)length));
  if (length > 0) take(in, (void *)DATAPTR_RO(x), (size_t)length * unit);
  UNPROTECT(1);
  return x;
}

static SEXP decode_strings(reader *in) {
  int64_t length = take_length(in, sizeof(int32_t) + 1);
  const rg_native native = rg_string_native();
  SEXP x = PROTECT(Rf_allocVector(STRSXP, (R_xlen_t)length));
  for (int64_t i = 0; i < length; i++) {
    int32_t bytes;
    take(in, &bytes, sizeof bytes);
    unsigned char encoding = (unsigned char)take_byte(in);
    if (bytes < 0) {
      SET_STRING_ELT(x, i, NA_STRING);
      continue;
    }
    if (bytes > in->end - in->at) Rf_error("an encoded value is truncated inside a string");
    SET_STRING_ELT(x, i, rg_string_make(in->at, bytes, encoding, native));
    in->at += bytes;
  }
  UNPROTECT(1);
  return x;
}

/* A list of millions of small objects takes seconds. For each of a pairlist or a call R goes one level deeper, and does
   not look at the stack: one of 40,000 arguments would end the session. */
static void look_up(reader *in) {
  const int every = 1 << 18;
  R_CheckStack();
  if (++in->pieces % every == 0) R_CheckUserInterrupt();
}

static int in_char(R_inpstream_t stream) {
  look_up(stream->data);
  return (unsigned char)take_byte(stream->data);
}

static void in_bytes(R_inpstream_t stream, void *to, int size) {
  look_up(stream->data);
  take(stream->data, to, (size_t)size);
}

static SEXP unserialize_value(void *data) {
  struct R_inpstream_st stream;
  R_InitInPStream(&stream, (R_pstream_data_t)data, R_pstream_binary_format, in_char, in_bytes,
                  NULL, R_NilValue);
  return R_Unserialize(&stream);
}

SEXP rg_decode(const void *bytes, size_t size, rg_arena *arena, rg_copy copy) {
  reader in = {bytes, (const char *)bytes + size, 0};
  switch (take_byte(&in)) {
  case RG_ENCODE_NULL:
    return R_NilValue;
  case RG_ENCODE_ATOMIC:
    return decode_atomic(&in);
  case RG_ENCODE_STRINGS:
    return decode_strings(&in);
  case RG_ENCODE_SERIALISED:
    rg_shm_view_begin(arena, copy);
    return rg_encode_own_tables(R_UnwindProtect(unserialize_value, &in, leave_context, NULL, NULL));
  default:
    Rf_error("an encoded value is damaged: its first byte is not a known form");
  }
}

static void abort_descriptor(int64_t requested) {
  SEXP size = PROTECT(Rf_ScalarReal((double)requested));
  rg_call_r("abort_descriptor", 1, size);
  UNPROTECT(1);
}

void rg_encode_abort_files(int64_t requested) {
  rg_call_r("abort_files", 1, PROTECT(Rf_ScalarReal((double)requested)));
  UNPROTECT(1);
}

static SEXP number(int64_t n) { return Rf_ScalarReal(n < 0 || n == INT64_MAX ? NA_REAL : (double)n); }

void rg_encode_abort_maps(int64_t requested, rg_map_counts counts) {
  SEXP size = PROTECT(number(requested)), ours = PROTECT(number(counts.ours)), all = PROTECT(number(counts.all));
  SEXP most = PROTECT(number(counts.most)), limit = PROTECT(number(counts.limit));
  rg_call_r("abort_maps", 5, size, ours, all, most, limit);
  UNPROTECT(5);
}

int rg_encode_may_try_again(rg_region_status status) {
  int full = status == RG_REGION_FULL || status == RG_REGION_MAPS;
  if (!full && !(status == RG_REGION_SYSTEM && errno == EMFILE)) return 0;
  R_gc();
  rg_map_look();
  return 1;
}

rg_region *rg_encode_begin_region(int64_t size) {
  rg_region *region;
  rg_region_status status = rg_region_begin(&region);
  if (rg_encode_may_try_again(status)) status = rg_region_begin(&region);
  rg_encode_check(status, size, 0);
  return region;
}

void rg_encode_full(rg_arena_status status, rg_arena_need need, int in_run) {
  if (status == RG_ARENA_OVERWRITTEN) {
    rg_call_r("abort_overwritten", 1, PROTECT(Rf_ScalarLogical(FALSE)));
    UNPROTECT(1);
  }
  if (status == RG_ARENA_SYSTEM && errno == EBADF) abort_descriptor(need.requested);
  if (status == RG_ARENA_SYSTEM && errno == EMFILE) rg_encode_abort_files(need.requested);
  if (status == RG_ARENA_SYSTEM) {
    Rf_error("cannot write %.0f bytes to shared memory: %s", (double)need.requested,
             strerror(errno));
  }
  int too_large = errno == EFBIG;
  SEXP requested = PROTECT(Rf_ScalarReal((double)need.requested));
  if (too_large) {
    rg_call_r("abort_file_size", 2, requested, PROTECT(Rf_ScalarReal((double)rg_fd_size_limit())));
    UNPROTECT(1);
  }
  SEXP available = PROTECT(Rf_ScalarReal((double)need.available));
  SEXP where = PROTECT(Rf_ScalarLogical(in_run));
  rg_call_r("abort_memory", 3, requested, available, where);
  UNPROTECT(3);
}

void rg_encode_check(rg_region_status status, int64_t requested, int64_t available) {
  const rg_arena_need need = {requested, available};
  if (status == RG_REGION_OK) return;
  if (status == RG_REGION_MAPS) rg_encode_abort_maps(requested, rg_map_count());
  rg_encode_full(status == RG_REGION_FULL ? RG_ARENA_FULL : RG_ARENA_SYSTEM, need, 0);
}
