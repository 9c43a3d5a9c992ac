#include "settings.h"

#include <Rversion.h>
#include <stdlib.h>
#include <string.h>

#include "call-r.h"

extern char **environ;

#if R_VERSION >= R_Version(4, 5, 0)
static SEXP parent_env(SEXP x) { return R_ParentEnv(x); }
#else
static SEXP parent_env(SEXP x) { return ENCLOS(x); }
#endif

/* Of a package: its namespace is on the way to that of base R, which comes before the workspace. */
static int is_packaged(SEXP closure) {
  SEXP env = rg_closure_env(closure);
  while (env != R_BaseNamespace && env != R_BaseEnv) {
    if (env == R_GlobalEnv || env == R_EmptyEnv) return 0;
    env = parent_env(env);
  }
  return 1;
}

/* What may be held: no environment of the session hangs on it. */
static int may_be_held(SEXP x) {
  switch (TYPEOF(x)) {
  case NILSXP:
  case LGLSXP:
  case INTSXP:
  case REALSXP:
  case CPLXSXP:
  case STRSXP:
  case RAWSXP:
  case BUILTINSXP:
  case SPECIALSXP:
    return 1;
  case CLOSXP:
    return is_packaged(x);
  case VECSXP:
    for (R_xlen_t i = 0; i < XLENGTH(x); i++) {
      if (!may_be_held(VECTOR_ELT(x, i))) return 0;
    }
    return 1;
  default:
    return 0;
  }
}

SEXP ffi_settings_options(SEXP options, SEXP whole) {
  const int all = Rf_asLogical(whole);
  R_xlen_t n = 0, i = 0;
  for (SEXP at = options; at != R_NilValue; at = CDR(at)) n++;
  SEXP values = PROTECT(Rf_allocVector(VECSXP, n));
  SEXP names = PROTECT(Rf_allocVector(STRSXP, n));
  for (SEXP at = options; at != R_NilValue; at = CDR(at), i++) {
    if (all || may_be_held(CAR(at))) SET_VECTOR_ELT(values, i, CAR(at));
    if (TAG(at) != R_NilValue) SET_STRING_ELT(names, i, PRINTNAME(TAG(at)));
  }
  Rf_setAttrib(values, R_NamesSymbol, names);
  UNPROTECT(2);
  return values;
}

SEXP ffi_settings_options_same(SEXP options, SEXP before) {
  SEXP names = Rf_getAttrib(before, R_NamesSymbol);
  R_xlen_t i = 0;
  for (SEXP at = options; at != R_NilValue; at = CDR(at), i++) {
    if (i >= XLENGTH(before) || TAG(at) == R_NilValue) return Rf_ScalarLogical(0);
    SEXP value = VECTOR_ELT(before, i);
    int left_out = value == R_NilValue && !may_be_held(CAR(at));
    if ((CAR(at) != value && !left_out) || PRINTNAME(TAG(at)) != STRING_ELT(names, i)) return Rf_ScalarLogical(0);
  }
  return Rf_ScalarLogical(i == XLENGTH(before));
}

SEXP ffi_settings_environment(void) {
  R_xlen_t size = 0, at = 0;
  for (char **entry = environ; entry && *entry; entry++) size += (R_xlen_t)strlen(*entry) + 1;
  SEXP bytes = PROTECT(Rf_allocVector(RAWSXP, size));
  for (char **entry = environ; entry && *entry; entry++) {
    size_t length = strlen(*entry) + 1;
    memcpy(RAW(bytes) + at, *entry, length);
    at += (R_xlen_t)length;
  }
  UNPROTECT(1);
  return bytes;
}

/* Those of before, one after the other, each with its end. */
typedef struct {
  const char *start, *end, *at;
} entries;

static const char *next_entry(entries *all) {
  const char *entry = all->at;
  all->at += strlen(entry) + 1;
  if (all->at >= all->end) all->at = all->start;
  return entry;
}

/* The entry with the name that `entry` begins with. Mostly it is the one after that which was found last. */
static const char *find_entry(entries *all, const char *entry, size_t name) {
  if (all->start == all->end) return NULL;
  const char *first = all->at;
  do {
    const char *one = next_entry(all);
    if (strncmp(one, entry, name) == 0 && one[name] == '=') return one;
  } while (all->at != first);
  return NULL;
}

static size_t name_length(const char *entry) {
  const char *end = strchr(entry, '=');
  return end ? (size_t)(end - entry) : 0;
}

static const char *name_of(const char *entry, size_t length) {
  char *name = R_alloc(length + 1, 1);
  memcpy(name, entry, length);
  name[length] = '\0';
  return name;
}

static int is_set(const char *entry) {
  size_t name = name_length(entry);
  if (name == 0) return 1; /* nothing that has a name */
  const char *value = getenv(name_of(entry, name));
  return value && strcmp(value, entry + name + 1) == 0;
}

static int is_among(SEXP names, const char *entry, size_t length) {
  for (R_xlen_t i = 0; i < XLENGTH(names); i++) {
    const char *name = CHAR(STRING_ELT(names, i));
    if (strncmp(name, entry, length) == 0 && name[length] == '\0') return 1;
  }
  return 0;
}

SEXP ffi_settings_environment_reset(SEXP before, SEXP stay) {
  const char *bytes = (const char *)RAW_RO(before);
  entries all = {bytes, bytes + XLENGTH(before), bytes};
  const void *memory = vmaxget();
  for (char **entry = environ; entry && *entry;) {
    size_t name = name_length(*entry);
    if (name == 0 || find_entry(&all, *entry, name) || is_among(stay, *entry, name)) {
      entry++;
    } else {
      unsetenv(name_of(*entry, name)); /* which moves the next to this place */
    }
  }
  for (const char *entry = bytes; entry < all.end; entry += strlen(entry) + 1) {
    size_t name = name_length(entry);
    if (!is_set(entry)) setenv(name_of(entry, name), entry + name + 1, 1);
  }
  vmaxset(memory);
  return R_NilValue;
}
