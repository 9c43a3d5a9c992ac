#include "h5-pack.hpp"

#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>

/* The layout: a header; for chunks with many zeros a bit for each element, set where it is not zero; then
   the elements, or those that are not zero. They are stored as they are, or as distances from the least of
   them, each in so many bits, if 32 are enough. Bits stand as SIMD reads them: of 128 numbers, those whose
   places are equal modulo 4 lie one behind the other in one of the four 32-bit lanes of 16-byte vectors
   (Lemire and Boytsov 2015, Decoding billions of integers per second through vectorization). */

namespace regatta {
namespace h5 {

namespace {

typedef std::uint32_t Lanes __attribute__((vector_size(16)));

const std::size_t block = 128, vectors = block / 4;

struct Header {
  std::uint64_t base;   /* the least element */
  std::uint32_t stored; /* how many elements stand there */
  std::uint8_t raw;     /* as they are */
  std::uint8_t width;   /* bits of each, if not raw */
  std::uint8_t whole;   /* floating-point numbers as whole numbers of 32 bits */
  std::uint8_t gaps;    /* with a bit for each element; zeros are not stored */
};
static_assert(sizeof(Header) == 16, "vectors follow");
static_assert(offsetof(Header, base) == 0 && offsetof(Header, stored) == 8 && offsetof(Header, raw) == 12 &&
                  offsetof(Header, width) == 13 && offsetof(Header, whole) == 14 && offsetof(Header, gaps) == 15,
              "processes share them");

std::size_t bitmap_bytes(std::size_t count) { return (count + 127) / 128 * 16; }
std::size_t packed_bytes(std::size_t count, unsigned width) {
  return (count + block - 1) / block * width * sizeof(Lanes);
}

Lanes load_lanes(const unsigned char* from) {
  Lanes x;
  std::memcpy(&x, from, sizeof x);
  return x;
}
void store_lanes(unsigned char* to, Lanes x) { std::memcpy(to, &x, sizeof x); }

unsigned bits_for(std::uint64_t most) {
  unsigned width = 0;
  while (width < 64 && most >> width) ++width;
  return width;
}

void pack_block(const std::uint32_t* from, unsigned width, unsigned char* to) {
  Lanes now = {0, 0, 0, 0};
  unsigned used = 0;
  for (std::size_t k = 0; k < vectors && width > 0; ++k) {
    const Lanes x = load_lanes(reinterpret_cast<const unsigned char*>(from + 4 * k));
    now |= x << used;
    used += width;
    if (used < 32) continue;
    store_lanes(to, now);
    to += sizeof now;
    used -= 32;
    now = used > 0 ? x >> (width - used) : Lanes{0, 0, 0, 0};
  }
}

void unpack_block(const unsigned char* from, unsigned width, std::uint32_t base, std::uint32_t* to) {
  const std::uint32_t most = width == 32 ? UINT32_MAX : (std::uint32_t(1) << width) - 1;
  const Lanes mask = {most, most, most, most}, least = {base, base, base, base};
  Lanes now = {0, 0, 0, 0};
  unsigned left = 0;
  for (std::size_t k = 0; k < vectors; ++k) {
    Lanes x;
    if (left >= width) {
      x = now & mask;
      now = now >> width;
      left -= width;
    } else {
      const Lanes next = load_lanes(from);
      from += sizeof next;
      x = (now | (next << left)) & mask;
      const unsigned taken = width - left;
      now = taken < 32 ? next >> taken : Lanes{0, 0, 0, 0};
      left = 32 - taken;
    }
    store_lanes(reinterpret_cast<unsigned char*>(to + 4 * k), x + least);
  }
}

/* Elements as distances from the least, and back. T has the signs that make the distances small. */
template <class T>
void pack_numbers(const T* from, std::size_t count, const Header& header, unsigned char* to) {
  if (header.raw) {
    std::memcpy(to, from, count * sizeof(T));
    return;
  }
  const T base = static_cast<T>(header.base);
  std::uint32_t some[block];
  for (std::size_t k = 0; k < count; k += block) {
    const std::size_t n = count - k < block ? count - k : block;
    typedef typename std::make_unsigned<T>::type Bits;
    for (std::size_t i = 0; i < n; ++i) {
      some[i] = static_cast<std::uint32_t>(static_cast<Bits>(static_cast<Bits>(from[k + i]) - static_cast<Bits>(base)));
    }
    for (std::size_t i = n; i < block; ++i) some[i] = 0;
    pack_block(some, header.width, to);
    to += header.width * sizeof(Lanes);
  }
}

template <class T, class Out>
void unpack_numbers(const unsigned char* from, std::size_t count, const Header& header, Out* to) {
  if (header.raw) {
    std::memcpy(to, from, count * sizeof(T));
    return;
  }
  typedef typename std::make_unsigned<T>::type Bits;
  const Bits base = static_cast<Bits>(header.base);
  const bool narrow = sizeof(T) <= 4;
  std::uint32_t some[block];
  std::size_t k = 0;
  for (; k + block <= count; k += block) {
    if (sizeof(T) == 4 && std::is_same<T, Out>::value) {
      unpack_block(from, header.width, static_cast<std::uint32_t>(base), reinterpret_cast<std::uint32_t*>(to + k));
    } else {
      unpack_block(from, header.width, narrow ? static_cast<std::uint32_t>(base) : 0, some);
      for (std::size_t i = 0; i < block; ++i) {
        const Bits bits = static_cast<Bits>(narrow ? some[i] : static_cast<Bits>(some[i]) + base);
        to[k + i] = static_cast<Out>(static_cast<T>(bits));
      }
    }
    from += header.width * sizeof(Lanes);
  }
  if (k == count) return;
  unpack_block(from, header.width, narrow ? static_cast<std::uint32_t>(base) : 0, some);
  for (std::size_t i = 0; k + i < count; ++i) {
    const Bits bits = static_cast<Bits>(narrow ? some[i] : static_cast<Bits>(some[i]) + base);
    to[k + i] = static_cast<Out>(static_cast<T>(bits));
  }
}

/* Least and greatest of all, and of those that are not zero. */
template <class T>
struct Extremes {
  T low, high, low_rest, high_rest;
  std::size_t rest;
};

template <class T>
Extremes<T> extremes_of(const T* from, std::size_t count) {
  const T least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  Extremes<T> found = {most, least, most, least, 0};
  for (std::size_t k = 0; k < count; ++k) {
    const T x = from[k];
    const bool zero = x == 0;
    const T low = zero ? most : x, high = zero ? least : x;
    found.low_rest = low < found.low_rest ? low : found.low_rest;
    found.high_rest = high > found.high_rest ? high : found.high_rest;
    found.rest += !zero;
  }
  found.low = found.low_rest;
  found.high = found.high_rest;
  if (found.rest < count) {
    if (found.low > 0) found.low = 0;
    if (found.high < 0) found.high = 0;
  }
  return found;
}

template <class T>
void pack_whole(const T* from, std::size_t count, bool was_real, Packing* packing) {
  typedef typename std::make_unsigned<T>::type Bits;
  const Extremes<T> found = extremes_of(from, count);
  const auto width_of = [](T low, T high) {
    return high < low ? 0U : bits_for(static_cast<Bits>(static_cast<Bits>(high) - static_cast<Bits>(low)));
  };
  const unsigned width = width_of(found.low, found.high), width_rest = width_of(found.low_rest, found.high_rest);
  const auto bytes_of = [](std::size_t n, unsigned bits) {
    return bits > 32 ? n * sizeof(T) : packed_bytes(n, bits);
  };
  const std::size_t dense = bytes_of(count, width);
  const std::size_t sparse = bitmap_bytes(count) + bytes_of(found.rest, width_rest);
  Header header;
  header.whole = was_real;
  header.gaps = sparse < dense - dense / 8;
  const unsigned chosen = header.gaps ? width_rest : width;
  header.raw = chosen > 32;
  header.width = static_cast<std::uint8_t>(header.raw ? 0 : chosen);
  header.base = static_cast<std::uint64_t>(header.gaps ? found.low_rest : found.low);
  header.stored = static_cast<std::uint32_t>(header.gaps ? found.rest : count);
  packing->packed.resize(sizeof header + (header.gaps ? sparse : dense));
  unsigned char* to = packing->packed.data();
  std::memcpy(to, &header, sizeof header);
  to += sizeof header;
  if (!header.gaps) {
    pack_numbers(from, count, header, to);
    return;
  }
  std::memset(to, 0, bitmap_bytes(count));
  packing->rest.resize(found.rest * sizeof(T));
  T* rest = reinterpret_cast<T*>(packing->rest.data());
  for (std::size_t k = 0; k < count; ++k) {
    if (from[k] == 0) continue;
    to[k / 8] = static_cast<unsigned char>(to[k / 8] | 1U << k % 8);
    *rest++ = from[k];
  }
  pack_numbers(reinterpret_cast<const T*>(packing->rest.data()), found.rest, header, to + bitmap_bytes(count));
}

/* Whether all are whole numbers of 32 bits, none of them a negative zero. */
template <class Real>
bool as_whole(const Real* from, std::size_t count, std::int32_t* to) {
  const Real most = 2147483520; /* the greatest that float has */
  bool same = true;
  for (std::size_t k = 0; k < count; ++k) {
    const Real x = from[k];
    const std::int32_t near = x >= -most && x <= most ? static_cast<std::int32_t>(x) : 0;
    const Real back = static_cast<Real>(near);
    same &= std::memcmp(&back, &x, sizeof x) == 0;
    to[k] = near;
    if (k % 1024 == 1023 && !same) return false;
  }
  return same;
}

/* Floating-point numbers: as whole ones if they are, else as their bits. */
template <class Real, class Bits>
void pack_real(const unsigned char* elements, std::size_t count, Packing* packing) {
  packing->whole.resize(count);
  if (as_whole(reinterpret_cast<const Real*>(elements), count, packing->whole.data())) {
    pack_whole(packing->whole.data(), count, true, packing);
  } else {
    pack_whole(reinterpret_cast<const Bits*>(elements), count, false, packing);
  }
}

template <class T, class Out>
void unpack_whole(const unsigned char* from, const Header& header, std::size_t count, Packing* packing, Out* to) {
  if (!header.gaps) {
    unpack_numbers<T>(from, count, header, to);
    return;
  }
  packing->rest.resize((header.stored + block) * sizeof(Out));
  Out* rest = reinterpret_cast<Out*>(packing->rest.data());
  unpack_numbers<T>(from + bitmap_bytes(count), header.stored, header, rest);
  std::memset(to, 0, count * sizeof(Out));
  for (std::size_t k = 0; k < count; k += 64) {
    std::uint64_t bits;
    std::memcpy(&bits, from + k / 8, sizeof bits);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    bits = __builtin_bswap64(bits);
#endif
    for (; bits; bits &= bits - 1) to[k + static_cast<std::size_t>(__builtin_ctzll(bits))] = *rest++;
  }
}

template <class Real, class Bits>
void unpack_real(const unsigned char* from, const Header& header, std::size_t count, Packing* packing,
                 unsigned char* to) {
  if (header.whole) {
    unpack_whole<std::int32_t>(from, header, count, packing, reinterpret_cast<Real*>(to));
  } else {
    unpack_whole<Bits>(from, header, count, packing, reinterpret_cast<Bits*>(to));
  }
}

template <class Signed, class Unsigned>
void pack_as(const unsigned char* elements, std::size_t count, Kind kind, Packing* packing) {
  if (kind == Kind::whole_signed) {
    pack_whole(reinterpret_cast<const Signed*>(elements), count, false, packing);
  } else {
    pack_whole(reinterpret_cast<const Unsigned*>(elements), count, false, packing);
  }
}

template <class Signed, class Unsigned>
void unpack_as(const unsigned char* from, const Header& header, std::size_t count, Kind kind, Packing* packing,
               unsigned char* to) {
  if (kind == Kind::whole_signed) {
    unpack_whole<Signed>(from, header, count, packing, reinterpret_cast<Signed*>(to));
  } else {
    unpack_whole<Unsigned>(from, header, count, packing, reinterpret_cast<Unsigned*>(to));
  }
}

}  // namespace

void pack(const unsigned char* elements, std::size_t count, std::size_t size, Kind kind, Packing* packing) {
  switch (size) {
    case 1: return pack_as<std::int8_t, std::uint8_t>(elements, count, kind, packing);
    case 2: return pack_as<std::int16_t, std::uint16_t>(elements, count, kind, packing);
    case 4:
      if (kind == Kind::real) return pack_real<float, std::uint32_t>(elements, count, packing);
      return pack_as<std::int32_t, std::uint32_t>(elements, count, kind, packing);
    default:
      if (kind == Kind::real) return pack_real<double, std::uint64_t>(elements, count, packing);
      return pack_as<std::int64_t, std::uint64_t>(elements, count, kind, packing);
  }
}

void unpack(const unsigned char* packed, std::size_t count, std::size_t size, Kind kind, Packing* packing,
            unsigned char* elements) {
  Header header;
  std::memcpy(&header, packed, sizeof header);
  packed += sizeof header;
  switch (size) {
    case 1: return unpack_as<std::int8_t, std::uint8_t>(packed, header, count, kind, packing, elements);
    case 2: return unpack_as<std::int16_t, std::uint16_t>(packed, header, count, kind, packing, elements);
    case 4:
      if (kind == Kind::real) return unpack_real<float, std::uint32_t>(packed, header, count, packing, elements);
      return unpack_as<std::int32_t, std::uint32_t>(packed, header, count, kind, packing, elements);
    default:
      if (kind == Kind::real) return unpack_real<double, std::uint64_t>(packed, header, count, packing, elements);
      return unpack_as<std::int64_t, std::uint64_t>(packed, header, count, kind, packing, elements);
  }
}

}  // namespace h5
}  // namespace regatta
