#ifndef REGATTA_H5_R_HPP
#define REGATTA_H5_R_HPP

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include <regatta/r/entry.hpp>

#include "h5-library.hpp"
#include "h5-read.hpp"

/* Between R's values and C++. All of it on R's own thread; an R error passes as an exception. */

namespace regatta {
namespace h5 {

inline SEXP utf8(const std::string& text) {
  return Rf_mkCharLenCE(text.data(), static_cast<int>(text.size()), CE_UTF8);
}

inline SEXP r_strings(const std::vector<std::string>& texts) {
  return callR([&] {
    SEXP out = PROTECT(Rf_allocVector(STRSXP, static_cast<R_xlen_t>(texts.size())));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      SET_STRING_ELT(out, static_cast<R_xlen_t>(i), utf8(texts[i]));
    }
    UNPROTECT(1);
    return out;
  });
}

inline SEXP r_string(const std::string& text) { return r_strings({text}); }

inline SEXP r_logical(bool value) {
  return callR([&] { return Rf_ScalarLogical(value ? 1 : 0); });
}

inline SEXP r_numbers(const std::vector<std::uint64_t>& numbers) {
  return callR([&] {
    SEXP out = Rf_allocVector(REALSXP, static_cast<R_xlen_t>(numbers.size()));
    for (std::size_t i = 0; i < numbers.size(); ++i) REAL(out)[i] = static_cast<double>(numbers[i]);
    return out;
  });
}

inline SEXP r_doubles(const std::vector<double>& numbers) {
  return callR([&] {
    SEXP out = Rf_allocVector(REALSXP, static_cast<R_xlen_t>(numbers.size()));
    if (!numbers.empty()) std::copy(numbers.begin(), numbers.end(), REAL(out));
    return out;
  });
}

inline SEXP r_lists(const std::vector<std::vector<std::uint64_t>>& lists) {
  return callR([&] {
    SEXP out = PROTECT(Rf_allocVector(VECSXP, static_cast<R_xlen_t>(lists.size())));
    for (std::size_t i = 0; i < lists.size(); ++i) {
      SEXP one = Rf_allocVector(REALSXP, static_cast<R_xlen_t>(lists[i].size()));
      SET_VECTOR_ELT(out, static_cast<R_xlen_t>(i), one);
      for (std::size_t k = 0; k < lists[i].size(); ++k) REAL(one)[k] = static_cast<double>(lists[i][k]);
    }
    UNPROTECT(1);
    return out;
  });
}

inline SEXP r_string_lists(const std::vector<std::vector<std::string>>& lists) {
  return callR([&] {
    SEXP out = PROTECT(Rf_allocVector(VECSXP, static_cast<R_xlen_t>(lists.size())));
    for (std::size_t i = 0; i < lists.size(); ++i) {
      SEXP one = Rf_allocVector(STRSXP, static_cast<R_xlen_t>(lists[i].size()));
      SET_VECTOR_ELT(out, static_cast<R_xlen_t>(i), one);
      R_xlen_t k = 0;
      for (const std::string& text : lists[i]) SET_STRING_ELT(one, k++, utf8(text));
    }
    UNPROTECT(1);
    return out;
  });
}

/* A named list that lives as long as this object; the value of an entry is its last one, which R
   does not collect before it has it. */
class RList {
 public:
  explicit RList(std::initializer_list<const char*> names) {
    list_ = callR([&] {
      SEXP out = PROTECT(Rf_allocVector(VECSXP, static_cast<R_xlen_t>(names.size())));
      SEXP words = Rf_allocVector(STRSXP, static_cast<R_xlen_t>(names.size()));
      Rf_setAttrib(out, R_NamesSymbol, words);
      R_xlen_t i = 0;
      for (const char* name : names) SET_STRING_ELT(words, i++, Rf_mkChar(name));
      R_PreserveObject(out);
      UNPROTECT(1);
      return out;
    });
  }
  ~RList() { R_ReleaseObject(list_); }
  RList(const RList&) = delete;
  RList& operator=(const RList&) = delete;
  void set(R_xlen_t i, SEXP value) { SET_VECTOR_ELT(list_, i, value); }
  SEXP get() const { return list_; }

 private:
  SEXP list_;
};

inline std::string string_of(SEXP value, R_xlen_t i = 0) {
  const char* text = nullptr;
  callR([&]() -> SEXP {
    text = Rf_translateCharUTF8(STRING_ELT(value, i));
    return R_NilValue;
  });
  return text;
}

/* R's indices, from 1, as C++'s. */
inline std::vector<std::uint64_t> indices_of(SEXP value) {
  std::vector<std::uint64_t> out;
  const R_xlen_t size = XLENGTH(value);
  out.reserve(static_cast<std::size_t>(size));
  for (R_xlen_t i = 0; i < size; ++i) {
    out.push_back(static_cast<std::uint64_t>(
        (TYPEOF(value) == INTSXP ? INTEGER(value)[i] : REAL(value)[i]) - 1));
  }
  return out;
}

/* A dataset as R code has it: path, name, plane, and the shape that it had when it was opened. */
struct Source {
  std::string path, name;
  std::vector<std::uint64_t> plane;
  Shape shape;
};

/* list(extents, chunk, type) */
inline Shape shape_of(SEXP value) {
  const auto numbers = [](SEXP from) {
    return std::vector<std::uint64_t>(REAL(from), REAL(from) + XLENGTH(from));
  };
  return Shape{numbers(VECTOR_ELT(value, 0)), numbers(VECTOR_ELT(value, 1)), string_of(VECTOR_ELT(value, 2))};
}

inline Source source_of(SEXP value) {
  return Source{string_of(VECTOR_ELT(value, 0)), string_of(VECTOR_ELT(value, 1)), indices_of(VECTOR_ELT(value, 2)),
                shape_of(VECTOR_ELT(value, 3))};
}

inline Selection selection_of(SEXP value, std::uint64_t extent) {
  Selection chosen;
  chosen.all = value == R_NilValue;
  if (chosen.all) return chosen;
  chosen.index = indices_of(value);
  for (std::uint64_t index : chosen.index) {
    if (index >= extent) throw std::logic_error("an index is outside of the matrix");
  }
  return chosen;
}

inline std::uint64_t checked_size(std::uint64_t a, std::uint64_t b) {
  std::uint64_t size;
  if (__builtin_mul_overflow(a, b, &size) || size > static_cast<std::uint64_t>(R_XLEN_T_MAX)) {
    throw std::runtime_error(std::to_string(a) + " x " + std::to_string(b) +
                             " elements are more than a vector of R can have");
  }
  return size;
}

inline unsigned threads_of(SEXP value) {
  const int threads = INTEGER(value)[0];
  return threads <= 1 ? 1U : static_cast<unsigned>(threads);
}

inline SEXP r_failure(const Failure& failure) {
  RList list({"message", "path", "name", "chunk", "filter", "advice"});
  list.set(0, r_string(failure.what()));
  list.set(1, r_string(failure.path));
  list.set(2, r_string(failure.name));
  list.set(3, r_string(failure.chunk));
  list.set(4, r_string(failure.filter));
  list.set(5, r_string(failure.advice));
  return callR([&] {
    SEXP word = PROTECT(Rf_mkString("h5_failure"));
    Rf_setAttrib(list.get(), R_ClassSymbol, word);
    UNPROTECT(1);
    return list.get();
  });
}

/* The body of an entry: no exception leaves it. One about a file comes back as a value, all others
   are R errors. */
template <class Body>
SEXP guarded(Body&& body) {
  return entry([&]() -> SEXP {
    try {
      return body();
    } catch (const Failure& failure) {
      return r_failure(failure);
    }
  });
}

}  // namespace h5
}  // namespace regatta

#endif
