#ifndef THREADSTATS_ENTRIES_H
#define THREADSTATS_ENTRIES_H

#define R_NO_REMAP
#include <Rinternals.h>

extern "C" {
SEXP ffi_kde(SEXP x, SEXP bandwidth, SEXP grid, SEXP threads, SEXP progress);
SEXP ffi_kendall(SEXP x, SEXP threads, SEXP progress);
}

#endif
