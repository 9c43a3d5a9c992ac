#include "log-entry.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

static SEXP failure(const char *operation, int errnum, pid_t holder) {
  const char *names[] = {"operation", "errno", "holder", ""};
  SEXP list = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(list, 0, Rf_mkString(operation));
  SET_VECTOR_ELT(list, 1, Rf_ScalarInteger(errnum));
  SET_VECTOR_ELT(list, 2, Rf_ScalarInteger((int)holder));
  UNPROTECT(1);
  return list;
}

/* Of what was written to a log: by errno, which says whether it is there. */
static SEXP lost(const char *operation) { return failure(errno == ENOENT ? "removed" : operation, errno, 0); }

static void log_finalize(SEXP pointer) {
  rg_log *log = R_ExternalPtrAddr(pointer);
  R_ClearExternalPtr(pointer);
  rg_log_close(log);
}

static rg_log *log_borrow(SEXP pointer) {
  rg_log *log = TYPEOF(pointer) == EXTPTRSXP ? R_ExternalPtrAddr(pointer) : NULL;
  if (!log) Rf_error("this log has been closed");
  return log;
}

/* The headers of a log, as they are found. */
typedef struct {
  rg_log_header *at;
  size_t count, room;
  int full;
} headers;

static void keep_header(void *data, const rg_log_header *header) {
  headers *kept = data;
  if (kept->count == kept->room) {
    size_t room = kept->room ? 2 * kept->room : 256;
    rg_log_header *more = realloc(kept->at, room * sizeof *more);
    if (!more) {
      kept->full = 1;
      return;
    }
    kept->at = more;
    kept->room = room;
  }
  kept->at[kept->count++] = *header;
}

static SEXP hex_of(const uint8_t key[16]) {
  char text[33];
  for (int i = 0; i < 16; i++) snprintf(text + 2 * i, 3, "%02x", key[i]);
  return Rf_mkChar(text);
}

typedef struct {
  rg_log *log;
  SEXP folder, write, pointer;
  headers kept;
} opening;

static SEXP open_run(void *data) {
  opening *o = data;
  rg_log_failure why = {"open", 0, 0};
  o->log = rg_log_open(R_ExpandFileName(Rf_translateChar(STRING_ELT(o->folder, 0))), Rf_asLogical(o->write) == TRUE,
                       &why);
  if (!o->log) return failure(why.operation, why.errnum, why.holder);
  R_SetExternalPtrAddr(o->pointer, o->log);
  int64_t damaged;
  if (rg_log_scan(o->log, keep_header, &o->kept, &damaged) < 0) {
    return failure(errno == EILSEQ ? "foreign" : "read", errno, 0);
  }
  if (o->kept.full) return failure("read", ENOMEM, 0);
  const char *names[] = {"pointer", "type", "key", "index", "offset", "size", "damaged", ""};
  R_xlen_t n = (R_xlen_t)o->kept.count;
  SEXP list = PROTECT(Rf_mkNamed(VECSXP, names));
  SEXP type = Rf_allocVector(INTSXP, n), key, index, offset, size;
  SET_VECTOR_ELT(list, 0, o->pointer);
  SET_VECTOR_ELT(list, 1, type);
  SET_VECTOR_ELT(list, 2, key = Rf_allocVector(STRSXP, n));
  SET_VECTOR_ELT(list, 3, index = Rf_allocVector(REALSXP, n));
  SET_VECTOR_ELT(list, 4, offset = Rf_allocVector(REALSXP, n));
  SET_VECTOR_ELT(list, 5, size = Rf_allocVector(REALSXP, n));
  SET_VECTOR_ELT(list, 6, Rf_ScalarReal((double)damaged));
  for (R_xlen_t i = 0; i < n; i++) {
    const rg_log_header *header = o->kept.at + i;
    INTEGER(type)[i] = (int)header->type;
    SET_STRING_ELT(key, i, hex_of(header->key));
    REAL(index)[i] = (double)header->index;
    REAL(offset)[i] = (double)header->offset;
    REAL(size)[i] = (double)header->size;
  }
  UNPROTECT(1);
  return list;
}

static void open_end(void *data) {
  opening *o = data;
  free(o->kept.at);
}

SEXP ffi_log_open(SEXP folder, SEXP write) {
  opening o = {NULL, folder, write, PROTECT(R_MakeExternalPtr(NULL, R_NilValue, R_NilValue)), {NULL, 0, 0, 0}};
  R_RegisterCFinalizerEx(o.pointer, log_finalize, FALSE);
  SEXP result = PROTECT(R_ExecWithCleanup(open_run, &o, open_end, &o));
  if (TYPEOF(VECTOR_ELT(result, 0)) != EXTPTRSXP) log_finalize(o.pointer);
  UNPROTECT(2);
  return result;
}

static uint8_t digit_of(char c) { return (uint8_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10); }

static void read_key(uint8_t key[16], SEXP hex) {
  const char *text = CHAR(hex);
  if (LENGTH(hex) != 32) Rf_error("a key has 32 digits");
  for (int i = 0; i < 16; i++) key[i] = (uint8_t)(digit_of(text[2 * i]) << 4 | digit_of(text[2 * i + 1]));
}

SEXP ffi_log_append(SEXP log, SEXP type, SEXP keys, SEXP index, SEXP payloads) {
  size_t n = (size_t)XLENGTH(payloads);
  rg_log_header *headers = (rg_log_header *)R_alloc(n, sizeof *headers);
  const void **bytes = (const void **)R_alloc(n, sizeof *bytes);
  for (size_t i = 0; i < n; i++) {
    SEXP payload = VECTOR_ELT(payloads, (R_xlen_t)i);
    headers[i] = (rg_log_header){.size = (uint64_t)XLENGTH(payload), .index = (uint64_t)REAL(index)[i],
                                 .type = (uint32_t)Rf_asInteger(type)};
    read_key(headers[i].key, STRING_ELT(keys, (R_xlen_t)i));
    bytes[i] = RAW(payload);
  }
  if (rg_log_append(log_borrow(log), headers, bytes, n) < 0) return lost("write");
  return Rf_ScalarLogical(TRUE);
}

SEXP ffi_log_read(SEXP log, SEXP offset, SEXP size) {
  rg_log *from = log_borrow(log);
  R_xlen_t n = XLENGTH(offset);
  SEXP list = PROTECT(Rf_allocVector(VECSXP, n));
  for (R_xlen_t i = 0; i < n; i++) {
    R_xlen_t bytes = (R_xlen_t)REAL(size)[i];
    SEXP payload = Rf_allocVector(RAWSXP, bytes);
    SET_VECTOR_ELT(list, i, payload);
    if (rg_log_read(from, (uint64_t)REAL(offset)[i], RAW(payload), (size_t)bytes) < 0) {
      SET_VECTOR_ELT(list, i, R_NilValue);
    }
  }
  UNPROTECT(1);
  return list;
}

SEXP ffi_log_sync(SEXP log) {
  return rg_log_sync(log_borrow(log)) < 0 ? lost("fsync") : Rf_ScalarLogical(TRUE);
}

SEXP ffi_log_close(SEXP log) {
  log_finalize(log);
  return R_NilValue;
}

/* Serialising into a file, in pieces of RG_LOG_FILE_CHUNK bytes. */
typedef struct {
  SEXP value;
  char part[PATH_MAX], name[PATH_MAX], folder[PATH_MAX];
  rg_log_file file;
  char *buffer;
  size_t filled;
  int errnum; /* what a write has failed with; nothing is written from then on */
} writing;

static SEXP sums_of(int64_t size, uint32_t sum) {
  SEXP sums = Rf_allocVector(REALSXP, 2);
  REAL(sums)[0] = (double)size;
  REAL(sums)[1] = (double)sum;
  return sums;
}

static void flush(writing *w) {
  if (!w->errnum && w->filled > 0 && rg_log_file_write(&w->file, w->buffer, w->filled) < 0) w->errnum = errno;
  w->filled = 0;
}

static void out_bytes(R_outpstream_t stream, void *bytes, int length) {
  writing *w = (writing *)stream->data;
  const char *from = bytes;
  size_t left = (size_t)length;
  while (left > 0) {
    size_t now = RG_LOG_FILE_CHUNK - w->filled;
    if (now > left) now = left;
    memcpy(w->buffer + w->filled, from, now);
    w->filled += now;
    from += now;
    left -= now;
    if (w->filled == RG_LOG_FILE_CHUNK) flush(w);
  }
}

static void out_char(R_outpstream_t stream, int c) {
  char byte = (char)c;
  out_bytes(stream, &byte, 1);
}

static SEXP write_run(void *data) {
  writing *w = data;
  if (!(w->buffer = malloc(RG_LOG_FILE_CHUNK))) return failure("write", ENOMEM, 0);
  if (rg_log_file_begin(&w->file, w->part) < 0) return failure("open", errno, 0);
  struct R_outpstream_st stream;
  R_InitOutPStream(&stream, (R_pstream_data_t)w, R_pstream_binary_format, 3, out_char, out_bytes, NULL, R_NilValue);
  R_Serialize(w->value, &stream);
  flush(w);
  if (w->errnum) return failure("write", w->errnum, 0);
  if (rg_log_file_end(&w->file, w->part, w->name, w->folder) < 0) return failure("fsync", errno, 0);
  return sums_of(w->file.size, w->file.sum);
}

static void write_end(void *data) {
  writing *w = data;
  free(w->buffer);
  rg_log_file_drop(&w->file, w->part);
}

SEXP ffi_log_file_write(SEXP folder, SEXP name, SEXP value) {
  writing w = {.value = value, .file = {.fd = -1}};
  const char *path = R_ExpandFileName(Rf_translateChar(STRING_ELT(folder, 0)));
  const char *file = CHAR(STRING_ELT(name, 0));
  if (snprintf(w.folder, sizeof w.folder, "%s", path) >= (int)sizeof w.folder ||
      snprintf(w.name, sizeof w.name, "%s/%s", path, file) >= (int)sizeof w.name ||
      snprintf(w.part, sizeof w.part, "%s/%s.part", path, file) >= (int)sizeof w.part) {
    return failure("open", ENAMETOOLONG, 0);
  }
  return R_ExecWithCleanup(write_run, &w, write_end, &w);
}

SEXP ffi_log_file_check(SEXP path) {
  int64_t size;
  uint32_t sum;
  if (rg_log_file_check(R_ExpandFileName(Rf_translateChar(STRING_ELT(path, 0))), &size, &sum) < 0) {
    return failure("read", errno, 0);
  }
  return sums_of(size, sum);
}
