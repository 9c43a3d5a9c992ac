#ifndef RG_CALL_R_H
#define RG_CALL_R_H

#include <Rinternals.h>

/* The value, not protected, of the function `name` of this package's R code, called with `count`
   arguments, each a SEXP that is protected and handed over as it is. An R error jumps. The name stands
   as a string in the call: tools/check-floors.R reads it there. */
SEXP rg_call_r(const char *name, int count, ...);

/* What attributes(x) is in R: a named list, or NULL. Not protected. */
SEXP rg_attributes(SEXP x);

#endif
