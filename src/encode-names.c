#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "encode.h"

/* Names to be looked for, in a hash table: `slot` has their numbers, from 1. */
typedef struct {
  SEXP names;
  int *slot;
  uint32_t mask;
  int longest;
} name_table;

static uint32_t hash_of(const char *text, int size) {
  uint32_t hash = 2166136261u; /* FNV-1a, 32 bits */
  for (int i = 0; i < size; i++) hash = (hash ^ (unsigned char)text[i]) * 16777619u;
  return hash;
}

static name_table new_table(SEXP names) {
  R_xlen_t count = XLENGTH(names);
  name_table table = {.names = names, .mask = 15};
  while (table.mask < 2 * count) table.mask = 2 * table.mask + 1;
  table.slot = (int *)R_alloc(table.mask + 1, sizeof(int));
  memset(table.slot, 0, (table.mask + 1) * sizeof(int));
  for (R_xlen_t i = 0; i < count; i++) {
    SEXP name = STRING_ELT(names, i);
    uint32_t at = hash_of(CHAR(name), LENGTH(name)) & table.mask;
    while (table.slot[at] != 0) at = (at + 1) & table.mask;
    table.slot[at] = (int)i + 1;
    if (LENGTH(name) > table.longest) table.longest = LENGTH(name);
  }
  return table;
}

/* A name may be there several times, for several packages. */
static void mark(const name_table *table, const char *text, int size, int *found) {
  for (uint32_t at = hash_of(text, size) & table->mask; table->slot[at] != 0; at = (at + 1) & table->mask) {
    SEXP name = STRING_ELT(table->names, table->slot[at] - 1);
    if (LENGTH(name) == size && memcmp(CHAR(name), text, (size_t)size) == 0) found[table->slot[at] - 1] = 1;
  }
}

/* In R's native binary format a string is its flags, its length and its bytes. Strings can stand at any byte: what
   only looks like one costs no more than a package that is loaded in vain. */
static void look_through(const name_table *table, const char *bytes, R_xlen_t size, int *found) {
  enum { STRING = 9, ASCII = 64 << 12, UTF8 = 8 << 12 };
  int32_t head[2];
  for (R_xlen_t at = 0; at + (R_xlen_t)sizeof head < size; at++) {
    memcpy(head, bytes + at, sizeof head);
    if ((head[0] & ~(ASCII | UTF8)) != STRING || head[1] <= 0 || head[1] > table->longest) continue;
    if (head[1] > size - at - (R_xlen_t)sizeof head) continue;
    mark(table, bytes + at + sizeof head, head[1], found);
  }
}

/* Which of `names` are among the strings in `streams`, a list of what serialize(xdr = FALSE) has written. */
SEXP ffi_encode_names(SEXP streams, SEXP names) {
  SEXP found = PROTECT(Rf_allocVector(LGLSXP, XLENGTH(names)));
  if (XLENGTH(names) > 0) {
    memset(LOGICAL(found), 0, (size_t)XLENGTH(names) * sizeof(int));
    name_table table = new_table(names);
    for (R_xlen_t i = 0; i < XLENGTH(streams); i++) {
      SEXP bytes = VECTOR_ELT(streams, i);
      look_through(&table, (const char *)RAW_RO(bytes), XLENGTH(bytes), LOGICAL(found));
    }
  }
  UNPROTECT(1);
  return found;
}

static void look_at_class(const name_table *table, SEXP names, int *found) {
  if (TYPEOF(names) != STRSXP) return;
  for (R_xlen_t i = 0; i < XLENGTH(names); i++) {
    SEXP name = STRING_ELT(names, i);
    mark(table, CHAR(name), LENGTH(name), found);
  }
}

static void look_at_value(const name_table *table, SEXP value, int *found) {
  if (Rf_isObject(value)) {
    SEXP names = PROTECT(Rf_getAttrib(value, R_ClassSymbol));
    look_at_class(table, names, found);
    look_at_class(table, Rf_getAttrib(names, R_PackageSymbol), found);
    UNPROTECT(1);
  }
  if (TYPEOF(value) != VECSXP) return;
  R_CheckStack();
  for (R_xlen_t i = 0; i < XLENGTH(value); i++) look_at_value(table, VECTOR_ELT(value, i), found);
}

/* Which of `names` are classes of `value` or of elements of it, or packages of S4 classes of these. Attributes are not
   looked into: what they hold comes with the package of the object that has them. */
SEXP ffi_encode_classes(SEXP value, SEXP names) {
  SEXP found = PROTECT(Rf_allocVector(LGLSXP, XLENGTH(names)));
  memset(LOGICAL(found), 0, (size_t)XLENGTH(names) * sizeof(int));
  name_table table = new_table(names);
  look_at_value(&table, value, LOGICAL(found));
  UNPROTECT(1);
  return found;
}

/* Classes that values of a run have had in this process. */
enum { CLASSES = 64 };
static SEXP classes;
static int class_count;

static int is_new_class(SEXP name) {
  for (int i = 0; i < class_count; i++) {
    if (STRING_ELT(classes, i) == name) return 0;
  }
  if (!classes) R_PreserveObject(classes = Rf_allocVector(STRSXP, CLASSES));
  if (class_count == CLASSES) class_count = 0;
  SET_STRING_ELT(classes, class_count++, name);
  return 1;
}

void rg_encode_forget_classes(void) { class_count = 0; }

int rg_encode_is_news(SEXP value) {
  int news = 0;
  if (Rf_isObject(value)) {
    SEXP names = Rf_getAttrib(value, R_ClassSymbol);
    for (R_xlen_t i = 0; TYPEOF(names) == STRSXP && i < XLENGTH(names); i++) {
      news |= is_new_class(STRING_ELT(names, i));
    }
  }
  if (TYPEOF(value) != VECSXP) return news;
  R_CheckStack();
  for (R_xlen_t i = 0; i < XLENGTH(value); i++) news |= rg_encode_is_news(VECTOR_ELT(value, i));
  return news;
}
