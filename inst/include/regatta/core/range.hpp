#ifndef REGATTA_CORE_RANGE_HPP
#define REGATTA_CORE_RANGE_HPP

#include <algorithm>
#include <atomic>

#include "config.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

using Unit = std::uint32_t;

struct Range {
  Unit first;
  Unit last;
  Unit size() const { return first < last ? last - first : 0; }
};

// The units of a loop that belong to one thread and have not been begun, in one word: whoever
// changes it takes units away from its front, so that each unit is taken exactly once, and a word
// that compares equal means the same units, however often it changed in between.
// All operations are relaxed: the word itself says all there is to know. What the units work on
// was published when the thread joined the loop, their results are when it leaves.
class RangeSlot {
 public:
  RangeSlot() : word_(0) { static_cast<void>(apart_); }

  void set(Range range) { word_.store(pack(range), std::memory_order_relaxed); }
  void clear() { set(Range{0, 0}); }
  Range peek() const { return unpack(word_.load(std::memory_order_relaxed)); }

  // Takes as many units from the front as `wish(size)` says, at least one; an empty range if
  // there is none.
  template <class Wish>
  Range take(const Wish& wish) {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    for (;;) {
      const Range all = unpack(word);
      if (all.size() == 0) return Range{0, 0};
      const Unit count = std::max<Unit>(1, std::min<Unit>(all.size(), wish(all.size())));
      const Range rest = {all.first + count, all.last};
      if (word_.compare_exchange_weak(word, pack(rest), std::memory_order_relaxed)) {
        return Range{all.first, rest.first};
      }
    }
  }

 private:
  static std::uint64_t pack(Range range) {
    return (static_cast<std::uint64_t>(range.first) << 32) | range.last;
  }
  static Range unpack(std::uint64_t word) {
    return Range{static_cast<Unit>(word >> 32), static_cast<Unit>(word & 0xffffffffU)};
  }

  std::atomic<std::uint64_t> word_;
  // Instead of alignas, which `new` ignores before C++17: no two words share a line.
  char apart_[cache_line - sizeof(std::atomic<std::uint64_t>)];
};

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
