#include <string.h>

#include "call-r.h"
#include "encode.h"

typedef struct {
  unsigned char *bytes;
  size_t size, most;
} bounded;

static void out_bytes(R_outpstream_t stream, void *bytes, int size) {
  bounded *out = (bounded *)stream->data;
  /* There is no way out of R_Serialize() but a jump, and what is left may take long. */
  if ((size_t)size > out->most - out->size) rg_call_r("leave_bounded", 0);
  memcpy(out->bytes + out->size, bytes, (size_t)size);
  out->size += (size_t)size;
}

static void out_char(R_outpstream_t stream, int c) {
  unsigned char byte = (unsigned char)c;
  out_bytes(stream, &byte, 1);
}

SEXP ffi_encode_bounded(SEXP x, SEXP most) {
  SEXP room = PROTECT(Rf_allocVector(RAWSXP, (R_xlen_t)Rf_asReal(most)));
  bounded out = {RAW(room), 0, (size_t)XLENGTH(room)};
  struct R_outpstream_st stream;
  R_InitOutPStream(&stream, (R_pstream_data_t)&out, R_pstream_binary_format, 3, out_char, out_bytes, NULL, R_NilValue);
  R_Serialize(x, &stream);
  SEXP bytes = Rf_allocVector(RAWSXP, (R_xlen_t)out.size);
  if (out.size > 0) memcpy(RAW(bytes), out.bytes, out.size);
  UNPROTECT(1);
  return bytes;
}
