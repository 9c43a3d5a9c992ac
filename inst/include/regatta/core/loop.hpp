#ifndef REGATTA_CORE_LOOP_HPP
#define REGATTA_CORE_LOOP_HPP

#include <algorithm>
#include <atomic>
#include <memory>

#include "context.hpp"
#include "poll.hpp"
#include "range.hpp"

REGATTA_NAMESPACE_BEGIN

namespace detail {

struct Loop;

// Run-down protection of a loop: a tagged reference count. It outlives the loop, which lies on its caller's stack:
// a worker may touch the loop only between a join() that succeeded and its leave(), and the caller
// does not return before everybody has left.
//
// The word: workers inside in bits 0-15, whether it is open in bit 16, the most workers it admits
// in bits 17-31, the number of the loop in bits 32-63.
class Rundown {
 public:
  static bool has_room(std::uint64_t word) {
    return (word & open_bit) != 0 && inside(word) < ((word >> 17) & 0x7fff);
  }
  static std::uint32_t number(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }
  static unsigned inside(std::uint64_t word) { return static_cast<unsigned>(word & 0xffff); }

  // relaxed: only a hint; join() decides.
  std::uint64_t peek() const { return word_.load(std::memory_order_relaxed); }

  // The caller's: no worker is inside and none comes while the rundown is closed, so a store will do.
  // release: a worker that joins sees the loop.
  void open(Loop* loop, unsigned room) {
    loop_ = loop;
    const std::uint64_t next = (word_.load(std::memory_order_relaxed) >> 32) + 1;
    word_.store((next << 32) | (static_cast<std::uint64_t>(room & 0x7fff) << 17) | open_bit,
                std::memory_order_release);
  }

  // acquire: the results of workers that have left are seen. Returns how many are still inside.
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

  // release, and more because of EventCount: what the worker has done is seen by the caller. True if
  // the caller waits for this worker.
  bool leave() {
    const std::uint64_t before = word_.fetch_sub(1, std::memory_order_seq_cst);
    return inside(before) == 1 && (before & open_bit) == 0;
  }

 private:
  static constexpr std::uint64_t open_bit = 1U << 16;

  std::atomic<std::uint64_t> word_{0};
  Loop* loop_ = nullptr;
  Padding apart_;
};

class Pool;

// A chunk is as many units as take about this long: long enough to make the bookkeeping between
// two of them (some 30 ns) vanish, short enough to leave work to others.
constexpr double chunk_us = 2.0;
constexpr Unit max_chunk = 4096;
// By how much a chunk may be longer than the one before it.
constexpr Unit chunk_growth = 32;
// A chunk that has taken this long has turned out dear, and others take from it.
constexpr double dear_us = 10.0 * chunk_us;
// Units in a chunk of the main thread while nothing would make it look up.
constexpr Unit unticked_units = 64;

class LoopWork;

// A loop while it runs, on the stack of its caller. All but the atomics is written before the
// rundown opens and only read afterwards.
struct Loop : Context {
  // Calls the body for units as long as work.next() gives some.
  using Run = void (*)(Loop& loop, LoopWork& work);

  Loop(Process& in, Run with, std::atomic<float>& last_cost)
      : Context(in, frame_here().context, &first_exception, nullptr), run(with), usual_cost(last_cost) {}

  // For the next loop with the same body: the mean of all units, since a loop may end with short
  // ones. Threads would fight for the place if each wrote to it, so that only a clear change is
  // written down.
  void remember_cost(Unit units) {
    const float now = static_cast<float>(ticks_now() - start) * static_cast<float>(threads) /
                      static_cast<float>(units);
    const float before = usual_cost.load(std::memory_order_relaxed);
    if (now > 2.0f * before || 2.0f * now < before) {
      usual_cost.store(now, std::memory_order_relaxed);
    }
  }

  // A chunk that was begun before this moment and has not ended has turned out dear.
  Ticks dear_before(Ticks now) const { return now - static_cast<Ticks>(dear_us * process.ticks_per_us); }

  // Units that a thread that comes can have for the asking.
  Unit free() const {
    Unit sum = 0;
    for (unsigned i = 0; i < range_count; ++i) sum += ranges[i].free();
    return sum;
  }

  // Whether a thread that comes would find units.
  bool has_work(Ticks now) const {
    const Ticks then = dear_before(now);
    for (unsigned i = 0; i < range_count; ++i) {
      if (ranges[i].free() > 0 || ranges[i].is_dear(then)) return true;
    }
    return false;
  }

  const Run run;
  StealableRange* ranges = nullptr;  // one per thread that may take part, the caller's first
  unsigned range_count = 1;
  unsigned threads = 1;        // that take part at most, the caller included
  Unit max_units = max_chunk;  // in one chunk
  Ticks start = 0;
  Failure first_exception;

  // Ticks per unit in the last loop with this body, 0 if there was none. It decides only when
  // workers are called, since this loop may be a different one. relaxed: a guess.
  std::atomic<float>& usual_cost;
  // Ticks per unit as the caller last saw it, 0 while unknown. relaxed: a guess to pace by.
  std::atomic<float> cost{0.0f};
};

// The adaptive grain: decides for one thread how many units of a loop it runs between two looks at
// the clock.
class AdaptiveGrain {
 public:
  AdaptiveGrain(Loop& loop, Ticks now) : loop_(loop), last_(now) {
    const double known = loop.cost.load(std::memory_order_relaxed);
    if (known > 0.0) plan(known, max_chunk);
  }

  Unit next() const { return next_; }
  Ticks now() const { return last_; }
  double cost() const { return cost_; }

  // Has stolen or waited: that time belongs to no unit.
  void restart() { last_ = ticks_now(); }

  void finished(Unit units) {
    const Ticks now = ticks_now();
    const double took = static_cast<double>(now - last_);
    last_ = now;
    plan(std::max(took, 1.0) / static_cast<double>(units),
         next_ < max_chunk ? next_ * chunk_growth : max_chunk);
  }

  // Fetching a unit from another core costs some 100 ns.
  bool is_worth(Unit size) const {
    return size > 0 &&
           (cost_ <= 0.0 || static_cast<double>(size) * cost_ > 0.3 * loop_.process.ticks_per_us);
  }

 private:
  void plan(double cost, Unit most) {
    cost_ = cost;
    const double units = chunk_us * loop_.process.ticks_per_us / cost;
    const Unit limit = std::min(std::min(most, max_chunk), loop_.max_units);
    next_ = units < static_cast<double>(limit) ? std::max<Unit>(1, static_cast<Unit>(units)) : limit;
  }

  Loop& loop_;
  Unit next_ = 1;
  double cost_ = 0.0;
  Ticks last_;
};

constexpr int max_levels = 3;

// Loops within loops of one thread, the outermost first: workers look there first, since its
// units are the largest.
struct Level {
  Rundown rundown;
  std::unique_ptr<StealableRange[]> ranges;
  // Whether a loop is under way here. acquire and release: who sees it sees the ranges.
  std::atomic<bool> live{false};
};

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
