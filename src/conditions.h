#ifndef RG_CONDITIONS_H
#define RG_CONDITIONS_H

#include <Rinternals.h>

/* A list of conditions, which are lists, that are like `condition` but for these fields: a named list of lists,
   texts or integers, all of one length. */
SEXP ffi_conditions_vary(SEXP condition, SEXP fields);

/* Copies of these conditions with these classes, a list of them. */
SEXP ffi_conditions_reclass(SEXP conditions, SEXP classes);

#endif
