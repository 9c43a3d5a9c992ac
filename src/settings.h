#ifndef RG_SETTINGS_H
#define RG_SETTINGS_H

#include <Rinternals.h>

/* The options of a session, `.Options`, as a named list of the very values; unless `whole`, with NULL in
   place of those that would hold environments of the session, such as its functions. */
SEXP ffi_settings_options(SEXP options, SEXP whole);

/* Whether they are those of an earlier list. R puts a new value in the place of an old one and never writes
   into it, so that addresses tell. What was left out counts as the same. */
SEXP ffi_settings_options_same(SEXP options, SEXP before);

/* The environment variables as bytes, to be compared. */
SEXP ffi_settings_environment(void);

/* Makes them what such bytes say, but for new ones whose names are among `stay`. */
SEXP ffi_settings_environment_reset(SEXP before, SEXP stay);

#endif
