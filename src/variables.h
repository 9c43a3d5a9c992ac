#ifndef RG_VARIABLES_H
#define RG_VARIABLES_H

#include <Rinternals.h>

/* Variables of an environment as they are at one time, and put back later. What is kept are references: R does not
   change in place what is held elsewhere. No promise is forced and no function of an active binding is called. */

typedef enum { RG_VARIABLE_LEFT_ALONE, RG_VARIABLE_VALUE, RG_VARIABLE_DELAYED } rg_variable_kind;

typedef struct {
  rg_variable_kind kind;
  SEXP value; /* of one that is delayed: its code */
  SEXP env;   /* where that is evaluated */
} rg_variable;

rg_variable rg_variable_look(SEXP env, SEXP symbol);
void rg_variable_put(SEXP env, SEXP symbol, rg_variable was);

/* list(kinds, values) of these variables */
SEXP ffi_variables_take(SEXP env, SEXP names);
/* Makes those that have changed what they were. */
SEXP ffi_variables_put(SEXP env, SEXP names, SEXP taken);
/* The session can change the values in place again. */
SEXP ffi_variables_drop(SEXP taken);

#endif
