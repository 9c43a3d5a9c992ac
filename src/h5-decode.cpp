#include "h5-decode.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#if defined(REGATTA_WITH_LIBDEFLATE)
#include <libdeflate.h>
#elif defined(REGATTA_WITH_ZLIB)
#include <zlib.h>
#endif
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace regatta {
namespace h5 {

namespace {

DecodeResult failed(Decoded how, int filter, std::size_t got = 0, std::size_t wanted = 0) {
  return DecodeResult{how, filter, got, wanted};
}

DecodeResult fine() { return failed(Decoded::fine, 0); }

void unshuffle_any(const unsigned char* from, std::size_t count, std::size_t element,
                   std::size_t begin, unsigned char* to) {
  for (std::size_t b = 0; b < element; ++b) {
    const unsigned char* const plane = from + b * count;
    for (std::size_t i = begin; i < count; ++i) to[i * element + b] = plane[i];
  }
}

#if defined(__SSE2__)
__m128i load(const unsigned char* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}
void store(unsigned char* at, __m128i value) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(at), value);
}

/* Sixteen elements at a time; each returns how many elements are done. */
std::size_t unshuffle_2(const unsigned char* from, std::size_t count, unsigned char* to) {
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m128i low = load(from + i), high = load(from + count + i);
    store(to + 2 * i, _mm_unpacklo_epi8(low, high));
    store(to + 2 * i + 16, _mm_unpackhi_epi8(low, high));
  }
  return i;
}

std::size_t unshuffle_4(const unsigned char* from, std::size_t count, unsigned char* to) {
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m128i a = load(from + i), b = load(from + count + i);
    const __m128i c = load(from + 2 * count + i), d = load(from + 3 * count + i);
    const __m128i ab0 = _mm_unpacklo_epi8(a, b), ab1 = _mm_unpackhi_epi8(a, b);
    const __m128i cd0 = _mm_unpacklo_epi8(c, d), cd1 = _mm_unpackhi_epi8(c, d);
    unsigned char* const at = to + 4 * i;
    store(at, _mm_unpacklo_epi16(ab0, cd0));
    store(at + 16, _mm_unpackhi_epi16(ab0, cd0));
    store(at + 32, _mm_unpacklo_epi16(ab1, cd1));
    store(at + 48, _mm_unpackhi_epi16(ab1, cd1));
  }
  return i;
}

std::size_t unshuffle_8(const unsigned char* from, std::size_t count, unsigned char* to) {
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    __m128i pair[2][4], quad[4][2];
    for (int k = 0; k < 4; ++k) {
      const __m128i a = load(from + (2 * k) * count + i), b = load(from + (2 * k + 1) * count + i);
      pair[0][k] = _mm_unpacklo_epi8(a, b);
      pair[1][k] = _mm_unpackhi_epi8(a, b);
    }
    for (int half = 0; half < 2; ++half) {
      for (int k = 0; k < 2; ++k) {
        quad[2 * half][k] = _mm_unpacklo_epi16(pair[half][2 * k], pair[half][2 * k + 1]);
        quad[2 * half + 1][k] = _mm_unpackhi_epi16(pair[half][2 * k], pair[half][2 * k + 1]);
      }
    }
    for (int q = 0; q < 4; ++q) {
      unsigned char* const at = to + 8 * i + 32 * q;
      store(at, _mm_unpacklo_epi32(quad[q][0], quad[q][1]));
      store(at + 16, _mm_unpackhi_epi32(quad[q][0], quad[q][1]));
    }
  }
  return i;
}
#endif

DecodeResult check_fletcher32(const unsigned char* data, std::size_t* size) {
  if (*size < 4) return failed(Decoded::too_short, filter_fletcher32, *size, 4);
  *size -= 4;
  Fletcher32 sum;
  sum.add(data, *size);
  return sum.is(data + *size) ? fine() : failed(Decoded::checksum, filter_fletcher32);
}

bool compresses(const Filter& filter) { return filter.id == filter_deflate || filter.id == filter_lzf; }

/* A bit of the mask tells that a filter was left out when the chunk was written. */
bool was_used(std::size_t filter, std::uint32_t mask) { return filter >= 32 || !(mask >> filter & 1U); }

/* The format of liblzf: a control byte says how many bytes follow as they are (below 32), or how many
   to repeat (its upper three bits, 7: one more byte to add) from how far back (lower five and the next
   byte). */
DecodeResult decode_lzf(const unsigned char* from, std::size_t size, unsigned char* to,
                        std::size_t wanted) {
  const DecodeResult bad = failed(Decoded::damaged, filter_lzf);
  std::size_t at = 0, done = 0;
  while (at < size) {
    const unsigned control = from[at++];
    if (control < 32) {
      const std::size_t count = control + 1;
      if (count > size - at) return bad;
      if (count > wanted - done) return failed(Decoded::too_long, filter_lzf, done + count, wanted);
      std::memcpy(to + done, from + at, count);
      at += count;
      done += count;
      continue;
    }
    std::size_t count = control >> 5;
    if (count == 7) {
      if (at == size) return bad;
      count += from[at++];
    }
    count += 2;
    if (at == size) return bad;
    const std::size_t back = ((control & 31U) << 8 | from[at++]) + 1;
    if (back > done) return bad;
    if (count > wanted - done) return failed(Decoded::too_long, filter_lzf, done + count, wanted);
    /* What is repeated may reach into what it makes. */
    for (std::size_t k = 0; k < count; ++k, ++done) to[done] = to[done - back];
  }
  return done == wanted ? fine() : failed(Decoded::too_short, filter_lzf, done, wanted);
}

}  // namespace

void unshuffle(const unsigned char* from, std::size_t size, std::size_t element,
               unsigned char* to) {
  const std::size_t count = size / std::max<std::size_t>(element, 1);
  /* One element, or none, is as it was. A damaged file may say that elements are of any size. */
  if (count < 2 || element < 2) {
    std::copy(from, from + size, to);
    return;
  }
  std::size_t done = 0;
#if defined(__SSE2__)
  if (element == 2) done = unshuffle_2(from, count, to);
  if (element == 4) done = unshuffle_4(from, count, to);
  if (element == 8) done = unshuffle_8(from, count, to);
#endif
  unshuffle_any(from, count, element, done, to);
  /* What does not fill an element is stored behind the planes as it is. */
  std::copy(from + count * element, from + size, to + count * element);
}

void swap_bytes(unsigned char* data, std::size_t count, std::size_t element) {
  if (element < 2) return;
  for (std::size_t i = 0; i < count; ++i) {
    std::reverse(data + i * element, data + (i + 1) * element);
  }
}

void Fletcher32::fold() {
  one_ = (one_ & 0xffff) + (one_ >> 16);
  two_ = (two_ & 0xffff) + (two_ >> 16);
}

void Fletcher32::add(const unsigned char* data, std::size_t size) {
  std::size_t words = size / 2;
  while (words > 0) {
    /* 360 words are the most that cannot overflow 32 bits. */
    std::size_t part = std::min<std::size_t>(words, 360);
    words -= part;
    for (; part > 0; --part, data += 2) {
      one_ += static_cast<std::uint32_t>(data[0] << 8 | data[1]);
      two_ += one_;
    }
    fold();
  }
  if (size % 2 == 1) {
    one_ += static_cast<std::uint32_t>(*data) << 8;
    two_ += one_;
    fold();
  }
}

bool Fletcher32::is(const unsigned char* at) const {
  Fletcher32 end = *this;
  end.fold();
  const std::uint32_t sum = end.two_ << 16 | end.one_;
  const std::uint32_t stored = static_cast<std::uint32_t>(at[0]) | static_cast<std::uint32_t>(at[1]) << 8 |
                               static_cast<std::uint32_t>(at[2]) << 16 | static_cast<std::uint32_t>(at[3]) << 24;
  /* Bytes swapped within each word, as old versions of the library wrote it on some machines; the library accepts
     both. */
  return stored == sum || stored == (((sum & 0x00ff00ffU) << 8) | ((sum >> 8) & 0x00ff00ffU));
}

bool can_decode(const std::vector<Filter>& filters) {
  /* How long the output of one that compresses is must be known: of the last of several it is not. */
  if (std::count_if(filters.begin(), filters.end(), compresses) > 1) return false;
  for (const Filter& filter : filters) {
    switch (filter.id) {
      case filter_shuffle:
        if (filter.values.empty()) return false;
        break;
      case filter_fletcher32:
      case filter_lzf:
        break;
#ifdef REGATTA_H5_INFLATES
      case filter_deflate:
        break;
#endif
      default:
        return false;
    }
  }
  return true;
}

const char* filter_name(int id) {
  switch (id) {
    case filter_deflate: return "deflate";
    case filter_shuffle: return "shuffle";
    case filter_fletcher32: return "fletcher32";
    case 4: return "szip";
    case 5: return "nbit";
    case 6: return "scaleoffset";
    case 307: return "bzip2";
    case filter_lzf: return "lzf";
    case 32001: return "blosc";
    case 32004: return "lz4";
    case 32008: return "bitshuffle";
    case 32013: return "zfp";
    case 32015: return "zstd";
    case 32026: return "blosc2";
    default: return "";
  }
}

#if defined(REGATTA_WITH_LIBDEFLATE)

Decoder::~Decoder() {
  if (inflater_) libdeflate_free_decompressor(inflater_);
}

DecodeResult Decoder::inflate(const unsigned char* from, std::size_t size, unsigned char* to,
                              std::size_t wanted) {
  if (!inflater_) inflater_ = libdeflate_alloc_decompressor();
  if (!inflater_) throw std::bad_alloc();
  std::size_t got = 0;
  switch (libdeflate_zlib_decompress(inflater_, from, size, to, wanted, &got)) {
    case LIBDEFLATE_SUCCESS:
      if (got < wanted) return failed(Decoded::too_short, filter_deflate, got, wanted);
      return fine();
    case LIBDEFLATE_INSUFFICIENT_SPACE:
      return failed(Decoded::too_long, filter_deflate, wanted + 1, wanted);
    default:
      break;
  }
  /* The header is two bytes, the checksum the last four: without them, is the stream valid? */
  const bool stream = size > 6 && libdeflate_deflate_decompress(inflater_, from + 2, size - 6, to,
                                                                wanted, &got) == LIBDEFLATE_SUCCESS;
  return failed(stream ? Decoded::checksum : Decoded::damaged, filter_deflate);
}

#elif defined(REGATTA_WITH_ZLIB)

Decoder::~Decoder() {}

DecodeResult Decoder::inflate(const unsigned char* from, std::size_t size, unsigned char* to,
                              std::size_t wanted) {
  z_stream stream;
  std::memset(&stream, 0, sizeof stream);
  if (inflateInit(&stream) != Z_OK) throw std::bad_alloc();
  stream.next_in = const_cast<unsigned char*>(from);
  stream.next_out = to;
  /* The counters of zlib have 32 bits, as the sizes of chunks do. */
  stream.avail_in = static_cast<uInt>(size);
  stream.avail_out = static_cast<uInt>(wanted);
  const int status = ::inflate(&stream, Z_FINISH);
  const bool sum = status == Z_DATA_ERROR && stream.msg &&
                   std::strcmp(stream.msg, "incorrect data check") == 0;
  const std::size_t got = stream.total_out;
  const bool full = stream.avail_out == 0;
  inflateEnd(&stream);
  if (status == Z_STREAM_END && got == wanted) return fine();
  if (status == Z_STREAM_END) return failed(Decoded::too_short, filter_deflate, got, wanted);
  if (sum) return failed(Decoded::checksum, filter_deflate);
  if (status == Z_BUF_ERROR && full) return failed(Decoded::too_long, filter_deflate, got + 1, wanted);
  return failed(Decoded::damaged, filter_deflate);
}

#else

Decoder::~Decoder() {}

DecodeResult Decoder::inflate(const unsigned char*, std::size_t, unsigned char*, std::size_t) {
  throw std::logic_error("deflate was to be decoded without a library for it");
}

#endif

DecodeResult Decoder::decode(const std::vector<Filter>& filters, std::uint32_t mask,
                             const unsigned char* stored, std::size_t size, std::size_t bytes,
                             const unsigned char** out) {
  const unsigned char* now = stored;
  for (std::size_t i = filters.size(); i-- > 0;) {
    if (!was_used(i, mask)) continue;
    const Filter& filter = filters[i];
    if (filter.id == filter_fletcher32) {
      const DecodeResult result = check_fletcher32(now, &size);
      if (result.how != Decoded::fine) return result;
      continue;
    }
    /* A checksum that was appended before this filter came is still to be taken off. Of what had been compressed by
       then any length may come. */
    std::size_t wanted = bytes;
    bool any = false;
    for (std::size_t k = 0; k < i; ++k) {
      if (!was_used(k, mask)) continue;
      if (filters[k].id == filter_fletcher32) wanted += 4;
      any = any || compresses(filters[k]);
    }
    if (any) wanted = size;
    std::vector<unsigned char>& to = now == first_.data() ? second_ : first_;
    if (to.size() < wanted) to.resize(wanted);
    if (compresses(filter)) {
      const DecodeResult result = filter.id == filter_lzf ? decode_lzf(now, size, to.data(), wanted)
                                                          : inflate(now, size, to.data(), wanted);
      if (result.how != Decoded::fine) return result;
      size = wanted;
    } else {
      if (size != wanted) {
        return failed(size < wanted ? Decoded::too_short : Decoded::too_long, filter.id, size, wanted);
      }
      if (filter.values[0] < 2) continue;
      unshuffle(now, size, filter.values[0], to.data());
    }
    now = to.data();
  }
  *out = now;
  if (size == bytes) return fine();
  const int last = filters.empty() ? 0 : filters[0].id;
  return failed(size < bytes ? Decoded::too_short : Decoded::too_long, last, size, bytes);
}

}  // namespace h5
}  // namespace regatta
