#ifndef RG_RNG_H
#define RG_RNG_H

#include <Rinternals.h>

SEXP ffi_rng_stream(SEXP base, SEXP i, SEXP try);
SEXP ffi_rng_base_number(SEXP seed);
SEXP ffi_rng_base_state(SEXP state, SEXP drawn);

#endif
