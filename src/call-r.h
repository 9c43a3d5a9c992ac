#ifndef RG_CALL_R_H
#define RG_CALL_R_H

#include <Rinternals.h>

/* The value, not protected, of the function `name` of this package's R code, called with `count`
   arguments, each a SEXP that is protected and handed over as it is. An R error jumps. The name stands
   as a string in the call: tools/check-floors.R reads it there. */
SEXP rg_call_r(const char *name, int count, ...);

/* The value, not protected, of `call` in `env`. `end` is called when the evaluation ends, with TRUE if it ends
   by a jump, which goes on afterwards: before anything else can happen. */
SEXP rg_guard(SEXP call, SEXP env, void (*end)(void *data, Rboolean jump), void *data);

/* Calls f(name, value, data) for each attribute that x has, of which f must not change any, until f returns
   another value than NULL, which is returned then. */
SEXP rg_each_attribute(SEXP x, SEXP (*f)(SEXP name, SEXP value, void *data), void *data);

int rg_has_attributes(SEXP x);

/* The value of a variable of this environment and of none above it; R_UnboundValue: there is none. R evaluates a
   promise that nobody has evaluated yet. */
SEXP rg_value_in(SEXP env, SEXP symbol);

SEXP rg_closure_env(SEXP closure);

#endif
