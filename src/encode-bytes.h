#ifndef RG_ENCODE_BYTES_H
#define RG_ENCODE_BYTES_H

/* tests/c/layout.c makes a table of docs/ARCHITECTURE.md from this, so no R header is included. */

/* The first byte of a value as bytes says which form follows. */
typedef enum {
  RG_ENCODE_NULL = 'N',
  RG_ENCODE_ATOMIC = 'A',     /* without attributes: type (1 byte), length (int64), elements */
  RG_ENCODE_STRINGS = 'C',    /* without attributes: length (int64), then for each string its length (int32, -1 for NA),
                                 its encoding (1 byte, see string-encoding.h) and its bytes */
  RG_ENCODE_SERIALISED = 'S', /* R's own serialisation (version 3, native binary), in which every large vector of a
                                 shareable type stands as a handle into the arena */
} rg_encode_form;

/* Vectors up to this many bytes are copied as they are; larger ones are serialised. */
enum { RG_ENCODE_PLAIN_MAX = 16384 };

#endif
