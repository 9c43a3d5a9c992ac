#ifndef REGATTA_H5_STREAM_HPP
#define REGATTA_H5_STREAM_HPP

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "h5-decode.hpp"

/* A chunk too large to be decoded at once, read from its begin to its end in little memory. */

namespace regatta {
namespace h5 {

/* Can chunks with these filters be read so? Shuffle, deflate and fletcher32 can, each at most once and in this
   order, as all writers have them. */
bool can_stream(const std::vector<Filter>& filters);

class ChunkStream {
 public:
  /* Reads so many bytes of the file from a place in it on. */
  typedef std::function<void(unsigned char* to, std::size_t size, std::uint64_t at)> Read;

  /* A chunk stored in `size` bytes at `at`, of elements that are `bytes` long together. */
  ChunkStream(Read read, std::uint64_t at, std::uint64_t size, const std::vector<Filter>& filters, std::uint32_t mask,
              std::uint64_t bytes);
  ~ChunkStream();

  /* Decodes `size` bytes from `begin` on, both multiples of an element's size, and not before those that were
     decoded last; what is between is skipped. */
  DecodeResult read(std::uint64_t begin, std::size_t size, unsigned char* to);

  std::uint64_t position() const { return position_; }

 private:
  class Cursor;
  DecodeResult begin();
  DecodeResult check_sum();

  Read read_;
  std::uint64_t at_, size_, bytes_, position_;
  bool deflated_, summed_, begun_;
  std::size_t element_;                          /* of the shuffle filter; 1: none */
  std::vector<std::unique_ptr<Cursor>> cursors_; /* one for each byte of an element */
  std::vector<unsigned char> planes_;
};

}  // namespace h5
}  // namespace regatta

#endif
