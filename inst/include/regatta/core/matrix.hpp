#ifndef REGATTA_CORE_MATRIX_HPP
#define REGATTA_CORE_MATRIX_HPP

#include <iterator>
#include <type_traits>

#include "config.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// Every `stride`-th element from `at` on.
template <class T>
class StrideIterator {
 public:
  using iterator_category = std::random_access_iterator_tag;
  using value_type = typename std::remove_const<T>::type;
  using difference_type = std::ptrdiff_t;
  using pointer = T*;
  using reference = T&;

  StrideIterator() {}
  StrideIterator(T* at, difference_type stride, difference_type place)
      : at_(at), stride_(stride), place_(place) {}

  reference operator*() const { return at_[place_ * stride_]; }
  pointer operator->() const { return &**this; }
  reference operator[](difference_type n) const { return at_[(place_ + n) * stride_]; }

  StrideIterator& operator+=(difference_type n) {
    place_ += n;
    return *this;
  }
  StrideIterator& operator-=(difference_type n) { return *this += -n; }
  StrideIterator& operator++() { return *this += 1; }
  StrideIterator& operator--() { return *this += -1; }
  StrideIterator operator++(int) { return ++*this - 1; }
  StrideIterator operator--(int) { return --*this + 1; }

  friend StrideIterator operator+(StrideIterator i, difference_type n) { return i += n; }
  friend StrideIterator operator+(difference_type n, StrideIterator i) { return i += n; }
  friend StrideIterator operator-(StrideIterator i, difference_type n) { return i -= n; }
  friend difference_type operator-(const StrideIterator& a, const StrideIterator& b) {
    return a.place_ - b.place_;
  }
  friend bool operator==(const StrideIterator& a, const StrideIterator& b) {
    return a.place_ == b.place_;
  }
  friend bool operator!=(const StrideIterator& a, const StrideIterator& b) { return !(a == b); }
  friend bool operator<(const StrideIterator& a, const StrideIterator& b) { return b - a > 0; }
  friend bool operator>(const StrideIterator& a, const StrideIterator& b) { return b < a; }
  friend bool operator<=(const StrideIterator& a, const StrideIterator& b) { return !(b < a); }
  friend bool operator>=(const StrideIterator& a, const StrideIterator& b) { return !(a < b); }

 private:
  T* at_ = nullptr;
  difference_type stride_ = 1;
  difference_type place_ = 0;
};

// What a view of an R object (or of a matrix class of Rcpp and others) starts from: specialised
// for SEXP in r/views.hpp.
template <class T, class Source>
struct Access {
  static T* data(const Source& source) { return const_cast<Source&>(source).begin(); }
  static std::size_t length(const Source& source) {
    return static_cast<std::size_t>(source.size());
  }
  static std::size_t nrow(const Source& source) { return static_cast<std::size_t>(source.nrow()); }
  static std::size_t ncol(const Source& source) { return static_cast<std::size_t>(source.ncol()); }
};

}  // namespace detail

// A vector in memory that something else owns and keeps alive. Any thread may use it: unlike the
// object it was made from it never calls R.
template <class T>
class RVector {
 public:
  using iterator = T*;
  using const_iterator = const T*;

  template <class Source>
  explicit RVector(const Source& source)
      : data_(detail::Access<T, Source>::data(source)),
        length_(detail::Access<T, Source>::length(source)) {}
  RVector(T* data, std::size_t length) : data_(data), length_(length) {}

  iterator begin() { return data_; }
  iterator end() { return data_ + length_; }
  const_iterator begin() const { return data_; }
  const_iterator end() const { return data_ + length_; }
  std::size_t length() const { return length_; }
  std::size_t size() const { return length_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }

 protected:
  T* data_;

 private:
  std::size_t length_;
};

// A matrix stored by columns; as a vector, all of its elements.
template <class T>
class RMatrix : public RVector<T> {
 public:
  class Row {
   public:
    using iterator = detail::StrideIterator<T>;
    using const_iterator = detail::StrideIterator<const T>;

    Row(const RMatrix& parent, std::size_t i)
        : start_(parent.data_ + i), stride_(parent.nrow_), length_(parent.ncol_) {}

    iterator begin() { return iterator(start_, step(), 0); }
    iterator end() { return begin() + size_step(); }
    const_iterator begin() const { return const_iterator(start_, step(), 0); }
    const_iterator end() const { return begin() + size_step(); }
    std::size_t length() const { return length_; }
    std::size_t size() const { return length_; }
    T& operator[](std::size_t i) { return start_[i * stride_]; }
    const T& operator[](std::size_t i) const { return start_[i * stride_]; }

   private:
    std::ptrdiff_t step() const { return static_cast<std::ptrdiff_t>(stride_); }
    std::ptrdiff_t size_step() const { return static_cast<std::ptrdiff_t>(length_); }

    T* start_;
    std::size_t stride_;
    std::size_t length_;
  };

  class Column : public RVector<T> {
   public:
    Column(const RMatrix& parent, std::size_t i)
        : RVector<T>(parent.data_ + i * parent.nrow_, parent.nrow_) {}
  };

  template <class Source>
  explicit RMatrix(const Source& source)
      : RMatrix(detail::Access<T, Source>::data(source), detail::Access<T, Source>::nrow(source),
                detail::Access<T, Source>::ncol(source)) {}
  RMatrix(T* data, std::size_t nrow, std::size_t ncol)
      : RVector<T>(data, nrow * ncol), nrow_(nrow), ncol_(ncol) {}

  std::size_t nrow() const { return nrow_; }
  std::size_t ncol() const { return ncol_; }

  T& operator()(std::size_t i, std::size_t j) { return this->data_[i + j * nrow_]; }
  const T& operator()(std::size_t i, std::size_t j) const { return this->data_[i + j * nrow_]; }

  Row row(std::size_t i) { return Row(*this, i); }
  const Row row(std::size_t i) const { return Row(*this, i); }
  Column column(std::size_t j) { return Column(*this, j); }
  const Column column(std::size_t j) const { return Column(*this, j); }

 private:
  std::size_t nrow_;
  std::size_t ncol_;
};

REGATTA_NAMESPACE_END

#endif
