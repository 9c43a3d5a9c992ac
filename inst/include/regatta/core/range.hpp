#ifndef REGATTA_CORE_RANGE_HPP
#define REGATTA_CORE_RANGE_HPP

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "config.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

using Unit = std::uint64_t;

struct Range {
  Unit first;
  Unit last;
  Unit size() const { return first < last ? last - first : 0; }
};

// A memory barrier that all other threads of the process execute too, so that they need none of
// their own; membarrier(2). Where the system has none, can_fence_all() is false. The first call may
// take some milliseconds. No static with a guard: a child forked meanwhile would find it locked.
#if defined(SYS_membarrier)
inline bool can_fence_all() {
  static std::atomic<int> answer(0);
  const int known = answer.load(std::memory_order_relaxed);
  if (known != 0) return known > 0;
  constexpr int register_expedited = 1 << 4;
  const bool can = syscall(SYS_membarrier, register_expedited, 0) == 0;
  answer.store(can ? 1 : -1, std::memory_order_relaxed);
  return can;
}
inline bool fence_all() {
  constexpr int expedited = 1 << 3;
  return syscall(SYS_membarrier, expedited, 0) == 0;
}
#else
inline bool can_fence_all() { return false; }
inline bool fence_all() { return false; }
#endif

// The units that belong to one thread and have not been begun: a stealable range. Its owner begins
// them from the front, one after the other and without asking anybody, as far as `limit_`; what is
// behind the limit others may take away, from the rear. Everything but `next_` is changed under the
// lock.
//
// A chunk up to the limit is planned to take some microseconds. Should it turn out dear, others
// take from it too: the thief sets `bound_` to 0 and makes all threads execute a memory barrier.
// The owner stores `next_` before it loads `bound_`, and begins no unit that is not below it. So
// either the owner sees the bound and stops, or the thief sees which unit it has begun; the owner
// pays for that with two plain instructions per unit, and no barrier.
class StealableRange {
 public:
  // The caller's, before there are others in its loop.
  void reset(Range range) {
    bound_.store(0, std::memory_order_relaxed);
    next_.store(range.first, std::memory_order_relaxed);
    limit_.store(range.first, std::memory_order_relaxed);
    last_.store(range.last, std::memory_order_relaxed);
  }

  // The owner's, when it has no units. A thief that comes late may be looking.
  void set(Range range) {
    std::lock_guard<SpinLock> lock(lock_);
    reset(range);
  }

  // The owner's: it has begun what is before `from` and may begin up to `count` units, as long as
  // claim() lets it. How far that is.
  Unit take(Unit from, Unit count, Ticks now) {
    std::lock_guard<SpinLock> lock(lock_);
    const Unit last = last_.load(std::memory_order_relaxed);
    const Unit limit = last - from > count ? from + count : last;
    next_.store(from, std::memory_order_relaxed);
    limit_.store(limit, std::memory_order_relaxed);
    bound_.store(limit, std::memory_order_relaxed);
    started_.store(now, std::memory_order_relaxed);
    return limit;
  }

  // The owner's, before it begins the unit before `next`; false: it is to look up instead.
  bool claim(Unit next) {
    next_.store(next, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return next <= bound_.load(std::memory_order_relaxed);
  }

  // Makes the owner look up before it begins its next unit. The lock: an owner that takes its units
  // later sees what was stored before this call.
  void look_up() {
    std::lock_guard<SpinLock> lock(lock_);
    bound_.store(0, std::memory_order_relaxed);
  }

  // The owner's: how many there are from `from` on.
  Unit left(Unit from) const { return Range{from, last_.load(std::memory_order_relaxed)}.size(); }

  // Hints, which may be wrong by the time they are read: units that can be had for the asking, and
  // whether there are any at all of an owner who has not looked up since `then`.
  Unit free() const { return left(limit_.load(std::memory_order_relaxed)); }
  bool is_dear(Ticks then) const {
    return left(next_.load(std::memory_order_relaxed)) > 0 &&
           static_cast<std::int64_t>(started_.load(std::memory_order_relaxed) - then) < 0;
  }

  // Takes the rear half of what the owner has not begun, as far as it lies behind the limit; with
  // `dear` the limit is drawn anew behind the unit that the owner is in.
  Range steal(bool dear) {
    const bool fences = dear && can_fence_all();
    std::unique_lock<SpinLock> lock(lock_, std::try_to_lock);
    if (!lock.owns_lock()) return Range{0, 0};
    Unit limit = limit_.load(std::memory_order_relaxed);
    if (dear) {
      bound_.store(0, std::memory_order_relaxed);
      // Without the barrier the owner will look up and draw the limit itself.
      if (fences && fence_all()) limit = std::min(limit, next_.load(std::memory_order_relaxed));
      limit_.store(limit, std::memory_order_relaxed);
    }
    const Unit next = std::min(limit, next_.load(std::memory_order_relaxed));
    const Unit last = last_.load(std::memory_order_relaxed);
    const Unit first = std::max(limit, next + (last - next) / 2);
    if (first >= last) return Range{0, 0};
    last_.store(first, std::memory_order_relaxed);
    return Range{first, last};
  }

 private:
  SpinLock lock_;
  // All relaxed: the lock orders them, and the barrier next_ and bound_. What the units work on was
  // published when the thread joined the loop, their results are when it leaves.
  std::atomic<Unit> bound_{0};
  std::atomic<Unit> next_{0};
  std::atomic<Unit> limit_{0};
  std::atomic<Unit> last_{0};
  std::atomic<Ticks> started_{0};
  Padding apart_;
};

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
