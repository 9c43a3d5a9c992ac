#ifdef REGATTA_WITH_HDF5
#include "h5-stats.hpp"

#include <memory>

#include <regatta/core/local.hpp>
#include <regatta/core/pipeline.hpp>
#include <regatta/core/progress.hpp>

#include "h5-bytes.hpp"
#include "h5-sweep.hpp"

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

/* What a thread needs for a tile besides reading it. */
struct Desk {
  Scratch scratch;
  Lines lines;
  bool are_bytes; /* the lines are numbers from 0 to 255, in a byte each, whatever the type of elements is */
  std::vector<unsigned char> gathered, narrow;
  std::vector<std::int32_t> whole;
  std::vector<double> real;
  std::vector<const unsigned char*> byte_at;
  std::vector<const std::int32_t*> whole_at;
  std::vector<const double*> real_at;
};

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

/* Adds map(x) of all elements: to cell (run of the line, place in the line) of `of_fast`, and to cell
   (line, run of the place) of `of_slow`. With Check, missing elements add nothing. */
template <class T, bool Check, class Sum, class Map>
void sweep(const Lines& lines, Sum* of_fast, Sum* of_slow, Map map) {
  visit<T, Check>(lines, [&](T x, std::size_t f, std::size_t s) {
    const Sum one = static_cast<Sum>(map(x));
    if (of_fast) of_fast[f] += one;
    if (of_slow) of_slow[s] += one;
  });
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

/* What comes of a tile: the a-th of the chosen lines of tiles, the b-th of the columns. */
template <class Class>
struct Part {
  std::size_t a, b;
  Totals<Class> fast, slow;
};

template <class Vector>
typename Vector::value_type* or_null(Vector& vector, bool wanted) {
  return wanted ? vector.data() : nullptr;
}

/* The numbers that distances are taken from: means of the tile, as far as doubles hold them. False where
   doubles do not. */
template <class Class, class Sum>
bool find_near(const std::vector<Sum>& sums, Totals<Class>* totals) {
  bool fine = true;
  for (std::size_t k = 0; k < totals->near.size(); ++k) {
    if (totals->count[k] == 0) continue;
    const double mean = static_cast<double>(sums[k]) / static_cast<double>(totals->count[k]);
    totals->near[k] = std::is_same<Class, Wide>::value ? std::nearbyint(mean) : mean;
    fine = fine && std::isfinite(mean);
  }
  return fine;
}

template <class Class>
bool settle(const std::vector<double>& distances, const std::vector<double>& squares, Totals<Class>* totals) {
  bool fine = true;
  for (std::size_t k = 0; k < totals->near.size(); ++k) {
    totals->settle(k, distances[k], squares[k]);
    fine = fine && std::isfinite(squares[k]);
  }
  return fine;
}

/* Both passes over the elements of a tile in numbers of more range. What is infinite stays so. */
template <class T, bool Check, class Class>
void add_spread_slowly(const Lines& lines, bool fast, bool slow, Part<Class>* part) {
  std::vector<long double> of_fast(part->fast.near.size()), of_slow(part->slow.near.size());
  sweep<T, Check>(lines, or_null(of_fast, fast), or_null(of_slow, slow), [](T x) { return to_long_double(x); });
  const auto begin = [](Totals<Class>& totals, const std::vector<long double>& sums) {
    for (std::size_t k = 0; k < sums.size(); ++k) {
      if (totals.count[k] == 0) continue;
      const long double mean = sums[k] / static_cast<long double>(totals.count[k]);
      totals.near[k] = static_cast<double>(mean);
      totals.off[k] = mean - totals.near[k];
      totals.spread[k] = 0;
    }
  };
  begin(part->fast, of_fast);
  begin(part->slow, of_slow);
  const auto add = [](Totals<Class>& totals, std::size_t k, long double x) {
    const long double distance = (x - totals.near[k]) - totals.off[k];
    totals.spread[k] += distance * distance;
  };
  visit<T, Check>(lines, [&](T x, std::size_t f, std::size_t s) {
    if (fast) add(part->fast, f, to_long_double(x));
    if (slow) add(part->slow, s, to_long_double(x));
  });
}

/* Distances from the means of the tile, which is in the cache. */
template <class T, bool Check, class Class>
void add_spread(const Lines& lines, bool fast, bool slow, Part<Class>* part) {
  typedef std::vector<double> Sums;
  Sums fast_1(part->fast.near.size()), fast_2(fast_1.size()), slow_1(part->slow.near.size()), slow_2(slow_1.size());
  bool fine = find_near(part->fast.sum, &part->fast);
  fine = find_near(part->slow.sum, &part->slow) && fine;
  visit<T, Check>(lines, [&](T x, std::size_t f, std::size_t s) {
    if (fast) {
      const double distance = distance_from(part->fast.near[f], x);
      fast_1[f] += distance;
      fast_2[f] += distance * distance;
    }
    if (slow) {
      const double distance = distance_from(part->slow.near[s], x);
      slow_1[s] += distance;
      slow_2[s] += distance * distance;
    }
  });
  fine = settle(fast_1, fast_2, &part->fast) && fine;
  fine = settle(slow_1, slow_2, &part->slow) && fine;
  if (!fine) add_spread_slowly<T, Check>(lines, fast, slow, part);
}

template <class T, bool Check, class Square>
void add_squares_as(const Lines& lines, bool fast, bool slow, Part<Narrow>* part) {
  std::vector<Square> of_fast(part->fast.count.size()), of_slow(part->slow.count.size());
  sweep<T, Check>(lines, or_null(of_fast, fast), or_null(of_slow, slow), [](T x) {
    const std::int64_t wide = static_cast<std::int64_t>(x);
    const std::uint64_t size = static_cast<std::uint64_t>(wide < 0 ? -wide : wide);
    return size * size;
  });
  if (fast) part->fast.square.assign(of_fast.begin(), of_fast.end());
  if (slow) part->slow.square.assign(of_slow.begin(), of_slow.end());
}
/* `size`: no element is larger, counted from zero. */
template <class T, bool Check>
void add_var(const Lines& lines, std::uint64_t size, bool fast, bool slow, Part<Narrow>* part) {
  const std::uint64_t each = std::max(lines.at.size(), lines.width);
  if (size <= UINT32_MAX && each > 0 && size * size <= UINT64_MAX / each) {
    add_squares_as<T, Check, std::uint64_t>(lines, fast, slow, part);
  } else {
    add_squares_as<T, Check, Uint128>(lines, fast, slow, part);
  }
}
template <class T, bool Check>
void add_var(const Lines& lines, std::uint64_t, bool fast, bool slow, Part<Wide>* part) {
  add_spread<T, Check>(lines, fast, slow, part);
}
template <class T, bool Check>
void add_var(const Lines& lines, std::uint64_t, bool fast, bool slow, Part<Real>* part) {
  add_spread<T, Check>(lines, fast, slow, part);
}

/* How many elements there are, those that are missing not counted. */
template <class Class>
void add_counts(const Lines& lines, bool fast, bool slow, Part<Class>* part) {
  Totals<Class>&of_fast = part->fast, &of_slow = part->slow;
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
}

/* Any elements, one at a time. */
template <class T, bool Check, class Class>
void add_any(const Lines& lines, const Wanted& wanted, bool fast, bool slow, Part<Class>* part) {
  typedef typename Class::Value Value;
  typedef typename Class::Sum Sum;
  Totals<Class>&of_fast = part->fast, &of_slow = part->slow;
  if (Check) {
    sweep<T, false>(lines, or_null(of_fast.missing, fast), or_null(of_slow.missing, slow),
                    [](T x) { return is_missing(x) ? 1 : 0; });
  }
  add_counts(lines, fast, slow, part);
  if (wanted.sum || wanted.var) {
    sweep<T, Check>(lines, or_null(of_fast.sum, fast), or_null(of_slow.sum, slow),
                    [](T x) { return static_cast<Sum>(x); });
  }
  if (wanted.nonzero) {
    sweep<T, Check>(lines, or_null(of_fast.nonzero, fast), or_null(of_slow.nonzero, slow),
                    [](T x) { return static_cast<Value>(x) != Value(0) ? 1 : 0; });
  }
  if (wanted.var) {
    const std::uint64_t size = sizeof(T) >= 4 ? UINT32_MAX : std::uint64_t(1) << 8 * sizeof(T);
    add_var<T, Check>(lines, size, fast, slow, part);
  }
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

/* Calls f(rectangle, cell of its first column, cell of its first line) for each pair of groups; cells of
   lines are as far apart as there are groups. */
template <class Lanes, class F>
void each_rectangle(const Lines& lines, const typename Lanes::Element* const* at, F f) {
  const std::size_t step = lines.fast->size();
  for (std::size_t q = 0; q < lines.slow->size(); ++q) {
    const Run& down = (*lines.slow)[q];
    for (std::size_t p = 0; p < step; ++p) {
      const Run& across = (*lines.fast)[p];
      f(Rectangle<Lanes>{at + down.begin, down.end - down.begin, across.begin, across.end}, q * lines.width,
        down.begin * step + p);
    }
  }
}

/* Adds map(x) of all elements, of which `most` can be added up in a lane. */
template <class Lanes, class Map, class Vector>
void add_all(const Lines& lines, const typename Lanes::Element* const* at, std::size_t most, Map map,
             Vector& of_fast, bool fast, Vector& of_slow, bool slow) {
  each_rectangle<Lanes>(lines, at, [&](const Rectangle<Lanes>& all, std::size_t f, std::size_t s) {
    add_rectangle(all, most, map, fast ? of_fast.data() + f : nullptr, slow ? of_slow.data() + s : nullptr,
                  lines.fast->size());
  });
}

/* Sums, counts and extremes, several elements at a time; none of them is missing. */
template <class Lanes, class Class>
void add_lanes(const Lines& lines, const typename Lanes::Element* const* at, std::size_t most,
               const Wanted& wanted, bool fast, bool slow, Part<Class>* part) {
  typedef typename Lanes::Vector Vector;
  typedef typename Lanes::Count Count;
  Totals<Class>&of_fast = part->fast, &of_slow = part->slow;
  add_counts(lines, fast, slow, part);
  if (wanted.sum || wanted.var) {
    add_all<Lanes>(lines, at, most, [](Vector x) { return x; }, of_fast.sum, fast, of_slow.sum, slow);
  }
  if (wanted.nonzero) {
    const Vector zero = all_of<Vector>(typename Lanes::Element(0));
    add_all<Lanes>(lines, at, SIZE_MAX, [zero](Vector x) { return -static_cast<Count>(x != zero); },
                   of_fast.nonzero, fast, of_slow.nonzero, slow);
  }
  if (wanted.range) {
    each_rectangle<Lanes>(lines, at, [&](const Rectangle<Lanes>& all, std::size_t f, std::size_t s) {
      range_rectangle(all, fast ? of_fast.low.data() + f : nullptr, fast ? of_fast.high.data() + f : nullptr,
                      slow ? of_slow.low.data() + s : nullptr, slow ? of_slow.high.data() + s : nullptr,
                      lines.fast->size());
    });
  }
}

void add_squares(const Lines& lines, const std::int32_t* const* at, std::size_t most, bool fast, bool slow,
                 std::vector<Uint128>* of_fast, std::vector<Uint128>* of_slow) {
  typedef std::uint32_t Unsigned4 __attribute__((vector_size(16)));
  add_all<Whole4>(lines, at, most, [](Int4 x) { return reinterpret_cast<Unsigned4>(x) * reinterpret_cast<Unsigned4>(x); }, *of_fast, fast, *of_slow,
                  slow);
}

/* Variances of whole numbers by add(of_fast, of_slow), which adds up their squares. */
template <class Add>
void add_var_by_squares(Add add, bool, bool, Part<Narrow>* part) {
  add(&part->fast.square, &part->slow.square);
}
template <class Add>
void add_var_by_squares(Add add, bool fast, bool slow, Part<Wide>* part) {
  std::vector<Uint128> of_fast(fast ? part->fast.count.size() : 0), of_slow(slow ? part->slow.count.size() : 0);
  add(&of_fast, &of_slow);
  const auto spread = [](Totals<Wide>& totals, const std::vector<Uint128>& squares) {
    for (std::size_t k = 0; k < squares.size(); ++k) {
      const Int128 n = totals.count[k], sum = totals.sum[k];
      if (n == 0) continue;
      totals.off[k] = static_cast<long double>(sum) / static_cast<long double>(n);
      totals.spread[k] =
          static_cast<long double>(n * static_cast<Int128>(squares[k]) - sum * sum) / static_cast<long double>(n);
    }
  };
  spread(part->fast, of_fast);
  spread(part->slow, of_slow);
}

/* The same of integers, of which `most` squares can be added up in a lane. */
template <class Class>
void add_small_var(const Lines& lines, const std::int32_t* const* at, std::size_t most, bool fast, bool slow,
                   Part<Class>* part) {
  add_var_by_squares(
      [&](std::vector<Uint128>* of_fast, std::vector<Uint128>* of_slow) {
        add_squares(lines, at, most, fast, slow, of_fast, of_slow);
      },
      fast, slow, part);
}

/* Vectors of 16 elements, which compilers convert as such if they know the number. */
template <class T, class To>
void convert(const unsigned char* from, std::size_t count, To* to) {
  const std::size_t block = 16;
  std::size_t k = 0;
  for (; k + block <= count; k += block) {
    T in[block];
    To out[block];
    std::memcpy(in, from + k * sizeof(T), sizeof in);
    for (std::size_t i = 0; i < block; ++i) out[i] = static_cast<To>(in[i]);
    std::memcpy(to + k, out, sizeof out);
  }
  for (; k < count; ++k) to[k] = static_cast<To>(element_at<T>(from, k));
}

/* The lines as doubles. */
template <class T>
const double* const* reals_of(Desk* desk) {
  const Lines& lines = desk->lines;
  desk->real_at.resize(lines.at.size());
  const bool direct = std::is_same<T, double>::value;
  if (!direct) desk->real.resize(std::max(desk->real.size(), lines.at.size() * lines.width));
  for (std::size_t r = 0; r < lines.at.size(); ++r) {
    if (direct) {
      desk->real_at[r] = reinterpret_cast<const double*>(lines.at[r]);
    } else {
      double* const to = desk->real.data() + r * lines.width;
      convert<T>(lines.at[r], lines.width, to);
      desk->real_at[r] = to;
    }
  }
  return desk->real_at.data();
}

/* The lines as whole numbers of 32 bits, and the bits that are set in any of them; null if they do not fit
   or if one may be missing. */
template <class T>
const std::int32_t* const* wholes_of(Desk* desk, std::uint32_t* bits) {
  const Lines& lines = desk->lines;
  desk->whole_at.resize(lines.at.size());
  const bool direct = sizeof(T) == 4;
  if (!direct) desk->whole.resize(std::max(desk->whole.size(), lines.at.size() * lines.width));
  *bits = 0;
  for (std::size_t r = 0; r < lines.at.size(); ++r) {
    const std::int32_t* line = reinterpret_cast<const std::int32_t*>(lines.at[r]);
    if (!direct) {
      if (sizeof(T) == 8 && !fits_32(lines.at[r], lines.width, std::is_signed<T>::value)) return nullptr;
      std::int32_t* const to = desk->whole.data() + r * lines.width;
      convert<T>(lines.at[r], lines.width, to);
      line = to;
    }
    *bits |= bits_of(line, lines.width, !std::is_same<T, std::uint32_t>::value);
    desk->whole_at[r] = line;
  }
  /* The bits of the missing integer, inverted, are those of the greatest one. */
  return *bits < 0x7fffffffU ? desk->whole_at.data() : nullptr;
}

/* How many numbers of at most `size` a lane of 32 bits can add up; fewer than the other are not worth it. */
std::size_t most_in_lane(std::uint64_t size) { return static_cast<std::size_t>(0x7fffffffU / size); }
const std::size_t least_in_lane = 16;

#ifdef REGATTA_H5_BYTES
/* The lines as bytes; null if an element does not fit. */
template <class T>
const unsigned char* const* bytes_of(Desk* desk) {
  const Lines& lines = desk->lines;
  if (desk->are_bytes || std::is_same<T, std::uint8_t>::value) return lines.at.data();
  if (sizeof(T) != 4) return nullptr;
  desk->byte_at.resize(lines.at.size());
  desk->narrow.resize(std::max(desk->narrow.size(), lines.at.size() * lines.width));
  for (std::size_t r = 0; r < lines.at.size(); ++r) {
    unsigned char* const to = desk->narrow.data() + r * lines.width;
    if (!narrow_line(lines.at[r], lines.width, to)) return nullptr;
    desk->byte_at[r] = to;
  }
  return desk->byte_at.data();
}

/* All statistics of lines of bytes. */
template <class Class>
void add_bytes(const Lines& lines, const unsigned char* const* at, const Wanted& wanted, bool fast, bool slow,
               Part<Class>* part) {
  Totals<Class>&of_fast = part->fast, &of_slow = part->slow;
  const std::size_t step = lines.fast->size();
  const auto add = [&](auto map, auto& to_fast, auto& to_slow) {
    each_rectangle<Bytes>(lines, at, [&](const Rectangle<Bytes>& all, std::size_t f, std::size_t s) {
      if (fast) add_bytes_fast(all, map, to_fast.data() + f);
      if (slow) add_bytes_slow(all, map, to_slow.data() + s, step);
    });
  };
  add_counts(lines, fast, slow, part);
  if (wanted.sum || wanted.var) add(Itself(), of_fast.sum, of_slow.sum);
  if (wanted.nonzero) add(IsNonzero(), of_fast.nonzero, of_slow.nonzero);
  if (wanted.range) {
    each_rectangle<Bytes>(lines, at, [&](const Rectangle<Bytes>& all, std::size_t f, std::size_t s) {
      if (fast) range_bytes_fast(all, of_fast.low.data() + f, of_fast.high.data() + f);
      if (slow) range_bytes_slow(all, of_slow.low.data() + s, of_slow.high.data() + s, step);
    });
  }
  if (!wanted.var) return;
  add_var_by_squares(
      [&](std::vector<Uint128>* to_fast, std::vector<Uint128>* to_slow) {
        each_rectangle<Bytes>(lines, at, [&](const Rectangle<Bytes>& all, std::size_t f, std::size_t s) {
          if (fast) square_bytes_fast(all, to_fast->data() + f);
          if (slow) square_bytes_slow(all, to_slow->data() + s, step);
        });
      },
      fast, slow, part);
}
#endif

template <class T, class Class>
bool add_fast(Desk* desk, const Wanted& wanted, bool fast, bool slow, Part<Class>* part) {
#ifdef REGATTA_H5_BYTES
  if (const unsigned char* const* const bytes = bytes_of<T>(desk)) {
    add_bytes(desk->lines, bytes, wanted, fast, slow, part);
    return true;
  }
#endif
  std::uint32_t bits = 0;
  const std::int32_t* const* const at = wholes_of<T>(desk, &bits);
  if (!at) return false;
  /* A number with these bits is at most this, or one less than its negative. */
  std::uint64_t size = 1;
  while (size <= bits) size *= 2;
  if (most_in_lane(size) < least_in_lane) return false;
  add_lanes<Whole4>(desk->lines, at, most_in_lane(size), wanted, fast, slow, part);
  if (!wanted.var) return true;
  const std::size_t squares = most_in_lane(size * size);
  if (squares < least_in_lane) {
    add_var<T, false>(desk->lines, size, fast, slow, part);
  } else {
    add_small_var(desk->lines, at, squares, fast, slow, part);
  }
  return true;
}
template <class T>
bool add_fast(Desk* desk, const Wanted& wanted, bool fast, bool slow, Part<Real>* part) {
  const double* const* const at = reals_of<T>(desk);
  const Lines& lines = desk->lines;
  for (std::size_t r = 0; r < lines.at.size(); ++r) {
    if (!all_moderate(at[r], lines.width)) return false;
  }
  add_lanes<Real2s>(lines, at, SIZE_MAX, wanted, fast, slow, part);
  if (!wanted.var) return true;
  Totals<Real>&of_fast = part->fast, &of_slow = part->slow;
  std::vector<double> fast_1(of_fast.near.size()), fast_2(fast_1.size()), slow_1(of_slow.near.size()),
      slow_2(slow_1.size());
  bool fine = find_near(of_fast.sum, &of_fast);
  fine = find_near(of_slow.sum, &of_slow) && fine;
  each_rectangle<Real2s>(lines, at, [&](const Rectangle<Real2s>& all, std::size_t f, std::size_t s) {
    const Distances down = {of_fast.near.data() + f, fast_1.data() + f, fast_2.data() + f};
    const Distances across = {of_slow.near.data() + s, slow_1.data() + s, slow_2.data() + s};
    spread_rectangle(all, fast ? &down : nullptr, slow ? &across : nullptr, lines.fast->size());
  });
  fine = settle(fast_1, fast_2, &of_fast) && fine;
  fine = settle(slow_1, slow_2, &of_slow) && fine;
  if (!fine) add_spread_slowly<T, false>(lines, fast, slow, part);
  return true;
}

/* Lines of elements of type E, the first of which is at `data`. */
template <class E>
void lay_out(const unsigned char* data, std::size_t stride, const Stretch& slow, const Stretch& fast, Desk* desk) {
  Lines& lines = desk->lines;
  lines.slow = &slow.runs;
  lines.fast = &fast.runs;
  lines.width = fast.size();
  lines.at.resize(slow.size());
  const std::size_t bytes = lines.width * sizeof(E);
  if (!fast.all) desk->gathered.resize(std::max(desk->gathered.size(), lines.at.size() * bytes));
  for (std::size_t r = 0; r < lines.at.size(); ++r) {
    const unsigned char* const line = data + slow.at(r) * stride * sizeof(E);
    lines.at[r] = line;
    if (fast.all) continue;
    unsigned char* const to = desk->gathered.data() + r * bytes;
    for (std::size_t k = 0; k < lines.width; ++k) {
      std::memcpy(to + k * sizeof(E), line + fast.local[k] * sizeof(E), sizeof(E));
    }
    lines.at[r] = to;
  }
}

template <class T>
void lay_out(const Tile& tile, const Stretch& slow, const Stretch& fast, Desk* desk) {
  desk->are_bytes = tile.bytes != nullptr;
  if (tile.bytes) {
    lay_out<unsigned char>(tile.bytes, tile.stride, slow, fast, desk);
  } else {
    lay_out<T>(tile.data, tile.stride, slow, fast, desk);
  }
}

/* The results of a tile, part of which is in these lines and columns. */
template <class T, class Class>
void add_tile(const Tile& tile, const Stretch& line, const Stretch& column, const Wanted& wanted, bool fast, bool slow,
              Desk* desk, Part<Class>* part) {
  lay_out<T>(tile, line, column, desk);
  const Lines& lines = desk->lines;
  if (fast) part->fast.begin(lines.slow->size() * lines.width, wanted);
  if (slow) part->slow.begin(lines.at.size() * lines.fast->size(), wanted);
  if (add_fast<T>(desk, wanted, fast, slow, part)) return;
  if (any_missing<T>(lines)) {
    add_any<T, true>(lines, wanted, fast, slow, part);
  } else {
    add_any<T, false>(lines, wanted, fast, slow, part);
  }
}

/* `add`: add_tile() of the type of the elements, which the rest need not know. */
template <class Class>
unsigned reduce_as(const Matrix& matrix, const Groups& slow, const Groups& fast, const Wanted& wanted,
                   const Limits& limits, Results* of_fast, Results* of_slow, decltype(add_tile<int, Class>)* add) {
  const std::vector<Stretch> lines = cut(slow, matrix.slow(), matrix.tile_slow());
  const std::vector<Stretch> columns = cut(fast, matrix.fast(), matrix.tile_fast());
  Totals<Class> fast_totals, slow_totals;
  if (of_fast) fast_totals.begin(static_cast<std::size_t>(matrix.fast() * slow.count), wanted);
  if (of_slow) slow_totals.begin(static_cast<std::size_t>(matrix.slow() * fast.count), wanted);
  std::vector<std::uint64_t> down, across;
  for (const Stretch& one : lines) down.push_back(one.tile);
  for (const Stretch& one : columns) across.push_back(one.tile);
#ifdef REGATTA_H5_BYTES
  const bool takes_bytes = !std::is_same<Class, Real>::value;
#else
  const bool takes_bytes = false;
#endif
  PerThread<Desk> desks;
  unsigned threads = limits.threads;
  std::unique_ptr<ProgressBar> bar(limits.progress ? new ProgressBar(down.size() * across.size()) : nullptr);
  const auto merge = [&](const Part<Class>& part) {
    const Stretch &line = lines[part.a], &column = columns[part.b];
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
  };
  each_band(matrix, down, across,
            [&](const Located& tiles, std::size_t a, std::size_t a_end, std::size_t b, std::size_t b_end) {
    threads = tiles.threads(threads);
    std::size_t next = 0;
    const std::size_t width = b_end - b, count = (a_end - a) * width;
    parallelPipeline<Part<Class>>(
        [&](Part<Class>& part) {
          part.a = a + next / width;
          part.b = b + next % width;
          return next++ < count;
        },
        [&](Part<Class>& part) {
          Desk& desk = desks.local();
          desk.scratch.takes_bytes = takes_bytes;
          add(tiles.read(down[part.a], across[part.b], desk.scratch), lines[part.a], columns[part.b], wanted,
              of_fast != nullptr, of_slow != nullptr, &desk, &part);
          if (bar) ++*bar;
        },
        merge, 0, threads);
  });
  if (of_fast) finish(fast_totals, slow, wanted, of_fast);
  if (of_slow) finish(slow_totals, fast, wanted, of_slow);
  return threads;
}

}  // namespace

unsigned reduce(const Matrix& matrix, const Groups& slow, const Groups& fast, const Wanted& wanted,
                const Limits& limits, Results* of_fast, Results* of_slow) {
  /* A thread holds a tile in three forms and the partial results of four; more threads than fit into the
     memory do not take part. */
  Limits fitting = limits;
  const double each = 2.0 * static_cast<double>(matrix.memory()) +
                      8.0 * static_cast<double>(matrix.tile_slow() * matrix.tile_fast()) +
                      4.0 * 64.0 * static_cast<double>(matrix.tile_slow() + matrix.tile_fast());
  const double most = std::max(1.0, limits.memory / each);
  if (most < fitting.threads) fitting.threads = static_cast<unsigned>(most);
  return with_type(matrix.type(), [&](auto type) {
    using T = decltype(type);
    using Class = ClassOf<T>;
    return reduce_as<Class>(matrix, slow, fast, wanted, fitting, of_fast, of_slow, add_tile<T, Class>);
  });
}

}  // namespace h5
}  // namespace regatta
#endif
