#ifndef REGATTA_H5_PACK_HPP
#define REGATTA_H5_PACK_HPP

#include <cstddef>
#include <cstdint>
#include <vector>

/* Elements in as few bits as they need: chunks that are kept in memory. Knows neither R nor libhdf5, so
   that any thread may call it. */

namespace regatta {
namespace h5 {

/* What a thread packs and unpacks with. */
struct Packing {
  std::vector<unsigned char> packed, rest;
  std::vector<std::int32_t> whole;
};

enum class Kind { whole_signed, whole_unsigned, real };

/* `count` elements of `size` bytes each, 1, 2, 4 or 8, into `packing.packed`. Of the bits of an element
   none is lost: that of a floating-point number comes back as it was. */
void pack(const unsigned char* elements, std::size_t count, std::size_t size, Kind kind, Packing* packing);

/* The same elements again, from what pack() has made of them. */
void unpack(const unsigned char* packed, std::size_t count, std::size_t size, Kind kind, Packing* packing,
            unsigned char* elements);

}  // namespace h5
}  // namespace regatta

#endif
