#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "fuzz.hpp"
#include "h5-decode.hpp"
#include "h5-pack.hpp"
#include "h5-stream.hpp"

/* A stored chunk that may have any bytes: decoded at once and part by part, packed and unpacked. The input tells the
   filters, the size of an element, how many there are and which filters were left out; the rest is what is stored, or
   what is still to be compressed. */

using namespace regatta::h5;

namespace {

struct Case {
  std::vector<Filter> filters;
  std::size_t element, bytes;
  std::uint32_t mask;
  std::vector<unsigned char> stored;
};

Case read_case(Input input) {
  Case one;
  const unsigned which = input.byte();
  one.element = 1 + input.byte() % 9;
  one.bytes = one.element * (input.two() % 4097);
  one.mask = input.byte() & input.byte();
  const unsigned element = which & 64 ? input.byte() : static_cast<unsigned>(one.element);
  if (which & 1) one.filters.push_back(Filter{filter_shuffle, {element}});
  if (which & 2) one.filters.push_back(Filter{filter_deflate, {6}});
  if (which & 4) one.filters.push_back(Filter{filter_lzf, {}});
  if (which & 8) one.filters.push_back(Filter{filter_fletcher32, {}});
  if (which & 16) std::reverse(one.filters.begin(), one.filters.end());
  one.stored.assign(input.rest(), input.rest() + input.left());
  if (which & 32) {
    uLongf size = compressBound(static_cast<uLong>(input.left()));
    one.stored.resize(size);
    must(compress2(one.stored.data(), &size, input.rest(), static_cast<uLong>(input.left()), 6) == Z_OK, "zlib compresses");
    one.stored.resize(size);
    if (which & 128) one.bytes = input.left() / one.element * one.element;
  }
  return one;
}

/* Part by part, in steps that are the input's; whether all of it was fine. */
bool read_stream(const Case& one, std::vector<unsigned char>* to) {
  const auto read = [&](unsigned char* into, std::size_t size, std::uint64_t at) {
    must(at <= one.stored.size() && size <= one.stored.size() - at, "a stream stays within what is stored");
    std::memcpy(into, one.stored.data() + at, size);
  };
  ChunkStream stream(read, 0, one.stored.size(), one.filters, one.mask, one.bytes);
  to->assign(one.bytes, 0);
  const std::size_t step = one.element * (1 + one.bytes / one.element / 3);
  for (std::size_t at = 0; at < one.bytes; at += step) {
    const DecodeResult result = stream.read(at, std::min(step, one.bytes - at), to->data() + at);
    if (result.how != Decoded::fine) return false;
  }
  return true;
}

void try_unshuffle(const unsigned char* from, std::size_t size, std::size_t element) {
  std::vector<unsigned char> to(size);
  unshuffle(from, size, element, to.data());
  const std::size_t count = size / element;
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t at = i < count * element ? i % element * count + i / element : i;
    must(to[i] == from[at], "unshuffle() puts each byte where it belongs");
  }
}

void try_packing(const unsigned char* from, std::size_t size) {
  Packing packing;
  for (std::size_t element : {1, 2, 4, 8}) {
    const std::size_t count = size / element;
    if (count == 0) continue;
    for (Kind kind : {Kind::whole_signed, Kind::whole_unsigned, Kind::real}) {
      std::vector<unsigned char> again(count * element);
      pack(from, count, element, kind, &packing);
      const std::vector<unsigned char> packed = packing.packed;
      unpack(packed.data(), count, element, kind, &packing, again.data());
      must(std::equal(again.begin(), again.end(), from), "what is packed comes back as it was");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Case one = read_case(Input(data, size));
  if (!one.stored.empty()) {
    try_unshuffle(one.stored.data(), one.stored.size(), one.element);
    try_packing(one.stored.data(), one.stored.size());
  }
  if (!can_decode(one.filters) || one.bytes == 0) return 0;
  static Decoder decoder;
  const unsigned char* out = nullptr;
  const DecodeResult result =
      decoder.decode(one.filters, one.mask, one.stored.data(), one.stored.size(), one.bytes, &out);
  const bool fine = result.how == Decoded::fine;
  std::vector<unsigned char> whole, parts;
  if (fine) {
    ++inputs_read();
    whole.assign(out, out + one.bytes);
    try_packing(whole.data(), whole.size());
  }
  /* Matrices read by parts only what was shuffled by elements of the size that they have. */
  for (const Filter& filter : one.filters) {
    if (filter.id == filter_shuffle && filter.values[0] != one.element) return 0;
  }
  if (!can_stream(one.filters)) return 0;
  const bool streamed = read_stream(one, &parts);
  must(streamed == fine, "part by part as at once: fine or not");
  if (fine) must(parts == whole, "part by part as at once: the same bytes");
  return 0;
}
