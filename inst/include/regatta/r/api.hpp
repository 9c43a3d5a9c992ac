#ifndef REGATTA_R_API_HPP
#define REGATTA_R_API_HPP

// R's own names without the short aliases (length, error ...), which would rename the standard
// library's. Rcpp and cpp11 ask for the same.
#ifndef R_NO_REMAP
#define R_NO_REMAP
#endif
#ifndef STRICT_R_HEADERS
#define STRICT_R_HEADERS
#endif
#include <R_ext/Print.h>
#include <R_ext/Utils.h>
#include <Rinternals.h>

#endif
