#ifndef THREADSTATS_KENDALL_H
#define THREADSTATS_KENDALL_H

// Kendall's tau-b by the algorithm of W. R. Knight, "A Computer Method for Calculating Kendall's
// Tau with Ungrouped Data", JASA 61 (1966), 436-439: order the pairs by x, then count the
// exchanges that a merge sort of y makes. Sorting x is done once per column and kept, because
// a column meets every other column of the matrix.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace threadstats {

struct Run {
  int begin;
  int end;
};

// The rows of a column in ascending order of its values, and its runs of two or more equal values.
struct ColumnOrder {
  std::vector<int> rows;
  std::vector<Run> ties;
  std::int64_t tied_pairs = 0;
  bool has_nan = false;
};

inline std::int64_t pairs_among(std::int64_t n) { return n * (n - 1) / 2; }

// Calls found(begin, end) for each run of at least two equal values in the sorted values[0..n).
template <class Value, class Found>
void each_tie(int n, const Value& value, const Found& found) {
  for (int begin = 0, end; begin < n; begin = end) {
    end = begin + 1;
    while (end < n && value(end) == value(begin)) ++end;
    if (end - begin > 1) found(begin, end);
  }
}

inline ColumnOrder order_column(const double* x, int n) {
  ColumnOrder column;
  // NaN has no place in a strict weak order, so it must be found before std::sort sees it.
  column.has_nan = std::any_of(x, x + n, [](double value) { return std::isnan(value); });
  if (column.has_nan) return column;

  std::vector<std::pair<double, int>> keyed(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) keyed[static_cast<std::size_t>(i)] = {x[i], i};
  std::sort(keyed.begin(), keyed.end());

  column.rows.reserve(keyed.size());
  for (const auto& entry : keyed) column.rows.push_back(entry.second);
  each_tie(
      n, [&keyed](int i) { return keyed[static_cast<std::size_t>(i)].first; },
      [&column](int begin, int end) {
        column.ties.push_back(Run{begin, end});
        column.tied_pairs += pairs_among(end - begin);
      });
  return column;
}

// Sorts values[begin..end) by insertion and returns the number of inversions it had.
inline std::int64_t insertion_sort_count(double* values, int begin, int end) {
  std::int64_t inversions = 0;
  for (int i = begin + 1; i < end; ++i) {
    const double moving = values[i];
    int j = i;
    for (; j > begin && moving < values[j - 1]; --j) values[j] = values[j - 1];
    values[j] = moving;
    inversions += i - j;
  }
  return inversions;
}

// Merges the sorted from[begin..middle) and from[middle..end) into `to` and returns how many pairs
// changed places. The choice is written as arithmetic because on random data a branch here is
// mispredicted every other time, which costs more than the rest of the loop.
inline std::int64_t merge_count(const double* from, double* to, int begin, int middle, int end) {
  std::int64_t inversions = 0;
  int left = begin, right = middle, out = begin;
  while (left < middle && right < end) {
    const double a = from[left], b = from[right];
    const int take_right = b < a;
    to[out++] = take_right ? b : a;
    inversions += take_right * (middle - left);
    right += take_right;
    left += 1 - take_right;
  }
  std::copy(from + left, from + middle, to + out);
  std::copy(from + right, from + end, to + out + (middle - left));
  return inversions;
}

// Sorts values[0..n) with the help of scratch[0..n); `sorted` is left pointing at the one of the
// two that holds the result. Returns the number of inversions.
inline std::int64_t sort_count(double* values, double* scratch, int n, const double** sorted) {
  const int block = 8;
  std::int64_t inversions = 0;
  for (int begin = 0; begin < n; begin += block) {
    inversions += insertion_sort_count(values, begin, std::min(n, begin + block));
  }
  // 64 bits, since a width that doubles and is added to a position can pass 2^31.
  for (std::int64_t width = block; width < n; width *= 2) {
    for (std::int64_t begin = 0; begin < n; begin += 2 * width) {
      const std::int64_t middle = std::min<std::int64_t>(n, begin + width);
      const std::int64_t end = std::min<std::int64_t>(n, begin + 2 * width);
      inversions += merge_count(values, scratch, static_cast<int>(begin),
                                static_cast<int>(middle), static_cast<int>(end));
    }
    std::swap(values, scratch);
  }
  *sorted = values;
  return inversions;
}

// The tau-b of an ordered column with the column y[0..n), NaN where it is not defined (a missing
// value, or all values of a column equal). `scratch` has room for 2 n values.
inline double kendall_tau(const ColumnOrder& x, const double* y, int n, double* scratch) {
  const double undefined = std::numeric_limits<double>::quiet_NaN();
  if (x.has_nan) return undefined;
  for (int i = 0; i < n; ++i) {
    scratch[i] = y[x.rows[static_cast<std::size_t>(i)]];
    if (std::isnan(scratch[i])) return undefined;
  }

  // Pairs tied in x are neither concordant nor discordant: with y ascending inside each run of
  // equal x, none of them counts as an exchange.
  std::int64_t tied_both = 0;
  for (const Run& run : x.ties) {
    double* y_run = scratch + run.begin;
    std::sort(y_run, scratch + run.end);
    each_tie(
        run.end - run.begin, [y_run](int i) { return y_run[i]; },
        [&tied_both](int begin, int end) { tied_both += pairs_among(end - begin); });
  }

  const double* sorted = nullptr;
  const std::int64_t discordant = sort_count(scratch, scratch + n, n, &sorted);
  std::int64_t tied_y = 0;
  each_tie(
      n, [sorted](int i) { return sorted[i]; },
      [&tied_y](int begin, int end) { tied_y += pairs_among(end - begin); });

  const std::int64_t all = pairs_among(n);
  if (x.tied_pairs == all || tied_y == all) return undefined;
  const std::int64_t balance = all - x.tied_pairs - tied_y + tied_both - 2 * discordant;
  const double untied_x = static_cast<double>(all - x.tied_pairs);
  const double untied_y = static_cast<double>(all - tied_y);
  // Without the first case, rounding would keep two equal orders from being exactly 1.
  return static_cast<double>(balance) /
         (untied_x == untied_y ? untied_x : std::sqrt(untied_x) * std::sqrt(untied_y));
}

// The pair (row, column), row < column, that stands at place k when the upper triangle of a matrix
// with `size` columns is read by rows. Solves for the row in floating point, then corrects the
// rounding in whole numbers.
inline std::pair<int, int> pair_at(std::int64_t k, int size) {
  const auto before = [size](std::int64_t row) {
    return row * size - row * (row + 1) / 2;
  };
  const double edge = 2.0 * size - 1.0;
  std::int64_t row = static_cast<std::int64_t>(
      (edge - std::sqrt(edge * edge - 8.0 * static_cast<double>(k))) / 2.0);
  while (row > 0 && before(row) > k) --row;
  while (before(row + 1) <= k) ++row;
  return {static_cast<int>(row), static_cast<int>(k - before(row) + row + 1)};
}

}  // namespace threadstats

#endif
