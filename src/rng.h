#ifndef RG_RNG_H
#define RG_RNG_H

#include <R_ext/Rdynload.h>
#include <Rinternals.h>
#include <stdint.h>

void rg_rng_init(DllInfo *dll);

/* Lets R's generators go on from a stream. `kind` is the first word of .Random.seed. */
void rg_rng_use(int kind, const int32_t stream[6]);

SEXP ffi_rng_element(SEXP base, SEXP i, SEXP try);
SEXP ffi_rng_base_number(SEXP seed);
SEXP ffi_rng_base_state(SEXP state, SEXP drawn);

#endif
