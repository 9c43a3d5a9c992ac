#ifndef REGATTA_CORE_LOOP_HPP
#define REGATTA_CORE_LOOP_HPP

#include <algorithm>
#include <atomic>
#include <memory>

#include "context.hpp"
#include "gate.hpp"
#include "poll.hpp"
#include "range.hpp"

REGATTA_NAMESPACE_BEGIN

namespace detail {

class Pool;
struct Desk;

// A piece is as many units as take about this long: long enough to make the bookkeeping between
// pieces (some 30 ns) vanish, short enough to be reached by an interrupt or to leave work to others.
constexpr double piece_us = 2.0;
// A body may get slower from one unit to the next; more units than this are never bet on.
constexpr Unit max_piece = 4096;
// By how much a piece may be longer than the one before it.
constexpr Unit piece_growth = 32;

// A loop while it runs, on the stack of its caller. All but the atomics is written before the
// gate opens and only read afterwards.
struct Loop : Context {
  // Calls the body for the units of the range.
  using Run = void (*)(Loop& loop, Range range, Desk* desk);

  Loop(Process& in, Run with, std::atomic<float>& last_cost)
      : Context(in, frame_here().context, &first_exception, nullptr), run(with), slots(nullptr), slot_count(1), threads(1), max_units(max_piece),
        ticks_per_us(1000.0), start(0), 
        task(nullptr), usual_cost(last_cost), cost(0.0f) {}

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

  const Run run;
  RangeSlot* slots;      // one per thread that may take part, the caller's first
  unsigned slot_count;
  unsigned threads;      // that take part at most, the caller included
  Unit max_units;        // in one piece
  double ticks_per_us;
  Ticks start;
  Task* task;            // the pool's task that this loop is part of
  Failure first_exception;

  // Ticks per unit in the last loop with this body, 0 if there was none. It decides only when
  // helpers are called, since this loop may be a different one. relaxed: a guess.
  std::atomic<float>& usual_cost;
  // Ticks per unit as the caller last saw it, 0 while unknown. relaxed: a guess to pace by.
  std::atomic<float> cost;};

// Decides for one thread how many units of a loop it takes at once.
class Pace {
 public:
  Pace(Loop& loop, Ticks now) : loop_(loop), next_(1), cost_(0.0), last_(now) {
    const double known = loop.cost.load(std::memory_order_relaxed);
    if (known > 0.0) plan(known, max_piece);
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
    plan(std::max(took, 1.0) / units, next_ < max_piece ? next_ * piece_growth : max_piece);
  }

  // How many of the `size` units that another thread has not begun this one should take over:
  // a share that leaves enough for everybody to end at about the same time, yet not less than a
  // piece. They stay open to others until begun.
  Unit share(Unit size) const {
    return std::max(size / (2 * loop_.threads), std::min(next_, loop_.max_units));
  }

  // Fetching a unit from another core costs some 100 ns.
  bool is_worth(Unit size) const {
    return size > 0 && (cost_ <= 0.0 || size * cost_ > 0.3 * loop_.ticks_per_us);
  }

 private:
  void plan(double cost, Unit most) {
    cost_ = cost;
    const double units = piece_us * loop_.ticks_per_us / cost;
    const Unit limit = std::min(std::min(most, max_piece), loop_.max_units);
    next_ = units < limit ? std::max<Unit>(1, static_cast<Unit>(units)) : limit;
  }

  Loop& loop_;
  Unit next_;
  double cost_;
  Ticks last_;
};

// Takes over units of another thread into the slot `own`, the caller's first: they come next in
// the order of the loop. False if there are none worth it.
inline bool steal(Loop& loop, unsigned own, Pace& pace) {
  for (unsigned i = 0; i < loop.slot_count; ++i) {
    RangeSlot& slot = loop.slots[i];
    if (i == own || !pace.is_worth(slot.peek().size())) continue;
    const Range range = slot.take([&pace](Unit size) { return pace.share(size); });
    if (range.size() == 0) continue;
    loop.slots[own].set(range);
    pace.restart();
    return true;
  }
  return false;
}

// Works for the loop, from `now` on, until nothing is left to begin. `after_piece(pace)` is called
// between pieces.
template <class AfterPiece>
void work_for(Loop& loop, Desk* desk, unsigned own, Ticks now, const AfterPiece& after_piece) {
  try {
    Pace pace(loop, now);
    while (!loop.stopped()) {
      const Range range = loop.slots[own].take([&pace](Unit) { return pace.next(); });
      if (range.size() == 0) {
        if (loop.slot_count == 1 || !steal(loop, own, pace)) return;
        continue;
      }
      loop.run(loop, range, desk);
      // To look at the clock once more would be a tenth of the cost of the smallest loops.
      if (loop.slot_count == 1 && loop.slots[own].peek().size() == 0) return;
      pace.finished(range.size());
      after_piece(pace);
    }
  } catch (...) {
    loop.record_current();
  }
  loop.slots[own].clear();
}

constexpr int max_levels = 3;

// Loops within loops of one thread, the outermost first: helpers look there first, since its
// units are the largest.
struct Level {
  Gate gate;
  std::unique_ptr<RangeSlot[]> slots;
};

// Where one thread opens its loops. Those of helpers are their own, others are lent.
struct Desk {
  Desk() : taken(false), depth(0) {}

  // acquire and release: the next thread at the desk finds it as the last one left it.
  bool take() {
    return !taken.load(std::memory_order_relaxed) && !taken.exchange(true, std::memory_order_acquire);
  }
  void give_back() { taken.store(false, std::memory_order_release); }

  Level levels[max_levels];
  std::atomic<bool> taken;
  int depth;
};

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
