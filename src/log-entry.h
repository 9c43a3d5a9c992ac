#ifndef RG_LOG_ENTRY_H
#define RG_LOG_ENTRY_H

#include <Rinternals.h>

/* What fails returns list(operation, errno, holder); R code words it. */

/* A log of the folder `folder`: list(pointer, type, key, index, offset, size, damaged), where all but the
   first and the last have a value for each whole record. */
SEXP ffi_log_open(SEXP folder, SEXP write);

/* TRUE, or a failure. `key` has 32 hexadecimal digits. */
SEXP ffi_log_append(SEXP log, SEXP type, SEXP keys, SEXP index, SEXP payloads);

/* Payloads of `size` bytes at these offsets, a list; NULL for one that is damaged. */
SEXP ffi_log_read(SEXP log, SEXP offset, SEXP size);
SEXP ffi_log_sync(SEXP log);
SEXP ffi_log_close(SEXP log);

/* Serialises `value` into the file `name` of `folder`: c(size, checksum), or a failure. */
SEXP ffi_log_file_write(SEXP folder, SEXP name, SEXP value);

/* c(size, checksum) of a file, or a failure. */
SEXP ffi_log_file_check(SEXP path);

#endif
