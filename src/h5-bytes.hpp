#ifndef REGATTA_H5_BYTES_HPP
#define REGATTA_H5_BYTES_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "h5-sweep.hpp"

/* Statistics of rectangles of numbers from 0 to 255, which most counts are: a quarter of the memory of integers, and
   sixteen at a time. Results are added to those that are there: of_fast[place in the line], of_slow[line * step]. */

namespace regatta {
namespace h5 {

struct Bytes {
  typedef unsigned char Element;
};

#if defined(__SSE2__)
#define REGATTA_H5_BYTES

typedef __m128i Byte16;

inline Byte16 bytes_at(const unsigned char* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); }
inline void bytes_to(void* to, Byte16 x) { _mm_storeu_si128(static_cast<__m128i*>(to), x); }

const std::size_t byte_lanes = 16;

/* Calls f(place, skip) for each sixteen places. Of the last ones the first `skip` have come before. */
template <class F>
inline void each_16(std::size_t begin, std::size_t end, F f) {
  std::size_t k = begin;
  for (; k + byte_lanes <= end; k += byte_lanes) f(k, std::size_t(0));
  if (k < end) f(end - byte_lanes, k + byte_lanes - end);
}

/* Zeros in the first `skip` places. */
inline Byte16 without(Byte16 x, std::size_t skip) {
  static const unsigned char keep[32] = {0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,
                                         255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
  return _mm_and_si128(x, bytes_at(keep + byte_lanes - skip));
}

/* What is added up of an element; a zero adds nothing. */
struct Itself {
  Byte16 operator()(Byte16 x) const { return x; }
  unsigned operator()(unsigned char x) const { return x; }
};
struct IsNonzero {
  Byte16 operator()(Byte16 x) const { return _mm_min_epu8(x, _mm_set1_epi8(1)); }
  unsigned operator()(unsigned char x) const { return x != 0 ? 1U : 0U; }
};

/* Calls f(element, place, number of the line) where lines are too short for all else. */
template <class F>
inline void each_byte(const Rectangle<Bytes>& all, F f) {
  for (std::size_t r = 0; r < all.height; ++r) {
    for (std::size_t k = all.begin; k < all.end; ++k) f(all.line[r][k], k, r);
  }
}

inline bool is_slim(const Rectangle<Bytes>& all) { return all.end - all.begin < byte_lanes; }

/* Lanes of 16 bits hold the sums of 256 lines. */
template <class Map, class Out>
void add_bytes_fast(const Rectangle<Bytes>& all, Map map, Out* of_fast) {
  if (is_slim(all)) return each_byte(all, [&](unsigned char x, std::size_t k, std::size_t) { of_fast[k] += map(x); });
  const Byte16 zero = _mm_setzero_si128();
  for (std::size_t from = 0; from < all.height; from += block_lines) {
    const std::size_t to = std::min(all.height, from + block_lines);
    each_16(all.begin, all.end, [&](std::size_t k, std::size_t skip) {
      Byte16 low = zero, high = zero;
      for (std::size_t r = from; r < to; ++r) {
        const Byte16 x = map(bytes_at(all.line[r] + k));
        low = _mm_add_epi16(low, _mm_unpacklo_epi8(x, zero));
        high = _mm_add_epi16(high, _mm_unpackhi_epi8(x, zero));
      }
      std::uint16_t sum[byte_lanes];
      bytes_to(sum, low);
      bytes_to(sum + byte_lanes / 2, high);
      for (std::size_t i = skip; i < byte_lanes; ++i) of_fast[k + i] += sum[i];
    });
  }
}

template <class Map, class Out>
void add_bytes_slow(const Rectangle<Bytes>& all, Map map, Out* of_slow, std::size_t step) {
  if (is_slim(all)) {
    return each_byte(all, [&](unsigned char x, std::size_t, std::size_t r) { of_slow[r * step] += map(x); });
  }
  const Byte16 zero = _mm_setzero_si128();
  for (std::size_t r = 0; r < all.height; ++r) {
    Byte16 sum = zero;
    each_16(all.begin, all.end, [&](std::size_t k, std::size_t skip) {
      const Byte16 x = map(bytes_at(all.line[r] + k));
      sum = _mm_add_epi64(sum, _mm_sad_epu8(skip > 0 ? without(x, skip) : x, zero));
    });
    std::uint64_t both[2];
    bytes_to(both, sum);
    of_slow[r * step] += static_cast<std::int64_t>(both[0] + both[1]);
  }
}

/* Two lines at a time, the elements of a column side by side. */
template <class Out>
void square_bytes_fast(const Rectangle<Bytes>& all, Out* of_fast) {
  if (is_slim(all)) {
    return each_byte(all, [&](unsigned char x, std::size_t k, std::size_t) { of_fast[k] += unsigned(x) * x; });
  }
  const Byte16 zero = _mm_setzero_si128();
  for (std::size_t from = 0; from < all.height; from += block_lines) {
    const std::size_t to = std::min(all.height, from + block_lines);
    each_16(all.begin, all.end, [&](std::size_t k, std::size_t skip) {
      Byte16 sum[4] = {zero, zero, zero, zero};
      const auto add = [&](Byte16& to, Byte16 x) { to = _mm_add_epi32(to, _mm_madd_epi16(x, x)); };
      for (std::size_t r = from; r < to; r += 2) {
        const Byte16 a = bytes_at(all.line[r] + k), b = r + 1 < to ? bytes_at(all.line[r + 1] + k) : zero;
        const Byte16 low = _mm_unpacklo_epi8(a, b), high = _mm_unpackhi_epi8(a, b);
        add(sum[0], _mm_unpacklo_epi8(low, zero));
        add(sum[1], _mm_unpackhi_epi8(low, zero));
        add(sum[2], _mm_unpacklo_epi8(high, zero));
        add(sum[3], _mm_unpackhi_epi8(high, zero));
      }
      std::uint32_t each[byte_lanes];
      for (std::size_t i = 0; i < 4; ++i) bytes_to(each + 4 * i, sum[i]);
      for (std::size_t i = skip; i < byte_lanes; ++i) of_fast[k + i] += each[i];
    });
  }
}

template <class Out>
void square_bytes_slow(const Rectangle<Bytes>& all, Out* of_slow, std::size_t step) {
  if (is_slim(all)) {
    return each_byte(all, [&](unsigned char x, std::size_t, std::size_t r) { of_slow[r * step] += unsigned(x) * x; });
  }
  const Byte16 zero = _mm_setzero_si128();
  /* Lanes of 32 bits hold the squares of so many places. */
  const std::size_t most = std::size_t(1) << 16;
  for (std::size_t begin = all.begin; begin < all.end; begin += most) {
    const std::size_t end = std::min(all.end, begin + most);
    for (std::size_t r = 0; r < all.height; ++r) {
      Byte16 sum = zero;
      each_16(begin, end, [&](std::size_t k, std::size_t skip) {
        const Byte16 all_of_it = bytes_at(all.line[r] + k), x = skip > 0 ? without(all_of_it, skip) : all_of_it;
        const Byte16 low = _mm_unpacklo_epi8(x, zero), high = _mm_unpackhi_epi8(x, zero);
        sum = _mm_add_epi32(sum, _mm_add_epi32(_mm_madd_epi16(low, low), _mm_madd_epi16(high, high)));
      });
      std::uint32_t four[4];
      bytes_to(four, sum);
      for (std::size_t i = 0; i < 4; ++i) of_slow[r * step] += four[i];
    }
  }
}

template <class Out>
inline void widen_range(Out* low, Out* high, unsigned l, unsigned h) {
  *low = std::min(*low, static_cast<Out>(l));
  *high = std::max(*high, static_cast<Out>(h));
}

/* Elements that come twice do no harm. */
template <class Out>
void range_bytes_fast(const Rectangle<Bytes>& all, Out* low, Out* high) {
  if (is_slim(all)) {
    return each_byte(all, [&](unsigned char x, std::size_t k, std::size_t) { widen_range(low + k, high + k, x, x); });
  }
  each_16(all.begin, all.end, [&](std::size_t k, std::size_t) {
    Byte16 least = bytes_at(all.line[0] + k), most = least;
    for (std::size_t r = 1; r < all.height; ++r) {
      const Byte16 x = bytes_at(all.line[r] + k);
      least = _mm_min_epu8(least, x);
      most = _mm_max_epu8(most, x);
    }
    unsigned char l[byte_lanes], h[byte_lanes];
    bytes_to(l, least);
    bytes_to(h, most);
    for (std::size_t i = 0; i < byte_lanes; ++i) widen_range(low + k + i, high + k + i, l[i], h[i]);
  });
}

template <class Out>
void range_bytes_slow(const Rectangle<Bytes>& all, Out* low, Out* high, std::size_t step) {
  if (is_slim(all)) {
    return each_byte(all, [&](unsigned char x, std::size_t, std::size_t r) {
      widen_range(low + r * step, high + r * step, x, x);
    });
  }
  for (std::size_t r = 0; r < all.height; ++r) {
    Byte16 least = bytes_at(all.line[r] + all.begin), most = least;
    each_16(all.begin, all.end, [&](std::size_t k, std::size_t) {
      const Byte16 x = bytes_at(all.line[r] + k);
      least = _mm_min_epu8(least, x);
      most = _mm_max_epu8(most, x);
    });
    least = _mm_min_epu8(least, _mm_srli_si128(least, 8));
    most = _mm_max_epu8(most, _mm_srli_si128(most, 8));
    least = _mm_min_epu8(least, _mm_srli_si128(least, 4));
    most = _mm_max_epu8(most, _mm_srli_si128(most, 4));
    least = _mm_min_epu8(least, _mm_srli_si128(least, 2));
    most = _mm_max_epu8(most, _mm_srli_si128(most, 2));
    least = _mm_min_epu8(least, _mm_srli_si128(least, 1));
    most = _mm_max_epu8(most, _mm_srli_si128(most, 1));
    widen_range(low + r * step, high + r * step, unsigned(_mm_cvtsi128_si32(least)) & 255U,
                unsigned(_mm_cvtsi128_si32(most)) & 255U);
  }
}

/* Numbers of 32 bits as bytes; false if one of them is none. */
inline bool narrow_line(const unsigned char* from, std::size_t count, unsigned char* to) {
  std::uint32_t bits = 0;
  if (count < byte_lanes) {
    for (std::size_t k = 0; k < count; ++k) {
      std::uint32_t x;
      std::memcpy(&x, from + 4 * k, sizeof x);
      bits |= x;
      to[k] = static_cast<unsigned char>(x);
    }
    return bits < 256;
  }
  Byte16 found = _mm_setzero_si128();
  each_16(0, count, [&](std::size_t k, std::size_t) {
    const unsigned char* const at = from + 4 * k;
    const Byte16 a = bytes_at(at), b = bytes_at(at + 16), c = bytes_at(at + 32), d = bytes_at(at + 48);
    found = _mm_or_si128(found, _mm_or_si128(_mm_or_si128(a, b), _mm_or_si128(c, d)));
    bytes_to(to + k, _mm_packus_epi16(_mm_packs_epi32(a, b), _mm_packs_epi32(c, d)));
  });
  std::uint32_t four[4];
  bytes_to(four, found);
  for (std::uint32_t one : four) bits |= one;
  return bits < 256;
}

/* Whether all are zero. */
inline bool all_zero(const unsigned char* at, std::size_t count) {
  Byte16 found = _mm_setzero_si128();
  std::size_t k = 0;
  for (; k + 4 * byte_lanes <= count; k += 4 * byte_lanes) {
    const Byte16 a = _mm_or_si128(bytes_at(at + k), bytes_at(at + k + 16));
    const Byte16 b = _mm_or_si128(bytes_at(at + k + 32), bytes_at(at + k + 48));
    found = _mm_or_si128(found, _mm_or_si128(a, b));
  }
  unsigned char bits = 0;
  for (; k < count; ++k) bits = static_cast<unsigned char>(bits | at[k]);
  return bits == 0 && _mm_movemask_epi8(_mm_cmpeq_epi8(found, _mm_setzero_si128())) == 0xffff;
}
#endif

}  // namespace h5
}  // namespace regatta

#endif
