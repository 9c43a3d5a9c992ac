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
   32 bits in 64, as no axis has 2^31 elements of 32 bits or more; those of 64 bits in 128. Doubles are added up in
   the numbers that R takes for it, which have more bits and more range where the compiler has them. */
struct Narrow {
  typedef std::int64_t Value, Sum;
};
struct Wide {
  typedef Int128 Value, Sum;
};
struct Real {
  typedef double Value;
  typedef long double Sum;
};

template <class T>
using ClassOf = typename std::conditional<
    Number<T>::narrow, Narrow, typename std::conditional<Number<T>::wide, Wide, Real>::type>::type;

template <class Class>
struct Totals {
  typedef typename Class::Value Value;
  typedef typename Class::Sum Sum;
  static const bool narrow = std::is_same<Class, Narrow>::value;

  std::vector<std::int64_t> count;   /* elements that are not missing */
  std::vector<std::int64_t> missing;
  std::vector<Sum> sum;
  std::vector<Uint128> square;       /* narrow: the sum of squares, exact */
  /* Others: `near + off` is the mean, `spread` the sum of squared distances from it. The distances of elements are
     taken from `near`, a double close to the mean: the mean itself need not be a double. */
  std::vector<double> near;
  std::vector<long double> off, spread;
  std::vector<Value> low, high;
  std::vector<std::int64_t> nonzero;

  void begin(std::size_t cells, const Wanted& wanted) {
    count.assign(cells, 0);
    missing.assign(cells, 0);
    if (wanted.sum || wanted.var) sum.assign(cells, Sum(0));
    if (wanted.var && narrow) square.assign(cells, 0);
    if (wanted.var && !narrow) {
      near.assign(cells, 0.0);
      off.assign(cells, 0.0L);
      spread.assign(cells, 0.0L);
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

  /* Takes cell `k` of a part into cell `at` of the whole, as if its elements came so many `times`. */
  void merge(std::size_t at, const Totals& part, std::size_t k, const Wanted& wanted, std::int64_t times = 1) {
    const std::int64_t before = count[at], more = times * part.count[k];
    count[at] += more;
    missing[at] += times * part.missing[k];
    if (wanted.sum || wanted.var) sum[at] += static_cast<Sum>(times) * part.sum[k];
    if (wanted.var && narrow) square[at] += static_cast<Uint128>(times) * part.square[k];
    if (wanted.var && !narrow && more > 0) merge_spread(at, part, k, before, more, times);
    if (wanted.range) {
      low[at] = std::min(low[at], part.low[k]);
      high[at] = std::max(high[at], part.high[k]);
    }
    if (wanted.nonzero) nonzero[at] += times * part.nonzero[k];
  }

  /* Chan, Golub and LeVeque (1983), "Algorithms for computing the sample variance". */
  void merge_spread(std::size_t at, const Totals& part, std::size_t k, std::int64_t before, std::int64_t more,
                    std::int64_t times) {
    const long double added = static_cast<long double>(times) * part.spread[k];
    if (before == 0) {
      near[at] = part.near[k];
      off[at] = part.off[k];
      spread[at] = added;
      return;
    }
    const long double n = static_cast<long double>(before), m = static_cast<long double>(more);
    const long double apart = (static_cast<long double>(part.near[k]) - near[at]) + (part.off[k] - off[at]);
    off[at] += apart * (m / (n + m));
    spread[at] += added + apart * apart * (n * (m / (n + m)));
  }

  /* Cell `k` of a part, of the distances of its elements from `near` and of their squares; the correction is that of
     the two-pass algorithm there. */
  void settle(std::size_t k, double distances, double squares) {
    if (count[k] == 0) return;
    const long double n = static_cast<long double>(count[k]);
    off[k] = distances / n;
    spread[k] = squares - distances * off[k];
    if (spread[k] < 0) spread[k] = 0;
  }

  /* Not the sum as a double, which may be infinite, divided. */
  double mean_of(std::size_t at) const {
    return static_cast<double>(static_cast<long double>(sum[at]) / static_cast<long double>(count[at]));
  }

  double var_of(std::size_t at) const {
    const std::int64_t n = count[at];
    if (n < 2) return std::numeric_limits<double>::quiet_NaN();
    if (!narrow) return static_cast<double>(spread[at] / static_cast<long double>(n - 1));
    /* Exact: distances from a whole number near the mean. Both sums are below 2^127, whatever wraps on the way. */
    const Int128 s = static_cast<Int128>(sum[at]), middle = s / n;
    const Uint128 by = static_cast<Uint128>(middle), all = static_cast<Uint128>(n);
    const Uint128 squares = static_cast<Uint128>(square[at]) - 2 * by * static_cast<Uint128>(s) + all * by * by;
    const long double distances = static_cast<long double>(s - middle * n);
    const long double about = distances * distances / static_cast<long double>(n);
    return static_cast<double>((static_cast<long double>(squares) - about) / static_cast<long double>(n - 1));
  }

  static double to_double(double x, bool*) { return x; }
  static double to_double(long double x, bool*) { return static_cast<double>(x); }
  template <class Whole>
  static double to_double(Whole x, bool* rounded) {
    const double near = static_cast<double>(x);
    if ((near <= -most_exact || near >= most_exact) && static_cast<Int128>(near) != static_cast<Int128>(x)) {
      *rounded = true;
    }
    return near;
  }
};

}  // namespace h5
}  // namespace regatta

#endif
