#ifndef REGATTA_CORE_GATE_HPP
#define REGATTA_CORE_GATE_HPP

#include <atomic>

#include "config.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

struct Loop;

// Where a loop is open to helpers. The gate outlives the loop, which lies on its caller's stack:
// a helper may touch the loop only between a join() that succeeded and its leave(), and the caller
// does not return before everybody has left.
//
// The word: helpers inside in bits 0-15, whether it is open in bit 16, the most helpers it admits
// in bits 17-31, the number of the loop in bits 32-63.
class Gate {
 public:
  Gate() : word_(0), loop_(nullptr) {}

  static bool has_room(std::uint64_t word) {
    return (word & open_bit) != 0 && inside(word) < ((word >> 17) & 0x7fff);
  }
  static std::uint32_t number(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }
  static unsigned inside(std::uint64_t word) { return static_cast<unsigned>(word & 0xffff); }

  // relaxed: only a hint; join() decides.
  std::uint64_t peek() const { return word_.load(std::memory_order_relaxed); }

  // The caller's: no helper is inside and none comes while the gate is closed, so a store will do.
  // release: a helper that joins sees the loop.
  void open(Loop* loop, unsigned room) {
    loop_ = loop;
    const std::uint64_t next = (word_.load(std::memory_order_relaxed) >> 32) + 1;
    word_.store((next << 32) | (static_cast<std::uint64_t>(room & 0x7fff) << 17) | open_bit,
                std::memory_order_release);
  }

  // acquire: the results of helpers that have left are seen. Returns how many are still inside.
  unsigned close() { return inside(word_.fetch_and(~open_bit, std::memory_order_acquire)); }
  // seq_cst for the caller that goes to sleep after it: see EventCount.
  unsigned inside() const { return inside(word_.load(std::memory_order_seq_cst)); }

  // acquire: see open(). Null if the loop that `word` tells of is over or has no room.
  Loop* join(std::uint64_t word) {
    if (!has_room(word)) return nullptr;
    if (!word_.compare_exchange_strong(word, word + 1, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
      return nullptr;
    }
    return loop_;
  }

  // release, and more because of EventCount: what the helper has done is seen by the caller. True if
  // the caller waits for this helper.
  bool leave() {
    const std::uint64_t before = word_.fetch_sub(1, std::memory_order_seq_cst);
    return inside(before) == 1 && (before & open_bit) == 0;
  }

 private:
  static constexpr std::uint64_t open_bit = 1U << 16;

  std::atomic<std::uint64_t> word_;
  Loop* loop_;
  Padding<> apart_;
};

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
