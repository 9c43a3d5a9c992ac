#ifndef RG_SHM_BYTES_H
#define RG_SHM_BYTES_H

#include <stdint.h>

#include "region.h"

/*
 * What stands in shared memory, and what R's serialisation has of it: bytes that other processes read.
 * tests/c/layout.c makes the tables of docs/SHARED-MEMORY.md from this, so no R header is included.
 */

/* What is written in place by all who have it. Part of the handle. */
typedef enum {
  RG_LIVE_NOT = 0,
  RG_LIVE_ARRAY,
  RG_LIVE_LOCK,
  RG_LIVE_COUNTER,
  RG_LIVE_SLOTS,
  RG_LIVE_KINDS
} rg_live;

/* "RGHA" and "RGHR" */
typedef enum { RG_HANDLE_ARENA = 0x41484752, RG_HANDLE_REGION = 0x52484752 } rg_handle_form;

/* What a serialised shared vector consists of. */
typedef struct {
  uint32_t form; /* rg_handle_form */
  int32_t type;
  int64_t length;
  int64_t offset, size; /* of the span */
  int64_t live; /* rg_live */
  rg_region_key key; /* of an arena only the tag */
} rg_handle;

/* "strings1", read as a number: the format of what follows. */
#define RG_STRING_MAGIC UINT64_C(0x3173676e69727473)

typedef struct {
  uint64_t magic;
  int64_t length, distinct, text; /* elements, strings, bytes */
  int64_t indexed;
} rg_string_header;

/* Where the parts of stored strings begin, each after the one before it at a multiple of 8 bytes:
 *
 *   header
 *   numbers    uint32 for each element: the number of its string; left out if `indexed` is 0,
 *              and element i then is string i
 *   ends       uint64 for each distinct string: where it ends in the text
 *   encodings  1 byte for each: see string-encoding.h
 *   text
 */
typedef struct {
  int64_t numbers, ends, encodings, text, size; /* the last: of all together */
} rg_string_layout;

static inline int64_t rg_string_padded(int64_t size) { return (size + 7) / 8 * 8; }

static inline rg_string_layout rg_string_layout_of(const rg_string_header *header) {
  rg_string_layout at;
  at.numbers = (int64_t)sizeof *header;
  at.ends = at.numbers + (header->indexed ? rg_string_padded(4 * header->length) : 0);
  at.encodings = at.ends + 8 * header->distinct;
  at.text = at.encodings + rg_string_padded(header->distinct);
  at.size = at.text + header->text;
  return at;
}

#endif
