#ifndef REGATTA_H5_NUMBER_HPP
#define REGATTA_H5_NUMBER_HPP

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "h5-dataset.hpp"

/* Elements of each type as C++ sees them, and as R does. */

namespace regatta {
namespace h5 {

/* A number of 16 bits as IEEE 754 lays it out. */
struct Half {
  std::uint16_t bits;
  operator double() const {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value;
    if (exponent == 31) {
      value = fraction ? std::numeric_limits<double>::quiet_NaN()
                       : std::numeric_limits<double>::infinity();
    } else if (exponent == 0) {
      value = std::ldexp(fraction, -24);
    } else {
      value = std::ldexp(fraction + 1024, exponent - 25);
    }
    return bits & 0x8000 ? -value : value;
  }
};

template <class T>
struct Number {
  /* Whole numbers of up to 32 bits: their sums are exact in 64. */
  static const bool narrow = std::numeric_limits<T>::is_integer && sizeof(T) <= 4;
  static const bool wide = std::numeric_limits<T>::is_integer && sizeof(T) == 8;
  static const bool real = !std::numeric_limits<T>::is_integer;
};

/* R's missing integer is a value of this type, and files that R writes contain it. */
template <class T>
inline bool is_missing(T) {
  return false;
}
template <>
inline bool is_missing(std::int32_t x) {
  return x == std::numeric_limits<std::int32_t>::min();
}
template <>
inline bool is_missing(Half x) {
  return (x.bits & 0x7fff) > 0x7c00;
}
template <>
inline bool is_missing(float x) {
  return x != x;
}
template <>
inline bool is_missing(double x) {
  return x != x;
}

/* R's missing number: a NaN that R tells from others by its lower half. */
inline double missing_double() {
  const std::uint64_t bits = 0x7ff00000000007a2;
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/* Above 2^53 not every whole number is a double. */
const double most_exact = 9007199254740992.0;

template <class T>
inline bool loses(T x, std::true_type) {
  const double near = static_cast<double>(x);
  /* That number itself may have come from its neighbour. */
  if (near > -most_exact && near < most_exact) return false;
  /* 2^63 and 2^64 themselves are outside of the types, and come from numbers just below. */
  if (near >= (std::numeric_limits<T>::is_signed ? 9223372036854775808.0 : 18446744073709551616.0)) {
    return true;
  }
  return static_cast<T>(near) != x;
}
template <class T>
inline bool loses(T, std::false_type) {
  return false;
}

/* Whether x is another number as a double. */
template <class T>
inline bool is_rounded(T x) {
  return loses(x, std::integral_constant<bool, Number<T>::wide>());
}

/* Holds all whole numbers of 64 bits where it is more than a double. */
template <class T>
inline long double to_long_double(T x) {
  return static_cast<long double>(x);
}

/* How far x is from a double near it, also where x is none. */
template <class T>
inline double distance_from(double near, T x) {
  return Number<T>::wide ? static_cast<double>(to_long_double(x) - near) : static_cast<double>(x) - near;
}

template <class T>
inline T element_at(const unsigned char* data, std::size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

/* Calls f with a value of the C++ type of the elements, of the types that datasets are written in. */
template <class F>
auto with_written_type(Type type, F&& f) -> decltype(f(double())) {
  switch (type) {
    case Type::i8: return f(std::int8_t());
    case Type::u8: return f(std::uint8_t());
    case Type::i16: return f(std::int16_t());
    case Type::u16: return f(std::uint16_t());
    case Type::i32: return f(std::int32_t());
    case Type::u32: return f(std::uint32_t());
    case Type::f32: return f(float());
    default: return f(double());
  }
}

/* The same for all types. */
template <class F>
auto with_type(Type type, F&& f) -> decltype(f(double())) {
  switch (type) {
    case Type::i64: return f(std::int64_t());
    case Type::u64: return f(std::uint64_t());
    case Type::f16: return f(Half());
    default: return with_written_type(type, f);
  }
}

}  // namespace h5
}  // namespace regatta

#endif
