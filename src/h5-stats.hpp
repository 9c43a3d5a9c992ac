#ifndef REGATTA_H5_STATS_HPP
#define REGATTA_H5_STATS_HPP

#include <cstdint>
#include <string>
#include <vector>

#include "h5-matrix.hpp"
#include "h5-totals.hpp"

namespace regatta {
namespace h5 {

/* To which group each index of an axis belongs, -1 to none. Empty: all to the one group 0. With `times`, there is one
   result for all groups together, for which the indices of each count so often. */
struct Groups {
  std::vector<int> of;
  unsigned count;
  std::vector<std::int64_t> times;
};

/* Statistics of each index of an axis, for each group of the other one: index first. */
struct Results {
  std::vector<double> sum, mean, var, low, high, nonzero, median, count, missing;
  bool rounded = false;
};

struct Limits {
  unsigned threads;
  double memory; /* bytes */
  bool progress;
};

/* In one pass: statistics of each fast index over the slow ones, of each slow index over the fast
   ones, or both; a null pointer is not wanted. Returns how many threads could take part. */
unsigned reduce(const Matrix& matrix, const Groups& slow, const Groups& fast, const Wanted& wanted,
                const Limits& limits, Results* of_fast, Results* of_slow);

/* `other`: the groups of the axis that was reduced. */
template <class Class>
void finish(const Totals<Class>& totals, const Groups& other, const Wanted& wanted, Results* results) {
  const std::size_t cells = totals.count.size();
  if (!other.times.empty()) {
    const std::size_t each = cells / other.count;
    Totals<Class> all;
    all.begin(each, wanted);
    for (std::size_t k = 0; k < cells; ++k) all.merge(k % each, totals, k, wanted, other.times[k / each]);
    return finish(all, Groups{{}, 1, {}}, wanted, results);
  }
  results->rounded = false;
  bool* const rounded = &results->rounded;
  const auto column = [&](std::vector<double>* to, auto value) {
    to->resize(cells);
    for (std::size_t k = 0; k < cells; ++k) (*to)[k] = value(k);
  };
  column(&results->count, [&](std::size_t k) { return static_cast<double>(totals.count[k]); });
  column(&results->missing, [&](std::size_t k) { return static_cast<double>(totals.missing[k]); });
  if (wanted.sum) {
    column(&results->sum, [&](std::size_t k) { return totals.to_double(totals.sum[k], rounded); });
    column(&results->mean, [&](std::size_t k) { return totals.mean_of(k); });
  }
  if (wanted.var) column(&results->var, [&](std::size_t k) { return totals.var_of(k); });
  if (wanted.range) {
    const double infinite = std::numeric_limits<double>::infinity();
    column(&results->low, [&](std::size_t k) {
      return totals.count[k] == 0 ? infinite : totals.to_double(totals.low[k], rounded);
    });
    column(&results->high, [&](std::size_t k) {
      return totals.count[k] == 0 ? -infinite : totals.to_double(totals.high[k], rounded);
    });
  }
  if (wanted.nonzero) {
    column(&results->nonzero, [&](std::size_t k) { return static_cast<double>(totals.nonzero[k]); });
  }
}

}  // namespace h5
}  // namespace regatta

#endif
