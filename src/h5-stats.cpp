#ifdef REGATTA_WITH_HDF5
#include "h5-stats.hpp"

#include <memory>

#include <regatta/core/local.hpp>
#include <regatta/core/progress.hpp>

#include "h5-ordered.hpp"

/* Statistics of lines and columns, tile by tile. A tile is decoded, its partial results are computed
   while it is in the cache, and these are merged in the order of the tiles. */

namespace regatta {
namespace h5 {

namespace {

/* Consecutive places that belong to one group. */
struct Run {
  std::size_t begin, end;
  std::size_t group;
};

/* What counts of one tile's stretch of an axis: positions in it by group, or all in order. */
struct Stretch {
  std::uint64_t tile;
  bool all;
  std::vector<std::uint32_t> local;
  std::vector<Run> runs;
  std::size_t size() const { return runs.empty() ? 0 : runs.back().end; }
  std::size_t at(std::size_t k) const { return all ? k : local[k]; }
};

std::vector<Stretch> cut(const Groups& groups, std::uint64_t extent, std::uint64_t tile) {
  std::vector<Stretch> stretches;
  for (std::uint64_t from = 0; from < extent; from += tile) {
    const std::size_t size = static_cast<std::size_t>(std::min(tile, extent - from));
    Stretch one;
    one.tile = from / tile;
    one.all = groups.of.empty();
    if (one.all) {
      one.runs.push_back(Run{0, size, 0});
      stretches.push_back(one);
      continue;
    }
    const int* const group = groups.of.data() + from;
    for (std::size_t k = 0; k < size; ++k) {
      if (group[k] >= 0) one.local.push_back(static_cast<std::uint32_t>(k));
    }
    if (one.local.empty()) continue;
    std::stable_sort(one.local.begin(), one.local.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return group[a] < group[b]; });
    for (std::size_t k = 0; k < one.local.size(); ++k) {
      const std::size_t here = static_cast<std::size_t>(group[one.local[k]]);
      if (one.runs.empty() || one.runs.back().group != here) one.runs.push_back(Run{k, k, here});
      one.runs.back().end = k + 1;
    }
    one.all = one.local.size() == size && std::is_sorted(one.local.begin(), one.local.end());
    stretches.push_back(one);
  }
  return stretches;
}

/* A tile as the sums see it: lines by group, and in each the elements by group, one after another. */
struct Lines {
  std::vector<const unsigned char*> at;
  std::size_t width;
  const std::vector<Run>*slow, *fast;
};

/* Adds map(x) of all elements: to cell (run of the line, place in the line) of `of_fast`, and to cell
   (line, run of the place) of `of_slow`. With Check, missing elements add nothing. The four sums of a line
   are independent of each other, so that the core adds them at the same time. */
template <class T, bool Check, class Sum, class Map>
void sweep(const Lines& lines, Sum* of_fast, Sum* of_slow, Map map) {
  const auto value = [&](const unsigned char* line, std::size_t k) {
    const T x = element_at<T>(line, k);
    return Check && is_missing(x) ? Sum(0) : static_cast<Sum>(map(x));
  };
  for (std::size_t q = 0; q < lines.slow->size(); ++q) {
    Sum* const below = of_fast ? of_fast + q * lines.width : nullptr;
    for (std::size_t r = (*lines.slow)[q].begin; r < (*lines.slow)[q].end; ++r) {
      const unsigned char* const line = lines.at[r];
      for (std::size_t p = 0; p < lines.fast->size(); ++p) {
        std::size_t k = (*lines.fast)[p].begin;
        const std::size_t end = (*lines.fast)[p].end;
        if (!of_slow) {
          for (; k < end; ++k) below[k] += value(line, k);
          continue;
        }
        Sum a(0), b(0), c(0), d(0);
        if (below) {
          for (; k + 4 <= end; k += 4) {
            const Sum w = value(line, k), x = value(line, k + 1), y = value(line, k + 2),
                      z = value(line, k + 3);
            below[k] += w;
            below[k + 1] += x;
            below[k + 2] += y;
            below[k + 3] += z;
            a += w;
            b += x;
            c += y;
            d += z;
          }
          for (; k < end; ++k) {
            const Sum w = value(line, k);
            below[k] += w;
            a += w;
          }
        } else {
          for (; k + 4 <= end; k += 4) {
            a += value(line, k);
            b += value(line, k + 1);
            c += value(line, k + 2);
            d += value(line, k + 3);
          }
          for (; k < end; ++k) a += value(line, k);
        }
        of_slow[r * lines.fast->size() + p] = (a + b) + (c + d);
      }
    }
  }
}

/* Calls f(x, cell of fast, cell of slow) for every element that is not missing. */
template <class T, bool Check, class F>
void visit(const Lines& lines, F f) {
  for (std::size_t q = 0; q < lines.slow->size(); ++q) {
    for (std::size_t r = (*lines.slow)[q].begin; r < (*lines.slow)[q].end; ++r) {
      for (std::size_t p = 0; p < lines.fast->size(); ++p) {
        const std::size_t cell = r * lines.fast->size() + p;
        for (std::size_t k = (*lines.fast)[p].begin; k < (*lines.fast)[p].end; ++k) {
          const T x = element_at<T>(lines.at[r], k);
          if (Check && is_missing(x)) continue;
          f(x, q * lines.width + k, cell);
        }
      }
    }
  }
}

template <class T>
bool any_missing(const Lines& lines) {
  if (!std::is_same<T, std::int32_t>::value && !Number<T>::real) return false;
  bool found = false;
  for (const unsigned char* line : lines.at) {
    for (std::size_t k = 0; k < lines.width; ++k) found |= is_missing(element_at<T>(line, k));
  }
  return found;
}

template <class Class>
struct Part {
  Totals<Class> fast, slow;
};

template <class Vector>
typename Vector::value_type* or_null(Vector& vector, bool wanted) {
  return wanted ? vector.data() : nullptr;
}

/* Squared distances from the means of the tile, which is in the cache. */
template <class T, bool Check, class Class>
void add_spread(const Lines& lines, bool fast, bool slow, Part<Class>* part) {
  std::vector<double> of_fast(part->fast.count.size()), of_slow(part->slow.count.size());
  sweep<T, Check>(lines, or_null(of_fast, fast), or_null(of_slow, slow),
                  [](T x) { return static_cast<double>(x); });
  const auto means = [](Totals<Class>& totals, const std::vector<double>& sums) {
    for (std::size_t k = 0; k < sums.size(); ++k) {
      totals.mean[k] = totals.count[k] > 0 ? sums[k] / static_cast<double>(totals.count[k]) : 0.0;
    }
  };
  if (fast) means(part->fast, of_fast);
  if (slow) means(part->slow, of_slow);
  visit<T, Check>(lines, [&](T x, std::size_t f, std::size_t s) {
    const double value = static_cast<double>(x);
    if (fast) {
      const double apart = value - part->fast.mean[f];
      part->fast.spread[f] += apart * apart;
    }
    if (slow) {
      const double apart = value - part->slow.mean[s];
      part->slow.spread[s] += apart * apart;
    }
  });
}

template <class T, bool Check>
void add_var(const Lines& lines, bool fast, bool slow, Part<Narrow>* part) {
  /* Squares of 16 bits add up in 64; those of 32 bits need more. */
  typedef typename std::conditional<sizeof(T) <= 2, std::uint64_t, Uint128>::type Square;
  std::vector<Square> of_fast(part->fast.count.size()), of_slow(part->slow.count.size());
  sweep<T, Check>(lines, or_null(of_fast, fast), or_null(of_slow, slow), [](T x) {
    const std::int64_t wide = static_cast<std::int64_t>(x);
    const std::uint64_t size = static_cast<std::uint64_t>(wide < 0 ? -wide : wide);
    return size * size;
  });
  if (fast) part->fast.square.assign(of_fast.begin(), of_fast.end());
  if (slow) part->slow.square.assign(of_slow.begin(), of_slow.end());
}
template <class T, bool Check>
void add_var(const Lines& lines, bool fast, bool slow, Part<Wide>* part) {
  add_spread<T, Check>(lines, fast, slow, part);
}
template <class T, bool Check>
void add_var(const Lines& lines, bool fast, bool slow, Part<Real>* part) {
  add_spread<T, Check>(lines, fast, slow, part);
}

template <class T, bool Check, class Class>
void add_tile(const Lines& lines, const Wanted& wanted, bool fast, bool slow, Part<Class>* part) {
  typedef typename Class::Value Value;
  if (fast) part->fast.begin(lines.slow->size() * lines.width, wanted);
  if (slow) part->slow.begin(lines.at.size() * lines.fast->size(), wanted);
  Totals<Class>&of_fast = part->fast, &of_slow = part->slow;
  if (Check) {
    sweep<T, false>(lines, or_null(of_fast.missing, fast), or_null(of_slow.missing, slow),
                    [](T x) { return is_missing(x) ? 1 : 0; });
  }
  for (std::size_t q = 0; fast && q < lines.slow->size(); ++q) {
    const Run& run = (*lines.slow)[q];
    for (std::size_t k = 0; k < lines.width; ++k) {
      std::int64_t& count = of_fast.count[q * lines.width + k];
      count = static_cast<std::int64_t>(run.end - run.begin) - of_fast.missing[q * lines.width + k];
    }
  }
  for (std::size_t r = 0; slow && r < lines.at.size(); ++r) {
    for (std::size_t p = 0; p < lines.fast->size(); ++p) {
      const Run& run = (*lines.fast)[p];
      const std::size_t cell = r * lines.fast->size() + p;
      of_slow.count[cell] = static_cast<std::int64_t>(run.end - run.begin) - of_slow.missing[cell];
    }
  }
  if (wanted.sum || wanted.var) {
    sweep<T, Check>(lines, or_null(of_fast.sum, fast), or_null(of_slow.sum, slow),
                    [](T x) { return static_cast<Value>(x); });
  }
  if (wanted.nonzero) {
    sweep<T, Check>(lines, or_null(of_fast.nonzero, fast), or_null(of_slow.nonzero, slow),
                    [](T x) { return static_cast<Value>(x) != Value(0) ? 1 : 0; });
  }
  if (wanted.var) add_var<T, Check>(lines, fast, slow, part);
  if (wanted.range) {
    visit<T, Check>(lines, [&](T x, std::size_t f, std::size_t s) {
      const Value value = static_cast<Value>(x);
      if (fast) {
        of_fast.low[f] = std::min(of_fast.low[f], value);
        of_fast.high[f] = std::max(of_fast.high[f], value);
      }
      if (slow) {
        of_slow.low[s] = std::min(of_slow.low[s], value);
        of_slow.high[s] = std::max(of_slow.high[s], value);
      }
    });
  }
}

/* What a thread needs for a tile besides reading it. */
struct Desk {
  Scratch scratch;
  Lines lines;
  std::vector<unsigned char> gathered;
};

template <class T>
void lay_out(const Tile& tile, const Stretch& slow, const Stretch& fast, Desk* desk) {
  Lines& lines = desk->lines;
  lines.slow = &slow.runs;
  lines.fast = &fast.runs;
  lines.width = fast.size();
  lines.at.resize(slow.size());
  const std::size_t bytes = lines.width * sizeof(T);
  if (!fast.all) desk->gathered.resize(std::max(desk->gathered.size(), lines.at.size() * bytes));
  for (std::size_t r = 0; r < lines.at.size(); ++r) {
    const unsigned char* const line = tile.data + slow.at(r) * tile.stride * sizeof(T);
    lines.at[r] = line;
    if (fast.all) continue;
    unsigned char* const to = desk->gathered.data() + r * bytes;
    for (std::size_t k = 0; k < lines.width; ++k) {
      std::memcpy(to + k * sizeof(T), line + fast.local[k] * sizeof(T), sizeof(T));
    }
    lines.at[r] = to;
  }
}

template <class T>
void reduce_as(const Matrix& matrix, const Groups& slow, const Groups& fast, const Wanted& wanted,
               const Limits& limits, Results* of_fast, Results* of_slow) {
  typedef ClassOf<T> Class;
  const std::vector<Stretch> lines = cut(slow, matrix.slow(), matrix.tile_slow());
  const std::vector<Stretch> columns = cut(fast, matrix.fast(), matrix.tile_fast());
  Totals<Class> fast_totals, slow_totals;
  if (of_fast) fast_totals.begin(static_cast<std::size_t>(matrix.fast() * slow.count), wanted);
  if (of_slow) slow_totals.begin(static_cast<std::size_t>(matrix.slow() * fast.count), wanted);
  const std::uint64_t tiles =
      static_cast<std::uint64_t>(lines.size()) * static_cast<std::uint64_t>(columns.size());
  PerThread<Desk> desks;
  Ordered<Part<Class>> order(tiles, limits.threads);
  std::unique_ptr<ProgressBar> bar(limits.progress ? new ProgressBar(tiles) : nullptr);
  order.run(
      [&](std::uint64_t k, Part<Class>& part) {
        const Stretch& line = lines[static_cast<std::size_t>(k / columns.size())];
        const Stretch& column = columns[static_cast<std::size_t>(k % columns.size())];
        Desk& desk = desks.local();
        lay_out<T>(matrix.read(line.tile, column.tile, desk.scratch), line, column, &desk);
        if (any_missing<T>(desk.lines)) {
          add_tile<T, true>(desk.lines, wanted, of_fast != nullptr, of_slow != nullptr, &part);
        } else {
          add_tile<T, false>(desk.lines, wanted, of_fast != nullptr, of_slow != nullptr, &part);
        }
        if (bar) ++*bar;
      },
      [&](std::uint64_t k, Part<Class>& part) {
        const Stretch& line = lines[static_cast<std::size_t>(k / columns.size())];
        const Stretch& column = columns[static_cast<std::size_t>(k % columns.size())];
        const std::size_t row_at = static_cast<std::size_t>(line.tile * matrix.tile_slow());
        const std::size_t column_at = static_cast<std::size_t>(column.tile * matrix.tile_fast());
        const std::size_t width = column.size(), height = line.size();
        for (std::size_t q = 0; of_fast && q < line.runs.size(); ++q) {
          const std::size_t whole = line.runs[q].group * static_cast<std::size_t>(matrix.fast());
          for (std::size_t c = 0; c < width; ++c) {
            fast_totals.merge(whole + column_at + column.at(c), part.fast, q * width + c, wanted);
          }
        }
        for (std::size_t p = 0; of_slow && p < column.runs.size(); ++p) {
          const std::size_t whole = column.runs[p].group * static_cast<std::size_t>(matrix.slow());
          for (std::size_t r = 0; r < height; ++r) {
            slow_totals.merge(whole + row_at + line.at(r), part.slow, r * column.runs.size() + p, wanted);
          }
        }
      });
  if (of_fast) finish(fast_totals, wanted, of_fast);
  if (of_slow) finish(slow_totals, wanted, of_slow);
}

}  // namespace

void reduce(const Matrix& matrix, const Groups& slow, const Groups& fast, const Wanted& wanted,
            const Limits& limits, Results* of_fast, Results* of_slow) {
  /* A thread holds a tile in two forms and the partial results of four; more threads than fit into the
     memory do not take part. */
  Limits fitting = limits;
  const double each = 2.0 * static_cast<double>(matrix.memory()) +
                      4.0 * 64.0 * static_cast<double>(matrix.tile_slow() + matrix.tile_fast());
  const double most = std::max(1.0, limits.memory / each);
  if (most < fitting.threads) fitting.threads = static_cast<unsigned>(most);
  with_type(matrix.type(), [&](auto type) {
    reduce_as<decltype(type)>(matrix, slow, fast, wanted, fitting, of_fast, of_slow);
  });
}

}  // namespace h5
}  // namespace regatta
#endif
