#ifndef RG_FORK_VARIABLES_H
#define RG_FORK_VARIABLES_H

#include <Rinternals.h>

/* Variables of an environment as they are at one time, and put back later. */

SEXP ffi_variables_take(SEXP env, SEXP names);
SEXP ffi_variables_put(SEXP env, SEXP names, SEXP taken);
SEXP ffi_variables_drop(SEXP taken);

#endif
