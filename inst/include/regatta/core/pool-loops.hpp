#ifndef REGATTA_CORE_POOL_LOOPS_HPP
#define REGATTA_CORE_POOL_LOOPS_HPP

#include "pool.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

inline DeskLease::DeskLease(Pool& pool) : desk_(nullptr), lent_(false) {
  const Frame& frame = frame_here();
  if (frame.pool == &pool && frame.desk) {
    desk_ = frame.desk->depth < max_levels ? frame.desk : nullptr;
  } else {
    desk_ = pool.lend_desk();
    lent_ = desk_ != nullptr;
  }
  if (desk_) ++desk_->depth;
}

// A guest's desk that nobody sits at; null if there is none.
inline Desk* Pool::lend_desk() {
  for (unsigned i = helper_count_; i < helper_count_ + guests; ++i) {
    if (desks_[i].take()) return &desks_[i];
  }
  return nullptr;
}

// Counts the loops the main thread is in, and prints what they have left behind.
class MainLoopScope {
 public:
  explicit MainLoopScope(Process& process) : process_(process), main_(process.on_main()) {
    if (main_) ++process.main_loops;
  }
  ~MainLoopScope() {
    if (main_ && --process_.main_loops == 0 && process_.output.waits()) print_now(process_);
  }
  MainLoopScope(const MainLoopScope&) = delete;
  MainLoopScope& operator=(const MainLoopScope&) = delete;

 private:
  Process& process_;
  const bool main_;
};

inline void Pool::run(Loop& loop, Unit units, unsigned threads) {
  const ThreadState& here = thread_state();
  if (here.frame.pool == this) loop.task = here.frame.task;
  loop.ticks_per_us = ticks_per_us_;
  loop.start = ticks_now();
  {
    MainLoopScope scope(process_);
    threads = works_elsewhere(here, process_) ? 1 : std::min(threads, helper_count_ + 1);
    bool together = threads > 1 && units > 1;
    if (together) {
      DeskLease lease(*this);
      together = lease.desk() != nullptr;
      if (together) {
        loop.threads = threads;
        run_together(loop, units, *lease.desk());
      }
    }
    if (!together) run_alone(loop, units);
  }
  throw_if_stopped(loop);
}

inline void Pool::run_alone(Loop& loop, Unit units) {
  RangeSlot slot;
  slot.set(Range{0, units});
  loop.slots = &slot;
  const bool main = process_.on_main();
  const Frame& frame = frame_here();
  Desk* const desk = frame.pool == this ? frame.desk : nullptr;
  work_for(loop, desk, 0, loop.start, [this, main, &loop](const Pace& pace) {
    if (main) attend(loop, pace, nullptr);
  });
}

inline void Pool::run_together(Loop& loop, Unit units, Desk& desk) {
  Level& level = desk.levels[desk.depth - 1];
  if (!level.slots) level.slots.reset(new RangeSlot[slot_count()]);
  loop.slots = level.slots.get();
  loop.slot_count = slot_count();
  loop.slots[0].set(Range{0, units});
  level.gate.open(&loop, loop.threads - 1);
  // Called only after its first unit a helper would do too few of a loop of few, long units.
  Ticks next_call = loop.start;
  const float usual = loop.usual_cost.load(std::memory_order_relaxed);
  if (is_enough(units - 1, usual)) {
    next_call = call_first_helper(loop.start);
  } else if (watching_.load(std::memory_order_relaxed) == 0) {
    rouse();
  }

  work_for(loop, &desk, 0, loop.start, [this, &loop, &next_call](const Pace& pace) {
    attend(loop, pace, &next_call);
  });
  if (level.gate.close() > 0) wait_for_helpers(loop, desk, level.gate);
  // The smallest loops would notice one more look at the clock.
  const double last = std::max(loop.cost.load(std::memory_order_relaxed), usual);
  if (is_enough(units, last)) loop.remember_cost(units);
}

// Between two pieces of the caller: lets others know what a unit costs, calls helpers if there is
// work for them, and on the main thread turns to the host now and then.
inline void Pool::attend(Loop& loop, const Pace& pace, Ticks* next_call) {
  if (process_.on_main()) poll_if_due(process_, us_since(process_.last_poll));
  if (!next_call) return;
  loop.cost.store(static_cast<float>(pace.cost()), std::memory_order_relaxed);
  if (static_cast<std::int64_t>(pace.now() - *next_call) < 0) return;
  if (!is_enough(loop.slots[0].peek().size(), pace.cost())) return;
  *next_call = call_first_helper(pace.now());
}

// One that calls the others. Returns when to try again, should it find no time.
inline Ticks Pool::call_first_helper(Ticks now) {
  call_helpers(1);
  return now + static_cast<Ticks>(1000.0 * ticks_per_us_);
}

// The caller has nothing left to begin. It takes back what helpers have not begun and helps with
// the loops inside their bodies; loops elsewhere could need a lock that this thread holds.
inline void Pool::wait_for_helpers(Loop& loop, Desk& desk, Gate& gate) {
  Ticks since = ticks_now();
  while (gate.inside() > 0) {
    Pace pace(loop, ticks_now());
    if (!loop.stopped() && steal(loop, 0, pace)) {
      work_for(loop, &desk, 0, ticks_now(), [this, &loop](const Pace& now) { attend(loop, now, nullptr); });
      since = ticks_now();
    } else if (help_below(desk, loop)) {
      since = ticks_now();
    } else if (us_since(since) < spin_us) {
      pause_cpu(4);
    } else {
      doze(gate);
    }
    attend(loop, pace, nullptr);
  }
}

inline void Pool::doze(const Gate& gate) {
  waiting_.announce();
  if (gate.inside() == 0) {
    waiting_.withdraw();
  } else {
    waiting_.sleep(poll_us);
  }
}

// A loop that has been there for a moment; a helper that was called does not hesitate.
inline Gate* Pool::choose_gate(Helper& me, std::uint64_t* word) {
  const Ticks now = ticks_now();
  for (int level = 0; level < max_levels; ++level) {
    for (unsigned i = 0; i < helper_count_ + guests; ++i) {
      Gate& gate = desks_[i].levels[level].gate;
      *word = gate.peek();
      if (!Gate::has_room(*word) || &desks_[i] == me.desk) continue;
      if (me.left.is(&gate, *word) && us_since(me.left.when) < spin_us) continue;
      if (me.called) return &gate;
      if (!me.candidate.is(&gate, *word)) {
        me.candidate = Sight(&gate, *word, now);
        return nullptr;
      }
      return us_since(me.candidate.when) < ripe_us ? nullptr : &gate;
    }
  }
  return nullptr;
}

inline bool Pool::join_loop(Helper& me) {
  std::uint64_t word = 0;
  Gate* const gate = choose_gate(me, &word);
  me.called = me.called && gate;
  Loop* const loop = gate ? gate->join(word) : nullptr;
  if (!loop) return false;
  // While all who watch have work, nobody would see that this loop can use more threads.
  if (stop_watching(me) && helper_count_ > 1 && Gate::has_room(gate->peek()) &&
      loop->slots[0].peek().size() > 1) {
    call_helpers(1);
  }
  help(*me.desk, *gate, *loop);
  me.left = Sight(gate, word, ticks_now());
  return true;
}

// Between join() and leave() of the gate.
inline void Pool::help(Desk& desk, Gate& gate, Loop& loop) {
  const unsigned own = static_cast<unsigned>(&desk - desks_.get()) + 1;
  Pace pace(loop, ticks_now());
  if (steal(loop, own, pace)) {
    // While the caller's first unit takes its time, each unit is taken to last as long as that.
    const double so_far = static_cast<double>(pace.now() - loop.start);
    const double usual = loop.usual_cost.load(std::memory_order_relaxed);
    const double cost = pace.cost() > 0.0 ? pace.cost() : std::max(usual, so_far);
    if (is_enough(loop.slots[0].peek().size(), cost) && Gate::has_room(gate.peek())) {
      call_helpers(2);
    }
    work_for(loop, &desk, own, ticks_now(), [](const Pace&) {});
  }
  leave(gate);
}

// From here on the loop may be gone.
inline void Pool::leave(Gate& gate) {
  if (gate.leave()) waiting_.wake_all();
}

// Joins a loop that a body of the loop `above` has opened; false if there is none.
inline bool Pool::help_below(Desk& desk, const Loop& above) {
  bool helped = false;
  for (unsigned i = 0; i < helper_count_ + guests && !helped; ++i) {
    if (&desks_[i] == &desk) continue;
    for (int level = 0; level < max_levels && !helped; ++level) {
      Gate& gate = desks_[i].levels[level].gate;
      Loop* const loop = gate.join(gate.peek());
      if (!loop) continue;
      helped = loop->is_inside(&above) && loop->slots[0].peek().size() > 0;
      if (helped) {
        help(desk, gate, *loop);
      } else {
        leave(gate);
      }
    }
  }
  return helped;
}

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
