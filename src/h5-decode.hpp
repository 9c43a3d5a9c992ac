#ifndef REGATTA_H5_DECODE_HPP
#define REGATTA_H5_DECODE_HPP

#include <cstddef>
#include <cstdint>
#include <vector>

/* The filters of a chunk, undone: bytes in, bytes out. Knows neither R nor libhdf5, so that any
   thread may call it. */

#if defined(REGATTA_WITH_LIBDEFLATE) || defined(REGATTA_WITH_ZLIB)
#define REGATTA_H5_INFLATES 1
#endif

struct libdeflate_decompressor;

namespace regatta {
namespace h5 {

/* Numbers of HDF5's registry of filters. */
enum FilterId { filter_deflate = 1, filter_shuffle = 2, filter_fletcher32 = 3, filter_lzf = 32000 };

struct Filter {
  int id;
  std::vector<unsigned> values;
};

enum class Decoded {
  fine,
  checksum,  /* what was stored does not have the checksum that was stored with it */
  damaged,   /* no valid stream of this filter */
  too_short, /* of a length that the chunk cannot have */
  too_long
};

struct DecodeResult {
  Decoded how;
  int filter;         /* id of the filter that failed */
  std::size_t got;    /* bytes that came out, where their number is wrong */
  std::size_t wanted;
};

/* What a thread needs to decode chunks, one after another. */
class Decoder {
 public:
  Decoder() : inflater_(nullptr) {}
  Decoder(Decoder&& other) noexcept
      : inflater_(other.inflater_), first_(std::move(other.first_)), second_(std::move(other.second_)) {
    other.inflater_ = nullptr;
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder();

  /* Undoes the filters of a stored chunk whose elements are `bytes` long together, the last filter
     first. A filter whose bit is set in `mask` was left out when the chunk was written. `*out` is
     valid until the next call, or is `stored` itself if there was nothing to undo. */
  DecodeResult decode(const std::vector<Filter>& filters, std::uint32_t mask,
                      const unsigned char* stored, std::size_t size, std::size_t bytes,
                      const unsigned char** out);

 private:
  DecodeResult inflate(const unsigned char* from, std::size_t size, unsigned char* to,
                       std::size_t wanted);

  libdeflate_decompressor* inflater_;
  std::vector<unsigned char> first_, second_;
};

/* Puts the bytes of elements back together: all first bytes, all second ones ... come in. */
void unshuffle(const unsigned char* from, std::size_t size, std::size_t element, unsigned char* to);

/* Reverses the bytes of each element. */
void swap_bytes(unsigned char* data, std::size_t count, std::size_t element);

/* The checksum of HDF5's filter, over words of 16 bits with the high byte first. All parts but the last have an even
   number of bytes. */
class Fletcher32 {
 public:
  Fletcher32() : one_(0), two_(0) {}
  void add(const unsigned char* data, std::size_t size);
  /* Whether these four bytes are the checksum. */
  bool is(const unsigned char* stored) const;

 private:
  void fold();
  std::uint32_t one_, two_;
};

/* Can these filters be undone here? */
bool can_decode(const std::vector<Filter>& filters);

const char* filter_name(int id);

}  // namespace h5
}  // namespace regatta

#endif
