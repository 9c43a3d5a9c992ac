#ifndef REGATTA_R_VIEWS_HPP
#define REGATTA_R_VIEWS_HPP

#include <string>

#include "../core/failure.hpp"
#include "../core/matrix.hpp"
#include "api.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

template <class T>
struct RType;
template <>
struct RType<double> {
  static constexpr SEXPTYPE type = REALSXP;
  static double* data(SEXP x) { return REAL(x); }
};
template <>
struct RType<int> {
  static constexpr SEXPTYPE type = INTSXP;
  static int* data(SEXP x) { return TYPEOF(x) == LGLSXP ? LOGICAL(x) : INTEGER(x); }
};
template <>
struct RType<Rbyte> {
  static constexpr SEXPTYPE type = RAWSXP;
  static Rbyte* data(SEXP x) { return RAW(x); }
};
template <>
struct RType<Rcomplex> {
  static constexpr SEXPTYPE type = CPLXSXP;
  static Rcomplex* data(SEXP x) { return COMPLEX(x); }
};
template <class T>
struct RType<const T> {
  static constexpr SEXPTYPE type = RType<T>::type;
  static const T* data(SEXP x) { return RType<T>::data(x); }
};

// Made on the main thread, before the loop: the first look at the memory of an ALTREP vector may
// allocate it. The vector must stay protected as long as the view is used.
template <class T>
struct Access<T, SEXP> {
  static T* data(SEXP x) {
    const bool fits = TYPEOF(x) == RType<T>::type ||
                      (RType<T>::type == INTSXP && TYPEOF(x) == LGLSXP);
    if (!fits) {
      throw Error(std::string("a view of type ") + Rf_type2char(RType<T>::type) +
                  " was asked of a vector of type " +
                  Rf_type2char(static_cast<SEXPTYPE>(TYPEOF(x))));
    }
    return RType<T>::data(x);
  }
  static std::size_t length(SEXP x) { return static_cast<std::size_t>(Rf_xlength(x)); }
  static std::size_t nrow(SEXP x) {
    if (!Rf_isMatrix(x)) throw Error("a matrix view was asked of a vector that is no matrix");
    return static_cast<std::size_t>(Rf_nrows(x));
  }
  static std::size_t ncol(SEXP x) { return static_cast<std::size_t>(Rf_ncols(x)); }
};

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
