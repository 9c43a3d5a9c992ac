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

static uint32_t mask_for(R_xlen_t count) {
  uint32_t mask = 15;
  while (mask < 2 * count) mask = 2 * mask + 1;
  return mask;
}

/* `slot` has room for mask_for() and one more. */
static name_table fill_table(SEXP names, int *slot) {
  R_xlen_t count = XLENGTH(names);
  name_table table = {.names = names, .slot = slot, .mask = mask_for(count)};
  memset(slot, 0, ((size_t)table.mask + 1) * sizeof(int));
  for (R_xlen_t i = 0; i < count; i++) {
    SEXP name = STRING_ELT(names, i);
    uint32_t at = hash_of(CHAR(name), LENGTH(name)) & table.mask;
    while (table.slot[at] != 0) at = (at + 1) & table.mask;
    table.slot[at] = (int)i + 1;
    if (LENGTH(name) > table.longest) table.longest = LENGTH(name);
  }
  return table;
}

static name_table new_table(SEXP names) {
  return fill_table(names, (int *)R_alloc((size_t)mask_for(XLENGTH(names)) + 1, sizeof(int)));
}

/* A name may be there several times, for several packages. */
static void mark(const name_table *table, const char *text, int size, int *found) {
  for (uint32_t at = hash_of(text, size) & table->mask; table->slot[at] != 0; at = (at + 1) & table->mask) {
    SEXP name = STRING_ELT(table->names, table->slot[at] - 1);
    if (LENGTH(name) == size && memcmp(CHAR(name), text, (size_t)size) == 0) found[table->slot[at] - 1] = 1;
  }
}

/* Whether the string that begins at `at` is that of a symbol: the flags before it are those of one, and are not the
   length of a vector of one string. */
static int is_symbol(const char *bytes, R_xlen_t at) {
  enum { SYMBOL = 1, STRINGS = 16 };
  int32_t before[2] = {0, 0};
  if (at >= (R_xlen_t)sizeof before) memcpy(before, bytes + at - sizeof before, sizeof before);
  return before[1] == SYMBOL && (before[0] & 0xff) != STRINGS;
}

/* In R's native binary format a string is its flags, its length and its bytes. Strings can stand at any byte: what
   only looks like one costs no more than a package that is loaded in vain. */
static void look_through(const name_table *table, int symbols, const char *bytes, R_xlen_t size, int *found) {
  enum { STRING = 9, ASCII = 64 << 12, UTF8 = 8 << 12 };
  int32_t head[2];
  for (R_xlen_t at = 0; at + (R_xlen_t)sizeof head < size; at++) {
    memcpy(head, bytes + at, sizeof head);
    if ((head[0] & ~(ASCII | UTF8)) != STRING || head[1] <= 0 || head[1] > table->longest) continue;
    if (head[1] > size - at - (R_xlen_t)sizeof head) continue;
    if (symbols && !is_symbol(bytes, at)) continue;
    mark(table, bytes + at + sizeof head, head[1], found);
  }
}

/* Which of `names` are among the strings in `streams`, a list of what serialize(xdr = FALSE) has written, or among
   those of `symbols` alone. */
SEXP ffi_encode_names(SEXP streams, SEXP names, SEXP symbols) {
  SEXP found = PROTECT(Rf_allocVector(LGLSXP, XLENGTH(names)));
  if (XLENGTH(names) > 0) {
    memset(LOGICAL(found), 0, (size_t)XLENGTH(names) * sizeof(int));
    name_table table = new_table(names);
    for (R_xlen_t i = 0; i < XLENGTH(streams); i++) {
      SEXP bytes = VECTOR_ELT(streams, i);
      look_through(&table, Rf_asLogical(symbols), (const char *)RAW_RO(bytes), XLENGTH(bytes), LOGICAL(found));
    }
  }
  UNPROTECT(1);
  return found;
}

/* Where R has written a namespace or the environment of an attached package: its kind, a zero, and how many strings
   there are, of which the first is its name. */
static SEXP add_spaces(const char *bytes, R_xlen_t size, SEXP into, PROTECT_INDEX slot, R_xlen_t *count) {
  enum { STRING = 9, ASCII = 64 << 12, UTF8 = 8 << 12, NAMESPACE = 249, PACKAGE = 248, LONGEST = 1000 };
  int32_t head[5];
  for (R_xlen_t at = 0; at + (R_xlen_t)sizeof head < size; at++) {
    memcpy(head, bytes + at, sizeof head);
    if ((head[0] != NAMESPACE && head[0] != PACKAGE) || head[1] != 0 || head[2] < 1 || head[2] > 2) continue;
    if ((head[3] & ~(ASCII | UTF8)) != STRING || head[4] <= 0 || head[4] > LONGEST) continue;
    const char *text = bytes + at + sizeof head;
    if (head[4] > size - at - (R_xlen_t)sizeof head || memchr(text, 0, (size_t)head[4]) != NULL) continue;
    if (*count == XLENGTH(into)) REPROTECT(into = Rf_lengthgets(into, 2 * *count), slot);
    SET_STRING_ELT(into, (*count)++, Rf_mkCharLenCE(text, head[4], CE_UTF8));
  }
  return into;
}

/* The names, "package:" before those of attached packages, of which R's unserialize() looks for the environment. One
   may be there several times. */
SEXP ffi_encode_spaces(SEXP streams) {
  PROTECT_INDEX slot;
  SEXP names;
  R_xlen_t count = 0;
  PROTECT_WITH_INDEX(names = Rf_allocVector(STRSXP, 16), &slot);
  for (R_xlen_t i = 0; i < XLENGTH(streams); i++) {
    SEXP bytes = VECTOR_ELT(streams, i);
    names = add_spaces((const char *)RAW_RO(bytes), XLENGTH(bytes), names, slot, &count);
  }
  names = Rf_lengthgets(names, count);
  UNPROTECT(1);
  return names;
}

int rg_encode_is_word(char byte) {
  const unsigned char c = (unsigned char)byte;
  return c >= 0x80 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
    c == '_';
}

static void mark_name(const name_table *table, const char *text, int size, int *found) {
  if (size > 0 && size <= table->longest) mark(table, text, size, found);
  /* ..name of data.table */
  int rest = size - 2;
  if (rest > 0 && rest <= table->longest && memcmp(text, "..", 2) == 0) mark(table, text + 2, rest, found);
}

/* The text as a whole, and its words. */
static void mark_words(const name_table *table, const char *text, int size, int *found) {
  mark_name(table, text, size, found);
  for (int at = 0; at < size;) {
    int end = at;
    while (end < size && rg_encode_is_word(text[end])) end++;
    /* What begins with a digit is no name; keys mark kinds of parts so. */
    if (end > at && end - at < size && !(text[at] >= '0' && text[at] <= '9')) {
      mark_name(table, text + at, end - at, found);
    }
    at = end + 1;
  }
}

static int is_in(const char *name, int length, const char *text, int size) {
  for (int at = 0; at + length <= size; at++) {
    if (text[at] == name[0] && memcmp(text + at, name, (size_t)length) == 0) return 1;
  }
  return 0;
}

/* Names that are no words, such as those of operators: those with the numbers `odd` count wherever they stand. */
static void mark_odd(SEXP names, SEXP odd, const char *text, int size, int *found) {
  for (R_xlen_t i = 0; i < XLENGTH(odd); i++) {
    int at = INTEGER_ELT(odd, i) - 1;
    SEXP name = STRING_ELT(names, at);
    if (is_in(CHAR(name), LENGTH(name), text, size)) found[at] = 1;
  }
}

/* ISO 8859-1 as UTF-8. */
static const char *as_utf8(const char *text, int *size) {
  char *utf8 = R_alloc(2 * (size_t)*size, 1);
  int length = 0;
  for (int i = 0; i < *size; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c >= 0x80) utf8[length++] = (char)(0xc0 | (c >> 6));
    utf8[length++] = (char)(c < 0x80 ? c : (0x80 | (c & 0x3f)));
  }
  *size = length;
  return utf8;
}

/* The slots of these names, for ffi_encode_words(). */
SEXP ffi_encode_table(SEXP names) {
  SEXP slots = PROTECT(Rf_allocVector(INTSXP, (R_xlen_t)mask_for(XLENGTH(names)) + 1));
  fill_table(names, INTEGER(slots));
  UNPROTECT(1);
  return slots;
}

static void mark_string(const name_table *table, SEXP odd, const char *text, int length, int is_latin1, int *found) {
  const void *top = vmaxget();
  if (is_latin1) text = as_utf8(text, &length);
  mark_words(table, text, length, found);
  mark_odd(table->names, odd, text, length, found);
  vmaxset(top);
}

static void mark_strings(const name_table *table, SEXP odd, SEXP strings, int *found) {
  for (R_xlen_t i = 0; i < XLENGTH(strings); i++) {
    SEXP string = STRING_ELT(strings, i);
    if (string == NA_STRING) continue;
    mark_string(table, odd, CHAR(string), LENGTH(string), Rf_getCharCE(string) == CE_LATIN1, found);
  }
}

/* Symbols do not count: those that are no code are names of attributes. A string holds no zero byte, so that numbers
   hardly ever look like one. */
static void mark_stream(const name_table *table, SEXP odd, const char *bytes, R_xlen_t size, int *found) {
  enum { STRING = 9, ASCII = 64 << 12, UTF8 = 8 << 12, LATIN1 = 4 << 12, BYTES = 2 << 12 };
  int32_t head[2];
  for (R_xlen_t at = 0; at + (R_xlen_t)sizeof head < size; at++) {
    memcpy(head, bytes + at, sizeof head);
    if ((head[0] & ~(ASCII | UTF8 | LATIN1 | BYTES)) != STRING || head[1] <= 0) continue;
    if (head[1] > size - at - (R_xlen_t)sizeof head) continue;
    const char *text = bytes + at + sizeof head;
    if (memchr(text, 0, (size_t)head[1]) != NULL) continue;
    if (!is_symbol(bytes, at)) mark_string(table, odd, text, head[1], head[0] & LATIN1, found);
    at += (R_xlen_t)sizeof head + head[1] - 1;
  }
}

/* Which of `names`, in UTF-8, are among the words of strings, as indices; those at `odd` may stand anywhere in one.
   `sources` is a list of vectors of strings, and of what serialize(xdr = FALSE) has written. */
SEXP ffi_encode_words(SEXP sources, SEXP names, SEXP slots, SEXP longest, SEXP odd) {
  R_xlen_t count = XLENGTH(names);
  if (count == 0) return Rf_allocVector(INTSXP, 0);
  name_table table = {
    .names = names, .slot = INTEGER(slots), .mask = (uint32_t)(XLENGTH(slots) - 1), .longest = INTEGER_ELT(longest, 0)
  };
  const void *top = vmaxget();
  int *found = (int *)R_alloc((size_t)count, sizeof(int));
  memset(found, 0, (size_t)count * sizeof(int));
  for (R_xlen_t i = 0; i < XLENGTH(sources); i++) {
    SEXP source = VECTOR_ELT(sources, i);
    if (TYPEOF(source) == STRSXP) mark_strings(&table, odd, source, found);
    if (TYPEOF(source) == RAWSXP) mark_stream(&table, odd, (const char *)RAW_RO(source), XLENGTH(source), found);
  }
  int hits = 0;
  for (R_xlen_t i = 0; i < count; i++) hits += found[i] != 0;
  SEXP which = PROTECT(Rf_allocVector(INTSXP, hits));
  for (R_xlen_t i = 0, k = 0; i < count; i++) {
    if (found[i]) INTEGER(which)[k++] = (int)i + 1;
  }
  vmaxset(top);
  UNPROTECT(1);
  return which;
}

static void visit_names(SEXP names, void (*visit)(SEXP name, void *data), void *data) {
  if (TYPEOF(names) != STRSXP) return;
  for (R_xlen_t i = 0; i < XLENGTH(names); i++) visit(STRING_ELT(names, i), data);
}

/* Calls `visit` with each class of `value` and of its elements, and with the package of each S4 class. */
static void visit_classes(SEXP value, void (*visit)(SEXP name, void *data), void *data) {
  if (Rf_isObject(value)) {
    SEXP names = PROTECT(Rf_getAttrib(value, R_ClassSymbol));
    visit_names(names, visit, data);
    visit_names(Rf_getAttrib(names, R_PackageSymbol), visit, data);
    UNPROTECT(1);
  }
  if (TYPEOF(value) != VECSXP) return;
  R_CheckStack();
  for (R_xlen_t i = 0; i < XLENGTH(value); i++) visit_classes(VECTOR_ELT(value, i), visit, data);
}

typedef struct {
  name_table table;
  int *found;
} name_search;

static void mark_class(SEXP name, void *data) {
  name_search *search = data;
  mark(&search->table, CHAR(name), LENGTH(name), search->found);
}

/* Which of `names` are classes of `value` or of elements of it, or packages of S4 classes of these. Attributes are not
   looked into: what they hold comes with the package of the object that has them. */
SEXP ffi_encode_classes(SEXP value, SEXP names) {
  SEXP found = PROTECT(Rf_allocVector(LGLSXP, XLENGTH(names)));
  memset(LOGICAL(found), 0, (size_t)XLENGTH(names) * sizeof(int));
  name_search search = {.table = new_table(names), .found = LOGICAL(found)};
  visit_classes(value, mark_class, &search);
  UNPROTECT(1);
  return found;
}

/* Classes that values of a run have had in this process. */
enum { CLASSES = 64 };
static SEXP classes;
static int class_count;

/* Keeps the class, and sets `news` if it was not there. */
static void note_class(SEXP name, void *news) {
  for (int i = 0; i < class_count; i++) {
    if (STRING_ELT(classes, i) == name) return;
  }
  if (!classes) R_PreserveObject(classes = Rf_allocVector(STRSXP, CLASSES));
  if (class_count == CLASSES) class_count = 0;
  SET_STRING_ELT(classes, class_count++, name);
  *(int *)news = 1;
}

void rg_encode_forget_classes(void) { class_count = 0; }

int rg_encode_is_news(SEXP value) {
  int news = 0;
  visit_classes(value, note_class, &news);
  return news;
}
