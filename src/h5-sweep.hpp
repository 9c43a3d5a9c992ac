#ifndef REGATTA_H5_SWEEP_HPP
#define REGATTA_H5_SWEEP_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

/* Statistics of rectangles of elements, 16 bytes at a time. Compilers of R packages are told -O2, at
   which many do not vectorise loops; types that are vectors by themselves need nobody's leave. */

namespace regatta {
namespace h5 {

typedef std::int32_t Int4 __attribute__((vector_size(16)));
typedef std::int64_t Int2 __attribute__((vector_size(16)));
typedef std::uint64_t Bits2 __attribute__((vector_size(16)));
typedef double Real2 __attribute__((vector_size(16)));

/* What is computed with: elements of 32 bits, or doubles. `Count` is what comparing two vectors gives. */
struct Whole4 {
  typedef std::int32_t Element;
  typedef Int4 Vector;
  typedef Int4 Count;
};
struct Real2s {
  typedef double Element;
  typedef Real2 Vector;
  typedef Int2 Count;
};

template <class Vector, class Element>
inline Vector load(const Element* at) {
  Vector v;
  std::memcpy(&v, at, sizeof v);
  return v;
}
template <class Vector, class Element>
inline void store(Element* at, Vector v) {
  std::memcpy(at, &v, sizeof v);
}
template <class Vector, class Element>
inline Vector all_of(Element x) {
  Element each[sizeof(Vector) / sizeof(Element)];
  for (Element& one : each) one = x;
  return load<Vector>(each);
}

/* Lines of elements, not necessarily one behind the other. */
template <class Lanes>
struct Rectangle {
  const typename Lanes::Element* const* line;
  std::size_t height, begin, end; /* places of each line, from and to */
};

/* A rectangle is worked on in blocks of at most that many lines, whose partial results stay in the
   innermost cache. */
const std::size_t block_lines = 256;

/* All bits that are set in any of the numbers; of negative ones, if there can be any, those that are not. */
inline std::uint32_t bits_of(const std::int32_t* line, std::size_t count, bool is_signed) {
  const int sign = is_signed ? 31 : 0;
  const std::int32_t keep = is_signed ? -1 : 0;
  Int4 a = all_of<Int4>(std::int32_t(0)), b = a;
  const Int4 mask = all_of<Int4>(keep);
  std::size_t k = 0;
  for (; k + 8 <= count; k += 8) {
    const Int4 x = load<Int4>(line + k), y = load<Int4>(line + k + 4);
    a |= x ^ ((x >> sign) & mask);
    b |= y ^ ((y >> sign) & mask);
  }
  a |= b;
  std::int32_t bits = a[0] | a[1] | a[2] | a[3];
  for (; k < count; ++k) bits |= line[k] ^ ((line[k] >> sign) & keep);
  return static_cast<std::uint32_t>(bits);
}

/* Whether all numbers of 64 bits are numbers of 32 bits, too. */
inline bool fits_32(const unsigned char* line, std::size_t count, bool is_signed) {
  std::uint64_t bits = 0;
  for (std::size_t k = 0; k < count; ++k) {
    std::uint64_t x;
    std::memcpy(&x, line + k * sizeof x, sizeof x);
    bits |= is_signed && x >> 63 ? ~x : x;
  }
  return bits < 0x7fffffffU;
}

/* Whether all are numbers of which as many as a block has can be added up, less than 2^993: none is NaN or
   infinite. The upper six bits of the exponent of any other are set, and one more in the last of them gets to
   the bit of the sign. */
inline bool all_moderate(const double* line, std::size_t count) {
  const Bits2 size = all_of<Bits2>(UINT64_MAX >> 1), one = all_of<Bits2>(std::uint64_t(1) << 57);
  Bits2 found = all_of<Bits2>(std::uint64_t(0));
  const auto look = [&](Real2 x) { found |= (reinterpret_cast<Bits2>(x) & size) + one; };
  std::size_t k = 0;
  for (; k + 2 <= count; k += 2) look(load<Real2>(line + k));
  if (k < count) look(all_of<Real2>(line[k]));
  return (found[0] | found[1]) >> 63 == 0;
}

/* A sum in each lane. */
template <class Vector>
struct Running {
  Vector sum;
  void begin() { std::memset(&sum, 0, sizeof sum); }
  void add(Vector x) { sum += x; }
  template <class Out>
  Out of(std::size_t i) const { return static_cast<Out>(sum[i]); }
};
/* Of doubles, with what each addition rounds away: Knuth, The Art of Computer Programming, volume 2, 4.2.2, theorem
   B. */
template <>
struct Running<Real2> {
  Real2 sum, lost;
  void begin() { sum = lost = all_of<Real2>(0.0); }
  void add(Real2 x) {
    const Real2 next = sum + x, of_x = next - sum;
    lost += (sum - (next - of_x)) + (x - of_x);
    sum = next;
  }
  template <class Out>
  Out of(std::size_t i) const { return static_cast<Out>(sum[i]) + static_cast<Out>(lost[i]); }
};

/* Adds map(x) of the elements: to of_fast[place in the line] and of_slow[line * step]. Either may be
   null. The sum in a lane must not overflow. */
template <class Lanes, bool Fast, bool Slow, class Map, class Out>
void add_block(const Rectangle<Lanes>& part, Map map, Out* of_fast, Out* of_slow, std::size_t step) {
  typedef typename Lanes::Vector Vector;
  typedef Running<decltype(map(Vector()))> Sum;
  const std::size_t lanes = sizeof(Vector) / sizeof(typename Lanes::Element);
  Sum lines[block_lines];
  for (std::size_t r = 0; Slow && r < part.height; ++r) lines[r].begin();
  std::size_t k = part.begin;
  const auto give = [&](std::size_t at, const Sum& sum) {
    for (std::size_t i = 0; i < lanes; ++i) of_fast[at + i] += sum.template of<Out>(i);
  };
  for (; k + 4 * lanes <= part.end; k += 4 * lanes) {
    Sum a, b, c, d;
    for (Sum* one : {&a, &b, &c, &d}) one->begin();
    for (std::size_t r = 0; r < part.height; ++r) {
      const auto* const at = part.line[r] + k;
      const auto w = map(load<Vector>(at)), x = map(load<Vector>(at + lanes)),
                 y = map(load<Vector>(at + 2 * lanes)), z = map(load<Vector>(at + 3 * lanes));
      if (Fast) {
        a.add(w);
        b.add(x);
        c.add(y);
        d.add(z);
      }
      if (Slow) {
        Sum line = lines[r];
        line.add(w);
        line.add(x);
        line.add(y);
        line.add(z);
        lines[r] = line;
      }
    }
    if (Fast) {
      give(k, a);
      give(k + lanes, b);
      give(k + 2 * lanes, c);
      give(k + 3 * lanes, d);
    }
  }
  for (; k + lanes <= part.end; k += lanes) {
    Sum a;
    a.begin();
    for (std::size_t r = 0; r < part.height; ++r) {
      const auto w = map(load<Vector>(part.line[r] + k));
      if (Fast) a.add(w);
      if (Slow) lines[r].add(w);
    }
    if (Fast) give(k, a);
  }
  for (std::size_t r = 0; Slow && r < part.height; ++r) {
    Out sum(0);
    for (std::size_t i = 0; i < lanes; ++i) sum += lines[r].template of<Out>(i);
    of_slow[r * step] += sum;
  }
  for (; k < part.end; ++k) {
    for (std::size_t r = 0; r < part.height; ++r) {
      const Out one = static_cast<Out>(map(all_of<Vector>(part.line[r][k]))[0]);
      if (Fast) of_fast[k] += one;
      if (Slow) of_slow[r * step] += one;
    }
  }
}

/* As above for rectangles of any size, if `most` of map(x) at a time can be added up in a lane. */
template <class Lanes, class Map, class Out>
void add_rectangle(const Rectangle<Lanes>& all, std::size_t most, Map map, Out* of_fast, Out* of_slow,
                   std::size_t step) {
  const std::size_t lines = std::min(most, block_lines);
  const std::size_t places = std::max<std::size_t>(1, std::min<std::size_t>(most, 4096)) *
                             (sizeof(typename Lanes::Vector) / sizeof(typename Lanes::Element));
  for (std::size_t r = 0; r < all.height; r += lines) {
    for (std::size_t k = all.begin; k < all.end; k += places) {
      const Rectangle<Lanes> part = {all.line + r, std::min(lines, all.height - r), k,
                                     std::min(k + places, all.end)};
      Out* const below = of_slow ? of_slow + r * step : nullptr;
      if (of_fast && of_slow) {
        add_block<Lanes, true, true>(part, map, of_fast, below, step);
      } else if (of_fast) {
        add_block<Lanes, true, false>(part, map, of_fast, below, step);
      } else {
        add_block<Lanes, false, true>(part, map, of_fast, below, step);
      }
    }
  }
}

/* Lowers low[] and raises high[] to the elements; none of them is NaN. */
template <class Lanes, class Out>
void range_rectangle(const Rectangle<Lanes>& all, Out* low_fast, Out* high_fast, Out* low_slow,
                     Out* high_slow, std::size_t step) {
  typedef typename Lanes::Vector Vector;
  typedef typename Lanes::Element Element;
  const std::size_t lanes = sizeof(Vector) / sizeof(Element);
  const auto lower = [](Vector a, Vector b) { return a < b ? a : b; };
  const auto higher = [](Vector a, Vector b) { return a > b ? a : b; };
  const auto widen = [](Out* low, Out* high, Element l, Element h) {
    *low = std::min(*low, static_cast<Out>(l));
    *high = std::max(*high, static_cast<Out>(h));
  };
  for (std::size_t from = 0; from < all.height; from += block_lines) {
    const std::size_t height = std::min(block_lines, all.height - from);
    const Element* const* const line = all.line + from;
    Vector least[block_lines], most[block_lines];
    std::size_t k = all.begin;
    if (low_slow && k + lanes <= all.end) {
      for (std::size_t r = 0; r < height; ++r) least[r] = most[r] = load<Vector>(line[r] + k);
    }
    for (; k + lanes <= all.end; k += lanes) {
      Vector l = load<Vector>(line[0] + k), h = l;
      for (std::size_t r = 0; r < height; ++r) {
        const Vector x = load<Vector>(line[r] + k);
        if (low_fast) {
          l = lower(l, x);
          h = higher(h, x);
        }
        if (low_slow) {
          least[r] = lower(least[r], x);
          most[r] = higher(most[r], x);
        }
      }
      for (std::size_t i = 0; low_fast && i < lanes; ++i) widen(low_fast + k + i, high_fast + k + i, l[i], h[i]);
    }
    const std::size_t done = (all.end - all.begin) / lanes;
    for (std::size_t r = 0; low_slow && done > 0 && r < height; ++r) {
      const std::size_t cell = (from + r) * step;
      for (std::size_t i = 0; i < lanes; ++i) widen(low_slow + cell, high_slow + cell, least[r][i], most[r][i]);
    }
    for (; k < all.end; ++k) {
      for (std::size_t r = 0; r < height; ++r) {
        const Element x = line[r][k];
        const std::size_t cell = (from + r) * step;
        if (low_fast) widen(low_fast + k, high_fast + k, x, x);
        if (low_slow) widen(low_slow + cell, high_slow + cell, x, x);
      }
    }
  }
}

/* Where distances from numbers near a mean, and their squares, are added up. */
struct Distances {
  const double* near;
  double *sum, *square;
};

/* Adds the distances from of_fast->near[place] and of_slow->near[line * step], and their squares; either may be
   null. */
inline void spread_rectangle(const Rectangle<Real2s>& all, const Distances* of_fast, const Distances* of_slow,
                             std::size_t step) {
  const Real2 zero = {0.0, 0.0};
  const auto add = [](const Distances& to, std::size_t at, double x) {
    const double distance = x - to.near[at];
    to.sum[at] += distance;
    to.square[at] += distance * distance;
  };
  for (std::size_t from = 0; from < all.height; from += block_lines) {
    const std::size_t height = std::min(block_lines, all.height - from);
    const double* const* const line = all.line + from;
    Real2 sums[block_lines], squares[block_lines], means[block_lines];
    for (std::size_t r = 0; of_slow && r < height; ++r) {
      sums[r] = squares[r] = zero;
      means[r] = all_of<Real2>(of_slow->near[(from + r) * step]);
    }
    std::size_t k = all.begin;
    for (; k + 2 <= all.end; k += 2) {
      const Real2 mean = of_fast ? load<Real2>(of_fast->near + k) : zero;
      Real2 sum = zero, square = zero;
      for (std::size_t r = 0; r < height; ++r) {
        const Real2 x = load<Real2>(line[r] + k);
        if (of_fast) {
          const Real2 distance = x - mean;
          sum += distance;
          square += distance * distance;
        }
        if (of_slow) {
          const Real2 distance = x - means[r];
          sums[r] += distance;
          squares[r] += distance * distance;
        }
      }
      if (of_fast) {
        store(of_fast->sum + k, load<Real2>(of_fast->sum + k) + sum);
        store(of_fast->square + k, load<Real2>(of_fast->square + k) + square);
      }
    }
    for (std::size_t r = 0; r < height; ++r) {
      const std::size_t cell = (from + r) * step;
      if (of_slow) {
        of_slow->sum[cell] += sums[r][0] + sums[r][1];
        of_slow->square[cell] += squares[r][0] + squares[r][1];
      }
      if (k == all.end) continue;
      if (of_fast) add(*of_fast, k, line[r][k]);
      if (of_slow) add(*of_slow, cell, line[r][k]);
    }
  }
}

}  // namespace h5
}  // namespace regatta

#endif
