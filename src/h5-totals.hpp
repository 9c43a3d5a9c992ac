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
  /* Others: `near + off` is the mean, `spread` the sum of squared distances from it. The distances of elements are
     taken from `near`, a double close to the mean: the mean itself need not be a double. In a range of exponents
     that squares of doubles fit into, where the compiler has one. */
  std::vector<double> near;
  std::vector<long double> off, spread;
  std::vector<Value> low, high;
  std::vector<std::int64_t> nonzero;

  void begin(std::size_t cells, const Wanted& wanted) {
    count.assign(cells, 0);
    missing.assign(cells, 0);
    if (wanted.sum || wanted.var) sum.assign(cells, Value(0));
    if (wanted.sum && real) lost.assign(cells, 0.0);
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

  /* Takes cell `k` of a part into cell `at` of the whole. */
  void merge(std::size_t at, const Totals& part, std::size_t k, const Wanted& wanted) {
    const std::int64_t before = count[at], more = part.count[k];
    count[at] += more;
    missing[at] += part.missing[k];
    if (wanted.sum || wanted.var) add(at, part.sum[k], wanted);
    if (wanted.var && narrow) square[at] += part.square[k];
    if (wanted.var && !narrow && more > 0) merge_spread(at, part, k, before, more);
    if (wanted.range) {
      low[at] = std::min(low[at], part.low[k]);
      high[at] = std::max(high[at], part.high[k]);
    }
    if (wanted.nonzero) nonzero[at] += part.nonzero[k];
  }

  /* Chan, Golub and LeVeque (1983), "Algorithms for computing the sample variance". */
  void merge_spread(std::size_t at, const Totals& part, std::size_t k, std::int64_t before, std::int64_t more) {
    if (before == 0) {
      near[at] = part.near[k];
      off[at] = part.off[k];
      spread[at] = part.spread[k];
      return;
    }
    const long double n = static_cast<long double>(before), m = static_cast<long double>(more);
    const long double apart = (static_cast<long double>(part.near[k]) - near[at]) + (part.off[k] - off[at]);
    off[at] += apart * (m / (n + m));
    spread[at] += part.spread[k] + apart * apart * (n * (m / (n + m)));
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
