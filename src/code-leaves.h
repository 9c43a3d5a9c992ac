#ifndef RG_CODE_LEAVES_H
#define RG_CODE_LEAVES_H

#include <Rinternals.h>

/* The parts of code that are no code with parts of their own, as a list: those of a call before those of the
   calls in it. Arguments that are empty, and NULL, are left out. */
SEXP ffi_code_leaves(SEXP code);

#endif
