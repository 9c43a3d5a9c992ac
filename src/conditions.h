#ifndef RG_CONDITIONS_H
#define RG_CONDITIONS_H

#include <Rinternals.h>

/* A list of conditions, which are lists, that are like `condition` but for these fields: a named list of lists,
   texts or integers, all of one length. */
SEXP ffi_conditions_vary(SEXP condition, SEXP fields);

/* For each condition the number of the first that has the same classes; of one that has other classes than the first
   64 kinds, its own. */
SEXP ffi_conditions_first_of_class(SEXP conditions);

/* Copies of these conditions with these classes, a list of them. */
SEXP ffi_conditions_reclass(SEXP conditions, SEXP classes);

#endif
