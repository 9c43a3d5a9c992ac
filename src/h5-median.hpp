#ifndef REGATTA_H5_MEDIAN_HPP
#define REGATTA_H5_MEDIAN_HPP

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "h5-number.hpp"
#include "h5-stats.hpp"

/* Medians, which need all elements of a row or column at once. */

namespace regatta {
namespace h5 {

/* Adds medians to the results, and how many elements there are and are missing: of each fast index over the slow ones,
   of each slow index over the fast ones, or both; a null pointer is not wanted. Returns how many threads could take
   part. */
unsigned find_medians(const Matrix& matrix, const Groups& slow, const Groups& fast, const Limits& limits,
                      Results* of_fast, Results* of_slow);

/* How much of the memory goes to threads that read, each of which needs so many bytes, and how much to the elements
   that are held at once: at least half. */
struct Share {
  Share(const Limits& limits, double each)
      : threads(static_cast<unsigned>(std::max(1.0, std::min<double>(limits.threads, limits.memory / 2 / each)))),
        held(std::max(limits.memory / 2, limits.memory - threads * each)) {}
  unsigned threads;
  double held;
};

/* Elements as they are held: as numbers that can be compared. */
template <class T>
struct Held {
  typedef T Value;
};
template <>
struct Held<Half> {
  typedef float Value;
};
template <class T>
inline typename Held<T>::Value held(T x) {
  return x;
}
inline float held(Half x) { return static_cast<float>(static_cast<double>(x)); }

/* The two in the middle; of an odd number that one twice. */
template <class Value>
struct Middle {
  Value low, high;
};

/* Those of `count` values and of so many zeros, together at least one. Changes the order of the values. */
template <class Value>
Middle<Value> middle_of(Value* values, std::size_t count, std::uint64_t zeros) {
  const std::uint64_t all = count + zeros, low = (all - 1) / 2, high = all / 2;
  std::uint64_t below = count; /* this many come before the zeros */
  if (zeros > 0) {
    below = static_cast<std::uint64_t>(std::partition(values, values + count, [](Value x) { return x < Value(0); }) -
                                       values);
  }
  const auto is_zero = [&](std::uint64_t rank) { return rank >= below && rank - below < zeros; };
  Middle<Value> middle = {Value(0), Value(0)};
  if (!is_zero(high)) {
    Value* const at = values + (high < below ? high : high - zeros);
    std::nth_element(high < below ? values : values + below, at, high < below ? values + below : values + count);
    middle.low = middle.high = *at;
  }
  if (low == high) return middle;
  /* The one before is the largest of those on its side of the zeros that are before the higher one by now. */
  if (is_zero(low)) {
    middle.low = Value(0);
  } else if (low < below) {
    middle.low = *std::max_element(values, values + std::min(high, below));
  } else {
    middle.low = *std::max_element(values + below, values + (high - zeros));
  }
  return middle;
}

/* A value, and how often it counts. */
template <class Value>
using Counted = std::pair<Value, std::int64_t>;

/* Those of values that count several times, and of so many zeros. */
template <class Value>
Middle<Value> middle_of(std::vector<Counted<Value>>& values, std::int64_t zeros) {
  if (zeros > 0) values.emplace_back(Value(0), zeros);
  std::sort(values.begin(), values.end());
  std::int64_t all = 0, so_far = 0;
  for (const Counted<Value>& one : values) all += one.second;
  Middle<Value> middle = {Value(0), Value(0)};
  for (const Counted<Value>& one : values) {
    const std::int64_t before = so_far;
    so_far += one.second;
    if (before <= (all - 1) / 2) middle.low = one.first;
    if (before <= all / 2) middle.high = one.first;
  }
  return middle;
}

/* Their mean, exact but for one rounding. */
template <class Value>
double mean_of(Middle<Value> middle, bool* rounded, std::true_type) {
  const Int128 sum = static_cast<Int128>(middle.low) + static_cast<Int128>(middle.high);
  const double near = static_cast<double>(sum), half = near / 2;
  if ((half <= -most_exact || half >= most_exact) && static_cast<Int128>(near) != sum) *rounded = true;
  return half;
}
/* As R's mean() has it: the second term is what the first has rounded away. */
template <class Value>
double mean_of(Middle<Value> middle, bool*, std::false_type) {
  const long double low = static_cast<long double>(middle.low), high = static_cast<long double>(middle.high);
  const long double mean = (low + high) / 2;
  if (!std::isfinite(static_cast<double>(mean))) return static_cast<double>(mean);
  return static_cast<double>(mean + ((low - mean) + (high - mean)) / 2);
}
template <class Value>
double median_of(Middle<Value> middle, bool* rounded) {
  return mean_of(middle, rounded, std::integral_constant<bool, std::numeric_limits<Value>::is_integer>());
}

const double no_median = std::numeric_limits<double>::quiet_NaN();

}  // namespace h5
}  // namespace regatta

#endif
