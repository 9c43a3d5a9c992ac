#ifndef REGATTA_H5_TOTALS_HPP
#define REGATTA_H5_TOTALS_HPP

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "h5-number.hpp"

/* Running statistics of many results at once ("cells"): of a tile, and of all tiles so far. */

namespace regatta {
namespace h5 {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;

/* What is asked for. */
struct Wanted {
  bool sum, var, range, nonzero;
};

/* Three classes of elements by how they are added up. Sums of whole numbers are exact: those of up to
   32 bits in 64, as no axis has 2^31 elements of 32 bits or more; those of 64 bits in 128. */
struct Narrow {
  typedef std::int64_t Value;
};
struct Wide {
  typedef Int128 Value;
};
struct Real {
  typedef double Value;
};

template <class T>
using ClassOf = typename std::conditional<
    Number<T>::narrow, Narrow, typename std::conditional<Number<T>::wide, Wide, Real>::type>::type;

template <class Class>
struct Totals {
  typedef typename Class::Value Value;
  static const bool narrow = std::is_same<Class, Narrow>::value;
  static const bool real = std::is_same<Class, Real>::value;

  std::vector<std::int64_t> count;   /* elements that are not missing */
  std::vector<std::int64_t> missing;
  std::vector<Value> sum;
  std::vector<double> lost;          /* what the sums of doubles have rounded away */
  std::vector<Uint128> square;       /* narrow: the sum of squares, exact */
  std::vector<double> mean, spread;  /* others: mean, and sum of squared distances from it */
  std::vector<Value> low, high;
  std::vector<std::int64_t> nonzero;

  void begin(std::size_t cells, const Wanted& wanted) {
    count.assign(cells, 0);
    missing.assign(cells, 0);
    if (wanted.sum || wanted.var) sum.assign(cells, Value(0));
    if (wanted.sum && real) lost.assign(cells, 0.0);
    if (wanted.var && narrow) square.assign(cells, 0);
    if (wanted.var && !narrow) {
      mean.assign(cells, 0.0);
      spread.assign(cells, 0.0);
    }
    if (wanted.range) {
      low.assign(cells, most());
      high.assign(cells, least());
    }
    if (wanted.nonzero) nonzero.assign(cells, 0);
  }

  static Value most() { return limit(true, Value()); }
  static Value least() { return limit(false, Value()); }
  static double limit(bool up, double) {
    const double infinite = std::numeric_limits<double>::infinity();
    return up ? infinite : -infinite;
  }
  static std::int64_t limit(bool up, std::int64_t) {
    return up ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min();
  }
  static Int128 limit(bool up, Int128) {
    const Int128 high = static_cast<Int128>(~Uint128(0) >> 1);
    return up ? high : -high - 1;
  }

  /* Takes cell `k` of a part into cell `at` of the whole. */
  void merge(std::size_t at, const Totals& part, std::size_t k, const Wanted& wanted) {
    const std::int64_t before = count[at], more = part.count[k];
    count[at] += more;
    missing[at] += part.missing[k];
    if (wanted.sum || wanted.var) add(at, part.sum[k], wanted);
    if (wanted.var && narrow) square[at] += part.square[k];
    if (wanted.var && !narrow && more > 0) {
      /* Chan, Golub and LeVeque (1983). */
      const double n = static_cast<double>(before), m = static_cast<double>(more);
      const double apart = part.mean[k] - mean[at];
      mean[at] += apart * (m / (n + m));
      spread[at] += part.spread[k] + apart * apart * (n * m / (n + m));
    }
    if (wanted.range) {
      low[at] = std::min(low[at], part.low[k]);
      high[at] = std::max(high[at], part.high[k]);
    }
    if (wanted.nonzero) nonzero[at] += part.nonzero[k];
  }

  void add(std::size_t at, Value value, const Wanted& wanted) {
    add(at, value, wanted, std::integral_constant<bool, real>());
  }
  void add(std::size_t at, Value value, const Wanted&, std::false_type) { sum[at] += value; }
  void add(std::size_t at, double value, const Wanted& wanted, std::true_type) {
    const double now = sum[at], next = now + value;
    /* Neumaier (1974): what the addition has rounded away is kept aside. */
    if (wanted.sum && std::isfinite(next)) {
      lost[at] += std::fabs(now) >= std::fabs(value) ? (now - next) + value : (value - next) + now;
    }
    sum[at] = next;
  }

  double sum_of(std::size_t at, bool* rounded) const {
    return to_double(sum[at], rounded) + (real && !lost.empty() ? lost[at] : 0.0);
  }

  double var_of(std::size_t at) const {
    const std::int64_t n = count[at];
    if (n < 2) return std::numeric_limits<double>::quiet_NaN();
    const double below = static_cast<double>(n - 1);
    if (!narrow) return spread[at] / below;
    const Int128 s = static_cast<Int128>(sum[at]);
    const Uint128 least_sum = static_cast<Uint128>(s < 0 ? -s : s);
    if (n >= (std::int64_t(1) << 31)) {
      const long double mean_ = static_cast<long double>(s) / static_cast<long double>(n);
      return static_cast<double>((static_cast<long double>(square[at]) - mean_ * static_cast<long double>(s)) /
                                 static_cast<long double>(n - 1));
    }
    /* Exact: fewer than 2^31 numbers below 2^32 in size. */
    const Uint128 numerator = static_cast<Uint128>(n) * square[at] - least_sum * least_sum;
    return static_cast<double>(static_cast<long double>(numerator) / static_cast<long double>(n) /
                               static_cast<long double>(n - 1));
  }

  static double to_double(double x, bool*) { return x; }
  template <class Whole>
  static double to_double(Whole x, bool* rounded) {
    const double near = static_cast<double>(x);
    const double limit = 9007199254740992.0;
    if ((near < -limit || near > limit) &&
        static_cast<Int128>(near) != static_cast<Int128>(x)) {
      *rounded = true;
    }
    return near;
  }
};

}  // namespace h5
}  // namespace regatta

#endif
