#include <string.h>

#include "call-r.h"
#include "encode.h"

/* Code that stands in values: functions, language and environments, in lists and attributes as well. */

typedef struct {
  SEXP found; /* list */
  double *address;
  R_xlen_t count, most;
} code_look;

enum { CODE_DEEPEST = 50, WORDS_DEEPEST = 500 };

/* Attributes of data that hold no code. */
static int is_plain(const char *name) {
  static const char *const plain[] = {"names",  "dim",  "dimnames", "class",       "levels",     "row.names", "tsp",
                                      "srcref", "srcfile", "comment", "wholeSrcref", ".Environment"};
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
    if (strcmp(name, plain[i]) == 0) return 1;
  }
  return 0;
}

/* What calls and streams hold is the run's, and clusters are not sent. */
static int is_ours(SEXP x) {
  return Rf_isObject(x) &&
         (Rf_inherits(x, "regatta_call") || Rf_inherits(x, "regatta_stream") || Rf_inherits(x, "cluster"));
}

static void look_at_code(code_look *look, SEXP x, int depth);

typedef struct {
  code_look *look;
  int depth;
} attribute_look;

static SEXP look_at_attribute(SEXP name, SEXP value, void *data) {
  const attribute_look *in = data;
  if (!is_plain(CHAR(PRINTNAME(name)))) look_at_code(in->look, value, in->depth + 1);
  return NULL;
}

static void look_at_attributes(code_look *look, SEXP x, int depth) {
  attribute_look in = {look, depth};
  rg_each_attribute(x, look_at_attribute, &in);
}

static void look_at_code(code_look *look, SEXP x, int depth) {
  if (look->count == look->most || depth > CODE_DEEPEST || is_ours(x)) return;
  switch (TYPEOF(x)) {
    case CLOSXP:
    case LANGSXP:
    case ENVSXP:
      look->address[look->count] = (double)(uintptr_t)x;
      SET_VECTOR_ELT(look->found, look->count++, x);
      if (TYPEOF(x) != ENVSXP || Rf_isObject(x)) look_at_attributes(look, x, depth);
      return;
    case VECSXP:
    case EXPRSXP:
      if (ALTREP(x)) return;
      for (R_xlen_t i = 0; i < XLENGTH(x); i++) look_at_code(look, VECTOR_ELT(x, i), depth + 1);
      look_at_attributes(look, x, depth);
      return;
    case LISTSXP:
    case DOTSXP:
      for (SEXP rest = x; rest != R_NilValue; rest = CDR(rest)) look_at_code(look, CAR(rest), depth + 1);
      look_at_attributes(look, x, depth);
      return;
    case NILSXP:
    case SYMSXP: return;
    default:
      if (rg_has_attributes(x)) look_at_attributes(look, x, depth);
  }
}

/* Values that stand in code as they are, where bquote() and its kind have put them. */
static void look_in_code(code_look *look, SEXP code, int depth) {
  for (SEXP rest = code; rest != R_NilValue && depth <= WORDS_DEEPEST; rest = CDR(rest)) {
    SEXP part = CAR(rest);
    if ((TYPEOF(part) == LANGSXP || TYPEOF(part) == LISTSXP) && !Rf_isObject(part)) {
      look_in_code(look, part, depth + 1);
    } else {
      look_at_code(look, part, 0);
    }
  }
}

/* list(code, address) of at most so many in the list `objects`, or in the call that it is. Addresses tell which are the
   same. */
SEXP ffi_encode_code(SEXP objects, SEXP most) {
  code_look look = {.most = (R_xlen_t)Rf_asReal(most)};
  look.found = PROTECT(Rf_allocVector(VECSXP, look.most));
  SEXP address = PROTECT(Rf_allocVector(REALSXP, look.most));
  look.address = REAL(address);
  if (TYPEOF(objects) == LANGSXP) {
    look_in_code(&look, objects, 0);
  } else {
    look_at_code(&look, objects, 0);
  }
  SEXP told = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(told, 0, Rf_xlengthgets(look.found, look.count));
  SET_VECTOR_ELT(told, 1, Rf_xlengthgets(address, look.count));
  const char *const names[] = {"code", "address"};
  SEXP labels = PROTECT(Rf_allocVector(STRSXP, 2));
  for (int i = 0; i < 2; i++) SET_STRING_ELT(labels, i, Rf_mkChar(names[i]));
  Rf_setAttrib(told, R_NamesSymbol, labels);
  UNPROTECT(4);
  return told;
}

static int has_own_frame(SEXP x) {
  return TYPEOF(x) == CLOSXP && rg_closure_env(x) != R_GlobalEnv && rg_closure_env(x) != R_BaseNamespace;
}

/* A longer list is data. */
enum { FRAMED_MOST = 2000 };

/* Which of these values are closures from elsewhere than the top level, or lists of no class that hold one. */
SEXP ffi_encode_framed(SEXP values) {
  SEXP framed = PROTECT(Rf_allocVector(LGLSXP, XLENGTH(values)));
  for (R_xlen_t k = 0; k < XLENGTH(values); k++) {
    SEXP x = VECTOR_ELT(values, k);
    int found = has_own_frame(x);
    if (TYPEOF(x) == VECSXP && !ALTREP(x) && !Rf_isObject(x) && XLENGTH(x) <= FRAMED_MOST) {
      for (R_xlen_t i = 0; i < XLENGTH(x) && !found; i++) found = has_own_frame(VECTOR_ELT(x, i));
    }
    LOGICAL(framed)[k] = found;
  }
  UNPROTECT(1);
  return framed;
}

/* Whether R takes it for the name of a variable; it has no such bound in its API. */
static int may_be_name(SEXP string) {
  enum { LONGEST = 10000 };
  return string != NA_STRING && LENGTH(string) > 0 && LENGTH(string) < LONGEST && Rf_getCharCE(string) != CE_BYTES;
}

/* `words`, if it is not R_NilValue, has room for all of them; how many there are. */
static R_xlen_t take_words(SEXP code, SEXP words, R_xlen_t count, int depth) {
  if (depth > WORDS_DEEPEST) return count;
  switch (TYPEOF(code)) {
    case SYMSXP:
      if (code != R_MissingArg && LENGTH(PRINTNAME(code)) > 0) {
        if (words != R_NilValue) SET_STRING_ELT(words, count, PRINTNAME(code));
        count++;
      }
      return count;
    case STRSXP:
      if (XLENGTH(code) == 1 && may_be_name(STRING_ELT(code, 0))) {
        if (words != R_NilValue) SET_STRING_ELT(words, count, STRING_ELT(code, 0));
        count++;
      }
      return count;
    case LANGSXP:
    case LISTSXP:
      for (SEXP rest = code; rest != R_NilValue; rest = CDR(rest)) {
        count = take_words(CAR(rest), words, count, depth + 1);
      }
      return count;
    default: return count;
  }
}

/* Names in code, and strings that may be names; one may be there several times. */
SEXP ffi_encode_code_words(SEXP code) {
  SEXP words = PROTECT(Rf_allocVector(STRSXP, take_words(code, R_NilValue, 0, 0)));
  take_words(code, words, 0, 0);
  UNPROTECT(1);
  return words;
}

typedef struct {
  SEXP names;
  int *found;
  int text; /* whether words of strings count */
  R_xlen_t left; /* strings that are still looked at */
} mention_look;

/* Deeper, or in more text, everything counts as mentioned. */
enum { MENTIONS_DEEPEST = 500, MENTIONS_STRINGS = 1000000 };

static void all_mentioned(mention_look *look) {
  for (R_xlen_t k = 0; k < XLENGTH(look->names); k++) look->found[k] = 1;
}

/* data.table has ..name for the variable `name`. */
static int is_named(const char *word, const char *name) {
  return strcmp(word, name) == 0 || (strncmp(word, "..", 2) == 0 && strcmp(word + 2, name) == 0);
}

static int begins_word(const char *text, const char *at) {
  if (at - text >= 2 && at[-1] == '.' && at[-2] == '.') at -= 2;
  return at == text || !rg_encode_is_word(at[-1]);
}

static int has_word(const char *text, const char *name) {
  const size_t size = strlen(name);
  for (const char *at = strstr(text, name); at; at = strstr(at + 1, name)) {
    if (begins_word(text, at) && !rg_encode_is_word(at[size])) return 1;
  }
  return 0;
}

static void look_for_mentions(mention_look *look, SEXP x, int depth);

typedef struct {
  mention_look *look;
  int depth;
} mention_attribute;

/* Names, levels and the like are text as well. */
static SEXP look_for_mentions_in(SEXP name, SEXP value, void *data) {
  const mention_attribute *in = data;
  if (name != R_ClassSymbol) look_for_mentions(in->look, value, in->depth + 1);
  return NULL;
}

static void look_for_mentions(mention_look *look, SEXP x, int depth) {
  if (depth > MENTIONS_DEEPEST) all_mentioned(look);
  if (depth > MENTIONS_DEEPEST || (TYPEOF(x) == VECSXP && ALTREP(x)) || is_ours(x)) return;
  if (TYPEOF(x) != SYMSXP && TYPEOF(x) != CHARSXP && rg_has_attributes(x)) {
    mention_attribute in = {look, depth};
    rg_each_attribute(x, look_for_mentions_in, &in);
  }
  switch (TYPEOF(x)) {
    case SYMSXP:
      for (R_xlen_t k = 0; k < XLENGTH(look->names); k++) {
        if (is_named(CHAR(PRINTNAME(x)), CHAR(STRING_ELT(look->names, k)))) look->found[k] = 1;
      }
      return;
    case STRSXP:
      if (!look->text) return;
      if ((look->left -= XLENGTH(x)) < 0) {
        all_mentioned(look);
        return;
      }
      for (R_xlen_t i = 0; i < XLENGTH(x); i++) {
        for (R_xlen_t k = 0; k < XLENGTH(look->names); k++) {
          if (!look->found[k]) look->found[k] = has_word(CHAR(STRING_ELT(x, i)), CHAR(STRING_ELT(look->names, k)));
        }
      }
      return;
    case VECSXP:
    case EXPRSXP:
      for (R_xlen_t i = 0; i < XLENGTH(x); i++) look_for_mentions(look, VECTOR_ELT(x, i), depth + 1);
      return;
    case LANGSXP:
    case LISTSXP:
      for (SEXP rest = x; rest != R_NilValue; rest = CDR(rest)) look_for_mentions(look, CAR(rest), depth + 1);
      return;
    default: return;
  }
}

/* Which of these names are in values, in lists and in code: symbols, and with `text` words of strings. */
SEXP ffi_encode_mentions(SEXP values, SEXP names, SEXP text) {
  SEXP found = PROTECT(Rf_allocVector(LGLSXP, XLENGTH(names)));
  memset(LOGICAL(found), 0, sizeof(int) * (size_t)XLENGTH(found));
  mention_look look = {names, LOGICAL(found), Rf_asLogical(text) == TRUE, MENTIONS_STRINGS};
  look_for_mentions(&look, values, 0);
  UNPROTECT(1);
  return found;
}
