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
template <class T, SEXPTYPE code, T* (*memory)(SEXP)>
struct RTypeOf {
  static constexpr SEXPTYPE type = code;
  static T* data(SEXP x) { return memory(x); }
};
template <>
struct RType<double> : RTypeOf<double, REALSXP, REAL> {};
template <>
struct RType<int> : RTypeOf<int, INTSXP, INTEGER> {};  // which is for logical vectors, too
template <>
struct RType<Rbyte> : RTypeOf<Rbyte, RAWSXP, RAW> {};
template <>
struct RType<Rcomplex> : RTypeOf<Rcomplex, CPLXSXP, COMPLEX> {};
template <class T>
struct RType<const T> : RType<T> {};

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
